"""What a run did to a shard: values that sinks and tasks share."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class OnError(enum.Enum):
    """`FAIL`: the model fails and the shard stays. `RECORD`: the error joins the shard's err
    collection.
    """

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
        """Both together."""
        return Counts(
            self.inserted + other.inserted,
            self.deleted + other.deleted,
            self.errors_inserted + other.errors_inserted,
            self.errors_deleted + other.errors_deleted,
        )
