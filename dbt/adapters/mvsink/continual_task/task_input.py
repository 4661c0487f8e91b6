"""The input as a task sees it: where the task starts, its pending times, and how far they reach.

The output's commits keep the progress on the input: the newest time processed, and the generation
of the input at that time.
"""

from __future__ import annotations

from dataclasses import dataclass

from dbt.adapters.mvsink.continual_task.task_request import TaskRequest
from dbt.adapters.mvsink.engine.timing import Stopwatch
from dbt.adapters.mvsink.inputs import Input, PendingTime
from dbt.adapters.mvsink.shard import Antichain, ShardState, WriteHandle
from dbt.adapters.mvsink.shard_sql import NotRefreshed

NO_TIME = Antichain.of(0)


@dataclass
class TaskInput:
    """``source`` in one run of one task. ``handle`` is the output's."""

    source: Input
    request: TaskRequest
    handle: WriteHandle
    watch: Stopwatch

    @property
    def deletes(self) -> bool:
        """Whether deleted rows alone are a change."""
        return self.request.program.deletes_used

    def progress(self, time: int | None = None) -> dict[str, int]:
        """What a commit keeps: the generation, and the ``time`` if one was processed."""
        times = {} if time is None else {self.source.id: time}
        return {**times, self._generation_key: self.source.generation}

    @property
    def _generation_key(self) -> str:
        return f"{self.source.id}#generation"

    @property
    def processed_generation(self) -> int | None:
        """The input's generation at the last commit."""
        return self.handle.progress(self._generation_key)

    @property
    def recreated(self) -> bool:
        """Whether the input has another generation than at the last commit."""
        return self.processed_generation not in (None, self.source.generation)

    def start(self) -> int:
        """The newest time at which the input can be read and that the run may process."""
        frontier = self.source.frontier()
        if frontier == NO_TIME:
            raise NotRefreshed(self.source.id)
        start = min(self.request.time, frontier.stored() - 1)
        self.source.contents(start)  # raises if the input cannot be read then
        return start

    def pending(self, state: ShardState) -> list[PendingTime]:
        """The times that this run has to process for an output at ``state``, in order."""
        if not state.readable:
            start = state.upper.stored()
            first = PendingTime(start, inserts=self.request.initial_snapshot, deletes=False)
            return [first] if start <= self.request.time else []
        frontier = self.source.frontier()
        if self.recreated:
            time = min(self.request.time, frontier.stored() - 1)
            everything = PendingTime(time, inserts=True, deletes=True)
            return [everything] if state.upper.less_equal_time(time) else []
        return self._between(state.upper.stored(), min(frontier.stored(), self.request.time + 1))

    def goal(self, state: ShardState) -> Antichain:
        """Where the upper may go when nothing is pending: the input's frontier, or the next change
        after the run's time.
        """
        frontier = self.source.frontier()
        if not state.readable or self.recreated:
            return state.upper
        later = Antichain.of(self.request.time).step_forward()
        if not later.less_than(frontier):
            return frontier
        after = self._between(max(later.stored(), state.upper.stored()), frontier.stored())
        return Antichain.of(after[0].time) if after else frontier

    def _between(self, lower: int, upper: int) -> list[PendingTime]:
        """The input's times in ``[lower, upper)`` that are a change for this task."""
        if lower >= upper:
            return []
        with self.watch("pending"):
            pending = self.source.pending(lower, upper)
        return [each for each in pending if each.concerns(deletes=self.deletes)]
