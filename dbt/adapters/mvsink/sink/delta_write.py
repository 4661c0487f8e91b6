"""A correction from the changes of the inputs, without evaluating the query for all rows.

1. *Changes* of the inputs are staged (`staged_changes`).
2. *Delta*: the query of the change (`incremental`) over them is staged as a batch. Where the query
   groups by keys, the keys of what may differ are staged first; then its rows for these keys are
   compared with the shard's. A query that adds up gets these rows from the shard's and the sums
   over the change.
3. *Look up*: every hash of the batch is looked up in the shard (`lookup`). A row that should be
   deleted and is not there shows that the shard is not what the progress says: then the query is
   evaluated.

In a batch a hash stands for one row, and for at most one record of the base. Whether another row of
the shard has the hash is not known without reading the rows. So the batch has no hash for a row
whose hash the shard holds, unless all of these are deleted.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import dataclass, replace

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.engine import EngineError, sql
from dbt.adapters.mvsink.incremental import (
    Adding,
    NotIncremental,
    Plan,
    Scoped,
    adding_of,
    clock_probe,
    delta,
    restrictions,
)
from dbt.adapters.mvsink.shard import StagedDirectory
from dbt.adapters.mvsink.shard_sql import BatchDescription, Counts, Layout
from dbt.adapters.mvsink.sink.adding import added, adds_up
from dbt.adapters.mvsink.sink.correction import Correction, Desired, persisted
from dbt.adapters.mvsink.sink.increment import MANY_KEYS, SMALL, Full, Increment
from dbt.adapters.mvsink.sink.lookup import fit, without_hashes
from dbt.adapters.mvsink.sink.restricted import RestrictedInputs
from dbt.adapters.mvsink.sink.staged_changes import StagedChanges
from dbt.adapters.mvsink.sink.staged_keys import StagedKeys
from dbt.adapters.mvsink.sink.write import FEW_ROWS, Write, Written

log = logging.getLogger("mvsink.sink.write")
MAX_KEYS_SHARE = 0.2  # of the shard's rows that may have a key: beyond, all are compared


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
            return Full(SMALL, usual=True)
        with ExitStack() as resources:
            try:
                changes = StagedChanges.stage(self.write, increment, resources, forced=self.forced)
                if isinstance(changes, Full):
                    return changes
                failpoints.reach("changes staged")
                files = sql.Shared(lambda path: resources.enter_context(self.write.engine.files_view(path)))
                plan = self._plan(increment, changes, files, desired, shard, resources)
                if isinstance(plan, NotIncremental):
                    return Full(plan.reason, usual=True)
                if plan.terms == 0:
                    return Written(None, Counts(), incremental=True)
                written = self._few_sums(plan.adding, files, desired, shard, time, description)
                if written is not None:
                    return replace(written, evaluated_once=False, incremental=True)
                correction = self._correction(plan, files, desired, shard, time, resources)
                if isinstance(correction, Full):
                    return correction
                compared = plan.scoped is not None or plan.adding is not None
                return self._staged(correction, files, shard, description, compared=compared)
            except EngineError as error:  # an old state may fail where the new one does not
                log.info("%s: the query of the change failed: %s", self.write.model, error)
                return Full("the query of the change failed")

    def _plan(
        self,
        increment: Increment,
        changes: StagedChanges,
        files: sql.Shared,
        desired: Desired,
        shard: Layout,
        resources: ExitStack,
    ) -> Plan | NotIncremental:
        """With ``adding`` only if that is the way to go; then the sides may not do for another."""
        clock = increment.clock
        if clock is not None and (probe := clock_probe(increment.analysed, clock)) is not None:
            [[same]] = self.write.engine.query(probe, "clock")
            clock = None if same else clock
        adding = None if shard.empty else adding_of(increment.analysed, changes.by_name, clock)
        added = adding is not None and adds_up(adding, desired.columns)
        needed = restrictions(
            increment.analysed, changes.by_name, clock, nulls=True, added=added, reached=True
        )
        inputs = RestrictedInputs(self.write, increment, changes.by_name, needed, resources)
        plan = delta(increment.analysed, inputs.sides(files), clock)
        return plan if added or isinstance(plan, NotIncremental) else replace(plan, adding=None)

    def _correction(
        self,
        plan: Plan,
        files: sql.Shared,
        desired: Desired,
        shard: Layout,
        time: int,
        resources: ExitStack,
    ) -> Correction | Full:
        correction = Correction(desired.columns, 0).advance_since(time)
        if plan.adding is not None:
            return self._added(plan.adding, files, desired, shard, correction, resources)
        if plan.scoped is None:
            assert plan.query is not None
            return correction.insert(replace(desired, query=plan.query, signed=True).hashed())
        scope = self._scope(plan.scoped, files, shard, resources)
        if isinstance(scope, Full):
            return scope
        new, stored = scope
        correction = correction.insert(replace(desired, query=new).hashed())
        return correction.insert_negated(stored) if stored else correction

    def _few_sums(
        self,
        adding: Adding | None,
        files: sql.Shared,
        desired: Desired,
        shard: Layout,
        time: int,
        description: BatchDescription,
    ) -> Written | None:
        """All of a few sums, by one query: the shard's and those over the change. None if they are
        not few: see `Write.in_process`.
        """
        stored = persisted(shard)
        if stored is None or adding is None:
            return None
        new = files.around(added(adding, desired.columns, adding.query, files.of(stored)))
        written = self.write.in_process(replace(desired, query=new), shard, time, description)
        if written is not None and written.batch is not None:
            failpoints.reach("staged")
        return written

    def _scope(
        self, scoped: Scoped, files: sql.Shared, shard: Layout, resources: ExitStack
    ) -> tuple[str, str | None] | Full:
        """The query of the new rows in scope, and the shard's rows in scope, None for none."""
        if scoped.keys is None:
            too_many = shard.rows > FEW_ROWS and not self.forced
            if too_many:
                return Full("all of its rows may differ", usual=True)
            stored = persisted(shard)
            return scoped.new, None if stored is None else files.of(stored)
        # of a few groups, too, most have to be computed again from most of the inputs
        keys = self._staged_keys(scoped.keys, files, shard.rows, resources)
        if isinstance(keys, Full):
            return keys
        names = {f"_mv_k{number}": name for number, name in enumerate(scoped.columns)}
        new = scoped.new.replace(scoped.keys, files.of(keys.query()))
        return new, keys.in_scope(shard, names, files)

    def _added(
        self,
        adding: Adding,
        files: sql.Shared,
        desired: Desired,
        shard: Layout,
        correction: Correction,
        resources: ExitStack,
    ) -> Correction | Full:
        """The shard's rows with the sums over the change, less these rows."""
        change = self._staged_keys(adding.query, files, max(shard.rows, FEW_ROWS), resources)
        if isinstance(change, Full):
            return change
        stored = change.in_scope(shard, {name: name for name in adding.keys}, files)
        new = added(adding, desired.columns, files.of(change.query()), stored)
        correction = correction.insert(replace(desired, query=new).hashed())
        return correction.insert_negated(stored) if stored else correction

    def _staged_keys(
        self, query: str, files: sql.Shared, rows: int, resources: ExitStack
    ) -> StagedKeys | Full:
        """The rows of ``query``, staged: one for each key that may differ, of ``rows`` in all."""
        staged = self.write.stager.stage(files.around(query), "keys")
        resources.callback(staged.delete)
        keys = StagedKeys(self.write, staged)
        if not self.forced and keys.rows() > MAX_KEYS_SHARE * rows:
            return Full(MANY_KEYS)
        return keys

    def _staged(
        self,
        correction: Correction,
        files: sql.Shared,
        shard: Layout,
        description: BatchDescription,
        *,
        compared: bool,
    ) -> Written | Full:
        """``compared``: with the shard's rows, so that what it deletes is there."""
        updates = files.around(correction.updates_before(description.upper.stored()))
        staged = self.write.stager.stage(updates, "write")
        try:
            if staged.rows() == 0:
                staged.delete()
                return Written(None, Counts(), incremental=True)
            fits = fit(self.write, staged, shard)
            if fits.missing or (fits.unhashed and not compared):
                staged.delete()
                what = "is not in the table" if fits.missing else "cannot be looked up: two have one hash"
                return Full(f"a row that changes {what}")
            if fits.ambiguous:
                staged = self._without_hashes(staged, correction, shard)
        except BaseException:
            staged.delete()
            raise
        written = self.write.adopted(staged, description)
        failpoints.reach("staged")
        return replace(written, incremental=True)

    def _without_hashes(
        self, staged: StagedDirectory, correction: Correction, shard: Layout
    ) -> StagedDirectory:
        unsure = staged
        staged = without_hashes(self.write, unsure, correction.columns, shard)
        unsure.delete()
        return staged
