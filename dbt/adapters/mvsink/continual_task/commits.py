"""The commits of a task's run to its output: effects with progress, and advances of the upper."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from dbt.adapters.mvsink.continual_task.task_input import TaskInput
from dbt.adapters.mvsink.continual_task.task_request import TaskRequest
from dbt.adapters.mvsink.engine.timing import Stopwatch
from dbt.adapters.mvsink.shard import Antichain, Batch, CommitNote, ShardState
from dbt.adapters.mvsink.shard_sql import BatchDescription, Counts
from dbt.adapters.mvsink.shard_sql.append import Append
from dbt.adapters.mvsink.shard_sql.rewrite import Upkeep

log = logging.getLogger("mvsink.task")
NOTHING = Counts()


@dataclass
class Commits:
    """``counts`` and ``times`` are what this run has committed so far."""

    request: TaskRequest
    input: TaskInput
    appender: Append
    upkeep: Upkeep
    watch: Stopwatch
    counts: Counts = NOTHING
    times: list[int] = field(default_factory=list)

    def append(
        self,
        state: ShardState,
        description: BatchDescription,
        batch: Batch | None,
        counts: Counts,
        times: Sequence[int],
    ) -> None:
        """Commit the effects at ``times`` with the progress, unless another replica was faster."""
        since = self._since(state, description.upper)
        progress = self.input.progress(times[-1])
        with self.watch("append"):
            result = self.appender.append(batch, description, since, self.note(counts), progress)
        if result is None:
            return
        self.counts = self.counts.plus(counts)
        self.times += times
        self.upkeep.maintain(result.maintenance)

    def advance(
        self, state: ShardState, upper: Antichain, batch: Batch | None = None, counts: Counts = NOTHING
    ) -> bool:
        """Advance the upper, with a ``batch`` that takes errors back if there is one. False if
        another commit came first.
        """
        description, since = BatchDescription(state.upper, upper), self._since(state, upper)
        result = self.appender.append(batch, description, since, self.note(counts), self.input.progress())
        if result is None:
            return False
        log.debug(
            "%s: advanced [%s, %s), %s",
            self.request.model, state.upper, upper, "no data" if batch is None else "errors taken back",
        )  # fmt: skip
        self.counts = self.counts.plus(counts)
        self.upkeep.maintain(result.maintenance)
        return True

    def _since(self, state: ShardState, upper: Antichain) -> Antichain:
        """The output's `since`: it trails the run's time and stays before the upper."""
        trailing = max(0, self.request.time + 1 - self.request.retain_history)
        return state.since.join(Antichain.of(min(trailing, upper.stored() - 1)))

    def note(self, counts: Counts) -> CommitNote:
        """A commit's metadata."""
        return CommitNote(
            rows_inserted=counts.inserted,
            rows_deleted=counts.deleted,
            computed_through=self.request.time,
            purpose=f"task({self.request.model})",
            invocation_id=self.request.invocation_id,
            definition=self.request.definition,
        )
