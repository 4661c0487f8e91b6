"""The inputs of a view's query: their positions, also below views (`Inspector`), which of them have
changed, and what they are read as, then and now (`QueryInputs`).

For example, only `db.a` in `select * from db.a join db.b using (k)` has changed since the contents
were computed. Then `changed` is the position of `db.a`, and `sides` are `db.a` with its change and
`db.b` without one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dbt.adapters.mvsink.engine import Column, DataflowError, Engine, EngineError, parse_type
from dbt.adapters.mvsink.engine.types import PADDED
from dbt.adapters.mvsink.inputs.described import SETTINGS, plain_description, quoted, stable
from dbt.adapters.mvsink.inputs.position import (
    CLOCK,
    FILE_LIST,
    VERSION,
    InputSides,
    Position,
    QueryRows,
    shard_position,
)
from dbt.adapters.mvsink.inputs.protocol import CatalogTable, TableOptions, at_version
from dbt.adapters.mvsink.inputs.reads import Reads
from dbt.adapters.mvsink.inputs.reference import References
from dbt.adapters.mvsink.inputs.registry import FORMATS, VERSIONED
from dbt.adapters.mvsink.inputs.shard_changes import sides_of_shard, unchanged_shard
from dbt.adapters.mvsink.reasons import EvaluateFully, Why
from dbt.adapters.mvsink.shard import ShardClient, ShardError
from dbt.adapters.mvsink.shard_sql.published_view import fingerprint, read_marker
from dbt.adapters.mvsink.user_sql.checks import uncertain
from dbt.adapters.mvsink.user_sql.words import parts


@dataclass(frozen=True)
class QueryInputs:
    """A query's inputs. ``positions`` are those of everything that it reads now, and ``recorded``
    the earlier ones; ``reads`` is what it reads besides ``references``. ``refused_views`` says why
    views were not inlined into the query, by the last two parts of their names.
    """

    options: TableOptions
    references: References
    reads: Reads
    positions: Sequence[Position]
    recorded: Callable[[str], int | None]
    refused_views: Mapping[tuple[str, ...], str] = field(default_factory=dict)

    @property
    def changed(self) -> list[Position]:
        """The positions of inputs whose rows may differ from what was read."""
        return [position for position in self.positions if not position.unchanged(self.recorded)]

    def unknown(self) -> set[str]:
        """The names of the inputs that do not show what changes in them."""
        return {each.name for each in self.positions if each.problem or not self._followed(each)}

    def named_twice(self) -> str | None:
        """A name whose last two parts are also those of another input, so that either may be
        meant.
        """
        names = Counter(parts(position.name)[-2:] for position in self.positions)
        return next((".".join(name) for name, times in names.items() if times > 1), None)

    def why_unknown(self, position: Position) -> EvaluateFully | None:
        """Why the change of the input at ``position`` is not known."""
        if position.problem:
            return EvaluateFully(Why.UNKNOWN_INPUT, position.problem)
        if self.recorded(position.id) is None:
            return EvaluateFully(Why.NO_POSITION, position.name)
        if position.reshaped(self.recorded):
            return EvaluateFully(Why.COLUMNS, position.name)
        if self._followed(position):
            return None
        why = self._view_above(position.name)
        if files := position.new_files(self.recorded):
            return EvaluateFully(Why.NEW_FILES, position.name, files, why)
        return EvaluateFully(Why.NO_CHANGES, position.name, why)

    def _followed(self, position: Position) -> bool:
        """Whether the input keeps a history of its changes and the query reads it in a form that
        has one.
        """
        if position.kind == CLOCK or position.name in self.references.shards:
            return True
        below = {name for reads in self.reads.below.values() for name in (*reads.every_table, *reads.below)}
        pinned = self.references.version_of(position.name) is not None
        return position.kind in VERSIONED and position.name not in below and pinned

    def _view_above(self, name: str) -> str:
        """Why the view through which the query reads ``name`` was not inlined, as a clause."""
        for view, reads in self.reads.below.items():
            reason = self.refused_views.get(parts(view)[-2:])
            if reason and (name == view or name in reads.every_table or name in reads.below):
                return f": it is read through the view {view}, and {reason}"
        return ""

    def columns_of(self, name: str) -> list[tuple[str, str]] | None:
        """See `name_resolution.ColumnsOf`. Only relations about which the run knows everything have
        columns.
        """
        key = parts(name)
        reference = next((each for each in self.references.shards.values() if parts(each.name) == key), None)
        if reference is not None:
            return reference.described_columns
        table = self.references.tables.get(key)
        known = {parts(each)[-2:] for each in (*self.reads.tables, *self.reads.views)}
        if len(key) < 2 or key[-2:] not in known:
            return None
        if table is not None and (columns := table.of_a_query()) is not None:
            return columns
        try:
            return self._declared(name, self.options.engine.columns(f"select * from {name}"))
        except EngineError:
            return None

    def _declared(self, name: str, columns: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """The same, with CHAR(n) where it is declared. In a query's columns Spark calls it STRING;
        it pads it where it is compared by `=`, but not by IN or once it is stored elsewhere.
        """
        if not any("string" in kind for _, kind in columns):
            return columns
        rows = self.options.engine.query(f"describe {name}", "describe")
        declared = {str(row[0]).lower(): str(row[1]) for row in reversed(rows)}
        padded = {column: kind for column, kind in declared.items() if PADDED.search(kind)}
        return [(column, padded.get(column.lower(), kind)) for column, kind in columns]

    def sides(
        self, relations: Iterable[str], changed: Collection[str]
    ) -> Iterator[InputSides | EvaluateFully]:
        """What the query's relations are read as."""
        by_parts = {parts(position.name)[-2:]: position for position in self.positions}
        for name in relations:
            key = parts(name)
            position = by_parts.get(key[-2:])
            reference = next(
                (each for each in self.references.shards.values() if parts(each.name) == key), None
            )
            if reference is not None and position is not None:
                yield self._shard(name, position, changed)
            elif position is not None and (version := self.references.version_of(position.name)) is not None:
                yield self._table(name, position, version, changed)
            else:
                rows = QueryRows(f"select * from {name}")
                yield InputSides(name, self._columns(name), rows, rows)

    def updates(self) -> int | None:
        """How many updates the changed inputs have, at most. None if one does not count them."""
        total, shards = 0, self.references.shards
        for position in self.changed:
            if position.kind == CLOCK or position.name not in shards or self.why_unknown(position):
                return None
            sides = self._shard(shards[position.name].name, position, {position.name})
            if isinstance(sides, EvaluateFully) or sides.updates is None:
                return None
            total += sides.updates
        return total

    def _shard(self, name: str, position: Position, changed: Collection[str]) -> InputSides | EvaluateFully:
        reference, now = self.references.shards[position.name], position.number
        before = self.recorded(position.id)
        if position.name not in changed or before is None:
            return unchanged_shard(name, reference, now)
        return sides_of_shard(name, reference, before, now, self.recorded(position.id + VERSION))

    def _table(
        self, name: str, position: Position, version: int, changed: Collection[str]
    ) -> InputSides | EvaluateFully:
        before = self.recorded(position.id)
        if position.name not in changed or before is None:
            rows = at_version(name, version)
            return InputSides(name, self._columns(name), rows, rows)
        return VERSIONED[position.kind].sides(name, position, before, version, self.options)

    def _columns(self, name: str) -> tuple[Column, ...]:
        return tuple(Column(each, parse_type(kind, each)) for each, kind in self.columns_of(name) or ())


