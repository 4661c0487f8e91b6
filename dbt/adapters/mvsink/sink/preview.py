"""The correction that a read-only run counts, computed as a run computes it. Nothing is written to
the shard: what the change of the inputs leads to is staged in a temporary directory of this
machine, and a query that is evaluated is compared without staging anything.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace

from dbt.adapters.mvsink.engine import Engine, sql
from dbt.adapters.mvsink.engine.timing import Stopwatch
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, TIME
from dbt.adapters.mvsink.reasons import EvaluateFully, Why
from dbt.adapters.mvsink.shard import ShardState, WriteHandle, staged_elsewhere
from dbt.adapters.mvsink.shard_sql import BatchDescription, Layout
from dbt.adapters.mvsink.sink.correction import Desired
from dbt.adapters.mvsink.sink.request import SinkRequest, progress_of
from dbt.adapters.mvsink.sink.strategy import Strategy
from dbt.adapters.mvsink.sink.write import Write
from dbt.adapters.mvsink.sink.written import Previewed, Written


@dataclass(frozen=True)
class Previewing:
    """Previews of one request. ``warn`` takes what the user should know."""

    request: SinkRequest
    handle: WriteHandle
    engine: Engine
    watch: Stopwatch
    warn: Callable[[str], None]

    def corrected(
        self, desired: Desired, state: ShardState, shard: Layout, time: int, description: BatchDescription
    ) -> Previewed:
        """Of the shard in ``state``, so that it holds ``desired`` from ``time`` (ms) on. Raises
        `NotIncremental` where a run would.
        """
        previewed = self._incremental(desired, state, shard, time, description)
        if isinstance(previewed, Previewed):
            return previewed
        evaluated = self.evaluated(desired, shard, time)
        return replace(evaluated, full=previewed)

    def evaluated(self, desired: Desired, shard: Layout, time: int) -> Previewed:
        """The same, by comparing the rows of ``desired`` with the shard's."""
        write = Write(self.engine, self.handle, self.request.model, self.watch)
        return write.preview(desired, shard, time, self.request.sample)

    def _incremental(
        self, desired: Desired, state: ShardState, shard: Layout, time: int, description: BatchDescription
    ) -> Previewed | EvaluateFully:
        request = self.request
        if request.verify:
            return EvaluateFully()
        if not self.engine.cores_here():
            return EvaluateFully(Why.ELSEWHERE)
        with (
            tempfile.TemporaryDirectory(prefix="mvsink-preview-") as directory,
            staged_elsewhere(self.handle.storage, state, directory) as handle,
        ):
            write = Write(self.engine, handle, request.model, self.watch)
            change = Strategy(request, write, self.handle.progress, self.warn).change(
                desired, state, shard, time, description
            )
            if isinstance(change, EvaluateFully):
                return change
            known = progress_of(request, state, change, time).known
            if not known and not change.counts.errors_inserted:
                return EvaluateFully(Why.MOVED)
            return self._counted(change, desired)

    def _counted(self, change: Written, desired: Desired) -> Previewed:
        batch, sample = change.batch, self.request.sample
        rows: list[tuple[object, ...]] = []
        if batch is not None and sample:
            items = sql.columns([*(column.name for column in desired.columns), TIME, DIFF, ERROR, HASH])
            text = f"select {items} from {sql.parquet_in(batch.uri)} limit {sample}"
            rows = self.engine.query(text, "sample")
        return Previewed(change.counts, 0 if batch is None else batch.rows, tuple(rows), incremental=True)
