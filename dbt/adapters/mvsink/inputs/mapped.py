"""A query over an input as an input of its own: the changes of the one go through the query and are
the changes of the other.

That is right for a query whose every output row comes from one row of the input, on its own. Which
queries are, and how a text is made to carry a column through, is not known here: `Through.carry` is
given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dbt.adapters.mvsink.engine import Column, Engine, sql
from dbt.adapters.mvsink.engine.net import net
from dbt.adapters.mvsink.inputs.protocol import Input, PendingTime, difference
from dbt.adapters.mvsink.physical import DIFF, ERROR, TIME
from dbt.adapters.mvsink.shard import Antichain
from dbt.adapters.mvsink.shard_sql.as_of import UPDATE, nulls

Carry = Callable[[str], str]


@dataclass(frozen=True)
class Through:
    """A query, and its ``columns``.

    ``carry`` makes of a query with the input's columns and, last, `_mv_time` of any type, one with
    the query's own columns and, last, the same `_mv_time` for each row.
    """

    columns: tuple[Column, ...]
    carry: Carry


class ThroughInput:
    """See `Input`. Error updates of ``base`` pass as they are."""

    def __init__(self, base: Input, through: Through, engine: Engine):
        self.base, self.through, self.engine = base, through, engine

    @property
    def id(self) -> str:
        return self.base.id

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.through.columns

    @property
    def generation(self) -> int:
        return self.base.generation

    def frontier(self) -> Antichain:
        return self.base.frontier()

    def pending(self, lower: int, upper: int) -> list[PendingTime]:
        found = self.base.pending(lower, upper)
        if not found:
            return []
        rows = self.engine.query(_times(self.changes(found[0].time, found[-1].time + 1)), "pending")
        return sorted(
            (
                PendingTime(int(str(time)), bool(inserts), bool(deletes), bool(errors))
                for time, inserts, deletes, errors in rows
            ),
            key=lambda pending: pending.time,
        )

    def changes(self, lower: int, upper: int) -> str:
        rows = net(self.columns, [TIME, ERROR], self._updates(self.base.changes(lower, upper)), "<> 0")
        return f"select {self._update_items} from (\n{rows}\n)"

    def contents(self, time: int) -> str:
        return self._rows(self.base.contents(time))

    def snapshot(self, time: int) -> str:
        return self._updates(self.base.snapshot(time))

    def difference(self, before: str, time: int) -> str:
        return difference(self.columns, self.snapshot(time), before, time)

    def before(self, generation: int, time: int) -> str:
        return self._updates(self.base.before(generation, time))

    def hold(self, holder: str, time: int, *, forward: bool = True) -> None:
        self.base.hold(holder, time, forward=forward)

    def release(self, holder: str) -> None:
        self.base.release(holder)

    @property
    def _update_items(self) -> str:
        return sql.columns([*(column.name for column in self.columns), *UPDATE])

    def _carried(self, rows: str) -> str:
        """The carried query as a relation with the columns' names, whatever the query calls them."""
        names = sql.columns([*(column.name for column in self.columns), TIME])
        return f"{sql.subquery(self.through.carry(rows), '_mv_through')}({names})"

    def _rows(self, contents: str) -> str:
        given = f"select {self._given}, 0L {TIME} from (\n{contents}\n)"
        return f"select {sql.columns(column.name for column in self.columns)} from {self._carried(given)}"

    def _updates(self, updates: str) -> str:
        """Time and multiplicity of each row travel in the one column that is carried; errors do not
        travel through the query.
        """
        packed = f"named_struct('time', {TIME}, 'diff', {DIFF}) {TIME}"
        given = f"select {self._given}, {packed} from (\n{updates}\n) where {ERROR} is null"
        unpacked = f"{TIME}.time {TIME}, {TIME}.diff {DIFF}, cast(null as string) {ERROR}"
        items = sql.columns(column.name for column in self.columns)
        errors = f"select {nulls(self.columns)}, {TIME}, {DIFF}, {ERROR} from (\n{updates}\n) where {ERROR} is not null"
        return sql.union_all([f"select {items}, {unpacked} from {self._carried(given)}", errors])

    @property
    def _given(self) -> str:
        return sql.columns(column.name for column in self.base.columns)


def _times(updates: str) -> str:
    """For each time: did it gain rows, lose rows, change errors."""
    kinds = [f"{ERROR} is null and {DIFF} > 0", f"{ERROR} is null and {DIFF} < 0", f"{ERROR} is not null"]
    items = ", ".join(f"bool_or({kind})" for kind in kinds)
    return f"select {TIME}, {items} from (\n{updates}\n) group by {TIME}"
