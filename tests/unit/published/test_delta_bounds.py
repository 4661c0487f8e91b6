"""Bounds of columns: what they are, and that readers find every row by them."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from random import Random

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder

from dbt.adapters.mvsink.published.delta_bounds import statistics
from tests.long.published_tables import History

UTC = timezone.utc
MS = 1_000  # µs
# type, values, and the bounds, None if there are none
CASES = {
    "int": (pa.int32(), [3, -7, None], (-7, 3)),
    "bigint": (pa.int64(), [2**62, -(2**62)], (-(2**62), 2**62)),
    "text": (pa.string(), ["b", "ä", "a\n\"'"], ("a\n\"'", "ä")),
    "long text": (pa.string(), ["a", "b" * 33], None),
    "day": (pa.date32(), [date(1999, 12, 31), date(2026, 1, 1)], ("1999-12-31", "2026-01-01")),
    "early day": (pa.date32(), [date(1582, 10, 4), date(2026, 1, 1)], None),
    "time": (
        pa.timestamp("us", "UTC"),
        [datetime(1969, 12, 31, 23, 59, 59, 999 * MS, UTC), datetime(2026, 1, 1, tzinfo=UTC)],
        ("1969-12-31T23:59:59.999Z", "2026-01-01T00:00:00.000Z"),
    ),
    "time with microseconds": (pa.timestamp("us", "UTC"), [datetime(2026, 1, 1, 0, 0, 0, 1, UTC)], None),
    "time without zone": (pa.timestamp("us"), [datetime(2026, 1, 1)], ("2026-01-01T00:00:00.000",) * 2),
    "double": (pa.float64(), [1.0, float("nan")], None),
    "decimal": (pa.decimal128(10, 2), [Decimal("1.50")], None),
    "truth": (pa.bool_(), [True], None),
    "list": (pa.list_(pa.int64()), [[1]], None),
    "nothing": (pa.int64(), [None, None], None),
}


@pytest.mark.parametrize(("kind", "values", "bounds"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("group", [1, 100])
def test_bounds(tmp_path, kind, values, bounds, group):
    table = pa.table({"x": pa.array(values, kind), "_mv_diff": [1] * len(values)})
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=group)
    kept = statistics(pq.read_metadata(tmp_path / "f.parquet"), pa.schema([("x", kind)]))
    known = kept["minValues"].get("x"), kept["maxValues"].get("x")
    assert known == (bounds or (None, None))
    assert kept["nullCount"].get("x", 0) == sum(each is None for each in values)
    assert "_mv_diff" not in json.dumps(kept)


def test_a_field_of_a_struct_is_not_a_column_of_that_path(tmp_path):
    """A required struct `a` with a field `b`, and a column `a.b`: Spark writes both."""
    inner = pa.field("b", pa.int64(), nullable=False)
    schema = pa.schema([("a.b", pa.int64()), pa.field("a", pa.struct([inner]), nullable=False)])
    table = pa.table([[1, 2], [{"b": 10}, {"b": 20}]], schema=schema)
    pq.write_table(table, tmp_path / "f.parquet")
    kept = statistics(pq.read_metadata(tmp_path / "f.parquet"), schema)
    assert (kept["minValues"], kept["maxValues"], kept["nullCount"]) == ({"a.b": 1}, {"a.b": 2}, {"a.b": 0})


def test_readers_find_every_row_by_them(tmp_path):
    history = History(str(tmp_path / "s"), Random(1))
    for first in range(0, 40, 10):
        history._append([((first + n, f"name {first + n}", None), 1, None) for n in range(10)])
    history._append([((3, "name 3", None), -1, None), ((40, "new", None), 1, None)])
    history.publish()
    adds = [json.loads(line) for line in next(Path(history.table).glob("_delta_log/*0.json")).open()]
    stats = [json.loads(each["add"]["stats"]) for each in adds if "add" in each]
    assert len(stats) > 1 and all(each["minValues"]["id"] <= each["maxValues"]["id"] for each in stats)
    table = QueryBuilder().register("t", DeltaTable(history.table))
    for number in range(42):
        many = int(number != 3 and number != 41)
        name = "new" if number == 40 else f"name {number}"
        for where in (f"id = {number}", f"name = '{name}'"):
            [[result]] = pa.table(table.execute(f"select count(*) n from t where {where}").read_all())
            assert result.as_py() == many, where
        by_polars = pl.scan_delta(history.table).filter(pl.col("id") == number).collect()
        assert len(by_polars) == many
