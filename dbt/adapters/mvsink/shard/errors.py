"""The four kinds of failure, never mixed.

invalid usage      a bug in the caller; never retried: `InvalidUsage`, `SchemaMismatch`,
`ShardReplaced` expected conflict  another writer was faster: `UpperMismatch`, `FilesChanged`
storage failure    definite, nothing happened: `StorageError` unknown outcome    after a commit was
sent; resolved inside this layer and never seen outside it: `UnknownOutcome`
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dbt.adapters.mvsink.shard.frontier import Antichain


class ShardError(Exception):
    """Root of the shard layer's errors."""


class InvalidUsage(ShardError):
    """The caller broke the contract. Nothing happened."""


class NotAShard(InvalidUsage):
    """There is nothing there, or a Delta table that is not one of ours."""


class SchemaMismatch(InvalidUsage):
    """The shard has other columns."""

    def __init__(self, uri: str, differences: Sequence[str]):
        super().__init__(f"shard {uri} has other columns: {'; '.join(differences)}")
        self.differences = tuple(differences)


class ShardReplaced(InvalidUsage):
    """The shard has a new generation; handles of the old one are of no more use."""

    def __init__(self, uri: str, mine: int, current: int):
        super().__init__(
            f"shard {uri} was replaced: this handle is of generation {mine}, the shard of {current}; open it again"
        )


class Conflict(ShardError):
    """Another writer was faster. What was staged is still there unless said otherwise."""


class UpperMismatch(Conflict):
    """The shard's upper is not the expected one. ``current`` is what it was when this was found."""

    def __init__(self, current: Antichain, expected: Antichain):
        super().__init__(f"the shard's upper is {current!r}, expected {expected!r}")
        self.current = current
        self.expected = expected


class FilesChanged(Conflict):
    """Live files that a commit relies on are no longer live, or the version is not the expected
    one.
    """


class StorageError(ShardError):
    """The storage failed, definitely; nothing happened."""


class NothingStaged(StorageError):
    """An engine reported that it wrote files, and there are none where this process looks. ``uri``
    is the directory.
    """

    def __init__(self, uri: str):
        super().__init__(
            f"the engine reports that it wrote {uri}, but from here no data file is there: the engine and this process see different "
            "places under that name. Nothing was committed"
        )
        self.uri = uri


class LogDamaged(StorageError):
    """The log is there and cannot be read, or says what it must not: no waiting heals that. The
    message says what to do.
    """

    def __init__(self, uri: str, what: str):
        super().__init__(f"the log of shard {uri} is damaged: {what}")


class OutsideShard(StorageError):
    """A path leads out of the shard's directory. Nothing there is read or deleted."""


class UnresolvedCommit(StorageError):
    """A commit was sent, and the log could not be asked in time whether it happened. What was
    staged is left where it is.
    """


class VersionTaken(Exception):
    """Inside this layer: somebody else committed the version."""


class UnknownOutcome(Exception):
    """Inside this layer: a commit was sent, and nobody knows whether it happened."""


class TransientError(Exception):
    """Inside this layer: a failure worth another try; nothing happened."""
