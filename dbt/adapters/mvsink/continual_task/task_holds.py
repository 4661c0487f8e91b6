"""The holds of a task: on its input, and on references of its own project.

The task holds the history that it still needs before it reads it for the first time, and releases
history only after the commit that made it superfluous.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.continual_task.task_input import TaskInput
from dbt.adapters.mvsink.inputs import HistoryGone, ShardInput
from dbt.adapters.mvsink.shard import ShardState, WriteHandle

log = logging.getLogger("mvsink.task")


@dataclass
class TaskHolds:
    """The holder is the output's shard id. ``references``: those on which the task keeps a hold."""

    model: str
    handle: WriteHandle
    input: TaskInput
    references: Mapping[str, ShardInput]

    @property
    def _holder(self) -> str:
        return str(self.handle.shard_id)

    def follow(self) -> ShardState:
        """Move the holds to what the times from the upper on need; the output's newest version."""
        while True:
            state = self.handle.state()
            failpoints.reach("looked")
            try:
                self._follow(state)
                return state
            except HistoryGone:
                if self.handle.state().upper == state.upper:
                    raise

    def _follow(self, state: ShardState) -> None:
        # dropped while this run went on: `mvsink drop` has released the holds, or is about to
        if state.dropped is not None:
            return
        if state.upper.is_empty():
            self._release()
        elif not state.readable:
            self.take(state.upper.stored())
        elif not self.input.recreated:
            self.take(state.upper.stored() - 1)

    def take(self, time: int, *, forward: bool = True) -> None:
        """Hold from ``time`` (ms) on. Unless ``forward``, an earlier hold stays where it is."""
        self.input.source.hold(self._holder, time, forward=forward)
        for reference in self.references.values():
            newest = max(reference.frontier().stored() - 1, 0)
            try:
                reference.hold(self._holder, min(time, newest), forward=forward)
            except HistoryGone as gone:  # it began after that time, or had no hold: reading it decides
                log.debug("%s: %s", self.model, gone)

    def _release(self) -> None:
        for source in (self.input.source, *self.references.values()):
            source.release(self._holder)
