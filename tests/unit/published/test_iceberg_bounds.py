"""Counts and bounds of columns in manifests: by them a reader skips files."""

from __future__ import annotations

import io
from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.conversions import from_bytes

from dbt.adapters.mvsink.published.iceberg_bounds import figures
from dbt.adapters.mvsink.published.iceberg_schema import iceberg_schema, with_ids

AT = datetime(2026, 11, 20, 15, tzinfo=timezone.utc)
COLUMNS = {  # values of two row groups, and the bounds
    "number": (pa.int64(), [3, None, -2, 7], (-2, 7)),
    "small": (pa.int16(), [3, None, -2, 7], (-2, 7)),
    "day": (
        pa.date32(),
        [date(2026, 1, 2), None, date(1969, 1, 1), None],
        (date(1969, 1, 1), date(2026, 1, 2)),
    ),
    "at": (pa.timestamp("us", "UTC"), [AT, AT.replace(year=1960), None, None], (AT.replace(year=1960), AT)),
    "price": (
        pa.decimal128(10, 2),
        [Decimal("1.50"), None, Decimal("-0.01"), None],
        (Decimal("-0.01"), Decimal("1.50")),
    ),
    "name": (pa.string(), ["b", "", None, "ü"], ("", "ü")),
    "long": (pa.string(), ["a" * 16, "a" * 17, None, None], ("a" * 16, None)),
    "nothing": (pa.int64(), [None] * 4, (None, None)),
    "share": (pa.float64(), [0.5, float("nan"), 1.0, None], (None, None)),
    "bytes": (pa.binary(), [b"a", b"b", None, None], (None, None)),
    "tags": (pa.list_(pa.int64()), [[1], [2], None, []], None),
    "pair": (pa.struct([("number", pa.int64())]), [{"number": 9}] * 4, None),
}


@pytest.fixture(scope="module")
def stored():
    schema = pa.schema([(name, kind) for name, (kind, _, _) in COLUMNS.items()])
    content = io.BytesIO()
    pq.write_table(
        pa.table([values for _, values, _ in COLUMNS.values()], schema=schema),
        content,
        row_group_size=2,
        store_decimal_as_integer=True,  # as Spark does
    )
    columns = iceberg_schema(schema, {}, with_ids(schema, {}, 0))
    return columns, figures(pq.ParquetFile(content).metadata, columns)


@pytest.mark.parametrize("name", COLUMNS)
def test_they_are_exact_or_not_there(stored, name):
    columns, shown = stored
    field, (_, values, wanted) = columns.find_field(name), COLUMNS[name]
    nulls = shown["null_value_counts"].get(field.field_id)
    if wanted is None:
        assert nulls is None and field.field_id not in {**shown["lower_bounds"], **shown["upper_bounds"]}
        return
    assert (shown["value_counts"][field.field_id], nulls) == (4, sum(each is None for each in values))
    for end, value in zip(("lower_bounds", "upper_bounds"), wanted):
        stored_bound = shown[end].get(field.field_id)
        assert (stored_bound is None) == (value is None)
        if value is not None:
            assert _python(from_bytes(field.field_type, stored_bound), value) == value


def _python(value, like):
    """Iceberg counts days and microseconds."""
    kind = {date: pa.date32(), datetime: pa.timestamp("us", "UTC")}.get(type(like))
    return value if kind is None else pa.scalar(value, kind).as_py()
