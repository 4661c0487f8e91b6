"""Running a `continual_task`: from text to `Program` and `TaskRequest`, from outcome to response.

The phases are those of `run`; `continual_task` does the work.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.continual_task.columns import wider_columns
from dbt.adapters.mvsink.continual_task.errors import ColumnsOfOutputChanged
from dbt.adapters.mvsink.continual_task.parse import parse
from dbt.adapters.mvsink.continual_task.statements import Program
from dbt.adapters.mvsink.continual_task.task_driver import TaskDriver
from dbt.adapters.mvsink.continual_task.task_request import TaskOutcome, TaskRequest
from dbt.adapters.mvsink.engine import Column, columns_evolved, shard_columns
from dbt.adapters.mvsink.exceptions import check_distinct
from dbt.adapters.mvsink.inputs import Input, ShardInput
from dbt.adapters.mvsink.inputs.reads import reads_of, relist
from dbt.adapters.mvsink.inputs.version_binding import companions_of
from dbt.adapters.mvsink.materialization.context import Invocation, RunContext
from dbt.adapters.mvsink.materialization.late_references import awaited_references, explained, waiting_warning
from dbt.adapters.mvsink.materialization.opening import Opened
from dbt.adapters.mvsink.materialization.options.task_options import reset_words, until_taken_back
from dbt.adapters.mvsink.materialization.response import task_response
from dbt.adapters.mvsink.materialization.run import Executed, reader_warnings
from dbt.adapters.mvsink.materialization.splice_witness import check_bindings
from dbt.adapters.mvsink.materialization.task_columns import analysed_columns, by_name, everything_read
from dbt.adapters.mvsink.materialization.task_inputs import Source, Sources, ephemeral_queries, needed_ctes
from dbt.adapters.mvsink.materialization.task_witness import Times
from dbt.adapters.mvsink.materialization.view_texts import TaskViews, task_views
from dbt.adapters.mvsink.shard import ShardState, WriteHandle, retry_on_replacement
from dbt.adapters.mvsink.shard_sql import OnError
from dbt.adapters.mvsink.shard_sql.properties import (
    Watched,
    held_shards,
    owner_of,
    record_held_shards,
    release_holds,
)
from dbt.adapters.mvsink.sink.run_plan import schema_changes
from dbt.adapters.mvsink.user_sql.checks import listed, nondeterministic_functions
from dbt.adapters.mvsink.user_sql.marks import without_time


@dataclass(frozen=True)
class ContinualTask:
    """The strategy of `continual_task`. ``ctes`` are dbt's texts of the ephemeral models that it
    reads. ``reset`` discards what the task wrote; ``skip_errors`` takes back recorded errors.
    """

    ctes: tuple[str, ...] = ()
    reset: bool = False
    skip_errors: bool = False

    def warnings(self, context: RunContext) -> list[str]:
        """See `Materialization`."""
        functions = nondeterministic_functions(without_time(context.query))
        if not functions:
            return []
        return [
            f"{context.model} uses {listed(functions)}: what it writes depends on when it runs. Use {{{{ mv_now() }}}}"
        ]

    def check(self, context: RunContext, resources: ExitStack) -> CheckedTask:
        """See `Materialization`: syntax, the input, every statement, and the output's columns."""
        program, input_query = self._program(context)
        sources = Sources(
            context.manifest,
            context.engine,
            context.storage_options,
            ephemeral_queries(self.ctes),
            append_only=context.options.input_files == "append_only",
            invocation_id=context.invocation.id,
        )
        source = sources.find(context.model, program.input.name)
        resources.callback(source.close)
        references = _references(context, program, sources, resources)
        views = task_views(context, program, sources, references, resources)
        references |= views.shards
        declared, contracted = context.options.column_types, bool(contract_columns(context.node))
        program = by_name(context.engine, program, source.columns, declared, contracted=contracted)
        columns = analysed_columns(context.engine, program, source.columns, declared)
        check_distinct(context.model, [column.name for column in columns])
        if not context.invocation.empty:
            read = everything_read(program, source.columns, columns)
            relist(context.engine, reads_of(context.engine, read).every_table, context.invocation.id)
        return CheckedTask(self, context, columns, program, source, input_query, references, views)

    def _program(self, context: RunContext) -> tuple[Program, str]:
        """The task, without the CTEs that no statement needs (only the changes of an ephemeral
        input are read, not its query), and the query of its input.
        """
        name, model, sampled = str(context.relation), context.model, context.invocation.sampled
        whole = parse(context.query, name, model, self.ctes, sampled=sampled)
        needed = needed_ctes(context.query, self.ctes, whole.input.name)
        program = whole if needed == self.ctes else parse(context.query, name, model, needed, sampled=sampled)
        return program, whole.with_ctes(f"select * from {whole.input.name}")


