"""Running a `continual_task`: what the materialization's macro calls, in order. See `maintained`, whose order it follows.

It turns dbt's node into a `Program` and a `TaskRequest`, and a `TaskOutcome` into dbt's response; `continual_task` does the rest.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dbt.adapters.events.logging import AdapterLogger

from dbt.adapters.mvsink.continual_task import plan
from dbt.adapters.mvsink.continual_task.errors import ColumnsOfOutputChanged
from dbt.adapters.mvsink.continual_task.execute import TaskDriver
from dbt.adapters.mvsink.continual_task.parse import parse, refused_by_engine
from dbt.adapters.mvsink.continual_task.request import TaskOutcome, TaskRequest
from dbt.adapters.mvsink.continual_task.statements import Insert, Program
from dbt.adapters.mvsink.definition import owner_of, without_time
from dbt.adapters.mvsink.inputs import Input, ShardInput
from dbt.adapters.mvsink.maintained import MaintainedRun
from dbt.adapters.mvsink.query_checks import listed, nondeterministic_functions
from dbt.adapters.mvsink.response import MvsinkResponse, task_response
from dbt.adapters.mvsink.shard import ShardClient, ShardState
from dbt.adapters.mvsink.sink import Column, EngineError, Kind, OnError, shard_columns
from dbt.adapters.mvsink.sink.as_of import nulls
from dbt.adapters.mvsink.sink.plan import schema_changes
from dbt.adapters.mvsink.task_inputs import Source, Sources
from dbt.adapters.mvsink.task_options import TaskOptions, reset_words

logger = AdapterLogger("mvsink")


@dataclass
class TaskRun(MaintainedRun):
    """One run of one task. ``query`` is the model's own text, ``ctes`` those of the ephemeral models that it reads."""

    ctes: tuple[str, ...] = ()
    reset: bool = False
    storage_options: Mapping[str, str] | None = None
    program: Program | None = None
    source: Source | None = None
    references: dict[str, ShardInput] = field(default_factory=dict)
    held: tuple[str, ...] = ()
    done: TaskOutcome | None = None

    def check(self) -> None:
        """Everything that needs no shard of ours: syntax, the input, every statement and the output's columns."""
        options = self._options
        self.program = parse(self.query, str(self.relation), self.model, self.ctes, sampled=self.invocation.sampled)
        found = nondeterministic_functions(without_time(self.query))
        if found:
            logger.warning(f"{self.model} uses {listed(found)}: what it writes depends on when it runs. Use {{{{ mv_now() }}}}")
        if self.invocation.full_refresh and not self.reset:
            logger.warning(
                f"{self.model}: --full-refresh does not reset a task; what it wrote stays. To reset it: {reset_words(self.model)}"
            )
        sources = Sources(self.adapter, self.engine, self.storage_options)
        self.source = sources.find(self.model, self.program.input.name, append_only=options.append_only)
        self._find_references(sources)
        self.columns = self._output_columns(self.program, self.source.columns)

    def _find_references(self, sources: Sources) -> None:
        """The shards among the relations that the statements read."""
        assert self.program is not None
        held = []
        for name in self.invocation.references:
            if name in (self.program.input.name, str(self.relation)):
                continue
            published = sources.published(name)
            if published is not None:
                self.references[name] = sources.shard(published, self.model)
                owner = owner_of(self.references[name].handle.state())
                if (owner.get("project"), owner.get("target")) == (self.invocation.project, self.invocation.target):
                    held.append(name)
        self.held = tuple(held)

    def _output_columns(self, program: Program, given: tuple[Column, ...]) -> tuple[Column, ...]:
        """The output's columns; the engine has then seen every statement."""
        declared = self._options.declared or None
        nothing = f"select {nulls(given)} where false"
        first = next((s for s in program.statements if isinstance(s, Insert)), None)
        columns: tuple[Column, ...] = declared or ()
        if not columns and first is not None:
            analysed = self._analysed(program, first, plan.Bindings(nothing, "select 1 where false", nothing))
            columns = plan.output_columns(replace_statements(program, first), None, {first.number: analysed})
        this = f"select {nulls(columns)} where false" if columns else "select 1 where false"
        bindings = plan.Bindings(nothing, this, nothing)
        inserts = [s for s in program.statements if isinstance(s, Insert)]
        columns = plan.output_columns(program, columns or None, {s.number: self._analysed(program, s, bindings) for s in inserts})
        contents = f"select {nulls(columns)}, 1L _mv_diff where false"
        for statement in program.statements:
            try:
                self.engine.columns(plan.delta(program, statement, columns, contents, bindings))
            except EngineError as error:
                raise refused_by_engine(program, statement.number, error.message, str(error.__cause__)) from error
        return columns

    def _analysed(self, program: Program, statement: Insert, bindings: plan.Bindings) -> list[tuple[str, str]]:
        try:
            return self.engine.columns(plan.analysed(program, statement, bindings))
        except EngineError as error:
            raise refused_by_engine(program, statement.number, error.message, str(error.__cause__)) from error

    def check_columns(self) -> None:
        """The output's columns against what the task has written."""
        assert self.handle is not None
        state = self.handle.state()
        if not self.reset and state.dropped is None and state.creation is not None:
            changes = schema_changes(shard_columns(state.schema), self.columns)
            if changes:
                raise ColumnsOfOutputChanged(self.model, changes)

    def run(self) -> None:
        """Process what is pending, or in read-only mode tell how much that is."""
        assert self.handle is not None and self.source is not None and self.program is not None
        self.check_columns()
        state = self.handle.state()
        if self.read_only:
            self.done = self._looked_at(state)
            return
        if self.definition is not None and "query" in self.definition.changes(state) and not self.reset:
            self.notes.append("statements changed: they apply to times not yet processed")
        client = ShardClient(self.storage_options)
        generation = state.generation + (1 if self.reset or state.dropped is not None else 0)
        source: Input = self.source.bound(self.invocation.time, client, self.handle.uri, generation, self.engine)
        self.done = TaskDriver(self._request(), self.handle, self.engine, source, self.references).run()
        if self.definition is not None:
            self.handle.set_properties(self.definition.properties())
        for warning in self.done.warnings:
            logger.warning(f"{self.model}: {warning}")
        if self.done.waiting:
            logger.warning(f"{self.model}: {self.done.waiting} times stay pending, because a reference has not passed them")

    def _request(self) -> TaskRequest:
        assert self.program is not None
        return TaskRequest(
            model=self.model,
            program=self.program,
            columns=self.columns,
            time=self.invocation.time,
            clock=int(time.time() * 1000),
            retain_history=self.options.retain_history,
            initial_snapshot=self._options.initial_snapshot,
            on_error=self.options.on_error or OnError.FAIL,
            wait=self._options.wait,
            held_references=self.held,
            reset=self.reset,
            invocation_id=self.invocation.id,
        )

    def _looked_at(self, state: ShardState) -> TaskOutcome:
        """Read-only: how many times would be processed. Of an input that is bound at each run only that run can tell."""
        assert self.source is not None
        pending: int | None = None
        shard = self.source.shard
        if shard is not None and state.readable:
            upper = min(shard.frontier().stored(), self.invocation.time + 1)
            lower = state.upper.stored()
            pending = len(shard.pending(lower, upper)) if lower < upper else 0
        return TaskOutcome.looked_at(state, self.invocation.time, pending)

    def close(self) -> None:
        """Give up every handle and whatever it staged."""
        super().close()
        if self.source is not None:
            self.source.close()

    def result(self) -> MvsinkResponse:
        """dbt's response."""
        if self.done is None:
            return super().result()
        result = task_response(self.done, tuple(self.notes))
        if self.done.kind is Kind.READ_ONLY:
            logger.warning(f"{self.model}: {result}")
        return result

    @property
    def _options(self) -> TaskOptions:
        assert isinstance(self.options, TaskOptions)
        return self.options


def replace_statements(program: Program, only: Insert) -> Program:
    """The program with that statement alone."""
    return replace(program, statements=(only,))


def contract_columns(node: Mapping[str, Any]) -> dict[str, str]:
    """Names and types of an enforced contract's columns, in order; none without one."""
    if not (node["config"].get("contract") or {}).get("enforced"):
        return {}
    return {name: str(column.get("data_type")) for name, column in (node.get("columns") or {}).items()}
