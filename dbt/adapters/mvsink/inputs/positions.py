"""The positions of a query's inputs, which show whether they are as they were at the last refresh.

| input | position |
|---|---|
| a shard | the time that it is read at, and a number for its live files |
| a Delta table | its version |
| an Iceberg table | its snapshot |
| a table of files | a number for its data files: paths, sizes, modification times |
| a view | none of its own: its text, the settings it was created with, and what it reads |
| `mv_now()` | the time of the contents |

Equal positions mean equal rows. An input for which that cannot be guaranteed has a `Position` with
a problem.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.engine import DataflowError, Engine, EngineError, sql
from dbt.adapters.mvsink.inputs.delta import DeltaInput
from dbt.adapters.mvsink.inputs.files import FilesInput
from dbt.adapters.mvsink.inputs.iceberg import current_snapshot
from dbt.adapters.mvsink.inputs.reads import Reads
from dbt.adapters.mvsink.inputs.reference import References
from dbt.adapters.mvsink.inputs.registry import OF_FILES
from dbt.adapters.mvsink.shard import ShardClient, ShardError, ShardState, files_number, number_of
from dbt.adapters.mvsink.shard_sql.published_view import read_marker, view_properties
from dbt.adapters.mvsink.shard_sql.session_settings import EXACT
from dbt.adapters.mvsink.user_sql.determinism import uncertain
from dbt.adapters.mvsink.user_sql.words import names, parts, words

FILES, COLUMNS, VERSION = (
    "/files",
    "/columns",
    "/version",
)  # what the ids of a shard's further numbers end with
SHARD = "shard"  # the kind of maintained models
CLOCK = "clock"  # the kind of `mv_now()`
DELTA, ICEBERG = "delta", "iceberg"  # the kinds of tables with versions, and their providers
RACY = 2_000  # ms
SETTINGS = "view_creation_spark_configuration"
# of a table's description: what does not decide its rows, or is a position
CHANGEABLE = (
    "created_time",
    "created_by",
    "last_access",
    "owner",
    "statistics",
    "comment",
    "table_properties",
)


@dataclass(frozen=True)
class Position:
    """One input. ``number``: a time in ms, a version, or a manifest's number.

    ``files``, ``newest`` and ``version``, of a shard: `files_number`, the newest time (ms) in its
    files, and the version of its log. ``columns``: a number for its columns as it shows them, in
    order, with their types: a query may name them by place. ``definition``: what else decides its
    rows. ``size``: bytes
    that hold its rows, or None. ``location``: of a Delta table. ``problem``: why it cannot be
    known, as a clause.
    """

    name: str
    kind: str
    id: str = ""
    number: int = 0
    files: int | None = None
    newest: int = 0
    columns: int | None = None
    definition: str = ""
    problem: str = ""
    version: int | None = None
    size: int | None = None
    location: str = ""

    def numbers(self) -> Iterator[tuple[str, int]]:
        """What is recorded, by id."""
        if self.id:
            yield self.id, self.number
            if self.files is not None:
                yield self.id + FILES, self.files
            if self.columns is not None:
                yield self.id + COLUMNS, self.columns
            if self.version is not None:
                yield self.id + VERSION, self.version

    def unchanged(self, recorded: Callable[[str], int | None]) -> bool:
        """Whether its rows are those that were read at what is ``recorded``."""
        if self.problem:
            return False
        if not self.id:
            return True
        if self.reshaped(recorded):
            return False
        number = recorded(self.id)
        if self.files is None or number is None:
            return number == self.number
        return recorded(self.id + FILES) == self.files and self.newest <= number <= self.number

    def reshaped(self, recorded: Callable[[str], int | None]) -> bool:
        """Whether it may show other columns than it had when it was read."""
        return self.columns is not None and recorded(self.id + COLUMNS) != self.columns

    def __str__(self) -> str:
        """What decides the rows besides the position."""
        return f"{self.kind} {self.name} {self.id} {self.definition}"


def shard_position(name: str, state: ShardState, read_at: int, columns: Iterable[object]) -> Position:
    """A shard in ``state``, read as of ``read_at`` (ms). ``columns``: with types, in order."""
    times = [file.max_time for file in state.files]
    if any(time is None for time in times):
        return Position(name, SHARD, problem=f"{name} has files of another tool")
    newest = max((time for time in times if time is not None), default=0)
    identity = f"{state.shard_id}/{state.generation}"
    return Position(
        name,
        SHARD,
        identity,
        read_at,
        files_number(state.files),
        newest,
        number_of(f"{place} {column}" for place, column in enumerate(columns)),
        version=state.version,
        size=sum(file.size for file in state.files),
    )


def clock_position(time: int) -> Position:
    """`mv_now()` in contents as of ``time`` (ms)."""
    return Position("mv_now()", CLOCK, "mv_now()", time)


@dataclass(frozen=True)
class Inspector:
    """Finds positions. ``local``: files of this machine are those that the engine reads. ``known``:
    descriptions of relations, by database and name; None if it has none as JSON.
    """

    engine: Engine
    references: References
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    local: bool = False
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
        return position.number if position.kind == "files" and not position.problem else 0

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
                with ShardClient(self.storage_options).open_reader(marker.uri) as reader:
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
        return Position(name, "view", definition=_stable(facts)), False

    def _description(self, name: str) -> Mapping[str, Any]:
        """See `described`."""
        known = self.known.get(parts(name)[-2:], {})
        if known is None:
            facts = _without_json(self.engine, name)
            if _has_versions(facts):
                return facts
        return known if known and _described_name(known) == parts(name) else described(self.engine, name)

    def _table(self, name: str) -> Position:
        try:
            facts = self._description(name)
            provider, location = str(facts.get("provider", "")).lower(), str(facts.get("location", ""))
            if provider == DELTA:
                return self._delta(name, location)
            if provider == ICEBERG:
                return self._iceberg(name, str(facts.get("name", "")))
            if provider in OF_FILES:
                return self._files(name, provider, location, facts)
        except (DataflowError, ShardError, OSError) as error:
            return Position(name, "table", problem=f"{name}: {error}")
        return Position(name, "table", problem=f"{name} is a table of {provider or 'unknown format'}")

    def _files(self, name: str, provider: str, location: str, described: Mapping[str, Any]) -> Position:
        problem = ""
        if described.get("partition_columns"):
            problem = f"the partitions of {name} may be anywhere"
        elif not self.local and is_local(location):
            problem = f"{name} is on a disk of the machine that runs Spark"
        if problem:
            return Position(name, "files", problem=problem)
        files = FilesInput(name, name, path_of(location), storage_options=self.storage_options).manifest()
        if not files:  # or this process looks at another place than Spark
            return Position(name, "files", problem=f"{name} has no files")
        now = wall_clock.now_ms()
        coarse = all(file.modified % 1000 == 0 for file in files.values())
        if coarse and max(file.modified for file in files.values()) > now - RACY:
            return Position(name, "files", problem=f"{name} changed within the last two seconds")
        number = number_of(map(str, files))
        return Position(
            name,
            "files",
            f"{provider} {location}",
            number,
            definition=_stable(described),
            size=sum(file.size for file in files.values()),
        )

    def _delta(self, name: str, location: str) -> Position:
        if not self.local and is_local(location):
            return Position(name, DELTA, problem=f"{name} is on a disk of the machine that runs Spark")
        table = DeltaInput(path_of(location), storage_options=self.storage_options)
        newest = table.newest()
        version = self._pinned(name)
        number = newest.version if version is None else version
        return Position(name, DELTA, newest.table_id, number, location=path_of(location))

    def _iceberg(self, name: str, described: str) -> Position:
        """Snapshots' ids are unique: a table that was created again has others."""
        if not names(described, name):
            return Position(name, ICEBERG, problem=f"{name} is a branch of {described}")
        version = self._pinned(name)
        if version is not None:
            return Position(name, ICEBERG, f"iceberg {name}", version)
        named = quoted(name)
        current = current_snapshot(view_properties(self.engine, named))
        if current is None:
            return Position(name, ICEBERG, problem=f"{name} has no snapshots of its own")
        columns = self.engine.columns(f"select * from {named}")  # of a table, they change by themselves
        return Position(name, ICEBERG, f"iceberg {name}", current, definition=json.dumps(columns))

    def _pinned(self, name: str) -> int | None:
        """The version at which a run reads the table; None if it reads it as it is."""
        pinned = {parts(key)[-2:]: version for key, version in self.references.pinned.items()}
        return pinned.get(parts(name)[-2:])


