"""What every input can answer, whatever it is made of: what did it hold at a time, and what changed
between two times.

Updates are SQL text whose rows have the input's columns, `_mv_time`, `_mv_diff` and `_mv_error`, as
in a shard.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dbt.adapters.mvsink.engine import Column, sql
from dbt.adapters.mvsink.engine.net import net
from dbt.adapters.mvsink.physical import DIFF, ERROR, TIME
from dbt.adapters.mvsink.shard import Antichain


@dataclass(frozen=True)
class PendingTime:
    """A time (ms) at which an input changed: whether it gained rows, lost rows, and whether its
    errors changed, in net.
    """

    time: int
    inserts: bool
    deletes: bool
    errors: bool = False


class Input(Protocol):
    """A relation whose changes have definite times: asked twice, it answers the same, whoever asks."""

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
        """Another number means that the input was made anew: then `difference` is the change."""
        ...

    def frontier(self) -> Antichain:
        """All times before it are known and final; the empty one means that nothing more will ever
        come.
        """
        ...

    def pending(self, lower: int, upper: int) -> list[PendingTime]:
        """The times with ``lower <= time < upper`` at which it changed, in order."""
        ...

    def changes(self, lower: int, upper: int) -> str:
        """Its net updates with ``lower <= time < upper``, as SQL; equal rows may come as several
        updates, all of one sign.
        """
        ...

    def contents(self, time: int) -> str:
        """Its rows as of ``time``, duplicates repeated, as SQL; it fails its readers if an error is
        live then.
        """
        ...

    def snapshot(self, time: int) -> str:
        """The same as updates at ``time``, live errors included, as SQL; equal rows may come as
        several updates.
        """
        ...

    def difference(self, before: str, time: int) -> str:
        """Its contents as of ``time`` less what `before` gave, errors included, as consolidated
        updates at ``time``.
        """
        ...

    def before(self, generation: int, time: int) -> str:
        """The `snapshot` at ``time`` of an older ``generation``, as SQL, for `difference`."""
        ...

    def hold(self, holder: str, time: int, *, forward: bool = True) -> None:
        """Keep what reads as of ``time`` and changes after it need, until it is moved or released.

        So who has processed all times before ``t`` holds ``t - 1``. Not ``forward``: what is held
        already is not given up.
        """
        ...

    def release(self, holder: str) -> None:
        """Drop ``holder``'s hold; harmless if there is none."""
        ...


def difference(columns: tuple[Column, ...], snapshot: str, before: str, time: int) -> str:
    """The updates of ``snapshot`` less those of ``before``, consolidated at ``time``."""
    items = sql.columns(column.name for column in columns)
    now = f"select {items}, {DIFF}, {ERROR} from (\n{snapshot}\n)"
    then = f"select {items}, -{DIFF} {DIFF}, {ERROR} from {sql.subquery(before, '_mv_before')}"
    rows = net(columns, [ERROR], sql.union_all([now, then]), "<> 0")
    return f"select {items}, {sql.bigint(time)} {TIME}, {DIFF}, {ERROR} from (\n{rows}\n)"
