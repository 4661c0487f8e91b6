"""What a run did to a shard: the values that sinks and tasks share."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from dbt.adapters.mvsink.shard import Antichain, ShardState

MAX_ERROR_LENGTH = 2_000  # characters of a recorded error


class OnError(enum.Enum):
    """`FAIL`: the model fails, the shard stays. `RECORD`: the shard's error collection gets it."""

    FAIL = "fail"
    RECORD = "record"


class Kind(enum.Enum):
    """What a run did to the shard."""

    APPEND = "append"
    NONE = "none"
    READ_ONLY = "read-only"
    FINAL = "final"


@dataclass(frozen=True)
class Counts:
    """Net rows that a correction inserts and deletes, and error updates it adds or retracts."""

    inserted: int = 0
    deleted: int = 0
    errors_inserted: int = 0
    errors_deleted: int = 0

    @property
    def nothing(self) -> bool:
        return self == Counts()

    def plus(self, other: Counts) -> Counts:
        """The sums of both."""
        return Counts(
            self.inserted + other.inserted,
            self.deleted + other.deleted,
            self.errors_inserted + other.errors_inserted,
            self.errors_deleted + other.errors_deleted,
        )


@dataclass(frozen=True)
class RunOutcome:
    """The outcome of any run. It wrote ``[lower, upper)``; both are the shard's upper if nothing.

    ``time`` is the write time in ms, or the run's if nothing was written. ``drift`` is how many
    rows a fold dropped that no append can have written, ``mismatches`` how many appends lost a
    race.
    """

    kind: Kind
    counts: Counts
    lower: Antichain
    upper: Antichain
    time: int
    state: ShardState
    drift: int = 0
    mismatches: int = 0
    warnings: tuple[str, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)  # by step
