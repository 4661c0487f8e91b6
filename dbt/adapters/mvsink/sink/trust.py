"""Whether a model's changes are still believed, by what verifications found. Pure.

*Suspension*: a model whose contents were wrong, although they should have followed from the changes
of its inputs, is not computed from these any more, until a verification finds no drift. A second
drift within 30 days suspends it until its definition changes: twice is no accident.

*Proving*: after what decides how a query's changes are read is another (its text, an input's
columns, a setting, the rules), the 1st, 2nd, 4th, 8th, ... incremental correction is compared with
the query, evaluated. How many there were is recorded with the progress. It ends when `verify`
itself compares all contents between two of these: then the next would come later than that.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.incremental import RULES
from dbt.adapters.mvsink.reasons import Why
from dbt.adapters.mvsink.shard import Progress, ShardState
from dbt.adapters.mvsink.shard_sql import Counts


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
    again = last is not None and time - last <= limits.DRIFTS_AGAIN
    return time, max(level, Suspended.UNTIL_REDEFINED if again else Suspended.UNTIL_VERIFIED)


# ids in the progress
READING, RULE_NUMBER, RUNS = "proof/reading", "proof/rules", "proof/runs"
UNPROVEN = 0  # smaller than the number of any reading
PROVEN = 2**40  # more runs than there will be: no power of two is between


@dataclass(frozen=True)
class Proving:
    """``recorded``: the shard's progress, by id. ``admitted``: whether this model may prove itself
    in this run where nothing but the rules' number is another, which it is for all models at once.
    """

    recorded: Callable[[str], int | None]
    admitted: Callable[[], bool]

    def due(self, reading: int) -> bool:
        """Whether the correction of this run, whose number is ``reading``, is to be compared."""
        earlier = self._earlier(reading)
        if earlier is None:
            return self.admitted()
        return earlier < PROVEN and _is_power(earlier + 1)

    def after(self, reading: int, *, compared: bool) -> Mapping[str, int]:
        """What to record of an incremental run. ``compared``: with the query, for whatever reason,
        and no difference was found.
        """
        earlier = self._earlier(reading)
        if earlier is None and not compared:
            return {}  # in another run
        runs = (earlier or 0) + 1
        if compared and earlier is not None and not _is_power(runs):
            runs = PROVEN
        return {READING: reading, RULE_NUMBER: RULES, RUNS: min(runs, PROVEN)}

    def _earlier(self, reading: int) -> int | None:
        """How many incremental runs there were; None if this is not known of these rules."""
        known = self.recorded(READING)
        if known is not None and known != reading:
            return 0
        if known is None or self.recorded(RULE_NUMBER) != RULES:
            return None
        return self.recorded(RUNS) or 0


def unproven() -> Mapping[str, int]:
    """What to record so that the next incremental run is compared, whatever its reading."""
    return {READING: UNPROVEN, RULE_NUMBER: RULES, RUNS: 0}


def _is_power(number: int) -> bool:
    return number & (number - 1) == 0
