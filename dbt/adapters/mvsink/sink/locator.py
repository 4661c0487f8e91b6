"""The locator: a column whose values locate a large view's changed rows in its query.

Detection shows which buckets differ. If a bucket's number comes from one column's value, a
condition on that column limits the query's second evaluation to the values of these buckets; Spark
pushes it down past projections, joins, and groupings and windows by that column, towards the scans.
Any column gives the same rows, wherever Spark leaves the condition.

The choice is therefore one of speed alone. A column with few values fills few buckets, and one
changed row makes all rows of its bucket candidates; so does a value that many rows share. The first
column qualifies, in the model's order, whose values in a sample of the base are mostly different
and none of them frequent. NULL may be frequent: it has buckets of its own
(`detection.Buckets.number`).
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.engine import Column, arrow_schema
from dbt.adapters.mvsink.shard import StagingHandle
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.shard_sql.rewrite import ORDERED
from dbt.adapters.mvsink.sink.correction import Desired

MANY_ROWS = 1_000_000  # of a base; below, evaluating the query twice costs little
# whose least value Spark keeps in place while it groups; for others it would sort all rows
FIXED_WIDTH = ("tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz")
SAMPLED = 10_000  # rows
MIN_DISTINCT = 0.1  # of the sampled rows
MAX_FREQUENCY = 0.01  # of the sampled rows, for a single value other than NULL


def locator(handle: StagingHandle, desired: Desired, shard: Layout) -> Column | None:
    """The column; None if none qualifies, or for a small shard: evaluating twice costs little."""
    if shard.base is None or shard.base.rows < MANY_ROWS:
        return None
    candidates = tuple(c for c in desired.columns if c.type.name in ORDERED and c.name not in desired.missing)
    if not candidates:
        return None
    largest = max(shard.base.files, key=lambda file: file.rows or 0)
    sample = handle.first_rows(largest, arrow_schema(candidates), SAMPLED)
    return next((column for column in candidates if _varied(sample.column(column.name))), None)


def _varied(values: pa.ChunkedArray) -> bool:
    present = values.drop_null()
    counts = pc.value_counts(present).field("counts")
    if len(counts) < MIN_DISTINCT * len(values):
        return False
    return bool(pc.max(counts).as_py() <= max(MAX_FREQUENCY * len(values), 1 / MIN_DISTINCT))
