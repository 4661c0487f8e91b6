"""Write: stage the correction of one description, in Spark, all tasks in parallel.

A row that did not change is neither shuffled nor written:

1. *Detect.* One pass over desired and one over the shard's narrow columns sum hashes per bucket.
   Buckets whose totals differ are candidates; without candidates there is nothing to do.
2. *Fetch.* Desired and the shard's rows are read again, only those of the one hash by which a
   candidate bucket differs, or of the whole bucket (`detection`), and grouped by the whole row.
   Sums other than zero are the correction. In a large view a column's values make up the buckets,
   and desired is evaluated for the candidates' values only (`locator`).
3. *Agree.* The staged rows must give exactly the differences that were detected, and no row outside
   the comparison may share a hash with one of them. If not, the query is not deterministic, its
   inputs changed, or two rows collide: the query is evaluated once into staged files, and the
   correction is computed from these.

If a single evaluation costs less, it is used from the start (`evaluate_once`).

The first load has nothing to compare with: it is written as it is, one record per row. A hash may
occur in it more than once. That is not checked until a correction touches it, because the fetch
shows it at no cost, whereas the load would need a shuffle.

Nothing here commits: a staged batch is appended, or deleted, by the driver.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

import pyarrow as pa

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.engine import Engine, EngineError, sql
from dbt.adapters.mvsink.engine.timing import Stopwatch
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, TIME
from dbt.adapters.mvsink.shard import Batch, StagedDirectory, WriteHandle
from dbt.adapters.mvsink.shard_sql import BatchDescription, Counts, Layout
from dbt.adapters.mvsink.shard_sql.stager import Stager
from dbt.adapters.mvsink.sink.correction import BASE, Correction, Desired, persisted
from dbt.adapters.mvsink.sink.detection import Buckets, Scope, differing_buckets, narrow
from dbt.adapters.mvsink.sink.errors import NondeterministicQuery
from dbt.adapters.mvsink.sink.evaluate_once import Copied, copied_rows, evaluated_once
from dbt.adapters.mvsink.sink.locator import locator

log = logging.getLogger("mvsink.sink.write")


@dataclass(frozen=True)
class Written:
    """A staged correction; `batch` is None if there is nothing to append."""

    batch: Batch | None
    counts: Counts
    candidate_buckets: int | None = None  # None: detection was skipped
    evaluated_once: bool = False


@dataclass(frozen=True)
class Previewed:
    """A correction that was not staged: its counts, its number of updates, and some of these."""

    counts: Counts
    updates: int
    sample: tuple[tuple[object, ...], ...] = ()


@dataclass(frozen=True)
class Detected:
    """The staged result of detection: the differing buckets, their totals and numbers."""

    staged: StagedDirectory
    buckets: Buckets
    numbers: pa.ChunkedArray

    @property
    def candidates(self) -> int:
        return len(self.numbers)

    @property
    def partial(self) -> bool:
        """Whether comparing the differing buckets alone saves work."""
        return self.candidates < self.buckets.nearly_all

    @property
    def totals(self) -> str:
        return f"select * from {sql.parquet_in(self.staged.uri)}"

    def narrowed(self, desired: Desired | Copied) -> Desired | Copied:
        """``desired``, limited to the differing buckets as far as its locator allows."""
        column = self.buckets.locator
        if column is None or isinstance(desired, Copied):
            return desired
        numbers = self.numbers.to_pylist()
        condition = self.buckets.located(desired.value(column), numbers)
        # an error update has no value: it is in a bucket of NULL, not in that of the query's row
        if desired.assertions:
            condition = (
                f"({condition} or {self.buckets.located(f'cast(null as {column.type.spelled})', numbers)})"
            )
        return desired.where(condition)


@dataclass
class Write:
    """The operator. ``time`` is the write time in ms: every update is staged at it."""

    engine: Engine
    handle: WriteHandle
    model: str
    watch: Stopwatch = field(default_factory=Stopwatch)

    def __post_init__(self) -> None:
        self.stager = Stager(self.engine, self.handle, self.model, self.watch)

    def stage(self, desired: Desired, shard: Layout, time: int, description: BatchDescription) -> Written:
        """Stage the correction after which the shard holds ``desired`` from ``time`` on."""
        if shard.empty:
            written = self.first_load(desired, time, description)
        elif shard.detectable and evaluated_once(self.engine, desired, shard):
            written = self._correct_once(desired, shard, time, description)
        else:
            written = self._correct(desired, shard, time, description)
        if written.batch is not None:
            failpoints.reach("staged")
        return written

    def first_load(self, desired: Desired, time: int, description: BatchDescription) -> Written:
        """Stage all of ``desired`` for an empty shard; equal rows stay separate records."""
        items = sql.columns(column.name for column in desired.columns)
        meta = f"{sql.bigint(time)} {TIME}, {DIFF}, {ERROR}, {HASH}"
        staged = self.stager.stage(f"select {items}, {meta} from (\n{desired.hashed()}\n)", "write")
        return self._written(staged, description, None)

    def stage_error(
        self, message: str, desired: Desired, shard: Layout, time: int, description: BatchDescription
    ) -> Written:
        """Stage ``message`` as the shard's only error update; the rows stay as they are."""
        items = ", ".join(f"cast(null as {c.type.spelled}) {sql.identifier(c.name)}" for c in desired.columns)
        hashed = shard.hash_of()
        row = f"select {items}, {sql.text(message)} {ERROR}, 1L {DIFF}"
        names = sql.columns(column.name for column in desired.columns)
        wanted = f"select {names}, {ERROR}, {hashed} {HASH}, {DIFF}, 0L {BASE} from (\n{row}\n)"
        correction = Correction(desired.columns, time).insert(wanted)
        current = persisted(shard, errors_only=True)
        if current is not None:
            correction = correction.insert_negated(current)
        staged = self.stager.stage(self._updates(correction, description), "write")
        return self._written(staged, description, None)

    def failure_of(self, desired: Desired) -> EngineError | None:
        """The error of the query alone, evaluated completely; None if it does not fail."""
        try:
            self.stager.stage(desired.rows(), "confirm").delete()
        except EngineError as error:
            return error
        return None

    def preview(self, desired: Desired, shard: Layout, time: int, sample: int = 0) -> Previewed:
        """The correction's counts, with up to ``sample`` of its updates; nothing is written."""
        correction = self._correction(desired, shard, time)
        if not shard.empty and shard.detectable:
            buckets = Buckets.of(shard)
            correction = correction.restricted_to(buckets.scope(_differing(buckets, desired, shard)))
        updates = correction.consolidate_at_since()
        with self.watch("preview"):
            counts, records = self.stager.sums(updates)
            rows = (
                self.engine.query(f"select * from (\n{updates}\n) limit {sample}", "sample") if sample else []
            )
        return Previewed(counts, records, tuple(rows))

    def _correct(self, desired: Desired, shard: Layout, time: int, description: BatchDescription) -> Written:
        if not shard.detectable:
            staged = self.stager.stage(
                self._updates(self._correction(desired, shard, time), description), "write"
            )
            return self._written(staged, description, None)
        written = self._compared(desired, shard, time, description, exact=True)
        if written is not None:
            return written
        log.info(
            "%s: two evaluations of the query differ, or two rows share a hash; evaluating it once",
            self.model,
        )
        return self._correct_once(desired, shard, time, description)

    def _correct_once(
        self, desired: Desired, shard: Layout, time: int, description: BatchDescription
    ) -> Written:
        """Evaluate the query into staged files, then compute the correction from these."""
        copy = self.stager.stage(copied_rows(desired), "evaluate")
        try:
            written = self._compared(Copied(copy.uri, desired.columns), shard, time, description, exact=False)
        finally:
            copy.delete()
        if written is None:
            raise NondeterministicQuery(f"{copy.uri} was read twice and gave different rows")
        return replace(written, evaluated_once=True)

    def _compared(
        self,
        desired: Desired | Copied,
        shard: Layout,
        time: int,
        description: BatchDescription,
        *,
        exact: bool,
    ) -> Written | None:
        """Detect, fetch, agree. None, with no files left, if the rows contradict the detection."""
        detected = self._detect(desired, shard)
        try:
            if detected.candidates == 0:
                log.debug("%s: skipping empty [%s, %s)", self.model, description.lower, description.upper)
                return Written(None, Counts(), 0)
            scope = detected.buckets.scope(detected.totals, exact=exact) if detected.partial else None
            if scope is None:
                correction = self._correction(desired, shard, time)
            else:
                correction = self._correction(detected.narrowed(desired), shard, time).restricted_to(scope)
            staged = self.stager.stage(self._updates(correction, description), "write")
            if self._agrees(detected, scope, staged, shard):
                return self._written(staged, description, detected.candidates)
            staged.delete()
            return None
        finally:
            detected.staged.delete()

    def _correction(self, desired: Desired | Copied, shard: Layout, time: int) -> Correction:
        correction = Correction(desired.columns, 0).advance_since(time).insert(desired.hashed())
        current = persisted(shard)
        return correction if current is None else correction.insert_negated(current)

    @staticmethod
    def _updates(correction: Correction, description: BatchDescription) -> str:
        return correction.updates_before(description.upper.stored())

    def _detect(self, desired: Desired | Copied, shard: Layout) -> Detected:
        buckets = Buckets.of(
            shard, None if isinstance(desired, Copied) else locator(self.handle, desired, shard)
        )
        staged = self.stager.stage(_differing(buckets, desired, shard), "detect")
        numbers = self.handle.read_staged(staged, pa.schema([("b", pa.int64())])).column("b")
        return Detected(staged, buckets, numbers)

    def _agrees(
        self, detected: Detected, scope: Scope | None, staged: StagedDirectory, shard: Layout
    ) -> bool:
        """Whether the staged updates add up, per bucket, to the detected differences, and their
        hashes belong to no other row of the shard.
        """
        hashed = f"coalesce({HASH}, {shard.hash_of()}) {HASH}"
        rows = f"select {detected.buckets.with_locator(hashed, DIFF)} from {sql.parquet_in(staged.uri)}"
        left = differing_buckets([detected.totals, detected.buckets.digest(rows, -1)])
        against = [f"select b from (\n{left}\n)"]
        if scope is not None and detected.buckets.locator is not None:
            hashes = f"select {HASH} h from {sql.parquet_in(staged.uri)} where {HASH} is not null"
            against.append(scope.overlooked(narrow(shard, detected.buckets), hashes))
        with self.watch("agree"):
            return not self.engine.query(f"select * from (\n{sql.union_all(against)}\n) limit 1", "agree")

    def _written(
        self, staged: StagedDirectory, description: BatchDescription, candidates: int | None
    ) -> Written:
        batch = self.stager.adopt(staged, description)
        if batch is None:
            return Written(None, Counts(), candidates)
        try:
            return Written(batch, self.stager.counts(batch), candidates)
        except BaseException:
            batch.delete()
            raise


def _differing(buckets: Buckets, desired: Desired | Copied, shard: Layout) -> str:
    """The query of the buckets in which ``desired`` and ``shard`` differ."""
    return differing_buckets(
        [buckets.digest(desired.hashed(), 1), buckets.digest(narrow(shard, buckets), -1)]
    )
