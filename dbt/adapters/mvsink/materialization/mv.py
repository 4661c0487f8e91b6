"""Running a `self_correcting_mv`: turns its query into a `SinkRequest`, and an `Outcome` into dbt's
response.

The phases are those of `run`; the work itself is the sink's.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.engine import Column, DataflowError, ReservedColumn, parse_type, shard_columns, sql
from dbt.adapters.mvsink.engine.session import session_of
from dbt.adapters.mvsink.engine.timing import Stopwatch
from dbt.adapters.mvsink.exceptions import NoColumns, ReadsItself, check_distinct
from dbt.adapters.mvsink.incremental import NotIncremental
from dbt.adapters.mvsink.inputs.reads import reads_and_columns
from dbt.adapters.mvsink.inputs.reference import References
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.materialization import importing
from dbt.adapters.mvsink.materialization.context import RunContext
from dbt.adapters.mvsink.materialization.contracts import assertions, unenforced_constraints
from dbt.adapters.mvsink.materialization.errors import LOWER_ERRORS
from dbt.adapters.mvsink.materialization.evidence import (
    ORDER,
    InputEvidence,
    InputsMoved,
    as_said,
    evaluating,
    order_number,
    recollection,
    references_of,
    verification_due,
)
from dbt.adapters.mvsink.materialization.explanation import explanation, option_warnings
from dbt.adapters.mvsink.materialization.kept_sums import Keeper, KeptSums, OverSums, in_use
from dbt.adapters.mvsink.materialization.opening import Opened, refresh_foreseen, refresh_of
from dbt.adapters.mvsink.materialization.options.gate_options import accepts
from dbt.adapters.mvsink.materialization.proofs import independent
from dbt.adapters.mvsink.materialization.response import explained_response, long_reason, response
from dbt.adapters.mvsink.materialization.run import Executed, reader_warnings
from dbt.adapters.mvsink.materialization.run_notes import drift_warnings, gate_notes, gate_properties
from dbt.adapters.mvsink.materialization.splice_witness import check_replacement
from dbt.adapters.mvsink.materialization.view_texts import with_view_texts
from dbt.adapters.mvsink.references.consistency import Origins, ledgers, origins_after, origins_read
from dbt.adapters.mvsink.references.input_holds import Holds
from dbt.adapters.mvsink.shard import Antichain, ShardError, ShardReplaced, ShardState, retry_on_replacement
from dbt.adapters.mvsink.shard_sql import OnError
from dbt.adapters.mvsink.shard_sql.properties import held_shards
from dbt.adapters.mvsink.sink import (
    Drift,
    Driver,
    Evidence,
    Gate,
    Incremental,
    NoEvidence,
    Outcome,
    ReadReferences,
    RunHistory,
    SinkRequest,
    Superseded,
    UnknownColumn,
    change_limit,
    keeps_sums,
    suspended,
)
from dbt.adapters.mvsink.sink.run_history import HASHES
from dbt.adapters.mvsink.user_sql.checks import listed, nondeterministic_functions, reads
from dbt.adapters.mvsink.user_sql.marks import query_at, without_time

log = logging.getLogger("mvsink.sink.write")
NEW_QUERY = "new query"  # in the line of the first run that computed the contents by it


@dataclass(frozen=True)
class SelfCorrectingView:
    """The strategy of `self_correcting_mv`."""

    def warnings(self, context: RunContext) -> list[str]:
        """See `Materialization`."""
        warnings = []
        functions = nondeterministic_functions(without_time(context.query))
        if functions:
            warnings.append(
                f"{context.model} uses {listed(functions)}, whose results differ from run to run: every run will find everything changed. "
                "Use {{ mv_now() }} for the run's time"
            )
        kinds = unenforced_constraints(context.node)
        if kinds:
            warnings.append(
                f"{context.model}: constraints of the contract that are not enforced: {', '.join(kinds)}"
            )
        return warnings

    def check(self, context: RunContext, resources: ExitStack) -> CheckedView:
        """See `Materialization`. Raises `ReadsItself`, or an error about a column."""
        query, relation, empty = context.query, context.relation, context.invocation.empty
        if reads(query, str(relation.schema), str(relation.identifier)):
            raise ReadsItself(context.model)
        if empty:  # reads nothing
            return _checked(context, References())
        refresh = refresh_foreseen(context)
        context = with_view_texts(context)
        references = references_of(context, refresh)
        recalled, earlier = _recalled(context, references)
        checked = recalled or _checked(context, references, earlier)
        if context.importing is not None:  # before the shard is made
            importing.contents_query(context.model, context.importing, context.engine, checked.columns)
        return checked


@dataclass(frozen=True)
class CheckedView:
    """A query that can run. ``references`` are the relations that it reads at a fixed time;
    ``evidence`` is what is known about everything that it reads.
    """

    context: RunContext
    columns: tuple[Column, ...]
    references: References
    evidence: InputEvidence | None = None

    def check_columns(self, opened: Opened) -> None:
        """See `Checked`."""
        self._driver(opened, Stopwatch()).check_columns()

    def execute(self, opened: Opened) -> Executed:
        """See `Checked`."""
        if self.context.invocation.explain and self.evidence is not None:
            return Executed(
                opened, partial(explained_response, explanation(self.evidence, opened)), self.context.query
            )
        references, refresh = self.references, refresh_of(self.context, opened.timing)
        try:
            if references.refresh != refresh:  # another run came between
                references = references_of(self.context, refresh)
                raise InputsMoved
            if self._certain and (opened.redefined or opened.timing.generation):
                raise InputsMoved
            return self._execute(opened)
        except InputsMoved:
            evaluated = _checked(self.context, references)
            return evaluated.execute(replace(opened, columns=evaluated.columns))

    @property
    def _certain(self) -> bool:
        return self.evidence is not None and self.evidence.certain

    def _execute(self, opened: Opened) -> Executed:
        check_replacement(opened, self.references)
        imported = self._imported(opened)
        read = self._origins_read()
        superseded = read.superseded(self.context.invocation.time)
        retry_on_replacement([opened.handle], lambda: self._take_holds(opened))
        before = opened.handle.state()
        notes = (*imported, *gate_notes(opened))
        replaced = before.readable and opened.definition.changes_query(before)
        with ExitStack() as resources:
            watch = Stopwatch()
            kept = None if superseded else self._sums(opened, watch, resources)
            sums = None if isinstance(kept, NotIncremental) else kept
            driver = self._driver(opened, watch, superseded, sums)
            expected = self.context.read_only and driver.request.verify and self._proved(opened)
            outcome = driver.run()
        self._remember_origins(opened, outcome, read)
        warnings = [
            *opened.warnings,
            *retry_on_replacement([opened.handle], lambda: self._keep(opened, outcome)),
        ]
        warnings += [
            *outcome.warnings,
            *(sums.warnings if sums else ()),
            *option_warnings(self.evidence, opened, before, kept),
        ]
        if reason := long_reason(outcome):
            log.debug("%s: %s", self.context.model, masked(reason))
        drift = Drift(outcome.counts) if expected else outcome.written.drift
        if drift is not None:
            warnings += drift_warnings(opened, before, outcome, drift)
        if not self.context.read_only:
            recorded = bool(outcome.counts.errors_inserted)
            until = "until what causes it is corrected"
            warnings += reader_warnings(opened, outcome.state, until, recorded_now=recorded)
        return Executed(
            opened,
            partial(response, outcome),
            self._as_ran(outcome),
            notes=((NEW_QUERY,) if replaced and not outcome.up_to_date else ()) + notes,
            warnings=tuple(warnings),
            unchanged=outcome.counts.nothing and before.readable,
        )

    def _imported(self, opened: Opened) -> tuple[str, ...]:
        """If the run imports a table, its rows become the contents; what is to be said about it."""
        context, source = self.context, self.context.importing
        if source is None:
            return ()
        query = importing.contents_query(context.model, source, context.engine, self.columns)
        outcome = importing.begin(self._driver(opened, Stopwatch()), source, query)
        kept = f", which is {source.kept} now" if source.kept else ""
        return (f"imported {outcome.counts.inserted:,} rows of {source.name}{kept}",)

    def _proved(self, opened: Opened) -> bool:
        """Whether the contents certainly match the inputs, unless something is broken."""
        state, time = opened.handle.state(), opened.timing.time
        evidence = self.evidence
        return (
            evidence is not None and time is not None and evidence.proves(state, opened.handle.progress, time)
        )

    def _as_ran(self, outcome: Outcome) -> str:
        """The query as it ran: with the write time as `mv_now()`, and its references as of that
        time.
        """
        text = self.context.query
        return (query_at if outcome.read is None else self.references.read_at)(text, outcome.time)

    def _sums(
        self, opened: Opened, watch: Stopwatch, resources: ExitStack
    ) -> KeptSums | NotIncremental | None:
        """The model's sums at the run's time, or why it cannot keep any; None if it keeps none or
        nothing changed.
        """
        context, evidence, time = self.context, self.evidence, opened.timing.time
        rehearsal = context.read_only or context.invocation.rehearsal
        never = context.options.incremental is Incremental.NEVER
        if evidence is None or time is None or rehearsal or never:
            return None
        state, recorded = opened.handle.state(), opened.handle.progress
        verify = verification_due(context, state)
        if suspended(state) or (not verify and evidence.proves(state, recorded, time)):
            return None
        if not keeps_sums(context.options.state, RunHistory.of(opened.handle), in_use=in_use(recorded)):
            return None
        analysed = evidence.change(recorded, time).analysed()
        if isinstance(analysed, NotIncremental):
            return analysed
        keeper = Keeper(opened, self.references, evidence.of_query, watch, verify)
        return keeper.keep(analysed, time, resources)

    def _driver(
        self,
        opened: Opened,
        watch: Stopwatch,
        superseded: Superseded | None = None,
        sums: KeptSums | None = None,
    ) -> Driver:
        context, options, invocation = self.context, self.context.options, self.context.invocation
        verify = verification_due(context, opened.handle.state())
        query: str = context.query
        references: ReadReferences = self.references
        if sums is not None and not verify:  # a verification evaluates the query itself
            query, references = sums.query, OverSums(self.references, sums.reference, sums.time)
        request = SinkRequest(
            model=context.model,
            query=query,
            columns=self.columns,
            time=invocation.time,
            clock=wall_clock.now_ms(),
            retain_history=options.retain_history,
            assertions=assertions(context),
            on_query_error=options.on_error or OnError.FAIL,
            on_schema_change=options.on_schema_change,
            read_only=context.read_only,
            full_refresh=invocation.full_refresh,
            invocation_id=invocation.id,
            refresh=options.refresh,
            redefined=opened.redefined,
            sample=invocation.sample,
            gate=self._gate(opened),
            references=references,
            superseded=superseded,
            evidence=self._evidence(opened, sums),
            verify=verify,
            incremental=self._incremental(opened),
            definition=opened.definition.digest,
            way=HASHES if context.importing is not None else "",
            summed=sums is not None,
            independent=independent(context, self.references, opened.handle.progress),
        )
        return Driver(request, opened.handle, context.engine, watch)

    def _incremental(self, opened: Opened) -> Incremental:
        """The policy of the run. A preview does not use sums as a run does, so it may have to
        evaluate the query.
        """
        context, option = self.context, self.context.options.incremental
        spared = context.read_only and option is Incremental.ALWAYS and in_use(opened.handle.progress)
        return Incremental.AUTO if spared else option

    def _gate(self, opened: Opened) -> Gate:
        context, invocation = self.context, self.context.invocation
        accepted = accepts(invocation.accept, context.unique_id, str(context.node["name"]), context.model)
        bound = change_limit(context.options.max_change, opened.handle.history)
        return Gate(bound, opened.audits, accepted)

    def _evidence(self, opened: Opened, sums: KeptSums | None) -> Evidence:
        if self.evidence is None:
            return NoEvidence()
        return self.evidence.with_sums(sums, opened.handle.progress)

    def _keep(self, opened: Opened, outcome: Outcome) -> list[str]:
        """Record in the shard what belongs to its new contents. Returns warnings.

        The definition follows the data, so an interrupted run leaves the old one.
        """
        warnings = self._move_holds(opened, outcome)
        if not self.context.read_only:
            definition = opened.definition
            properties = definition.properties_before_effect(outcome.state)
            if not outcome.up_to_date:
                of_query = (
                    {} if self.evidence is None else self.evidence.properties(outcome.state, self.columns)
                )
                properties = {**definition.properties(), **of_query}
            options, kept = self.context.options, outcome.state.properties
            shown = {**options.freshness.properties(kept), **options.verify.properties(kept)}
            opened.handle.set_properties({**properties, **shown, **gate_properties(opened)})
        return warnings

    def _take_holds(self, opened: Opened) -> None:
        """Before the first read, a scheduled view keeps the history that it is about to read."""
        context, timing = self.context, opened.timing
        rehearsal = context.read_only or context.invocation.rehearsal
        if not rehearsal and not context.options.refresh.on_commit:
            self._holds(opened).take(timing.upper if timing.time is None else Antichain.of(timing.time))

    def _move_holds(self, opened: Opened, outcome: Outcome) -> list[str]:
        """Release history that is no longer needed. A failure only keeps too much, so it is a
        warning.
        """
        scheduled, state = not self.context.options.refresh.on_commit, outcome.state
        if (
            self.context.read_only
            or self.context.invocation.rehearsal
            or not (scheduled or held_shards(state))
        ):
            return []
        try:
            self._holds(opened).move(state.upper if scheduled else Antichain.empty())
        except ShardReplaced:
            raise
        except LOWER_ERRORS as error:
            return [f"the holds on what it reads stay as they were: {error}"]
        return []

    def _holds(self, opened: Opened) -> Holds:
        return Holds(self.context.client, opened.handle, self.references.shards)

    def _origins_read(self) -> Origins:
        """The origins of everything that the query reads. A scheduled view has none: it reads as of
        its refresh, whatever other runs write.
        """
        if not self.context.options.refresh.on_commit:
            return Origins()
        invocation = self.context.invocation
        return origins_read(self.references.shards.values(), invocation.time, ledgers.of(invocation.id))

    def _remember_origins(self, opened: Opened, outcome: Outcome, read: Origins) -> None:
        """Remember the origins for models of this run that read this one."""
        context, invocation = self.context, self.context.invocation
        if context.options.refresh.on_commit and (outcome.up_to_date or not context.read_only):
            origins = origins_after(
                str(context.relation), outcome, opened.handle.history, read, invocation.time
            )
            ledgers.of(invocation.id).origins[opened.handle.uri] = origins


def _recalled(context: RunContext, references: References) -> tuple[CheckedView | None, InputEvidence | None]:
    """The query, without asking Spark, if its columns are certainly the shard's because its inputs
    are as they were or at least have the same columns. Also, in any case, what is known about the
    inputs.
    """
    if context.published is None or not context.published.columns:  # none of a table whose log is lost
        return None, None
    try:
        with context.client.open_reader(context.published.uri) as reader:
            state = reader.state()
            recalled = recollection(context, references, state)
            if recalled is None:
                return None, None
            evidence, time = recalled
            columns = _columns(state, context.published.columns)
            shown = order_number([column.name for column in columns])
            if state.properties.get(ORDER) != shown:  # a run was killed before it published another order
                return None, evidence
            proved = evidence.proves(state, reader.progress, time)
            if not proved and not evidence.proves_columns(state, time, columns):
                return None, evidence
    except (ShardError, DataflowError):  # what is wrong is found again on the usual way, and said
        return None, None
    if not proved:
        described = references.described(context.query)
        evidence = evaluating(context, references, described, evidence.reads, evidence)
    return CheckedView(context, columns, as_said(context, references, evidence), evidence), None


def _columns(state: ShardState, order: Sequence[str]) -> tuple[Column, ...]:
    """The shard's columns, in the ``order`` of its view if the view has the same columns."""
    columns = {column.name: column for column in shard_columns(state.schema)}
    return tuple(columns[name] for name in (order if sorted(order) == sorted(columns) else columns))


