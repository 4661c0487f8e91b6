"""A correction from the changes of the inputs, without evaluating the query for all rows.

1. *Changes* of the inputs are staged (`staged_changes`).
2. *Delta*: the query of the change (`incremental`) over them, and over what can matter of the
   inputs (`restricted`), is staged as a batch. Where the query groups by keys, the keys of what may
   differ are taken from the changes, or staged by a query first; then its rows for these keys are
   compared with the shard's. A query that adds up gets these rows from the shard's and the sums
   over the change. Few rows are compared in this process (`local`), others by Spark.
3. *Look up*: every hash of the batch is looked up in the shard (`lookup`). A row that should be
   deleted and is not there shows that the shard is not what the progress says: then the query is
   evaluated.

In a batch a hash stands for one row, and for at most one record of the base. Whether another row of
the shard has the hash is not known without reading the rows. So the batch has no hash for a row
whose hash the shard holds, unless all of these are deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pyarrow as pa

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.engine import EngineError, arrow_schema, shared_files, sql
from dbt.adapters.mvsink.incremental import (
    Adding,
    KnownScope,
    NotIncremental,
    Plan,
    Scoped,
    adding_of,
    basis,
    clock_probe,
)
from dbt.adapters.mvsink.local.difference import Stored, difference
from dbt.adapters.mvsink.local.rows import fits_locally, left_to_spark, local_row_limit
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH
from dbt.adapters.mvsink.reasons import EvaluateFully, Why
from dbt.adapters.mvsink.shard import StagedDirectory, physical_schema
from dbt.adapters.mvsink.shard_sql import BatchDescription, Counts, Layout
from dbt.adapters.mvsink.sink.add_sums import added, adds_up
from dbt.adapters.mvsink.sink.correction import BASE, Correction, Desired, persisted
from dbt.adapters.mvsink.sink.decide import Bounds
from dbt.adapters.mvsink.sink.increment import Increment
from dbt.adapters.mvsink.sink.lookup import fit, without_hashes
from dbt.adapters.mvsink.sink.restricted import RestrictedInputs
from dbt.adapters.mvsink.sink.staged_changes import StagedChanges
from dbt.adapters.mvsink.sink.staged_keys import StagedKeys
from dbt.adapters.mvsink.sink.write import COMPARED_WHOLE, Write
from dbt.adapters.mvsink.sink.written import Written

log = logging.getLogger("mvsink.sink.write")


@dataclass(frozen=True)
class DeltaWrite:
    """Stages corrections for ``write``'s shard, within ``bounds``."""

    write: Write
    bounds: Bounds = Bounds()

    def stage(
        self, increment: Increment, desired: Desired, shard: Layout, time: int, description: BatchDescription
    ) -> Written | EvaluateFully:
        """The correction that `Write.stage` would stage, if it follows from ``increment``."""
        with ExitStack() as resources, shared_files(self.write.engine) as files:
            run = _Delta(self.write, self.bounds, desired, shard, time, description, files, resources)
            try:
                return run.stage(increment)
            except EngineError as error:  # an old state may fail where the new one does not
                log.info("%s: the query of the change failed: %s", self.write.model, error)
                return EvaluateFully(Why.QUERY_FAILED)


@dataclass(frozen=True)
class _Planned:
    """``known``: a scope that needs no query of keys; None if there is none."""

    plan: Plan
    changes: StagedChanges
    known: KnownScope | None = None


