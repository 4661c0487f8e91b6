"""The retry loop around the pure transitions.

Load the newest version, decide on it, commit at exactly the next version. If another writer took
that version, reload and decide again: a transition that is still valid (after a compaction, say) is
retried, any other raises its conflict.

A commit's outcome can be unknown: it was sent, and the reply was lost. Every change carries a
unique token, so the log itself has the answer. If the version carries this token, the commit
happened. If it carries another, the commit did not happen and never will, because the version is
taken. If the version is still free, the same change is sent again with the same token. Should the
first one arrive late after all, the second finds the version taken, with its own token.

The commit of a version may be gone although later ones exist: a checkpoint has replaced it. Then it
proves nothing. If files that only this change adds are live, it happened. If none are, it may still
have happened and compaction removed them: that is an `UnresolvedCommit`.
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
CROWDED_PAUSE = 0.05  # seconds at most, after another writer took the version

Decide = Callable[[ShardState], Change | None]
# each change that was sent with an unknown outcome, and the state after it, by version
Sent = dict[int, tuple[Change, ShardState]]


class Backoff:
    """Pauses that double, with jitter, for at most the storage's timeout or ``within`` seconds."""

    def __init__(self, storage: Storage, within: float | None = None):
        self.deadline = time.monotonic() + (
            storage.timeout if within is None else min(within, storage.timeout)
        )
        self.pause = FIRST_PAUSE

    def wait(self, cause: BaseException) -> None:
        """Sleep, or raise `StorageError` if the time is up."""
        if time.monotonic() + self.pause > self.deadline:
            raise StorageError(str(cause) or type(cause).__name__) from cause
        time.sleep(self.pause * random.uniform(0.5, 1.0))
        self.pause = min(self.pause * 2, LONGEST_PAUSE)


def load(storage: Storage, within: float | None = None) -> ShardState:
    """The newest version; `InvalidUsage` if there is no shard."""
    return require(find(storage, within), storage.uri)


def find(storage: Storage, within: float | None = None) -> ShardState | None:
    """The newest version; None if there is no shard. Transient failures are retried (`Backoff`)."""
    backoff = Backoff(storage, within)
    while True:
        try:
            return storage.load()
        except TransientError as error:
            backoff.wait(error)


def commit(storage: Storage, decide: Decide) -> ShardState:
    """Commit the change that ``decide`` returns for the newest version; returns the state after it.

    ``decide`` raises a conflict or `InvalidUsage` to stop, or returns None if there is nothing to
    commit. A `ShardError` other than `UnresolvedCommit` means that nothing happened. After any
    other exception the outcome is unknown.
    """
    sent: Sent = {}
    try:
        return _commit(storage, decide, sent)
    except UnresolvedCommit:
        raise
    except ShardError as error:
        if sent:
            raise UnresolvedCommit(
                f"whether version {max(sent)} was committed is unknown: {error}"
            ) from error
        raise


def _commit(storage: Storage, decide: Decide, sent: Sent) -> ShardState:
    token = uuid.uuid4().hex
    backoff = Backoff(storage)
    while True:
        state = load(storage)
        for version in [version for version in sent if version <= state.version]:
            lost, after = sent[version]
            if _took_effect(storage, version, lost, state, backoff):
                return after
            del sent[version]  # another writer took that version
        change = decide(state)
        if change is None:
            return state
        change = replace(change, token=token)
        version = state.version + 1
        try:
            storage.commit(version, change)
            return apply(state, change)
        except (VersionTaken, UnknownOutcome, TransientError) as error:
            committed = None if isinstance(error, TransientError) else _token(storage, version, backoff)
            if committed == token:
                return apply(state, change)
            if isinstance(error, UnknownOutcome) or (isinstance(error, VersionTaken) and committed is None):
                sent[version] = change, apply(state, change)
            if isinstance(error, VersionTaken):  # not a failure, so no timeout: another writer made progress
                time.sleep(random.uniform(0, CROWDED_PAUSE))
            elif sent:
                _wait_for_answer(backoff, error, version)
            else:
                backoff.wait(error)


def _took_effect(
    storage: Storage, version: int, change: Change, newest: ShardState, backoff: Backoff
) -> bool:
    """Whether ``change`` is what was committed as ``version``, which is not after the ``newest``.

    Raises `UnresolvedCommit` if that commit is gone and the live files do not show it either.
    """
    committed = _token(storage, version, backoff)
    if committed is not None:
        return committed == change.token
    live = {file.path for file in newest.files}
    if any(file.path in live for file in change.adds):
        return True
    raise UnresolvedCommit(
        f"whether version {version} of shard {storage.uri} was committed is unknown: its reply was lost, and the log was cleaned up past it "
        f"before it could be asked; the newest version is {newest.version}. Nothing that was staged is deleted. Read the shard, and "
        "append again what is missing"
    )


def _token(storage: Storage, version: int, backoff: Backoff) -> str | None:
    while True:
        try:
            return storage.token_at(version)
        except (TransientError, StorageError) as error:
            _wait_for_answer(backoff, error, version)


def _wait_for_answer(backoff: Backoff, error: BaseException, version: int) -> None:
    """Wait for the log: until it has answered, a commit must not be reported as failed."""
    try:
        backoff.wait(error)
    except StorageError as over:
        raise UnresolvedCommit(f"whether version {version} was committed is unknown: {error}") from over
