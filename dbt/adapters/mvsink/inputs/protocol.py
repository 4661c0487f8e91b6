"""The interfaces of this layer. An `Input` has changes at exact times, a `Table` must be bound
first, and a `Format` opens the tables that the catalog describes.

Updates are SQL text whose rows have the input's columns, `_mv_time`, `_mv_diff` and `_mv_error`, as
in a shard.

Some formats have tables with immutable versions. For these, a `VersionedTable` gives the rows at a
version and the change between two versions. `version_binding` needs no more to make it a task's
`Input`, nor does `sides_of_table` to make it a view's. A `VersionedFormat` says which tables are of
the format, and which version each had at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from dbt.adapters.mvsink.engine import Column, DataflowError, Engine, EngineError, sql
from dbt.adapters.mvsink.engine.whole_rows import net
from dbt.adapters.mvsink.inputs.position import InputSides, Observation, Position, QueryRows
from dbt.adapters.mvsink.physical import DIFF, ERROR, TIME
from dbt.adapters.mvsink.reasons import EvaluateFully, Why
from dbt.adapters.mvsink.shard import Antichain, ShardClient, ShardError


@dataclass(frozen=True)
class PendingTime:
    """A time (ms) at which an input, in net, gained rows, lost rows, or changed its errors."""

    time: int
    inserts: bool
    deletes: bool
    errors: bool = False

    @classmethod
    def of_rows(cls, rows: Iterable[Sequence[object]]) -> list[PendingTime]:
        """The rows (time, inserts, deletes, errors) of a query, in the order of their times."""
        pending = (cls(int(str(time)), *map(bool, flags)) for time, *flags in rows)
        return sorted(pending, key=lambda each: each.time)

    def concerns(self, *, deletes: bool) -> bool:
        """Whether the change matters to a reader, which looks at deleted rows only if
        ``deletes``.
        """
        return self.inserts or self.errors or (deletes and self.deletes)


class Input(Protocol):
    """A relation whose changes have exact times: every reader gets the same answer, at any time."""

    @property
    def id(self) -> str:
        """The name of the input in progress, holds and messages; the same in every run."""
        ...

    @property
    def columns(self) -> tuple[Column, ...]:
        """Its columns, in order."""
        ...

    @property
    def generation(self) -> int:
        """A number that changes if the input is created again; then `difference` gives the
        change.
        """
        ...

    def frontier(self) -> Antichain:
        """The frontier: all times before it are final. If it is empty, no change will follow."""
        ...

    def pending(self, lower: int, upper: int) -> list[PendingTime]:
        """The times with ``lower <= time < upper`` at which it changed, in order."""
        ...

    def changes(self, lower: int, upper: int) -> str:
        """The net updates of ``[lower, upper)``, as SQL; equal rows may occur several times, with
        one sign.
        """
        ...

    def contents(self, time: int) -> str:
        """Its rows as of ``time``, as SQL that repeats duplicates and fails if an error is live."""
        ...

    def errors(self, time: int) -> list[str]:
        """The messages of the errors that are live as of ``time``."""
        ...

    def snapshot(self, time: int) -> str:
        """The same as updates at ``time``, with live errors, as SQL; equal rows may occur several
        times.
        """
        ...

    def difference(self, before: str, time: int) -> str:
        """Contents at ``time`` minus the result of `before`, with errors, as net updates at that
        time.
        """
        ...

    def before(self, generation: int, time: int) -> str:
        """The `snapshot` at ``time`` of an older ``generation``, as SQL, for `difference`."""
        ...

    def hold(self, holder: str, time: int, *, forward: bool = True) -> None:
        """Keep the history for reads as of ``time`` and changes after it, until the hold is moved
        or released.

        A reader that has processed all times before ``t`` holds ``t - 1``. Unless ``forward``, an
        earlier hold stays where it is.
        """
        ...

    def release(self, holder: str) -> None:
        """Drop ``holder``'s hold; harmless if there is none."""
        ...


@dataclass(frozen=True)
class CatalogTable:
    """A table in the catalog. If ``by_path``, its name is its location, as in ``delta.`/a/b` ``.
    ``partitions`` are the partition columns, with their types, if the catalog has its partitions,
    each of which may have a location of its own. ``description`` is what the catalog says about it,
    by keys in lower case.
    """

    name: str
    location: str
    by_path: bool = False
    partitions: tuple[tuple[str, str], ...] = ()
    description: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TableOptions:
    """How tables are opened. ``storage_options`` are those of `deltalake`. With ``append_only``,
    files are never removed.

    ``relist`` makes the engine list the files of a table again, unless this run has done so; None
    outside a run. ``local`` means that the engine reads this machine's files.
    """

    engine: Engine
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    append_only: bool = False
    relist: Callable[[str], None] | None = None
    local: bool = False


@dataclass(frozen=True)
class Table:
    """A table without times of its own.

    ``id`` is its name, the same in every run; ``columns`` gives its present columns, in order.

    ``bind`` takes a time (ms), a client and the companion's location (`companion_uri`), and gives
    the table as an input whose frontier is past that time. New changes are bound at times up to it,
    unless another run was first.
    """

    id: str
    columns: Callable[[], tuple[Column, ...]]
    bind: Callable[[int, ShardClient, str], Input]


class Format(Protocol):
    """A format of tables, by the catalog's name of it: its *provider*."""

    def open(self, table: CatalogTable, options: TableOptions) -> Table:
        """The table as a task's input. Raises `NoInput`, and `InputError` for one that cannot be
        read.
        """
        ...

    def position(self, table: CatalogTable, options: TableOptions, pinned: int | None) -> Position:
        """The position of the table, which a view reads at the version ``pinned``, or as it is."""
        ...


