"""Purge: rows leave a shard for good, with every update that ever had them.

```
contents   the rows that satisfy the condition are removed, by an ordinary append, so that readers
           of changes see them go; or, where no time is free for one (tasks, schedules), by a new
           generation without them
history    is given up as far as an update has such a row; it begins after the last of them
files      are compacted to the times that are left, so that what cancels out is in none of them
```

Each step repeats harmlessly: a purge that was killed is completed by the next one. Old files are
collected afterwards (`materialization.purged_model`). The condition is evaluated by the engine over
the files' own updates, before and after, so what is left is known and not assumed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dbt.adapters.mvsink import failpoints, limits
from dbt.adapters.mvsink.engine import DataflowError, Engine, sql
from dbt.adapters.mvsink.engine.timing import Stopwatch
from dbt.adapters.mvsink.engine.whole_rows import net
from dbt.adapters.mvsink.inputs.version_binding import companions_key, companions_of
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, TIME
from dbt.adapters.mvsink.refresh_schedule import RefreshSpec, decide
from dbt.adapters.mvsink.shard import (
    Antichain,
    Batch,
    CommitNote,
    CompactionPlan,
    ShardState,
    WriteHandle,
    cancelled_among,
)
from dbt.adapters.mvsink.shard.batch import BatchState
from dbt.adapters.mvsink.shard.directories import uncancelled
from dbt.adapters.mvsink.shard_sql import BatchDescription, Layout, creation_of
from dbt.adapters.mvsink.shard_sql.append import Append
from dbt.adapters.mvsink.shard_sql.rewrite import Upkeep, compact, one_owner, stage
from dbt.adapters.mvsink.shard_sql.stager import Stager
from dbt.adapters.mvsink.sink.undoing import after_undo, undo_updates


class LostToOthers(DataflowError):
    """Other runs kept committing while the rows were purged."""

    error_code = "MVS-311"

    def __init__(self) -> None:
        super().__init__("other runs committed while it was being purged: purge it again")


@dataclass(frozen=True)
class PurgeRequest:
    """``where``: SQL over the columns, of the rows to purge; empty to purge no contents. ``before``
    (ms): history before it is given up in any case. ``time`` is now (ms). ``appends`` is whether
    the contents may be changed by an append; a task's may not, because its upper is how far it has
    processed its input.

    ``despite_readers`` gives up history that holds and leases keep.
    """

    model: str
    time: int
    by: str
    where: str = ""
    before: int | None = None
    refresh: RefreshSpec = RefreshSpec()
    appends: bool = True
    despite_readers: bool = False
    invocation_id: str = ""


@dataclass(frozen=True)
class Matches:
    """How many ``updates`` of a shard's files are to go, the time (ms) of the ``last`` one, and how
    many rows of the newest contents. ``errors`` is how many of those updates are errors, whose
    messages may quote the rows.
    """

    updates: int = 0
    last: int | None = None
    contents: int = 0
    errors: int = 0


@dataclass(frozen=True)
class Purged:
    """What a purge did. History begins at ``since`` (ms) now, and did ``before``; ``through`` (ms)
    is the time up to which it had to go. ``renewed`` says that a new generation has begun. ``left``
    is what the files still have.
    """

    matches: Matches
    before: int
    since: int
    through: int
    renewed: bool = False
    left: Matches = Matches()


def matches(request: PurgeRequest, shard: Layout, engine: Engine) -> Matches:
    """What the shard's files have of the rows to purge."""
    if not request.where:
        return Matches()
    whole = shard.with_past()
    if whole.empty:
        return Matches()
    wanted = f"({request.where}\n)"  # a comment at its end must not reach the parenthesis
    rows = whole.updates(f"{TIME}, 0L e", f"{ERROR} is null and {wanted}")
    errors = whole.updates(f"{TIME}, 1L e", f"{ERROR} is not null")
    query = f"select count(*), max({TIME}), coalesce(sum(e), 0L) from (\n{sql.union_all([rows, errors])}\n)"
    [[updates, last, wrong]] = engine.query(query, "purge: updates")
    now = shard.updates(DIFF, f"{ERROR} is null and {wanted}") if not shard.empty else f"select 0L {DIFF}"
    [[contents]] = engine.query(f"select coalesce(sum({DIFF}), 0L) from (\n{now}\n)", "purge: contents")
    return Matches(*(int(str(each or 0)) for each in (updates, last, contents, wrong)))


def purge(request: PurgeRequest, handle: WriteHandle, engine: Engine) -> Purged:
    """Purge one shard. Raises `LostToOthers`, and `EngineError` for a condition that cannot be
    evaluated, before anything is written.
    """
    matches(request, Layout.of(handle, handle.state()), engine)  # a wrong condition ends here
    upkeep = Upkeep(engine, handle, Stopwatch(), request.invocation_id)
    state, shard = upkeep.folded(handle.state())
    before, asked = state.since.stored(), matches(request, shard, engine)
    renewed = False
    if asked.contents:
        renewed = _without_rows(request, handle, engine, state, shard)
        failpoints.reach("rows purged")
    state, shard = upkeep.folded(handle.state())
    now = matches(request, shard, engine)
    # what earlier generations have is not counted, so a condition ends all of them
    wanted = max(before, now.last or 0) if request.where else request.before or 0
    wanted = min(wanted, newest_time(state))
    since = handle.give_up_history(Antichain.of(wanted), despite_readers=request.despite_readers)
    through = max(before, wanted)
    failpoints.reach("history given up")
    if now.updates or request.before is not None:
        _settle(engine, handle)
        failpoints.reach("history compacted")
    left = matches(request, Layout.of(handle, handle.state()), engine)
    return Purged(asked, before, since.stored(), through, renewed, left)


