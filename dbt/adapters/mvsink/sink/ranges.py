"""Closed ranges that contain all of some values, as a condition whose bounds prune files.

Spark compares constants with the statistics of files, row groups and pages, but not the values of a
join. So what a semi-join looks for is said as ranges, too.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.engine import Column, sql

MAX_KEYS = 100_000  # values that are read into this process
MAX_RANGES = 16
_NUMBERED = ("tinyint", "smallint", "int", "bigint", "date")  # ranges may leave out gaps
_BOUNDED = (*_NUMBERED, "string", "decimal")  # one range


def within(expression: str, column: Column, values: pa.ChunkedArray) -> str:
    """A condition that ``expression``, of the type of ``column``, fulfils for all ``values``; empty
    if ranges of its type are of no use. NULL does not count.
    """
    if column.type.name not in _BOUNDED:
        return ""
    present = values.drop_null()
    if len(present) == 0:
        return "false"
    spans = _spans(present) if column.type.name in _NUMBERED else [_bounds(present)]
    kind = column.type.spelled
    ranges = (
        f"{expression} between cast({sql.text(low)} as {kind}) and cast({sql.text(high)} as {kind})"
        for low, high in spans
    )
    return f"({' or '.join(ranges)})"


def _bounds(values: pa.ChunkedArray) -> tuple[str, str]:
    bounds = pc.min_max(values)
    return str(bounds["min"].as_py()), str(bounds["max"].as_py())


def _spans(values: pa.ChunkedArray) -> Iterator[tuple[str, str]]:
    """At most `MAX_RANGES` of them, divided where the gaps between values are largest."""
    ordered = pc.unique(values).sort()
    numbers = ordered.cast(pa.int32()) if pa.types.is_date32(ordered.type) else ordered
    numbers = numbers.cast(pa.int64())
    # as floats no difference overflows, and which gaps are the largest need not be exact
    gaps = pc.subtract(
        numbers[1:].cast(pa.float64(), safe=False), numbers[:-1].cast(pa.float64(), safe=False)
    )
    widest = pc.select_k_unstable(pa.table({"gap": gaps}), MAX_RANGES - 1, [("gap", "descending")])
    ends = [*sorted(index for index in widest.to_pylist()), len(ordered) - 1]
    start = 0
    for end in ends:
        yield str(ordered[start].as_py()), str(ordered[end].as_py())
        start = end + 1