class ProbedFormat(Protocol):
    """A format whose tables can be probed by their paths on this machine, without an engine."""

    def is_at(self, path: Path) -> bool:
        """Whether what is at ``path`` is a table of the format."""
        ...

    def observation(self, path: Path) -> Observation | None:
        """The table's state; None if nothing is there. Opens no data file."""
        ...


def difference(columns: tuple[Column, ...], snapshot: str, before: str, time: int) -> str:
    """The updates of ``snapshot`` minus those of ``before``, consolidated at ``time``."""
    items = sql.columns(column.name for column in columns)
    now = f"select {items}, {DIFF}, {ERROR} from (\n{snapshot}\n)"
    then = f"select {items}, -{DIFF} {DIFF}, {ERROR} from {sql.subquery(before, '_mv_before')}"
    rows = net(columns, [ERROR], sql.union_all([now, then]), "<> 0")
    return f"select {items}, {sql.bigint(time)} {TIME}, {DIFF}, {ERROR} from (\n{rows}\n)"


EMPTY = -1  # the version of a table that has never been written to
UNKNOWN = "the times of its versions cannot be read"


def rows_at(name: str, version: int, items: str = "*") -> str:
    """The query of the rows of the table ``name`` (as SQL names it) at ``version``."""
    if version == EMPTY:
        return f"select {items} from {name} where false"
    return f"select {items} from {name} version as of {version}"


@dataclass(frozen=True)
class TableVersion:
    """A version of one table. A table that is created again in its place has another ``table_id``,
    which is empty if it cannot be known.
    """

    version: int
    table_id: str


class VersionSigns(NamedTuple):
    """Whether a change may have added rows, and whether it may have removed rows; exact unless both
    are true.
    """

    added: bool
    removed: bool


class VersionedTable(Protocol):
    """A table with immutable versions, which follow each other in an order of the table's own."""

    @property
    def id(self) -> str:
        """Names the table; the same in every run."""
        ...

    @property
    def location(self) -> str:
        """Its location, for messages."""
        ...

    def newest(self) -> TableVersion:
        """The newest version. Raises an `InputError` for a table that cannot be read."""
        ...

    def columns(self, version: int) -> tuple[Column, ...]:
        """The columns at ``version``, in order."""
        ...

    def check(self, version: int) -> None:
        """Raises `UnreadableVersion` if the rows of ``version`` cannot be read."""
        ...

    def continues(self, bound: TableVersion) -> bool:
        """Whether the version ``bound`` is one of this table's, although that has another
        ``table_id`` now.
        """
        ...

    def between(self, before: int, after: int) -> Sequence[int]:
        """The versions after ``before`` up to ``after``, in order. Raises an `InputError` if
        ``after`` does not follow ``before``.
        """
        ...

    def rows(self, version: int) -> int | None:
        """The number of rows in the files of ``version``, deleted ones included; None if
        unknown.
        """
        ...

    def signs(self, before: int | None, after: int) -> VersionSigns:
        """The kinds of changes from ``before`` to ``after``, from metadata alone."""
        ...

    def zoned(self, version: int) -> bool:
        """Whether the rows of ``version`` depend on the session's time zone."""
        ...

    def contents(self, version: int, columns: Sequence[Column], more: str = "") -> str:
        """``columns`` and the items ``more`` of the rows of ``version``, as SQL."""
        ...

    def changes(self, before: int | None, after: int, columns: Sequence[Column]) -> str | None:
        """``columns`` and `_mv_diff` of what changed from ``before`` (None: an empty table) to
        ``after``, consolidated, as SQL; None if nothing did.
        """
        ...


@dataclass(frozen=True)
class Pinned:
    """The ``version`` that is read; None for the table as it is. ``newer`` is a clause that says
    why this is not the version of the refresh.
    """

    version: int | None
    newer: str = ""


class VersionedFormat(Format, Protocol):
    """A format whose tables have versions. Names of tables are as SQL has them."""

    def has(self, properties: Mapping[str, str]) -> bool:
        """Whether a table with these properties is of the format."""
        ...

    def newest(self, name: str, engine: Engine) -> int | None:
        """The newest version of the table now; None if that cannot be known."""
        ...

    def newest_here(self, location: str, options: TableOptions) -> int | None:
        """The same without the engine, if the table's ``location`` is on this machine; None if it
        is not, or cannot be read so.
        """
        ...

    def at(self, name: str, time: int, newest: int, options: TableOptions) -> Pinned:
        """The version that the table had at ``time`` (ms); ``newest`` is the version that it has
        now.
        """
        ...

    def sides(
        self, name: str, at: Position, before: int, version: int, options: TableOptions
    ) -> InputSides | EvaluateFully:
        """The table's sides: read at ``version`` now, and at ``before`` earlier. Its position is
        ``at``.
        """
        ...


def unreadable(engine: Engine, name: str, version: int) -> str:
    """Why Spark cannot read ``version``, as a clause; empty if it can, as far as the table's log
    shows.
    """
    try:
        engine.columns(rows_at(name, version))
    except EngineError:
        return f"its version {version} cannot be read any more"
    return ""


def sides_of_table(name: str, table: VersionedTable, before: int, now: int) -> InputSides | EvaluateFully:
    """A table at two of its versions."""
    try:
        columns = table.columns(now)
        if table.columns(before) != columns:
            return EvaluateFully(Why.COLUMNS, name)
        change, rows = table.changes(before, now, columns), table.rows(now)
    except (DataflowError, ShardError, OSError) as error:
        return EvaluateFully(Why.UNREADABLE, str(error))
    return InputSides(name, columns, at_version(name, now), at_version(name, before), change, rows=rows)


def at_version(name: str, version: int) -> QueryRows:
    """A table's rows at a version."""
    return QueryRows(rows_at(name, version))
