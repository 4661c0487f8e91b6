"""Running a task: every pending time of its input, in order, each one append to the output.

The output's upper is the task's progress: effects at times before it are complete. Hence, for the
next pending time `w`:

    no pending time, output upper < input frontier      the upper advances to it, no data `w`, and a
    reference that is to be waited for        the upper advances to `w`, no data; the run ends there
    `w` otherwise                                        one append [upper, w + 1) with updates at
    `w`, and the progress `w` < output upper                                   another replica did
    it: dropped the append loses the race                            again from the new upper

A new output is first raised to the task's start `I`, which the commit keeps for ever: the newest
time at which the input can be read, no later than the run's. With a snapshot the whole input as of
`I` is the change at `I`. What the task still needs of its input is held there before the first
read, and given up only after the commit that made it superfluous.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.continual_task import bind as plan
from dbt.adapters.mvsink.continual_task.effects import (
    Change,
    Effects,
    change_of,
    remade_of,
    repeated,
    snapshot_of,
)
from dbt.adapters.mvsink.continual_task.errors import StatementFailed
from dbt.adapters.mvsink.continual_task.recorded import retractions
from dbt.adapters.mvsink.continual_task.request import Late, TaskOutcome, TaskRequest
from dbt.adapters.mvsink.continual_task.statements import Insert
from dbt.adapters.mvsink.engine import Engine, arrow_schema
from dbt.adapters.mvsink.engine.timing import Stopwatch, span
from dbt.adapters.mvsink.inputs import HistoryGone, Input, PendingTime, ShardInput
from dbt.adapters.mvsink.physical import DIFF, ERROR, TIME
from dbt.adapters.mvsink.shard import Antichain, Batch, CommitNote, FilesChanged, ShardState, WriteHandle
from dbt.adapters.mvsink.shard_sql import BatchDescription, Counts, Kind, Layout, NotRefreshed, OnError
from dbt.adapters.mvsink.shard_sql.append import Append
from dbt.adapters.mvsink.shard_sql.stager import Stager
from dbt.adapters.mvsink.shard_sql.upkeep import Upkeep

log = logging.getLogger("mvsink.task")
LONGEST_MESSAGE = 2_000  # characters of a recorded error
NO_TIME = Antichain.of(0)
NOTHING = Counts()


@dataclass
class TaskDriver:
    """One run of one task. ``references`` are the shards that its statements read, by name as dbt
    renders it.
    """

    request: TaskRequest
    handle: WriteHandle
    engine: Engine
    source: Input
    references: Mapping[str, ShardInput] = field(default_factory=dict)
    watch: Stopwatch = field(default_factory=Stopwatch)

    def __post_init__(self) -> None:
        self.program, self.model = self.request.program, self.request.model
        self.upkeep = Upkeep(
            self.engine, self.handle, self.request.clock, self.watch, self.request.invocation_id
        )
        self.appender = Append(self.handle, self.model)
        self.stager = Stager(self.engine, self.handle, self.model, self.watch)
        self.counts = Counts()
        self.done: list[int] = []
        self.late: dict[str, Late] = {}
        self.waiting = 0
        self.one_by_one = False
        self.skips = self.request.skip_errors  # not done yet

    def run(self) -> TaskOutcome:
        """Process the input's pending times up to the run's own."""
        with span("task", model=self.model):
            self.handle.keep_statistics()
            before = self._begin()
            while self._goes_on():
                pass
            self._held()
            if self.skips:
                self.upkeep.warnings.append(
                    "recorded errors stay: the input has not moved on; run again once it has"
                )
            return self._outcome(before)

    # beginning

    def _begin(self) -> ShardState:
        """Make sure that the task has a start, and that its input is held; the state then."""
        while True:
            state = self.handle.state()
            if self.request.reset or state.dropped is not None:
                self._reset(state)
            elif state.readable or state.creation is not None:
                return self._held()
            else:
                self._create(state)

    def _create(self, state: ShardState) -> None:
        """Try to be the one who gives the task its start. Until one is committed, who began earlier
        may still win: his hold stays.
        """
        try:
            start = self._start()
            self._hold_at(start, forward=False)
        except HistoryGone:
            if self.handle.state().creation is None:
                raise
            return  # another replica did, and has gone on since
        failpoints.reach("held")
        self.appender.raise_upper(state.upper, Antichain.of(start), self._note(Counts()), start)

    def _reset(self, state: ShardState) -> None:
        """A new generation without contents, whose start is the newest time of the input. Before
        its commit nothing is given up.
        """
        start = self._start()
        try:
            self._hold_at(min(start, max(0, state.upper.stored() - 1)), forward=False)
        except HistoryGone:
            self._hold_at(start, forward=False)
        failpoints.reach("held")
        upper, schema = Antichain.of(start), arrow_schema(self.request.columns)
        note = self._note(Counts())
        try:
            self.handle.replace(
                [], schema, upper, upper, note=note, expected_version=state.version, creation=start
            )
        except FilesChanged:  # maintenance, or a foreign writer
            return
        self.request = self.request.begun()
        failpoints.reach("upper raised")

    def _start(self) -> int:
        """The newest time that the input can be read at, and that the run may process."""
        frontier = self.source.frontier()
        if frontier == NO_TIME:
            raise NotRefreshed(self.source.id)
        start = min(self.request.time, frontier.stored() - 1)
        self.source.contents(start)  # raises, if it cannot be read then
        return start

    # the loop

    def _goes_on(self) -> bool:
        """Go on from the newest version. False if there is no more to do now."""
        state, output = self.upkeep.folded(self.handle.state())
        if state.upper.is_empty():
            return False
        failpoints.reach("looked")
        try:
            return self._round(state, output)
        except HistoryGone:
            if self.handle.state().upper == state.upper:
                raise
            return True  # another replica did these times, and gave their history up

    def _round(self, state: ShardState, output: Layout) -> bool:
        pending = self._pending(state)
        log.debug(
            "%s: shard %s, upper %s, input %s before %s: %d pending%s",
            self.model, self.handle.shard_id, state.upper, self.source.id, self.source.frontier(), len(pending),
            f", from {pending[0].time}" if pending else "",
        )  # fmt: skip
        if self.skips and self._took_errors_back(state, output, pending):
            return True
        if not pending:
            goal = self._goal(state)
            if not state.upper.less_than(goal):
                return False
            self._advance(state, goal)
            return True
        if len(pending) > 1 and self._together(state, pending):
            return True
        first = pending[0]
        waits = self._late_references(first.time)
        if waits:
            self.waiting = len(pending)
            for late in (self.late[name] for name in waits):
                log.debug(
                    "%s: waiting for %s (upper %d) to pass %d", self.model, late.name, late.upper, first.time
                )
            if state.upper.less_than(Antichain.of(first.time)) and not self._made_anew():
                self._advance(state, Antichain.of(first.time))
            return False
        self._process(state, output, first)
        return True

    def _pending(self, state: ShardState) -> list[PendingTime]:
        """The times that this run has to process, in order."""
        if not state.readable:
            start = state.upper.stored()
            return (
                [PendingTime(start, inserts=self.request.initial_snapshot, deletes=False)]
                if start <= self.request.time
                else []
            )
        frontier = self.source.frontier()
        if self._made_anew():
            time = min(self.request.time, frontier.stored() - 1)
            return (
                [PendingTime(time, inserts=True, deletes=True)] if state.upper.less_equal_time(time) else []
            )
        upper = min(frontier.stored(), self.request.time + 1)
        return self._counting(state.upper.stored(), upper)

    def _counting(self, lower: int, upper: int) -> list[PendingTime]:
        """The input's times that are a change for this task."""
        if lower >= upper:
            return []
        with self.watch("pending"):
            found = self.source.pending(lower, upper)
        deletes = self.program.deletes_used
        return [
            pending for pending in found if pending.inserts or pending.errors or (deletes and pending.deletes)
        ]

    def _goal(self, state: ShardState) -> Antichain:
        """Where the upper may go when nothing is pending: the input's frontier, or the next change
        after the run's time.
        """
        frontier = self.source.frontier()
        if not state.readable or self._made_anew():
            return state.upper
        later = Antichain.of(self.request.time).step_forward()
        if not later.less_than(frontier):
            return frontier
        after = self._counting(max(later.stored(), state.upper.stored()), frontier.stored())
        return Antichain.of(after[0].time) if after else frontier

    def _process(self, state: ShardState, output: Layout, pending: PendingTime) -> None:
        """One pending time: its effects, and their append."""
        description = BatchDescription(state.upper, Antichain.of(pending.time).step_forward())
        log.debug(
            "%s: minted [%s, %s) for %d", self.model, description.lower, description.upper, pending.time
        )
        effects = Effects(self.program, self.request.columns, self.stager, state.salt)
        change = self._change(state, pending)
        references = (
            {
                name: source.contents(self._read_at(name, pending.time))
                for name, source in self.references.items()
            }
            if change.runs
            else {}
        )
        try:
            batch, counts = effects.of(change, output, references, pending.time, description)
        except StatementFailed as failure:
            if self.request.on_error is not OnError.RECORD or not failure.error.caused_by_data:
                raise
            message = failure.error.message[:LONGEST_MESSAGE]
            self.upkeep.warnings.append(
                f"statement {failure.statement} failed and its error is recorded: {message}"
            )
            batch, counts = effects.failed(message, change, pending.time, description)
        self._append(state, description, batch, counts, [pending.time])

    def _change(self, state: ShardState, pending: PendingTime) -> Change:
        source, deletes = self.source, self.program.deletes_used
        if not state.readable:
            return snapshot_of(source, self.engine, pending.time, rows=self.request.initial_snapshot)
        if self._made_anew():
            held = self.handle.progress(self._generation_key)
            assert held is not None
            before = source.before(held, state.upper.stored() - 1)
            return remade_of(source, self.engine, source.difference(before, pending.time), deletes=deletes)
        updates = source.changes(pending.time, pending.time + 1)
        return change_of(
            source, updates, errors=pending.errors, runs=pending.inserts or (deletes and pending.deletes)
        )

    def _together(self, state: ShardState, pending: list[PendingTime]) -> bool:
        """The pending times in one job and one append, where the program allows it. False: they
        have to go one by one.
        """
        pending = list(itertools.takewhile(lambda p: p.inserts and not p.errors, pending))
        possible = len(pending) > 1 and state.readable and not self.one_by_one and not self._made_anew()
        carried = plan.stateless(self.program, self.references) if possible else None
        if carried is None:
            return False
        first, last = pending[0].time, pending[-1].time
        description = BatchDescription(state.upper, Antichain.of(last).step_forward())
        log.debug(
            "%s: minted [%s, %s) for %d times from %d to %d, in one job",
            self.model, description.lower, description.upper, len(pending), first, last,
        )  # fmt: skip
        updates = self.source.changes(first, last + 1)
        rows = repeated(self.source.columns, updates, f"{ERROR} is null and {DIFF} > 0", DIFF, TIME)
        bindings = plan.Bindings(rows, "")
        inserts = [statement for statement in self.program.statements if isinstance(statement, Insert)]
        queries = [
            plan.carried_delta(statement, plan.bind(self.program, query, bindings), self.request.columns)
            for statement, query in zip(inserts, carried.queries, strict=True)
        ]
        effects = Effects(self.program, self.request.columns, self.stager, state.salt)
        try:
            batch, counts = effects.together(queries, description)
        except StatementFailed as failure:
            log.debug("%s: not in one job: %s", self.model, failure)
            # so that what was right before the failure is committed, and nothing is tried in vain
            self.one_by_one = True
            return False
        self._append(state, description, batch, counts, [p.time for p in pending])
        return True

    def _append(
        self,
        state: ShardState,
        description: BatchDescription,
        batch: Batch | None,
        counts: Counts,
        times: list[int],
    ) -> None:
        """Commit effects and progress at once. Another replica may have been faster: then the loop
        looks again.
        """
        progress = {self.source.id: times[-1], self._generation_key: self.source.generation}
        since = self._since(state, description.upper)
        with self.watch("append"):
            result = self.appender.append(batch, description, since, self._note(counts), progress)
        if result is None:
            return  # another replica was faster
        self.counts = self.counts.plus(counts)
        self.done += times
        self.upkeep.maintain(result.maintenance)

    def _advance(
        self, state: ShardState, upper: Antichain, batch: Batch | None = None, counts: Counts = NOTHING
    ) -> bool:
        """Move the upper on, with a ``batch`` that is no change of the input. False: another
        replica was faster.
        """
        progress = {self._generation_key: self.source.generation}
        since = self._since(state, upper)
        result = self.appender.append(
            batch, BatchDescription(state.upper, upper), since, self._note(counts), progress
        )
        if result is None:
            return False
        log.debug(
            "%s: advanced [%s, %s), %s",
            self.model,
            state.upper,
            upper,
            "no data" if batch is None else "errors taken back",
        )
        self.counts = self.counts.plus(counts)
        self.upkeep.maintain(result.maintenance)
        return True

    def _took_errors_back(self, state: ShardState, output: Layout, pending: list[PendingTime]) -> bool:
        """Take the recorded errors back, where the upper can move without passing a change of the
        input. False: nothing was done.
        """
        goal = Antichain.of(pending[0].time) if pending else self._goal(state)
        if not state.readable or self._made_anew() or not state.upper.less_than(goal):
            return False
        time = state.upper.stored()
        query = retractions(output, self.request.columns, self.source.snapshot(time - 1), time)
        self.skips = False
        if not query:
            return False
        batch = self.stager.adopt(self.stager.stage(query, "errors"), BatchDescription(state.upper, goal))
        self.skips = not self._advance(
            state, goal, batch, Counts() if batch is None else self.stager.counts(batch)
        )
        return True

    # references

    def _late_references(self, time: int) -> list[str]:
        """The references to wait for at ``time``; empty if they are read at what they have."""
        if not self.request.wait:
            return []
        late = {
            n: s.frontier()
            for n, s in self.references.items()
            if not Antichain.of(time).less_than(s.frontier())
        }
        self.late |= {
            name: Late(name, time, frontier.stored(), waits=True) for name, frontier in late.items()
        }
        return list(late)

    def _read_at(self, name: str, time: int) -> int:
        """When a reference is read for ``time``: then, or at its newest time before."""
        frontier = self.references[name].frontier()
        if Antichain.of(time).less_than(frontier):
            return time
        if frontier == NO_TIME:
            raise NotRefreshed(name)
        self.late[name] = Late(name, frontier.stored() - 1, frontier.stored(), waits=False)
        return frontier.stored() - 1

    # the input

    @property
    def _generation_key(self) -> str:
        return f"{self.source.id}#generation"

    def _made_anew(self) -> bool:
        """Has the input another generation than the one that was processed last?"""
        held = self.handle.progress(self._generation_key)
        return held is not None and held != self.source.generation

    def _held(self) -> ShardState:
        """Keep of the input what the times from the output's upper on need; the output's newest
        version.
        """
        while True:
            state = self.handle.state()
            failpoints.reach("looked")
            try:
                self._hold(state)
                return state
            except HistoryGone:
                if self.handle.state().upper == state.upper:
                    raise

    def _hold(self, state: ShardState) -> None:
        # while this run went on: whoever dropped it has let go of the input, or is about to
        if state.dropped is not None:
            return
        if state.upper.is_empty():
            self._release()
        elif not state.readable:
            self._hold_at(state.upper.stored())
        elif not self._made_anew():
            self._hold_at(state.upper.stored() - 1)

    def _hold_at(self, time: int, *, forward: bool = True) -> None:
        holder = str(self.handle.shard_id)
        self.source.hold(holder, time, forward=forward)
        for name in self.request.held_references:
            reference = self.references[name]
            try:
                reference.hold(holder, min(time, max(reference.frontier().stored() - 1, 0)), forward=forward)
            except (
                HistoryGone
            ) as gone:  # the reference began after that time, or was not held then: reading it will tell
                log.debug("%s: %s", self.model, gone)

    def _release(self) -> None:
        holder = str(self.handle.shard_id)
        for source in (self.source, *(self.references[name] for name in self.request.held_references)):
            source.release(holder)

    def _since(self, state: ShardState, upper: Antichain) -> Antichain:
        """Where the output's since goes: it trails the run's time, and stays before the upper."""
        trailing = max(0, self.request.time + 1 - self.request.retain_history)
        return state.since.join(Antichain.of(min(trailing, upper.stored() - 1)))

    def _note(self, counts: Counts) -> CommitNote:
        return CommitNote(
            rows_inserted=counts.inserted,
            rows_deleted=counts.deleted,
            computed_through=self.request.time,
            purpose=f"task({self.model})",
            invocation_id=self.request.invocation_id,
        )

    def _outcome(self, before: ShardState) -> TaskOutcome:
        state = self.handle.state()
        wrote = not self.counts.nothing
        kind = Kind.APPEND if wrote else Kind.FINAL if state.upper.is_empty() else Kind.NONE
        return TaskOutcome(
            kind=kind,
            counts=self.counts,
            lower=before.upper,
            upper=state.upper,
            time=self.done[-1] if self.done else self.request.time,
            state=state,
            times=tuple(self.done),
            waiting=self.waiting,
            late=tuple(self.late.values()),
            drift=self.upkeep.drift,
            mismatches=self.appender.mismatches,
            warnings=tuple(self.upkeep.warnings),
            seconds=self.watch.seconds,
        )
