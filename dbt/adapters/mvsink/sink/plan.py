"""The plan of a run: at what time it writes, where the upper goes, and whether it begins a new
generation. Pure.

Without contents there is nothing to read, so a shard that waits for its first refresh has ``since``
= ``upper`` = that refresh; the commit that writes it moves the upper past. What is readable stays
so: only a shard that was never written, or was dropped, waits for its first refresh. A full refresh
and a changed definition write at ``T`` itself.

| shard | the run is | writes at | a new generation |
|---|---|---|---|
| none, or dropped | its creation | the creation, if that is a refresh | if it was dropped |
| without contents | `--full-refresh` | as above, if the upper was raised | yes |
| readable | `--full-refresh` | `T` | yes |
| readable, scheduled or finished | of another definition | `T` | yes |
| any | anything else | the newest refresh not after `T`, not before the upper | if one is due and the columns differ |

Columns that only come are no reason for a new generation where there is a history to keep: they are
added in place. A publish gate stands before every commit and cannot be passed before the columns
are there, so with one a change of columns is a generation.
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
class Plan:
    """``time``: the write time in ms, None if no refresh is due. ``upper``: where the shard's upper
    goes.

    ``creation``: the logical time at which the generation began. ``generation``: why all contents
    are replaced, empty if they are not. ``begins``: the commit is to tell the creation. ``added``:
    columns that the shard gets before it is written.
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
) -> Plan:
    """The plan of a run at ``time``, but for its columns; ``state`` is None where there is no shard
    yet.

    ``redefined``: a changed definition is to take effect at once. Raises `NeverRefreshed` if a
    shard would never have contents.
    """
    if state is None:
        return _created(refresh, time)
    if state.dropped is not None:
        return replace(_created(refresh, time), generation=DROPPED)
    if state.readable and (full_refresh or redefined):
        reason = FULL_REFRESH if full_refresh else DEFINITION_CHANGED
        return Plan(time, time, refresh.schedule(time).frontier_after(time), reason, begins=True)
    if full_refresh and state.upper != START:
        return replace(_created(refresh, time), generation=FULL_REFRESH)
    if not state.readable and state.creation is None:
        return _created(refresh, time, state.upper)
    return _going_on(refresh, creation_of(state), state.upper, time, readable=state.readable)


def _created(refresh: RefreshSpec, time: int, upper: Antichain = START) -> Plan:
    return replace(_going_on(refresh, time, upper, time, readable=False), begins=True)


def _going_on(refresh: RefreshSpec, creation: int, upper: Antichain, time: int, *, readable: bool) -> Plan:
    schedule = refresh.schedule(creation)
    due, frontier = decide(schedule, creation, upper, time)
    if due is None and frontier.is_empty() and not readable:
        raise NeverRefreshed(schedule.last_refresh(), time)
    return Plan(creation, due, frontier)


def planned(request: SinkRequest, state: ShardState) -> Plan:
    """The plan of ``request``. Raises `NeverRefreshed`, or `SchemaChanged` where other columns are
    to fail the run.
    """
    plan = run_timing(
        request.refresh, request.time, state, full_refresh=request.full_refresh, redefined=request.redefined
    )  # fmt: skip
    if plan.generation not in ("", DEFINITION_CHANGED):
        return plan
    changes = column_changes(request, state)
    # a repair, as any other: it waits for the next refresh
    if plan.generation or plan.time is None or not changes:
        return plan
    added = added_columns(request, state)
    if added and state.readable and not request.gate.is_active:
        return replace(plan, added=added)
    return replace(plan, generation=f"columns changed ({'; '.join(changes)})")


def added_columns(request: SinkRequest, state: ShardState) -> tuple[Column, ...]:
    """The columns that the query has and the shard has not, in the query's order; none if anything
    else differs too.
    """
    held = shard_columns(state.schema)
    names = {column.name for column in held}
    added = tuple(column for column in wanted_columns(request, state) if column.name not in names)
    alone = len(schema_changes(held, wanted_columns(request, state))) == len(added)
    # names differ by more than case
    anew = {name.lower() for name in names}.isdisjoint(column.name.lower() for column in added)
    return added if alone and anew else ()


def column_changes(request: SinkRequest, state: ShardState) -> list[str]:
    """How the query's columns differ from the shard's, in words. Raises `SchemaChanged` if that is
    to fail the run.
    """
    changes = schema_changes(shard_columns(state.schema), wanted_columns(request, state))
    if changes and request.on_schema_change is OnSchemaChange.FAIL:
        raise SchemaChanged(changes)
    return changes


def wanted_columns(request: SinkRequest, state: ShardState) -> tuple[Column, ...]:
    """The columns that the shard should have: the query's, and with `append_new_columns` those it
    has lost too.
    """
    if request.on_schema_change is not OnSchemaChange.APPEND_NEW_COLUMNS:
        return request.columns
    names = {column.name for column in request.columns}
    lost = tuple(column for column in shard_columns(state.schema) if column.name not in names)
    return (*request.columns, *lost)


def schema_changes(held: tuple[Column, ...], wanted: tuple[Column, ...]) -> list[str]:
    """The differences between a shard's columns and a query's, in words; the order of columns is
    none.
    """
    before = {column.name: column.type.text for column in held}
    after = {column.name: column.type.text for column in wanted}
    changes = [f"`{name}` {kind} is new" for name, kind in after.items() if name not in before]
    changes += [f"`{name}` is gone" for name in before if name not in after]
    changes += [
        f"`{name}` was {before[name]}, is {kind}"
        for name, kind in after.items()
        if before.get(name, kind) != kind
    ]
    return changes


def next_since(request: SinkRequest, state: ShardState, plan: Plan) -> Antichain:
    """Where since goes: it trails the run's time by ``retain_history``, never passes the newest
    write time, never goes back.

    Where nothing is written, the newest update that a file tells of stands for the newest write
    time: it is not later.
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
    request: SinkRequest, state: ShardState, plan: Plan, updates: int
) -> tuple[DataFile, ...]:
    """The live files that would be compacted once so many ``updates`` are appended: with the append
    that the plan describes.
    """
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
