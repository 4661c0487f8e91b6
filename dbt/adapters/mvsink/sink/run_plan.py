"""The plan of a run: its write time, the shard's next upper, and whether a generation begins. Pure.

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

Columns that are only added, or get a wider type (`shard.widens`), need no new generation if the
shard has a history to keep: they are changed in place. Other changes of columns are a new
generation. If that would end more than a day of history, it is refused, unless `on_schema_change`
is `new_generation`; then the old generation stays readable for `retain_history`.

`mvsink plan --against` runs models in temporary schemas, where every run is a first load, so
policies that depend on the previous contents do not apply there: `forecast` applies them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.engine import Column, shard_columns
from dbt.adapters.mvsink.refresh_schedule import RefreshSpec, decide
from dbt.adapters.mvsink.shard import Antichain, Commit, DataFile, ShardState, compaction_due, widens
from dbt.adapters.mvsink.shard_sql import Counts, creation_of
from dbt.adapters.mvsink.sink.errors import GateFailed, HistoryWouldEnd, NeverRefreshed, SchemaChanged
from dbt.adapters.mvsink.sink.gate import check_change
from dbt.adapters.mvsink.sink.request import OnSchemaChange, SinkRequest
from dbt.adapters.mvsink.sink.round import DEFINITION_CHANGED, DROPPED, FULL_REFRESH, RunPlan

START = Antichain.of(0)
History = Callable[[], Sequence[Commit]]  # the shard's commits, oldest first, as far as the log goes


def run_timing(
    refresh: RefreshSpec,
    time: int,
    state: ShardState | None,
    *,
    full_refresh: bool = False,
    redefined: bool = False,
) -> RunPlan:
    """The plan of a run at ``time`` (ms), except for columns; ``state`` is None if there is no
    shard.

    With ``redefined``, a changed definition takes effect at once. Raises `NeverRefreshed` if a
    shard would never have contents.
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
    """The plan of ``request``. Raises `NeverRefreshed`, and `SchemaChanged` if changed columns fail
    the run.
    """
    plan = run_timing(
        request.refresh, request.time, state, full_refresh=request.full_refresh, redefined=request.redefined
    )  # fmt: skip
    if plan.generation not in ("", DEFINITION_CHANGED):
        return plan
    changes = column_changes(request, state)
    # like any correction, a change of columns waits for the next refresh
    if plan.generation or plan.time is None or not changes:
        return plan
    evolved = evolved_columns(request, state)
    if evolved:
        return replace(plan, evolved=evolved)
    return replace(plan, generation=f"columns changed ({'; '.join(changes)})")


def evolved_columns(request: SinkRequest, state: ShardState) -> tuple[Column, ...]:
    """The query's columns that the shard lacks, or has with a narrower type, in order; none if the
    columns differ in another way too, or if the shard has no history to keep.
    """
    stored = {column.name: column.type.arrow() for column in shard_columns(state.schema)}
    wanted = wanted_columns(request, state)
    added = [column for column in wanted if column.name not in stored]
    wider = [c for c in wanted if c.name in stored and widens(stored[c.name], c.type.arrow())]
    changes = schema_changes(shard_columns(state.schema), wanted)
    # names differ by more than case
    distinct = {name.lower() for name in stored}.isdisjoint(column.name.lower() for column in added)
    in_place = state.readable and distinct and len(changes) == len(added) + len(wider)
    return tuple(column for column in wanted if column in added or column in wider) if in_place else ()


def added_and_widened(
    state: ShardState, evolved: tuple[Column, ...]
) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """The ``evolved`` columns that ``state`` lacks, and the others."""
    names = set(state.schema.names)
    new = tuple(column for column in evolved if column.name not in names)
    return new, tuple(column for column in evolved if column.name in names)


def column_changes(request: SinkRequest, state: ShardState) -> list[str]:
    """How the query's columns differ from the shard's; raises `SchemaChanged` or `HistoryWouldEnd`
    if that fails the run.
    """
    changes = schema_changes(shard_columns(state.schema), wanted_columns(request, state))
    if not changes:
        return changes
    if request.on_schema_change is OnSchemaChange.FAIL:
        raise SchemaChanged(changes)
    since, history = state.since.stored(), history_to_end(request, state)
    replaces = not (request.full_refresh or state.dropped is not None or evolved_columns(request, state))
    allowed = request.on_schema_change is OnSchemaChange.NEW_GENERATION
    if replaces and not allowed and history > limits.HISTORY_TO_END:
        raise HistoryWouldEnd(changes, since, history)
    return changes


def history_to_end(request: SinkRequest, state: ShardState) -> int:
    """How much history (ms) a new generation would end: the readable times up to the run's, as far
    as the run would keep them otherwise. The upper of a schedule is ahead of that; 0 without
    contents.
    """
    if not state.readable:
        return 0
    upper, now = state.upper.as_option(), request.time + 1
    newest = now if upper is None else min(upper, now)
    return max(0, min(newest - state.since.stored(), request.retain_history))


