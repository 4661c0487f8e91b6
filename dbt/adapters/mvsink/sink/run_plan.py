"""The plan of a run: when it writes, where the upper goes, whether a generation begins. Pure.

A shard that waits for its first refresh has no contents to read, so ``since`` = ``upper`` = that
refresh; the commit that writes it moves the upper past it. A readable shard stays readable: only a
shard that was never written, or was dropped, waits for its first refresh. A full refresh and a
changed definition write at ``T`` itself.

| shard | the run is | writes at | a new generation |
|---|---|---|---|
| none, or dropped | its creation | the creation, if that is a refresh | if it was dropped |
| without contents | `--full-refresh` | as above, if the upper was raised | yes |
| readable | `--full-refresh` | `T` | yes |
| readable, scheduled or finished | of another definition | `T` | yes |
| any | anything else | the newest refresh in `[upper, T]` | if one is due and columns differ |

Columns that are only added need no new generation if the shard has a history to keep: they are
added in place. With a publish gate a change of columns is a new generation, because the gate comes
before every commit and its audits need the columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dbt.adapters.mvsink.engine import Column, shard_columns
from dbt.adapters.mvsink.refresh_schedule import RefreshSpec, decide
from dbt.adapters.mvsink.shard import Antichain, DataFile, ShardState, compaction_due
from dbt.adapters.mvsink.shard_sql import creation_of
from dbt.adapters.mvsink.sink.errors import NeverRefreshed, SchemaChanged
from dbt.adapters.mvsink.sink.request import OnSchemaChange, SinkRequest

DROPPED, FULL_REFRESH, DEFINITION_CHANGED = "dropped before", "full refresh", "definition changed"
START = Antichain.of(0)


@dataclass(frozen=True)
class RunPlan:
    """``time``: the write time in ms, None if no refresh is due. ``upper``: the shard's next upper.

    ``creation``: the logical time (ms) at which the generation began. ``generation``: why all
    contents are replaced, empty if they are not. ``begins``: the commit records the creation.
    ``added``: columns that the shard gets before it is written.
    """

    creation: int
    time: int | None
    upper: Antichain
    generation: str = ""
    begins: bool = False
    added: tuple[Column, ...] = ()


def run_timing(
    refresh: RefreshSpec,
    time: int,
    state: ShardState | None,
    *,
    full_refresh: bool = False,
    redefined: bool = False,
) -> RunPlan:
    """The plan of a run at ``time`` (ms) apart from columns; ``state`` is None without a shard.

    ``redefined``: a changed definition takes effect at once. Raises `NeverRefreshed` if a shard
    would never have contents.
    """
    if state is None:
        return _created(refresh, time)
    if state.dropped is not None:
        return replace(_created(refresh, time), generation=DROPPED)
    if state.readable and (full_refresh or redefined):
        reason = FULL_REFRESH if full_refresh else DEFINITION_CHANGED
        return RunPlan(time, time, refresh.schedule(time).frontier_after(time), reason, begins=True)
    if full_refresh and state.upper != START:
        return replace(_created(refresh, time), generation=FULL_REFRESH)
    if not state.readable and state.creation is None:
        return _created(refresh, time, state.upper)
    return _continued(refresh, creation_of(state), state.upper, time, readable=state.readable)


def _created(refresh: RefreshSpec, time: int, upper: Antichain = START) -> RunPlan:
    return replace(_continued(refresh, time, upper, time, readable=False), begins=True)


def _continued(
    refresh: RefreshSpec, creation: int, upper: Antichain, time: int, *, readable: bool
) -> RunPlan:
    schedule = refresh.schedule(creation)
    due, frontier = decide(schedule, creation, upper, time)
    if due is None and frontier.is_empty() and not readable:
        raise NeverRefreshed(schedule.last_refresh(), time)
    return RunPlan(creation, due, frontier)


def planned(request: SinkRequest, state: ShardState) -> RunPlan:
    """The plan of ``request``. Raises `NeverRefreshed`; `SchemaChanged` if that fails the run."""
    plan = run_timing(
        request.refresh, request.time, state, full_refresh=request.full_refresh, redefined=request.redefined
    )  # fmt: skip
    if plan.generation not in ("", DEFINITION_CHANGED):
        return plan
    changes = column_changes(request, state)
    # like any correction, a change of columns waits for the next refresh
    if plan.generation or plan.time is None or not changes:
        return plan
    added = added_columns(request, state)
    if added and state.readable and not request.gate.is_active:
        return replace(plan, added=added)
    return replace(plan, generation=f"columns changed ({'; '.join(changes)})")


def added_columns(request: SinkRequest, state: ShardState) -> tuple[Column, ...]:
    """The query's columns that the shard lacks, in order; none if anything else differs too."""
    stored = shard_columns(state.schema)
    names = {column.name for column in stored}
    added = tuple(column for column in wanted_columns(request, state) if column.name not in names)
    alone = len(schema_changes(stored, wanted_columns(request, state))) == len(added)
    # names differ by more than case
    distinct = {name.lower() for name in names}.isdisjoint(column.name.lower() for column in added)
    return added if alone and distinct else ()


