"""A new reading proves itself: after what decides how a query's changes are read is another (its
text, an input's columns, a setting, the rules), the 1st, 2nd, 4th, 8th, ... incremental correction
is compared with the query, evaluated.

How many there were is recorded with the progress. It ends when `verify` itself compares all
contents between two of these: then the next would come later than that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dbt.adapters.mvsink.incremental import RULES

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
