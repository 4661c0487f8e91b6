"""Writing: `WriteHandle` appends staged batches and rewrites live files (`staging` stages them).

Invariants: an append becomes visible in one commit or not at all; nothing staged is deleted before
it is known that its commit did not happen; a batch staged for some columns is never appended to a
shard with others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import pyarrow as pa

from dbt.adapters.mvsink.shard import claims, commit_loop, generations
from dbt.adapters.mvsink.shard import state as transitions
from dbt.adapters.mvsink.shard.batch import Batch, BatchState, batch_from, check_bounds_of, check_files, cut
from dbt.adapters.mvsink.shard.errors import Conflict, InvalidUsage, ShardError, ShardReplaced, UpperMismatch
from dbt.adapters.mvsink.shard.frontier import Antichain, check_time
from dbt.adapters.mvsink.shard.leases import leased_since
from dbt.adapters.mvsink.shard.progress import Progress, recording
from dbt.adapters.mvsink.shard.staging import StagingHandle
from dbt.adapters.mvsink.shard.state import EMPTY, Change, CommitNote, DataFile, Maintenance, ShardState
from dbt.adapters.mvsink.shard.storage import Storage
from dbt.adapters.mvsink.shard.updates import Updates, check_data_schema
from dbt.adapters.mvsink.shard.upkeep import maintenance_due
from dbt.adapters.mvsink.shard.versions import Versions

Rewriting = Callable[[ShardState, Sequence[DataFile]], Change]


@dataclass(frozen=True)
class AppendResult:
    """The version that an append made, and the maintenance that is due after it."""

    version: int
    maintenance: Maintenance


@dataclass(frozen=True)
class CompactionResult:
    """Whether a rewrite was ``applied``. If another commit came first, the rewrite's batches were
    deleted.
    """

    applied: bool
    version: int


class WriteHandle(StagingHandle):
    """A writer of one shard. See docs/design/shard.md for the contract of each member."""

    def __init__(self, storage: Storage, opened: ShardState, purpose: str = ""):
        super().__init__(storage, opened)
        self.purpose = purpose
        self.versions = Versions(self, opened, purpose)

    @classmethod
    def from_read(cls, reader: Any, purpose: str = "") -> WriteHandle:
        """A writer of the shard that ``reader`` reads."""
        return cls(reader.storage, reader.state(), purpose)

    @property
    def writer_id(self) -> UUID:
        """The id of this writer, new for each handle."""
        return self.versions.writer_id

    @property
    def generation(self) -> int:
        """The generation that the handle writes in."""
        return self.versions.generation

    @property
    def upper(self) -> Antichain:
        """The newest upper that this handle has seen; no I/O, may be stale."""
        return self.versions.upper

    def shared_upper(self) -> Antichain:
        """The newest upper that any handle of this process has seen; no I/O."""
        return self.versions.shared_upper()

    def fetch_recent_upper(self) -> Antichain:
        """The upper in the log: at least that of every write that returned before this call."""
        return self.state().upper

    def state(self) -> ShardState:
        """The newest version. Raises `ShardReplaced` if it is of another generation."""
        return self.versions.load()

    def follow(self) -> ShardState:
        """The newest version, whatever its generation, in which the handle writes from now on.

        If the generation is new, the handle's staged files are deleted.
        """
        return self.versions.follow()

    def wait_for_upper_past(self, frontier: Antichain, timeout: float | None = None) -> None:
        """Returns once ``frontier`` is before the upper; `TimeoutError` after ``timeout`` (s)."""
        self.versions.wait_for_upper_past(frontier, timeout)

    # appends

    def compare_and_append(
        self, updates: Updates, expected_upper: Antichain, new_upper: Antichain, **options: Any
    ) -> AppendResult:
        """Write ``updates`` and move the upper if it is ``expected_upper``. If it raises, nothing
        stays staged, unless the outcome is unknown. ``options`` are those of
        `compare_and_append_batch`.
        """
        batch = self.batch(updates, expected_upper, new_upper)
        try:
            return self.compare_and_append_batch([batch], expected_upper, new_upper, **options)
        except ShardError:  # the caller has no batch to try again with
            self.versions.attempt(batch.delete)
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
        progress: Progress | None = None,
    ) -> AppendResult:
        """Append staged batches as one. On a mismatch, or if the storage fails, they stay usable:
        to retry or to delete.

        The commit may release history before ``since``, as far as holds, leases and the upper
        allow. ``inputs`` is the progress on each input, ``removes`` are live files to remove, and
        ``progress`` is what the contents are computed from. ``creation`` is the logical time (ms)
        at which the generation began, set by the commit that brings the shard to its as-of.
        """
        self._require_usable(batches)
        check_bounds_of(batches, expected_upper, new_upper)
        cuts = [cut(self.storage, batch, expected_upper, new_upper) for batch in batches]
        adds = [file for batch, narrowed in zip(batches, cuts) for file in (narrowed or batch).files]
        idle = expected_upper == new_upper and not (adds or since is not None or inputs or removes)

        def decide(state: ShardState) -> Change | None:
            moved = None if since is None else self._without_leases(since)
            change = transitions.compare_and_append(
                state, expected_upper, new_upper, adds, since=moved, inputs=inputs, removes=removes
            )
            self._require_columns(state.schema, batches)
            return (
                None if idle else recording(state, transitions.setting(change, creation=creation), progress)
            )

        after = self.versions.commit_batches(decide, batches, note, cuts)
        return AppendResult(after.version, maintenance_due(after, self.storage))

    def append(self, updates: Updates, lower: Antichain, upper: Antichain) -> AppendResult:
        """For replicated writers: cuts away updates that the shard already has and appends the
        rest. If it raises, nothing stays staged, unless the outcome is unknown.
        """
        batch = self.batch(updates, lower, upper)
        try:
            return self.append_batch(batch, lower, upper)
        except ShardError:
            self.versions.attempt(batch.delete)
            raise

    def append_batch(self, batch: Batch, lower: Antichain, upper: Antichain) -> AppendResult:
        """`append` for a staged batch, which is consumed or deleted; if the storage fails, it stays
        usable. `UpperMismatch` for a gap.
        """
        batch.require_staged()
        self.require_own(batch)
        while True:
            state = self.state()
            current = state.upper
            try:
                if lower.less_equal(current) and upper.less_equal(current):
                    batch.require_staged()
                    check_bounds_of([batch], lower, upper)
                    self.versions.attempt(batch.delete)
                    return AppendResult(state.version, maintenance_due(state, self.storage))
                if current.less_than(lower):
                    raise UpperMismatch(current, lower)
                check_bounds_of([batch], lower, upper)
                return self.compare_and_append_batch([batch], current, upper)
            except UpperMismatch as mismatch:
                if mismatch.current.less_than(lower):
                    self.versions.attempt(batch.delete)
                    raise
            except InvalidUsage:
                if batch.state is BatchState.STAGED:
                    self.versions.attempt(batch.delete)
                raise

    # rewrites

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
        progress: Progress | None = None,
        keeps: int | None = None,
        inputs: Mapping[str, int] = EMPTY,
    ) -> AppendResult:
        """Start a new generation in one commit. This handle continues; others get `ShardReplaced`.

        The generation begins at ``creation`` (ms), by default where the old one began. The old one
        stays readable for ``keeps`` ms; with None, nothing before this commit does. ``inputs`` is
        the progress on each input. Raises `InvalidUsage` if ``since`` is after ``upper`` or an
        update lies at or beyond ``upper``.
        """
        if upper.less_than(since):
            raise InvalidUsage(f"since {since!r} is after the upper {upper!r} of the new generation")
        self._require_usable(batches)
        self._require_columns(schema, batches)
        for batch in batches:
            check_files(batch.files, Antichain.of(0), upper)
        adds = _files(batches)

        def decide(state: ShardState) -> Change:
            until = None if keeps is None else self.storage.clock() + keeps
            kept = generations.keeping(state, until, since)
            change = transitions.replace_generation(state, adds, schema, upper, since, expected_version, kept)
            change = replace(transitions.setting(change, creation=creation), inputs=inputs)
            return recording(state, change, progress)

        after = self.versions.commit_batches(decide, batches, note, new_generation=True)
        self.versions.attempt(self.keep_statistics)
        return AppendResult(after.version, Maintenance(collect_garbage=True))

    def compact(
        self, batches: Sequence[Batch], removes: Sequence[DataFile], note: CommitNote | None = None
    ) -> CompactionResult:
        """Replace live files by batches with the same contents. If another commit comes first, the
        batches are deleted.
        """

        def change(state: ShardState, adds: Sequence[DataFile]) -> Change:
            compaction = transitions.compaction(state, adds, removes)
            self._require_columns(state.schema, batches)
            return compaction

        return self._rewrite(batches, change, note)

    def evolve(
        self,
        batches: Sequence[Batch],
        schema: pa.Schema,
        removes: Sequence[DataFile],
        note: CommitNote | None = None,
    ) -> CompactionResult:
        """Add the columns that are new in ``schema``. ``batches`` hold the updates of ``removes``,
        which are all live files, with NULL in these columns.

        Times, upper, since and generation stay. Losing a race is harmless, as for `compact`. Raises
        `SchemaMismatch` if a column would be removed or change its type. Other handles continue;
        only batches that they staged for the old columns are refused.
        """
        check_data_schema(schema)
        self._require_columns(schema, batches)
        result = self._rewrite(
            batches, lambda state, adds: transitions.evolution(state, self.uri, adds, removes, schema), note
        )
        self.versions.attempt(self.keep_statistics)  # the next write asks again
        return result

    def _rewrite(
        self, batches: Sequence[Batch], change: Rewriting, note: CommitNote | None
    ) -> CompactionResult:
        self._require_usable(batches)
        adds = _files(batches)
        try:
            after = self.versions.commit_batches(
                lambda state: recording(state, change(state, adds)), batches, note
            )
        except (Conflict, ShardReplaced):
            for batch in batches:
                self.versions.attempt(batch.delete)
            return CompactionResult(False, commit_loop.load(self.storage).version)
        return CompactionResult(True, after.version)

    # history

    def downgrade_since(self, since: Antichain) -> Antichain:
        """Release history before ``since``; returns the shard's since afterwards.

        Holds, leases and the upper may keep it back.
        """

        def decide(state: ShardState) -> Change | None:
            moved = transitions.advance_since(state, self._without_leases(since))
            return None if moved == state.since else Change("advance", {"since": moved})

        return self.versions.commit(decide).since

    def give_up_history(self, since: Antichain, *, despite_readers: bool = False) -> Antichain:
        """Release history before ``since``, and earlier generations that end there; returns the
        shard's since afterwards. Holds and leases keep it back, unless ``despite_readers``.
        """

        def decide(state: ShardState) -> Change | None:
            until = since if despite_readers else self._without_leases(since)
            return generations.giving_up(state, until, despite_holds=despite_readers)

        return self.versions.commit(decide, CommitNote(purpose="history given up")).since

    def hold(self, holder: str, time: int, *, forward: bool = True) -> Antichain:
        """Keep history from ``time`` (ms) on for ``holder``, durably, until the hold is moved or
        released; returns the shard's since.

        ``forward`` says whether an existing hold may move to a later time. Raises `InvalidUsage` if
        history from ``time`` on was released already, and for a ``holder`` whose name cannot be
        listed.
        """
        check_time(time)
        transitions.check_holder(holder)

        def decide(state: ShardState) -> Change | None:
            current = state.holds.get(holder)
            if current is not None and (current == time or (current < time and not forward)):
                return None
            return transitions.hold(state, holder, time)

        return self.versions.commit(decide).since

    def release_hold(self, holder: str) -> None:
        """Remove ``holder``'s hold; harmless if there is none."""
        self.versions.commit(lambda state: transitions.release(holder) if holder in state.holds else None)

    # properties and the shard's end

    def set_properties(self, properties: Mapping[str, str], note: CommitNote | None = None) -> int:
        """Change the shard's own properties (owner, definition, ...); returns the new version."""

        def decide(state: ShardState) -> Change | None:
            changed = {key: value for key, value in properties.items() if state.properties.get(key) != value}
            return Change("schema", properties=changed) if changed else None

        return self.versions.commit(decide, note).version

    def upgrade(self) -> None:
        """Give the shard this release's format: new batches lie below the published table's root.
        Earlier releases refuse it from then on.
        """
        self.versions.commit(
            lambda state: (
                None
                if state.format_version >= transitions.FORMAT_VERSION
                else Change("schema", {"format_version": transitions.FORMAT_VERSION})
            ),
            CommitNote(purpose="format"),
        )

    def keep_statistics(self) -> None:
        """Have the log keep statistics of the physical columns, for existing files too.

        Without them no hash is trusted. Shards of an earlier release have none if these columns
        come after the 32nd (a struct's fields count each).
        """
        self.versions.commit(
            lambda state: None if state.statistics else Change("schema", {"statistics": True}),
            CommitNote(purpose="statistics"),
        )

    def mark_dropped(self, at: int | None = None) -> int:
        """Mark the shard dropped at the time ``at`` (ms), by default now by the storage's clock;
        returns the new version. The next run replaces the shard.
        """

        def decide(state: ShardState) -> Change | None:
            if state.dropped:
                return None
            return Change("schema", {"dropped": self.storage.clock() if at is None else at})

        return self.versions.commit(decide).version

    def discard(self, dropped_by: int) -> None:
        """Remove the files of a shard dropped at or before ``dropped_by`` (ms) from the log.

        Nothing happens if a new generation has begun since, or if history is held.
        """
        self.versions.commit(
            lambda state: transitions.discard(state, dropped_by),
            CommitNote(purpose="files of a dropped shard"),
        )

    # directories without an owner

    def batch_from_transmittable_batch(self, description: Mapping[str, Any]) -> Batch:
        """A batch that another handle, process or machine handed over. This handle owns it now.

        Raises `InvalidUsage` if another writer has received the same description, or if the batch
        names a directory with files that are or were live.
        """
        self.require_open()
        batch = batch_from(self.storage, self.schema, description)
        try:
            self.require_own(batch)
            if batch.files:
                removed = self.storage.removals().times.keys()
                self.versions.commit(
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
        return self.versions.commit(
            lambda state: claims.condemn(state, abandoned, gone, now), CommitNote(purpose="garbage")
        )

    def _without_leases(self, since: Antichain) -> Antichain:
        """``since``, or the earlier time that a reader's lease keeps."""
        return since.meet(leased_since(self.storage))

    def __enter__(self) -> WriteHandle:
        return self


def _files(batches: Sequence[Batch]) -> list[DataFile]:
    return [file for batch in batches for file in batch.files]
