"""Days that calendars count differently.

In files that it did not write itself, Spark reads dates and times by a setting of the session
(`spark.sql.parquet.datetimeRebaseModeInRead`), which may treat them as dates of the Julian
calendar. From 1900 on both calendars, and the zones' offsets in both, agree.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

FIRST_DAY = -141_427  # 1582-10-15, in days since 1970
FIRST_TIME = -2_208_988_800_000_000  # 1900-01-01, in microseconds since 1970


def ambiguous(table: pa.Table) -> bool:
    """Whether a date or a timestamp in ``table``, at any depth, depends on the calendar."""
    for column in table.columns:
        for chunk in column.chunks:
            for days_or_times in _leaves(chunk):
                is_date = pa.types.is_date32(days_or_times.type)
                earliest = pc.min(days_or_times.cast(pa.int32() if is_date else pa.int64())).as_py()
                if earliest is not None and earliest < (FIRST_DAY if is_date else FIRST_TIME):
                    return True
    return False


def _leaves(values: pa.Array) -> Iterator[pa.Array]:
    """The arrays of dates and of timestamps (microseconds) within ``values``."""
    kind = values.type
    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        yield values
    elif pa.types.is_map(kind):
        yield from _leaves(values.keys)
        yield from _leaves(values.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaves(values.flatten())
    elif pa.types.is_struct(kind):
        for inner in values.flatten():
            yield from _leaves(inner)
