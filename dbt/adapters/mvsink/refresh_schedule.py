"""Refresh schedules: at which times a collection's contents may change. Pure; all times are ms.

`RefreshSpec`      a model's config, parts of which are relative to the shard's creation
`RefreshSchedule`  the same with the creation filled in: a set of times, queried by rounding
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

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

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


@dataclass(frozen=True)
class RefreshSchedule:
    """The union of its entries. Without entries it is `on_commit`: every run is a refresh."""

    everies: tuple[RefreshEvery, ...] = ()
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
    """A config's `every`s as (interval, alignment or None: creation), `at`s and `at_creation`."""

    everies: tuple[tuple[int, int | None], ...] = ()
    ats: tuple[int, ...] = ()
    at_creation: bool = False

    @property
    def on_commit(self) -> bool:
        return not (self.everies or self.ats or self.at_creation)

    def schedule(self, creation: int) -> RefreshSchedule:
        """A shard's schedule; an `every` without alignment is aligned to its ``creation``."""
        return RefreshSchedule(
            tuple(
                RefreshEvery(interval, creation if aligned is None else aligned)
                for interval, aligned in self.everies
            ),
            (*self.ats, creation) if self.at_creation else self.ats,
        )

    def stored(self) -> dict[str, Any]:
        """As a shard stores it, in JSON; empty for `on_commit`."""
        if self.on_commit:
            return {}
        return {
            "every": [list(every) for every in self.everies],
            "at": list(self.ats),
            "at_creation": self.at_creation,
        }

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> RefreshSpec:
        """The inverse of `stored`."""
        everies = tuple((int(interval), aligned) for interval, aligned in stored.get("every", ()))
        return cls(everies, tuple(stored.get("at", ())), bool(stored.get("at_creation", False)))


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
