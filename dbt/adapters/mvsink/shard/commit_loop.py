"""The retry loop around the pure transitions.

Load the newest version, decide on it, commit at exactly the next version. If somebody else took
that version, decide again on what is there now: a transition that still holds is retried (they
compacted, say), one that does not raises its conflict.

A commit's outcome can be unknown: it was sent, and the reply was lost. Every change carries a token
that no other has, so the log itself answers: the version that was asked for either carries the
token (it happened) or another's (it did not, and can never: that version is taken), or is still
free. If it is free the same change is sent again under the same token; should the first one arrive
late after all, the second finds the version taken, by its own token.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from dataclasses import replace

from dbt.adapters.mvsink.shard.errors import (
    ShardError,
    StorageError,
    TransientError,
    UnknownOutcome,
    UnresolvedCommit,
    VersionTaken,
)
from dbt.adapters.mvsink.shard.state import Change, ShardState, apply
from dbt.adapters.mvsink.shard.storage import Storage, require

FIRST_PAUSE, LONGEST_PAUSE = 0.01, 2.0  # seconds
CROWDED_PAUSE = 0.05  # seconds at most, after somebody else took the version

Decide = Callable[[ShardState], Change | None]


class Backoff:
    """Pauses that double, with jitter, until the storage's timeout is over, or ``within`` seconds
    are.
    """

    def __init__(self, storage: Storage, within: float | None = None):
        self.deadline = time.monotonic() + (
            storage.timeout if within is None else min(within, storage.timeout)
        )
        self.pause = FIRST_PAUSE

    def wait(self, cause: BaseException) -> None:
        """Sleep, or raise `StorageError` if the time is over."""
        if time.monotonic() + self.pause > self.deadline:
            raise StorageError(str(cause)) from cause
        time.sleep(self.pause * random.uniform(0.5, 1.0))
        self.pause = min(self.pause * 2, LONGEST_PAUSE)


def load(storage: Storage, within: float | None = None) -> ShardState:
    """The newest version; `InvalidUsage` if there is no shard."""
    return require(find(storage, within), storage.uri)


def find(storage: Storage, within: float | None = None) -> ShardState | None:
    """The newest version, None if there is no shard. Transient failures are tried again until the
    timeout (`Backoff`).
    """
    backoff = Backoff(storage, within)
    while True:
        try:
            return storage.load()
        except TransientError as error:
            backoff.wait(error)


def commit(storage: Storage, decide: Decide) -> ShardState:
    """Commit what ``decide`` makes of the newest version; the state afterwards.

    ``decide`` raises a conflict or `InvalidUsage` to stop, or gives None if there is nothing to
    commit. A `ShardError` that leaves here and is no `UnresolvedCommit` means that nothing
    happened; after any other exception nobody knows.
    """
    # what was sent with an unknown outcome, by version: the state afterwards
    sent: dict[int, ShardState] = {}
    try:
        return _commit(storage, decide, sent)
    except UnresolvedCommit:
        raise
    except ShardError as error:
        if sent:
            raise UnresolvedCommit(
                f"whether version {max(sent)} was committed is not known: {error}"
            ) from error
        raise


def _commit(storage: Storage, decide: Decide, sent: dict[int, ShardState]) -> ShardState:
    token = uuid.uuid4().hex
    backoff = Backoff(storage)
    while True:
        state = load(storage)
        for version in [version for version in sent if version <= state.version]:
            if _happened(storage, version, token, backoff):
                return sent[version]
            del sent[version]  # that version is taken, by another
        change = decide(state)
        if change is None:
            return state
        change = replace(change, token=token)
        version = state.version + 1
        try:
            storage.commit(version, change)
            return apply(state, change)
        except (VersionTaken, UnknownOutcome, TransientError) as error:
            if not isinstance(error, TransientError) and _happened(storage, version, token, backoff):
                return apply(state, change)
            if isinstance(error, UnknownOutcome):
                sent[version] = apply(state, change)
            if isinstance(error, VersionTaken):  # no failure, so no time-out: somebody else got on
                time.sleep(random.uniform(0, CROWDED_PAUSE))
            elif sent:
                _wait_for_answer(backoff, error, version)
            else:
                backoff.wait(error)


def _happened(storage: Storage, version: int, token: str, backoff: Backoff) -> bool:
    while True:
        try:
            return storage.token_at(version) == token
        except (TransientError, StorageError) as error:
            _wait_for_answer(backoff, error, version)


def _wait_for_answer(backoff: Backoff, error: BaseException, version: int) -> None:
    """Until the log has answered, nobody may say that a commit did not happen."""
    try:
        backoff.wait(error)
    except StorageError as over:
        raise UnresolvedCommit(f"whether version {version} was committed is not known: {error}") from over
