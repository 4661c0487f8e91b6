"""Undo: one commit that takes back what some runs did.

```
effect the net updates of the runs' intervals, added up by row, their times forgotten present the
newest contents undo the effect, negated, at a new time, provided that present - effect has no row
fewer than 0 times
```

The undo is a correction like any other: it is staged, checked by the gate, and appended by one
compare-and-append at the upper for which everything was computed. Nothing is evaluated. Progress is
not recorded, so the next run evaluates the query again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.engine import DataflowError, Engine, sql
from dbt.adapters.mvsink.engine.whole_rows import net
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, TIME
from dbt.adapters.mvsink.refresh_schedule import RefreshSpec, decide
from dbt.adapters.mvsink.shard import Antichain, Batch, CommitNote, ShardState, WriteHandle
from dbt.adapters.mvsink.shard.batch import BatchState
from dbt.adapters.mvsink.shard_sql import BatchDescription, Counts, Layout, as_of, creation_of
from dbt.adapters.mvsink.shard_sql.append import Append
from dbt.adapters.mvsink.shard_sql.properties import Pause, pause, pause_of, release_pause
from dbt.adapters.mvsink.shard_sql.stager import Stager
from dbt.adapters.mvsink.sink.correction import BASE, persisted
from dbt.adapters.mvsink.sink.errors import GateFailed, MaxChangeExceeded
from dbt.adapters.mvsink.sink.gate import Contents, Gate, check, would_be

UNDO = "_mv_undo"


class NotYet(DataflowError):
    """The contents until the upper are final already: a schedule, or a run ahead of the clock."""

    error_code = "MVS-308"

    def __init__(self, upper: Antichain):
        end = upper.as_option()
        until = "for ever: the model is finished" if end is None else f"until {iso(end)}"
        later = "" if end is None else "; `mvsink hold` pauses the model meanwhile"
        super().__init__(f"cannot be undone now: its contents are final {until}{later}")


class ChangedMeanwhile(DataflowError):
    """Another run committed while the undo was computed. Nothing was written."""

    error_code = "MVS-309"

    def __init__(self) -> None:
        super().__init__("another run changed it while the undo was computed; nothing was written: try again")


class TakenAway(DataflowError):
    """``copies`` copies of ``rows`` rows of the effect are no longer there: later runs removed
    them.
    """

    error_code = "MVS-310"

    def __init__(self, rows: int, copies: int):
        super().__init__(
            f"{rows} row(s) would be there fewer than 0 times ({copies} copies in all): a later run has already removed them. Undo that run "
            "too, or everything since (--since)"
        )
        self.rows, self.copies = rows, copies


@dataclass(frozen=True)
class UndoRequest:
    """``intervals`` are the times ``[lower, upper)`` (ms) of the runs to undo; ``time`` is now
    (ms). ``reason`` is the text for the history, and ``pause`` is the pause that the model gets
    before the commit. With ``dry_run``, nothing is written.
    """

    model: str
    intervals: tuple[tuple[int, int], ...]
    time: int
    reason: str
    pause: Pause
    refresh: RefreshSpec = RefreshSpec()
    gate: Gate = Gate()
    invocation_id: str = ""
    dry_run: bool = False


@dataclass(frozen=True)
class Undone:
    """What an undo changes. ``time`` is its write time (ms). ``missing`` counts rows that would be
    there fewer than 0 times. ``gate`` says why the gate refuses it, or is empty; ``warnings`` are
    those of audits. ``committed`` says whether it was committed.
    """

    counts: Counts
    time: int
    missing: int = 0
    gate: str = ""
    warnings: tuple[str, ...] = ()
    committed: bool = False


def negated_effect(shard: Layout, intervals: Sequence[tuple[int, int]]) -> str:
    """The query of the updates that take back those of ``intervals``: columns, `_mv_error`,
    `_mv_diff`.
    """
    items = f"{sql.columns(shard.names)}, {ERROR}"
    updates = [
        f"select {items}, {DIFF} from (\n{as_of.updates_between(shard, lower, upper)}\n)"
        for lower, upper in intervals
    ]
    effect = net(shard.columns, [ERROR], sql.union_all(updates), "<> 0")
    return f"select {items}, -{DIFF} {DIFF} from (\n{effect}\n)"


def after_undo(shard: Layout, negated: str) -> str:
    """The rows of the effect as they would be: columns, `_mv_error`, `_mv_hash`, `_mv_diff` (the
    copies after the undo), `_mv_undo` (the change), `_mv_base` and `_mv_owners` (see `correction`).

    Only rows that share a hash with a row of the effect are added up.
    """
    names = sql.columns(shard.names)
    items = f"{names}, {ERROR}, {HASH}, {DIFF}, {BASE}"
    hashed = f"select {names}, {ERROR}, {shard.hash_of()} {HASH}, {DIFF} from (\n{negated}\n)"
    terms = [f"select *, 0L {BASE}, {DIFF} {UNDO} from (\n{hashed}\n)"]
    present = persisted(shard)
    if present is not None:
        terms.append(f"select {items}, 0L {UNDO} from (\n{present}\n)")
    concerned = (
        f"select _mv_rows.* from (\n{sql.union_all(terms)}\n) _mv_rows "
        f"left semi join (select {HASH} h from (\n{hashed}\n)) _mv_scope on _mv_scope.h = _mv_rows.{HASH}"
    )
    rows = net(shard.columns, [ERROR, HASH], concerned, sums=[BASE, UNDO])
    return f"select *, count(*) over (partition by {HASH}) _mv_owners from (\n{rows}\n)"


def missing(after: str) -> str:
    """The query of one row: how many rows would be there fewer than 0 times, and how many copies
    are missing.
    """
    return f"select count(*), coalesce(sum(-{DIFF}), 0L) from (\n{after}\n) where {DIFF} < 0"


def undo(request: UndoRequest, handle: WriteHandle, engine: Engine) -> Undone:
    """Undo the runs. With ``dry_run``, the result says what would happen.

    Raises `NotReadable` for history that is gone, `NotYet`, `TakenAway`, `GateFailed`, and
    `ChangedMeanwhile`.
    """
    state = handle.state()
    for lower, upper in request.intervals:
        as_of.check_changes(state, lower, upper)
    creation = creation_of(state)
    due = decide(request.refresh.schedule(creation), creation, state.upper, request.time)
    if due.time is None:
        raise NotYet(state.upper)
    shard = Layout.of(handle, state)
    after = after_undo(shard, negated_effect(shard, request.intervals))
    [[rows, copies]] = engine.query(missing(after), "check the undo")
    absent = int(str(rows))
    if absent and not request.dry_run:
        raise TakenAway(absent, int(str(copies)))
    description = BatchDescription(state.upper, due.upper)
    stager = Stager(engine, handle, request.model)
    batch = stager.adopt(stager.stage(undo_updates(shard, after, due.time), "undo"), description)
    if batch is None:
        return Undone(Counts(), due.time, absent)
    try:
        undone = Undone(stager.counts(batch), due.time, absent)
        if request.dry_run:
            return _previewed(request, engine, shard, batch, undone)
        undone = _checked(request, engine, shard, batch, undone)
        _commit(request, handle, state, batch, description, undone.counts)
        return replace(undone, committed=True)
    finally:
        if batch.state is BatchState.STAGED:
            batch.delete()


def undo_updates(shard: Layout, after: str, time: int) -> str:
    """The change as updates at ``time`` (ms), with hashes where readers may use them."""
    items = f"{sql.columns(shard.names)}, {sql.bigint(time)} {TIME}, {UNDO} {DIFF}, {ERROR}"
    hashed = f"if(_mv_owners = 1 and {BASE} < 2, {HASH}, cast(null as bigint)) {HASH}"
    return f"select {items}, {hashed} from (\n{after}\n) where {UNDO} <> 0"


def _checked(request: UndoRequest, engine: Engine, shard: Layout, batch: Batch, undone: Undone) -> Undone:
    """``undone`` with the gate's warnings. Raises `GateFailed`."""
    contents = Contents(would_be(shard, batch))
    passed = check(request.gate, engine, request.model, undone.counts, shard, False, contents)
    return replace(undone, warnings=tuple(passed.warnings))


