"""A negation made in this process: a copy of live files with their diffs turned, at one time.

Columns are copied as they are, by Arrow, from file to file. Spark makes rows of them, and columns
of these again, which takes it more than twice as long (docs/performance.md).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.calendars import ambiguous
from dbt.adapters.mvsink.physical import DIFF, TIME
from dbt.adapters.mvsink.shard.batch import PART_BYTES
from dbt.adapters.mvsink.shard.errors import StorageError
from dbt.adapters.mvsink.shard.staging import StagedDirectory, StagingHandle
from dbt.adapters.mvsink.shard.state import DataFile
from dbt.adapters.mvsink.shard.storage import part_path
from dbt.adapters.mvsink.shard.updates import physical_schema

log = logging.getLogger("mvsink.shard")
# Bytes of all files: an interrupt is noticed when the copy is made.
MAX_BYTES = 2 * 2**30
CHUNK_BYTES = 8 * 2**20  # of a file, which are several times as many in memory
MAX_ROWS = 2**17  # of a chunk, and so of a row group


class _Ambiguous(Exception):
    """A row has a date that other tools may read in another calendar."""


def negate_with_pyarrow(
    handle: StagingHandle, files: Sequence[DataFile], time: int, threads: int
) -> StagedDirectory | None:
    """Stage the negation at ``time`` (ms) of all updates in ``files`` (`negation`), by so many
    ``threads``. None, and nothing is left, if that is for an engine to do: there is too much to
    copy, its files are in an object store, a date depends on the calendar (`calendars`), or a file
    cannot be read or written here.
    """
    if not handle.storage.is_local or sum(file.size for file in files) > MAX_BYTES:
        return None
    schema, staged = physical_schema(handle.schema), handle.stage(files)

    def turn(number: int, group: Sequence[DataFile]) -> None:
        part = handle.storage.write_part(part_path(staged.batch_id, number), schema)
        for file in group:
            rows = max(1, min(MAX_ROWS, (file.rows or 0) * CHUNK_BYTES // max(file.size, 1)))
            for updates in handle.storage.scan(file, schema, rows):
                if ambiguous(updates):
                    raise _Ambiguous
                part.write(_turned(updates, time))
        part.close()

    groups = _grouped(files, threads)
    try:
        with ThreadPoolExecutor(threads, "negate") as pool:
            try:
                list(pool.map(turn, range(len(groups)), groups))
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


def _turned(updates: pa.Table, time: int) -> pa.Table:
    at = pa.repeat(pa.scalar(time, pa.int64()), updates.num_rows)
    columns = {TIME: at, DIFF: pc.negate_checked(updates.column(DIFF))}
    return pa.table(
        [columns.get(name, updates.column(name)) for name in updates.column_names], schema=updates.schema
    )