@dataclass(frozen=True)
class CheckedTask:
    """A task whose statements can run. ``columns`` are the output's, ``input_query`` reads the
    input, ``references`` are the shards that its statements read, by name, directly or below
    ``views``.
    """

    task: ContinualTask
    context: RunContext
    columns: tuple[Column, ...]
    program: Program
    source: Source
    input_query: str
    references: Mapping[str, ShardInput]
    views: TaskViews

    @property
    def own_references(self) -> tuple[str, ...]:
        """The names of references of this project and target: only these may be held. The input,
        which a view may read, is held anyway.
        """
        source = None if self.source.shard is None else self.source.shard.handle.uri
        own = _of_the_same_owner(self.context, self.references)
        return tuple(name for name in own if self.references[name].handle.uri != source)

    def check_columns(self, opened: Opened) -> None:
        """See `Checked`. Raises `ColumnsOfOutputChanged`."""
        state = opened.handle.state()
        if not self.task.reset and state.dropped is None and state.creation is not None:
            stored = shard_columns(state.schema)
            wider = wider_columns(stored, self.columns) if state.readable else ()
            changes = schema_changes(stored, self.columns)
            if len(changes) > len(wider):
                raise ColumnsOfOutputChanged(self.context.model, changes)

    def execute(self, opened: Opened) -> Executed:
        """See `Checked`. If another run meanwhile resets the task, or replaces a shard that it
        reads, this one starts again from the new state.
        """
        inputs = [*self.references.values(), *([self.source.shard] if self.source.shard else [])]
        writers = [each.handle for each in inputs if isinstance(each.handle, WriteHandle)]
        return retry_on_replacement([opened.handle, *writers], partial(self._execute, opened))

    def _execute(self, opened: Opened) -> Executed:
        self.check_columns(opened)
        handle, state = opened.handle, opened.handle.state()
        self._times().check_input(state.properties)
        if self.context.read_only:
            outcome = self._previewed(state)
            return self._executed(opened, outcome, warnings=opened.warnings)
        notes = []
        if self.task.reset:
            notes.append("reset: its earlier output is discarded")
        elif "query" in opened.definition.changes(state):
            notes.append("statements changed: they apply to times not yet processed")
        wider = wider_columns(shard_columns(state.schema), self.columns)
        if wider and state.readable and not self.task.reset:
            notes.append(columns_evolved((), wider))
        references = (*self.references, *self.views.queries)
        bound = check_bindings(self.context.engine, self.program, references, state)
        driver = self._driver(opened, state)
        before, needed, carried = held_shards(state), self._shards_to_hold(), not driver.one_by_one
        record_held_shards(handle, before | needed)  # before the first is taken, so that none is forgotten
        outcome = driver.run()
        release_holds(self.context.client, str(handle.shard_id), before - needed)
        record_held_shards(handle, needed)
        shard = self.source.shard
        watched = Watched(shard.handle.uri if shard else "", self.program.deletes_used)
        freshness = self.context.options.freshness.properties(handle.state().properties)
        kept = {**watched.properties(), **freshness, **self._times().properties(carried=carried), **bound}
        kept |= self.views.properties
        handle.set_properties({**opened.definition.properties(), **kept})
        warnings = [*opened.warnings, *self.views.warnings, *outcome.warnings]
        if outcome.waiting:
            outcome = replace(outcome, late=explained(self.context, outcome.late, self.references))
            warnings.append(waiting_warning(outcome.waiting, outcome.late))
        warnings += reader_warnings(opened, outcome.state, until_taken_back(self.context.model))
        return self._executed(opened, outcome, tuple(notes), tuple(warnings))

    def _executed(
        self,
        opened: Opened,
        outcome: TaskOutcome,
        notes: tuple[str, ...] = (),
        warnings: tuple[str, ...] = (),
    ) -> Executed:
        respond = partial(task_response, outcome, self.input_query)
        return Executed(opened, respond, self.context.query, notes, warnings)

    def _driver(self, opened: Opened, state: ShardState) -> TaskDriver:
        """The driver that processes every pending time."""
        context, handle = self.context, opened.handle
        if self.task.reset or state.dropped is not None:
            generation = state.generation + 1
        else:
            generation = companions_of(handle.progress, state.generation)
        source: Input = self.source.bound(
            context.invocation.time, context.client, handle.uri, generation, context.engine
        )
        return TaskDriver(
            self._request(opened),
            handle,
            context.engine,
            source,
            self.references,
            self.views.queries,
            one_by_one=not self._times().carried(state.properties),
        )

    def _times(self) -> Times:
        timed = (*self.references, *self.views.queries)
        return Times(self.context.model, self.context.engine, self.program, self.source, timed)

    def _shards_to_hold(self) -> set[str]:
        """The shards that the task holds, without its own companion. It releases them when it is
        dropped or gets another input.
        """
        references = {self.references[name].handle.uri for name in self.own_references}
        return references if self.source.shard is None else references | {self.source.shard.handle.uri}

    def _request(self, opened: Opened) -> TaskRequest:
        options, invocation = self.context.options, self.context.invocation
        return TaskRequest(
            model=self.context.model,
            program=self.program,
            columns=self.columns,
            time=invocation.time,
            clock=wall_clock.now_ms(),
            retain_history=options.retain_history,
            initial_snapshot=options.initial_snapshot,
            on_error=options.on_error or OnError.FAIL,
            awaited=awaited_references(
                self.context, self.program, self.references, self.views.queries.values()
            ),
            held_references=self.own_references,
            reset=self.task.reset,
            skip_errors=self.task.skip_errors,
            invocation_id=invocation.id,
            definition=opened.definition.digest,
        )

    def _previewed(self, state: ShardState) -> TaskOutcome:
        """Read-only: how many times would be processed; unknown for an input bound only by runs."""
        pending: int | None = None
        known = self.source.known(self.context.engine)
        if known is not None and state.readable:
            upper = min(known.frontier().stored(), self.context.invocation.time + 1)
            lower = state.upper.stored()
            times = known.pending(lower, upper) if lower < upper else []
            deletes = self.program.deletes_used
            pending = sum(one.inserts or one.errors or (deletes and one.deletes) for one in times)
        return TaskOutcome.previewed(state, self.context.invocation.time, pending)