def described(engine: Engine, name: str) -> Mapping[str, Any]:
    """The description of ``catalog.db.name``: at least `provider` and `location` of a table, and
    `view_text` of a view. Raises `EngineError`.
    """
    try:
        [[text]] = engine.query(f"describe table extended {quoted(name)} as json", "catalog")
    except EngineError as error:
        facts = _without_json(engine, name)
        if not _has_versions(facts):
            raise error
        return facts
    description: Mapping[str, Any] = json.loads(str(text))
    return description


def _without_json(engine: Engine, name: str) -> Mapping[str, str]:
    """The description that every table has. Of a table of files, it lacks the partitions."""
    rows = engine.query(f"describe table extended {quoted(name)}", "catalog")
    return {str(row[0]).lower(): str(row[1]) for row in rows}


def _has_versions(facts: Mapping[str, str]) -> bool:
    return facts.get("provider", "").lower() in (DELTA, ICEBERG)


def _described_name(description: Mapping[str, Any]) -> tuple[str, ...]:
    spelled = [
        description.get("catalog_name"),
        *description.get("namespace", ()),
        description.get("table_name"),
    ]
    return tuple(str(part).lower() for part in spelled)


def quoted(name: str) -> str:
    """A name as a plan spells it, with every part in quotes, not only those that need them."""
    return sql.qualified(word.text for word in words(name) if word.upper != ".")


def _stable(described: Mapping[str, Any]) -> str:
    """The description as a text, without what changes while the rows stay."""
    kept = {key: value for key, value in described.items() if key not in CHANGEABLE}
    if SETTINGS in kept:  # a view created while we staged has settings that decide how files are written
        kept[SETTINGS] = {key: value for key, value in kept[SETTINGS].items() if key not in EXACT}
    return json.dumps(kept, sort_keys=True)


def is_local(location: str) -> bool:
    return location.startswith("file:") or "://" not in location


def path_of(location: str) -> str:
    return "/" + location.removeprefix("file:").lstrip("/") if is_local(location) else location
