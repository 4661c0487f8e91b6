"""Refresh schedules: at which times a collection's contents may change. Pure; all times are ms.

`RefreshSpec`      a model's config, parts of which are relative to the shard's creation
`RefreshSchedule`  the same with the creation filled in: a set of times, queried by rounding
`RefreshCron`      the times that a cron expression names in a time zone
`decide`           what a run at ``T`` does: its write time, if a refresh is due, and the new upper

Between two refreshes the upper is already at the second one, so readers know that the contents are
final until then.

>>> hourly = RefreshSchedule(everies=(RefreshEvery(60, aligned_to=0),))
>>> decide(hourly, creation=0, upper=Antichain.of(600), time=620)
RefreshDecision(time=600, upper=Antichain(660))
>>> decide(hourly, creation=0, upper=Antichain.of(660), time=620)
RefreshDecision(time=None, upper=Antichain(660))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from dbt.adapters.mvsink.physical import LARGEST_TIME
from dbt.adapters.mvsink.shard import Antichain


@dataclass(frozen=True)
class RefreshEvery:
    """Refreshes at ``aligned_to + k * interval``, any integer ``k``, clipped to the time range."""

    interval: int
    aligned_to: int

    def __post_init__(self) -> None:
        if self.interval <= 0:
            raise ValueError(f"the interval of a refresh must be greater than zero, got {self.interval}")

    def round_up_timestamp(self, time: int) -> int:
        """The smallest refresh ``>= time``; saturates at the largest time.

        >>> [RefreshEvery(10, aligned_to=5).round_up_timestamp(time) for time in (0, 5)]
        [5, 5]
        """
        return min(time + (self.aligned_to - time) % self.interval, LARGEST_TIME)

    def round_down_timestamp_m1(self, time: int) -> int:
        """The largest refresh strictly before ``time``; saturates at 0.

        >>> [RefreshEvery(10, aligned_to=5).round_down_timestamp_m1(time) for time in (15, 5)]
        [5, 0]
        """
        before = time - 1
        return max(before - (before - self.aligned_to) % self.interval, 0)


EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
# Python's calendar ends with the year 9999; a refresh after this is at the largest time.
LAST_OF_CALENDAR = int(datetime(9900, 1, 1, tzinfo=timezone.utc).timestamp()) * 1000


@dataclass(frozen=True)
class RefreshCron:
    """Refreshes at the minutes that a cron ``expression`` of five fields names, by the clocks of
    ``zone``. As in Debian's cron, what would be due in the hour that clocks skip is due right after
    it, and in the hour that they repeat only once, unless the hour is `*`.
    """

    expression: str
    zone: str

    def round_up_timestamp(self, time: int) -> int:
        """The smallest refresh ``>= time``; saturates at the largest time.

        >>> six = RefreshCron("0 6 * * *", "Europe/Berlin")  # 5 o'clock in UTC
        >>> [six.round_up_timestamp(hour * 3_600_000) // 3_600_000 for hour in (5, 6)]
        [5, 29]
        """
        if time >= LAST_OF_CALENDAR:
            return LARGEST_TIME
        return next(self._from(time - 1))

    def round_down_timestamp_m1(self, time: int) -> int:
        """The largest refresh strictly before ``time``; saturates at 0."""
        before = next(self._from(min(time, LAST_OF_CALENDAR), reverse=True), 0)
        return max(before, 0)

    def _from(self, time: int, *, reverse: bool = False) -> Iterator[int]:
        """The refreshes after ``time``, or with ``reverse`` those before it, the nearest first, up
        to 50 years away.
        """
        at = (EPOCH + timedelta(milliseconds=time)).astimezone(ZoneInfo(self.zone))
        for each in CronSim(self.expression, at, reverse=reverse):
            yield int((each - EPOCH) / timedelta(milliseconds=1))


def cron_problem(expression: str, zone: str) -> str | None:
    """What is wrong with the expression or the zone, as `the ...`; None if nothing is.

    >>> cron_problem("0 6 * * 8", "UTC")
    'the expression: Bad day-of-week'
    >>> cron_problem("0 6 * * *", "Berlin")
    'the zone'
    """
    try:
        ZoneInfo(zone)
    except (ValueError, OSError, KeyError):
        return "the zone"
    if len(expression.split()) != FIELDS:
        return f"the expression: it needs {FIELDS} fields"
    try:
        CronSim(expression, EPOCH)  # which refuses 30 February, too
    except CronSimError as error:
        return f"the expression: {error}"
    return None


FIELDS = 5  # minute, hour, day of the month, month, day of the week


@dataclass(frozen=True)
class RefreshSchedule:
    """The union of its entries. Without entries it is `on_commit`: every run is a refresh."""

    everies: tuple[RefreshEvery | RefreshCron, ...] = ()
    ats: tuple[int, ...] = ()

    @property
    def on_commit(self) -> bool:
        return not self.everies and not self.ats

    def round_up_timestamp(self, time: int) -> int | None:
        """The smallest refresh ``>= time``, or None. Monotone; saturates at the largest time."""
        candidates = [every.round_up_timestamp(time) for every in self.everies]
        candidates += [at for at in self.ats if at >= time]
        return min(candidates, default=None)

    def round_down_timestamp_m1(self, time: int) -> int | None:
        """The largest refresh before ``time``, or None; monotone. An `every` saturates at 0."""
        candidates = [every.round_down_timestamp_m1(time) for every in self.everies]
        candidates += [at for at in self.ats if at < time]
        return max(candidates, default=None)

    def last_refresh(self) -> int | None:
        """The largest `at`; None if there is an `every`, because then the schedule never ends."""
        return None if self.everies else max(self.ats, default=None)

    def frontier_after(self, time: int) -> Antichain:
        """The next refresh after ``time``; empty if none. On commit, any later time may be one."""
        following = Antichain.of(time).step_forward()
        if self.on_commit or following.is_empty():
            return following
        refresh = self.round_up_timestamp(following.stored())
        return Antichain.empty() if refresh is None else Antichain.of(refresh)


@dataclass(frozen=True)
class RefreshSpec:
    """A config's `every`s as (interval, alignment or None: creation), `at`s and `at_creation`, and
    its `cron`s as (expression, zone).
    """

    everies: tuple[tuple[int, int | None], ...] = ()
    ats: tuple[int, ...] = ()
    at_creation: bool = False
    crons: tuple[tuple[str, str], ...] = ()

    @property
    def on_commit(self) -> bool:
        return not (self.everies or self.ats or self.at_creation or self.crons)

    def schedule(self, creation: int) -> RefreshSchedule:
        """A shard's schedule; an `every` without alignment is aligned to its ``creation``."""
        everies = (
            RefreshEvery(interval, creation if aligned is None else aligned)
            for interval, aligned in self.everies
        )
        crons = (RefreshCron(expression, zone) for expression, zone in self.crons)
        ats = (*self.ats, creation) if self.at_creation else self.ats
        return RefreshSchedule((*everies, *crons), ats)

    def stored(self) -> dict[str, Any]:
        """As a shard stores it, in JSON; empty for `on_commit`."""
        if self.on_commit:
            return {}
        return {
            "every": [list(every) for every in self.everies],
            "at": list(self.ats),
            "at_creation": self.at_creation,
            **({"cron": [list(cron) for cron in self.crons]} if self.crons else {}),
        }

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> RefreshSpec:
        """The inverse of `stored`."""
        everies = tuple((int(interval), aligned) for interval, aligned in stored.get("every", ()))
        crons = tuple((str(expression), str(zone)) for expression, zone in stored.get("cron", ()))
        return cls(everies, tuple(stored.get("at", ())), bool(stored.get("at_creation", False)), crons)


class RefreshDecision(NamedTuple):
    """``time`` is when a run writes, None if no refresh is due; ``upper`` is the new upper."""

    time: int | None
    upper: Antichain


def decide(schedule: RefreshSchedule, creation: int, upper: Antichain, time: int) -> RefreshDecision:
    """What a run at ``time`` does with a shard created at ``creation``, with the upper ``upper``.

    The write time is the newest refresh that is not after ``time`` and not before the creation or
    the upper: missed refreshes are not made up. A shard whose upper is past ``time`` stays as it
    is.
    """
    if not upper.less_equal_time(time):
        return RefreshDecision(None, upper)
    frontier = schedule.frontier_after(time)
    if schedule.on_commit:
        return RefreshDecision(time, frontier)
    newest = schedule.round_down_timestamp_m1(time + 1)
    due = (
        newest is not None
        and newest >= max(creation, upper.stored())
        and schedule.round_up_timestamp(newest) == newest
    )
    return RefreshDecision(newest if due else None, frontier)
