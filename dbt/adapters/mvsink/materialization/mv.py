"""Running a `self_correcting_mv`: what the materialization's macro calls, in order.

`prepare` checks everything that can be checked before SQL runs; `run` brings the shard up to date;
`publish` makes the view show it. Between them the macro runs hooks and dbt's own machinery. This
module decides nothing about time or storage: it turns dbt's node into a `SinkRequest` and an
`Outcome` into dbt's response.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.adapter.dbt_engine import AdapterEngine
from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.engine import (
    Column,
    DataflowError,
    EngineError,
    ReservedColumn,
    arrow_schema,
    parse_type,
    query_at,
    sql,
)
from dbt.adapters.mvsink.exceptions import (
    MvsinkError,
    ReadsItself,
    RefreshesNeverHappen,
    ShardGone,
    check_distinct,
)
from dbt.adapters.mvsink.materialization.audits import CompiledTest
from dbt.adapters.mvsink.materialization.contracts import contract_assertions, unenforced_constraints
from dbt.adapters.mvsink.materialization.definition import Definition, without_time
from dbt.adapters.mvsink.materialization.options.gate import accepts
from dbt.adapters.mvsink.materialization.options.table import ModelOptions
from dbt.adapters.mvsink.materialization.publish import Docs, check_fits, is_current, publish
from dbt.adapters.mvsink.materialization.response import MvsinkResponse, response
from dbt.adapters.mvsink.materialization.warn import warn, warn_of_all
from dbt.adapters.mvsink.references.consistency import Origins, ledgers, origins_after, origins_read
from dbt.adapters.mvsink.references.holds import Holds
from dbt.adapters.mvsink.references.listings import refresh, tables_of_files
from dbt.adapters.mvsink.references.reference import References
from dbt.adapters.mvsink.references.resolve import find_references
from dbt.adapters.mvsink.shard import (
    Antichain,
    MemoryStorage,
    NotAShard,
    ShardClient,
    ShardError,
    ShardReplaced,
    ShardState,
    WriteHandle,
    following,
)
from dbt.adapters.mvsink.shard_sql import Layout, OnError
from dbt.adapters.mvsink.shard_sql.canary import check_same_place
from dbt.adapters.mvsink.shard_sql.current_view import NOT_REFRESHED
from dbt.adapters.mvsink.shard_sql.holds import held_shards
from dbt.adapters.mvsink.shard_sql.live_errors import live_errors
from dbt.adapters.mvsink.shard_sql.properties import OWNER
from dbt.adapters.mvsink.shard_sql.published_view import REDACTED, PublishedView
from dbt.adapters.mvsink.sink import (
    Assertion,
    Audit,
    Driver,
    Gate,
    NeverRefreshed,
    Outcome,
    SinkRequest,
    Superseded,
    UnknownColumn,
    not_null,
    run_timing,
)
from dbt.adapters.mvsink.user_sql.checks import listed, nondeterministic_functions, reads, without_end

if TYPE_CHECKING:
    from dbt.adapters.spark.impl import SparkAdapter

    from dbt.adapters.mvsink.relation import MvsinkRelation


@dataclass(frozen=True)
class Invocation:
    """What concerns the whole run. ``time`` is `T` in ms; ``target`` the profile target's name."""

    id: str
    time: int
    target: str
    project: str
    read_only: bool = False
    full_refresh: bool = False
    empty: bool = False
    sampled: bool = False
    # of this model: a relation's text, its unique id
    references: Mapping[str, str] = field(default_factory=dict)
    accept: Any = ()  # the models whose change may be of any size
    sample: int = 0  # rows that a read-only run shows


