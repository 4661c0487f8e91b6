"""Staging: the engine writes files for a shard, which become a batch to append or to delete.

Nothing here commits. Staged files are invisible until their batch is appended.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.engine import Engine, sql
from dbt.adapters.mvsink.engine.timing import Stopwatch
from dbt.adapters.mvsink.physical import DIFF, ERROR
from dbt.adapters.mvsink.shard import Batch, DataFile, StagedDirectory, StagingHandle
from dbt.adapters.mvsink.shard_sql.append import BatchDescription
from dbt.adapters.mvsink.shard_sql.outcome import Counts
from dbt.adapters.mvsink.shard_sql.session_settings import EXACT

log = logging.getLogger("mvsink.sink.write")
# Staged updates that are counted in this process, by two columns. Of no more than these a Spark job
# takes a hundred times as long.
COUNTED_LOCALLY = 100_000


def stage(
    engine: Engine, handle: StagingHandle, query: str, what: str, negates: Sequence[DataFile] = ()
) -> StagedDirectory:
    """Write the rows of ``query`` to a directory of their own, which is deleted if that fails.

    ``what`` names the step in the engine's jobs; ``negates``: see `StagingHandle.stage`. A negation
    is read by few, and for as long as history is kept.
    """
    staged = handle.stage(negates)
    try:
        with engine.settings(EXACT):
            statement = sql.overwrite_directory(staged.uri, query, quickly=bool(negates))
            engine.execute(statement, what)
    except BaseException:
        staged.delete()
        raise
    return staged


@dataclass
class Stager:
    """Stages batches of ``model`` for one shard, and counts what they change."""

    engine: Engine
    handle: StagingHandle
    model: str
    watch: Stopwatch = field(default_factory=Stopwatch)

    def stage(self, query: str, what: str, negates: Sequence[DataFile] = ()) -> StagedDirectory:
        """`stage`, timed as the step ``what``."""
        with self.watch(what):
            return stage(self.engine, self.handle, query, what, negates)

    def adopt(
        self, staged: StagedDirectory, description: BatchDescription, schema: pa.Schema | None = None
    ) -> Batch | None:
        """The staged files as the batch of ``description``; if empty, None and they are deleted.
        ``schema``: see `StagingHandle.adopt`.
        """
        batch = self.handle.adopt(staged, description.lower, description.upper, schema)
        if batch.rows == 0:
            batch.delete()
            return None
        log.debug(
            "%s: wrote %d updates, %d bytes, [%s, %s)",
            self.model, batch.rows, batch.bytes, description.lower, description.upper,
        )  # fmt: skip
        return batch

    def counts(self, batch: Batch) -> Counts:
        """What ``batch`` inserts and deletes, from its files' statistics where they suffice."""
        errors = [file.errors for file in batch.files]
        diffs = {bound for file in batch.files for bound in (file.min_diff, file.max_diff)}
        if diffs == {1} and None not in errors:
            known = sum(count or 0 for count in errors)
            return Counts(inserted=batch.rows - known, errors_inserted=known)
        with self.watch("count"):
            if batch.rows > COUNTED_LOCALLY:
                return self.sums(f"select * from {sql.parquet_in(batch.uri)}")[0]
            return added_up(batch.diffs())

    def sums(self, updates: str) -> tuple[Counts, int]:
        """What the query ``updates`` inserts and deletes, and the number of its records."""
        sums = [
            f"coalesce(sum(if({DIFF} {sign} 0 and {ERROR} {kind} null, abs({DIFF}), 0L)), 0L)"
            for kind in ("is", "is not")
            for sign in (">", "<")
        ]
        [row] = self.engine.query(f"select {', '.join(sums)}, count(*) from (\n{updates}\n)", "count")
        *summed, records = (int(str(value)) for value in row)
        return Counts(*summed), records


def added_up(diffs: pa.Table) -> Counts:
    """The counts of updates with these columns `_mv_diff` and `_mv_error`."""
    error, diff = pc.is_valid(diffs.column(ERROR)), diffs.column(DIFF)

    def total(kind: pa.ChunkedArray, sign: pa.ChunkedArray) -> int:
        return abs(int(pc.sum(pc.if_else(pc.and_(kind, sign), diff, 0), min_count=0).as_py()))

    more, fewer, row = pc.greater(diff, 0), pc.less(diff, 0), pc.invert(error)
    return Counts(total(row, more), total(row, fewer), total(error, more), total(error, fewer))
