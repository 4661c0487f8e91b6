"""Engines that know nothing of this adapter read a published table by `select *`: values of every
type, rows that are hidden, and copies.
"""

from __future__ import annotations

import os
from collections import Counter
from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.published import TableFormat, publish, table_of
from dbt.adapters.mvsink.published.formats import ICEBERG
from dbt.adapters.mvsink.shard import Antichain, ShardClient, WriteHandle
from dbt.adapters.mvsink.shard.updates import physical_schema
from tests.support.iceberg_readers import ICEBERG_READERS
from tests.support.table_readers import READERS, duckdb_delta

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "small": pa.int16(),
        "price": pa.decimal128(10, 2),
        "share": pa.float64(),
        "good": pa.bool_(),
        "name": pa.string(),
        "bytes": pa.binary(),
        "day": pa.date32(),
        "at": pa.timestamp("us", "UTC"),
        "local": pa.timestamp("us"),
        "tags": pa.list_(pa.string()),
        "pair": pa.struct({"x": pa.int64(), "y": pa.string()}),
    }
)
AT, LOCAL = datetime(2026, 11, 20, 15, tzinfo=timezone.utc), datetime(2026, 11, 20, 15, 0, 0, 1)
GONE = (
    1,
    2,
    Decimal("3.50"),
    0.5,
    True,
    "gone",
    b"\0",
    date(2026, 1, 1),
    AT,
    LOCAL,
    (),
    (("x", 1), ("y", "z")),
)
TWICE = (2, -2, Decimal("-0.01"), 1e300, False, "ü", b"", date(1969, 7, 20), AT, LOCAL, ("a", None), None)
NULLS = (3, *(None,) * 11)
APPENDED: list = [[(GONE, 1), (TWICE, 2), (NULLS, 1)], [(GONE, -1)]]


@pytest.fixture
def handle(tmp_path) -> WriteHandle:
    """Of a shard in which `GONE` was removed, and `TWICE` is twice."""
    handle = ShardClient().open_writer(str(tmp_path / "s"), SCHEMA)
    for time, updates in enumerate(APPENDED):
        columns = [*zip(*(row for row, _ in updates))]
        columns += [[time] * len(updates), [diff for _, diff in updates], [None] * len(updates)]
        columns.append([row[0] for row, _ in updates])  # the hashes
        schema = physical_schema(SCHEMA)
        arrays = [pa.array(map(_value, values), field.type) for values, field in zip(columns, schema)]
        written = handle.write_staged(pa.table(arrays, schema=schema))
        upper = handle.state().upper
        batch = handle.adopt(written, upper, Antichain.of(time + 1))
        handle.compare_and_append_batch([batch], upper, Antichain.of(time + 1), since=Antichain.of(0))
    return handle


def _value(value):
    if not isinstance(value, tuple):
        return value
    return dict(value) if value and isinstance(value[0], tuple) else list(value)


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_sees_the_rows(reader, handle):
    publish(handle, SCHEMA.names)
    assert READERS[reader](f"{handle.uri}/table") == Counter({TWICE: 2, NULLS: 1})


@pytest.mark.parametrize("reader", ICEBERG_READERS)
def test_a_reader_of_iceberg_sees_the_rows(reader, handle):
    publish(handle, SCHEMA.names, table=table_of(handle, TableFormat(ICEBERG)))
    assert ICEBERG_READERS[reader](f"{handle.uri}/table") == Counter({TWICE: 2, NULLS: 1})


def test_duckdb_is_one_of_the_readers():
    """`make setup` installs its extensions."""
    if "CI" not in os.environ and "duckdb" not in READERS.keys() & ICEBERG_READERS.keys():
        pytest.skip(f"the extensions of DuckDB are not installed in {duckdb_delta().PACKAGES}: `make setup`")
    assert "duckdb" in READERS and "duckdb" in ICEBERG_READERS


def test_a_table_that_is_not_there_is_an_error(tmp_path):
    module = duckdb_delta()
    with pytest.raises((RuntimeError, module.NoExtension), match="does not exist|Failed to download"):
        module.read(tmp_path / "nothing")
