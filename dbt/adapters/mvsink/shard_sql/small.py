"""Which updates are so few that this process adds them up sooner than Spark starts a stage, and
their compaction here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.calendars import ambiguous
from dbt.adapters.mvsink.engine import Column
from dbt.adapters.mvsink.engine.types import SparkType
from dbt.adapters.mvsink.physical import DIFF, HASH, TIME
from dbt.adapters.mvsink.shard import (
    CompactionPlan,
    DataFile,
    WriteHandle,
    compact_with_pyarrow,
    grouped,
)
from dbt.adapters.mvsink.shard_sql.layout import Layout

# Adding 50,000 rows up takes this process less CPU than two stages of Spark.
FEW_ROWS = 50_000
FEW_NESTED = 2_000  # with nested columns: these are compared value by value in Python
FEW_BYTES = 16 * 2**20  # of files
# Rows with certain keys in a large shard: so many bytes of its files, and files, a few at a time;
# each costs two requests, which on an object store are 50 ms. To decode a file of more than
# FEW_BYTES takes longer than that, so these are read by as many threads as there are cores.
FOUND_BYTES = 4 * FEW_BYTES
FOUND_FILES = 100
AT_ONCE = 4
ONE_TASK = 100_000  # rows that one task of Spark joins and groups sooner than several exchange them


def holds_float(kind: SparkType) -> bool:
    """Whether a value of this type is a float or holds one."""
    inner = (*kind.inner, *(field.type for field in kind.fields))
    return kind.name in ("float", "double") or any(map(holds_float, inner))


def few(columns: Sequence[Column]) -> int:
    """How many rows with these columns are few; 0: none are.

    Spark's GROUP BY gives one zero and one NaN, also within nested values, and Arrow does not.
    """
    nested = [column.type for column in columns if column.type.nested]
    if any(holds_float(kind) for kind in nested):
        return 0
    return FEW_NESTED if nested else FEW_ROWS


def are_few(files: Sequence[DataFile], columns: Sequence[Column]) -> bool:
    """Whether all updates in these files are."""
    rows = sum(few(columns) + 1 if file.rows is None else file.rows for file in files)
    return rows <= few(columns) and sum(file.size for file in files) <= FEW_BYTES


class TooMany(OverflowError):
    """More rows than this process reads."""


def found_in(
    files: Sequence[DataFile], find: Callable[[DataFile, int], pa.Table], most: int
) -> list[pa.Table]:
    """What ``find`` gives of each file, up to so many rows. Together these are at most ``most``,
    and take at most `FOUND_BYTES` of the files. Raises `TooMany`.
    """
    if len(files) > FOUND_FILES:
        raise TooMany(f"{len(files)} files")
    rows = sum(file.rows or 0 for file in files)
    widest = max(sum(file.size for file in files) // max(rows, 1), 1)
    most = min(most, FOUND_BYTES // widest)
    large = [file for file in files if file.size > FEW_BYTES]
    others = [file for file in files if file.size <= FEW_BYTES]
    tables: dict[DataFile, pa.Table] = {}
    for some, at_once in ((large, min(AT_ONCE, pa.cpu_count())), (others, AT_ONCE)):
        with ThreadPoolExecutor(at_once) as threads:
            tables.update(zip(some, threads.map(lambda file: find(file, most + 1), some), strict=True))
    if sum(map(len, tables.values())) > most:
        raise TooMany(f"more than {most} rows")
    return [tables[file] for file in files]


def compact_small(handle: WriteHandle, plan: CompactionPlan, shard: Layout) -> bool | None:
    """`rewrite.compact` in this process. False: lost race. None, and nothing has happened: left to
    Spark, which also compacts files of other tools, rows without a hash, and hashes of two rows.
    """
    whole = {file.path for directory in shard.directories if directory.trusted for file in directory.files}
    known = plan.files and all(file.path in whole for file in plan.files)
    if not known or plan.since.is_empty() or not are_few(plan.files, shard.columns):
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
