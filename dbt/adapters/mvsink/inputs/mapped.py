"""A query over an input as an input of its own: the query maps the input's changes to changes of
its result.

That is right for a query whose every output row comes from one row of the input, independently of
the others. The caller decides which queries qualify, and supplies the mapping, `RowMapping.carry`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dbt.adapters.mvsink.engine import Column, Engine, sql
from dbt.adapters.mvsink.engine.whole_rows import net
from dbt.adapters.mvsink.inputs.protocol import Input, PendingTime, difference
from dbt.adapters.mvsink.physical import DIFF, ERROR, TIME
from dbt.adapters.mvsink.shard import Antichain
from dbt.adapters.mvsink.shard_sql.as_of import UPDATE, nulls, times_of

Carry = Callable[[str], str]


@dataclass(frozen=True)
class RowMapping:
    """A query, and its ``columns``.

    ``carry`` takes a query with the input's columns and a last column `_mv_time` of any type. It
    gives a query with the mapped columns and, last, the same `_mv_time` for each row.
    """

    columns: tuple[Column, ...]
    carry: Carry


class MappedInput:
    """See `Input`. Error updates of ``base`` are passed on unchanged."""

    def __init__(self, base: Input, mapping: RowMapping, engine: Engine):
        self.base, self.mapping, self.engine = base, mapping, engine

    @property
    def id(self) -> str:
        return self.base.id

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.mapping.columns

    @property
    def generation(self) -> int:
        return self.base.generation

    def frontier(self) -> Antichain:
        return self.base.frontier()

    def pending(self, lower: int, upper: int) -> list[PendingTime]:
        pending = self.base.pending(lower, upper)
        if not pending:
            return []
        query = times_of(self.changes(pending[0].time, pending[-1].time + 1))
        return PendingTime.of_rows(self.engine.query(query, "pending"))

    def changes(self, lower: int, upper: int) -> str:
        rows = net(self.columns, [TIME, ERROR], self._updates(self.base.changes(lower, upper)), "<> 0")
        return f"select {self._update_items} from (\n{rows}\n)"

    def contents(self, time: int) -> str:
        return self._rows(self.base.contents(time))

    def errors(self, time: int) -> list[str]:
        return self.base.errors(time)

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
        """The mapped query as a relation that has the columns' names, whatever names the query
        gives.
        """
        names = sql.columns([*(column.name for column in self.columns), TIME])
        return f"{sql.subquery(self.mapping.carry(rows), '_mv_through')}({names})"

    def _rows(self, contents: str) -> str:
        base = f"select {self._base_items}, 0L {TIME} from (\n{contents}\n)"
        return f"select {sql.columns(column.name for column in self.columns)} from {self._carried(base)}"

    def _updates(self, updates: str) -> str:
        """Each row's time and count are packed into one carried column; errors bypass the query."""
        packed = f"named_struct('time', {TIME}, 'diff', {DIFF}) {TIME}"
        base = f"select {self._base_items}, {packed} from (\n{updates}\n) where {ERROR} is null"
        unpacked = f"{TIME}.time {TIME}, {TIME}.diff {DIFF}, cast(null as string) {ERROR}"
        items = sql.columns(column.name for column in self.columns)
        errors = f"select {nulls(self.columns)}, {TIME}, {DIFF}, {ERROR} from (\n{updates}\n) where {ERROR} is not null"
        return sql.union_all([f"select {items}, {unpacked} from {self._carried(base)}", errors])

    @property
    def _base_items(self) -> str:
        return sql.columns(column.name for column in self.base.columns)
