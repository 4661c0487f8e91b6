"""Whether a view's query has to be evaluated: what is known about its inputs, and about everything
else that decides its contents.

The *plan* is one number for the latter: the compiled query, the names of what it reads, the texts
of views, the session's settings, Spark's version, the assertions. If the contents were computed
from the same plan and positions, and no other tool wrote the shard, evaluating the query again
could only give the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from dbt.adapters.mvsink.engine import Column, EngineError
from dbt.adapters.mvsink.engine.session import is_local_session, session_of, session_settings
from dbt.adapters.mvsink.inputs.described import quoted
from dbt.adapters.mvsink.inputs.position import CLOCK, FILE_LIST, Position, clock_position
from dbt.adapters.mvsink.inputs.protocol import TableOptions
from dbt.adapters.mvsink.inputs.query_inputs import Inspector, QueryInputs
from dbt.adapters.mvsink.inputs.reads import Reads, reads_of, relist
from dbt.adapters.mvsink.inputs.reference import References, Refresh, TableVersions
from dbt.adapters.mvsink.inputs.registry import VERSIONED
from dbt.adapters.mvsink.materialization import inlining_witness, witness
from dbt.adapters.mvsink.materialization.context import RunContext
from dbt.adapters.mvsink.materialization.contracts import assertions
from dbt.adapters.mvsink.materialization.kept_sums import TIME as SUMS_TIME
from dbt.adapters.mvsink.materialization.kept_sums import KeptSums, in_use
from dbt.adapters.mvsink.materialization.query_change import QueryChange
from dbt.adapters.mvsink.reasons import EvaluateFully, Why
from dbt.adapters.mvsink.references.resolve import find_references
from dbt.adapters.mvsink.references.shown_functions import shown_functions
from dbt.adapters.mvsink.shard import Progress, ShardState, files_number, number_of, untouched
from dbt.adapters.mvsink.shard.stored import Unreadable, parsed
from dbt.adapters.mvsink.shard_sql.layout import in_order
from dbt.adapters.mvsink.shard_sql.stager import EXACT
from dbt.adapters.mvsink.sink import Increment, Incremental, Volume, run_timing
from dbt.adapters.mvsink.user_sql.checks import uncertain
from dbt.adapters.mvsink.user_sql.marks import NOW, query_at
from dbt.adapters.mvsink.user_sql.words import last_part

# properties: what the query was last seen to read, a number for its columns and plan, and one for
# the order of the relation's columns
READS, COLUMNS, ORDER = "reads", "query_columns", "columns_order"
# catalogs that Iceberg adds to a session for itself, for example when it compacts a table
OF_ICEBERG = ("spark.sql.catalog.default_iceberg", "spark.sql.catalog.default_rewrite_catalog")
# Of a server's session we set some and set them back, after which they are listed; the zone is part
# of the session's identity.
OURS = {*EXACT, "spark.sql.session.timeZone"}
DECIDE_NOTHING = (*OF_ICEBERG, "spark.sql.debug.")
RULES = "2"  # another number: what was recorded before proves nothing


def order_number(names: Sequence[str]) -> str:
    """A number for columns of these ``names`` in this order."""
    return str(number_of([json.dumps(list(names))]))


class InputsMoved(Exception):
    """What was certain when the run began no longer is, so the query has to be evaluated after
    all.
    """


@dataclass(frozen=True)
class InputEvidence:
    """See `Evidence`. ``reads`` is what the query reads besides ``references``.

    ``certain`` means that the run has prepared nothing for an evaluation, because it needs none.
    ``listed`` has numbers for the files of tables, from before Spark listed them for this run.
    ``before`` has the positions of the inputs when the run began, if they are known. ``sums`` are
    the model's sums at the run's time; ``recorded`` is the model's progress, if it may be that of
    earlier sums.
    """

    context: RunContext
    references: References
    reads: Reads
    certain: bool = False
    listed: Mapping[str, int] = field(default_factory=dict)
    before: tuple[Position, ...] | None = None
    sums: KeptSums | None = None
    recorded: Callable[[str], int | None] | None = None

    def unchanged(self, state: ShardState, recorded: Callable[[str], int | None], time: int) -> bool:
        """See `Evidence`. Raises `InputsMoved`."""
        unchanged = self.proves(state, recorded, time)
        if self.certain and not unchanged:
            raise InputsMoved
        return unchanged

    def proves(self, state: ShardState, recorded: Callable[[str], int | None], time: int) -> bool:
        """The same without the exception."""
        return self.problem(state) is None and all(
            position.unchanged(recorded) for position in self.positions(time)
        )

    def proves_columns(self, state: ShardState, time: int, columns: Sequence[Column]) -> bool:
        """Whether the query has these ``columns``. It has if it had them when the contents in
        ``state`` were computed (the shard may also keep old columns), the plan is the same, and the
        plan covers the columns of everything that the query reads.
        """
        had_them = state.properties.get(COLUMNS) == self._columns_number(columns)
        kinds = {position.kind for position in self.positions(time)}
        return had_them and self.problem(state) is None and kinds <= {FILE_LIST, "view", CLOCK}

    def properties(self, state: ShardState, columns: Sequence[Column]) -> dict[str, str]:
        """The properties that record what the query reads, in which order the shard in ``state``
        shows its ``columns``, and if it is evaluated, these.
        """
        order = in_order(state.schema.names, [column.name for column in columns])
        kept = {READS: json.dumps(self.reads.stored(), sort_keys=True), ORDER: order_number(order)}
        return kept if self.certain else {**kept, COLUMNS: self._columns_number(columns)}

    def _columns_number(self, columns: Sequence[Column]) -> str:
        """A number for the columns and the plan: a run that is killed after its contents and before
        its properties leaves old properties.
        """
        described = json.dumps([(column.name, column.type.spelled) for column in columns])
        return str(number_of([f"columns {described}", f"plan {self.plan}"]))

    def progress(self, state: ShardState, time: int) -> Progress:
        """See `Evidence`."""
        files = files_number(state.files)
        positions = self.positions(time)
        if any(position.problem for position in positions) or self._uncertain or self._moved:
            return Progress(files=files)
        numbers = dict(number for position in positions for number in position.numbers())
        numbers |= {**self._reading(state, time), **self._sums_progress(state, time)}
        return Progress(self.plan, numbers, files)

    def _reading(self, state: ShardState, time: int) -> Mapping[str, int]:
        """What to record about how the query is read. Where later runs would certainly ask about a
        new definition, it is compared now.
        """
        always = self.context.options.incremental is Incremental.ALWAYS
        if state.plan != self.plan and always:
            self.change(lambda name: None, time).analysed()
        return {**witness.numbers(self.context, self.recorded), **inlining_witness.numbers(self.context)}

    def _sums_progress(self, state: ShardState, time: int) -> Mapping[str, int]:
        """What to record about the model's sums. As long as nothing changes, contents that were
        computed from earlier sums stay valid.
        """
        if self.sums is not None:
            return self.sums.numbers() if self.sums.time == time else {SUMS_TIME: 0}
        recorded = self.recorded
        if recorded is None or not in_use(recorded):
            return {}
        return {} if self.proves(state, recorded, time) else {SUMS_TIME: 0}

    def settled(self, state: ShardState, recorded: Callable[[str], int | None], time: int) -> bool:
        """See `Evidence`."""
        if self._uncertain or state.plan != self.plan or any(file.errors != 0 for file in state.files):
            return False
        return all(position.unchanged(recorded) for position in self.positions(time))

    def increment(
        self, state: ShardState, recorded: Callable[[str], int | None], time: int
    ) -> Increment | EvaluateFully:
        """See `Evidence`."""
        if problem := self.problem(state):
            return problem
        if self.sums is not None and self.sums.time == time:
            increment = self.sums.increment(recorded)
        else:
            increment = self.change(recorded, time).increment(Volume.of(state.files))
        if isinstance(increment, EvaluateFully):
            return increment
        columns = (f"{each.name} {list(map(str, each.columns))}" for each in increment.inputs)
        return replace(increment, reading=number_of([f"plan {self.plan}", *columns]))

    def input_changes(
        self, state: ShardState, recorded: Callable[[str], int | None], time: int
    ) -> int | None:
        """See `Evidence`."""
        return None if self.problem(state) else self.change(recorded, time).inputs.updates()

    def outlook(
        self, state: ShardState, recorded: Callable[[str], int | None], time: int
    ) -> Increment | EvaluateFully:
        """See `QueryChange.outlook`, for the model's own query."""
        if self._uncertain:
            return EvaluateFully(Why.UNCERTAIN, self._uncertain)
        return self.change(recorded, time).outlook(Volume.of(state.files))

    def change(self, recorded: Callable[[str], int | None], time: int) -> QueryChange:
        """What is known about the change of contents as of ``time`` (ms)."""
        refused = {} if self.context.views is None else self.context.views.refused
        inputs = QueryInputs(
            self._options, self.references, self.reads, self.positions(time), recorded, refused
        )
        return QueryChange(self.context, inputs, time)

    def with_sums(self, sums: KeptSums | None, recorded: Callable[[str], int | None]) -> InputEvidence:
        """The same evidence, for a model with the sums ``sums``."""
        return replace(self, before=self._inputs, sums=sums, recorded=recorded)

    def of_query(self, query: str) -> InputEvidence:
        """The evidence of another query of the same inputs."""
        return replace(self, context=replace(self.context, query=query), before=self._inputs, recorded=None)

    def positions(self, time: int) -> tuple[Position, ...]:
        """The position of every input, for contents as of ``time`` (ms)."""
        clock = (clock_position(time),) if NOW.search(self.context.query) else ()
        return (*self._inspector.shards(time), *self._inputs, *clock)

    def problem(self, state: ShardState) -> EvaluateFully | None:
        """Why the stored contents prove nothing, whatever the inputs are; None if there is no such
        reason.
        """
        if self._uncertain:
            return EvaluateFully(Why.UNCERTAIN, self._uncertain)
        if any(file.errors != 0 for file in state.files):
            return EvaluateFully(Why.RECORDED_ERRORS)
        if state.plan == 0:  # nothing is recorded as long as an input has a problem
            problem = self._of_inputs
            return (
                EvaluateFully(Why.UNKNOWN_INPUT, problem) if problem else EvaluateFully(Why.NOTHING_RECORDED)
            )
        if not untouched(state):
            return EvaluateFully(Why.OTHER_TOOL)
        return None if state.plan == self.plan else EvaluateFully(Why.REDEFINED)

    @property
    def tables_as_they_are(self) -> tuple[Position, ...]:
        """The tables that have versions but are not read at a fixed one."""
        tables = (each for each in self._inputs if each.kind in VERSIONED)
        return tuple(each for each in tables if self.references.version_of(each.name) is None)

    @property
    def _of_inputs(self) -> str:
        """The first problem of an input; empty if there is none."""
        return next((position.problem for position in self._inputs if position.problem), "")

    @cached_property
    def plan(self) -> int:
        """See the module."""
        settings, _ = self._settings
        inputs = [*map(str, self._inputs), *sorted(self.references.shards)]
        options = self.context.options
        own = [
            f"rules {RULES}",
            f"sql {query_at(self.context.query, 0)}",
            f"assertions {assertions(self.context)}",
        ]
        own += [f"on_error {options.on_error}", f"on_schema_change {options.on_schema_change}"]
        functions, run = options.deterministic_functions, self.context.invocation.id
        own += functions.described()
        own += shown_functions(self.context.engine, functions.names, run)
        return number_of([*own, *settings, *inputs])

    @cached_property
    def _inputs(self) -> tuple[Position, ...]:
        if self.before is not None:
            return self.before
        return self._inspector.at_the_start().positions(self.reads)

    @cached_property
    def _inspector(self) -> Inspector:
        return Inspector(self._options, self.references)

    @cached_property
    def _options(self) -> TableOptions:
        context = self.context
        return TableOptions(
            context.engine, context.storage_options, local=context.embedded and self._settings[1]
        )

    @cached_property
    def _settings(self) -> tuple[tuple[str, ...], bool]:
        """The session's settings that can affect a result, as texts, and whether Spark is local."""
        engine = self.context.engine
        named = session_settings(engine)
        decisive = tuple(
            f"{key} = {value}"
            for key, value in named.items()
            if key.startswith("spark.sql.") and key not in OURS and not key.startswith(DECIDE_NOTHING)
        )
        try:
            session = tuple(f"session {value}" for value in session_of(engine).identity)
        except EngineError:  # an older Spark: nothing is certain
            session = (f"session of {self.context.invocation.id}",)
        return (*decisive, *session), is_local_session(engine)

    @cached_property
    def _uncertain(self) -> str:
        if self.context.node["config"].get("sql_header"):
            return "its sql_header may change the session"
        return uncertain(self.context.query, self.context.options.deterministic_functions.names)

    @property
    def _moved(self) -> bool:
        """Whether an input changed since Spark began to read it; nothing is read if `certain`."""
        if self.certain:
            return False
        if self._inspector.positions(self.reads) != self._inputs:
            return True
        return any(
            position.kind == FILE_LIST and self.listed.get(position.name, position.number) != position.number
            for position in self._inputs
        )

    def refreshed(self) -> InputEvidence:
        """The same evidence after Spark has listed the tables' files again."""
        context, inspector = self.context, self._inspector.at_the_start()
        listed = relist(context.engine, self.reads.every_table, context.invocation.id, inspector.manifest)
        prepared = replace(self, certain=False, listed=listed)
        _ = prepared._inputs  # before Spark reads them
        return prepared


