"""The driver: runs mint, write and append in a loop until this run's commits, or another's, have
moved the shard's upper to the desired frontier.

Every attempt starts from the newest version of the log. An attempt that lost a race, or whose
process died, therefore leaves nothing to undo.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

from dbt.adapters.mvsink.engine import Column, Engine, arrow_schema, columns_evolved
from dbt.adapters.mvsink.engine.timing import Stopwatch
from dbt.adapters.mvsink.shard import (
    MAX_ROUNDS,
    Antichain,
    FilesChanged,
    Progress,
    SchemaMismatch,
    ShardReplaced,
    ShardState,
    UpperMismatch,
    WriteHandle,
    schema_differences,
)
from dbt.adapters.mvsink.shard_sql import BatchDescription, Counts, Kind, Layout
from dbt.adapters.mvsink.shard_sql.append import Append
from dbt.adapters.mvsink.shard_sql.current_view import widened
from dbt.adapters.mvsink.shard_sql.layout import vacant
from dbt.adapters.mvsink.shard_sql.rewrite import Upkeep
from dbt.adapters.mvsink.sink.correction import Desired
from dbt.adapters.mvsink.sink.gate import Gating
from dbt.adapters.mvsink.sink.mint import Mint
from dbt.adapters.mvsink.sink.request import Outcome, Preview, SinkRequest, note_of, progress_of
from dbt.adapters.mvsink.sink.round import DROPPED, FULL_REFRESH, Round, RunPlan, Written
from dbt.adapters.mvsink.sink.run_plan import (
    added_and_widened,
    ahead_of_clock,
    column_changes,
    compacted_after,
    next_since,
    planned,
    wanted_columns,
)
from dbt.adapters.mvsink.sink.strategy import KEPT, Strategy
from dbt.adapters.mvsink.sink.write import Write

log = logging.getLogger("mvsink.sink.append")


@dataclass
class Driver:
    """One run of one model against one shard."""

    request: SinkRequest
    handle: WriteHandle
    engine: Engine
    watch: Stopwatch = field(default_factory=Stopwatch)
    # a gated first load, staged before the shard's upper is raised
    ahead: tuple[BatchDescription, Written] | None = None
    # columns that this run has added to the shard, and those that it has widened
    added: tuple[Column, ...] = ()
    widened: tuple[Column, ...] = ()

    def __post_init__(self) -> None:
        request = self.request
        self.write = Write(self.engine, self.handle, request.model, self.watch)
        self.appender = Append(self.handle, request.model)
        self.upkeep = Upkeep(self.engine, self.handle, self.watch, request.invocation_id)
        self.warnings = self.upkeep.warnings
        self.gating = Gating(request.gate, request.model, self.handle, self.engine, self.watch, self.warnings)

    @property
    def strategy(self) -> Strategy:
        return Strategy(self.request, self.write, self.handle.progress, self.warnings.append)

    def check_columns(self) -> None:
        """Raise `SchemaChanged` or `HistoryWouldEnd` if the request forbids the query's columns.
        Writes nothing.
        """
        column_changes(self.request, self.handle.state())

    def run(self) -> Outcome:
        """Bring the shard up to date for the run's time; if read-only, preview that.

        Starts again if another run replaces the shard, as `retry_on_replacement` does.
        """
        mint: Mint | None = None
        generation, replaced = None, 0
        while True:
            try:
                if mint is None and not self.request.read_only:
                    self.handle.keep_statistics()
                state = self.handle.state()
                if mint is None or state.creation != generation:
                    mint = Mint(self.request.model, read_only=self.request.read_only)
                    generation = state.creation
                outcome = self._attempt(mint, state, planned(self.request, state))
                if outcome is not None:
                    return outcome
            except ShardReplaced:
                replaced += 1
                if replaced == MAX_ROUNDS:
                    raise
                self.handle.follow()
                mint, self.ahead, self.added, self.widened = None, None, (), ()

    def _attempt(self, mint: Mint, state: ShardState, plan: RunPlan) -> Outcome | None:
        """One attempt on one version; None if more remains to be done, or another commit came
        first.
        """
        request, read_only = self.request, self.request.read_only
        if plan.time is not None and request.superseded is not None:
            kind = Kind.READ_ONLY if read_only else Kind.NONE
            return replace(self._idle(state), kind=kind, up_to_date=True, superseded=request.superseded)
        if plan.generation:
            return self._preview(state, plan) if read_only else self._replace(state, plan)
        if plan.time is None:
            return self._pass(state, plan)
        if plan.evolved and not read_only:
            self._evolve(state, plan)
            return None
        as_of = Antichain.of(0 if state.readable else plan.time)
        mint.observe_as_of(as_of)
        mint.observe_persist(state.upper)
        mint.observe_desired(plan.upper)
        if not read_only and not state.readable and (plan.begins or state.upper.less_than(as_of)):
            self._raise_upper(state, plan, as_of, mint.peek())
            return None
        description = mint.peek() if read_only else mint.mint()
        if description is None:
            self.upkeep.require_whole(state)
            return self._nothing_to_mint(state, plan)
        if not request.verify and request.evidence.unchanged(state, self.handle.progress, plan.time):
            return self._unevaluated(state, plan, description)
        return self._preview(state, plan) if read_only else self._round(state, plan, description)

    def _evolve(self, state: ShardState, plan: RunPlan) -> None:
        """Add and widen columns, as a commit of its own, for which a gate must be passed before.
        The next attempt fills them.
        """
        if self.request.gate.is_active:
            shard = widened(Layout.of(self.handle, state), plan.evolved)
            at = self._begun(state, plan, shard, BatchDescription(state.upper, plan.upper))
            counts = self.strategy.preview(at).counts
            if not counts.nothing:
                self.gating.require(at, counts)
        new, wider = added_and_widened(state, plan.evolved)
        # the definition is that of the contents, which come next
        note = replace(note_of(self.request, self.watch), purpose=columns_evolved(new, wider), definition="")
        if self.upkeep.evolve(state, plan.evolved, note):
            self.added, self.widened = new, wider

    def _unevaluated(self, state: ShardState, plan: RunPlan, description: BatchDescription) -> Outcome | None:
        """A commit that only moves the upper. None if another commit came first."""
        self.upkeep.require_whole(state)
        assert plan.time is not None
        kind = Kind.READ_ONLY
        if not self.request.read_only:
            kind, progress = Kind.APPEND, self.request.evidence.progress(state, plan.time)
            if not self._append(state, plan, description, KEPT, progress):
                return None
        return self._outcome(kind, KEPT, plan.time, description)

    def _append(
        self,
        state: ShardState,
        plan: RunPlan,
        description: BatchDescription,
        written: Written,
        progress: Progress | None = None,
    ) -> bool:
        """Commit what was written, then do the maintenance that is due. False if another commit
        came first.
        """
        note = note_of(self.request, self.watch, written, plan.time)
        if written.incremental and written.compared and note.seconds is not None:
            unverified = note.seconds - self.watch.seconds.get("verify", 0.0)  # as the next run will take
            note = replace(note, seconds=round(unverified, 3))
        since = next_since(self.request, state, plan)
        progress = self._timed(progress)
        with self.watch("append"):
            result = self.appender.append(
                written.batch, description, since, note, progress=progress, negation=written.negation
            )
        if result is not None:
            self.upkeep.maintain(result.maintenance)
        return result is not None

    def _timed(self, progress: Progress | None) -> Progress | None:
        """``progress`` with what the run took so far, for the next verification that is due."""
        took = {step: round(1000 * seconds) for step, seconds in self.watch.seconds.items()}
        if progress is None:
            return None
        if self.request.verify:
            return replace(progress, verifying=sum(took.values()))
        # a new reading that proves itself pays for that alone
        return replace(progress, spent=sum(took.values()) - took.get("verify", 0))

    def _raise_upper(
        self, state: ShardState, plan: RunPlan, as_of: Antichain, first: BatchDescription | None
    ) -> None:
        """Raise a shard without contents to ``as_of``. This commits, so a gate must be passed
        before.
        """
        if self.request.gate.is_active and self.ahead is None and first is not None:
            at = self._begun(state, plan, Layout.of(self.handle, state), first)
            self.ahead = (first, self._judged(at, self.strategy.stage(at)))
        note = note_of(self.request, self.watch)
        self.appender.raise_upper(state.upper, as_of, note, plan.creation)

    def _pass(self, state: ShardState, plan: RunPlan) -> Outcome | None:
        """No refresh is due: at most the upper moves to the next one. None if another commit came
        first.
        """
        self.upkeep.require_whole(state)
        if plan.upper == state.upper:
            return self._nothing_to_mint(state, plan)
        if self.request.read_only:
            return replace(self._idle(state), kind=Kind.READ_ONLY, upper=plan.upper)
        if state.readable:
            if not self._append(state, plan, BatchDescription(state.upper, plan.upper), KEPT):
                return None
        else:
            note = note_of(self.request, self.watch)
            if not self.appender.raise_upper(state.upper, plan.upper, note, plan.creation):
                return None
        idle = self._idle(self.handle.state())
        kind = Kind.FINAL if plan.upper.is_empty() else Kind.NONE
        return replace(idle, kind=kind, lower=state.upper, upper=plan.upper, up_to_date=True, scheduled=True)

    def _round(self, state: ShardState, plan: RunPlan, description: BatchDescription) -> Outcome | None:
        """One description, from mint to append; None if another commit came first."""
        shard, strategy = Layout.of(self.handle, state), self.strategy
        # a fold is a commit, and the gate comes before every commit
        if shard.loose and self.request.gate.is_active:
            at = self._begun(state, plan, shard, description)
            self._judged(at, strategy.stage(at)).delete()
        columns = state.schema
        state, shard = self.upkeep.folded(state)
        if state.upper != description.lower:
            return None
        differences = schema_differences(state.schema, columns)
        # a run of another query has added columns: a correction by this query would retract them
        if differences:
            raise SchemaMismatch(self.handle.uri, differences)
        at = self._begun(state, plan, shard, description)
        if self.ahead is not None and self.ahead[0] == description and shard.empty:
            written = self.ahead[1]
        else:
            written = self._judged(at, strategy.stage(at))
        progress = progress_of(self.request, state, written, at.time)
        if written.follows and not progress.known and not written.counts.errors_inserted:
            # an input changed meanwhile: then its change is not in the correction as a whole
            written.delete()
            written = self._judged(at, strategy.stage(at, moved=True))
            progress = progress_of(self.request, state, written, at.time)
        if not self._append(state, plan, description, written, progress):
            return None
        return self._outcome(Kind.APPEND, written, at.time, description)

    def _replace(self, state: ShardState, plan: RunPlan) -> Outcome | None:
        """A new generation: one commit replaces all contents. None if another commit came first.

        If no refresh is due, the generation has no contents and waits for its first refresh, like a
        new shard.
        """
        columns = wanted_columns(self.request, state)
        since = plan.upper if plan.time is None else Antichain.of(plan.time)
        description = BatchDescription(since, plan.upper)
        written, progress = Written(None, Counts()), None
        if plan.time is not None:
            at = self._begun(state, plan, vacant(state, self.handle.uri, columns), description)
            written = replace(self.gating.audited(at, self.write.first_load(at)), loaded=True)
            progress = progress_of(self.request, state, written, plan.time)
        batches = [] if written.batch is None else [written.batch]
        keeps = plan.generation not in (FULL_REFRESH, DROPPED)
        note = note_of(self.request, self.watch, written, plan.time)
        try:
            with self.watch("append"):
                result = self.handle.replace(
                    batches,
                    arrow_schema(columns),
                    plan.upper,
                    since,
                    note=replace(note, purpose=self.request.purpose or f"new generation: {plan.generation}"),
                    expected_version=state.version,
                    creation=plan.creation if plan.begins else None,
                    progress=self._timed(progress),
                    keeps=self.request.retain_history if keeps else None,
                )
        except (FilesChanged, UpperMismatch):
            for batch in batches:
                batch.delete()
            return None
        self.upkeep.maintain(result.maintenance)
        outcome = self._outcome(Kind.APPEND, written, plan.time, description)
        return replace(outcome, generation=plan.generation)

    # contents, and the gate

    def _begun(self, state: ShardState, plan: RunPlan, shard: Layout, description: BatchDescription) -> Round:
        """The round after which ``shard``, the layout of ``state``, holds the query's rows as of
        the plan's time. They have the shard's columns; those that the query no longer has are NULL.
        """
        assert plan.time is not None
        names = {column.name for column in self.request.columns}
        missing = tuple(column.name for column in shard.columns if column.name not in names)
        query, assertions = self.request.query_at(plan.time), self.request.assertions
        desired = Desired(query, shard.columns, state.salt, assertions, missing)
        return Round(state, plan, shard, description, desired)

    def _judged(self, at: Round, written: Written) -> Written:
        """``written``, once it has passed the gate."""
        return written if written.counts.nothing else self.gating.audited(at, written)

    # read-only

    def _preview(self, state: ShardState, plan: RunPlan) -> Outcome:
        """Read-only: the correction is counted; nothing is written to the shard."""
        description = BatchDescription(state.upper, plan.upper)
        if plan.time is None:
            outcome = self._outcome(Kind.READ_ONLY, Written(None, Counts()), None, description)
            return replace(outcome, generation=plan.generation)
        if plan.generation:  # it needs none of the old files
            shard = vacant(state, self.handle.uri, wanted_columns(self.request, state))
        else:
            shard = Layout.of(self.handle, state)
            shard = widened(shard, plan.evolved) if plan.evolved else shard
        at = self._begun(state, plan, shard, description)
        previewed, gate = self.strategy.preview(at), None
        counts = previewed.counts
        if self.request.gate.is_active and (plan.generation or not counts.nothing):
            gate = self.gating.previewed(at, counts)
        compacted = compacted_after(self.request, state, plan, previewed.updates)
        written = Written(None, counts, incremental=previewed.incremental, full=previewed.full)
        outcome = self._outcome(Kind.READ_ONLY, written, plan.time, description)
        preview = Preview(shard.names, previewed.sample, gate, compacted)
        new, wider = added_and_widened(state, plan.evolved)
        return replace(
            outcome, generation=plan.generation, columns_added=new, columns_widened=wider, preview=preview
        )

    # outcomes

    def _nothing_to_mint(self, state: ShardState, plan: RunPlan) -> Outcome:
        if state.upper.is_empty():
            return replace(self._idle(state), kind=Kind.FINAL, up_to_date=True, scheduled=True)
        scheduled, warning = ahead_of_clock(self.request, plan, state.upper, self.handle.history)
        if warning:
            self.warnings.append(warning)
        return replace(self._idle(state), up_to_date=True, scheduled=scheduled)

    def _idle(self, state: ShardState) -> Outcome:
        """The outcome of a run that wrote nothing."""
        return Outcome(
            kind=Kind.NONE,
            counts=Counts(),
            lower=state.upper,
            upper=state.upper,
            time=self.request.time,
            state=state,
            drift=self.upkeep.drift,
            columns_added=self.added,
            columns_widened=self.widened,
            warnings=tuple(self.warnings),
            seconds=self.watch.seconds,
            mismatches=self.appender.mismatches,
        )

    def _outcome(
        self, kind: Kind, written: Written, time: int | None, description: BatchDescription
    ) -> Outcome:
        """The outcome of writing ``written`` at ``time``; ``time`` is None without a refresh."""
        if kind is Kind.APPEND and written.batch is None:
            kind = Kind.NONE
        if written.counts.errors_inserted and self.request.assertions:
            self.warnings.append(
                f"{written.counts.errors_inserted} rows break an assertion; readers get the error until they are corrected"
            )
        return replace(
            self._idle(self.handle.state()),
            kind=kind,
            time=self.request.time if time is None else time,
            scheduled=not self.request.refresh.on_commit,
            read=None if time is None else self.request.references.points(time),
            counts=written.counts,
            lower=description.lower,
            upper=description.upper,
            written=written,
            verified=(self.request.verify or written.compared) and time is not None,
        )
