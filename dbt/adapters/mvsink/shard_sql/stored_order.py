"""The order in which a shard's base is stored, which compactions keep.

A query's rows mostly come sorted by one of their columns: that of its largest input's files, or the
key of its last join. Then the statistics of row groups say which of them a condition on that column
can match, and few are read. Rows that a compaction writes again come as Spark shuffled them. They
are up to a tenth of the base each time, so without sorting little of the order would be left after
some compactions.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.engine import Column, arrow_schema
from dbt.adapters.mvsink.shard import WriteHandle
from dbt.adapters.mvsink.shard_sql.layout import Layout

ORDERED = ("tinyint", "smallint", "int", "bigint", "string", "date", "timestamp", "timestamp_ntz", "decimal")
SAMPLED = 10_000  # rows
MIN_RISING = 0.99  # of neighbouring rows; where files were written one behind the other, some fall


def stored_order(handle: WriteHandle, shard: Layout) -> Column | None:
    """The column by which the rows of the base rise; of several, that with the most values. None if
    there is none.
    """
    candidates = tuple(column for column in shard.columns if column.type.name in ORDERED)
    if shard.base is None or not candidates:
        return None
    largest = max(shard.base.files, key=lambda file: file.rows or 0)
    sample = handle.first_rows(largest, arrow_schema(candidates), SAMPLED)
    rising = [column for column in candidates if _rises(sample.column(column.name))]
    return max(rising, key=lambda column: pc.count_distinct(sample.column(column.name)).as_py(), default=None)


def _rises(values: pa.ChunkedArray) -> bool:
    present = values.drop_null().combine_chunks()
    if len(present) < 2 or len(present.unique()) < 2:
        return False
    return bool(pc.mean(pc.less_equal(present[:-1], present[1:])).as_py() >= MIN_RISING)
