"""Whether corrections from a model's changes are still trusted, judging by verifications. Pure.

*Suspension*: if a model's contents were wrong although they should have followed from the changes
of its inputs, its runs evaluate the query until a verification finds no drift. A second drift
within 30 days suspends the model until its definition changes, because two are no accident.

*Proving*: after a change in what decides how a query's changes are read (its text, an input's
columns, a setting, the rules), the 1st, 2nd, 4th, 8th, ... incremental correction is compared with
the evaluated query. The number of incremental runs is recorded with the progress. Proving ends once
`verify` compares all contents between two of these: from then on, verifications come more often.
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
    """The degree of a suspension, as recorded with the progress."""

    NOT = 0
    UNTIL_VERIFIED = 1
    UNTIL_REDEFINED = 2


REASONS = {Suspended.UNTIL_VERIFIED: Why.DRIFTED, Suspended.UNTIL_REDEFINED: Why.DRIFTED_TWICE}


@dataclass(frozen=True)
class Drift:
    """How wrong the contents were; no counts if they were right. ``sample`` are some of the updates
    that correct them (the model's columns, time, diff, error, hash), empty if these are the run's
    own updates. ``noise`` means that the drift may only be what differs whenever the query is
    evaluated again, such as sums of doubles; it suspends nothing.
    """

    counts: Counts = Counts()
    sample: tuple[tuple[object, ...], ...] = ()
    noise: bool = False


def suspended(state: ShardState) -> Why | None:
    """Why the model is suspended; None if it is not."""
    return REASONS.get(Suspended(state.suspended))


def recorded(progress: Progress, state: ShardState, drift: Drift | None, time: int) -> Progress:
    """``progress`` of a commit at ``time`` (ms) on ``state``, with what it records about ``drift``,
    which is None if it is not known.
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
    """Proving one model. ``recorded`` gives the shard's progress by id. ``admitted`` says whether
    this model may prove itself in this run if only the number of the rules has changed, which
    happens to all models at once.
    """

    recorded: Callable[[str], int | None]
    admitted: Callable[[], bool]

    def due(self, reading: int) -> bool:
        """Whether to compare the correction of this run, whose reading has the number
        ``reading``.
        """
        earlier = self._earlier(reading)
        if earlier is None:
            return self.admitted()
        return earlier < PROVEN and _is_power(earlier + 1)

    def after(self, reading: int, *, compared: bool) -> Mapping[str, int]:
        """What to record about an incremental run. ``compared`` means that it was compared with the
        query, for whatever reason, and did not differ.
        """
        earlier = self._earlier(reading)
        if earlier is None and not compared:
            return {}  # in another run
        runs = (earlier or 0) + 1
        if compared and earlier is not None and not _is_power(runs):
            runs = PROVEN
        return {READING: reading, RULE_NUMBER: RULES, RUNS: min(runs, PROVEN)}

    def _earlier(self, reading: int) -> int | None:
        """How many incremental runs there were; None if that is not known for these rules."""
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
