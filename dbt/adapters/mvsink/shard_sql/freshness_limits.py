"""How old a shard's contents may be: kept in its properties, so that it is known without dbt."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dbt.adapters.mvsink.shard import ShardState
from dbt.adapters.mvsink.shard.stored import an_integer, an_object, optional, property_of

FRESHNESS = "freshness"


class Verdict(str, enum.Enum):
    """Whether contents are as fresh as they should be. The values are dbt's for sources."""

    PASS = "pass"
    WARN = "warn"
    ERROR = "error"


@dataclass(frozen=True)
class Freshness:
    """The ages (ms) after which contents are a warning, and an error. None: never.

    >>> hours = Freshness(warn_after=10, error_after=60)
    >>> [hours.verdict(age).value for age in (10, 11, 61)]
    ['pass', 'warn', 'error']
    """

    warn_after: int | None = None
    error_after: int | None = None

    @property
    def limits(self) -> bool:
        return self != Freshness()

    def verdict(self, age: int) -> Verdict:
        """What contents are that were computed ``age`` ms ago."""
        if self.error_after is not None and age > self.error_after:
            return Verdict.ERROR
        return Verdict.WARN if self.warn_after is not None and age > self.warn_after else Verdict.PASS

    def properties(self, kept: Mapping[str, str]) -> dict[str, str]:
        """The property of a shard that has those ``kept``; none if it never had a limit."""
        if not self.limits and FRESHNESS not in kept:
            return {}
        limits = {"error_after": self.error_after, "warn_after": self.warn_after}
        return {FRESHNESS: json.dumps({name: limit for name, limit in limits.items() if limit is not None})}


def stored_freshness(state: ShardState) -> Freshness:
    """The limits that the shard keeps."""
    return property_of(state, FRESHNESS, Freshness(), _limits)


def _limits(kept: Any) -> Freshness:
    limits = (an_object(kept).get(name) for name in ("warn_after", "error_after"))
    return Freshness(*(optional(limit, an_integer) for limit in limits))
