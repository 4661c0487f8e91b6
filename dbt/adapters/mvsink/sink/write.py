"""Write: stage the correction of one description, in Spark, all tasks in parallel.

A row that did not change is neither shuffled nor written:

1. *Detect.* One pass over desired and one over the shard's narrow columns add hashes up in buckets.
   Buckets whose totals differ are candidates; none means there is nothing to do.
2. *Fetch.* Desired again and the shard's rows, both only of the one hash by which a candidate
   bucket differs, or of the whole bucket (`detection`), grouped by the whole row. Sums that are not
   zero are the correction. In a large view the buckets are those of a column's values, and desired
   is asked for these values only (`locator`).
3. *Agree.* What was staged must give exactly the differences that detection found, and no row that
   was not looked at may share a hash with it. If not, the query is not deterministic, its inputs
   moved, or two rows collide: the query is evaluated once into a staging place and corrected
   against that.

That is also what is done from the start where it costs less (`once`).

The first load has nothing to compare with: it is written as it comes, one record a row. Whether
some hash stands there more than once is not asked until a correction touches it; the fetch sees
that for nothing, where the load would pay a shuffle.

Nothing here commits: what is staged is a batch to append, or to delete.
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
    """What would be staged: its counts, how many updates they are, and some of these."""

    counts: Counts
    updates: int
    sample: tuple[tuple[object, ...], ...] = ()


@dataclass(frozen=True)
class Found:
    """What detection staged: the differing buckets with their totals; and their ``numbers``."""

    staged: StagedDirectory
    buckets: Buckets
    numbers: pa.ChunkedArray

    @property
    def candidates(self) -> int:
        return len(self.numbers)

    @property
    def partial(self) -> bool:
        """Is it worth while to look at the differing buckets alone?"""
        return self.candidates < self.buckets.nearly_all

    @property
    def totals(self) -> str:
        return f"select * from {sql.parquet_in(self.staged.uri)}"

    def narrowed(self, desired: Desired | Copied) -> Desired | Copied:
        """``desired``, evaluated no further than it may differ."""
        column = self.buckets.locator
        if column is None or isinstance(desired, Copied):
            return desired
        numbers = self.numbers.to_pylist()
        condition = self.buckets.located(desired.value(column), numbers)
        # a row that breaks one is in the bucket of NULL, whatever the query says it is
        if desired.assertions:
            condition = (
                f"({condition} or {self.buckets.located(f'cast(null as {column.type.text})', numbers)})"
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
        """Stage what is missing so that the shard holds ``desired`` from ``time`` on."""
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
        """Stage all of ``desired`` against an empty shard, as it comes: equal rows stay records of
        their own.
        """
        items = sql.columns(column.name for column in desired.columns)
        meta = f"{sql.bigint(time)} {TIME}, {DIFF}, {ERROR}, {HASH}"
        staged = self.stager.stage(f"select {items}, {meta} from (\n{desired.hashed()}\n)", "write")
        return self._written(staged, description, None)

    def stage_error(
        self, message: str, desired: Desired, shard: Layout, time: int, description: BatchDescription
    ) -> Written:
        """Stage ``message`` as the shard's only error update; the rows stay as they are."""
        items = ", ".join(f"cast(null as {c.type.text}) {sql.identifier(c.name)}" for c in desired.columns)
        hashed = shard.hash_of()
        row = f"select {items}, {sql.text(message)} {ERROR}, 1L {DIFF}"
        names = sql.columns(column.name for column in desired.columns)
        wanted = f"select {names}, {ERROR}, {hashed} {HASH}, {DIFF}, 0L {BASE} from (\n{row}\n)"
        correction = Correction(desired.columns, time).insert(wanted)
        held = persisted(shard, errors_only=True)
        if held is not None:
            correction = correction.insert_negated(held)
        staged = self.stager.stage(self._updates(correction, description), "write")
        return self._written(staged, description, None)

    def failure_of(self, desired: Desired) -> EngineError | None:
        """The error with which the query fails by itself, all of it evaluated and nothing of ours
        with it; None if it does not fail.
        """
        try:
            self.stager.stage(desired.rows(), "confirm").delete()
        except EngineError as error:
            return error
        return None

    def preview(self, desired: Desired, shard: Layout, time: int, sample: int = 0) -> Previewed:
        """What `stage` would stage, counted, with up to ``sample`` of its updates; nothing is
        written anywhere.
        """
        correction = self._correction(desired, shard, time)
        if not shard.empty and shard.detectable:
            buckets = Buckets.of(shard)
            found = differing_buckets(
                [buckets.digest(desired.hashed(), 1), buckets.digest(narrow(shard, buckets), -1)]
            )
            correction = correction.restricted_to(buckets.scope(found))
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
        """Evaluate the query into a staging place, then correct against what stands there."""
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
        """Detect, fetch, agree; None if what was staged does not add up to what was detected: then
        it is deleted.
        """
        found = self._detect(desired, shard)
        try:
            if found.candidates == 0:
                log.debug("%s: skipping empty [%s, %s)", self.model, description.lower, description.upper)
                return Written(None, Counts(), 0)
            scope = found.buckets.scope(found.totals, exact=exact) if found.partial else None
            if scope is None:
                correction = self._correction(desired, shard, time)
            else:
                correction = self._correction(found.narrowed(desired), shard, time).restricted_to(scope)
            staged = self.stager.stage(self._updates(correction, description), "write")
            if self._agrees(found, scope, staged, shard):
                return self._written(staged, description, found.candidates)
            staged.delete()
            return None
        finally:
            found.staged.delete()

    def _correction(self, desired: Desired | Copied, shard: Layout, time: int) -> Correction:
        correction = Correction(desired.columns, 0).advance_since(time).insert(desired.hashed())
        held = persisted(shard)
        return correction if held is None else correction.insert_negated(held)

    @staticmethod
    def _updates(correction: Correction, description: BatchDescription) -> str:
        return correction.updates_before(description.upper.stored())

    def _detect(self, desired: Desired | Copied, shard: Layout) -> Found:
        buckets = Buckets.of(
            shard, None if isinstance(desired, Copied) else locator(self.handle, desired, shard)
        )
        differing = differing_buckets(
            [buckets.digest(desired.hashed(), 1), buckets.digest(narrow(shard, buckets), -1)]
        )
        staged = self.stager.stage(differing, "detect")
        numbers = self.handle.read_staged(staged, pa.schema([("b", pa.int64())])).column("b")
        return Found(staged, buckets, numbers)

    def _agrees(self, found: Found, scope: Scope | None, staged: StagedDirectory, shard: Layout) -> bool:
        """Do the staged updates add up, bucket by bucket, to what detection found, and may their
        hashes stand for them?
        """
        hashed = f"coalesce({HASH}, {shard.hash_of()}) {HASH}"
        rows = f"select {found.buckets.with_locator(hashed, DIFF)} from {sql.parquet_in(staged.uri)}"
        left = differing_buckets([found.totals, found.buckets.digest(rows, -1)])
        against = [f"select b from (\n{left}\n)"]
        if scope is not None and found.buckets.locator is not None:
            hashes = f"select {HASH} h from {sql.parquet_in(staged.uri)} where {HASH} is not null"
            against.append(scope.overlooked(narrow(shard, found.buckets), hashes))
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