def _references(
    context: RunContext, program: Program, sources: Sources, resources: ExitStack
) -> dict[str, ShardInput]:
    """The shards among the relations that the statements read, besides the input and the output."""
    references = {}
    for name in context.invocation.references:
        if name in (program.input.name, str(context.relation)):
            continue
        published = sources.published(name)
        if published is not None:
            references[name] = sources.shard(published.uri, context.model)
            resources.callback(references[name].handle.expire)
    return references


def _of_the_same_owner(context: RunContext, references: Mapping[str, ShardInput]) -> tuple[str, ...]:
    """The names of the ``references`` that belong to this project and target."""
    owner = (context.invocation.project, context.invocation.target)
    owners = {name: owner_of(shard.handle.state()) for name, shard in references.items()}
    return tuple(name for name, each in owners.items() if (each.get("project"), each.get("target")) == owner)


def reset_warning(model: str, node: Mapping[str, Any], invocation: Invocation, *, named: bool) -> str:
    """Why a task is not reset although the invocation seems to ask for it; empty otherwise.

    ``named`` says whether `mvsink_reset` names the task. A reset needs that and `--full-refresh`.
    """
    asked = invocation.full_refresh
    if asked and not named:
        return f"--full-refresh does not reset a task; what it wrote stays. To reset it: {reset_words(model)}"
    if named and node["config"].get("full_refresh") is False:
        return "it is in mvsink_reset and stays as it is, because its full_refresh is false"
    if named and not asked:
        return "it is in mvsink_reset, which resets a task only with --full-refresh; it stays as it is"
    return ""


def contract_columns(node: Mapping[str, Any]) -> dict[str, str]:
    """Names and types of an enforced contract's columns, in order; none without one."""
    if not (node["config"].get("contract") or {}).get("enforced"):
        return {}
    return {name: str(column.get("data_type")) for name, column in (node.get("columns") or {}).items()}