def wanted_columns(request: SinkRequest, state: ShardState) -> tuple[Column, ...]:
    """The columns that the shard should have: the query's and, with `append_new_columns`, old ones
    too.
    """
    if request.on_schema_change is not OnSchemaChange.APPEND_NEW_COLUMNS:
        return request.columns
    names = {column.name for column in request.columns}
    lost = tuple(column for column in shard_columns(state.schema) if column.name not in names)
    return (*request.columns, *lost)


def schema_changes(stored: tuple[Column, ...], wanted: tuple[Column, ...]) -> list[str]:
    """The differences between a shard's columns and a query's, in words. Their order does not
    count.
    """
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

    If nothing is written, the time of the newest update in the files' statistics, which is never
    later, serves as the newest write time.
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
    if plan.evolved:
        return state.files
    staged = DataFile("table/staged/part.parquet", 0, updates, min_time=plan.time, max_time=plan.time)
    files = (*state.files, staged) if updates else state.files
    due = compaction_due(
        replace(state, files=files, upper=plan.upper, since=next_since(request, state, plan))
    )
    return () if due is None else tuple(file for file in due.files if file is not staged)


# an upper ahead of the clock


def ahead_of_clock(
    request: SinkRequest, plan: RunPlan, upper: Antichain, history: History
) -> tuple[bool, str]:
    """Whether ``upper`` is the next refresh of a run whose own time was not ahead of the clock. If
    not, also the warning about an upper ahead of the clock, or "".

    The refresh may belong to this schedule, or to one that the model had earlier; then the commit's
    ``computed_through`` shows the run's time.
    """
    now = request.clock + limits.AHEAD_OF_CLOCK
    schedule = request.refresh.schedule(plan.creation)
    if not schedule.on_commit and upper.less_equal(schedule.frontier_after(now)):
        return True, ""
    option = upper.as_option()
    if option is not None and option <= now:
        return False, ""
    # the newest commit that moved the upper there; None if the log no longer has it
    mover = next((commit for commit in reversed(history()) if commit.upper == upper), None)
    if mover is not None and mover.note.computed_through is not None and mover.note.computed_through <= now:
        return True, ""
    if option is None:
        return False, ""
    writer = "a run that is no longer in the log"
    if mover is not None:
        run = mover.note.invocation_id or mover.writer_id
        writer = f"run {run} on {mover.host} (version {mover.version})"
    return False, (
        f"the shard's upper {option} is ahead of the clock ({request.clock}): {writer} had a wrong "
        "clock or a mistyped mvsink_run_time; nothing is written until then. "
        "Remedy: `mvsink rewind`, which keeps history, or --full-refresh"
    )


# a run whose next contents were computed elsewhere


@dataclass(frozen=True)
class ForecastChange:
    """From contents of ``before`` rows to ``after`` rows; ``inserted`` and ``deleted`` count rows
    over the columns that both have.
    """

    before: int
    after: int
    inserted: int
    deleted: int


@dataclass(frozen=True)
class Forecast:
    """What a run would do. ``generation`` says why all contents would be replaced, and is empty if
    they would not; then ``added`` columns are added in place, and those of ``retyped``, which has
    the old and new types, are widened in place. ``removed`` are columns, too.
    ``gate`` says whether the publish gate lets the change through (None without a gate or a change)
    and ``gate_message`` why not. ``error`` says why the run would fail.
    """

    generation: str = ""
    added: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    retyped: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    gate: bool | None = None
    gate_message: str = ""
    error: str = ""


def forecast(request: SinkRequest, state: ShardState, change: ForecastChange) -> Forecast:
    """What ``request`` would do to the shard in ``state``, judging by its columns, gate and
    policies. Audits are not run again: they passed in the temporary schemas.
    """
    try:
        changes = column_changes(request, state)
    except (SchemaChanged, HistoryWouldEnd) as error:
        return Forecast(error=str(error))
    in_place = bool(evolved_columns(request, state))
    generation = f"columns changed ({'; '.join(changes)})" if changes and not in_place else ""
    stored = {column.name: column.type.text for column in shard_columns(state.schema)}
    wanted = {column.name: column.type.text for column in wanted_columns(request, state)}
    altered = Forecast(
        generation,
        {name: kind for name, kind in wanted.items() if name not in stored},
        tuple(name for name in stored if name not in wanted),
        {name: (stored[name], kind) for name, kind in wanted.items() if stored.get(name, kind) != kind},
    )
    return _gated_forecast(request, change, altered)


def _gated_forecast(request: SinkRequest, change: ForecastChange, altered: Forecast) -> Forecast:
    gate, replaces = request.gate, bool(altered.generation or altered.added or altered.retyped)
    counts = Counts(change.after, change.before) if replaces else Counts(change.inserted, change.deleted)
    if not gate.is_active or counts.nothing:
        return altered
    message = ""
    if gate.max_change is not None and gate.counts_changes:
        try:
            check_change(gate.max_change, request.model, counts, change.before, replaces)
        except GateFailed as error:
            message = str(error)
    return replace(altered, gate=not message, gate_message=message)