def _previewed(request: UndoRequest, engine: Engine, shard: Layout, batch: Batch, undone: Undone) -> Undone:
    try:
        return _checked(request, engine, shard, batch, undone)
    except MaxChangeExceeded as error:
        return replace(undone, gate=error.broken)
    except GateFailed as error:
        return replace(undone, gate=str(error))


def _commit(
    request: UndoRequest,
    handle: WriteHandle,
    state: ShardState,
    batch: Batch,
    description: BatchDescription,
    counts: Counts,
) -> None:
    """Pause the model, then append: even if this process ends in between, no run writes the rows
    again.
    """
    note = CommitNote(
        rows_inserted=counts.inserted,
        rows_deleted=counts.deleted,
        purpose=f"{request.reason}; by {request.pause.by}",
        invocation_id=request.invocation_id,
    )
    before = pause_of(state)
    pause(handle, request.pause)
    done = None
    try:
        done = Append(handle, request.model).append(batch, description, state.since, note)
    finally:
        if done is None:
            _restore(handle, before, request.pause.by)
    if done is None:
        raise ChangedMeanwhile


def _restore(handle: WriteHandle, before: Pause | None, by: str) -> None:
    """Restore the pause as it was before."""
    if before is None:
        release_pause(handle, by)
    else:
        pause(handle, before)