@dataclass(frozen=True)
class _Delta:
    """One correction. ``files`` names what its statements read; ``resources`` ends with it."""

    write: Write
    bounds: Bounds
    desired: Desired
    shard: Layout
    time: int
    description: BatchDescription
    files: sql.Shared
    resources: ExitStack

    def stage(self, increment: Increment) -> Written | EvaluateFully:
        changes = StagedChanges.stage(self.write, increment, self.resources, self.bounds)
        if isinstance(changes, EvaluateFully):
            return changes
        failpoints.reach("changes staged")
        planned = self._plan(increment, changes)
        if isinstance(planned, NotIncremental):
            return EvaluateFully(Why.NOT_INCREMENTAL, planned.reason)
        outcome = self._outcome(planned)
        return replace(outcome, share=changes.share) if isinstance(outcome, Written) else outcome

    def _outcome(self, planned: _Planned) -> Written | EvaluateFully:
        plan = planned.plan
        if plan.terms == 0:
            return Written(None, Counts(), incremental=True)
        written = self._few_sums(plan.adding)
        if written is not None:
            return replace(written, evaluated_once=False, incremental=True)
        correction = self._correction(planned)
        if isinstance(correction, EvaluateFully):
            return correction
        return self._staged(correction, compared=plan.scoped is not None or plan.adding is not None)

    def _plan(self, increment: Increment, changes: StagedChanges) -> _Planned | NotIncremental:
        """With ``adding`` only if that is the way to go; then the sides may not do for another."""
        analysed, clock = increment.analysed, increment.clock
        if clock is not None and (probe := clock_probe(analysed, clock)) is not None:
            [[same]] = self.write.engine.query(probe, "clock")
            clock = None if same else clock
        adding = None if self.shard.empty else adding_of(analysed, changes.by_name, clock)
        adds = adding is not None and adds_up(adding, self.desired.columns)
        based = basis(analysed, changes.by_name, clock, nulls=True, added=adds, reached=True)
        inputs = RestrictedInputs(self.write, increment, changes.by_name, based.needed, self.resources)
        sides = inputs.sides(self.files)
        plan = based.plan(sides)
        if isinstance(plan, NotIncremental):
            return plan
        return _Planned(plan if adds else replace(plan, adding=None), changes, based.known_scope(sides))

    def _few_sums(self, adding: Adding | None) -> Written | None:
        """All of a few sums, by one query: the shard's and those over the change. None if they are
        not few: see `Write.whole_rows_locally`.
        """
        stored = persisted(self.shard)
        if stored is None or adding is None:
            return None
        few_rows = fits_locally(self.shard.files, self.shard.columns)
        new = added(adding, self.desired.columns, adding.query, self.files.of(stored, few=few_rows))
        written = self.write.whole_rows_locally(
            replace(self.desired, query=new), self.shard, self.time, self.description, self.files
        )
        if written is not None and written.batch is not None:
            failpoints.reach("staged")
        return written

    def _correction(self, planned: _Planned) -> Correction | pa.Table | EvaluateFully:
        plan, changed = planned.plan, planned.changes.rows
        known = None if planned.known is None else self._known(planned.known, planned)
        if known is not None:
            return known
        if plan.adding is not None:
            return self._added(plan.adding)
        if plan.scoped is not None:
            return self._scoped(plan.scoped)
        assert plan.query is not None
        empty = physical_schema(self.write.handle.schema).empty_table()
        # each may change several rows
        none = Stored(empty, empty) if 0 < changed <= local_row_limit(self.desired.columns) // 2 else None
        return self._less(replace(self.desired, query=plan.query, signed=True), none, lambda: None)

    def _scoped(self, scoped: Scoped) -> Correction | pa.Table | EvaluateFully:
        """The rows in scope, new less the shard's."""
        if scoped.keys is None:
            if refused := self.bounds.scope(scoped, self.shard.rows):
                return refused
            stored = persisted(self.shard)
            shown = None if stored is None else self.files.of(stored)
            return self._less(replace(self.desired, query=scoped.new), None, lambda: shown)
        # of a few groups, too, most have to be computed again from most of the inputs
        keys = self._staged_keys(scoped.keys, self.shard.rows)
        if isinstance(keys, EvaluateFully):
            return keys
        names = {f"_mv_k{number}": name for number, name in enumerate(scoped.columns)}
        new = scoped.new.replace(scoped.keys, keys.query(self.files))
        return self._less(
            replace(self.desired, query=new),
            keys.rows_in_scope(self.shard, names),
            lambda: keys.in_scope(self.shard, names, self.files),
        )

    def _known(self, known: KnownScope, planned: _Planned) -> Correction | pa.Table | None:
        """The rows in a scope whose keys are values of the changes; None if the keys, or the
        shard's rows that have one, are many: those of a query may be fewer.
        """
        adding, scoped = planned.plan.adding, known.scoped
        values = planned.changes.values(known.keys) if self.write.engine.cores_here() else None
        if values is None or scoped.keys is None:
            return None
        keys = StagedKeys.of(self.write, values, nulls=known.nulls)
        self.resources.callback(keys.staged.delete)
        if self.bounds.keys(keys.rows, self._groups(adding)):
            return None
        [name] = scoped.columns
        names = {"_mv_k0": name}
        here = keys.rows_in_scope(self.shard, names)
        if here is None:
            return None
        if adding is not None:  # a row that the change has no sums for stays as it is
            new = added(adding, self.desired.columns, adding.query, self._copied(here))
        else:
            new = scoped.new.replace(scoped.keys, keys.query(self.files))
        desired = replace(self.desired, query=new)
        return self._less(desired, here, lambda: keys.in_scope(self.shard, names, self.files))

    def _groups(self, adding: Adding | None) -> int:
        """Of how many rows some have to be computed again, or get other sums."""
        return self.shard.rows if adding is None else max(self.shard.rows, COMPARED_WHOLE)

    def _added(self, adding: Adding) -> Correction | pa.Table | EvaluateFully:
        """The shard's rows with the sums over the change, less these rows."""
        change = self._staged_keys(adding.query, self._groups(adding))
        if isinstance(change, EvaluateFully):
            return change
        names = {name: name for name in adding.keys}
        here = change.rows_in_scope(self.shard, names)
        stored = change.in_scope(self.shard, names, self.files) if here is None else self._copied(here)
        new = added(adding, self.desired.columns, change.query(self.files), stored)
        desired = replace(self.desired, query=new)
        return self._less(desired, here, lambda: change.in_scope(self.shard, names, self.files))

    def _copied(self, stored: Stored) -> str | None:
        """The query of rows that were read here; None if there are none."""
        if stored.rows == 0:
            return None
        staged = self.write.handle.write_staged(pa.concat_tables([stored.base, stored.others]))
        self.resources.callback(staged.delete)
        return self.files.of(f"select * from {sql.parquet_in(staged.uri)}", few=True)

    def _staged_keys(self, query: str, rows: int) -> StagedKeys | EvaluateFully:
        """The rows of ``query``, staged: one for each key that may differ, of ``rows`` in all."""
        staged = self.write.stager.stage(self.files.around(query), "keys")
        self.resources.callback(staged.delete)
        keys = StagedKeys(self.write, staged)
        return self.bounds.keys(keys.rows, rows) or keys

    def _less(
        self, desired: Desired, here: Stored | None, stored: Callable[[], str | None]
    ) -> Correction | pa.Table:
        """The rows of ``desired`` less the shard's in scope: ``here``, if they are few, or what the
        query ``stored`` gives, None for no rows. The updates themselves if they were computed in
        this process.
        """
        rows = desired.hashed()
        if here is not None:
            staged = self._evaluated(rows)
            updates = self._difference(staged, here)
            if updates is not None:
                return updates
            rows = self.files.of(f"select *, 0L {BASE} from {sql.parquet_in(staged.uri)}")
        correction = Correction(desired.columns, 0).advance_since(self.time).insert(rows)
        negated = stored()
        return correction if negated is None else correction.insert_negated(negated)

    def _evaluated(self, rows: str) -> StagedDirectory:
        """``rows`` as they come."""
        items = sql.columns(column.name for column in self.desired.columns)
        query = f"select {items}, {ERROR}, {HASH}, {DIFF} from (\n{rows}\n)"
        staged = self.write.stager.stage(self.files.around(query), "write")
        self.resources.callback(staged.delete)
        return staged

    def _difference(self, staged: StagedDirectory, stored: Stored) -> pa.Table | None:
        """The staged rows less ``stored``, computed here; None if it is left to Spark."""
        with self.write.watch("write"), left_to_spark(self.write.model):
            if staged.rows() > local_row_limit(self.desired.columns):
                return None
            more = [(ERROR, pa.string()), (HASH, pa.int64()), (DIFF, pa.int64())]
            schema = pa.schema([*arrow_schema(self.desired.columns), *more])
            return difference(self.write.handle.read_staged(staged, schema), stored, self.time)
        return None

    def _staged(self, correction: Correction | pa.Table, *, compared: bool) -> Written | EvaluateFully:
        """``compared``: with the shard's rows, so that what it deletes is there."""
        staged = self._written(correction)
        try:
            if staged.rows() == 0:
                staged.delete()
                return Written(None, Counts(), incremental=True)
            fits = fit(self.write, staged, self.shard)
            if fits.missing or (fits.unhashed and not compared):
                staged.delete()
                return EvaluateFully(Why.ROW_MISSING if fits.missing else Why.ROW_AMBIGUOUS)
            if fits.ambiguous:
                staged = self._without_hashes(staged)
        except BaseException:
            staged.delete()
            raise
        written = self.write.adopted(staged, self.description)
        failpoints.reach("staged")
        return replace(written, incremental=True)

    def _written(self, correction: Correction | pa.Table) -> StagedDirectory:
        if isinstance(correction, Correction):
            updates = correction.updates_before(self.description.upper.stored())
            return self.write.stager.stage(self.files.around(updates), "write")
        with self.write.watch("write"):
            return self.write.handle.write_staged(correction)

    def _without_hashes(self, staged: StagedDirectory) -> StagedDirectory:
        unsure = staged
        staged = without_hashes(self.write, unsure, self.desired.columns, self.shard)
        unsure.delete()
        return staged
