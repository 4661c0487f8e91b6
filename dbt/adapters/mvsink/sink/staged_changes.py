"""The staged changes of inputs.

What changed in an input is staged in net, only the columns that the query uses, and the rows that
its conditions keep. Few rows need no Spark job. An input whose staged change is empty did not
change.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import pyarrow as pa

from dbt.adapters.mvsink.engine import Column, arrow_schema, sql
from dbt.adapters.mvsink.engine.net import net
from dbt.adapters.mvsink.engine.predicates import Filter
from dbt.adapters.mvsink.incremental import Keys
from dbt.adapters.mvsink.inputs.sides import InputSides
from dbt.adapters.mvsink.local.rows import ONE_TASK_ROWS
from dbt.adapters.mvsink.physical import DIFF
from dbt.adapters.mvsink.reasons import EvaluateFully
from dbt.adapters.mvsink.shard import StagedDirectory
from dbt.adapters.mvsink.sink.decide import Bounds
from dbt.adapters.mvsink.sink.increment import Increment
from dbt.adapters.mvsink.sink.write import Write


@dataclass(frozen=True)
class StagedChange:
    """The staged net change of an input: the columns that the query uses, and `_mv_diff`; without
    rows that its filter does not keep.
    """

    input: InputSides
    used: tuple[Column, ...]
    staged: StagedDirectory
    rows: int

    def column(self, name: str) -> Column:
        """One that the query uses, by its name in lower case."""
        return next(each for each in self.used if each.name.lower() == name)

    def values(self, write: Write, name: str) -> pa.ChunkedArray:
        """The values of that column, as they come."""
        return write.handle.read_staged(self.staged, arrow_schema((self.column(name),))).column(0)

    def query(self, files: sql.Shared) -> str:
        """All columns of the input, and `_mv_diff`."""
        return files.of(
            padded(self.input.columns, self.used, self.staged, DIFF), few=self.rows <= ONE_TASK_ROWS
        )


@dataclass(frozen=True)
class StagedChanges:
    """The changes that are not empty, by the input's name."""

    write: Write
    increment: Increment
    by_name: Mapping[str, StagedChange]

    @property
    def rows(self) -> int:
        """How many they are."""
        return sum(change.rows for change in self.by_name.values())

    @property
    def share(self) -> float | None:
        """The largest share of an input's rows that they are, of inputs whose rows are counted."""
        counted = [each.rows / max(each.input.rows, 1) for each in self.by_name.values() if each.input.rows]
        return round(max(counted), 6) if counted else None

    def values(self, keys: Sequence[Keys]) -> pa.ChunkedArray | None:
        """The values of columns of changes, of one type. None if there are many, or equal ones may
        differ in form, as zeros do.
        """
        if sum(self.by_name[key.changed].rows for key in keys) > ONE_TASK_ROWS:
            return None
        listed = [self.by_name[key.changed].values(self.write, key.changed_column) for key in keys]
        types = {values.type for values in listed}
        if len(types) != 1 or pa.types.is_floating(*types) or pa.types.is_nested(*types):
            return None
        return pa.chunked_array([chunk for values in listed for chunk in values.chunks], *types)

    @classmethod
    def stage(
        cls, write: Write, increment: Increment, resources: ExitStack, bounds: Bounds
    ) -> StagedChanges | EvaluateFully:
        """Stage them within ``bounds``; ``resources`` deletes them."""
        changes, linear = {}, increment.analysed.linear
        changed = [each for each in increment.inputs if each.change is not None]
        for each in changed:
            if refused := bounds.may_change(each, linear=linear):
                return refused
        # if a small one exceeds the share, the others need not be staged
        smallest_first = sorted(changed, key=lambda each: math.inf if each.updates is None else each.updates)
        for each in smallest_first:
            names = increment.analysed.relations[each.name]
            used = tuple(column for column in each.columns if column.name.lower() in names)
            wanted = increment.filters.get(each.name)
            staged = _staged(write, each, used, wanted)
            resources.callback(staged.delete)
            count = staged.rows()
            if refused := bounds.changed(each, count, linear=linear):
                return refused
            if count:
                changes[each.name] = StagedChange(each, used, staged, count)
        by_name = {each.name: changes[each.name] for each in changed if each.name in changes}
        return cls(write, increment, by_name)


def padded(columns: Sequence[Column], used: Sequence[Column], staged: StagedDirectory, *more: str) -> str:
    """All ``columns`` of the staged rows, of which those that are not ``used`` are NULL, and
    ``more`` of theirs.
    """
    names = {column.name for column in used}
    items = [
        sql.identifier(column.name)
        if column.name in names
        else f"cast(null as {column.type.spelled}) {sql.identifier(column.name)}"
        for column in columns
    ]
    return f"select {', '.join([*items, *more])} from {sql.parquet_in(staged.uri)}"


def _staged(
    write: Write, each: InputSides, used: tuple[Column, ...], wanted: Filter | None
) -> StagedDirectory:
    with write.watch("changes"):
        exact = None if wanted is None else wanted.arrow(used)
        table = None if each.read_change is None else each.read_change(arrow_schema(used), exact)
        if table is not None:
            return write.handle.write_staged(table)
    rows = f"select {sql.columns([*(c.name for c in used), DIFF])} from (\n{each.change}\n)"
    if wanted is not None:
        rows += f" where {wanted.sql(used)}"
    return write.stager.stage(net(used, [], rows, "<> 0") if used else _total(rows), "changes")


def _total(rows: str) -> str:
    """The net number of rows, of which no column matters; no row if it is zero."""
    return f"select {DIFF} from (select sum({DIFF}) {DIFF} from (\n{rows}\n)) where {DIFF} <> 0"