def evaluating(
    context: RunContext,
    references: References,
    query: str,
    reads: Reads | None = None,
    earlier: InputEvidence | None = None,
) -> InputEvidence:
    """The evidence of a run that evaluates ``query``: what Spark says that it reads, with its
    tables of files listed again. ``reads`` is what it reads, if that is known. ``earlier`` is
    evidence of the same run, whose positions count as those before the evaluation; after it they
    must be the same.
    """
    evidence = InputEvidence(context, references, reads or reads_of(context.engine, query))
    if earlier is not None and earlier.reads == evidence.reads:
        evidence = replace(evidence, before=earlier._inputs)
    return evidence.refreshed()


def recollection(
    context: RunContext, references: References, state: ShardState
) -> tuple[InputEvidence, int] | None:
    """What the shard in ``state`` records about its inputs, and the time (ms) of this run's
    contents; None if the query has to be evaluated, whatever the inputs are.
    """
    kept, invocation = state.properties.get(READS), context.invocation
    if kept is None or invocation.full_refresh or state.dropped is not None or not state.readable:
        return None
    timing = run_timing(context.options.refresh, invocation.time, state)
    if timing.time is None or timing.generation or verification_due(context, state):
        return None
    try:
        reads = Reads.from_stored(parsed(kept))
    except Unreadable:  # it only saves an analysis, and this run writes it again
        return None
    return InputEvidence(context, references, reads, certain=True), timing.time


