"""Which rows are read into this process: how many fit, and how they are found in files.

>>> rows = pa.table({"id": [1, 2, None], "n": [0.0, 5.0, 7.0]})
>>> has_key(rows, pa.table({"id": [None, 1], "n": [7.0, -0.0]})).to_pylist()
[True, False, True]
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.engine import Column
from dbt.adapters.mvsink.engine.types import SparkType
from dbt.adapters.mvsink.shard import DataFile, ShardError
from dbt.adapters.mvsink.shard.updates import comparable

log = logging.getLogger("mvsink.sink.write")


def holds_float(kind: SparkType) -> bool:
    """Whether a value of this type is a float or holds one."""
    inner = (*kind.inner, *(field.type for field in kind.fields))
    return kind.name in ("float", "double") or any(map(holds_float, inner))


def local_row_limit(columns: Sequence[Column]) -> int:
    """How many rows with these columns can be added up here; 0 if none can.

    Spark's GROUP BY gives one zero and one NaN, also within nested values, and Arrow does not.
    """
    nested = [column.type for column in columns if column.type.nested]
    if any(holds_float(kind) for kind in nested):
        return 0
    return limits.LOCAL_NESTED_ROWS if nested else limits.LOCAL_ROWS


def fits_locally(files: Sequence[DataFile], columns: Sequence[Column]) -> bool:
    """Whether all updates in these files can be added up here."""
    limit = local_row_limit(columns)
    rows = sum(limit + 1 if file.rows is None else file.rows for file in files)
    return limit > 0 and rows <= limit and sum(file.size for file in files) <= limits.LOCAL_BYTES


@contextmanager
def left_to_spark(what: str) -> Iterator[None]:
    """A context in which failures are left to Spark, which reports those that are not this
    process's.
    """
    try:
        yield
    except (pa.ArrowException, ShardError, OverflowError, ValueError) as error:
        log.debug("%s is left to Spark: %s", what, error)


class TooMany(OverflowError):
    """More rows than this process reads."""


def found_in(
    files: Sequence[DataFile], find: Callable[[DataFile, int], pa.Table], most: int
) -> list[pa.Table]:
    """The rows that ``find`` gives of each file, at most ``most`` together, which take at most
    `limits.FOUND_BYTES` of the files. Raises `TooMany`.
    """
    if len(files) > limits.FOUND_FILES:
        raise TooMany(f"{len(files)} files")
    rows = sum(file.rows or 0 for file in files)
    widest = max(sum(file.size for file in files) // max(rows, 1), 1)
    most = min(most, limits.FOUND_BYTES // widest)
    large = [file for file in files if file.size > limits.LOCAL_BYTES]
    others = [file for file in files if file.size <= limits.LOCAL_BYTES]
    tables: dict[DataFile, pa.Table] = {}
    for some, at_once in ((large, min(limits.FILES_AT_ONCE, pa.cpu_count())), (others, limits.FILES_AT_ONCE)):
        with ThreadPoolExecutor(at_once) as threads:
            tables.update(zip(some, threads.map(lambda file: find(file, most + 1), some), strict=True))
    if sum(map(len, tables.values())) > most:
        raise TooMany(f"more than {most} rows")
    return [tables[file] for file in files]


def has_key(rows: pa.Table, keys: pa.Table) -> pa.Array:
    """Which ``rows`` have the values of one row of ``keys`` in its columns. Values are equal as in
    GROUP BY: NULL equals NULL, NaN equals NaN.
    """
    together = [
        pa.chunked_array([*rows.column(name).chunks, *keys.column(name).chunks], keys.column(name).type)
        for name in keys.column_names
    ]
    numbers = row_numbers(pa.table(together, keys.column_names))
    return pc.is_in(numbers[: len(rows)], value_set=numbers[len(rows) :])


def row_numbers(rows: pa.Table) -> pa.Array:
    """A number for each row; rows that GROUP BY finds equal have the same number."""
    numbers = pa.repeat(pa.scalar(0, pa.int64()), len(rows))
    for column in rows.columns:
        values = comparable(column)
        distinct = pc.unique(values)
        place = pc.index_in(values, value_set=distinct).cast(pa.int64())
        combined = pc.add(pc.multiply(numbers, len(distinct)), place)
        numbers = pc.index_in(combined, value_set=pc.unique(combined)).cast(pa.int64())
    return numbers.combine_chunks() if isinstance(numbers, pa.ChunkedArray) else numbers
