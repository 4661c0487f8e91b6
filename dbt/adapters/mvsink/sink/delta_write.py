"""A correction from the changes of the inputs, without evaluating the query.

1. *Changes*: what changed in each input is staged, only the columns that the query uses, in net. An
   input whose staged change is empty did not change. Few rows need no Spark job.
2. *Delta*: the query of the change (`incremental`) over the staged changes is staged as a batch.
   Other inputs are read only where they have a key of a change (`restrictions`).
3. *Look up*: every hash of the batch is looked up in the shard (`lookup`). A row that should be
   deleted and is not there shows that the shard is not what the progress says: then the query is
   evaluated.

In a batch a hash stands for one row, and for at most one record of the base. Whether another row of
the shard has the hash is not known without reading the rows. So the batch has no hash for a row
whose hash the shard holds, unless all of these are deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from dbt.adapters.mvsink.engine import Column, EngineError, arrow_schema, sql
from dbt.adapters.mvsink.engine.net import net
from dbt.adapters.mvsink.incremental import Keys, NotIncremental, Sides, clock_probe, delta, restrictions
from dbt.adapters.mvsink.physical import DIFF
from dbt.adapters.mvsink.shard import StagedDirectory
from dbt.adapters.mvsink.shard_sql import BatchDescription, Counts, Layout
from dbt.adapters.mvsink.shard_sql.layout import MAX_BROADCAST
from dbt.adapters.mvsink.sink.correction import Correction, Desired
from dbt.adapters.mvsink.sink.increment import SMALL, Full, Increment, InputSides, Rows
from dbt.adapters.mvsink.sink.lookup import fit, without_hashes
from dbt.adapters.mvsink.sink.ranges import MAX_KEYS, among
from dbt.adapters.mvsink.sink.write import Write, Written

log = logging.getLogger("mvsink.sink.write")
MAX_SHARE = 0.1  # of an input's rows that changed: beyond, evaluating the query costs less


@dataclass(frozen=True)
class _Change:
    """The staged net change of an input: the columns that the query uses, and `_mv_diff`."""

    input: InputSides
    used: tuple[Column, ...]
    staged: StagedDirectory
    rows: int

    def query(self) -> str:
        """All columns of the input; those that are not used are NULL."""
        names = {column.name for column in self.used}
        items = [
            sql.identifier(column.name)
            if column.name in names
            else f"cast(null as {column.type.spelled}) {sql.identifier(column.name)}"
            for column in self.input.columns
        ]
        return f"select {', '.join(items)}, {DIFF} from {sql.parquet_in(self.staged.uri)}"


@dataclass(frozen=True)
class DeltaWrite:
    """Stages corrections for ``write``'s shard. ``forced``: whatever it costs."""

    write: Write
    forced: bool = False

    def stage(
        self, increment: Increment, desired: Desired, shard: Layout, time: int, description: BatchDescription
    ) -> Written | Full:
        """The correction that `Write.stage` would stage, if it follows from ``increment``."""
        if increment.small and not self.forced:
            return Full(SMALL)
        with ExitStack() as resources:
            try:
                changes = self._changes(increment, resources)
                if isinstance(changes, Full):
                    return changes
                query = self._query(increment, changes)
                if isinstance(query, NotIncremental):
                    return Full(query.reason)
                return self._staged(query, desired, shard, time, description)
            except EngineError as error:  # an old state may fail where the new one does not
                log.info("%s: the query of the change failed: %s", self.write.model, error)
                return Full("the query of the change failed")

    def _changes(self, increment: Increment, resources: ExitStack) -> tuple[_Change, ...] | Full:
        """The changes that are not empty. ``resources`` deletes what is staged."""
        changes = []
        for each in increment.inputs:
            if each.change is None:
                continue
            names = increment.analysed.relations[each.name]
            used = tuple(column for column in each.columns if column.name.lower() in names)
            staged = self._staged_change(each, used)
            resources.callback(staged.delete)
            count = staged.rows()
            if not self.forced and each.rows is not None and count > MAX_SHARE * each.rows:
                return Full(f"{each.name} changed by {count / max(each.rows, 1):.0%}")
            if count:
                changes.append(_Change(each, used, staged, count))
        return tuple(changes)

    def _staged_change(self, each: InputSides, used: tuple[Column, ...]) -> StagedDirectory:
        assert each.change is not None
        with self.write.watch("changes"):
            table = None if each.few is None else each.few(arrow_schema(used))
            if table is not None:
                return self.write.handle.write_staged(table)
        rows = f"select {sql.columns([*(c.name for c in used), DIFF])} from (\n{each.change}\n)"
        return self.write.stager.stage(net(used, [], rows, "<> 0") if used else _total(rows), "changes")

    def _query(self, increment: Increment, changes: Sequence[_Change]) -> str | NotIncremental:
        """The query of the change. Rows are missing in it only where the change has none."""
        analysed, clock = increment.analysed, increment.clock
        changed = {change.input.name: change for change in changes}
        if clock is not None and (probe := clock_probe(analysed, clock)) is not None:
            [[same]] = self.write.engine.query(probe, "clock")
            clock = None if same else clock
        needed, files, sides = restrictions(analysed, changed, clock), sql.Shared(), {}
        for each in increment.inputs:
            keys = needed[each.name]
            new, old = (self._rows(each, rows, keys, changed, increment) for rows in (each.new, each.old))
            change = changed[each.name].query() if each.name in changed else None
            sides[each.name] = Sides(
                files.of(new), files.of(old), None if change is None else files.of(change)
            )
        plan = delta(analysed, sides, clock)
        return plan if isinstance(plan, NotIncremental) else files.around(plan.query)

    def _rows(
        self,
        each: InputSides,
        rows: Rows,
        keys: Iterable[Keys] | None,
        changed: Mapping[str, _Change],
        increment: Increment,
    ) -> str:
        """Those of ``rows`` that have one of the keys of the changes, if there are keys."""
        if not keys:
            return rows.all()
        condition = self._condition(keys, changed, {column.name.lower(): column for column in each.columns})
        return rows.where(increment.analysed.relations[each.name], condition) if condition else rows.all()

    def _condition(
        self, keys: Iterable[Keys], changed: Mapping[str, _Change], columns: Mapping[str, Column]
    ) -> str:
        """A condition that a row with one of the ``keys`` fulfils, and few others do. Empty: there
        are too many keys.
        """
        sources: dict[str, list[tuple[_Change, str]]] = {}
        for key in keys:
            sources.setdefault(key.column, []).append((changed[key.changed], key.changed_column))
        if sum(change.rows for listed in sources.values() for change, _ in listed) > MAX_BROADCAST:
            return ""
        return " or ".join(f"({self._keyed(columns[column], listed)})" for column, listed in sources.items())

    def _keyed(self, column: Column, sources: Sequence[tuple[_Change, str]]) -> str:
        """Whether the column has one of the values that ``sources`` have in a column each."""
        name, values, bounds = sql.identifier(column.name), [], []
        for change, of in sources:
            key = next(each for each in change.used if each.name.lower() == of)
            values.append(f"select {sql.identifier(key.name)} k from {sql.parquet_in(change.staged.uri)}")
            if change.rows <= MAX_KEYS:
                read = self.write.handle.read_staged(change.staged, arrow_schema((key,)))
                bounds.append(among(name, key, read.column(0)))
        exact = len(bounds) == len(sources) and all(each.exact for each in bounds)
        conditions = [] if exact else [f"{name} in (\n{sql.union_all(values)}\n)"]
        if len(bounds) == len(sources) and all(each.condition for each in bounds):
            conditions.insert(0, f"({' or '.join(each.condition for each in bounds)})")
        return " and ".join(conditions)

    def _staged(
        self, query: str, desired: Desired, shard: Layout, time: int, description: BatchDescription
    ) -> Written | Full:
        rows = replace(desired, query=query, signed=True).hashed()
        correction = Correction(desired.columns, 0).advance_since(time).insert(rows)
        staged = self.write.stager.stage(correction.updates_before(description.upper.stored()), "write")
        try:
            if staged.rows() == 0:
                staged.delete()
                return Written(None, Counts(), incremental=True)
            fits = fit(self.write, staged, shard)
            if fits.missing:
                staged.delete()
                return Full("a row that the change deletes is not in the table")
            if fits.ambiguous:
                unsure, staged = staged, without_hashes(self.write, staged, desired.columns, shard)
                unsure.delete()
        except BaseException:
            staged.delete()
            raise
        return replace(self.write.adopted(staged, description), incremental=True)


def _total(rows: str) -> str:
    """The net number of rows, of which no column matters; no row if it is zero."""
    return f"select {DIFF} from (select sum({DIFF}) {DIFF} from (\n{rows}\n)) where {DIFF} <> 0"