def verification_due(context: RunContext, state: ShardState | None) -> bool:
    """Whether this run compares all contents by an independent digest, whatever else is known."""
    if context.invocation.verify:
        return True
    if context.read_only or state is None:
        return False
    return context.options.verify.is_due(state, context.invocation.time)


def references_of(context: RunContext, refresh: Refresh | None) -> References:
    """What the query reads at a time or a version. ``refresh`` is what the run is for."""
    engine, client, sources = context.engine, context.client, context.invocation.sources
    versions = _versions(context, refresh)
    return find_references(engine, client, context.query, context.relations, versions, sources)


def as_said(context: RunContext, references: References, evidence: InputEvidence) -> References:
    """``references`` that also say which tables with versions, below a view, are read as they are
    although they are newer than the refresh.
    """
    refresh = references.refresh
    if refresh is None or refresh.time is None or refresh.own:
        return references
    below = dict(_below_views(context, refresh, evidence))
    return replace(references, newer={**references.newer, **below}) if below else references


def _below_views(context: RunContext, refresh: Refresh, evidence: InputEvidence) -> Iterator[tuple[str, str]]:
    versions, views = _versions(context, refresh), evidence.reads.below
    for table in evidence.tables_as_they_are:
        view = next((view for view, reads in views.items() if table.name in reads.every_table), None)
        if view is not None and versions.written_since(quoted(table.name), table.kind, refresh):
            yield table.name, f"it is read through the view {last_part(view)}"


def _versions(context: RunContext, refresh: Refresh | None) -> TableVersions:
    """The versions of tables. Only Spark looks at files of other machines."""
    local = context.embedded and is_local_session(context.engine)
    options = TableOptions(context.engine, context.storage_options, local=local)
    return TableVersions(options, context.invocation.id, refresh)
