"""One run of one maintained model, as phases that return values.

```
prepare -> Prepared    names, options, schedule; nothing is written
execute -> Executed    the query checked, the shard opened (`Opened`) and brought up to date
publish -> Published   the relation shows the shard
finish  -> response    handles are closed, dbt's line, warnings
```

The materialization's macro calls them in this order; between them it runs hooks and dbt's own
machinery. What views and tasks do differently is a `Materialization`. Nothing here decides about
time or storage.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Protocol

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.engine import Column, EngineError
from dbt.adapters.mvsink.engine.timing import span
from dbt.adapters.mvsink.exceptions import MAX_NAME, InvalidName, RefreshesNeverHappen
from dbt.adapters.mvsink.materialization import grants
from dbt.adapters.mvsink.materialization.catalog_entry import publish_entry
from dbt.adapters.mvsink.materialization.context import RunContext
from dbt.adapters.mvsink.materialization.errors import translated
from dbt.adapters.mvsink.materialization.future import check_time
from dbt.adapters.mvsink.materialization.importing import check_importing
from dbt.adapters.mvsink.materialization.opening import Opened, open_shard
from dbt.adapters.mvsink.materialization.publish import Docs
from dbt.adapters.mvsink.materialization.response import MvsinkResponse, empty_response, paused_response
from dbt.adapters.mvsink.materialization.warn import warn, warn_of_all
from dbt.adapters.mvsink.shard import ShardError, ShardState, retry_on_replacement
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.shard_sql.current_view import NOT_REFRESHED
from dbt.adapters.mvsink.shard_sql.layout import live_errors
from dbt.adapters.mvsink.shard_sql.properties import Pause, pause_of
from dbt.adapters.mvsink.sink import Audit, NeverRefreshed, run_timing

TABLE, VIEW = "table", "view"  # dbt's types of relations
Respond = Callable[[Sequence[str], Sequence[str]], MvsinkResponse]  # given notes and warnings


class Materialization(Protocol):
    """What one materialization does differently from the other."""

    def warnings(self, context: RunContext) -> list[str]:
        """Warnings that follow from the model's text alone."""
        ...

    def check(self, context: RunContext, resources: ExitStack) -> Checked:
        """Check everything except the model's own shard. ``resources`` closes what is opened."""
        ...


class Checked(Protocol):
    """A model whose text, inputs and columns are valid."""

    @property
    def columns(self) -> tuple[Column, ...]: ...

    def check_columns(self, opened: Opened) -> None:
        """Compare its columns with the shard's. Writes nothing."""
        ...

    def execute(self, opened: Opened) -> Executed:
        """Bring the shard up to date, or in read-only mode preview that."""
        ...


@dataclass(frozen=True)
class Prepared:
    """A model that may run; no SQL of its own has run yet."""

    context: RunContext
    strategy: Materialization
    pause: Pause | None = None  # of a model that this run leaves alone

    @property
    def read_only(self) -> bool:
        return self.context.read_only


@dataclass(frozen=True)
class Executed:
    """The result of a run. ``text`` is the query as it ran; ``respond`` makes dbt's response.

    ``unchanged`` means that the shard has contents and the run did not change them. ``warnings``
    are raised when the run is complete; ``resources`` are its open handles.
    """

    opened: Opened
    respond: Respond
    text: str
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    unchanged: bool = False
    resources: ExitStack = field(default_factory=ExitStack)

    @property
    def read_only(self) -> bool:
        return self.opened.context.read_only


@dataclass(frozen=True)
class Published:
    """A run whose relation shows its shard, or that was read-only and published nothing. ``type``
    is the relation's type in dbt.
    """

    executed: Executed
    notes: tuple[str, ...] = ()
    type: str = VIEW


def prepare(context: RunContext, strategy: Materialization) -> Prepared:
    """The checks before the first hook. Raises `RefreshesNeverHappen`, `InvalidName`, `FutureRun`,
    `GrantsNotOffered`, `CannotImport`.
    """
    pause = _pause(context)
    if pause is not None:
        return Prepared(context, strategy, pause)
    with translated(context.model):
        _check_refresh(context)
    check_time(context)
    if context.importing is not None:
        check_importing(context)
    _check_spark_accepts_the_name(context)
    if not context.read_only:
        wanted = context.node["config"].get("grants")
        grants.applicable(
            context.engine, context.model, str(context.relation), wanted, context.unsupported_grants
        )
    if not (context.read_only or context.invocation.rehearsal):  # which only say what a run would do
        for warning in strategy.warnings(context):
            warn(warning)
    return Prepared(context, strategy)


def leave_alone(prepared: Prepared) -> MvsinkResponse:
    """The response of a run that leaves a paused model as it is, after a warning that says so."""
    context, pause = prepared.context, prepared.pause
    words = pause.words if pause is not None else ""
    warning = f"{words}; this run leaves it as it is. `mvsink release {context.node['name']}` ends the pause"
    warn(f"{context.model}: {warning}")
    return paused_response(words, warning)