def column_changes(request: SinkRequest, state: ShardState) -> list[str]:
    """How the query's columns differ from the shard's; `SchemaChanged` if that fails the run."""
    changes = schema_changes(shard_columns(state.schema), wanted_columns(request, state))
    if changes and request.on_schema_change is OnSchemaChange.FAIL:
        raise SchemaChanged(changes)
    return changes


def wanted_columns(request: SinkRequest, state: ShardState) -> tuple[Column, ...]:
    """The columns the shard should have: the query's; with `append_new_columns` old ones too."""
    if request.on_schema_change is not OnSchemaChange.APPEND_NEW_COLUMNS:
        return request.columns
    names = {column.name for column in request.columns}
    lost = tuple(column for column in shard_columns(state.schema) if column.name not in names)
    return (*request.columns, *lost)


def schema_changes(stored: tuple[Column, ...], wanted: tuple[Column, ...]) -> list[str]:
    """The differences between a shard's columns and a query's, in words. Order is no difference."""
    before = {column.name: column.type.text for column in stored}
    after = {column.name: column.type.text for column in wanted}
    changes = [f"`{name}` {kind} is new" for name, kind in after.items() if name not in before]
    changes += [f"`{name}` is gone" for name in before if name not in after]
    changes += [
        f"`{name}` was {before[name]}, is {kind}"
        for name, kind in after.items()
        if before.get(name, kind) != kind
    ]
    return changes


def next_since(request: SinkRequest, state: ShardState, plan: RunPlan) -> Antichain:
    """The shard's next since: it trails the run's time by ``retain_history``, never passes the
    newest write time, and never moves back.

    If nothing is written, the newest update in the files' statistics, which is not later, is taken
    for the newest write time.
    """
    newest = plan.time
    if newest is None:
        times = [
            file.max_time for file in state.files if file.batch_id is not None and file.max_time is not None
        ]
        newest = max((time for time in times if not state.upper.less_equal_time(time)), default=0)
    trailing = max(0, request.time + 1 - request.retain_history)
    return state.since.join(Antichain.of(min(trailing, newest)))


def compacted_after(
    request: SinkRequest, state: ShardState, plan: RunPlan, updates: int
) -> tuple[DataFile, ...]:
    """The live files that would be compacted after the plan's append of ``updates`` updates."""
    if plan.generation or not state.readable:
        return ()
    if plan.added:
        return state.files
    staged = DataFile("batches/staged/part.parquet", 0, updates, min_time=plan.time, max_time=plan.time)
    files = (*state.files, staged) if updates else state.files
    due = compaction_due(
        replace(state, files=files, upper=plan.upper, since=next_since(request, state, plan))
    )
    return () if due is None else tuple(file for file in due.files if file is not staged)
