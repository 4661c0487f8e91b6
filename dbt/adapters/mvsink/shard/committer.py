"""The half of a write handle that follows the shard's versions and commits to it.

Invariants: a handle's cached upper never runs ahead of the shard and never goes back; a batch whose
commit was sent is deleted only once it is known that the commit did not happen.

Commits without files are made here: holds, `since`, properties, and the mark of a dropped shard.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import Any

from dbt.adapters.mvsink.shard import claims, commit_loop
from dbt.adapters.mvsink.shard import state as transitions
from dbt.adapters.mvsink.shard.batch import Batch, BatchState, Cut, batch_from
from dbt.adapters.mvsink.shard.errors import ShardError, StorageError, UnresolvedCommit
from dbt.adapters.mvsink.shard.frontier import Antichain, check_time
from dbt.adapters.mvsink.shard.leases import leased_since
from dbt.adapters.mvsink.shard.staging import StagingHandle
from dbt.adapters.mvsink.shard.state import BATCHES, Change, CommitNote, ShardState
from dbt.adapters.mvsink.shard.storage import Storage

log = logging.getLogger("mvsink.shard")
LONGEST_POLL = 1.0  # seconds

# the newest upper that any handle of this process has seen, by shard and generation
_uppers: dict[str, Antichain] = {}
_uppers_lock = threading.Lock()


class Committer(StagingHandle):
    """Stages, follows the shard's versions, commits. `WriteHandle` adds appends and rewrites."""

    def __init__(self, storage: Storage, opened: ShardState, purpose: str = ""):
        super().__init__(storage, opened)
        self.writer_id = uuid.uuid4()
        self.purpose = purpose
        self.generation = opened.generation
        self._upper = opened.upper
        self._observe(opened)

    @property
    def upper(self) -> Antichain:
        """The newest upper that this handle has seen; no I/O, may be stale."""
        return self._upper

    def shared_upper(self) -> Antichain:
        """The newest upper that any handle of this process has seen; no I/O."""
        with _uppers_lock:
            return _uppers[self._key()]

    def fetch_recent_upper(self) -> Antichain:
        """The upper in the log: at least that of every write that returned before this call."""
        return self.state().upper

    def state(self) -> ShardState:
        """The newest version. Raises `ShardReplaced` if it is of another generation."""
        self._require_open()
        return self._observe(commit_loop.load(self.storage))

    def follow(self) -> ShardState:
        """The newest version, whatever its generation: the handle writes in that one from now on.

        If the generation is new, the handle's staged files are deleted.
        """
        self._require_open()
        state = commit_loop.load(self.storage)
        if state.generation != self.generation:
            self._discard()
            self.generation, self._upper = state.generation, state.upper
        return self._observe(state)

    def wait_for_upper_past(self, frontier: Antichain, timeout: float | None = None) -> None:
        """Returns once ``frontier`` is before the upper; `TimeoutError` after ``timeout`` (s)."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = 0.01
        late = f"the upper of {self.uri} is {{!r}}, not past {frontier!r}, after {timeout} s"
        while not frontier.less_than(self._upper):
            self._require_open()
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                self._observe(commit_loop.load(self.storage, left))
            except StorageError as error:
                if left is None or left >= self.storage.timeout:
                    raise
                raise TimeoutError(late.format(self._upper)) from error
            if frontier.less_than(self._upper):
                return
            if deadline is not None and time.monotonic() + pause > deadline:
                raise TimeoutError(late.format(self._upper))
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_POLL)

    # history

    def downgrade_since(self, since: Antichain) -> Antichain:
        """Release history before ``since``; returns the shard's since afterwards.

        Holds, leases and the upper may keep it back.
        """

        def decide(state: ShardState) -> Change | None:
            moved = transitions.advance_since(state, self._without_leases(since))
            return None if moved == state.since else Change("advance", {"since": moved})

        return self._commit(decide).since

    def hold(self, holder: str, time: int, *, forward: bool = True) -> Antichain:
        """Keep history from ``time`` (ms) on for ``holder``, durably, until the hold is moved or
        released; returns the shard's since.

        ``forward``: whether an existing hold may move to a later time. Raises `InvalidUsage` if
        history before ``time`` is needed but was released already, and for a ``holder`` whose name
        could not be listed.
        """
        check_time(time)
        transitions.check_holder(holder)

        def decide(state: ShardState) -> Change | None:
            current = state.holds.get(holder)
            if current is not None and (current == time or (current < time and not forward)):
                return None
            return transitions.hold(state, holder, time)

        return self._commit(decide).since

    def release_hold(self, holder: str) -> None:
        """Remove ``holder``'s hold; harmless if there is none."""
        self._commit(lambda state: transitions.release(holder) if holder in state.holds else None)

    # properties and the shard's end

    def set_properties(self, properties: Mapping[str, str], note: CommitNote | None = None) -> int:
        """Change the shard's own properties (owner, definition, ...); returns the new version."""

        def decide(state: ShardState) -> Change | None:
            changed = {key: value for key, value in properties.items() if state.properties.get(key) != value}
            return Change("schema", properties=changed) if changed else None

        return self._commit(decide, note).version

    def keep_statistics(self) -> None:
        """Have the log keep statistics of the physical columns, for existing files too.

        Without them no hash is trusted. Shards of an earlier release have none if these columns
        come after the 32nd (a struct's fields count each).
        """
        self._commit(
            lambda state: None if state.statistics else Change("schema", {"statistics": True}),
            CommitNote(purpose="statistics"),
        )

    def mark_dropped(self, at: int | None = None) -> int:
        """Mark the shard dropped at the time ``at`` (ms), by default now by the storage's clock;
        the new version. The next run replaces it.
        """

        def decide(state: ShardState) -> Change | None:
            if state.dropped:
                return None
            return Change("schema", {"dropped": self.storage.clock() if at is None else at})

        return self._commit(decide).version

    def discard(self, dropped_by: int) -> None:
        """Remove the files of a shard dropped at or before ``dropped_by`` (ms) from the log.

        Nothing happens if a new generation has begun since, or if history is held.
        """
        self._commit(
            lambda state: transitions.discard(state, dropped_by),
            CommitNote(purpose="files of a dropped shard"),
        )

    # directories without an owner

    def batch_from_transmittable_batch(self, description: Mapping[str, Any]) -> Batch:
        """A batch that another handle, process or machine handed over. This handle owns it now.

        Raises `InvalidUsage` if another writer has received the same description, or if the batch
        names a directory with files that are or were live.
        """
        self._require_open()
        batch = batch_from(self.storage, self.schema, description)
        try:
            self._require_own(batch)
            if batch.files:
                removed = self.storage.removals().times.keys()
                self._commit(
                    lambda state: claims.claim(state, batch.files, str(self.writer_id), removed),
                    CommitNote(purpose="batch received"),
                )
        except BaseException:
            batch.end(BatchState.SPENT)
            raise
        return self.track(batch)

    def condemn(self, abandoned: Collection[str], gone: Collection[str], now: int) -> ShardState:
        """Claim abandoned directories for garbage collection; the version from which on no commit
        can name them (`claims.condemn`).
        """
        return self._commit(
            lambda state: claims.condemn(state, abandoned, gone, now), CommitNote(purpose="garbage")
        )

    # committing

    def _commit(self, decide: commit_loop.Decide, note: CommitNote | None = None) -> ShardState:
        self._require_open()
        return self._observe(commit_loop.commit(self.storage, self._signed(decide, note)))

    def _commit_batches(
        self,
        decide: commit_loop.Decide,
        batches: Sequence[Batch],
        note: CommitNote | None,
        cuts: Sequence[Cut | None] = (),
        *,
        new_generation: bool = False,
    ) -> ShardState:
        """Commit a change that names the batches' files, or those of their ``cuts``.

        The batches are in doubt before anything is sent. Only a known outcome ends that: they are
        consumed, or they are staged again and the cuts deleted. After any other exception, wherever
        it is raised, all files are left to garbage collection.
        """
        self._require_open()
        in_doubt: list[Batch] = []
        try:
            for batch in batches:
                batch.doubt()
                in_doubt.append(batch)
            after = commit_loop.commit(self.storage, self._signed(self._checked(decide), note))
        except UnresolvedCommit:
            raise
        except ShardError:
            self._undo(in_doubt, cuts)
            raise
        if new_generation:  # the only place where the cached upper may fall
            self.generation, self._upper = after.generation, after.upper
        for batch, narrowed in zip_longest(batches, cuts):
            if narrowed is not None:
                batch.settle()  # the log names the cut's files, not the batch's
                self._attempt(batch.delete)
            batch.end(BatchState.CONSUMED)
        return self._observe(after)

    def _attempt(self, step: Callable[[], object]) -> None:
        """A step whose failure is not that of the call: what it is about is done, or another error
        says why not. What it would have deleted is left to garbage collection.
        """
        try:
            step()
        except ShardError as error:
            log.warning("shard %s: left to a later run: %s", self.uri, error)

    def _undo(self, batches: Sequence[Batch], cuts: Sequence[Cut | None]) -> None:
        """The commit did not happen: the batches are usable again, the cuts are garbage."""
        for batch in batches:
            batch.settle()
        for narrowed in cuts:
            if narrowed is not None:
                directory = f"{BATCHES}/{narrowed.batch_id}"
                self._attempt(partial(self.storage.delete_directory, directory))

    def _checked(self, decide: commit_loop.Decide) -> commit_loop.Decide:
        """``decide``, and its change adds only files that are there, whole, and free to be added.

        This is checked on the version that the commit follows, after that was read. A collector
        claims a directory before it deletes it, so one of the two sees the other (`claims`).
        """

        def checked(state: ShardState) -> Change | None:
            change = decide(state)
            if change is not None and change.adds:
                claims.require_free(state, change.adds, str(self.writer_id), self.uri)
                self._require_whole(change.adds)
            return change

        return checked

    def _signed(self, decide: commit_loop.Decide, note: CommitNote | None) -> commit_loop.Decide:
        """``decide`` on versions of the handle's generation, its change signed by this writer."""
        signature = note or CommitNote(purpose=self.purpose)

        def signed(state: ShardState) -> Change | None:
            change = decide(self._observe(state))
            return change and replace(change, note=signature, writer_id=str(self.writer_id))

        return signed

    def _observe(self, state: ShardState) -> ShardState:
        """``state``, remembered as the newest. Raises `ShardReplaced`."""
        transitions.check_generation(state, self.uri, self.generation)
        with _uppers_lock:
            _uppers[self._key()] = _uppers.get(self._key(), state.upper).join(state.upper)
        self._upper = self._upper.join(state.upper)
        self.schema = state.schema
        return state

    def _without_leases(self, since: Antichain) -> Antichain:
        """``since``, or the earlier one that a reader's lease keeps."""
        return since.meet(leased_since(self.storage))

    def _key(self) -> str:
        return f"{self.shard_id}/{self.generation}"
