"""The driver: runs mint, write and append in a loop until the shard's upper has reached the desired
frontier, by this run's commits or by another's.

Every attempt starts from the newest version of the log. An attempt that lost a race, or whose
process died, therefore leaves nothing to undo.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

from dbt.adapters.mvsink.engine import Column, Engine, arrow_schema, columns_added, shard_columns
from dbt.adapters.mvsink.engine.timing import Stopwatch
from dbt.adapters.mvsink.shard import (
    Antichain,
    FilesChanged,
    Progress,
    SchemaMismatch,
    ShardState,
    UpperMismatch,
    WriteHandle,
    retry_on_replacement,
    schema_differences,
)
from dbt.adapters.mvsink.shard_sql import BatchDescription, Counts, Kind, Layout
from dbt.adapters.mvsink.shard_sql.append import Append
from dbt.adapters.mvsink.shard_sql.current_view import widened
from dbt.adapters.mvsink.shard_sql.layout import vacant
from dbt.adapters.mvsink.shard_sql.rewrite import Upkeep
from dbt.adapters.mvsink.sink import clock_ahead
from dbt.adapters.mvsink.sink.correction import Desired
from dbt.adapters.mvsink.sink.gating import Gating
from dbt.adapters.mvsink.sink.mint import Mint
from dbt.adapters.mvsink.sink.preview import Previewing
from dbt.adapters.mvsink.sink.request import Outcome, Preview, SinkRequest, note_of, progress_of
from dbt.adapters.mvsink.sink.run_plan import (
    RunPlan,
    column_changes,
    compacted_after,
    next_since,
    planned,
    wanted_columns,
)
from dbt.adapters.mvsink.sink.strategy import Strategy
from dbt.adapters.mvsink.sink.write import Write
from dbt.adapters.mvsink.sink.written import Written

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
    added: tuple[Column, ...] = ()  # columns that this run has added to the shard

    def __post_init__(self) -> None:
        self.write = Write(self.engine, self.handle, self.request.model, self.watch)
        self.appender = Append(self.handle, self.request.model)
        self.upkeep = Upkeep(self.engine, self.handle, self.watch, self.request.invocation_id)
        self.warnings = self.upkeep.warnings
        self.gating = Gating(self.request, self.handle, self.engine, self.watch, self.warnings)

    def run(self) -> Outcome:
        """Bring the shard to the next refresh after the run's time; if read-only, preview that."""
        return retry_on_replacement([self.handle], self._run)

    def check_columns(self) -> None:
        """Raise `SchemaChanged` if the request forbids the query's columns. Writes nothing."""
        column_changes(self.request, self.handle.state())

    def _run(self) -> Outcome:
        self.ahead, self.added = None, ()
        if not self.request.read_only:
            self.handle.keep_statistics()
        mint, generation = None, None
        while True:
            state = self.handle.state()
            if mint is None or state.creation != generation:
                mint = Mint(self.request.model, read_only=self.request.read_only)
                generation = state.creation
            outcome = self._attempt(mint, state, planned(self.request, state))
            if outcome is not None:
                return outcome

    def _attempt(self, mint: Mint, state: ShardState, plan: RunPlan) -> Outcome | None:
        """One attempt on one version; None if more is to be done, or another commit came first."""
        read_only = self.request.read_only
        if plan.time is not None and self.request.superseded is not None:
            kind = Kind.READ_ONLY if read_only else Kind.NONE
            return replace(self._idle(state), kind=kind, up_to_date=True, superseded=self.request.superseded)
        if plan.generation:
            return self._preview(state, plan) if read_only else self._replace(state, plan)
        if plan.time is None:
            return self._pass(state, plan)
        if plan.added and not read_only:
            self._add_columns(state, plan)
            return None
        as_of = Antichain.of(0 if state.readable else plan.time)
        mint.observe_as_of(as_of)
        mint.observe_persist(state.upper)
        mint.observe_desired(plan.upper)
        if not read_only and not state.readable and (plan.begins or state.upper.less_than(as_of)):
            self._raise_upper(state, plan, as_of, plan.time, mint.peek())
            return None
        description = mint.peek() if read_only else mint.mint()
        if description is None:
            self.upkeep.require_whole(state)
            return self._nothing_to_mint(state, plan)
        evidence = self.request.evidence
        if not self.request.verify and evidence.unchanged(state, self.handle.progress, plan.time):
            return self._unevaluated(state, plan, plan.time, description)
        return self._preview(state, plan) if read_only else self._round(state, plan, plan.time, description)

    def _unevaluated(
        self, state: ShardState, plan: RunPlan, time: int, description: BatchDescription
    ) -> Outcome | None:
        """Only the upper moves. None if the race was lost."""
        self.upkeep.require_whole(state)
        kind, nothing = Kind.READ_ONLY, Written(None, Counts())
        if not self.request.read_only:
            kind, progress = Kind.APPEND, self.request.evidence.progress(state, time)
            if not self._append(state, plan, nothing, description, time, progress):
                return None
        return replace(self._outcome(kind, nothing, time, description), evaluated=False)

    def _append(
        self,
        state: ShardState,
        plan: RunPlan,
        written: Written,
        description: BatchDescription,
        time: int | None = None,
        progress: Progress | None = None,
        mode: str = "",
    ) -> bool:
        """Commit it, and do what is due afterwards. False if the race was lost."""
        note = replace(written.noted(note_of(self.request, written.counts, self.watch, time)), mode=mode)
        if written.incremental and written.compared and note.seconds is not None:
            unverified = note.seconds - self.watch.seconds.get("verify", 0.0)  # as the next run will take
            note = replace(note, seconds=round(unverified, 3))
        since = next_since(self.request, state, plan)
        with self.watch("append"):
            result = self.appender.append(
                written.batch, description, since, note, progress=progress, negation=written.negation
            )
        if result is not None:
            self.upkeep.maintain(result.maintenance)
        return result is not None

    def _add_columns(self, state: ShardState, plan: RunPlan) -> None:
        note = replace(note_of(self.request, Counts(), self.watch), purpose=columns_added(plan.added))
        if self.upkeep.evolve(state, plan.added, note):
            self.added = plan.added

    def _raise_upper(
        self, state: ShardState, plan: RunPlan, as_of: Antichain, time: int, first: BatchDescription | None
    ) -> None:
        """Raise a shard without contents to ``as_of``. A gate is passed before: this commits."""
        if self.request.gate.is_active and self.ahead is None and first is not None:
            self.ahead = (first, self._written(state, plan, Layout.of(self.handle, state), time, first))
        self.appender.raise_upper(
            state.upper, as_of, note_of(self.request, Counts(), self.watch), plan.creation
        )

    def _pass(self, state: ShardState, plan: RunPlan) -> Outcome | None:
        """No refresh is due: at most the upper moves, to the next. None if the race was lost."""
        self.upkeep.require_whole(state)
        if plan.upper == state.upper:
            return self._nothing_to_mint(state, plan)
        if self.request.read_only:
            return replace(self._idle(state), kind=Kind.READ_ONLY, upper=plan.upper)
        note = note_of(self.request, Counts(), self.watch)
        if state.readable:
            description = BatchDescription(state.upper, plan.upper)
            if not self._append(state, plan, Written(None, Counts()), description):
                return None
        elif not self.appender.raise_upper(state.upper, plan.upper, note, plan.creation):
            return None
        idle = self._idle(self.handle.state())
        kind = Kind.FINAL if plan.upper.is_empty() else Kind.NONE
        return replace(idle, kind=kind, lower=state.upper, upper=plan.upper, up_to_date=True, scheduled=True)

    def _round(
        self, state: ShardState, plan: RunPlan, time: int, description: BatchDescription
    ) -> Outcome | None:
        """One description from mint to append, written at ``time``; None if the race was lost."""
        shard = Layout.of(self.handle, state)
        # a fold is a commit, and the gate comes before every commit
        if shard.loose and self.request.gate.is_active:
            self._written(state, plan, shard, time, description).delete()
        columns = state.schema
        state, shard = self.upkeep.folded(state)
        if state.upper != description.lower:
            return None
        differences = schema_differences(state.schema, columns)
        # a run of another query has added columns: a correction by this query would retract them
        if differences:
            raise SchemaMismatch(self.handle.uri, differences)
        if self.ahead is not None and self.ahead[0] == description and shard.empty:
            written = self.ahead[1]
        else:
            written = self._written(state, plan, shard, time, description)
        progress = progress_of(self.request, state, written, time)
        if written.incremental and not progress.known and not written.counts.errors_inserted:
            # an input changed meanwhile: then its change is not in the correction as a whole
            written.delete()
            written = self._written(state, plan, shard, time, description, evaluate=True)
            progress = progress_of(self.request, state, written, time)
        if not self._append(state, plan, written, description, time, progress, written.mode):
            return None
        return self._outcome(Kind.APPEND, written, time, description)

    def _replace(self, state: ShardState, plan: RunPlan) -> Outcome | None:
        """A new generation: all contents are swapped in by one commit. None if the race was lost.

        If no refresh is due it has no contents and waits for the first refresh, as a new shard
        does.
        """
        columns = wanted_columns(self.request, state)
        since = plan.upper if plan.time is None else Antichain.of(plan.time)
        description = BatchDescription(since, plan.upper)
        written = Written(None, Counts())
        if plan.time is not None:
            written = self.write.first_load(self._query(state, columns, plan.time), plan.time, description)
            written = self.gating.audited(state, plan, vacant(state, self.handle.uri, columns), written)
        batches = [] if written.batch is None else [written.batch]
        try:
            with self.watch("append"):
                result = self.handle.replace(
                    batches,
                    arrow_schema(columns),
                    plan.upper,
                    since,
                    note=written.noted(note_of(self.request, written.counts, self.watch, plan.time)),
                    expected_version=state.version,
                    creation=plan.creation if plan.begins else None,
                    progress=None
                    if plan.time is None
                    else progress_of(self.request, state, written, plan.time),
                )
        except (FilesChanged, UpperMismatch):
            for batch in batches:
                batch.delete()
            return None
        self.upkeep.maintain(result.maintenance)
        outcome = self._outcome(Kind.APPEND, written, plan.time, description)
        return replace(outcome, generation=plan.generation)

    # contents, and the gate

    def _written(
        self,
        state: ShardState,
        plan: RunPlan,
        shard: Layout,
        time: int,
        description: BatchDescription,
        *,
        evaluate: bool = False,
    ) -> Written:
        """The correction, staged, after it has passed the gate. ``evaluate``: see `Strategy`."""
        strategy = Strategy(self.request, self.write, self.handle.progress, self.warnings.append, evaluate)
        written = strategy.stage(self._desired(state, time), state, shard, time, description)
        return written if written.counts.nothing else self.gating.audited(state, plan, shard, written)

    def _desired(self, state: ShardState, time: int) -> Desired:
        """The query as of ``time``, in the shard's columns and their order."""
        return self._query(state, shard_columns(state.schema), time)

    def _query(self, state: ShardState, columns: tuple[Column, ...], time: int) -> Desired:
        """The query as of ``time`` in these ``columns``; those that it no longer has are NULL."""
        names = {column.name for column in self.request.columns}
        missing = tuple(column.name for column in columns if column.name not in names)
        return Desired(self.request.query_at(time), columns, state.salt, self.request.assertions, missing)

    # read-only

    def _preview(self, state: ShardState, plan: RunPlan) -> Outcome:
        """Read-only: the correction is counted; nothing is written to the shard."""
        description = BatchDescription(state.upper, plan.upper)
        if plan.time is None:
            outcome = self._outcome(Kind.READ_ONLY, Written(None, Counts()), None, description)
            return replace(outcome, generation=plan.generation)
        shard = self._previewed(state, plan)
        desired = self._query(state, shard.columns, plan.time)
        previewing = Previewing(self.request, self.handle, self.engine, self.watch, self.warnings.append)
        if plan.generation or plan.added:
            previewed = previewing.evaluated(desired, shard, plan.time)
        else:
            previewed = previewing.corrected(desired, state, shard, plan.time, description)
        counts, gate = previewed.counts, None
        if self.request.gate.is_active and (plan.generation or not counts.nothing):
            gate = self.gating.previewed(state, plan, counts, desired.plain_rows())
        compacted = compacted_after(self.request, state, plan, previewed.updates)
        written = Written(None, counts, incremental=previewed.incremental, full=previewed.full)
        outcome = self._outcome(Kind.READ_ONLY, written, plan.time, description)
        preview = Preview(shard.names, previewed.sample, gate, compacted)
        return replace(outcome, generation=plan.generation, columns_added=plan.added, preview=preview)

    def _previewed(self, state: ShardState, plan: RunPlan) -> Layout:
        """The layout that a preview compares with. A new generation needs none of the old files."""
        if plan.generation:
            return vacant(state, self.handle.uri, wanted_columns(self.request, state))
        current = Layout.of(self.handle, state)
        return widened(current, plan.added) if plan.added else current

    # outcomes

    def _nothing_to_mint(self, state: ShardState, plan: RunPlan) -> Outcome:
        if state.upper.is_empty():
            return replace(self._idle(state), kind=Kind.FINAL, up_to_date=True, scheduled=True)
        scheduled = clock_ahead.scheduled(self.request, plan, state.upper, self.handle.history)
        warning = "" if scheduled else clock_ahead.warning(self.request, state.upper, self.handle.history)
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
            references=None if time is None else self.request.references.times(time),
            versions={} if time is None else self.request.references.versions(),
            newer={} if time is None else self.request.references.not_as_of(),
            counts=written.counts,
            lower=description.lower,
            upper=description.upper,
            rows_staged=sum(batch.rows for batch in written.batches),
            bytes_staged=sum(batch.bytes for batch in written.batches),
            candidate_buckets=written.candidate_buckets,
            evaluated_once=written.evaluated_once,
            incremental=written.incremental,
            full=written.full,
            drifted=written.drift,
            verified=(self.request.verify or written.compared) and time is not None,
            rewritten=written.rewritten,
        )
