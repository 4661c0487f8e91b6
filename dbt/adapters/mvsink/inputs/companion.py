"""A companion shard: for an input that is not a shard, it records which version or files were bound
to which time.

One `advance` is one binding: the companion's upper moves past the run's time, with new changes
bound at times before it. The replica whose compare-and-append wins decides, so all replicas see the
same version or files at the same time; the losers reload and retry.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from urllib.parse import quote

from dbt.adapters.mvsink.shard import (
    Antichain,
    Batch,
    CommitNote,
    CompactionPlan,
    Maintenance,
    ShardState,
    UpperMismatch,
    WriteHandle,
    perform_maintenance,
)

log = logging.getLogger("mvsink.task")
INPUTS = "_inputs"

Stage = Callable[[ShardState], Sequence[Batch]]
Compact = Callable[[CompactionPlan], object]


def companion_uri(task_uri: str, input_id: str) -> str:
    """The companion's place: below the task's shard. (Readers disagree about a ``%`` in a path.)"""
    return f"{task_uri.rstrip('/')}/{INPUTS}/{quote(input_id, safe='').replace('~', '%7E').replace('%', '~')}"


def advance(handle: WriteHandle, time: int, stage: Stage, compact: Compact) -> None:
    """Bind up to ``time`` (ms), unless another run already has.

    ``stage`` stages what is new since a state, as batches of updates from that state's upper up to
    ``time``. The since follows the holds: no history is released before the first one. A failure
    leaves nothing staged, and the handle expired.
    """
    try:
        _advance(handle, time, stage, compact)
    except BaseException:
        handle.expire()
        raise


def _advance(handle: WriteHandle, time: int, stage: Stage, compact: Compact) -> None:
    upper = Antichain.of(time).step_forward()
    handle.keep_statistics()
    while True:
        state = handle.state()
        if not state.upper.less_equal_time(time):
            return
        since = Antichain.of(time) if state.holds or not state.readable else None
        batches = stage(state)
        note = CommitNote(computed_through=time, purpose=handle.purpose)
        try:
            done = handle.compare_and_append_batch(batches, state.upper, upper, since=since, note=note)
        except UpperMismatch as mismatch:
            log.debug("%s: lower mismatch, bound up to %r by another run", handle.uri, mismatch.current)
            for batch in batches:
                batch.delete()
            continue
        _maintain(handle, done.maintenance, compact)
        return


def _maintain(handle: WriteHandle, maintenance: Maintenance, compact: Compact) -> None:
    """The maintenance that the append requires. A failure is harmless: the next binding does it."""
    try:
        perform_maintenance(handle, maintenance, compact)
    except Exception as error:
        log.debug("%s: maintenance failed and is left to the next run: %s", handle.uri, error)
