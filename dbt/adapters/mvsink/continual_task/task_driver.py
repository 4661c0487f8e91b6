"""Running a task: every pending time of its input, in order, each one append to the output.

The output's upper is the task's progress: effects at times before it are complete.
docs/design/tasks.md has a table of what happens with the next pending time.

A new output is first raised to the task's start `I`, which the commit keeps for ever: the newest
time at which the input can be read, no later than the run's. With a snapshot the whole input as of
`I` is the change at `I`. `TaskHolds` keeps the history that the task still needs.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.continual_task import bind
from dbt.adapters.mvsink.continual_task.carry_time import stateless
from dbt.adapters.mvsink.continual_task.columns import wider_columns
from dbt.adapters.mvsink.continual_task.commits import NOTHING, Commits
from dbt.adapters.mvsink.continual_task.effects import (
    Effects,
    TaskChange,
    change_of,
    recreation_of,
    repeated,
    retractions,
    snapshot_of,
)
from dbt.adapters.mvsink.continual_task.errors import InputNotFollowed, ReferenceFails, StatementFailed
from dbt.adapters.mvsink.continual_task.statements import Insert, Merge
from dbt.adapters.mvsink.continual_task.task_input import Broken, ReferenceTimes, TaskHolds, TaskInput
from dbt.adapters.mvsink.continual_task.task_request import TaskOutcome, TaskRequest
from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.engine import Engine, arrow_schema, columns_evolved, shard_columns
from dbt.adapters.mvsink.engine.timing import Stopwatch
from dbt.adapters.mvsink.inputs import HistoryGone, Input, PendingTime, ShardInput
from dbt.adapters.mvsink.physical import DIFF, ERROR, TIME
from dbt.adapters.mvsink.shard import Antichain, Batch, FilesChanged, ShardState, WriteHandle
from dbt.adapters.mvsink.shard_sql import BatchDescription, Counts, Kind, Layout, OnError
from dbt.adapters.mvsink.shard_sql.append import MAX_ERROR_LENGTH, Append
from dbt.adapters.mvsink.shard_sql.layout import live_errors
from dbt.adapters.mvsink.shard_sql.properties import WATCHED
from dbt.adapters.mvsink.shard_sql.rewrite import Upkeep
from dbt.adapters.mvsink.shard_sql.stager import Stager

log = logging.getLogger("mvsink.task")


@dataclass
class TaskDriver:
    """One run of one task. ``references`` are the shards that its statements read, by their names
    as dbt renders them; ``views`` are the queries of views over such shards, by name. If
    ``one_by_one``, pending times are not computed in one job.
    """

    request: TaskRequest
    handle: WriteHandle
    engine: Engine
    source: Input
    references: Mapping[str, ShardInput] = field(default_factory=dict)
    views: Mapping[str, str] = field(default_factory=dict)
    watch: Stopwatch = field(default_factory=Stopwatch)
    one_by_one: bool = False

    def __post_init__(self) -> None:
        request, handle, watch = self.request, self.handle, self.watch
        self.program, self.model = request.program, request.model
        self.upkeep = Upkeep(self.engine, handle, watch, request.invocation_id)
        self.stager = Stager(self.engine, handle, self.model, watch)
        self.input = TaskInput(self.source, request, handle, watch)
        references = {name: self.references[name] for name in request.held_references}
        self.holds = TaskHolds(self.model, handle, self.input, references)
        self.commits = Commits(request, self.input, Append(handle, self.model), self.upkeep, watch)
        read = f"mv_contents({self.program.input.name})"
        whole = {read: self.source} if self.program.contents_used else {}
        self.reference_times = ReferenceTimes(self.references, request.awaited, self.views, whole)
        self.waiting = 0
        self.skips_errors = request.skip_errors  # and has not yet
        self.left_out: dict[int, Broken] = {}  # by time (ms)

    def run(self) -> TaskOutcome:
        """Process the input's pending times up to the run's own."""
        self.handle.keep_statistics()
        before = self._begin()
        self._widen()
        while True:
            state, output = self.upkeep.folded(self.handle.state())
            if state.upper.is_empty():
                break
            failpoints.reach("looked")
            try:
                if not self._round(state, output):
                    break
            except HistoryGone:  # unless another replica did these times and released their history
                if self.handle.state().upper == state.upper:
                    raise
        self.holds.follow()
        self._warn_of_errors()
        return self._outcome(before)

    def _warn_of_errors(self) -> None:
        warnings, left_out = self.upkeep.warnings, self.left_out
        if left_out:
            warnings.append(
                f"the effects of {len(left_out)} times are left out for good, because {next(iter(left_out.values())).words}"
            )
        # what was left out may be all that there was to skip
        if self.skips_errors and not (left_out and not live_errors(self._layout())):
            warnings.append("recorded errors stay, because the input has not advanced; run again once it has")

    def _layout(self) -> Layout:
        return Layout.of(self.handle, self.handle.state())

    # beginning

    def _begin(self) -> ShardState:
        """Give the task its start if it has none, and hold its input; returns the state after
        that.
        """
        while True:
            state = self.handle.state()
            if self.request.reset or state.dropped is not None:
                self._reset(state)
            elif state.readable or state.creation is not None:
                return self._followed(state)
            else:
                self._create(state)

    def _followed(self, state: ShardState) -> ShardState:
        """Hold the input. Raises `InputNotFollowed` if the contents of ``state`` are not of this
        input, and `HistoryGone`.
        """
        try:
            return self.holds.follow()
        except HistoryGone as gone:
            if not state.readable or self.input.processed_generation is not None:
                raise
            name, upper = self.program.input.name, state.upper.stored()
            raise InputNotFollowed(self.model, name, upper, task=WATCHED in state.properties) from gone

    def _create(self, state: ShardState) -> None:
        """Try to commit the task's start. Until a start is committed, a run that began earlier may
        still win, so its hold stays.
        """
        try:
            start = self.input.start()
            self.holds.take(start, forward=False)
        except HistoryGone:
            if self.handle.state().creation is None:
                raise
            return  # another replica did, and has gone on since
        failpoints.reach("held")
        note = self.commits.note(NOTHING)
        self.commits.appender.raise_upper(state.upper, Antichain.of(start), note, start)

    def _reset(self, state: ShardState) -> None:
        """Begin a new, empty generation that starts at the input's newest time; history is released
        afterwards.
        """
        start = self.input.start()
        try:
            self.holds.take(min(start, max(0, state.upper.stored() - 1)), forward=False)
        except HistoryGone:
            self.holds.take(start, forward=False)
        failpoints.reach("held")
        upper, schema = Antichain.of(start), arrow_schema(self.request.columns)
        note = self.commits.note(NOTHING)
        try:
            self.handle.replace(
                [], schema, upper, upper, note=note, expected_version=state.version, creation=start
            )
        except FilesChanged:  # maintenance, or a foreign writer
            return
        self.request = self.request.begun()
        failpoints.reach("upper raised")

    def _widen(self) -> None:
        """Give the output's columns the wider types that the statements' have now."""
        while True:
            state = self.handle.state()
            wider = wider_columns(shard_columns(state.schema), self.request.columns)
            if not wider or not state.readable:
                return
            note = replace(self.commits.note(NOTHING), purpose=columns_evolved((), wider))
            self.upkeep.evolve(state, wider, note)

    # the loop

    def _round(self, state: ShardState, output: Layout) -> bool:
        """Continue from this version. False if there is nothing more to do now."""
        pending = self.input.pending(state)
        log.debug(
            "%s: shard %s, upper %s, input %s before %s: %d pending%s",
            self.model, self.handle.shard_id, state.upper, self.source.id, self.source.frontier(), len(pending),
            f", from {pending[0].time}" if pending else "",
        )  # fmt: skip
        if self.skips_errors and self._took_errors_back(state, output, pending):
            return True
        if not pending:
            goal = self.input.goal(state)
            if not state.upper.less_than(goal):
                return False
            self.commits.advance(state, goal)
            return True
        if len(pending) > 1 and self._together(state, pending):
            return True
        if self._waits(state, pending):
            return False
        self._process(state, output, pending[0])
        return True

    def _waits(self, state: ShardState, pending: list[PendingTime]) -> bool:
        """Whether a reference must be waited for. If so, the upper is moved to the first pending
        time.
        """
        first = pending[0].time
        waits = self.reference_times.waits_at(first)
        if not waits:
            return False
        self.waiting = len(pending)
        for late in waits:
            log.debug("%s: waiting for %s (upper %d) to pass %d", self.model, late.name, late.upper, first)
        if state.upper.less_than(Antichain.of(first)) and not self.input.recreated:
            self.commits.advance(state, Antichain.of(first))
        return True

    def _process(self, state: ShardState, output: Layout, pending: PendingTime) -> None:
        """Process one pending time: compute its effects and append them."""
        description = self._minted(state, pending.time, f"{pending.time}")
        effects = self._effects(state)
        change = self._change(state, pending)
        broken = self.reference_times.broken(pending.time) if change.runs else None
        if broken is not None:
            batch, counts = self._without_effects(broken, effects, change, pending.time, description)
            self.commits.append(state, description, batch, counts, [pending.time])
            return
        references = self.reference_times.contents(pending.time) if change.runs else {}
        if change.runs and self.program.contents_used:
            change = replace(change, contents=self.source.contents(pending.time))
        try:
            batch, counts = effects.of(change, output, references, pending.time, description)
        except StatementFailed as failure:
            if self.request.on_error is not OnError.RECORD or not failure.error.caused_by_data:
                raise self._dated(failure, pending.time) from failure
            message = failure.error.message[:MAX_ERROR_LENGTH]
            self.upkeep.warnings.append(
                f"statement {failure.statement} failed and its error is recorded: {message}"
            )
            batch, counts = effects.failed(message, change, pending.time, description)
        self.commits.append(state, description, batch, counts, [pending.time])

    def _dated(self, failure: StatementFailed, time: int) -> StatementFailed:
        """``failure`` with the ``time`` (ms) at which it happened, and how to go on."""
        numbers = failure.statement.split(", ")
        merges = any(
            isinstance(each, Merge) and str(each.number) in numbers for each in self.program.statements
        )
        return failure.at(self.program.input.name, time, merges=merges, stays=not self.input.recreated)

    def _without_effects(
        self, broken: Broken, effects: Effects, change: TaskChange, time: int, description: BatchDescription
    ) -> tuple[Batch | None, Counts]:
        """What the output gets at a ``time`` (ms) at which a reference holds an error: that error,
        or nothing, and in any case the input's errors. Raises `ReferenceFails`.
        """
        if self.request.skip_errors:
            self.left_out[time] = broken
            return effects.only_errors(change, time, description)
        if self.request.on_error is not OnError.RECORD:
            raise ReferenceFails(self.model, broken.words, healed=broken.healed, late=broken.late)
        message = broken.words[:MAX_ERROR_LENGTH]
        self.upkeep.warnings.append(f"no statement ran at {iso(time)}, and an error is recorded: {message}")
        return effects.failed(message, change, time, description)

    def _minted(self, state: ShardState, last: int, times: str) -> BatchDescription:
        """The description of a batch with effects up to the time ``last``."""
        description = BatchDescription(state.upper, Antichain.of(last).step_forward())
        log.debug("%s: minted [%s, %s) for %s", self.model, description.lower, description.upper, times)
        return description

    def _effects(self, state: ShardState) -> Effects:
        stored = shard_columns(state.schema)
        return Effects(self.program, self.request.columns, self.stager, state.salt, stored)

    def _change(self, state: ShardState, pending: PendingTime) -> TaskChange:
        source, deletes = self.source, self.input.deletes
        if not state.readable:
            return snapshot_of(source, self.engine, pending.time, rows=self.request.initial_snapshot)
        generation = self.input.processed_generation
        if generation is not None and self.input.recreated:
            before = source.before(generation, state.upper.stored() - 1)
            difference = source.difference(before, pending.time)
            return recreation_of(source, self.engine, difference, deletes=deletes)
        updates = source.changes(pending.time, pending.time + 1)
        runs = pending.inserts or (deletes and pending.deletes)
        return change_of(source, updates, errors=pending.errors, runs=runs)

    def _together(self, state: ShardState, pending: list[PendingTime]) -> bool:
        """Commit the pending times in one job and one append. False if they must run one by one."""
        pending = list(itertools.takewhile(lambda p: p.inserts and not p.errors, pending))
        possible = len(pending) > 1 and state.readable and not self.one_by_one and not self.input.recreated
        timed = (*self.references, *self.views)
        carried = stateless(self.program, timed) if possible else None
        if carried is None:
            return False
        first, last = pending[0].time, pending[-1].time
        description = self._minted(state, last, f"{len(pending)} times from {first} to {last}, in one job")
        updates = self.source.changes(first, last + 1)
        rows = repeated(self.source.columns, updates, f"{ERROR} is null and {DIFF} > 0", DIFF, TIME)
        bindings = bind.StatementBindings(rows, "")
        inserts = [statement for statement in self.program.statements if isinstance(statement, Insert)]
        queries = [
            bind.carried_delta(statement, bind.bind(self.program, query, bindings), self.request.columns)
            for statement, query in zip(inserts, carried.queries, strict=True)
        ]
        try:
            batch, counts = self._effects(state).together(queries, description)
        except StatementFailed as failure:
            log.debug("%s: not in one job: %s", self.model, failure)
            # one by one, the times before the failure are committed; one job is not tried again
            self.one_by_one = True
            return False
        self.commits.append(state, description, batch, counts, [each.time for each in pending])
        return True

    def _took_errors_back(self, state: ShardState, output: Layout, pending: list[PendingTime]) -> bool:
        """Take recorded errors back if no input change is in the way. False if nothing was done."""
        goal = Antichain.of(pending[0].time) if pending else self.input.goal(state)
        if not state.readable or self.input.recreated or not state.upper.less_than(goal):
            return False
        time = state.upper.stored()
        query = retractions(output, self.request.columns, self.source.snapshot(time - 1), time)
        self.skips_errors = False
        if not query:
            return False
        batch = self.stager.adopt(self.stager.stage(query, "errors"), BatchDescription(state.upper, goal))
        counts = NOTHING if batch is None else self.stager.counts(batch)
        self.skips_errors = not self.commits.advance(state, goal, batch, counts)
        return True

    def _outcome(self, before: ShardState) -> TaskOutcome:
        state, commits = self.handle.state(), self.commits
        wrote = not commits.counts.nothing
        kind = Kind.APPEND if wrote else Kind.FINAL if state.upper.is_empty() else Kind.NONE
        return TaskOutcome(
            kind=kind,
            counts=commits.counts,
            lower=before.upper,
            upper=state.upper,
            time=commits.times[-1] if commits.times else self.request.time,
            state=state,
            times=tuple(commits.times),
            waiting=self.waiting,
            late=tuple(self.reference_times.late.values()),
            drift=self.upkeep.drift,
            mismatches=commits.appender.mismatches,
            warnings=tuple(self.upkeep.warnings),
            seconds=self.watch.seconds,
        )