def execute(prepared: Prepared, audits: tuple[Audit, ...] = ()) -> Executed:
    """Bring the shard up to date; `--empty` only checks and creates."""
    context = prepared.context
    with span("run", _identity(context)) as record, translated(context.model), ExitStack() as resources:
        checked = prepared.strategy.check(context, resources)
        opened = open_shard(context, checked.columns, resources, audits)
        if context.invocation.empty:
            checked.check_columns(opened)
            executed = Executed(opened, empty_response, context.query, warnings=opened.warnings)
        else:
            executed = checked.execute(opened)
        record(executed.respond((), ()).attributes())
        return replace(executed, resources=resources.pop_all())


def _identity(context: RunContext) -> dict[str, str]:
    """The attributes of a run's span that are known before it."""
    return {
        "mvsink.model": context.model,
        "mvsink.unique_id": context.unique_id,
        "mvsink.materialization": str(context.node["config"].get("materialized")),
        "mvsink.target": context.invocation.target,
        "mvsink.invocation_id": context.invocation.id,
        "mvsink.time": iso(context.invocation.time),
    }


def publish(executed: Executed, docs: Docs) -> Published:
    """Make the relation show the shard, unless it already does. A read-only run publishes
    nothing.
    """
    opened = executed.opened
    if executed.read_only:
        shown = opened.context.published
        return Published(executed, type=TABLE if shown is not None and shown.table else VIEW)
    failpoints.reach("to be published")
    try:
        with translated(opened.context.model):
            entry = retry_on_replacement([opened.handle], lambda: publish_entry(opened, docs))
    except BaseException:
        executed.resources.close()
        raise
    again = ("view republished",) if entry.replaced and executed.unchanged else ()
    return Published(
        replace(executed, warnings=(*executed.warnings, *entry.warnings)),
        (*again, *entry.notes),
        TABLE if entry.table else VIEW,
    )


def finish(published: Published) -> MvsinkResponse:
    """Close every handle; returns dbt's response. Warnings that are errors are raised now, at the
    end.
    """
    executed = published.executed
    context = executed.opened.context
    executed.resources.close()
    response = executed.respond((*executed.notes, *published.notes), executed.warnings)
    warn_of_all(f"{context.model}: {warning}" for warning in executed.warnings)
    return response


def reader_warnings(
    opened: Opened, state: ShardState, until: str, *, recorded_now: bool = False
) -> tuple[str, ...]:
    """Why readers of ``state`` get an error: no contents yet, or errors that earlier runs recorded.

    ``until`` says how long recorded errors stay. ``recorded_now`` means that this run recorded
    errors and has already warned about them.
    """
    if not state.readable:
        return (
            f"{NOT_REFRESHED}: all readers, its tests included, get an error until it has been refreshed",
        )
    query = "" if recorded_now else live_errors(Layout.of(opened.handle, state))
    rows = opened.context.engine.query(query, "live errors") if query else []
    if not rows:
        return ()
    shown = opened.context.published
    # a table's own readers see its last version without errors
    readers = "readers" if shown is None or not shown.table else "models that read its shard"
    return (f"holds {len(rows)} recorded error(s); {readers} get an error {until}: {rows[0][0]}",)


def _pause(context: RunContext) -> Pause | None:
    """The model's pause, if there is one. None also if the shard does not exist or cannot be read:
    the run itself will report that.
    """
    try:
        with context.client.open_reader(context.uri) as reader:
            return pause_of(reader.state())
    except ShardError:
        return None


def _check_refresh(context: RunContext) -> None:
    """Raises `RefreshesNeverHappen` for a new shard whose schedule has no refresh left. No SQL."""
    refresh, invocation = context.options.refresh, context.invocation
    if refresh.on_commit:
        return
    client, state = context.client, None
    if client.exists(context.uri):
        with client.open_reader(context.uri) as reader:
            state = reader.state()
    try:
        run_timing(refresh, invocation.time, state, full_refresh=invocation.full_refresh)
    except NeverRefreshed as error:
        config = context.node["config"].get("refresh")
        raise RefreshesNeverHappen(context.model, config, iso(error.last or 0), iso(error.now)) from error


def _check_spark_accepts_the_name(context: RunContext) -> None:
    """Raises `InvalidName` before the view is first created: dialects reserve different words."""
    if context.published is not None:
        return
    try:
        context.engine.query(f"explain create or replace view {context.relation} as select 1", "check")
    except EngineError as error:
        reason = f", of which Spark says: {error.message.strip().splitlines()[0]}"
        raise InvalidName(context.model, "schema or alias", str(context.relation), reason) from error


# Directories of a shard and of the shards' root: a model of that name would lie in another one's.
OURS = frozenset(
    {"_delta_log", "_mvsink", "_inputs", "_sums", "_staging", "batches", "table", "leases", "_temporary"}
)
WORD = re.compile(r"[A-Za-z0-9_]+")  # what Spark's own catalog accepts


def check_names(model: str, schema: str, identifier: str) -> None:
    """Raises `InvalidName`. A schema may be ``catalog.schema``."""
    for what, name, words in (("schema", schema, schema.split(".")), ("alias", identifier, [identifier])):
        if not all(WORD.fullmatch(word) and len(word) <= MAX_NAME for word in words):
            raise InvalidName(model, what, name)
        # a schema lies in no shard: only names that are ours in the root are refused
        reserved = OURS if what == "alias" else {each for each in OURS if each.startswith("_")}
        if any(word.lower() in reserved for word in words):
            raise InvalidName(
                model, what, name, f", a directory of shards' own: {', '.join(sorted(reserved))}"
            )
