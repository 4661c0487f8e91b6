"""Finds the positions of all that a query reads, also below views."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dbt.adapters.mvsink.engine import DataflowError, Engine, EngineError
from dbt.adapters.mvsink.inputs.described import SETTINGS, plain_description, quoted, stable
from dbt.adapters.mvsink.inputs.position import FILE_LIST, Position, shard_position
from dbt.adapters.mvsink.inputs.protocol import CatalogTable, TableOptions
from dbt.adapters.mvsink.inputs.reads import Reads
from dbt.adapters.mvsink.inputs.reference import References
from dbt.adapters.mvsink.inputs.registry import FORMATS, VERSIONED
from dbt.adapters.mvsink.shard import ShardClient, ShardError
from dbt.adapters.mvsink.shard_sql.published_view import read_marker
from dbt.adapters.mvsink.user_sql.checks import uncertain
from dbt.adapters.mvsink.user_sql.words import parts


@dataclass(frozen=True)
class Inspector:
    """Finds positions. ``known``: descriptions of relations, by database and name; None if it has
    none as JSON.
    """

    options: TableOptions
    references: References
    known: Mapping[tuple[str, ...], Mapping[str, Any] | None] = field(default_factory=dict, repr=False)

    def positions(self, reads: Reads) -> tuple[Position, ...]:
        """Of all that a query reads, apart from the references that are shards."""
        positions: dict[str, Position] = {}
        self._walk(reads, positions, "the query")
        return tuple(positions.values())

    def at_the_start(self) -> Inspector:
        """The same for a run that begins: the catalog was asked when the references were found."""
        known = {name[-2:]: description for name, description in self.references.descriptions.items()}
        return replace(self, known=known)

    def shards(self, time: int) -> tuple[Position, ...]:
        """Of the references that are shards, for contents as of ``time`` (ms)."""
        return tuple(
            shard_position(name, reference.state, reference.time_for(time), reference.described_columns)
            for name, reference in sorted(self.references.shards.items())
        )

    def manifest(self, name: str) -> int:
        """The number of a table's files as they are now; 0 if it cannot be known."""
        position = self._table(name)
        return position.number if position.kind == FILE_LIST and not position.problem else 0

    def _walk(self, reads: Reads, positions: dict[str, Position], reader: str) -> None:
        if reads.unknown:
            positions[f"{reader}: "] = Position(reader, "other", problem=f"{reader} reads {reads.unknown}")
        for name in reads.tables:
            positions.setdefault(name, self._table(name))
        for name in reads.views:
            if name in positions:
                continue
            positions[name], published = self._view(name)
            if not published:
                self._walk(reads.below[name], positions, name)

    def _view(self, name: str) -> tuple[Position, bool]:
        """A view's position, and whether it shows a shard: then what is below it is known."""
        try:
            facts = self._description(name)
            text = str(facts.get("view_text", ""))
            marker = read_marker(text)
            if marker is not None:
                with ShardClient(self.options.storage_options).open_reader(marker.uri) as reader:
                    state = reader.state()
                upper = state.upper.as_option()
                read_at = state.upper.stored() if upper is None else upper - 1
                columns = [json.dumps(column, sort_keys=True) for column in facts.get("columns", ())]
                return shard_position(name, state, read_at, columns), True
        except (DataflowError, ShardError) as error:
            return Position(name, "view", problem=f"{name}: {error}"), True
        settings = facts.get(SETTINGS)
        if not text or settings is None:
            return Position(name, "view", problem=f"Spark does not show the text of {name}"), False
        reason = uncertain(text)
        if reason:
            return Position(name, "view", problem=f"in {name}: {reason}"), False
        return Position(name, "view", definition=stable(facts)), False

    def _description(self, name: str) -> Mapping[str, Any]:
        """See `described`."""
        known = self.known.get(parts(name)[-2:], {})
        if known is None:
            facts = plain_description(self.options.engine, name)
            if facts.get("provider", "").lower() in VERSIONED:
                return facts
        return (
            known if known and _described_name(known) == parts(name) else described(self.options.engine, name)
        )

    def _table(self, name: str) -> Position:
        try:
            facts = self._description(name)
            provider = str(facts.get("provider", "")).lower()
            if provider in FORMATS:
                table = CatalogTable(name, str(facts.get("location", "")), description=facts)
                return FORMATS[provider].position(table, self.options, self.references.version_of(name))
        except (DataflowError, ShardError, OSError) as error:
            return Position(name, "table", problem=f"{name}: {error}")
        return Position(name, "table", problem=f"{name} is a table of {provider or 'unknown format'}")


def described(engine: Engine, name: str) -> Mapping[str, Any]:
    """The description of ``catalog.db.name``: at least `provider` and `location` of a table, and
    `view_text` of a view. Raises `EngineError`.
    """
    try:
        [[text]] = engine.query(f"describe table extended {quoted(name)} as json", "catalog")
    except EngineError as error:
        facts = plain_description(engine, name)
        if facts.get("provider", "").lower() not in VERSIONED:
            raise error
        return facts
    description: Mapping[str, Any] = json.loads(str(text))
    return description


def _described_name(description: Mapping[str, Any]) -> tuple[str, ...]:
    spelled = [
        description.get("catalog_name"),
        *description.get("namespace", ()),
        description.get("table_name"),
    ]
    return tuple(str(part).lower() for part in spelled)
