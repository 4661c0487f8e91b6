"""Conditions of constants for the values that a semi-join looks for.

Spark compares constants with the statistics of files, row groups and pages, but not the values of a
join. So the values are said as closed ranges that contain all of them, and as a list if they are
few.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.engine import Column, sql
from dbt.adapters.mvsink.shard import ambiguous

MAX_KEYS = 100_000  # values that are read into this process
MAX_RANGES = 16
MAX_LISTED = 2_000
_NUMBERED = ("tinyint", "smallint", "int", "bigint", "date")  # ranges may leave out gaps
_BOUNDED = (*_NUMBERED, "string", "decimal")  # one range
_COMPARED = ("boolean", "binary", "timestamp", "timestamp_ntz")


@dataclass(frozen=True)
class Among:
    """A ``condition``, empty if there is none; ``exact``: other values do not fulfil it."""

    condition: str
    exact: bool = False


def among(expression: str, column: Column, values: pa.ChunkedArray) -> Among:
    """The condition that ``expression``, of the type of ``column``, has one of ``values``. NULL is
    none of them.
    """
    if column.type.name not in _BOUNDED:
        return Among("")
    present = pc.unique(values.drop_null())
    if len(present) == 0:
        return Among("false", exact=True)
    numbered, kind = column.type.name in _NUMBERED, column.type.spelled
    ranges = (
        f"{expression} between {_constant(low, kind)} and {_constant(high, kind)}"
        for low, high in (_spans(present) if numbered else [_bounds(present)])
    )
    condition = f"({' or '.join(ranges)})"
    if not numbered or len(present) > MAX_LISTED:
        return Among(condition)
    listed = ",".join(_listed(value, kind) for value in _numbers(present).to_pylist())
    return Among(f"({condition} and {expression} in ({listed}))", exact=True)


def matching(column: Column, values: pa.ChunkedArray, *, nulls: bool) -> pc.Expression | None:
    """Arrow's condition that a column has one of ``values``, or is NULL if ``nulls``; other values
    do not fulfil it. None for a type whose equality is not Spark's, and for dates so old that a
    file may have them in another calendar.
    """
    if column.type.name not in (*_BOUNDED, *_COMPARED) or ambiguous(pa.table([values], ["values"])):
        return None
    place, present = pc.field(column.name), pc.unique(values.drop_null())
    condition = place.is_null() if nulls else pc.scalar(False)
    if len(present) == 0:
        return condition
    bounds = pc.min_max(present) if column.type.name in _BOUNDED else None
    listed = place.isin(present)
    if bounds is not None:  # what statistics are compared with
        listed = (place >= bounds["min"]) & (place <= bounds["max"]) & listed
    return listed | condition


def _constant(value: object, kind: str) -> str:
    """A value of that type; of a date its number: Python has no dates of most years."""
    if kind == "date":
        return sql.day(int(str(value)))
    return f"cast({sql.text(str(value))} as {kind})"


def _listed(value: int, kind: str) -> str:
    return sql.day(value) if kind == "date" else sql.bigint(value) if value == -(2**63) else str(value)


def _numbers(values: pa.Array) -> pa.Array:
    return values.cast(pa.int32()) if pa.types.is_date32(values.type) else values


def _bounds(values: pa.Array) -> tuple[object, object]:
    bounds = pc.min_max(values)
    return bounds["min"].as_py(), bounds["max"].as_py()


def _spans(values: pa.Array) -> Iterator[tuple[object, object]]:
    """At most `MAX_RANGES` of them, divided where the gaps between values are largest."""
    ordered = _numbers(values.sort())
    numbers = ordered.cast(pa.int64())
    # as floats no difference overflows, and which gaps are the largest need not be exact
    gaps = pc.subtract(
        numbers[1:].cast(pa.float64(), safe=False), numbers[:-1].cast(pa.float64(), safe=False)
    )
    widest = pc.select_k_unstable(pa.table({"gap": gaps}), MAX_RANGES - 1, [("gap", "descending")])
    ends = [*sorted(index for index in widest.to_pylist()), len(ordered) - 1]
    start = 0
    for end in ends:
        yield ordered[start].as_py(), ordered[end].as_py()
        start = end + 1
