"""Opening a model's shard: finds or creates it, checks that it is this model's, and decides the
run's timing.

A lost shard never leads to a new one by itself, and a shard of another model, project or target is
never written.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from dbt.adapters.mvsink.engine import Column, arrow_schema
from dbt.adapters.mvsink.exceptions import ModelRenamed, ShardGone
from dbt.adapters.mvsink.inputs.reference import Refresh
from dbt.adapters.mvsink.materialization.context import RunContext
from dbt.adapters.mvsink.materialization.definition import Definition, ansi_mode
from dbt.adapters.mvsink.materialization.orphans import known_orphans
from dbt.adapters.mvsink.materialization.publish import check_fits
from dbt.adapters.mvsink.materialization.warn import warn
from dbt.adapters.mvsink.published import check_publishable
from dbt.adapters.mvsink.shard import (
    MemoryStorage,
    NotAShard,
    ShardClient,
    ShardError,
    ShardState,
    WriteHandle,
    retry_on_replacement,
)
from dbt.adapters.mvsink.shard_sql.properties import OWNER, ShownAs, owner_of
from dbt.adapters.mvsink.shard_sql.published_view import PublishedView
from dbt.adapters.mvsink.shard_sql.stager import check_same_place
from dbt.adapters.mvsink.sink import Audit, RunPlan, run_timing


@dataclass(frozen=True)
class Opened:
    """A shard of this model, and what the run will do with it.

    If ``redefined``, a changed definition takes effect at once, whatever the schedule. ``timing``
    was decided on the state at the opening. ``warnings`` are raised when the run is complete.
    """

    context: RunContext
    columns: tuple[Column, ...]
    handle: WriteHandle
    definition: Definition
    redefined: bool
    timing: RunPlan
    audits: tuple[Audit, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def new_query(self) -> bool:
        """Whether the shard's contents may not be those of the present query."""
        return self.definition.other_query(self.handle.state())


def open_shard(
    context: RunContext, columns: tuple[Column, ...], resources: ExitStack, audits: tuple[Audit, ...] = ()
) -> Opened:
    """Open the shard, or create it with these ``columns``; ``resources`` closes it.

    Raises `ShardGone`, `ModelRenamed`, `OwnedByAnother`, `SampledRun`, `ConfigurationChanged`,
    `ViewTooLong`, `DifferentPlaces`.
    """
    client, default = context.client, context.default_uri
    if context.longest_view is not None:
        check_fits(context.longest_view, context.uri, columns)
    if context.table_format is not None:
        check_publishable(context.table_format, arrow_schema(columns))
    handle: WriteHandle | None = None
    warnings: tuple[str, ...] = ()
    if context.published is not None:
        handle, warnings = _published_shard(context, context.published, client)
    if handle is not None:
        resources.enter_context(handle)
    if not (context.read_only or context.invocation.empty):
        _check_place(context, default if handle is None else handle.uri)
    if handle is None:
        _check_not_renamed(context, default)
        if context.read_only and not client.exists(default):
            # an empty shard to compare with that leaves nothing behind
            client = ShardClient(locate=MemoryStorage)
        handle = client.open_or_create(default, arrow_schema(columns), context.purpose)
        resources.enter_context(handle)
    opened, definition = handle, _definition(context)

    def checked() -> tuple[bool, RunPlan]:
        return _checked(context, definition, opened, opened.state())

    redefined, timing = retry_on_replacement([opened], checked)
    return Opened(context, columns, opened, definition, redefined, timing, audits, warnings)


def _check_not_renamed(context: RunContext, default: str) -> None:
    """Raises `ModelRenamed` if a model that is gone has a shard with this query, and this one has
    none: its file was renamed.
    """
    invocation = context.invocation
    if invocation.full_refresh or invocation.rehearsal or invocation.empty or context.importing is not None:
        return
    orphans = known_orphans.of(invocation.id).orphans or ()
    # with another alias or schema it has a shard of its own
    own = any(each.unique_id == context.unique_id for each in orphans)
    if own or not orphans or context.client.exists(default):
        return
    digest = _definition(context).digest
    alike = [each for each in orphans if each.digest == digest and not each.now]
    if alike:
        raise ModelRenamed(
            context.model, context.unique_id.split(".", 2)[-1], alike[0].model, str(alike[0].relation)
        )


