"""Counts and bounds of a data file's columns, from its footer: with them a reader skips files.

They are of all rows of the file, hidden ones included, so they may be wider than what is shown.
Columns below others, floating-point numbers and long texts have none.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq
from pyiceberg import types as ice
from pyiceberg.conversions import to_bytes
from pyiceberg.schema import Schema

from dbt.adapters.mvsink.published.footers import columns_in

LONGEST = 16  # characters of a text, as engines truncate bounds
NUMBERS: dict[type[ice.IcebergType], str] = {
    ice.IntegerType: "<i",
    ice.DateType: "<i",
    ice.LongType: "<q",
    ice.TimestampType: "<q",
    ice.TimestamptzType: "<q",
}
TIMES = (ice.TimestampType, ice.TimestamptzType)
WHOLE = ("INT32", "INT64")  # physical types


def figures(footer: pq.FileMetaData, schema: Schema) -> Mapping[str, Mapping[int, Any]]:
    """Counts and bounds by field id, as an entry of a manifest has them."""
    values: dict[int, int] = {}
    nulls: dict[int, int] = {}
    lower: dict[int, bytes | None] = {}
    upper: dict[int, bytes | None] = {}
    fields = {field.name: field for field in schema.fields}
    for each in columns_in(footer):
        column, known = each
        field = fields.get(column.name)
        if field is None:
            continue
        values[field.field_id] = footer.num_rows
        nulls[field.field_id] = each.nulls
        ends = [end for end in (_ends(one, field.field_type, column) for one in known) if end is not None]
        if ends and len(ends) == sum(one.num_values > 0 for one in known):
            lower[field.field_id] = _stored(min(end[0] for end in ends), field.field_type)
            upper[field.field_id] = _stored(max(end[1] for end in ends), field.field_type)
    bounds = {name: _short(each) for name, each in (("lower_bounds", lower), ("upper_bounds", upper))}
    return {"value_counts": values, "null_value_counts": nulls, **bounds}


def _short(bounds: Mapping[int, bytes | None]) -> dict[int, bytes]:
    return {number: bound for number, bound in bounds.items() if bound is not None}


def _ends(statistics: Any, kind: ice.IcebergType, column: Any) -> tuple[Any, Any] | None:
    """The smallest and the largest value; None if they are not known, or have no bounds here."""
    if not statistics.has_min_max:
        return None
    if isinstance(kind, ice.StringType):
        return statistics.min, statistics.max
    if isinstance(kind, TIMES) and "microseconds" not in str(column.logical_type):
        return None
    if type(kind) not in NUMBERS and not isinstance(kind, ice.DecimalType):
        return None
    if column.physical_type not in WHOLE:
        return None
    return statistics.min_raw, statistics.max_raw


def _stored(value: Any, kind: ice.IcebergType) -> bytes | None:
    """How a manifest has it; None for a long text."""
    if isinstance(kind, ice.StringType):
        return to_bytes(kind, value) if len(value) <= LONGEST else None
    if isinstance(kind, ice.DecimalType):
        return to_bytes(kind, Decimal(value).scaleb(-kind.scale))
    return struct.pack(NUMBERS[type(kind)], value)
