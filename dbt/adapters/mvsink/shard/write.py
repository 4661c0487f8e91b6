"""Writing: `ShardClient` opens shards, `WriteHandle` stages batches and moves the upper.

Invariants: an append becomes visible in one commit or not at all; nothing staged is deleted before it is known that its commit did
not happen; a handle's cached upper never runs ahead of the shard and never goes back.
"""

from __future__ import annotations

import threading
import time
import uuid
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from dbt.adapters.mvsink.shard import machine
from dbt.adapters.mvsink.shard import state as transitions
from dbt.adapters.mvsink.shard.batch import Batch, BatchBuilder, BatchState, Cut, batch_from, check_files, cut
from dbt.adapters.mvsink.shard.errors import Conflict, InvalidUsage, UpperMismatch
from dbt.adapters.mvsink.shard.frontier import Antichain
from dbt.adapters.mvsink.shard.state import (
    BATCHES,
    EMPTY,
    Change,
    CommitNote,
    DataFile,
    Maintenance,
    ShardState,
    check_bounds,
    compaction_due,
)
from dbt.adapters.mvsink.shard.storage import Storage, fresh_batch_id, is_part, only_parts
from dbt.adapters.mvsink.shard.updates import Updates

CHECKPOINT_EVERY = 20  # versions
GARBAGE_EVERY = 10  # versions
LONGEST_POLL = 1.0  # seconds

_uppers: dict[str, Antichain] = {}  # the newest upper seen by any handle of this process, by shard and generation
_uppers_lock = threading.Lock()


@dataclass(frozen=True)
class AppendResult:
    """What an append did: the version it made, and what it leaves to do."""

    version: int
    maintenance: Maintenance


@dataclass(frozen=True)
class CompactionResult:
    """`applied` is False if another commit came first; then the batches are deleted."""

    applied: bool
    version: int


class StagedDirectory:
    """A fresh directory under ``batches/`` that an engine may write into. ``uri`` is its full place."""

    def __init__(self, storage: Storage, batch_id: str):
        self.storage = storage
        self.batch_id = batch_id
        self.path = f"{BATCHES}/{batch_id}"
        self.uri = f"{storage.uri}/{self.path}"

    def delete(self) -> None:
        """Remove it and all in it."""
        self.storage.delete_directory(self.path)


