"""Writing: `WriteHandle` commits. What it commits was staged before (`staging`).

Invariants: an append becomes visible in one commit or not at all; nothing staged is deleted before
it is known that its commit did not happen; a handle's cached upper never runs ahead of the shard
and never goes back; what was staged for some columns is never appended to others.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import pyarrow as pa

from dbt.adapters.mvsink.shard import commit_loop as machine
from dbt.adapters.mvsink.shard import state as transitions
from dbt.adapters.mvsink.shard.batch import Batch, BatchState, Cut, check_files, cut
from dbt.adapters.mvsink.shard.errors import (
    Conflict,
    InvalidUsage,
    ShardError,
    ShardReplaced,
    StorageError,
    UnresolvedCommit,
    UpperMismatch,
)
from dbt.adapters.mvsink.shard.frontier import Antichain, check_time
from dbt.adapters.mvsink.shard.policy import compaction_due
from dbt.adapters.mvsink.shard.read import leased_since
from dbt.adapters.mvsink.shard.staging import Staging
from dbt.adapters.mvsink.shard.state import (
    BATCHES,
    EMPTY,
    Change,
    CommitNote,
    DataFile,
    Maintenance,
    ShardState,
)
from dbt.adapters.mvsink.shard.storage import Storage
from dbt.adapters.mvsink.shard.updates import Updates, check_data_schema

Rewriting = Callable[[ShardState, Sequence[DataFile]], Change]
UPKEEP_EVERY = 20  # versions since the last checkpoint
LONGEST_POLL = 1.0  # seconds

# the newest upper seen by any handle of this process, by shard and generation
_uppers: dict[str, Antichain] = {}
_uppers_lock = threading.Lock()


@dataclass(frozen=True)
class AppendResult:
    """What an append did: the version it made, and what it leaves to do."""

    version: int
    maintenance: Maintenance


@dataclass(frozen=True)
class CompactionResult:
    """Of a rewrite. `applied` is False if another commit came first; then the batches are deleted."""

    applied: bool
    version: int


class WriteHandle(Staging):
    """A writer of one shard. See docs/design/shard.md for each member's contract."""

    def __init__(self, storage: Storage, opened: ShardState, purpose: str = ""):
        super().__init__(storage, opened)
        self.writer_id = uuid.uuid4()
        self.purpose = purpose
        self.generation = opened.generation
        self._upper = opened.upper
        self._saw(opened)

    @classmethod
    def from_read(cls, reader: Any, purpose: str = "") -> WriteHandle:
        """A writer of the shard that ``reader`` reads."""
        return cls(reader.storage, reader.state(), purpose)

    @property
    def upper(self) -> Antichain:
        """The newest upper this handle has seen; no I/O, may be stale."""
        return self._upper

    def shared_upper(self) -> Antichain:
        """The newest upper that any handle of this process has seen; no I/O."""
        with _uppers_lock:
            return _uppers[self._key()]

    def fetch_recent_upper(self) -> Antichain:
        """The shard's upper, read from the log: never older than a write that had returned before
        this call.
        """
        return self.state().upper

    def state(self) -> ShardState:
        """The newest version. Raises `ShardReplaced` if it is of another generation than this
        handle's.
        """
        self._require_open()
        return self._saw(machine.load(self.storage))

    def follow(self) -> ShardState:
        """The newest version, of whatever generation: from here on the handle writes in that one.
        What it had staged is deleted.
        """
        self._require_open()
        state = machine.load(self.storage)
        if state.generation != self.generation:
            self._discard()
            self.generation, self._upper = state.generation, state.upper
        return self._saw(state)

    # appending

    def compare_and_append(
        self, updates: Updates, expected_upper: Antichain, new_upper: Antichain, **more: Any
    ) -> AppendResult:
        """Write ``updates`` and move the upper iff it is ``expected_upper``; on a mismatch nothing
        stays staged.
        """
        batch = self.batch(updates, expected_upper, new_upper)
        try:
            return self.compare_and_append_batch([batch], expected_upper, new_upper, **more)
        except (Conflict, InvalidUsage):
            batch.delete()
            raise

    def compare_and_append_batch(
        self,
        batches: Sequence[Batch],
        expected_upper: Antichain,
        new_upper: Antichain,
        *,
        since: Antichain | None = None,
        inputs: Mapping[str, int] = EMPTY,
        removes: Sequence[DataFile] = (),
        note: CommitNote | None = None,
        creation: int | None = None,
    ) -> AppendResult:
        """Append staged batches as one. On a mismatch they stay usable: the caller retries or
        deletes them.

        ``since`` is how far history may be released with this commit (holds, leases and the upper
        may keep it back); ``inputs`` is the progress on each input; ``removes`` are live files that
        go with it; ``creation`` is the logical time (ms) at which the generation began, told by the
        commit that brings it to its as-of.
        """
        self._check_append(batches, expected_upper, new_upper)
        if since is not None:
            since = since.meet(leased_since(self.storage, int(time.time() * 1000)))
        cuts = [cut(self.storage, b, expected_upper, new_upper) for b in batches]
        adds = [
            file
            for b, made in zip(batches, cuts, strict=True)
            for file in (b if made is None else made).files
        ]
        idle = expected_upper == new_upper and not adds and since is None and not inputs and not removes

        def decide(state: ShardState) -> Change | None:
            self._saw(state)
            change = transitions.compare_and_append(
                state, expected_upper, new_upper, adds, since=since, inputs=inputs, removes=removes
            )
            self._require_columns(state, batches)
            return None if idle else self._signed(replace(change, creation=creation), note)

        after = self._commit_batches(decide, batches, cuts)
        return AppendResult(after.version, _maintenance(after, self.storage))

    def append(self, updates: Updates, lower: Antichain, upper: Antichain) -> None:
        """For replicated writers: what is already there is cut away, the rest is appended."""
        self.append_batch(self.batch(updates, lower, upper), lower, upper)

    def append_batch(self, batch: Batch, lower: Antichain, upper: Antichain) -> None:
        """`append` for a staged batch, which is consumed or deleted. `UpperMismatch` if there would
        be a hole.
        """
        while True:
            current = self.fetch_recent_upper()
            try:
                if lower.less_equal(current) and upper.less_equal(current):
                    batch.require_staged()
                    self._require_own(batch)
                    _check_described([batch], lower, upper)
                    batch.delete()
                    return
                if current.less_than(lower):
                    raise UpperMismatch(current, lower)
                _check_described([batch], lower, upper)
                self.compare_and_append_batch([batch], current, upper)
                return
            except UpperMismatch as mismatch:
                if mismatch.current.less_than(lower):
                    batch.delete()
                    raise
            except InvalidUsage:
                if batch.state is BatchState.STAGED and batch.shard_id == str(self.shard_id):
                    batch.delete()
                raise

    def replace(
        self,
        batches: Sequence[Batch],
        schema: pa.Schema,
        upper: Antichain,
        since: Antichain,
        *,
        note: CommitNote | None = None,
        expected_version: int | None = None,
        creation: int | None = None,
    ) -> AppendResult:
        """A new generation in one commit. This handle goes on in it; others get `ShardReplaced`.

        It begins at ``creation`` (ms); with None it keeps the old one's. Raises `InvalidUsage` if
        ``since`` is after ``upper`` or an update lies at or beyond ``upper``.
        """
        if upper.less_than(since):
            raise InvalidUsage(f"since {since!r} is after the upper {upper!r} of the new generation")
        self._require_usable(batches)
        for b in batches:
            check_files(b.files, Antichain.of(0), upper)
        adds = [file for b in batches for file in b.files]

        def decide(state: ShardState) -> Change:
            self._saw(state)
            change = transitions.replace_generation(state, adds, schema, upper, since, expected_version)
            return self._signed(replace(change, creation=creation), note)

        after = self._commit_batches(decide, batches, new_generation=True)
        self.keep_statistics()
        return AppendResult(after.version, Maintenance(collect_garbage=True))

    def compact(
        self, batches: Sequence[Batch], removes: Sequence[DataFile], note: CommitNote | None = None
    ) -> CompactionResult:
        """Replace live files by batches with the same contents. A lost race is harmless: the
        batches are deleted.
        """
        return self._rewrite(batches, lambda state, adds: transitions.compaction(state, adds, removes), note)

    def evolve(
        self,
        batches: Sequence[Batch],
        schema: pa.Schema,
        removes: Sequence[DataFile],
        note: CommitNote | None = None,
    ) -> CompactionResult:
        """Add the columns that are new in ``schema``: ``batches`` hold the updates of ``removes``,
        all live files, with NULL in them.

        Times stay, and so do upper, since and generation. A lost race is harmless, as for
        `compact`. Raises `SchemaMismatch` if a column would go or change its type. Other handles go
        on; only what they had staged for the old columns is refused.
        """
        check_data_schema(schema)
        done = self._rewrite(
            batches, lambda state, adds: transitions.evolution(state, self.uri, adds, removes, schema), note
        )
        self.keep_statistics()
        return done

    def _rewrite(
        self, batches: Sequence[Batch], change: Rewriting, note: CommitNote | None
    ) -> CompactionResult:
        self._require_usable(batches)
        adds = [file for b in batches for file in b.files]

        def decide(state: ShardState) -> Change:
            self._saw(state)
            return self._signed(change(state, adds), note)

        try:
            after = self._commit_batches(decide, batches)
        except (Conflict, ShardReplaced):
            for b in batches:
                b.delete()
            return CompactionResult(False, machine.load(self.storage).version)
        return CompactionResult(True, after.version)

    def downgrade_since(self, since: Antichain) -> Antichain:
        """Release history before ``since``; where since stands now (holds, leases and the upper may
        keep it back).
        """

        def decide(state: ShardState) -> Change | None:
            self._saw(state)
            wanted = since.meet(leased_since(self.storage, int(time.time() * 1000)))
            moved = transitions.advance_since(state, wanted)
            return None if moved == state.since else self._signed(Change(kind="advance", since=moved), None)

        return self._commit(decide).since

    def hold(self, holder: str, time: int, *, forward: bool = True) -> Antichain:
        """Keep history from ``time`` (ms) on for ``holder``, durably, until it is moved or
        released; where since stands.

        ``forward``: its hold may move to a later time; if not, the earlier one stays. Raises
        `InvalidUsage` if history before ``time`` is needed but was released already.
        """
        check_time(time)

        def decide(state: ShardState) -> Change | None:
            self._saw(state)
            held = state.holds.get(holder)
            if held is not None and (held == time or (held < time and not forward)):
                return None
            return self._signed(transitions.hold(state, holder, time), None)

        return self._commit(decide).since

    def release_hold(self, holder: str) -> None:
        """Remove ``holder``'s hold; harmless if there is none."""

        def decide(state: ShardState) -> Change | None:
            self._saw(state)
            return self._signed(transitions.release(holder), None) if holder in state.holds else None

        self._commit(decide)

    def set_properties(self, properties: Mapping[str, str]) -> int:
        """Change the shard's own configuration (owner, definition, ...); the version made."""

        def decide(state: ShardState) -> Change | None:
            self._saw(state)
            changed = {key: value for key, value in properties.items() if state.properties.get(key) != value}
            return self._signed(Change(kind="schema", properties=changed), None) if changed else None

        return self._commit(decide).version

    def keep_statistics(self) -> None:
        """Have the log tell the statistics of our columns, also of the files that are there; no
        commit if it does.

        Without them no hash is believed: shards of an earlier release have none from the 33rd
        column on (a struct's fields count each).
        """

        def decide(state: ShardState) -> Change | None:
            self._saw(state)
            if state.statistics:
                return None
            return self._signed(Change(kind="schema", statistics=True), CommitNote(purpose="statistics"))

        self._commit(decide)

    def mark_dropped(self, now_ms: int) -> int:
        """Mark the shard dropped at ``now_ms``; the next run makes a new generation. The version
        made.
        """

        def decide(state: ShardState) -> Change | None:
            self._saw(state)
            return None if state.dropped else self._signed(Change(kind="schema", dropped=now_ms), None)

        return self._commit(decide).version

    def discard(self, dropped_by: int) -> None:
        """Take the files of a shard dropped at or before ``dropped_by`` (ms) out of the log, unless
        it lives again or is held.
        """

        def decide(state: ShardState) -> Change | None:
            self._saw(state)
            change = transitions.discard(state, dropped_by)
            return (
                None
                if change is None
                else self._signed(change, CommitNote(purpose="files of a dropped shard"))
            )

        self._commit(decide)

    def wait_for_upper_past(self, frontier: Antichain, timeout: float | None = None) -> None:
        """Return once ``frontier`` is strictly before the upper; `TimeoutError` after ``timeout``
        seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = 0.01
        late = f"the upper of {self.uri} is {{!r}}, not past {frontier!r}, after {timeout} s"
        while not frontier.less_than(self._upper):
            self._require_open()
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                self._saw(machine.load(self.storage, left))
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

    def __enter__(self) -> WriteHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.expire()

    def _commit(self, decide: machine.Decide) -> ShardState:
        self._require_open()
        return self._saw(machine.commit(self.storage, decide))

    def _commit_batches(
        self,
        decide: machine.Decide,
        batches: Sequence[Batch],
        cuts: Sequence[Cut | None] = (),
        *,
        new_generation: bool = False,
    ) -> ShardState:
        """Commit what names the batches' files, or their ``cuts``.

        They are in doubt before anything is sent. Only an outcome that is known ends that: then
        they are consumed, or staged as before and the cuts deleted. Every other exception, at
        whatever point it comes, leaves all files to garbage collection.
        """
        self._require_open()
        doubted: list[Batch] = []
        try:
            for b in batches:
                b.doubt()
                doubted.append(b)
            after = machine.commit(self.storage, decide)
        except UnresolvedCommit:
            raise
        except ShardError:
            self._undo(doubted, cuts)
            raise
        if new_generation:  # only here may the upper fall
            self.generation, self._upper = after.generation, after.upper
        for b, made in zip_longest(batches, cuts):
            if made is not None:
                b.settle()  # the log names the cut's files, not these
                b.delete()
            b.end(BatchState.CONSUMED)
        return self._saw(after)

    def _undo(self, batches: Sequence[Batch], cuts: Sequence[Cut | None]) -> None:
        """The commit did not happen."""
        for b in batches:
            b.settle()
        for made in cuts:
            if made is not None:
                self.storage.delete_directory(f"{BATCHES}/{made.batch_id}")

    def _signed(self, change: Change, note: CommitNote | None) -> Change:
        noted = note or CommitNote(purpose=self.purpose)
        return replace(change, note=noted, writer_id=str(self.writer_id))

    def _saw(self, state: ShardState) -> ShardState:
        transitions.check_generation(state, self.uri, self.generation)
        with _uppers_lock:
            shared = _uppers.get(self._key(), state.upper).join(state.upper)
            _uppers[self._key()] = shared
        self._upper = self._upper.join(state.upper)
        self.schema = state.schema
        return state

    def _key(self) -> str:
        return f"{self.shard_id}/{self.generation}"

    def _check_append(self, batches: Sequence[Batch], lower: Antichain, upper: Antichain) -> None:
        self._require_usable(batches)
        _check_described(batches, lower, upper)


def _check_described(batches: Sequence[Batch], lower: Antichain, upper: Antichain) -> None:
    """Rules 2 and 4: the bounds are in order, and an append may be narrower than a batch's
    description, never wider.
    """
    if upper.less_than(lower):
        raise InvalidUsage(f"new_upper {upper!r} is before expected_upper {lower!r}")
    for b in batches:
        if b.files and upper == lower:
            raise InvalidUsage(f"updates cannot be appended between {lower!r} and itself")
        if b.files and not (b.lower.less_equal(lower) and upper.less_equal(b.upper)):
            raise InvalidUsage(
                f"a batch described [{b.lower!r}, {b.upper!r}) cannot be appended as [{lower!r}, {upper!r}): that is wider"
            )


def _maintenance(state: ShardState, storage: Storage) -> Maintenance:
    try:
        due = state.version - storage.checkpointed() >= UPKEEP_EVERY
    except StorageError:  # the append is done; the next one asks again
        due = False
    return Maintenance(compact=compaction_due(state), collect_garbage=due, checkpoint=due)
