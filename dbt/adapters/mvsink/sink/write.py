"""Write: stage the correction of one description, in Spark, all tasks in parallel.

There are four ways. They stage the same updates; which costs least depends on how many rows there
are and how many of them changed (`run_history`, docs/performance.md):

- *Whole rows*, of a small shard: one statement groups both sides by the whole row.
- *Buckets*, where few rows changed. A row that did not change is neither shuffled nor written.
  1. *Detect.* One pass over desired and one over the shard's narrow columns sum hashes per bucket.
     Buckets whose totals differ are candidates; without candidates there is nothing to do.
  2. *Fetch.* Desired and the shard's rows are read again and grouped by the whole row: only rows
     with the one hash by which a candidate bucket differs, or else the whole bucket (`detection`).
     In a large view the buckets are made from a column's values, and desired is evaluated for the
     candidates' values only.
  3. *Agree.* The staged rows must give exactly the differences that were detected, and no row
     outside the comparison may share a hash with one of them. If not, the query is not
     deterministic, its inputs changed, or two rows collide: it is evaluated once.
- *Hashes*, where more changed: the same three steps, but with the hash of each row in place of
  buckets. An unchanged row is not written, and only its hash is shuffled.
- *Once*, where nearly all changed, or where evaluating the query again takes longer than writing
  all rows. All rows are staged, and each hash is compared with the shard's (`detection`). Only the
  rows whose hashes differ are grouped. Where nearly all differ, the staged rows replace the shard's
  rows, which a negated copy takes back (`shard.directories`).

The first load has nothing to compare with, so it is written as it is, one record per row. A hash
may occur in it more than once. That is not checked until a correction touches the hash: the fetch
shows it at no cost, whereas the load would need a shuffle.

Nothing here commits: a staged batch is appended, or deleted, by the driver.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.engine import Engine, EngineError, arrow_schema, shared_files, sql
from dbt.adapters.mvsink.engine.timing import Stopwatch
from dbt.adapters.mvsink.local.difference import Stored, collected, difference
from dbt.adapters.mvsink.local.rows import fits_locally, left_to_spark
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH
from dbt.adapters.mvsink.shard import StagedDirectory, StagingHandle, negatable
from dbt.adapters.mvsink.shard_sql import BatchDescription, Counts, Layout
from dbt.adapters.mvsink.shard_sql.stager import Stager, added_up
from dbt.adapters.mvsink.sink.correction import BASE, Correction, Desired, persisted
from dbt.adapters.mvsink.sink.detection import (
    FIXED_WIDTH,
    Buckets,
    BucketScope,
    DifferingHashes,
    EvaluatedFiles,
    differing_buckets,
    differing_hashes,
    locator,
    narrow,
    staged_negation,
    updates_of,
)
from dbt.adapters.mvsink.sink.round import Previewed, Round, Written
from dbt.adapters.mvsink.sink.run_history import BUCKETS, HASHES, ONCE, RunHistory, nearly_all

log = logging.getLogger("mvsink.sink.write")


@dataclass
class Write:
    """The operator: stages a round's correction."""

    engine: Engine
    handle: StagingHandle
    model: str
    watch: Stopwatch = field(default_factory=Stopwatch)

    def __post_init__(self) -> None:
        self.stager = Stager(self.engine, self.handle, self.model, self.watch)

    def stage(
        self, at: Round, input_changes: Callable[[], int | None] = lambda: None, way: str = ""
    ) -> Written:
        """Stage the correction after which the shard holds the desired contents, of a large shard
        in this ``way``, by default as earlier runs suggest. See `Evidence.input_changes`.
        """
        if at.shard.empty:
            written = self.first_load(at)
        elif at.by_whole_rows:
            written = self.whole_rows(at)
        else:
            changes = input_changes()
            way = way or RunHistory.of(self.handle).comparison(at.shard, changes)
            twice = self._by_buckets(at) if way == BUCKETS else self._by_hashes(at) if way == HASHES else None
            written = self._once(at) if twice is None else twice
            way = way if twice is not None or way == ONCE else ""
            written = replace(written, way=way, input_changes=changes)
        if written.batch is None:
            lower, upper = at.description.lower, at.description.upper
            log.debug("%s: skipping empty [%s, %s)", self.model, lower, upper)
        else:
            failpoints.reach("staged")
        return written

    def first_load(self, at: Round) -> Written:
        """Stage all desired rows for an empty shard; equal rows stay separate records."""
        staged = self.stager.stage(updates_of(at.desired, at.time), "write")
        return self.adopted(staged, at.description, schema=arrow_schema(at.desired.columns))

    def stage_error(self, message: str, at: Round) -> Written:
        """Stage ``message`` as the shard's only error update; the rows stay as they are."""
        columns = at.desired.columns
        items = ", ".join(f"cast(null as {c.type.spelled}) {sql.identifier(c.name)}" for c in columns)
        row = f"select {items}, {sql.text(message)} {ERROR}, 1L {DIFF}"
        names = sql.columns(column.name for column in columns)
        wanted = f"select {names}, {ERROR}, {at.shard.hash_of()} {HASH}, {DIFF}, 0L {BASE} from (\n{row}\n)"
        correction = Correction(columns, at.time).insert(wanted)
        current = persisted(at.shard, errors_only=True)
        if current is not None:
            correction = correction.insert_negated(current)
        return self._staged(correction, at)

    def failure_of(self, desired: Desired) -> EngineError | None:
        """The error of the query alone, evaluated completely; None if it does not fail."""
        try:
            self.stager.stage(desired.rows(), "confirm").delete()
        except EngineError as error:
            return error
        return None

    def preview(self, at: Round, sample: int = 0) -> Previewed:
        """The correction's counts, with up to ``sample`` of its updates; nothing is written."""
        correction = correction_of(at.desired, at)
        if not at.by_whole_rows and at.shard.detectable:
            buckets = Buckets.of(at.shard)
            correction = correction.restricted_to(buckets.scope(_differing(buckets, at)))
        updates = correction.consolidate_at_since()
        with self.watch("preview"):
            counts, records = self.stager.sums(updates)
            rows = (
                self.engine.query(f"select * from (\n{updates}\n) limit {sample}", "sample") if sample else []
            )
        return Previewed(counts, records, tuple(rows))

    def whole_rows(self, at: Round) -> Written:
        """Stage the correction without using hashes; for a small shard, in this process."""
        with shared_files(self.engine) as files:
            written = self.whole_rows_locally(at, files)
        if written is not None:
            return written
        return self._staged(correction_of(at.desired, at), at, evaluated_once=True)

    def whole_rows_locally(self, at: Round, files: sql.Shared) -> Written | None:
        """The same, computed in this process. None if that is left to Spark; then nothing has
        happened. ``files`` are those that the query reads. Raises `EngineError` for an error that
        the data cause.
        """
        updates, desired = None, at.desired
        with self.watch("write"), left_to_spark(self.handle.uri):
            if not at.shard.loose and fits_locally(at.shard.files, desired.columns):
                rows = collected(self.engine, desired.hashed(), desired.columns, files)
                if rows is not None:
                    stored = Stored(*map(self.handle.read_updates, at.shard.by_base()))
                    updates = difference(rows, stored, at.time)
        if updates is None:
            return None
        batch = None
        if updates.num_rows:
            with self.watch("write"):
                staged = self.handle.write_staged(updates)
            batch = self.stager.adopt(staged, at.description)
        return Written(batch, added_up(updates), evaluated_once=True)

    def _by_buckets(self, at: Round) -> Written | None:
        """Detect, fetch, agree. None, with no files left, if too many rows changed or the query
        gave different rows the second time.
        """
        buckets = Buckets.of(at.shard, locator(self.handle, at.desired.present, at.shard))
        detected = self.stager.stage(_differing(buckets, at), "detect")
        try:
            numbers = self.handle.read_staged(detected, pa.schema([("b", pa.int64())])).column("b")
            if len(numbers) == 0:
                return Written(None, Counts(), 0)
            if len(numbers) >= buckets.nearly_all:
                log.info("%s: many rows changed; evaluating the query once", self.model)
                return None
            totals = f"select * from {sql.parquet_in(detected.uri)}"
            scope = buckets.scope(totals)
            narrowed = located(at.desired, buckets, numbers.to_pylist())
            correction = correction_of(narrowed, at).restricted_to(scope)
            staged = self.stager.stage(correction.updates_before(at.description.upper.stored()), "write")
            if self._agrees(scope, totals, staged, at.shard):
                return self.adopted(staged, at.description, len(numbers))
            log.info("%s: two evaluations of the query differ; evaluating it once", self.model)
            staged.delete()
            return None
        finally:
            detected.delete()

    def _by_hashes(self, at: Round) -> Written | None:
        """Like `_by_buckets`, with hashes in place of buckets."""
        column = locator(self.handle, at.desired.present, at.shard)
        column = column if column is not None and column.type.name in FIXED_WIDTH else None
        detected = self.stager.stage(differing_hashes(at.desired.hashed(), at.shard, column), "detect")
        try:
            scope = DifferingHashes(detected.uri, detected.rows(), column)
            if scope.count == 0:
                return Written(None, Counts())
            if nearly_all(scope.count, at.shard.rows, at.shard):
                log.info("%s: nearly all rows changed; evaluating the query once", self.model)
                return None
            scope = scope.examined(self.engine)
            correction = correction_of(scope.narrowed(at.desired), at).restricted_to(scope)
            staged = self.stager.stage(correction.updates_before(at.description.upper.stored()), "write")
            hashes = f"coalesce({HASH}, {at.shard.hash_of()}) {HASH}"
            rows = f"select {hashes}, {DIFF} from {sql.parquet_in(staged.uri)}"
            with self.watch("agree"):
                agrees = not self.engine.query(scope.disagrees(rows), "agree")
            if agrees:
                return self.adopted(staged, at.description)
            log.info("%s: two evaluations of the query differ; evaluating it once", self.model)
            staged.delete()
            return None
        finally:
            detected.delete()

    def _once(self, at: Round) -> Written:
        """Evaluate the query into staged files, then compare these with the shard."""
        staged = self.stager.stage(updates_of(at.desired, at.time), "evaluate")
        try:
            copied = EvaluatedFiles(staged.uri, at.desired.columns)
            compared = self.stager.stage(copied.differing_hashes(at.shard), "compare")
            try:
                scope = DifferingHashes(compared.uri, compared.rows())
                if scope.count == 0:
                    return Written(None, Counts(), evaluated_once=True)
                many = nearly_all(scope.count, staged.rows(), at.shard)
                # and a negation can take back all that the shard holds
                if many and not at.shard.loose and negatable(at.shard.files, at.time) == at.shard.files:
                    return self._replaced(staged, compared, at)
                correction = correction_of(copied, at).restricted_to(scope.examined(self.engine))
                return self._staged(correction, at, evaluated_once=True)
            finally:
                compared.delete()
        finally:
            staged.delete()

    def _replaced(self, staged: StagedDirectory, compared: StagedDirectory, at: Round) -> Written:
        """All rows, which are ``staged``, and the negation of what the shard holds."""
        taken_back = staged_negation(self.stager, at.shard, at.time)
        written = Written(
            None, Counts(), evaluated_once=True, negation=self.stager.adopt(taken_back, at.description)
        )
        try:
            with self.watch("count"):
                counts = self.stager.sums(EvaluatedFiles.changes(compared.uri))[0]
            return replace(written, batch=self.stager.adopt(staged, at.description), counts=counts)
        except BaseException:
            written.delete()
            raise

    def _agrees(self, scope: BucketScope, totals: str, staged: StagedDirectory, shard: Layout) -> bool:
        """Whether the staged updates add up, per bucket, to the detected differences, and their
        hashes belong to no other row of the shard.
        """
        hashed = f"coalesce({HASH}, {shard.hash_of()}) {HASH}"
        rows = f"select {scope.buckets.with_locator(hashed, DIFF)} from {sql.parquet_in(staged.uri)}"
        left = differing_buckets([totals, scope.buckets.digest(rows, -1)])
        against = [f"select b from (\n{left}\n)"]
        if scope.buckets.locator is not None:
            hashes = f"select {HASH} h from {sql.parquet_in(staged.uri)} where {HASH} is not null"
            against.append(scope.overlooked(narrow(shard, scope.buckets), hashes))
        with self.watch("agree"):
            return not self.engine.query(f"select * from (\n{sql.union_all(against)}\n) limit 1", "agree")

    def _staged(self, correction: Correction, at: Round, *, evaluated_once: bool = False) -> Written:
        staged = self.stager.stage(correction.updates_before(at.description.upper.stored()), "write")
        return self.adopted(staged, at.description, evaluated_once=evaluated_once)

    def adopted(
        self,
        staged: StagedDirectory,
        description: BatchDescription,
        candidates: int | None = None,
        *,
        evaluated_once: bool = False,
        schema: pa.Schema | None = None,
    ) -> Written:
        """The staged files as a batch; deletes them if they are empty. `adopt` explains
        ``schema``.
        """
        batch = self.stager.adopt(staged, description, schema)
        if batch is None:
            return Written(None, Counts(), candidates, evaluated_once)
        try:
            return Written(batch, self.stager.counts(batch), candidates, evaluated_once)
        except BaseException:
            batch.delete()
            raise


def correction_of(desired: Desired | EvaluatedFiles, at: Round) -> Correction:
    """``desired`` less all that the shard holds."""
    correction = Correction(desired.columns, 0).advance_since(at.time).insert(desired.hashed())
    current = persisted(at.shard)
    return correction if current is None else correction.insert_negated(current)


def _differing(buckets: Buckets, at: Round) -> str:
    """The query of the buckets in which the two sides differ."""
    return differing_buckets(
        [buckets.digest(at.desired.hashed(), 1), buckets.digest(narrow(at.shard, buckets), -1)]
    )


def located(desired: Desired, buckets: Buckets, numbers: Sequence[int]) -> Desired:
    """``desired``, limited to the differing buckets as far as its locator allows."""
    column = buckets.locator
    if column is None:
        return desired
    condition = buckets.located(desired.value(column), numbers)
    # an error update has no value: it is in a bucket of NULL, not in that of the query's row
    if desired.assertions:
        no_value = f"cast(null as {column.type.spelled})"
        condition = f"({condition} or {buckets.located(no_value, numbers)})"
    return desired.where(condition)