def _checked(
    context: RunContext, references: References, earlier: InputEvidence | None = None
) -> CheckedView:
    """The query, with the columns that Spark reports."""
    described = references.described(context.query)
    empty, evidence = context.invocation.empty, None
    if empty:
        types = context.engine.columns(described)
    else:
        known, types = reads_and_columns(context.engine, described)
        evidence = evaluating(context, references, described, known, earlier)
    columns = tuple(Column(name, parse_type(text, name)) for name, text in types)
    _check_columns(context, columns)
    if evidence is not None:
        through = evidence.reads.path_to(f"{session_of(context.engine).catalog}.{context.relation}")
        if through is not None:
            raise ReadsItself(context.model, through)
        references = as_said(context, references, evidence)
    return CheckedView(context, columns, references, evidence)


def _check_columns(context: RunContext, columns: tuple[Column, ...]) -> None:
    if not columns:
        raise NoColumns(context.model)
    for column in columns:
        if column.name.lower().startswith("_mv_"):
            raise ReservedColumn(column.name)
        sql.check_name(column.name)
    names = [column.name for column in columns]
    check_distinct(context.model, names)
    known = {name.lower() for name in names}
    for name in context.options.assert_not_null:  # as Spark resolves it
        if name.lower() not in known:
            raise UnknownColumn("assert_not_null", name, names)
