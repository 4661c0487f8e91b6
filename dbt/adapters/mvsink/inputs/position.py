"""Where an input stands, which shows whether it is as it was at the last refresh.

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

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from dbt.adapters.mvsink.shard import ShardState, files_number, number_of

# what the ids of a shard's further numbers end with
FILES, COLUMNS, VERSION = "/files", "/columns", "/version"
SHARD = "shard"  # the kind of maintained models
CLOCK = "clock"  # the kind of `mv_now()`
FILE_LIST = "files"  # the kind of tables of files


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
class Observation:
    """The state of a place when `mvsink watch` probed it. ``signature`` identifies the contents;
    ``files`` has the size and the time of change (ms) of each file, and is empty for shards.

    For a shard, ``due`` is the next refresh of its schedule (ms); None without a schedule, or if no
    refresh is left.
    """

    signature: str
    files: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # name: size, time
    scheduled: bool = False
    due: int | None = None
    version: int = -1
