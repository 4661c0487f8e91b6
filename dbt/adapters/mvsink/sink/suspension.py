"""Suspension: when a model is no longer computed from the changes of its inputs, because its
contents were wrong although they should have followed from them.

Drift suspends the model until a verification finds none. A second drift within 30 days suspends it
until its definition changes: twice is no accident.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from dbt.adapters.mvsink.reasons import Why
from dbt.adapters.mvsink.shard import Progress, ShardState
from dbt.adapters.mvsink.shard_sql import Counts

AGAIN = 30 * 86_400_000  # ms


class Suspended(enum.IntEnum):
    """As it is recorded with the progress."""

    NOT = 0
    UNTIL_VERIFIED = 1
    UNTIL_REDEFINED = 2


REASONS = {Suspended.UNTIL_VERIFIED: Why.DRIFTED, Suspended.UNTIL_REDEFINED: Why.DRIFTED_TWICE}


@dataclass(frozen=True)
class Drift:
    """How wrong the contents were, none if they were right. ``sample``: some updates that correct
    them: the model's columns, time, diff, error, hash; empty if the run's own updates are these.
    ``noise``: it may be no more than what differs when a query is evaluated again, sums of doubles
    say, and suspends nothing.
    """

    counts: Counts = Counts()
    sample: tuple[tuple[object, ...], ...] = ()
    noise: bool = False


def suspended(state: ShardState) -> Why | None:
    """Why the model is suspended; None if it is not."""
    return REASONS.get(Suspended(state.suspended))


def recorded(progress: Progress, state: ShardState, drift: Drift | None, time: int) -> Progress:
    """``progress``, of a commit at ``time`` (ms) on ``state``, with what it records of ``drift``,
    None if that is not known.
    """
    last, level = state.drifted or None, Suspended(state.suspended)
    if progress.known and state.plan not in (0, progress.plan):  # another definition
        last, level = None, Suspended.NOT
    last, level = _after(last, level, drift, time)
    if (last or 0, level) == (state.drifted or 0, state.suspended):
        return progress
    return replace(progress, drifted=last or 0, suspended=int(level))


def _after(
    last: int | None, level: Suspended, drift: Drift | None, time: int
) -> tuple[int | None, Suspended]:
    if drift is None:
        return last, level
    if drift.counts.nothing or drift.noise:
        return last, Suspended.NOT if level is Suspended.UNTIL_VERIFIED else level
    again = last is not None and time - last <= AGAIN
    return time, max(level, Suspended.UNTIL_REDEFINED if again else Suspended.UNTIL_VERIFIED)