@dataclass
class MaintainedRun:
    """One run of one model; lives for as long as its materialization."""

    adapter: SparkAdapter
    relation: MvsinkRelation
    node: Mapping[str, Any]
    query: str
    options: ModelOptions
    invocation: Invocation
    current: PublishedView | None
    columns: tuple[Column, ...] = ()
    handle: WriteHandle | None = None
    definition: Definition | None = None
    outcome: Outcome | None = None
    notes: list[str] = field(default_factory=list)
    # the definition has changed, and takes effect at once whatever the schedule
    redefined: bool = False
    found: References = References()  # what the query reads at a time of its own
    audits: tuple[Audit, ...] = ()
    warnings: list[str] = field(default_factory=list)  # to be raised when all is done: see `warn`

    def __post_init__(self) -> None:
        self.model = f"{self.relation.schema}.{self.relation.identifier}"
        self.engine = AdapterEngine(self.adapter, self.model)

    @property
    def read_only(self) -> bool:
        """Of the model's config, the profile, or the invocation."""
        return self.options.read_only or self.invocation.read_only

    def audit(self, test: CompiledTest, verdict: str) -> None:
        """Have the would-be contents pass ``test``; ``verdict`` is the query that dbt's macro makes
        of it.
        """
        self.audits = (*self.audits, test.audit(str(self.relation), verdict))

    def check_refresh(self, client: ShardClient, uri: str) -> None:
        """Raises `RefreshesNeverHappen` if the shard would be created now and its schedule has no
        refresh left. Runs no SQL.
        """
        if self.options.refresh.on_commit:
            return
        state = None
        if client.exists(uri):
            with client.open_reader(uri) as reader:
                state = reader.state()
        try:
            run_timing(
                self.options.refresh, self.invocation.time, state, full_refresh=self.invocation.full_refresh
            )
        except NeverRefreshed as error:
            given = self.node["config"].get("refresh")
            raise RefreshesNeverHappen(self.model, given, iso(error.last or 0), iso(error.now)) from error

    def as_ran(self, query: str) -> str:
        """``query`` as it ran: with the write time as `mv_now()`, and its references as of it."""
        if self.outcome is None:
            return query
        text = query_at(query, self.outcome.time)
        return text if self.outcome.references is None else self.found.read_at(text, self.outcome.time)

    def warn_of_definition(self) -> None:
        """Of what the model's text alone shows. Before anything is written, hooks included."""
        found = nondeterministic_functions(without_time(self.query))
        if found:
            warn(
                f"{self.model} uses {listed(found)}, which differ from run to run: every run will find everything changed. "
                "Use {{ mv_now() }} for the run's time"
            )
        kinds = unenforced_constraints(self.node)
        if kinds:
            warn(f"{self.model}: constraints of the contract that are not enforced: {', '.join(kinds)}")

    def check(self) -> None:
        """Everything that needs no shard: columns, types, self-reference, configs' columns."""
        if reads(self.query, str(self.relation.schema), str(self.relation.identifier)):
            raise ReadsItself(self.model)
        if not self.invocation.empty:  # then nothing is read
            client = ShardClient(self.adapter.config.credentials.storage_options)
            self.found = find_references(
                self.engine, client, self.query, self.invocation.references, self.invocation.id
            )
        described = self.found.described(self.query)
        if not self.invocation.empty:
            refresh(self.engine, tables_of_files(self.engine, described), self.invocation.id)
        analysed = self.engine.columns(described)
        self.columns = tuple(Column(name, parse_type(text, name)) for name, text in analysed)
        for column in self.columns:
            if column.name.lower().startswith("_mv_"):
                raise ReservedColumn(column.name)
            sql.check_name(column.name)
        names = [column.name for column in self.columns]
        check_distinct(self.model, names)
        for name in self.options.assert_not_null:
            if name not in names:
                raise UnknownColumn("assert_not_null", name, names)

    def open(self, default: str, storage_options: Mapping[str, str] | None) -> WriteHandle:
        """Open the shard and make sure it is this model's. ``default``: where it is created if
        there is no view that shows one.
        """
        client = ShardClient(storage_options)
        limit = self.adapter.config.credentials.longest_view
        if limit is not None:
            check_fits(limit, self.current.uri if self.current else default, self.columns)
        self.handle = self._published_shard(client, default) if self.current else None
        if not (self.read_only or self.invocation.empty):
            self._check_place(default if self.handle is None else self.handle.uri, storage_options)
        if self.handle is None:
            if self.read_only and not client.exists(default):
                # an empty shard to compare with that leaves nothing behind
                client = ShardClient(locate=MemoryStorage)
            self.handle = client.open_or_create(default, arrow_schema(self.columns), self._purpose)
        handle = self.handle
        following([handle], lambda: self._own(handle, handle.state()))
        return self.handle

    def _check_place(self, uri: str, storage_options: Mapping[str, str] | None) -> None:
        """Raises `DifferentPlaces` unless what the engine writes beside the shard is found from
        here.
        """
        root = str(self.adapter.config.credentials.shards).rstrip("/")
        # a view may know its shard from before
        place = root if uri.startswith(f"{root}/") else uri.rpartition("/")[0]
        check_same_place(self.engine, self.engine.session, place, storage_options)

    def _published_shard(self, client: ShardClient, default: str) -> WriteHandle | None:
        """The shard that the view shows. If it is not there: the same shard at ``default``; None
        where a full refresh replaces it.

        Raises `ShardGone`: a lost shard never leads to a new one by itself.
        """
        assert self.current is not None
        gone = self.current.uri
        try:
            return WriteHandle.from_read(client.open_reader(gone), self._purpose)
        except NotAShard:
            moved = default != gone and client.exists(default)
        if moved:
            reader = client.open_reader(default)
            if str(reader.state().shard_id) == self.current.shard_id:
                self.warnings.append(f"its shard was moved from {gone} to {default}")
                return WriteHandle.from_read(reader, self._purpose)
        if not self.invocation.full_refresh:
            raise ShardGone(self.model, str(self.relation), gone, default)
        self.warnings.append(
            f"there is no shard at {gone}, which its view shows: its history is lost, and --full-refresh builds "
            f"a new one at {default}"
        )
        return None

    @property
    def _purpose(self) -> str:
        return f"mv_sink({self.model})"

    def run(self) -> None:
        """Bring the shard up to the run's time, or in read-only mode tell what that would write."""
        assert self.handle is not None
        read = self._origins_read()
        driver = self._driver(read.superseded(self.invocation.time))
        following([self.handle], self._take_holds)
        self.outcome = outcome = driver.run()
        self._remember_origins(outcome, read)
        following([self.handle], lambda: self._keep(outcome))
        self.warnings += outcome.warnings
        if self.read_only:
            return
        if not outcome.state.readable:
            self.warnings.append(
                f"{NOT_REFRESHED}: whoever reads it, its tests included, gets an error until it is"
            )
        elif not outcome.counts.errors_inserted:
            self._warn_of_live_errors(outcome.state, "until what causes it is corrected")

    def _warn_of_live_errors(self, state: ShardState, how_long: str) -> None:
        """Of errors that an earlier run recorded: they fail readers as much as a new one."""
        assert self.handle is not None
        parts = Layout.of(self.handle, state)
        query = live_errors(parts)
        found = self.engine.query(query, "live errors") if query else []
        if found:
            self.warnings.append(
                f"holds {len(found)} recorded error(s); readers get an error {how_long}: {found[0][0]}"
            )

    def _keep(self, outcome: Outcome) -> None:
        """What the shard is to know besides its contents, once they are committed."""
        assert self.handle is not None
        self._move_holds(outcome.state)
        if self.definition is not None and not self.read_only:
            # After the data: what an interrupted run leaves behind is still of the old definition.
            waits = outcome.up_to_date
            definition = self.definition
            self.handle.set_properties(
                definition.properties_before_effect(outcome.state) if waits else definition.properties()
            )

    def _origins_read(self) -> Origins:
        """Of all that the query reads. A scheduled view reads as of its refresh, whoever runs
        meanwhile.
        """
        if not self.options.refresh.on_commit:
            return Origins()
        return origins_read(self.found.shards.values(), self.invocation.time, ledgers.of(self.invocation.id))

    def _remember_origins(self, outcome: Outcome, read: Origins) -> None:
        """For the models of this run that read this one."""
        assert self.handle is not None
        if self.options.refresh.on_commit and (outcome.up_to_date or not self.read_only):
            found = origins_after(
                str(self.relation), outcome, self.handle.history, read, self.invocation.time
            )
            ledgers.of(self.invocation.id).origins[self.handle.uri] = found

    def _take_holds(self) -> None:
        """A scheduled view keeps what it reads from being forgotten until it has read it."""
        assert self.handle is not None
        refresh, state = self.options.refresh, self.handle.state()
        if not self.read_only and not refresh.on_commit:
            given = {"full_refresh": self.invocation.full_refresh, "redefined": self.redefined}
            plan = run_timing(refresh, self.invocation.time, state, **given)
            self._holds().take(plan.upper if plan.time is None else Antichain.of(plan.time))

    def _move_holds(self, state: ShardState) -> None:
        """What was committed as ``state`` needs no hold any more. Failing to move one keeps too
        much, and fails nothing.
        """
        scheduled = not self.options.refresh.on_commit
        if self.read_only or not (scheduled or held_shards(state)):
            return
        try:
            self._holds().move(state.upper if scheduled else Antichain.empty())
        except ShardReplaced:
            raise
        except LOWER_ERRORS as error:
            self.warnings.append(f"the holds on what it reads stay as they were: {error}")

    def _holds(self) -> Holds:
        assert self.handle is not None
        return Holds(
            ShardClient(self.adapter.config.credentials.storage_options), self.handle, self.found.shards
        )

    def check_columns(self) -> None:
        """`--empty`: the query's columns against the shard's."""
        self._driver().check_columns()

    def _driver(self, superseded: Superseded | None = None) -> Driver:
        assert self.handle is not None
        request = SinkRequest(
            model=self.model,
            query=self.query,
            columns=self.columns,
            time=self.invocation.time,
            clock=int(time.time() * 1000),
            retain_history=self.options.retain_history,
            assertions=self._assertions(),
            on_query_error=self.options.on_error or OnError.FAIL,
            on_schema_change=self.options.on_schema_change,
            read_only=self.read_only,
            full_refresh=self.invocation.full_refresh,
            invocation_id=self.invocation.id,
            refresh=self.options.refresh,
            redefined=self.redefined,
            sample=self.invocation.sample,
            gate=Gate(self.options.max_change, self.audits, self._accepted()),
            references=self.found,
            superseded=superseded,
        )
        return Driver(request, self.handle, self.engine)

    def _accepted(self) -> bool:
        return accepts(
            self.invocation.accept, str(self.node["unique_id"]), str(self.node["name"]), self.model
        )

    def publish(self, docs: Docs) -> None:
        """Make the view show the shard, unless it already does."""
        assert self.handle is not None
        following([self.handle], lambda: self._publish(docs))

    def _publish(self, docs: Docs) -> None:
        assert self.handle is not None
        docs = self._of_columns(docs)
        if is_current(self.current, self.handle.state(), docs):
            return
        order = [column.name for column in self.columns]
        publish(self.engine, str(self.relation), self.handle, self.current, docs, order)
        failpoints.reach("view published")
        if self.outcome is not None and self.outcome.counts.nothing and self.outcome.state.readable:
            self.notes.append("view republished")

    def _of_columns(self, docs: Docs) -> Docs:
        """The docs of columns that the view has, by the names it has them under; dbt's may differ
        in case, or be of none.
        """
        if docs.column_comments is None:
            return docs
        named = {name.lower(): text for name, text in docs.column_comments.items()}
        known = {c.name: named[c.name.lower()] for c in self.columns if c.name.lower() in named}
        return replace(docs, column_comments=known)

    def close(self) -> None:
        """Give up the handle and whatever it staged."""
        if self.handle is not None:
            self.handle.expire()

    def result(self) -> MvsinkResponse:
        """dbt's response."""
        if self.outcome is None:
            return MvsinkResponse(
                _message="; ".join(("empty: checked, nothing written", *self.notes)), code="none"
            )
        result = response(self.outcome, tuple(self.notes), self.warnings)
        if self.read_only:
            self.warnings.append(str(result))
        return result

    def warn(self) -> None:
        """The last step: the run is complete, so that nothing is half-done where a warning is an
        error.
        """
        warn_of_all(f"{self.model}: {warning}" for warning in self.warnings)

    def _assertions(self) -> tuple[Assertion, ...]:
        """`assert_not_null` and the contract's `not_null` and `check` constraints."""
        record = self.options.on_error is not OnError.FAIL
        asserted = [not_null(name, fails=not record) for name in self.options.assert_not_null]
        strict = self.options.on_error is not OnError.RECORD
        return (*asserted, *contract_assertions(self.node, fails=strict))

    def _own(self, handle: WriteHandle, state: ShardState) -> None:
        """Keep owner and definition in the shard; refuse another owner's."""
        definition = Definition(
            project=self.invocation.project,
            unique_id=str(self.node["unique_id"]),
            target=self.invocation.target,
            query=self.query,
            ansi=self._ansi(),
            references=self.invocation.references,
            sampled=self.invocation.sampled,
            refresh=self.options.refresh,
        )
        if not self.options.adopt:
            definition.check_owner(self.model, handle.uri, state)
        definition.check_sample(self.model, state)
        if self.invocation.empty:
            return
        anew = self.invocation.full_refresh or state.dropped is not None
        policy = "apply" if anew else self.options.on_configuration_change
        plan = run_timing(
            self.options.refresh, self.invocation.time, state, full_refresh=self.invocation.full_refresh
        )
        warning = definition.check_changes(self.model, policy, state, plan)
        if warning:
            warn(f"{self.model}: {warning}")
        self.definition = definition
        self.redefined = definition.replaces(policy, state)
        # one to take over stays as it is until it is written
        if not self.read_only and OWNER not in state.properties:
            handle.set_properties({OWNER: definition.properties()[OWNER]})

    def _ansi(self) -> str:
        [[_, value]] = self.engine.query("set spark.sql.ansi.enabled", "settings")
        if value != REDACTED:
            return str(value)
        # a double where ANSI mode is off
        [[kind]] = self.engine.query("select typeof(1 + '1')", "settings")
        return "false" if kind == "double" else "true"


def translate(model: str, error: Exception) -> DbtRuntimeError:
    """An error of the lower layers as dbt's, with the model's name in front."""
    if isinstance(error, EngineError) and isinstance(error.__cause__, DbtRuntimeError):
        return error.__cause__
    message = str(error)
    return MvsinkError(message if message.startswith(f"{model}: ") else f"{model}: {message}")


LOWER_ERRORS = (DataflowError, ShardError)


def prepared_query(query: str) -> str:
    """The compiled SQL as it is spliced."""
    return without_end(query)
