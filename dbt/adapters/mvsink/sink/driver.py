"""The driver: runs mint, write and append in a loop until the shard's upper has reached the desired frontier.

By whose hand it got there does not matter. Every round reads the newest log version and starts from it, so
a round that lost a race, or that died, leaves nothing to undo.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

from dbt.adapters.mvsink.shard import (
    Antichain,
    CommitNote,
    FilesChanged,
    Maintenance,
    ShardState,
    UpperMismatch,
    WriteHandle,
    checkpoint,
    collect_garbage,
)
from dbt.adapters.mvsink.sink.append import Append
from dbt.adapters.mvsink.sink.correction import Desired
from dbt.adapters.mvsink.sink.engine import Engine
from dbt.adapters.mvsink.sink.errors import EngineError, SchemaChanged
from dbt.adapters.mvsink.sink.layout import Layout, layout
from dbt.adapters.mvsink.sink.mint import Description, Mint
from dbt.adapters.mvsink.sink.request import Kind, OnError, OnSchemaChange, Outcome, SinkRequest
from dbt.adapters.mvsink.sink.rewrite import compact, fold_foreign_files
from dbt.adapters.mvsink.sink.timing import Stopwatch, span
from dbt.adapters.mvsink.sink.types import Column, arrow_schema, shard_columns
from dbt.adapters.mvsink.sink.write import Counts, Write, Written

log = logging.getLogger("mvsink.sink.append")
AHEAD_OF_CLOCK = 60_000  # ms
LONGEST_MESSAGE = 2_000  # characters of a recorded error


@dataclass
class Driver:
    """One run of one model against one shard."""

    request: SinkRequest
    handle: WriteHandle
    engine: Engine
    watch: Stopwatch = field(default_factory=Stopwatch)
    drift: int = 0
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.write = Write(self.engine, self.handle, self.request.model, self.watch)
        self.appender = Append(self.handle, self.request.model)

    def run(self) -> Outcome:
        """Bring the shard to ``time + 1``, or in read-only mode tell what that would write."""
        with span("run", model=self.request.model):
            return self._run()

    def _run(self) -> Outcome:
        frontier = Antichain.of(self.request.time).step_forward()
        mint = Mint(self.request.model, as_of=self.request.time, read_only=self.request.read_only)
        mint.observe_desired(frontier)
        while True:
            state = self.handle.state()
            reason = self._new_generation(state)
            if reason and not self.request.read_only:
                outcome = self._replace(state, reason)
                if outcome is not None:
                    return outcome
                continue
            mint.as_of = Antichain.of(self.request.time) if not state.readable else Antichain.of(0)
            mint.persist = mint.as_of.join(state.upper)
            description = mint.peek() if mint.read_only else mint.mint()
            if description is None:
                return self._nothing_to_mint(state)
            if mint.read_only:
                return self._preview(state, description)
            outcome = self._round(state, description)
            if outcome is not None:
                return outcome

    def _round(self, state: ShardState, description: Description) -> Outcome | None:
        """One description from mint to append; None if another writer was faster."""
        as_of = Antichain.of(self.request.time)
        if not state.readable and state.upper.less_than(as_of):
            if not self.appender.raise_upper(state.upper, as_of, self._note(Counts())):
                return None
            state = self.handle.state()
        shard = self.layout(state)
        while shard.loose:
            with self.watch("fold"):
                folded = fold_foreign_files(self.engine, self.handle, state, shard)
            self.drift += folded.drift if folded.applied else 0
            state = self.handle.state()
            if state.upper != description.lower:
                return None
            shard = self.layout(state)
        written = self._written(state, shard, description)
        note = self._note(written.counts)
        with self.watch("append"):
            result = self.appender.append(written.batch, description, self.since(state), note)
        if result is None:
            return None
        self._maintain(result.maintenance)
        return self._outcome(Kind.APPEND, written, description)

    def _written(self, state: ShardState, shard: Layout, description: Description) -> Written:
        desired = self._desired(state)
        try:
            return self.write.stage(desired, shard, self.request.time, description)
        except EngineError as error:
            if self.request.on_query_error is not OnError.RECORD or not error.caused_by_data:
                raise
            message = error.message[:LONGEST_MESSAGE]
            self.warnings.append(f"the query failed and its error is recorded; readers get it: {message}")
            return self.write.stage_error(message, desired, shard, self.request.time, description)

    def _replace(self, state: ShardState, reason: str) -> Outcome | None:
        """A new generation: everything staged anew and swapped in by one commit. None if a commit came between."""
        time = self.request.time
        description = Description(Antichain.of(time), Antichain.of(time).step_forward())
        columns = self._wanted(state)
        names = {column.name for column in self.request.columns}
        missing = tuple(column.name for column in columns if column.name not in names)
        desired = Desired(self.request.query, columns, state.salt, self.request.assertions, missing)
        written = self.write.first_load(desired, time, description)
        batches = [] if written.batch is None else [written.batch]
        try:
            with self.watch("append"):
                result = self.handle.replace(
                    batches,
                    arrow_schema(columns),
                    description.upper,
                    description.lower,
                    note=self._note(written.counts),
                    expected_version=state.version,
                )
        except (FilesChanged, UpperMismatch):
            for batch in batches:
                batch.delete()
            return None
        self._maintain(result.maintenance)
        return replace(self._outcome(Kind.APPEND, written, description), generation=reason)

    def _preview(self, state: ShardState, description: Description) -> Outcome:
        """Read-only: the correction counted, nothing staged and nothing moved."""
        shard = self.layout(state)
        desired = self._desired(state)
        counts, sample = self.write.preview(desired, shard, self.request.time, self.request.sample)
        written = Written(None, counts)
        return replace(self._outcome(Kind.READ_ONLY, written, description), sample=tuple(sample))

    def _nothing_to_mint(self, state: ShardState) -> Outcome:
        if state.upper.is_empty():
            return replace(self._idle(state), kind=Kind.FINAL)
        upper = state.upper.as_option() or 0
        if upper > self.request.clock + AHEAD_OF_CLOCK:
            self.warnings.append(
                f"the shard's upper {upper} is ahead of the clock ({self.request.clock}): {self._who_wrote(state.upper)} had a wrong "
                "clock or a mistyped run_time; nothing is written until then. The way out: --full-refresh"
            )
        return replace(self._idle(state), up_to_date=True)

    def _who_wrote(self, upper: Antichain) -> str:
        """The run that moved the upper there, in words, as far as the log still tells."""
        for commit in reversed(self.handle.history()):
            if commit.upper == upper:
                return f"run {commit.note.invocation_id or commit.writer_id} on {commit.host} (version {commit.version})"
        return "a run that the log no longer tells"

    def since(self, state: ShardState) -> Antichain:
        """Where since goes with this run: it trails by ``retain_history``, never passes the write time, never goes back."""
        time = self.request.time
        trailing = max(0, time + 1 - self.request.retain_history)
        return state.since.join(Antichain.of(min(trailing, time)))

    def layout(self, state: ShardState) -> Layout:
        """The parts of ``state``'s live files."""
        return layout(state, self.handle.uri, self.handle.files_in, self.handle.column_names)

    def _desired(self, state: ShardState) -> Desired:
        """The query in the shard's columns and their order; columns that the query has lost are NULL."""
        wanted = {column.name for column in self.request.columns}
        held = shard_columns(state.schema)
        missing = tuple(column.name for column in held if column.name not in wanted)
        return Desired(self.request.query, held, state.salt, self.request.assertions, missing)

    def _wanted(self, state: ShardState) -> tuple[Column, ...]:
        """The columns that the shard should have: the query's, and with `append_new_columns` those it has lost too."""
        if self.request.on_schema_change is not OnSchemaChange.APPEND_NEW_COLUMNS:
            return self.request.columns
        names = {column.name for column in self.request.columns}
        lost = tuple(column for column in shard_columns(state.schema) if column.name not in names)
        return (*self.request.columns, *lost)

    def check_columns(self) -> None:
        """Raises `SchemaChanged` if the query's columns are not the shard's and that is to fail. Writes nothing."""
        self._new_generation(self.handle.state())

    def _new_generation(self, state: ShardState) -> str:
        """Why this run must make a new generation; empty if it need not."""
        if state.dropped is not None:
            return "dropped before"
        if self.request.full_refresh and state.readable:
            return "full refresh"
        changes = schema_changes(shard_columns(state.schema), self._wanted(state))
        if not changes:
            return ""
        if self.request.on_schema_change is OnSchemaChange.FAIL:
            raise SchemaChanged(changes)
        return f"columns changed ({'; '.join(changes)})"

    def _maintain(self, maintenance: Maintenance) -> None:
        """Perform what the append left to do. It never fails a run: the next one finds the same work."""
        try:
            with self.watch("maintain"):
                if maintenance.compact is not None:
                    compact(self.engine, self.handle, maintenance.compact, self.layout(self.handle.state()))
                if maintenance.checkpoint:
                    checkpoint(self.handle)
                if maintenance.collect_garbage:
                    collect_garbage(self.handle, now_ms=self.request.clock)
        except Exception as error:
            self.warnings.append(f"maintenance failed and is left to the next run: {error}")

    def _note(self, counts: Counts) -> CommitNote:
        return CommitNote(
            rows_inserted=counts.inserted,
            rows_deleted=counts.deleted,
            drift=self.drift,
            computed_through=self.request.time,
            purpose=f"mv_sink({self.request.model})",
            invocation_id=self.request.invocation_id,
        )

    def _idle(self, state: ShardState) -> Outcome:
        return Outcome(
            kind=Kind.NONE,
            counts=Counts(),
            lower=state.upper,
            upper=state.upper,
            time=self.request.time,
            state=state,
            drift=self.drift,
            warnings=tuple(self.warnings),
            seconds=self.watch.seconds,
            mismatches=self.appender.mismatches,
        )

    def _outcome(self, kind: Kind, written: Written, description: Description) -> Outcome:
        if kind is Kind.APPEND and written.batch is None:
            kind = Kind.NONE
        if written.counts.errors_inserted and self.request.assertions:
            self.warnings.append(
                f"{written.counts.errors_inserted} rows break an assertion; readers get the error until they are corrected"
            )
        return replace(
            self._idle(self.handle.state()),
            kind=kind,
            counts=written.counts,
            lower=description.lower,
            upper=description.upper,
            warnings=tuple(self.warnings),
            rows_staged=written.batch.rows if written.batch else 0,
            bytes_staged=written.batch.bytes if written.batch else 0,
            candidate_buckets=written.candidate_buckets,
            evaluated_once=written.evaluated_once,
        )


def schema_changes(held: tuple[Column, ...], wanted: tuple[Column, ...]) -> list[str]:
    """The differences between a shard's columns and a query's, in words; the order of columns is none."""
    before = {column.name: column.type.text for column in held}
    after = {column.name: column.type.text for column in wanted}
    changes = [f"`{name}` {kind} is new" for name, kind in after.items() if name not in before]
    changes += [f"`{name}` is gone" for name in before if name not in after]
    changes += [f"`{name}` was {before[name]}, is {kind}" for name, kind in after.items() if before.get(name, kind) != kind]
    return changes
