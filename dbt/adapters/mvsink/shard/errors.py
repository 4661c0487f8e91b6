"""The four kinds of failure, never mixed.

- Invalid usage is a bug in the caller and never retried: `InvalidUsage`, `SchemaMismatch`,
  `ShardReplaced`.
- A conflict means that another writer was faster: `UpperMismatch`, `FilesChanged`.
- A storage failure is definite: nothing happened. `StorageError`.
- The outcome of a commit that was sent may be unknown: `UnknownOutcome`. This layer resolves it; if
  it cannot in time, it raises `UnresolvedCommit`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dbt.adapters.mvsink.shard.frontier import Antichain

CAUSE = "↳"
_COLOUR = re.compile(r"\x1b\[\d*m")


class ShardError(Exception):
    """Root of the shard layer's errors."""


class InvalidUsage(ShardError):
    """The caller broke the contract. Nothing happened."""

    error_code = "MVS-201"


class NotAShard(InvalidUsage):
    """There is no table, or a Delta table that is not a shard."""

    error_code = "MVS-202"


class SchemaMismatch(InvalidUsage):
    """The shard has other columns."""

    error_code = "MVS-203"

    def __init__(self, uri: str, differences: Sequence[str]):
        super().__init__(f"shard {uri} has other columns: {'; '.join(differences)}")
        self.differences = tuple(differences)


class ShardReplaced(InvalidUsage):
    """The shard has a new generation; handles of the old one can no longer be used."""

    error_code = "MVS-204"

    def __init__(self, uri: str, mine: int, current: int):
        super().__init__(
            f"shard {uri} was replaced: this handle is of generation {mine}, the shard of {current}; open it again"
        )


class Conflict(ShardError):
    """Another writer was faster. Staged files are kept unless documented otherwise."""


class UpperMismatch(Conflict):
    """The shard's upper is not the expected one. ``current`` is the upper at that moment."""

    error_code = "MVS-205"

    def __init__(self, current: Antichain, expected: Antichain):
        super().__init__(f"the shard's upper is {current!r}, expected {expected!r}")
        self.current = current
        self.expected = expected


class FilesChanged(Conflict):
    """Files that a commit relies on are no longer live, or the version is not the expected one."""

    error_code = "MVS-206"


class KeepsChanging(Conflict):
    """Other writers were faster every time."""

    error_code = "MVS-217"


class StorageError(ShardError):
    """The storage failed, definitely; nothing happened."""

    error_code = "MVS-207"


class Unreachable(StorageError):
    """A file could not be read, listed, written or deleted. A later attempt may succeed."""

    error_code = "MVS-208"


class NotPermitted(Unreachable):
    """The storage refuses this process the access."""

    error_code = "MVS-209"


class NothingStaged(StorageError):
    """An engine reported that it wrote files into the directory ``uri``; this process sees none."""

    error_code = "MVS-210"

    def __init__(self, uri: str):
        super().__init__(
            f"the engine reports that it wrote {uri}, but this process sees no data file there: the engine and this process see different "
            "places under that name. Nothing was committed"
        )
        self.uri = uri


class LogDamaged(StorageError):
    """The log is unreadable or invalid, and waiting does not help. The message says what to do."""

    error_code = "MVS-211"

    def __init__(self, uri: str, what: str):
        super().__init__(f"the log of shard {uri} is damaged: {what}")


class OutsideShard(StorageError):
    """A path leads out of the shard's directory. Nothing there is read or deleted."""

    error_code = "MVS-212"


class UnresolvedCommit(StorageError):
    """The log was unreadable after a commit was sent: it may have happened. Staged files stay."""

    error_code = "MVS-213"


class VersionTaken(Exception):
    """Inside this layer: another writer committed the version."""


class UnknownOutcome(Exception):
    """Inside this layer: a commit was sent, and it is unknown whether it happened."""


class TransientError(Exception):
    """Inside this layer: a failure worth a retry; nothing happened."""


def message_of(error: BaseException) -> str:
    """The message on one line, without another language's stack trace, but with the causes that
    `deltalake` writes in colour on lines of their own:

    >>> message_of(OSError("S3 error\\n \\x1b[31m↳\\x1b[0m HTTP error\\n  ↳ Connection\\n refused"))
    'S3 error: HTTP error: Connection refused'
    """
    lines = [" ".join(line.split()) for line in _COLOUR.sub("", str(error)).strip().splitlines()]
    if not lines:
        return type(error).__name__
    if not any(line.startswith(CAUSE) for line in lines):
        return lines[0]
    return ": ".join(part.strip() for part in " ".join(lines).split(CAUSE))
