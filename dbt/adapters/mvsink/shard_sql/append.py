"""What a run does to a shard, as values, and its commit: one compare-and-append of the staged batch
of a description.

- Shard upper before the description's lower: raise it with an empty append, then continue. This is
  the one place that brings a new shard up to its as-of, so read-only has one place to guard.
- Shard upper past the lower: not an error. Another writer was faster: the staged batch is deleted
  and the caller continues from the new upper.
- Success: the new upper is the next lower.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.shard import (
    Antichain,
    AppendResult,
    Batch,
    CommitNote,
    InvalidUsage,
    Progress,
    ShardState,
    UpperMismatch,
    WriteHandle,
)

log = logging.getLogger("mvsink.sink.append")


@dataclass
class Append:
    """The operator. It owns no data: a staged batch is either appended or deleted."""

    handle: WriteHandle
    model: str
    mismatches: int = 0

    def raise_upper(
        self, upper: Antichain, as_of: Antichain, note: CommitNote, creation: int | None = None
    ) -> bool:
        """Move `upper` and `since` from ``upper`` to ``as_of``, without data, and record the
        ``creation`` (ms).

        False if another writer moved the upper first.
        """
        try:
            self.handle.compare_and_append_batch([], upper, as_of, since=as_of, note=note, creation=creation)
        except UpperMismatch as mismatch:
            self._lost(mismatch, BatchDescription(upper, as_of))
            return False
        log.debug("%s: advanced lower to %s", self.model, as_of)
        failpoints.reach("upper raised")
        return True

    def append(
        self,
        batch: Batch | None,
        description: BatchDescription,
        since: Antichain,
        note: CommitNote,
        inputs: Mapping[str, int] | None = None,
        progress: Progress | None = None,
        negation: Batch | None = None,
    ) -> AppendResult | None:
        """Commit ``batch`` and the ``negation`` of everything before it, if there are any, and the
        upper.

        If another commit came first, deletes both and returns None.
        """
        batches = [staged for staged in (batch, negation) if staged is not None]
        try:
            result = self.handle.compare_and_append_batch(
                batches,
                description.lower,
                description.upper,
                since=since,
                inputs=inputs or {},
                note=note,
                progress=progress,
            )
        except UpperMismatch as mismatch:
            self._lost(mismatch, description)
            for staged in batches:
                staged.delete()
            return None
        log.debug("%s: appended [%s, %s)", self.model, description.lower, description.upper)
        failpoints.reach("appended")
        return result

    def _lost(self, mismatch: UpperMismatch, description: BatchDescription) -> None:
        self.mismatches += 1
        log.debug(
            "%s: skipping outdated [%s, %s): lower mismatch, upper is %s",
            self.model, description.lower, description.upper, mismatch.current,
        )  # fmt: skip


@dataclass(frozen=True)
class BatchDescription:
    """A batch description ``[lower, upper)``; times in ms. Raises `InvalidUsage` if the bounds are
    not in order.
    """

    lower: Antichain
    upper: Antichain

    def __post_init__(self) -> None:
        bounds = (self.lower, self.upper)
        if not all(isinstance(each, Antichain) for each in bounds) or self.upper.less_than(self.lower):
            raise InvalidUsage(
                f"no batch can be described [{self.lower!r}, {self.upper!r}): expected two frontiers, the upper not before the lower"
            )


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
    """The outcome of any run. It wrote ``[lower, upper)``; both are the shard's upper if it wrote
    nothing.

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
