"""`max_change: auto`: how many rows a run usually changes, learned from the shard's log. Pure.

A bound is learned from earlier runs that changed something, at least `ENOUGH` of them. Runs that
changed nothing say nothing about how large a change is, nor do first loads and new generations.

The usual change is the median ``m`` of the most similar runs, if there are at least `ALIKE` of
them: those of the same weekday in the same hour of the day or the one before or after it, those of
these hours on any day, those of the weekday, or all of them (UTC). The spread is measured on all
runs: MAD is the median of the distances of each log(1 + rows) from the usual change for that run.
The bound is ``m`` times the larger of `FACTOR` and ``exp(SPREADS * 1.4826 * MAD)``. A few outliers
do not move a median, and changes spread evenly on a logarithmic scale: they double, rather than
grow by a thousand. The bound is never more than `FACTOR` times the larger of the group's largest
run and ``m``, and never below `FLOOR` rows.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.shard import Commit
from dbt.adapters.mvsink.sink.gate import Limit, MaxChange
from dbt.adapters.mvsink.sink.run_history import EVALUATED, INCREMENTAL, SUMMED

READ = 500  # commits of the log, the newest
ENOUGH = 8  # runs in all
ALIKE = 5  # runs of one group
FLOOR = 100  # rows
FACTOR = 4.0
SPREADS = 4.0
DEVIATION = 1.4826  # standard deviations in a MAD, of a normal distribution
HOUR = 3_600_000
WEEKDAYS = ("Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays")


History = Callable[[int], Sequence[Commit]]  # so many of the newest commits, oldest first


class Learned(enum.Enum):
    """The value of `max_change` that is not a number."""

    AUTO = "auto"


@dataclass(frozen=True)
class PastChange:
    """A run at ``time`` (ms) that inserted or deleted ``rows`` rows, whichever are more."""

    time: int
    rows: int


@dataclass(frozen=True)
class Bound:
    """At most ``rows`` rows, learned from ``runs`` runs since ``since`` (ms) which usually change
    ``usual`` rows. ``like`` says which runs: ``around 03:00 UTC on Mondays``; empty: all.
    """

    rows: int
    usual: int
    runs: int
    since: int
    like: str = ""

    def __str__(self) -> str:
        which = f"the last {self.runs} runs {self.like}".rstrip()
        return (
            f"max_change auto allows {self.rows}: {which} that changed something, since {iso(self.since)}, "
            f"changed a median of {self.usual} rows"
        )


@dataclass(frozen=True)
class UsualChange:
    """The limit of a run at ``time`` (ms); ``history`` gives the newest commits, oldest first."""

    history: History
    time: int

    def broken_by(self, inserted: int, deleted: int, current: int) -> str:
        """Why a change exceeds the limit, or "". The log is read only for a change over `FLOOR`."""
        changed = max(inserted, deleted)
        if changed <= FLOOR:
            return ""
        bound = learned(past_changes(self.history(READ)), self.time)
        return "" if bound is None or changed <= bound.rows else f"{changed} rows, {bound}"


def limit(configured: MaxChange | Learned | None, history: History, time: int) -> Limit | None:
    """The limit of a run at ``time`` (ms) of a model with the option ``configured``."""
    return UsualChange(history, time) if isinstance(configured, Learned) else configured


def too_little_history(history: History, time: int) -> bool:
    """Whether a run at ``time`` (ms) has no bound yet."""
    return learned(past_changes(history(READ)), time) is None


def past_changes(commits: Sequence[Commit]) -> list[PastChange]:
    """The runs that changed contents which were there."""
    changes = []
    for note in (commit.note for commit in commits):
        rows = max(note.rows_inserted, note.rows_deleted)
        if rows and note.mode in (EVALUATED, INCREMENTAL, SUMMED) and note.computed_through is not None:
            changes.append(PastChange(note.computed_through, rows))
    return changes


def learned(past: Sequence[PastChange], time: int) -> Bound | None:
    """How many rows a run at ``time`` (ms) may change; None if too few runs are known.

    >>> hourly = [PastChange(hour * 3_600_000, 1000) for hour in range(48)]
    >>> learned(hourly, 48 * 3_600_000).rows
    4000
    >>> learned(hourly[:7], 8 * 3_600_000)
    """
    if len(past) < ENOUGH:
        return None
    runs = _Runs(past)
    like, alike = runs.alike(time)
    center = median(math.log1p(each.rows) for each in alike)
    usual, largest = math.expm1(center), max(each.rows for each in alike)
    # runs that differ by orders of magnitude would have no bound at all
    bound = max(FACTOR * usual, min(math.exp(SPREADS * runs.spread()) * usual, FACTOR * largest))
    since = min(each.time for each in alike)
    return Bound(max(FLOOR, round(bound)), round(usual), len(alike), since, like)


class _Runs:
    """Past runs by the hour of the week, of the day, and by weekday."""

    def __init__(self, past: Sequence[PastChange]):
        self.past = past
        self.by_hour_of_week: dict[int, list[PastChange]] = {}
        for each in past:
            self.by_hour_of_week.setdefault(_hour_of_week(each.time), []).append(each)
        self.known: dict[int, tuple[str, list[PastChange]]] = {}

    def alike(self, time: int) -> tuple[str, list[PastChange]]:
        """The runs most alike one at ``time`` (ms), and words for them."""
        slot = _hour_of_week(time)
        if slot not in self.known:
            self.known[slot] = next(group for group in self._groups(slot) if len(group[1]) >= ALIKE)
        return self.known[slot]

    def _groups(self, slot: int) -> Iterator[tuple[str, list[PastChange]]]:
        around, on = f"around {slot % 24:02d}:00 UTC", f"on {WEEKDAYS[slot // 24]}"
        hours = [slot - 1, slot, slot + 1]
        yield f"{around} {on}", self._of(hours)
        yield around, self._of(each + 24 * day for day in range(7) for each in hours)
        yield on, self._of(range(slot - slot % 24, slot - slot % 24 + 24))
        yield "", list(self.past)

    def _of(self, slots: Iterable[int]) -> list[PastChange]:
        return [each for slot in slots for each in self.by_hour_of_week.get(slot % (7 * 24), ())]

    def spread(self) -> float:
        """The standard deviation of log(1 + rows) around what is usual for each run, robustly."""
        medians = {
            slot: median(math.log1p(each.rows) for each in self.alike(runs[0].time)[1])
            for slot, runs in self.by_hour_of_week.items()
        }
        distances = (
            abs(math.log1p(each.rows) - medians[slot])
            for slot, runs in self.by_hour_of_week.items()
            for each in runs
        )
        return DEVIATION * median(distances)


def _hour_of_week(time: int) -> int:
    """0 to 167, from Monday 00:00 UTC on; 1970-01-01 was a Thursday."""
    return (time // HOUR + 3 * 24) % (7 * 24)
