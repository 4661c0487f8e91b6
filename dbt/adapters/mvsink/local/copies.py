"""Files of a shard written again in this process: negated, or compacted.

A negation is a copy of live files with other diffs, at one time (`shard.directories`). Arrow copies
its columns as they are, from file to file. Spark would turn them into rows and back into columns,
which takes more than twice as long (docs/performance.md).

A compaction of few updates is `shard.compact_with_pyarrow`, where hashes show that it is exact.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.calendars import ambiguous
from dbt.adapters.mvsink.engine import Column
from dbt.adapters.mvsink.local.rows import fits_locally
from dbt.adapters.mvsink.physical import DIFF, HASH, TIME
from dbt.adapters.mvsink.shard import (
    CompactionPlan,
    DataFile,
    StagedDirectory,
    StagingHandle,
    StorageError,
    WriteHandle,
    compact_with_pyarrow,
    grouped,
    physical_schema,
)
from dbt.adapters.mvsink.shard.batch import PART_BYTES
from dbt.adapters.mvsink.shard.storage import part_path

log = logging.getLogger("mvsink.shard")


class _Ambiguous(Exception):
    """A row has a date that other tools may read in another calendar."""


def negate_locally(
    handle: StagingHandle, files: Sequence[DataFile], time: int, threads: int
) -> StagedDirectory | None:
    """Stage the negation at ``time`` (ms) of all updates in ``files``, with ``threads`` threads.
    None, with nothing left, if Spark has to do it: there is too much to copy, its files are in an
    object store, a date depends on the calendar, or a file cannot be read or written here.
    """
    if not handle.storage.is_local or sum(file.size for file in files) > limits.NEGATED_BYTES:
        return None
    schema, staged = physical_schema(handle.schema), handle.stage(files)

    def negate(number: int, group: Sequence[DataFile]) -> None:
        part = handle.storage.write_part(part_path(staged.path, number), schema)
        for file in group:
            rows = max(1, min(limits.CHUNK_ROWS, (file.rows or 0) * limits.CHUNK_BYTES // max(file.size, 1)))
            for updates in handle.storage.scan(file, schema, rows):
                if ambiguous(updates):
                    raise _Ambiguous
                part.write(negated(updates, time))
        part.close()

    groups = _grouped(files, threads)
    try:
        with ThreadPoolExecutor(threads, "negate") as pool:
            try:
                list(pool.map(negate, range(len(groups)), groups))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    except (_Ambiguous, pa.ArrowException, StorageError, OverflowError, ValueError) as error:
        log.debug("the negation in %s is left to the engine: %s", handle.uri, error)
        staged.delete()
        return None
    except BaseException:
        staged.delete()
        raise
    return staged


def _grouped(files: Sequence[DataFile], threads: int) -> list[list[DataFile]]:
    """The files of each new file: some for each thread, and none larger than a batch's parts."""
    most = min(PART_BYTES, sum(file.size for file in files) // threads)
    groups: list[list[DataFile]] = []
    size = most
    for file in files:
        if size >= most:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.size
    return groups


def negated(updates: pa.Table, time: int) -> pa.Table:
    """The ``updates`` with their diffs negated, all at ``time`` (ms)."""
    at = pa.repeat(pa.scalar(time, pa.int64()), updates.num_rows)
    columns = {TIME: at, DIFF: pc.negate_checked(updates.column(DIFF))}
    return pa.table(
        [columns.get(name, updates.column(name)) for name in updates.column_names], schema=updates.schema
    )


def compact_locally(
    handle: WriteHandle, plan: CompactionPlan, trusted: Collection[str], columns: Sequence[Column]
) -> bool | None:
    """Compact the files of ``plan``. False if another commit came first. None, and nothing has
    happened, if it is left to Spark, which also compacts files of other tools, rows without a hash,
    and hashes that two rows share. ``trusted`` are the paths of files in whole directories in which
    every row has a hash.
    """
    known = plan.files and all(file.path in trusted for file in plan.files)
    if not known or plan.since.is_empty() or not fits_locally(plan.files, columns):
        return None
    try:
        updates = handle.read_updates(plan.files)
        data = [name for name in updates.column_names if name not in (TIME, DIFF, HASH)]
        hashes = grouped(updates, data, hash=(updates.column(HASH), "max")).column("hash_max")
        if pc.count_distinct(hashes).as_py() < len(hashes) or ambiguous(updates):
            return None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError, ValueError):
        return None
    return compact_with_pyarrow(handle, plan, updates)
