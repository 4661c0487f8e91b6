"""Refresh schedules: at which times a collection's contents may change. Pure; all times are ms.

`RefreshSpec`      what a model's config says; some of it counts from the shard's creation, which it does not know.
`RefreshSchedule`  the same with the creation filled in: a set of times, asked by rounding.
`decide`           what a run at ``T`` does: the write time, if a refresh is due, and where the shard's upper goes.

Between two refreshes the upper has already jumped to the second, so readers know that the contents
are final until then.

>>> hourly = RefreshSchedule(everies=(RefreshEvery(60, aligned_to=0),))
>>> decide(hourly, creation=0, upper=Antichain.of(600), time=620)
Decision(time=600, upper=Antichain(660))
>>> decide(hourly, creation=0, upper=Antichain.of(660), time=620)
Decision(time=None, upper=Antichain(660))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from dbt.adapters.mvsink.physical import LARGEST_TIME
from dbt.adapters.mvsink.shard import Antichain


@dataclass(frozen=True)
class RefreshEvery:
    """Refreshes at all ``aligned_to + k * interval``, ``k`` any integer, clipped to the range of
    times.
    """

    interval: int
    aligned_to: int

    def __post_init__(self) -> None:
        if self.interval <= 0:
            raise ValueError(f"the interval of a refresh must be greater than zero, got {self.interval}")

    def round_up_timestamp(self, time: int) -> int:
        """The smallest refresh ``>= time``; saturates at the largest time.

        >>> RefreshEvery(10, aligned_to=5).round_up_timestamp(0), RefreshEvery(10, aligned_to=5).round_up_timestamp(5)
        (5, 5)
        """
        return min(time + (self.aligned_to - time) % self.interval, LARGEST_TIME)

    def round_down_timestamp_m1(self, time: int) -> int:
        """The largest refresh strictly before ``time``; saturates at 0.

        >>> RefreshEvery(10, aligned_to=5).round_down_timestamp_m1(15), RefreshEvery(10, aligned_to=5).round_down_timestamp_m1(5)
        (5, 0)
        """
        before = time - 1
        return max(before - (before - self.aligned_to) % self.interval, 0)


@dataclass(frozen=True)
class RefreshSchedule:
    """The union of its entries. No entry at all means `on_commit`: every run is a refresh, and no
    time is one by itself.
    """

    everies: tuple[RefreshEvery, ...] = ()
    ats: tuple[int, ...] = ()

    @property
    def on_commit(self) -> bool:
        return not self.everies and not self.ats

    def round_up_timestamp(self, time: int) -> int | None:
        """The smallest refresh ``>= time``; None when none is left. Monotone; saturates at the
        largest time.
        """
        found = [every.round_up_timestamp(time) for every in self.everies]
        found += [at for at in self.ats if at >= time]
        return min(found, default=None)

    def round_down_timestamp_m1(self, time: int) -> int | None:
        """The largest refresh strictly before ``time``; None when there is none. With an `every` it
        saturates at 0. Monotone.
        """
        found = [every.round_down_timestamp_m1(time) for every in self.everies]
        found += [at for at in self.ats if at < time]
        return max(found, default=None)

    def last_refresh(self) -> int | None:
        """The largest `at`; None if there is an `every`, for then it never ends."""
        return None if self.everies else max(self.ats, default=None)

    def frontier_after(self, time: int) -> Antichain:
        """The next refresh after ``time`` as a frontier: empty if there is none. On commit any
        later time may be one.
        """
        following = Antichain.of(time).step_forward()
        if self.on_commit or following.is_empty():
            return following
        refresh = self.round_up_timestamp(following.stored())
        return Antichain.empty() if refresh is None else Antichain.of(refresh)


@dataclass(frozen=True)
class RefreshSpec:
    """A config's entries: each `every` as interval and alignment (None: the creation), the `at`s,
    and `at_creation`.
    """

    everies: tuple[tuple[int, int | None], ...] = ()
    ats: tuple[int, ...] = ()
    at_creation: bool = False

    @property
    def on_commit(self) -> bool:
        return not (self.everies or self.ats or self.at_creation)

    def schedule(self, creation: int) -> RefreshSchedule:
        """The schedule of a shard created at ``creation``. An `every` that is not aligned makes its
        creation a refresh.
        """
        return RefreshSchedule(
            tuple(
                RefreshEvery(interval, creation if aligned is None else aligned)
                for interval, aligned in self.everies
            ),
            (*self.ats, creation) if self.at_creation else self.ats,
        )

    def stored(self) -> dict[str, Any]:
        """As a shard keeps it, in JSON; empty for `on_commit`."""
        if self.on_commit:
            return {}
        return {
            "every": [list(every) for every in self.everies],
            "at": list(self.ats),
            "at_creation": self.at_creation,
        }

    @classmethod
    def from_stored(cls, kept: Mapping[str, Any]) -> RefreshSpec:
        """The inverse of `stored`."""
        everies = tuple((int(interval), aligned) for interval, aligned in kept.get("every", ()))
        return cls(everies, tuple(kept.get("at", ())), bool(kept.get("at_creation", False)))


class Decision(NamedTuple):
    """``time``: at what time a run writes, None if no refresh is due. ``upper``: where the shard's
    upper goes.
    """

    time: int | None
    upper: Antichain


def decide(schedule: RefreshSchedule, creation: int, upper: Antichain, time: int) -> Decision:
    """What a run at ``time`` does with a shard that was created at ``creation`` and stands at
    ``upper``.

    The write time is the newest refresh that is not after ``time``, nor before the creation or the
    upper: refreshes that were missed are not made up. A shard that is past ``time`` stays as it is.
    """
    if not upper.less_equal_time(time):
        return Decision(None, upper)
    frontier = schedule.frontier_after(time)
    if schedule.on_commit:
        return Decision(time, frontier)
    newest = schedule.round_down_timestamp_m1(time + 1)
    due = (
        newest is not None
        and newest >= max(creation, upper.stored())
        and schedule.round_up_timestamp(newest) == newest
    )
    return Decision(newest if due else None, frontier)
