"""The position of an input, which shows whether the input is as it was at the last refresh. If it
is not, a query needs its rows now and before, and the change between them.

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

Suppose that `db.t` was read at version 7 and is at version 9 now. Then the ``new`` of its
`InputSides` is a query of version 9, ``old`` one of version 7, and ``change`` has the net rows of
versions 8 and 9 with their `_mv_diff`. If they are not known, `EvaluateFully` says why.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.engine import Column
from dbt.adapters.mvsink.shard import ShardState, files_number, number_of

# what the ids of a shard's further numbers end with
FILES, COLUMNS, VERSION = "/files", "/columns", "/version"
COUNT, MODIFIED = "/count", "/modified"  # of a list of files
NAMED = 3  # files in a message
SHARD = "shard"  # the kind of maintained models
CLOCK = "clock"  # the kind of `mv_now()`
FILE_LIST = "files"  # the kind of tables of files


@dataclass(frozen=True)
class Position:
    """The position of one input. ``number`` is a time in ms, a version, or a number for a list of
    files.

    For a shard, ``files`` is its `files_number`, ``newest`` the newest time (ms) in its files, and
    ``version`` the version of its log. ``columns`` is a number for the columns that it shows, in
    order and with their types, because a query may name them by position. ``definition`` is what
    else decides its rows. ``size`` is the number of bytes that hold its rows, or None. ``location``
    is that of a Delta table. Of a list of files, ``count`` is their number, and ``latest`` are the
    newest of them: when each was modified (ms), and its path. ``problem`` says, as a clause, why
    the position cannot be known.
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
    count: int | None = None
    latest: tuple[tuple[int, str], ...] = ()

    def numbers(self) -> Iterator[tuple[str, int]]:
        """The numbers that are recorded, by id."""
        if self.id:
            yield self.id, self.number
            if self.files is not None:
                yield self.id + FILES, self.files
            if self.columns is not None:
                yield self.id + COLUMNS, self.columns
            if self.version is not None:
                yield self.id + VERSION, self.version
            if self.count is not None and self.latest:
                yield self.id + COUNT, self.count
                yield self.id + MODIFIED, self.latest[0][0]

    def unchanged(self, recorded: Callable[[str], int | None]) -> bool:
        """Whether its rows are those that were read at the ``recorded`` position."""
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

    def new_files(self, recorded: Callable[[str], int | None]) -> str:
        """Which files are new since the ``recorded`` position, and how many are gone, as a clause;
        empty if that is not known. A file that was written again counts as both.
        """
        count, modified = recorded(self.id + COUNT), recorded(self.id + MODIFIED)
        if count is None or modified is None or self.count is None:
            return ""
        new = [path.rsplit("/", 1)[-1] for time, path in self.latest if time > modified]
        gone = count + len(new) - self.count
        more = f" and {len(new) - NAMED} more" if len(new) > NAMED else ""
        at_least = "at least " if new and len(new) == len(self.latest) < self.count else ""
        added = (
            f"{at_least}{len(new)} new file{'s'[: len(new) != 1]}: {', '.join(new[:NAMED])}{more}"
            if new
            else ""
        )
        removed = f"{gone} gone or replaced" if gone > 0 and not at_least else ""
        return ", ".join(filter(None, (added, removed)))

    def reshaped(self, recorded: Callable[[str], int | None]) -> bool:
        """Whether it may show other columns than it had when it was read."""
        return self.columns is not None and recorded(self.id + COLUMNS) != self.columns

    def __str__(self) -> str:
        """What decides the rows besides the position."""
        return f"{self.kind} {self.name} {self.id} {self.definition}"


def shard_position(name: str, state: ShardState, read_at: int, columns: Iterable[object]) -> Position:
    """The position of a shard in ``state``, read as of ``read_at`` (ms). ``columns`` are in order
    and have types.
    """
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
    """The position of `mv_now()` in contents as of ``time`` (ms)."""
    return Position("mv_now()", CLOCK, "mv_now()", time)


@dataclass(frozen=True)
class Observation:
    """The state of a place when `mvsink watch` probed it. ``signature`` identifies the contents;
    ``files`` has the size and the modification time (ms) of each file, and is empty for shards.

    For a shard, ``due`` is the next refresh of its schedule (ms); None without a schedule, or if no
    refresh is left.
    """

    signature: str
    files: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # name: size, time
    scheduled: bool = False
    due: int | None = None
    version: int = -1


class Rows(Protocol):
    """An input's rows at one position, as queries of all its columns, in order."""

    def all(self) -> str:
        """Every row."""
        ...

    def where(self, names: Collection[str], condition: str) -> str:
        """The few rows that satisfy a condition over the columns ``names`` (in lower case). Other
        columns may be NULL.
        """
        ...


class ReadChange(Protocol):
    """Reads the net change of an input into this process."""

    def __call__(self, columns: pa.Schema, where: pc.Expression | None = None) -> pa.Table | None:
        """These columns and `_mv_diff` of what changed; with ``where``, an exact condition over
        columns of whole rows, only of rows that satisfy it. None if that is too much.
        """
        ...


class ReadRows(Protocol):
    """Reads rows of an input into this process."""

    def __call__(self, columns: pa.Schema, where: pc.Expression) -> tuple[pa.Table, pa.Table] | None:
        """These columns of the rows that satisfy ``where``, an exact condition over columns of
        whole rows: the rows now, and the rows before. None if that is too much.
        """
        ...


@dataclass(frozen=True)
class InputSides:
    """A relation that the query reads, now and before. ``name`` is as in `Analysed.relations`.

    ``change`` is a query of new less old, with all ``columns`` in order and `_mv_diff`; None if the
    relation did not change. ``read_change`` and ``read_rows`` read the change, or some rows, into
    this process. ``rows`` is about how many rows it has now, and ``updates`` how many ``change``
    has at most; None if unknown. With ``only_inserts``, certainly no row was deleted.
    """

    name: str
    columns: tuple[Column, ...]
    new: Rows
    old: Rows
    change: str | None = None
    read_change: ReadChange | None = None
    read_rows: ReadRows | None = None
    rows: int | None = None
    updates: int | None = None
    only_inserts: bool = False


@dataclass(frozen=True)
class QueryRows:
    """See `Rows`: the rows of a query."""

    query: str

    def all(self) -> str:
        """See `Rows`."""
        return self.query

    def where(self, names: Collection[str], condition: str) -> str:
        """See `Rows`."""
        return f"select * from (\n{self.query}\n) where {condition}"
