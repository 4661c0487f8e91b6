"""What a task reads, over time: where it starts in its input, the pending times and how far they
reach, the history that it holds, and when its references are read.

The output's commits keep the progress on the input: the newest time processed, and the generation
of the input at that time. A task takes holds on the history that it still needs, of its input and
of references of its own project, before it first reads it. It releases history only after the
commit that made it unnecessary.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.continual_task.task_request import Late, TaskRequest
from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.engine.timing import Stopwatch
from dbt.adapters.mvsink.inputs import HistoryGone, Input, PendingTime, ShardInput
from dbt.adapters.mvsink.shard import Antichain, ShardState, WriteHandle
from dbt.adapters.mvsink.shard_sql import NotRefreshed
from dbt.adapters.mvsink.user_sql.splice import replace_relations

NO_TIME = Antichain.of(0)


@dataclass
class TaskInput:
    """The input ``source`` in one run of one task. ``handle`` is the output's."""

    source: Input
    request: TaskRequest
    handle: WriteHandle
    watch: Stopwatch

    @property
    def deletes(self) -> bool:
        """Whether deleted rows alone are a change."""
        return self.request.program.deletes_used

    def progress(self, time: int | None = None) -> dict[str, int]:
        """What a commit records: the generation, and the ``time`` if one was processed."""
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


log = logging.getLogger("mvsink.task")


@dataclass
class TaskHolds:
    """A task's holds; the holder is the output's shard id. ``references`` are those on which the
    task keeps a hold.
    """

    model: str
    handle: WriteHandle
    input: TaskInput
    references: Mapping[str, ShardInput]

    @property
    def _holder(self) -> str:
        return str(self.handle.shard_id)

    def follow(self) -> ShardState:
        """Move the holds to what the times from the upper on need; returns the output's newest
        version.
        """
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


@dataclass(frozen=True)
class Broken:
    """A reference that fails its readers as of ``time`` (ms), with the ``message`` of its error.
    ``healed`` means that it has no error at its newest time, ``late`` that it was read at that
    time.
    """

    name: str
    time: int
    message: str
    healed: bool
    late: bool

    @property
    def words(self) -> str:
        """What is wrong, as a clause."""
        return f"the reference {self.name} holds a recorded error as of {iso(self.time)} ({self.time}): {self.message}"


@dataclass
class ReferenceTimes:
    """The times at which references are read.

    ``views`` are the queries, over ``references``, of views that statements read, by the views'
    names. ``awaited`` are those that are waited for if they are late, and not read at their newest
    time.
    ``whole`` has the input by the words for its contents, if the statements read these: it is never
    late. ``late`` has the references that were late in this run, by name.
    """

    references: Mapping[str, ShardInput]
    awaited: frozenset[str]
    views: Mapping[str, str] = field(default_factory=dict)
    whole: Mapping[str, Input] = field(default_factory=dict)
    late: dict[str, Late] = field(default_factory=dict)

    def waits_at(self, time: int) -> list[Late]:
        """The references to wait for at ``time`` (ms)."""
        awaited = {name: each for name, each in self.references.items() if name in self.awaited}
        frontiers = {name: reference.frontier() for name, reference in awaited.items()}
        waits = {
            name: Late(name, time, frontier.stored(), waits=True)
            for name, frontier in frontiers.items()
            if not Antichain.of(time).less_than(frontier)
        }
        self.late |= waits
        return list(waits.values())

    def contents(self, time: int) -> dict[str, str]:
        """The references' rows for a change at ``time`` (ms), as SQL, by name."""
        shards = {name: each.contents(self._read_at(name, time)) for name, each in self.references.items()}
        views = {name: replace_relations(query, dict(shards)) for name, query in self.views.items()}
        return {**shards, **views}

    def broken(self, time: int) -> Broken | None:
        """The first reference that holds an error for a change at ``time`` (ms)."""
        read: list[tuple[str, Input, int]] = [
            *((name, each, self._read_at(name, time)) for name, each in self.references.items()),
            *((name, each, time) for name, each in self.whole.items()),
        ]
        for name, reference, at in read:
            errors = reference.errors(at)
            if errors:
                newest = reference.frontier().stored() - 1
                healed = at != newest and not reference.errors(newest)
                return Broken(name, at, errors[0], healed, late=at < time)
        return None

    def _read_at(self, name: str, time: int) -> int:
        """``time``, or the reference's newest time before it."""
        frontier = self.references[name].frontier()
        if Antichain.of(time).less_than(frontier):
            return time
        if frontier == NO_TIME:
            raise NotRefreshed(name)
        self.late[name] = Late(name, frontier.stored() - 1, frontier.stored(), waits=False)
        return frontier.stored() - 1