class WriteHandle:
    """A writer of one shard. See shard.md for each member's contract."""

    def __init__(self, storage: Storage, opened: ShardState, purpose: str = ""):
        self.storage = storage
        self.shard_id = opened.shard_id
        self.writer_id = uuid.uuid4()
        self.purpose = purpose
        self.schema = opened.schema
        self.generation = opened.generation
        self._staged: dict[str, StagedDirectory] = {}
        self._batches: weakref.WeakSet[Batch] = weakref.WeakSet()
        self._upper = opened.upper
        self._expired = False
        self._saw(opened)

    @classmethod
    def from_read(cls, reader: Any, purpose: str = "") -> WriteHandle:
        """A writer of the shard that ``reader`` reads."""
        return cls(reader.storage, reader.state(), purpose)

    @property
    def uri(self) -> str:
        """Where the shard is."""
        return self.storage.uri

    @property
    def upper(self) -> Antichain:
        """The newest upper this handle has seen; no I/O, may be stale."""
        return self._upper

    def shared_upper(self) -> Antichain:
        """The newest upper that any handle of this process has seen; no I/O."""
        with _uppers_lock:
            return _uppers[self._key()]

    def fetch_recent_upper(self) -> Antichain:
        """The shard's upper, read from the log: never older than a write that had returned before this call."""
        return self.state().upper

    def state(self) -> ShardState:
        """The newest version. Raises `ShardReplaced` if it is of another generation than this handle's."""
        self._require_open()
        return self._saw(machine.load(self.storage))

    # staging

    def batch(self, updates: Updates, lower: Antichain, upper: Antichain) -> Batch:
        """Stage ``updates`` as a batch ``[lower, upper)``."""
        builder = self.builder(lower)
        try:
            builder.add(updates)
        except BaseException:
            builder.abandon()
            raise
        return builder.finish(upper)

    def builder(self, lower: Antichain, **sizes: int) -> BatchBuilder:
        """A builder of a batch that begins at ``lower``."""
        self._require_open()
        return BatchBuilder(self, lower, **sizes)

    def stage(self) -> StagedDirectory:
        """A directory for an engine to write into; `adopt` makes it a batch, `expire` deletes it."""
        self._require_open()
        staged = StagedDirectory(self.storage, fresh_batch_id())
        self._staged[staged.batch_id] = staged
        return staged

    def adopt(self, staged: StagedDirectory, lower: Antichain, upper: Antichain) -> Batch:
        """The files that an engine wrote, as a batch; reads footers, never data."""
        paths = sorted(only_parts(self.storage.list_files(staged.path)))
        files = [self.storage.describe(path) for path in paths]
        filled = tuple(file for file in files if file.rows)
        self.storage.delete([file.path for file in files if not file.rows])
        batch = Batch(self.storage, str(self.shard_id), filled, lower, upper)
        try:
            check_bounds(lower, upper, empty=not filled)
            check_files(filled, lower, upper)
        except InvalidUsage:
            batch.delete()
            raise
        self._staged.pop(staged.batch_id, None)
        if not filled:
            staged.delete()
        return self.track(batch)

    def batch_from_transmittable_batch(self, described: Mapping[str, Any]) -> Batch:
        """A batch that another handle, process or machine handed over; this handle owns it now."""
        batch = batch_from(self.storage, str(self.shard_id), described)
        try:
            self._require_own(batch)
        except InvalidUsage:
            batch.end(BatchState.SPENT)
            raise
        return self.track(batch)

    def track(self, batch: Batch) -> Batch:
        """Have `expire` delete ``batch`` if nobody consumed it."""
        self._batches.add(batch)
        return batch

    # appending

    def compare_and_append(self, updates: Updates, expected_upper: Antichain, new_upper: Antichain, **more: Any) -> AppendResult:
        """Write ``updates`` and move the upper iff it is ``expected_upper``; on a mismatch nothing stays staged."""
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
    ) -> AppendResult:
        """Append staged batches as one. On a mismatch they stay usable: the caller retries or deletes them."""
        self._check_append(batches, expected_upper, new_upper)
        cuts = {id(b): cut(self.storage, self.schema, b, expected_upper, new_upper) for b in batches}
        adds = [file for b in batches for file in _files(b, cuts[id(b)])]
        idle = expected_upper == new_upper and not adds and since is None and not inputs and not removes

        def decide(state: ShardState) -> Change | None:
            self._saw(state)
            change = transitions.compare_and_append(
                state, expected_upper, new_upper, adds, since=since, inputs=inputs, removes=removes
            )
            return None if idle else self._signed(change, note)

        try:
            after = self._commit(decide)
        except (Conflict, InvalidUsage):
            self._delete_cuts(cuts.values())
            raise
        for b in batches:
            _consume(b, cuts[id(b)])
        return AppendResult(after.version, _maintenance(after))

    def append(self, updates: Updates, lower: Antichain, upper: Antichain) -> None:
        """For replicated writers: what is already there is cut away, the rest is appended."""
        self.append_batch(self.batch(updates, lower, upper), lower, upper)

    def append_batch(self, batch: Batch, lower: Antichain, upper: Antichain) -> None:
        """`append` for a staged batch, which is consumed or deleted. `UpperMismatch` if there would be a hole."""
        while True:
            current = self.fetch_recent_upper()
            try:
                if lower.less_equal(current) and upper.less_equal(current):
                    self._check_append([batch], lower, upper)
                    batch.delete()
                    return
                if current.less_than(lower):
                    raise UpperMismatch(current, lower)
                self._check_append([batch], lower, upper)
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
    ) -> AppendResult:
        """A new generation in one commit. This handle goes on in it; others get `ShardReplaced`."""
        for b in batches:
            b.require_staged()
            self._require_own(b)
        adds = [file for b in batches for file in b.files]

        def decide(state: ShardState) -> Change:
            self._saw(state)
            change = transitions.replace_generation(state, adds, schema, upper, since, expected_version)
            return self._signed(change, note)

        after = self._commit(decide, generations=1)
        for b in batches:
            _consume(b, None)
        return AppendResult(after.version, Maintenance(collect_garbage=True))

    def compact(self, batches: Sequence[Batch], removes: Sequence[DataFile]) -> CompactionResult:
        """Replace live files by batches with the same contents. A lost race is harmless: the batches are deleted."""
        adds = [file for b in batches for file in b.files]

        def decide(state: ShardState) -> Change:
            self._saw(state)
            return self._signed(transitions.compaction(state, adds, removes), None)

        try:
            after = self._commit(decide)
        except Conflict:
            for b in batches:
                b.delete()
            return CompactionResult(False, machine.load(self.storage).version)
        for b in batches:
            _consume(b, None)
        return CompactionResult(True, after.version)

    def downgrade_since(self, since: Antichain) -> Antichain:
        """Release history before ``since``; where since stands now (holds, leases and the upper may keep it back)."""
        from dbt.adapters.mvsink.shard.read import leased_since

        def decide(state: ShardState) -> Change | None:
            self._saw(state)
            wanted = since.meet(leased_since(self.storage, int(time.time() * 1000)))
            moved = transitions.advance_since(state, wanted)
            return None if moved == state.since else self._signed(Change(kind="advance", since=moved), None)

        return self._commit(decide).since

    def set_properties(self, properties: Mapping[str, str]) -> int:
        """Change the shard's own configuration (owner, definition, ...); the version made."""

        def decide(state: ShardState) -> Change | None:
            self._saw(state)
            changed = {key: value for key, value in properties.items() if state.properties.get(key) != value}
            return self._signed(Change(kind="schema", properties=changed), None) if changed else None

        return self._commit(decide).version

    def mark_dropped(self, now_ms: int) -> int:
        """Mark the shard dropped at ``now_ms``; the next run makes a new generation. The version made."""

        def decide(state: ShardState) -> Change | None:
            self._saw(state)
            return None if state.dropped else self._signed(Change(kind="schema", dropped=now_ms), None)

        return self._commit(decide).version

    def wait_for_upper_past(self, frontier: Antichain, timeout: float | None = None) -> None:
        """Return once ``frontier`` is strictly before the upper; `TimeoutError` after ``timeout`` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = 0.01
        while not frontier.less_than(self._upper):
            if frontier.less_than(self.fetch_recent_upper()):
                return
            if deadline is not None and time.monotonic() + pause > deadline:
                raise TimeoutError(f"the upper of {self.uri} is {self._upper!r}, not past {frontier!r}, after {timeout} s")
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_POLL)

    # what the dataflow layer asks of the files

    def files_in(self, batch_id: str) -> int:
        """How many data files the batch's directory holds, live or not."""
        return sum(is_part(file.path) for file in self.storage.list_files(f"{BATCHES}/{batch_id}"))

    def column_names(self, file: DataFile) -> Sequence[str]:
        """The columns that a live file physically has."""
        return self.storage.column_names(file)

    def expire(self) -> None:
        """Give up the handle, and delete what it staged and nobody consumed. Harmless the second time."""
        self._expired = True
        for batch in list(self._batches):
            if batch.state is BatchState.STAGED:
                batch.delete()
        for staged in list(self._staged.values()):
            staged.delete()
        self._staged.clear()

    def __enter__(self) -> WriteHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.expire()

    def _commit(self, decide: machine.Decide, generations: int = 0) -> ShardState:
        self._require_open()
        after = machine.commit(self.storage, decide)
        if generations:  # only here may the upper fall
            self.generation, self._upper = after.generation, after.upper
        self.schema = after.schema
        return self._saw(after)

    def _signed(self, change: Change, note: CommitNote | None) -> Change:
        noted = note or CommitNote(purpose=self.purpose)
        return replace(change, note=noted, writer_id=str(self.writer_id))

    def _saw(self, state: ShardState) -> ShardState:
        transitions.check_generation(state, self.uri, self.generation)
        with _uppers_lock:
            shared = _uppers.get(self._key(), state.upper).join(state.upper)
            _uppers[self._key()] = shared
        self._upper = self._upper.join(state.upper)
        return state

    def _key(self) -> str:
        return f"{self.shard_id}/{self.generation}"

    def _check_append(self, batches: Sequence[Batch], lower: Antichain, upper: Antichain) -> None:
        if upper.less_than(lower):
            raise InvalidUsage(f"new_upper {upper!r} is before expected_upper {lower!r}")
        for b in batches:
            b.require_staged()
            self._require_own(b)
            if b.files and upper == lower:
                raise InvalidUsage(f"updates cannot be appended between {lower!r} and itself")
            if b.files and not (b.lower.less_equal(lower) and upper.less_equal(b.upper)):
                raise InvalidUsage(
                    f"a batch described [{b.lower!r}, {b.upper!r}) cannot be appended as [{lower!r}, {upper!r}): that is wider"
                )
            for file in b.files:
                self.storage.describe(file.path)  # a file that is gone is noticed before the commit

    def _require_own(self, batch: Batch) -> None:
        if batch.shard_id != str(self.shard_id):
            raise InvalidUsage(f"the batch belongs to shard {batch.shard_id}, this handle writes shard {self.shard_id}")

    def _require_open(self) -> None:
        if self._expired:
            raise InvalidUsage(f"this handle of {self.uri} has expired")

    def _delete_cuts(self, cuts: Any) -> None:
        for made in cuts:
            if made is not None:
                self.storage.delete_directory(f"{BATCHES}/{made.batch_id}")


def _files(batch: Batch, made: Cut | None) -> tuple[DataFile, ...]:
    return batch.files if made is None else made.files


def _consume(batch: Batch, made: Cut | None) -> None:
    if made is not None:
        batch.delete()
    batch.end(BatchState.CONSUMED)


def _maintenance(state: ShardState) -> Maintenance:
    return Maintenance(
        compact=compaction_due(state),
        checkpoint=state.version % CHECKPOINT_EVERY == 0,
        collect_garbage=state.version % GARBAGE_EVERY == 0,
    )
