"""One writer's way through a shard's versions: it follows them, and commits the next ones.

A `WriteHandle` has one `Versions` and says what to commit:

    versions.commit(lambda state: Change("advance", {"since": state.upper}))

Invariants: the cached upper never runs ahead of the shard and never goes back; a batch whose commit
was sent is deleted only once it is known that the commit did not happen.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest

from dbt.adapters.mvsink.shard import claims, commit_loop
from dbt.adapters.mvsink.shard.batch import Batch, BatchState, Cut
from dbt.adapters.mvsink.shard.errors import ShardError, StorageError, UnresolvedCommit
from dbt.adapters.mvsink.shard.frontier import Antichain
from dbt.adapters.mvsink.shard.staging import StagingHandle, require_whole
from dbt.adapters.mvsink.shard.state import Change, CommitNote, ShardState, check_generation, root_of

log = logging.getLogger("mvsink.shard")
LONGEST_POLL = 1.0  # seconds

# the newest upper that any handle of this process has seen, by shard and generation
_uppers: dict[str, Antichain] = {}
_uppers_lock = threading.Lock()


class Versions:
    """The versions of the shard that ``handle`` stages for, from the ``opened`` one on.

    ``purpose`` is noted in commits without a note. ``upper`` is the newest upper that was seen
    here.
    """

    def __init__(self, handle: StagingHandle, opened: ShardState, purpose: str):
        self.handle = handle
        self.storage = handle.storage
        self.writer_id = uuid.uuid4()
        self.purpose = purpose
        self.generation = opened.generation
        self.upper = opened.upper
        self.observe(opened)

    def shared_upper(self) -> Antichain:
        """The newest upper that any handle of this process has seen; no I/O."""
        with _uppers_lock:
            return _uppers[self._key()]

    def load(self, within: float | None = None) -> ShardState:
        """The newest version. Raises `ShardReplaced` if it is of another generation."""
        self.handle.require_open()
        return self.observe(commit_loop.load(self.storage, within))

    def follow(self) -> ShardState:
        """The newest version, whatever its generation: the writer continues in that one.

        If the generation is new, what was staged is deleted.
        """
        self.handle.require_open()
        state = commit_loop.load(self.storage)
        if state.generation != self.generation:
            self.handle.discard_staged()
            self.generation, self.upper = state.generation, state.upper
        return self.observe(state)

    def wait_for_upper_past(self, frontier: Antichain, timeout: float | None = None) -> None:
        """Returns once ``frontier`` is before the upper; `TimeoutError` after ``timeout`` (s)."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = 0.01
        late = f"the upper of {self.storage.uri} is {{!r}}, not past {frontier!r}, after {timeout} s"
        while not frontier.less_than(self.upper):
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                self.load(left)
            except StorageError as error:
                if left is None or left >= self.storage.timeout:
                    raise
                raise TimeoutError(late.format(self.upper)) from error
            if frontier.less_than(self.upper):
                return
            if deadline is not None and time.monotonic() + pause > deadline:
                raise TimeoutError(late.format(self.upper))
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_POLL)

    def commit(self, decide: commit_loop.Decide, note: CommitNote | None = None) -> ShardState:
        """Commit a change without files; returns the version after it, or the newest if there is no
        change.
        """
        self.handle.require_open()
        return self.observe(commit_loop.commit(self.storage, self._signed(decide, note)))

    def commit_batches(
        self,
        decide: commit_loop.Decide,
        batches: Sequence[Batch],
        note: CommitNote | None,
        cuts: Sequence[Cut | None] = (),
        *,
        new_generation: bool = False,
    ) -> ShardState:
        """Commit a change that names the batches' files, or those of their ``cuts``.

        The batches are in doubt before anything is sent. Only a known outcome ends that: either
        they are consumed, or they are staged again and the cuts are deleted. After any other
        exception, all files are left to garbage collection.
        """
        self.handle.require_open()
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
            self.generation, self.upper = after.generation, after.upper
        for batch, narrowed in zip_longest(batches, cuts):
            if narrowed is not None:
                batch.settle()  # the log names the cut's files, not the batch's
                self.attempt(batch.delete)
            batch.end(BatchState.CONSUMED)
        return self.observe(after)

    def attempt(self, step: Callable[[], object]) -> None:
        """Run a clean-up step whose failure must not fail the call: the call's work is done, or
        another error says why not. What the step would have deleted is left to garbage collection.
        """
        try:
            step()
        except ShardError as error:
            log.warning("shard %s: left to a later run: %s", self.storage.uri, error)

    def _undo(self, batches: Sequence[Batch], cuts: Sequence[Cut | None]) -> None:
        """The commit did not happen: the batches are usable again, the cuts are garbage."""
        for batch in batches:
            batch.settle()
        for narrowed in cuts:
            if narrowed is not None:
                self.attempt(partial(self.storage.delete_directory, narrowed.directory))

    def _checked(self, decide: commit_loop.Decide) -> commit_loop.Decide:
        """``decide``, and a check that its change adds only files that exist, are whole, and are
        unclaimed.

        The check comes after the version that the commit follows was read. A collector claims a
        directory before it deletes it, so one of the two sees the other (`claims`).
        """

        def checked(state: ShardState) -> Change | None:
            change = decide(state)
            if change is not None and change.adds:
                claims.require_free(state, change.adds, str(self.writer_id), self.storage.uri)
                require_whole(self.storage, change.adds)
            return change

        return checked

    def _signed(self, decide: commit_loop.Decide, note: CommitNote | None) -> commit_loop.Decide:
        """``decide``, restricted to the writer's generation, with its change signed by this
        writer.
        """
        signature = note or CommitNote(purpose=self.purpose)

        def signed(state: ShardState) -> Change | None:
            change = decide(self.observe(state))
            return change and replace(change, note=signature, writer_id=str(self.writer_id))

        return signed

    def observe(self, state: ShardState) -> ShardState:
        """``state``, remembered as the newest. Raises `ShardReplaced`."""
        check_generation(state, self.storage.uri, self.generation)
        with _uppers_lock:
            _uppers[self._key()] = _uppers.get(self._key(), state.upper).join(state.upper)
        self.upper = self.upper.join(state.upper)
        self.handle.schema, self.handle.root = state.schema, root_of(state.format_version)
        return state

    def _key(self) -> str:
        return f"{self.handle.shard_id}/{self.generation}"
