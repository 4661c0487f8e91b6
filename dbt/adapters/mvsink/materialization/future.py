"""Compares a run's time with the storage's clock: a run far ahead would block its model until then.

A little ahead is a warning. Over a day ahead is an error before anything is made, because nothing
can be written to the shard until that time has passed. The storage's clock is used, because this
machine's may be the wrong one. It is read once per invocation and shard root.
"""

from __future__ import annotations

from dbt.adapters.mvsink import limits, wall_clock
from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.exceptions import MvsinkError
from dbt.adapters.mvsink.materialization.context import RunContext
from dbt.adapters.mvsink.materialization.warn import warn
from dbt.adapters.mvsink.per_invocation import PerInvocation
from dbt.adapters.mvsink.shard import StorageError

ALLOWED = "mvsink_future"
_ahead: PerInvocation[dict[str, int]] = PerInvocation(dict)  # the storage's clock before ours, by root


class FutureRun(MvsinkError):
    """The run's time is over a day ahead of the storage's clock."""

    error_code = "MVS-123"

    def __init__(self, model: str, time: int, now: int):
        super().__init__(
            f"{model}: the run's time is over a day ahead of the clock: nothing could be written to its shard until then\n"
            f"  Got: {time} ({iso(time)})\n"
            f"  Expected: at most a day after {now} ({iso(now)}), by the clock of the shards' storage. If mvsink_run_time (or "
            f"MVSINK_RUN_TIME) is not mistyped and this machine's clock is right, --vars '{{{ALLOWED}: true}}' allows it"
        )


def check_time(context: RunContext) -> None:
    """Raises `FutureRun`, or warns. A run that writes nothing may have any time."""
    time = context.invocation.time
    if context.read_only or context.invocation.explain:
        return
    now = storage_clock(context)
    if time > now + limits.FAR_AHEAD and not context.invocation.future:
        raise FutureRun(context.model, time, now)
    ahead = time - now
    if ahead > limits.AHEAD_OF_CLOCK:
        warn(f"{context.model}: the run's time is {ahead // 1000} s ahead of the clock of its storage")


def storage_clock(context: RunContext) -> int:
    """Now, in ms. For a root that cannot be written to, this machine's clock: the run will report
    the problem.
    """
    offsets, root = _ahead.of(context.invocation.id), context.shard_root
    if root not in offsets:
        try:
            offsets[root] = context.client.clock(root) - wall_clock.now_ms()
        except (StorageError, OSError):
            offsets[root] = 0
    return wall_clock.now_ms() + offsets[root]
