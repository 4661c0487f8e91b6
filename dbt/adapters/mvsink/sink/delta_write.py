"""A correction from the changes of the inputs, without evaluating the query.

1. *Changes*: what changed in each input is staged, only the columns that the query uses, in net. An
   input whose staged change is empty did not change.
2. *Delta*: the query of the change (`incremental`) over the staged changes is staged as a batch.
   Other inputs are read only where they have a key of a change (`restrictions`).
3. *Look up*: every hash of the batch is looked up in the shard. A row that should be deleted and is
   not there shows that the shard is not what the progress says: then the query is evaluated.

In a batch a hash stands for one row, and for at most one record of the base. Whether another row of
the shard has the hash is not known without reading the rows. So the batch has no hash for a row
whose hash the shard holds, unless all of these are deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from dbt.adapters.mvsink.engine import Column, EngineError, arrow_schema, sql
from dbt.adapters.mvsink.engine.net import net
from dbt.adapters.mvsink.incremental import (
    Keys,
    NotIncremental,
    Sides,
    clock_probe,
    delta,
    restrictions,
)
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, TIME
from dbt.adapters.mvsink.shard import StagedDirectory
from dbt.adapters.mvsink.shard_sql import BatchDescription, Counts, Layout
from dbt.adapters.mvsink.shard_sql.layout import MAX_BROADCAST
from dbt.adapters.mvsink.sink.correction import BASE, Correction, Desired, persisted
from dbt.adapters.mvsink.sink.increment import Full, Increment, InputSides
from dbt.adapters.mvsink.sink.ranges import MAX_KEYS, within
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
            return Full("its data is small")
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
            rows = f"select {sql.columns([*(c.name for c in used), DIFF])} from (\n{each.change}\n)"
            staged = self.write.stager.stage(net(used, [], rows, "<> 0") if used else _total(rows), "changes")
            resources.callback(staged.delete)
            count = staged.rows()
            if not self.forced and each.rows is not None and count > MAX_SHARE * each.rows:
                return Full(f"{each.name} changed by {count / max(each.rows, 1):.0%}")
            if count:
                changes.append(_Change(each, used, staged, count))
        return tuple(changes)

    def _query(self, increment: Increment, changes: Sequence[_Change]) -> str | NotIncremental:
        """The query of the change, from which rows are missing only where it has none."""
        analysed, clock = increment.analysed, increment.clock
        changed = {change.input.name: change for change in changes}
        if clock is not None and (probe := clock_probe(analysed, clock)) is not None:
            [[same]] = self.write.engine.query(probe, "clock")
            clock = None if same else clock
        needed = restrictions(analysed, changed, clock)
        sides = {}
        for name in analysed.relations:
            dated = next((each for each in increment.inputs if each.name == name), None)
            keys = needed[name]
            new, old = (f"select * from {name}",) * 2 if dated is None else (dated.new, dated.old)
            if dated is None and not keys:
                continue
            if keys:
                new, old = (_restricted(text, keys, changed, self.write) for text in (new, old))
            sides[name] = Sides(new, old, changed[name].query() if name in changed else None)
        plan = delta(analysed, sides, clock)
        return plan if isinstance(plan, NotIncremental) else plan.query

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
            missing, ambiguous = self._looked_up(staged, shard)
            if missing:
                staged.delete()
                return Full("a row that the change deletes is not in the table")
            if ambiguous:
                unhashed, staged = staged, self._without_hashes(staged, desired, shard)
                unhashed.delete()
        except BaseException:
            staged.delete()
            raise
        return replace(self.write.adopted(staged, description), incremental=True)

    def _looked_up(self, staged: StagedDirectory, shard: Layout) -> tuple[int, int]:
        """How many rows the change deletes that the shard does not hold, and how many have a hash
        that may not stand for them alone.
        """
        sums = f"select count_if(missing), count_if(ambiguous) from (\n{_judged(staged, shard)}\n)"
        with self.write.watch("look up"):
            [[missing, ambiguous]] = self.write.engine.query(sums, "look up")
        return int(str(missing)), int(str(ambiguous))

    def _without_hashes(self, staged: StagedDirectory, desired: Desired, shard: Layout) -> StagedDirectory:
        """The same rows; those whose hash may not stand for them alone have none."""
        names = sql.columns([*(column.name for column in desired.columns), TIME, DIFF, ERROR])
        unsure = f"select h from (\n{_judged(staged, shard)}\n) where ambiguous"
        kept = f"if({HASH} in (select h from (\n{unsure}\n)), cast(null as bigint), {HASH}) {HASH}"
        return self.write.stager.stage(f"select {names}, {kept} from {sql.parquet_in(staged.uri)}", "write")


def _judged(staged: StagedDirectory, shard: Layout) -> str:
    """Each staged hash, ``h``: whether a row is ``missing`` in the shard, whether the hash is
    ``ambiguous``. A hash that two staged rows share is NULL in both, and neither can be looked up.
    """
    batch = sql.parquet_in(staged.uri)
    current = persisted(shard)
    few = staged.rows() <= MAX_BROADCAST
    stored = f"select {HASH} h, {DIFF}, {BASE} from (\n{current}\n)" if current else (
        f"select 0L h, 0L {DIFF}, 0L {BASE} where false"
    )  # fmt: skip
    wanted = f"select {HASH} h from {batch} where {HASH} is not null"
    hints = ("/*+ BROADCAST(_mv_w) */ ", "/*+ BROADCAST(_mv_n) */ ") if few else ("", "")
    among = f"select {hints[0]}_mv_p.* from (\n{stored}\n) _mv_p left semi join (\n{wanted}\n) _mv_w on _mv_w.h = _mv_p.h"
    sums = f"select h, sum({DIFF}) n, sum({BASE}) b from (\n{among}\n) group by h"
    missing = f"_mv_c.{HASH} is null or ({DIFF} < 0 and coalesce(n, 0) < -{DIFF})"
    ambiguous = f"n > 0 and ({DIFF} > 0 or n > -{DIFF} or b > 1)"
    return (
        f"select {hints[1]}_mv_c.{HASH} h, {missing} missing, coalesce({ambiguous}, false) ambiguous "
        f"from {batch} _mv_c left join (\n{sums}\n) _mv_n on _mv_n.h = _mv_c.{HASH}"
    )


def _total(rows: str) -> str:
    """The net number of rows, of which no column matters; no row if it is zero."""
    return f"select {DIFF} from (select sum({DIFF}) {DIFF} from (\n{rows}\n)) where {DIFF} <> 0"


def _restricted(rows: str, keys: Iterable[Keys], changed: dict[str, _Change], write: Write) -> str:
    """Those of ``rows`` that have a key of one of the changes."""
    by_column: dict[str, list[tuple[_Change, str]]] = {}
    for key in keys:
        by_column.setdefault(key.column, []).append((changed[key.changed], key.changed_column))
    if sum(change.rows for sources in by_column.values() for change, _ in sources) > MAX_BROADCAST:
        return rows
    conditions = []
    for number, (column, sources) in enumerate(by_column.items()):
        name, alias = sql.identifier(column), f"_mv_k{number}"
        values = sql.union_all(
            f"select {sql.identifier(of)} k from {sql.parquet_in(change.staged.uri)}"
            for change, of in sources
        )
        bounds = _ranges(f"_mv_r.{name}", sources, write)
        matches = f"exists (select 1 from (\n{values}\n) {alias} where {alias}.k = _mv_r.{name})"
        conditions.append(f"({bounds} and {matches})" if bounds else matches)
    return f"select * from (\n{rows}\n) _mv_r where " + " or ".join(conditions)


def _ranges(expression: str, sources: Sequence[tuple[_Change, str]], write: Write) -> str:
    """A condition that ``expression`` fulfils wherever it is one of the keys; empty without one."""
    if sum(change.rows for change, _ in sources) > MAX_KEYS:
        return ""
    conditions = []
    for change, name in sources:
        column = next(column for column in change.used if column.name.lower() == name)
        keys = write.handle.read_staged(change.staged, arrow_schema((column,))).column(0)
        conditions.append(within(expression, column, keys))
    return f"({' or '.join(conditions)})" if all(conditions) else ""