@dataclass(frozen=True)
class Inspector:
    """Finds positions. ``known`` has the descriptions of relations by database and name, None for
    one that has none as JSON.
    """

    options: TableOptions
    references: References
    known: Mapping[tuple[str, ...], Mapping[str, Any] | None] = field(default_factory=dict, repr=False)

    def positions(self, reads: Reads) -> tuple[Position, ...]:
        """The positions of everything that a query reads, except references that are shards."""
        positions: dict[str, Position] = {}
        self._walk(reads, positions, "the query")
        return tuple(positions.values())

    def at_the_start(self) -> Inspector:
        """The same at the start of a run: the catalog was asked when the references were
        resolved.
        """
        references = self.references
        known = {name[-2:]: description for name, description in references.descriptions.items()}
        known |= {name[-2:]: table.details for name, table in references.tables.items()}
        return replace(self, known=known)

    def shards(self, time: int) -> tuple[Position, ...]:
        """The positions of references that are shards, for contents as of ``time`` (ms)."""
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
        """A view's position, and whether it shows a shard; then what it reads is known."""
        try:
            facts = self._description(name)
            text = str(facts.get("view_text", ""))
            marker = read_marker(text)
            if marker is not None:
                with ShardClient(self.options.storage_options).open_reader(marker.uri) as reader:
                    state = reader.state()
                if marker.files != fingerprint(state):  # a run was killed before it published the view
                    problem = f"{name} shows an earlier version of its shard"
                    return Position(name, "view", problem=problem), True
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
        if known and _describes(known, name):
            return known
        if known is None or self.references.version_of(name) is not None:  # which have none as JSON
            facts = plain_description(self.options.engine, name)
            if facts.get("provider", "").lower() in VERSIONED:
                return facts
        return described(self.options.engine, name)

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
    """The description of ``catalog.db.name``: at least `provider` and `location` for a table, and
    `view_text` for a view. Raises `EngineError`.
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


def _describes(description: Mapping[str, Any], name: str) -> bool:
    """Whether it is the description of ``catalog.db.name``."""
    if "name" in description:  # the plain one, which quotes nothing
        return str(description["name"]).lower() == ".".join(parts(name))
    spelled = [
        description.get("catalog_name"),
        *description.get("namespace", ()),
        description.get("table_name"),
    ]
    return tuple(str(part).lower() for part in spelled) == parts(name)