def newest_time(state: ShardState) -> int:
    """The newest readable time (ms); of a finished shard that of its last update."""
    upper = state.upper.as_option()
    if upper is not None:
        return max(upper - 1, 0)
    return max([state.since.stored(), *(file.max_time or 0 for file in state.files)])


def _without_rows(
    request: PurgeRequest, handle: WriteHandle, engine: Engine, state: ShardState, shard: Layout
) -> bool:
    """Remove the rows from the contents. Whether a new generation began for it."""
    items = f"{sql.columns(shard.names)}, {ERROR}"
    rows = shard.updates(f"{items}, {DIFF}", f"{ERROR} is null and ({request.where}\n)")
    chosen = net(shard.columns, [ERROR], rows, "<> 0")
    negated = f"select {items}, -{DIFF} {DIFF} from (\n{chosen}\n)"
    due = time_for(request, state)
    if due is not None:
        time, upper = due
        _append(request, handle, engine, shard, negated, time, BatchDescription(state.upper, upper))
        return False
    _renew(request, handle, engine, state, shard, negated)
    return True


def time_for(request: PurgeRequest, state: ShardState) -> tuple[int, Antichain] | None:
    """The time (ms) of the append that removes the rows, and the upper after it. None if no time is
    free for one: then a new generation begins.
    """
    creation = creation_of(state)
    due = decide(request.refresh.schedule(creation), creation, state.upper, request.time)
    return None if due.time is None or not request.appends else (due.time, due.upper)


def _append(
    request: PurgeRequest,
    handle: WriteHandle,
    engine: Engine,
    shard: Layout,
    negated: str,
    time: int,
    description: BatchDescription,
) -> None:
    """Append what removes the rows, at ``time`` (ms). Raises `LostToOthers`."""
    stager = Stager(engine, handle, request.model)
    updates = undo_updates(shard, after_undo(shard, negated), time)
    batch = stager.adopt(stager.stage(updates, "purge"), description)
    if batch is None:
        return
    try:
        note = replace(_note(request), rows_deleted=stager.counts(batch).deleted)
        failpoints.reach("purge staged")
        if Append(handle, request.model).append(batch, description, handle.state().since, note) is None:
            raise LostToOthers
    finally:
        if batch.state is BatchState.STAGED:
            batch.delete()


def _renew(
    request: PurgeRequest,
    handle: WriteHandle,
    engine: Engine,
    state: ShardState,
    shard: Layout,
    negated: str,
) -> None:
    """Begin a generation that has the newest contents without the rows, at the same time: no time
    is free for an append. A task goes on with the companions of its inputs.
    """
    items = f"{sql.columns(shard.names)}, {ERROR}, {DIFF}"
    rows = sql.union_all([shard.updates(items), f"select {items} from (\n{negated}\n)"])
    hashed = f"select {sql.columns(shard.names)}, {ERROR}, {shard.hash_of()} {HASH}, {DIFF} from (\n{rows}\n)"
    time = newest_time(state)
    names = sql.columns(shard.names)
    whole = one_owner(shard, hashed, f"{sql.bigint(time)} {TIME}", names)
    plain = f"{ERROR} is null and {HASH} is not null and {DIFF} > 0"
    before = companions_of(handle.progress, state.generation)
    companions = {} if request.appends else {companions_key(state.generation + 1): before}
    batches: list[Batch] = []
    try:
        for part in (plain, f"not ({plain})"):
            query = f"select * from (\n{whole}\n) where {part}"
            batch = stage(engine, handle, query, Antichain.of(0), Antichain.of(time + 1), "purge")
            batches += [] if batch is None else [batch]
        failpoints.reach("purge staged")
        handle.replace(
            batches,
            state.schema,
            state.upper,
            Antichain.of(time),
            note=_note(request),
            expected_version=state.version,
            inputs=companions,
        )
    except BaseException:
        for batch in batches:
            if batch.state is BatchState.STAGED:
                batch.delete()
        raise


def _note(request: PurgeRequest) -> CommitNote:
    """The commit's note. It has no word of the condition, which names what must be forgotten."""
    return CommitNote(purpose=f"purge; by {request.by}", invocation_id=request.invocation_id)


def _settle(engine: Engine, handle: WriteHandle) -> None:
    """Compact all files at `since`. Raises `LostToOthers`."""
    for _ in range(limits.PURGE_ROUNDS):
        state = handle.state()
        shard = Layout.of(handle, state)
        if shard.loose:  # another tool's, since they were folded in
            raise LostToOthers
        groups = cancelled_among(state.files)
        gone = tuple(file for group in groups if state.since.stored() >= group.time for file in group.files)
        if not gone and shard.directories == ((shard.base,) if shard.base else ()):
            return
        plan = CompactionPlan(uncancelled(state.files), state.since, cancelled=gone)
        if compact(engine, handle, plan, shard):
            return
    raise LostToOthers
