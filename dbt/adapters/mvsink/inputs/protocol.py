"""The interfaces of this layer: an `Input` has changes at exact times, a `Table` is bound first,
and a `Format` makes tables of what the catalog describes.

Updates are SQL text whose rows have the input's columns, `_mv_time`, `_mv_diff` and `_mv_error`, as
in a shard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from dbt.adapters.mvsink.engine import Column, Engine, sql
from dbt.adapters.mvsink.engine.whole_rows import net
from dbt.adapters.mvsink.inputs.position import Observation, Position
from dbt.adapters.mvsink.physical import DIFF, ERROR, TIME
from dbt.adapters.mvsink.shard import Antichain, ShardClient


@dataclass(frozen=True)
class PendingTime:
    """A time (ms) at which an input gained rows, lost rows, or its errors changed, in net."""

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
        """Whether it is a change for a reader, who looks at deleted rows only if ``deletes``."""
        return self.inserts or self.errors or (deletes and self.deletes)


class Input(Protocol):
    """A relation whose changes have exact times: every reader gets the same answer, at any time."""

    @property
    def id(self) -> str:
        """Names the input, for progress, holds and messages; the same in every run."""
        ...

    @property
    def columns(self) -> tuple[Column, ...]:
        """Its columns, in order."""
        ...

    @property
    def generation(self) -> int:
        """Another number: the input was created again, and `difference` is the change."""
        ...

    def frontier(self) -> Antichain:
        """All times before it are final; the empty one means that no change will follow."""
        ...

    def pending(self, lower: int, upper: int) -> list[PendingTime]:
        """The times with ``lower <= time < upper`` at which it changed, in order."""
        ...

    def changes(self, lower: int, upper: int) -> str:
        """The net updates of ``[lower, upper)``, as SQL; equal rows may be several, of one sign."""
        ...

    def contents(self, time: int) -> str:
        """Its rows as of ``time``, duplicates repeated, as SQL, which fails if an error is live."""
        ...

    def snapshot(self, time: int) -> str:
        """The same as updates at ``time``, with live errors, as SQL; equal rows may be several."""
        ...

    def difference(self, before: str, time: int) -> str:
        """Contents at ``time`` minus the result of `before`, with errors, as net updates then."""
        ...

    def before(self, generation: int, time: int) -> str:
        """The `snapshot` at ``time`` of an older ``generation``, as SQL, for `difference`."""
        ...

    def hold(self, holder: str, time: int, *, forward: bool = True) -> None:
        """Keep the history for reads as of ``time`` and changes after it, until moved or released.

        A reader that has processed all times before ``t`` holds ``t - 1``. Unless ``forward``, an
        earlier hold stays where it is.
        """
        ...

    def release(self, holder: str) -> None:
        """Drop ``holder``'s hold; harmless if there is none."""
        ...


@dataclass(frozen=True)
class CatalogTable:
    """A table in the catalog. ``by_path``: its name is its place, as in ``delta.`/a/b` ``.
    ``partitions``: the columns, with their types, by which the catalog has its partitions, of which
    each may have a place of its own. ``description``: what the catalog says of it, by keys in lower
    case.
    """

    name: str
    location: str
    by_path: bool = False
    partitions: tuple[tuple[str, str], ...] = ()
    description: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TableOptions:
    """How tables are opened. ``storage_options`` are `deltalake`'s; ``append_only``: files stay.

    ``relist`` has the engine list the files of the table with that name again, unless this run has;
    None outside a run. ``local``: files of this machine are those that the engine reads.
    """

    engine: Engine
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    append_only: bool = False
    relist: Callable[[str], None] | None = None
    local: bool = False


@dataclass(frozen=True)
class Table:
    """A table without times of its own.

    ``id`` names it, the same in every run; ``columns`` gives its present columns, in order.

    ``bind`` takes a time (ms), a client and the companion's place (`companion.companion_uri`), and
    gives the table as an input whose frontier is past that time. New changes are bound at times up
    to it, unless another run was first.
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
        """Where the table stands, which a view reads at the version ``pinned``, or as it is."""
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