def _published_shard(
    context: RunContext, published: PublishedView, client: ShardClient
) -> tuple[WriteHandle | None, tuple[str, ...]]:
    """The shard that the view shows, or the same shard at the default location; None if a full
    refresh replaces a lost one. Also warnings.
    """
    gone, default = published.uri, context.default_uri
    kind = "table" if published.table else "view"
    try:
        return WriteHandle.from_read(client.open_reader(gone), context.purpose), ()
    except NotAShard:
        moved = default != gone and client.exists(default)
    if moved:
        reader = client.open_reader(default)
        if _shows(context, published, reader.state()):
            warning = f"its shard was moved from {gone} to {default}"
            return WriteHandle.from_read(reader, context.purpose), (warning,)
    if not context.invocation.full_refresh:
        raise ShardGone(context.model, str(context.relation), gone, default, kind)
    warning = (
        f"there is no shard at {gone}, which its {kind} shows: its history is lost, and --full-refresh "
        f"builds a new one at {default}"
    )
    return None, (warning,)


def _shows(context: RunContext, published: PublishedView, state: ShardState) -> bool:
    """Whether this is the shard that is published. A table that has lost its log names none: then
    the model's own shard is meant.
    """
    if published.shard_id:
        return str(state.shard_id) == published.shard_id
    own = (context.invocation.project, context.invocation.target, context.unique_id)
    owner = owner_of(state)
    return tuple(owner.get(name) for name in ("project", "target", "unique_id")) == own


def _check_place(context: RunContext, uri: str) -> None:
    """Raises `DifferentPlaces` if this process does not see what the engine writes there."""
    # a shard made under another `shard_root` is not below this one
    within = uri.startswith(f"{context.shard_root}/")
    place = context.shard_root if within else uri.rpartition("/")[0]
    check_same_place(context.engine, context.session, place, context.storage_options)


def _definition(context: RunContext) -> Definition:
    return Definition(
        project=context.invocation.project,
        unique_id=context.unique_id,
        target=context.invocation.target,
        query=context.query,
        ansi=ansi_mode(context.engine, context.model),
        references=context.invocation.references,
        sampled=context.invocation.sampled,
        refresh=context.options.refresh,
    )


def refresh_foreseen(context: RunContext) -> Refresh | None:
    """What `open_shard` will determine that a scheduled view's run is for, unless another run comes
    in between; None without a schedule.
    """
    if context.options.refresh.on_commit:
        return None
    state: ShardState | None = None
    try:
        if context.client.exists(context.uri):
            with context.client.open_reader(context.uri) as reader:
                state = reader.state()
    except ShardError:  # said when it is opened
        return Refresh(None)
    if state is None:
        return refresh_of(context, run_timing(context.options.refresh, context.invocation.time, None))
    return refresh_of(context, _timing(context, _definition(context), state)[1])


def refresh_of(context: RunContext, timing: RunPlan) -> Refresh | None:
    """What the run of a scheduled view with this ``timing`` is for; None without a schedule."""
    if context.options.refresh.on_commit:
        return None
    return Refresh(timing.time, own=timing.begins, late=timing.time != context.invocation.time)


def _policy(context: RunContext, state: ShardState) -> str:
    replaced = context.invocation.full_refresh or state.dropped is not None
    return "apply" if replaced else context.options.on_configuration_change


def _timing(context: RunContext, definition: Definition, state: ShardState) -> tuple[bool, RunPlan]:
    """Whether the definition takes effect now, and the timing."""
    invocation = context.invocation
    redefined = not invocation.empty and definition.replaces(_policy(context, state), state)
    timing = run_timing(
        context.options.refresh,
        invocation.time,
        state,
        full_refresh=invocation.full_refresh,
        redefined=redefined,
    )
    return redefined, timing


def _checked(
    context: RunContext, definition: Definition, handle: WriteHandle, state: ShardState
) -> tuple[bool, RunPlan]:
    """Whether the definition takes effect now, and the timing. A shard without an owner becomes the
    model's.
    """
    invocation, options = context.invocation, context.options
    if not options.adopt:
        definition.check_owner(context.model, handle.uri, state)
    definition.check_sample(context.model, state)
    redefined, timing = _timing(context, definition, state)
    if invocation.empty:
        return False, timing
    warning = definition.check_changes(context.model, _policy(context, state), state, timing)
    if warning:
        warn(f"{context.model}: {warning}")
    # a shard to adopt keeps its owner until it is written
    if not context.read_only and OWNER not in state.properties:
        in_its_place = (
            handle.uri == f"{context.shard_root}/{context.relation.schema}/{context.relation.identifier}"
        )
        relation = {} if in_its_place else ShownAs(context.model).properties()
        handle.set_properties({OWNER: definition.properties()[OWNER], **relation})
    return redefined, timing
