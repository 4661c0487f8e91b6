"""Running a `continual_task`: what the materialization's macro calls, in order. See `maintained`,
whose order it follows.

It turns dbt's node into a `Program` and a `TaskRequest`, and a `TaskOutcome` into dbt's response;
`continual_task` does the rest.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dbt.adapters.mvsink.continual_task.driver import TaskDriver
from dbt.adapters.mvsink.continual_task.errors import ColumnsOfOutputChanged
from dbt.adapters.mvsink.continual_task.parse import parse
from dbt.adapters.mvsink.continual_task.request import TaskOutcome, TaskRequest
from dbt.adapters.mvsink.continual_task.statements import Program
from dbt.adapters.mvsink.engine import shard_columns
from dbt.adapters.mvsink.exceptions import check_distinct
from dbt.adapters.mvsink.inputs import Input, ShardInput
from dbt.adapters.mvsink.materialization.definition import without_time
from dbt.adapters.mvsink.materialization.mv import MaintainedRun
from dbt.adapters.mvsink.materialization.options.task import until_taken_back
from dbt.adapters.mvsink.materialization.response import MvsinkResponse, task_response
from dbt.adapters.mvsink.materialization.task_columns import everything_read, output_columns
from dbt.adapters.mvsink.materialization.task_inputs import Source, Sources, ephemeral_queries, needed_ctes
from dbt.adapters.mvsink.materialization.warn import warn
from dbt.adapters.mvsink.references.listings import refresh, tables_of_files
from dbt.adapters.mvsink.shard import ShardClient, ShardState, WriteHandle, following
from dbt.adapters.mvsink.shard_sql import Kind, OnError
from dbt.adapters.mvsink.shard_sql.current_view import NOT_REFRESHED
from dbt.adapters.mvsink.shard_sql.holds import held_shards, record_held_shards, release_holds
from dbt.adapters.mvsink.shard_sql.properties import Watched, owner_of
from dbt.adapters.mvsink.sink.plan import schema_changes
from dbt.adapters.mvsink.user_sql.checks import listed, nondeterministic_functions


@dataclass
class TaskRun(MaintainedRun):
    """One run of one task. ``query`` is the model's own text, ``ctes`` those of the ephemeral
    models that it reads.
    """

    ctes: tuple[str, ...] = ()
    reset: bool = False
    skip_errors: bool = False
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)  # may hold secrets
    program: Program | None = None
    source: Source | None = None
    references: dict[str, ShardInput] = field(default_factory=dict)
    held: tuple[str, ...] = ()
    done: TaskOutcome | None = None

    def warn_of_definition(self) -> None:
        """See `MaintainedRun`."""
        found = nondeterministic_functions(without_time(self.query))
        if found:
            warn(
                f"{self.model} uses {listed(found)}: what it writes depends on when it runs. Use {{{{ mv_now() }}}}"
            )

    def check(self) -> None:
        """Everything that needs no shard of ours: syntax, the input, every statement and the
        output's columns.
        """
        self.program = self._parsed()
        ephemeral = ephemeral_queries(self.ctes)
        sources = Sources(
            self.adapter,
            self.engine,
            self.storage_options,
            ephemeral,
            append_only=self.options.input_files == "append_only",
            invocation_id=self.invocation.id,
        )
        self.source = sources.find(self.model, self.program.input.name)
        self._find_references(sources)
        self.columns = output_columns(
            self.engine, self.program, self.source.columns, self.options.column_types
        )
        check_distinct(self.model, [column.name for column in self.columns])
        if not self.invocation.empty:
            read = everything_read(self.program, self.source.columns, self.columns)
            refresh(self.engine, tables_of_files(self.engine, read), self.invocation.id)

    def _parsed(self) -> Program:
        """The task, without the CTEs that no statement needs: that of an ephemeral input is not
        read, its changes are.
        """
        name, sampled = str(self.relation), self.invocation.sampled
        whole = parse(self.query, name, self.model, self.ctes, sampled=sampled)
        needed = needed_ctes(self.query, self.ctes, whole.input.name)
        return whole if needed == self.ctes else parse(self.query, name, self.model, needed, sampled=sampled)

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
                if (owner.get("project"), owner.get("target")) == (
                    self.invocation.project,
                    self.invocation.target,
                ):
                    held.append(name)
        self.held = tuple(held)

    def check_columns(self) -> None:
        """The output's columns against what the task has written."""
        assert self.handle is not None
        state = self.handle.state()
        if not self.reset and state.dropped is None and state.creation is not None:
            changes = schema_changes(shard_columns(state.schema), self.columns)
            if changes:
                raise ColumnsOfOutputChanged(self.model, changes)

    def run(self) -> None:
        """Process what is pending, or in read-only mode tell how much that is.

        Where another run resets the task meanwhile, or replaces what it reads, it begins again with
        what is there then.
        """
        assert self.handle is not None and self.source is not None
        inputs = [*self.references.values(), *([self.source.shard] if self.source.shard else [])]
        writers = [given.handle for given in inputs if isinstance(given.handle, WriteHandle)]
        # of opening: what an attempt adds goes with it
        notes, warnings = tuple(self.notes), tuple(self.warnings)

        def attempt() -> None:
            self.notes, self.warnings = list(notes), list(warnings)
            self._run()

        following([self.handle, *writers], attempt)

    def _run(self) -> None:
        assert self.handle is not None and self.source is not None and self.program is not None
        self.check_columns()
        state = self.handle.state()
        if self.read_only:
            self.done = self._looked_at(state)
            return
        if self.reset:
            self.notes += ["reset: what it had written is given up"]
        if self.definition is not None and "query" in self.definition.changes(state) and not self.reset:
            self.notes += ["statements changed: they apply to times not yet processed"]
        client = ShardClient(self.storage_options)
        generation = state.generation + (1 if self.reset or state.dropped is not None else 0)
        source: Input = self.source.bound(
            self.invocation.time, client, self.handle.uri, generation, self.engine
        )
        before, held = held_shards(state), self._held_shards()
        # before the first hold is taken, so that none is ever forgotten
        record_held_shards(self.handle, before | held)
        self.done = TaskDriver(self._request(), self.handle, self.engine, source, self.references).run()
        release_holds(client, str(self.handle.shard_id), before - held)
        record_held_shards(self.handle, held)
        if self.definition is not None:
            shard = self.source.shard
            watched = Watched(shard.handle.uri if shard else "", self.program.deletes_used)
            self.handle.set_properties({**self.definition.properties(), **watched.properties()})
        self.warnings += self.done.warnings
        if self.done.waiting:
            self.warnings.append(
                f"{self.done.waiting} times stay pending, because a reference has not passed them"
            )
        if not self.done.state.readable:
            self.warnings.append(
                f"{NOT_REFRESHED}: whoever reads it, its tests included, gets an error until it is"
            )
        else:
            self._warn_of_live_errors(self.done.state, until_taken_back(self.model))

    def _held_shards(self) -> set[str]:
        """Where the task has holds, but for a companion of its own: dropping the task, or giving it
        another input, lets go of them.
        """
        assert self.source is not None
        references = {self.references[name].handle.uri for name in self.held}
        return references if self.source.shard is None else references | {self.source.shard.handle.uri}

    def _request(self) -> TaskRequest:
        assert self.program is not None
        return TaskRequest(
            model=self.model,
            program=self.program,
            columns=self.columns,
            time=self.invocation.time,
            clock=int(time.time() * 1000),
            retain_history=self.options.retain_history,
            initial_snapshot=self.options.initial_snapshot,
            on_error=self.options.on_error or OnError.FAIL,
            wait=self.options.on_late_reference == "wait",
            held_references=self.held,
            reset=self.reset,
            skip_errors=self.skip_errors,
            invocation_id=self.invocation.id,
        )

    def _looked_at(self, state: ShardState) -> TaskOutcome:
        """Read-only: how many times would be processed. Of an input that is bound at each run only
        that run can tell.
        """
        assert self.source is not None and self.program is not None
        pending: int | None = None
        known = self.source.known(self.engine)
        if known is not None and state.readable:
            upper = min(known.frontier().stored(), self.invocation.time + 1)
            lower = state.upper.stored()
            found = known.pending(lower, upper) if lower < upper else []
            deletes = self.program.deletes_used
            pending = sum(one.inserts or one.errors or (deletes and one.deletes) for one in found)
        return TaskOutcome.looked_at(state, self.invocation.time, pending)

    def close(self) -> None:
        """Give up every handle and whatever it staged."""
        super().close()
        if self.source is not None:
            self.source.close()
        for reference in self.references.values():
            if isinstance(reference.handle, WriteHandle):
                reference.handle.expire()

    def result(self) -> MvsinkResponse:
        """dbt's response."""
        if self.done is None:
            return super().result()
        result = task_response(self.done, tuple(self.notes), self.warnings)
        if self.done.kind is Kind.READ_ONLY:
            self.warnings.append(str(result))
        return result


def contract_columns(node: Mapping[str, Any]) -> dict[str, str]:
    """Names and types of an enforced contract's columns, in order; none without one."""
    if not (node["config"].get("contract") or {}).get("enforced"):
        return {}
    return {name: str(column.get("data_type")) for name, column in (node.get("columns") or {}).items()}
