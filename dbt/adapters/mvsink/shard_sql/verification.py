"""When all contents of a shard are compared by an independent digest again (the option `verify`).

By default that follows its cost: the log counts how long runs took since the last verification, and
how long that one took. The shard keeps the policy, so that `mvsink status` knows when the next one
is due.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.shard import ShardState
from dbt.adapters.mvsink.shard.stored import a_truth, an_integer, an_object, optional, property_of

VERIFY = "verify"  # the property


@dataclass(frozen=True)
class VerifyPolicy:
    """When a verification is due: some ms after the last one, after a number of runs, or by its
    ``budget``, once it costs at most a tenth of the time of the runs since the last one, and at the
    latest after `limits.VERIFY_AT_LATEST`.
    """

    interval: int | None = None
    runs: int | None = None
    budget: bool = False

    @property
    def never(self) -> bool:
        return self == VerifyPolicy()

    @property
    def longest(self) -> int | None:
        """The ms after which one is due, whatever ran."""
        return limits.VERIFY_AT_LATEST if self.budget else self.interval

    def is_due(self, state: ShardState, time: int) -> bool:
        """Whether a run at ``time`` (ms) verifies."""
        if self.never:
            return False
        if state.verified is None:
            return True
        if self.runs is not None:
            return state.unverified + 1 >= self.runs
        left = self.seconds_left(state)
        by = self.latest(state)
        return (left is not None and left <= 0) or (by is not None and time >= by)

    def latest(self, state: ShardState) -> int | None:
        """The time (ms) from which the next run verifies; None if there is none, or if no run has
        verified yet.
        """
        if state.verified is None or self.longest is None:
            return None
        return state.verified + self.longest

    def seconds_left(self, state: ShardState) -> float | None:
        """How many seconds runs have to take until one verifies; None if that does not decide."""
        if not self.budget or state.verifying is None:
            return None
        return max(0.0, state.verifying / limits.VERIFY_SHARE - state.spent) / 1000

    def properties(self, kept: Mapping[str, str]) -> dict[str, str]:
        """The property of a shard that has those ``kept``; none if it is the same."""
        values = {"interval": self.interval, "runs": self.runs, "budget": self.budget or None}
        text = json.dumps({name: value for name, value in values.items() if value is not None})
        return {} if kept.get(VERIFY) == text else {VERIFY: text}


def stored_policy(state: ShardState) -> VerifyPolicy | None:
    """The policy that the shard keeps; None of a task's, or if no run has kept one yet."""
    return property_of(state, VERIFY, None, _policy)


def _policy(kept: Any) -> VerifyPolicy:
    of = an_object(kept)
    return VerifyPolicy(
        optional(of.get("interval"), an_integer),
        optional(of.get("runs"), an_integer),
        a_truth(of.get("budget", False)),
    )
