"""The locator: a column by whose values a large view's changed rows are found again in its query.

Detection tells which buckets differ. Where a bucket's number comes from one column's value, the
query's second evaluation can be asked for those values only, by a condition on that column; Spark
carries it down past projections, joins, and groupings and windows by that column, towards the
scans. Whatever column is taken, and wherever Spark leaves the condition, the same rows are fetched.

So the choice is one of speed alone. A column with few values fills few buckets, and one that
changes brings them all with it; so does one value that many rows share. A column qualifies whose
values in a sample of the base are different enough, and none of them frequent: the first in the
model's order. NULL may be frequent, because it fills as many buckets as there are
(`detection.Buckets.number`).
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.engine import Column, arrow_schema
from dbt.adapters.mvsink.shard import WriteHandle
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.sink.correction import Desired
from dbt.adapters.mvsink.sink.evaluate_once import FEW_ROWS

LOCATING = ("tinyint", "smallint", "int", "bigint", "string", "date", "timestamp", "timestamp_ntz", "decimal")
SAMPLED = 10_000  # rows
LEAST_DISTINCT = 0.1  # of the sampled rows
MOST_FREQUENT = 0.01  # of the sampled rows, for a single value other than NULL


def locator(handle: WriteHandle, desired: Desired, shard: Layout) -> Column | None:
    """The column; None for a small shard, where a second evaluation costs little, and where no
    column qualifies.
    """
    if shard.base is None or shard.base.rows < FEW_ROWS:
        return None
    candidates = tuple(
        c for c in desired.columns if c.type.name in LOCATING and c.name not in desired.missing
    )
    if not candidates:
        return None
    largest = max(shard.base.files, key=lambda file: file.rows or 0)
    sample = handle.first_rows(largest, arrow_schema(candidates), SAMPLED)
    return next((column for column in candidates if _varied(sample.column(column.name))), None)


def _varied(values: pa.ChunkedArray) -> bool:
    present = values.drop_null()
    counts = pc.value_counts(present).field("counts")
    if len(counts) < LEAST_DISTINCT * len(values):
        return False
    return bool(pc.max(counts).as_py() <= max(MOST_FREQUENT * len(values), 1 / LEAST_DISTINCT))
