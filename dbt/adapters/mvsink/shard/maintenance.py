"""Work that keeps a shard fast and tidy. An append returns it as a value, and the caller performs
it.

It never changes the collection at a readable time, never moves an upper, and may be lost. Only
`rewind`, a remedy that a person asks for, takes a shard's upper back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, TIME
from dbt.adapters.mvsink.shard import claims
from dbt.adapters.mvsink.shard.batch import Batch, BatchState
from dbt.adapters.mvsink.shard.errors import InvalidUsage, OutsideShard
from dbt.adapters.mvsink.shard.frontier import Antichain
from dbt.adapters.mvsink.shard.generations import readable_generations, unexpired
from dbt.adapters.mvsink.shard.leases import LEASES, leased_since
from dbt.adapters.mvsink.shard.read import appended
from dbt.adapters.mvsink.shard.removals import Removals
from dbt.adapters.mvsink.shard.state import (
    ROOTS,
    CommitNote,
    CompactionPlan,
    DataFile,
    Maintenance,
    ShardState,
)
from dbt.adapters.mvsink.shard.storage import Storage, StoredFile, is_part, is_unfinished, part_path
from dbt.adapters.mvsink.shard.updates import advance, consolidate, physical_schema
from dbt.adapters.mvsink.shard.write_handle import WriteHandle

log = logging.getLogger("mvsink.shard")
OF_TABLES = ("_", "copies-", "metadata")  # of a published table: its log, what hides rows, its extra copies
ROWS = 100_000  # that a rewind has in memory at once
NOTES = "_mvsink"  # where the ledger and what was verified are
STAGED_GRACE_MS = 24 * 3_600_000
NO_GRACE_MS = -1_000  # also for what was removed in this very millisecond
REMOVED_GRACE_MS = 7 * 24 * 3_600_000


def compact_with_pyarrow(handle: WriteHandle, plan: CompactionPlan, updates: pa.Table | None = None) -> bool:
    """Rewrite the plan's files in this process, for small shards. False if another commit came
    first. ``updates`` is what the files contain, if that is known.

    Settled updates (at or before ``plan.since``) become one batch at that time. A base has only
    positive diffs, so negative ones, errors and later updates, which keep their times, go into
    another batch.
    """
    table = handle.read_updates(plan.files) if updates is None else updates
    since = plan.since.as_option()
    if since is None:
        raise InvalidUsage("a finished shard's since is empty; there is no time to compact at")
    settled = consolidate(advance(table.filter(pc.less_equal(table.column(TIME), since)), since))
    plain = pc.is_null(settled.column(ERROR))
    if plan.with_base:
        plain = pc.and_(plain, pc.greater(settled.column(DIFF), 0))
    later = consolidate(table.filter(pc.greater(table.column(TIME), since)))
    parts = [settled.filter(plain), pa.concat_tables([settled.filter(pc.invert(plain)), later])]
    batches = [batch for batch in (_stage(handle, part) for part in parts) if batch is not None]
    return handle.compact(batches, [*plan.files, *plan.cancelled]).applied


def _stage(handle: WriteHandle, table: pa.Table) -> Batch | None:
    """A batch of these rows as they are, including their hashes, which were trusted already."""
    if table.num_rows == 0:
        return None
    return handle.adopt(handle.write_staged(table), Antichain.of(0), Antichain.empty())


def collect_garbage(
    handle: WriteHandle,
    *,
    staged_grace_ms: int = STAGED_GRACE_MS,
    removed_grace_ms: int = REMOVED_GRACE_MS,
    despite_leases: bool = False,
) -> list[str]:
    """Delete files that are no longer needed; returns the deleted paths.

    These are staged directories without a committed file whose newest file is older than
    ``staged_grace_ms``, and files that the log removed more than ``removed_grace_ms`` ago (a view
    published by another metastore may read them until then), by the storage's clock. While a reader
    has a lease, no file that was ever live is deleted, unless ``despite_leases``. A staged
    directory is claimed in the log before it is deleted, so that no commit can name it from then
    on.
    """
    storage = handle.storage
    now_ms = storage.clock()
    before = handle.state()
    directories = _batch_directories(storage)
    left = _older(directories, now_ms - staged_grace_ms)
    removals = _removals(handle, before, left, now_ms)
    abandoned = {claims.name_of(directory) for directory in left} - _needed(before, removals)
    state = before
    if abandoned:
        storage.keep_removals(removals)
        gone = before.claims.keys() - {claims.name_of(directory) for directory in directories}
        state = handle.condemn(abandoned, gone, now_ms)
        removals = _removals(handle, state, left, now_ms)
    leased = not despite_leases and not leased_since(storage).is_empty()
    deleted = [] if leased else _delete_removed(handle, state, removals, now_ms - removed_grace_ms)
    kept = {path: at for path, at in removals.times.items() if path not in set(deleted)}
    removals, emptied = replace(removals, times=kept), {claims.name_of(path) for path in deleted}
    needed = _needed(state, removals)
    for directory, paths in left.items():
        name = claims.name_of(directory)
        free = name not in needed and (name in emptied or claims.collected(state, name))
        if free and _deleted(directory, storage.delete_directory):
            deleted += [path for path in paths if path not in set(deleted)]
    for root in ROOTS:
        _deleted(root, lambda path: storage.remove_empty_directories(path, now_ms - staged_grace_ms))
    _delete_unfinished(storage, now_ms - staged_grace_ms)
    storage.keep_removals(removals)
    return deleted


@dataclass(frozen=True)
class Remains:
    """Files of a shard that the log does not name: those that it ``removed``, by path, and the data
    files of ``staged`` directories, of which none was committed, by directory; and from which time
    on a reader ``leased`` history, empty if none did.
    """

    removed: tuple[str, ...]
    staged: Mapping[str, Sequence[str]]
    leased: Antichain


def remains(handle: WriteHandle) -> Remains:
    """What collection has left."""
    storage, state = handle.storage, handle.state()
    directories = _batch_directories(storage)
    removals = _removals(handle, state, {}, storage.clock())
    needed = _needed(state, removals)
    staged = {
        directory: data
        for directory, files in sorted(directories.items())
        if claims.name_of(directory) not in needed
        and (data := [file.path for file in files if file.path.endswith(".parquet")])
    }
    return Remains(tuple(sorted(removals.times)), staged, leased_since(storage))


def _needed(state: ShardState, removals: Removals) -> set[str]:
    """The directories of batches with a file that is live, or that is kept for readers."""
    return {claims.name_of(path) for path in (*(file.path for file in state.files), *removals.times)}


def _removals(
    handle: WriteHandle, state: ShardState, left: Mapping[str, Sequence[str]], now_ms: int
) -> Removals:
    """The ledger, without what is live in ``state``. Where commits were cleaned up unread, some
    files in the old directories ``left`` may have been live: they count as removed from now on.
    """
    live = {file.path for file in state.files}
    removals = handle.storage.removals()
    times = {path: at for path, at in removals.times.items() if path not in live}
    if removals.gap:
        unknown = [path for paths in left.values() for path in paths if is_part(path)]
        times |= {path: now_ms for path in unknown if path not in live | times.keys()}
    return replace(removals, times=times)


def _delete_removed(handle: WriteHandle, state: ShardState, removals: Removals, before_ms: int) -> list[str]:
    """Delete files that the log removed before that time. What a published table still shows stays,
    and so do the files of earlier generations that are kept.
    """
    storage = handle.storage
    due = [path for path, at in removals.times.items() if at < before_ms]
    if not due:
        return []
    due = sorted(set(due) - storage.published() - _of_kept_generations(handle, state))
    return [path for path in due if _deleted(path, lambda path: storage.delete([path]))]


def _of_kept_generations(handle: WriteHandle, state: ShardState) -> set[str]:
    """The files that the generations before ``state``'s had when they ended, while those are to
    stay readable.
    """
    earlier = readable_generations(state, handle.storage.clock(), handle.storage.load_at)
    return {file.path for each in earlier for file in each.last.files}


def _delete_unfinished(storage: Storage, before_ms: int) -> None:
    """Delete unfinished small files that killed processes left."""
    files = [file for directory in (LEASES, NOTES) for file in storage.list_files(directory)]
    left = [file.path for file in files if is_unfinished(file.path) and file.modified < before_ms]
    storage.delete(left)


def _batch_directories(storage: Storage) -> dict[str, list[StoredFile]]:
    """The files below the directories of batches. What a published table has there is none."""
    directories: dict[str, list[StoredFile]] = {}
    for file in (file for root in ROOTS for file in storage.list_files(root)):
        root, name, *below = file.path.split("/")
        if below and not name.startswith(OF_TABLES):
            directories.setdefault(f"{root}/{name}", []).append(file)
    return directories


def _older(directories: Mapping[str, Sequence[StoredFile]], before_ms: int) -> dict[str, list[str]]:
    """The paths in those directories whose newest file is from before that time."""
    return {
        directory: [file.path for file in files]
        for directory, files in directories.items()
        if max(file.modified for file in files) < before_ms
    }


def delete_dropped(handle: WriteHandle, *, grace_ms: int = REMOVED_GRACE_MS) -> list[str]:
    """Delete the files of a shard that was dropped more than ``grace_ms`` ago, and its other
    garbage; returns the deleted paths. The log stays.

    The files are removed from the log first, so it never names a missing one. After an interruption
    garbage collection deletes the rest.
    """
    before, dropped_by = handle.state(), handle.storage.clock() - grace_ms
    if before.dropped is None or before.dropped > dropped_by or not leased_since(handle.storage).is_empty():
        return []
    handle.discard(dropped_by)
    if not leased_since(handle.storage).is_empty():  # of a reader that began meanwhile
        return []
    live = {file.path for file in handle.state().files}
    due = [file.path for file in before.files if file.path not in live]
    deleted = [path for path in due if _deleted(path, lambda path: handle.storage.delete([path]))]
    return deleted + collect_garbage(handle)


def _deleted(path: str, delete: Callable[[str], None]) -> bool:
    """Whether ``path`` was deleted. Files outside the shard that a symbolic link leads to stay,
    with a warning; the rest is collected.
    """
    try:
        delete(path)
        return True
    except OutsideShard as error:
        log.warning("not collected: %s", error)
        return False


def checkpoint(handle: WriteHandle) -> None:
    """Write a checkpoint of the log, so that opening the shard stays fast. Old commits go, unless
    an earlier generation is to stay readable, whose version they lead to.
    """
    kept = unexpired(handle.state(), handle.storage.clock())
    handle.storage.checkpoint(clean=not kept)


def perform_maintenance(
    handle: WriteHandle, due: Maintenance, compact: Callable[[CompactionPlan], object]
) -> None:
    """Perform the work ``due``; ``compact`` does the heavy part.

    The checkpoint comes last: until it is written, garbage collection and checkpoint stay due, so a
    later run repeats what failed here.
    """
    if due.compact is not None:
        compact(due.compact)
    if due.collect_garbage:
        collect_garbage(handle)
    if due.checkpoint:
        checkpoint(handle)


def rewind(handle: WriteHandle, to: int, note: CommitNote | None = None) -> int | None:
    """Make ``to`` (ms) the newest readable time; returns the version, or None if the newest
    readable time is not after ``to``.

    This is the remedy after a wrong clock: a run whose time was far ahead leaves an upper that no
    later run can pass. A new generation begins at ``to``. Later updates move to that time, and
    earlier ones stay as they are. So the collection at ``to`` is the newest that the shard had, and
    reads of earlier times are unchanged. No row is lost.

    It copies every file. Raises `FilesChanged` if another writer commits meanwhile, and
    `InvalidUsage` for a shard that was dropped or is read by others up to a later time.
    """
    state, upper = handle.follow(), Antichain.of(to).step_forward()
    if not upper.less_than(state.upper) or not state.readable:
        return None
    require_rewindable(handle, state, to)
    creation = None if state.creation is None else min(state.creation, to)
    since = state.since.meet(Antichain.of(to))
    batches: list[Batch] = []
    try:
        for files in _by_directory(state.files):
            batches.append(_copied(handle, state, files, to, upper))
        filled = [batch for batch in batches if batch.files]
        done = handle.replace(
            filled, state.schema, upper, since,
            note=note, expected_version=state.version, creation=creation,
            keeps=0,  # of this generation nothing is lost; those before it stay as long as they were to
        )  # fmt: skip
    except BaseException:
        for batch in batches:
            if batch.state is BatchState.STAGED:
                batch.delete()
        raise
    return done.version


def require_rewindable(handle: WriteHandle, state: ShardState, to: int) -> None:
    """Raises `InvalidUsage` with the reason if ``state`` cannot be taken back to ``to``."""
    if state.dropped is not None:
        raise InvalidUsage(f"shard {handle.uri} was dropped")
    vectors = [file.path for file in state.files if file.deletion_vector]
    if vectors:
        raise InvalidUsage(
            f"another engine left a deletion vector on {vectors[0]} of shard {handle.uri}; "
            "which rows it deletes cannot be distinguished here"
        )


def _by_directory(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    """The live files by directory, so that each batch stays one batch."""
    together: dict[str, list[DataFile]] = {}
    for file in files:
        together.setdefault(file.path.rpartition("/")[0], []).append(file)
    yield from together.values()


def _copied(
    handle: WriteHandle, state: ShardState, files: Sequence[DataFile], to: int, upper: Antichain
) -> Batch:
    """The updates of ``files``, none later than ``to``."""
    schema = physical_schema(state.schema)
    mixed = _is_mixed(files, to)
    staged = handle.stage()
    try:
        for number, file in enumerate(files):
            part = handle.storage.write_part(part_path(staged.path, number), schema)
            for table in handle.storage.scan(file, schema, ROWS):
                part.write(_moved(table.filter(appended(table, state)), to, mixed))
            part.close()
        return handle.adopt(staged, Antichain.of(0), upper)
    except BaseException:
        staged.delete()
        raise


def _is_mixed(files: Sequence[DataFile], to: int) -> bool:
    """Whether updates of several times move to one. The batch may then have a row twice, while our
    hashed batches have each row once, so its hashes are left out.
    """
    times = {time for file in files for time in (file.min_time, file.max_time)}
    return len(times) > 1 and any(time is None or time > to for time in times)


def _moved(table: pa.Table, to: int, mixed: bool) -> pa.Table:
    times = pc.min_element_wise(table.column(TIME), pa.scalar(to, pa.int64()))
    moved = table.set_column(table.schema.get_field_index(TIME), table.schema.field(TIME), times)
    if mixed:
        index = table.schema.get_field_index(HASH)
        moved = moved.set_column(index, table.schema.field(HASH), pa.nulls(table.num_rows, pa.int64()))
    return moved
