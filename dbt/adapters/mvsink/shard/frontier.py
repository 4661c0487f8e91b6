"""Frontiers over logical times.

A time is a signed 64-bit integer of milliseconds since the Unix epoch, UTC, from 0 to 2^63-2. Times
are totally ordered, so a frontier (an antichain) has one time, *the earliest that may still come*,
or none, if no more updates will come.

>>> Antichain.of(3).less_than(Antichain.of(5)), Antichain.of(3).less_than(Antichain.empty())
(True, True)
>>> Antichain.of(5).less_equal_time(4), Antichain.of(5).less_equal_time(5)
(False, True)
>>> Antichain.of(2**63 - 2).step_forward() == Antichain.empty()
True
"""

from __future__ import annotations

from dataclasses import dataclass

from dbt.adapters.mvsink.physical import EMPTY_FRONTIER, LARGEST_TIME
from dbt.adapters.mvsink.shard.errors import InvalidUsage


def check_time(time: int) -> int:
    """Return ``time``; raises `InvalidUsage` if it is not a time."""
    if isinstance(time, bool) or not isinstance(time, int) or not 0 <= time <= LARGEST_TIME:
        raise InvalidUsage(
            f"{time!r} is not a time: expected an integer of milliseconds, 0 <= t <= {LARGEST_TIME}"
        )
    return time


@dataclass(frozen=True)
class Antichain:
    """A frontier; make one with `of` or `empty`."""

    _stored: int

    @classmethod
    def of(cls, time: int) -> Antichain:
        """The frontier at ``time``; 2^63-1, which is not a time, gives the empty one."""
        return cls(time if time == EMPTY_FRONTIER and not isinstance(time, bool) else check_time(time))

    @classmethod
    def empty(cls) -> Antichain:
        """The greatest frontier: no more updates will come."""
        return cls(EMPTY_FRONTIER)

    def less_equal(self, other: Antichain) -> bool:
        """Whether this frontier is before ``other``, or equal to it."""
        return self._stored <= other._stored

    def less_than(self, other: Antichain) -> bool:
        """Whether this frontier is strictly before ``other``."""
        return self._stored < other._stored

    def less_equal_time(self, time: int) -> bool:
        """Whether ``time`` is at or beyond this frontier, so that updates at it may still come."""
        return self._stored <= check_time(time)

    def join(self, other: Antichain) -> Antichain:
        """The later of the two."""
        return self if other.less_equal(self) else other

    def meet(self, other: Antichain) -> Antichain:
        """The earlier of the two."""
        return self if self.less_equal(other) else other

    def step_forward(self) -> Antichain:
        """The next frontier. The largest time is followed by the empty one, which is its own
        successor.
        """
        return Antichain(min(self._stored + 1, EMPTY_FRONTIER))

    def is_empty(self) -> bool:
        """Whether this is the empty frontier."""
        return self._stored == EMPTY_FRONTIER

    def as_option(self) -> int | None:
        """The time, or None for the empty frontier."""
        return None if self.is_empty() else self._stored

    def stored(self) -> int:
        """The form in which the log keeps it: the time, or 2^63-1."""
        return self._stored

    def __repr__(self) -> str:
        return "Antichain()" if self.is_empty() else f"Antichain({self._stored})"
