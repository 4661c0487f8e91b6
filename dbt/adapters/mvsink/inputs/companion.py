"""A companion shard: it holds, for an input that is no shard, what was bound to which time.

One `advance` is one binding: the companion's upper moves past the run's time, with what is new
bound at times before it. Whoever's compare-and-append wins decides, so every replica gives the same
version, the same files, the same time; who lost looks again.
"""

from __future__ import annotations

import logging
import time as clock
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
    """Where the companion of a task's input is: below the task's own shard. (A ``%`` in a path is
    not read alike by all.)
    """
    return f"{task_uri.rstrip('/')}/{INPUTS}/{quote(input_id, safe='').replace('~', '%7E').replace('%', '~')}"


def advance(handle: WriteHandle, time: int, stage: Stage, compact: Compact) -> None:
    """Bind up to ``time`` (ms), unless somebody has: then nothing is done.

    ``stage`` stages, on the state that it is given, what is new, as batches of updates from the
    state's upper on up to ``time``. History follows the holds: nothing of it is released before
    there is one. A failure leaves nothing staged, and the handle expired.
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
            log.debug("%s: lower mismatch, bound up to %r by somebody else", handle.uri, mismatch.current)
            for batch in batches:
                batch.delete()
            continue
        _maintain(handle, done.maintenance, compact)
        return


def _maintain(handle: WriteHandle, maintenance: Maintenance, compact: Compact) -> None:
    """What the append left to do. A failure costs nothing: the next binding finds the same work."""
    try:
        perform_maintenance(handle, maintenance, int(clock.time() * 1000), compact)
    except Exception as error:
        log.debug("%s: maintenance failed and is left to the next run: %s", handle.uri, error)
