"""A filter's condition for Arrow, and that for Spark as DuckDB reads it, keep the same rows."""

from __future__ import annotations

import datetime

import duckdb
import pyarrow as pa
import pytest
import sqlglot

from dbt.adapters.mvsink.engine import Column, parse_type
from dbt.adapters.mvsink.incremental import Comparison
from dbt.adapters.mvsink.sink.filtered import in_arrow, in_sql

DAY = datetime.date(2026, 1, 1)
VALUES = {
    "int": ([-5, 0, 5, 2**31 - 1, None], 5),
    "bigint": ([-(2**63), -1, 0, 2**63 - 1, None], -1),
    "string": (["", "a", "A", "it's", "b\\", "é", None], "a"),
    "date": ([DAY, DAY - datetime.timedelta(1), DAY + datetime.timedelta(1), datetime.date(1, 1, 1), None], DAY),
    "boolean": ([True, False, None], True),
}  # fmt: skip
KEPT = {
    "=": lambda value, other: value == other,
    "<>": lambda value, other: value != other,
    "<": lambda value, other: value < other,
    "<=": lambda value, other: value <= other,
    ">": lambda value, other: value > other,
    ">=": lambda value, other: value >= other,
    "in": lambda value, other: value == other,
}


def rows_of(wanted, columns, table: pa.Table) -> list[list[dict]]:
    """What the two conditions keep."""
    where = in_arrow(wanted, columns)
    condition = sqlglot.transpile(f"select {in_sql(wanted, columns)}", read="spark", write="duckdb")[0]
    duck = duckdb.connect()
    duck.register("t", table)
    by_duck = duck.sql(f"select * from t where {condition.removeprefix('SELECT ')}").to_arrow_table()
    return [table.filter(where).to_pylist(), by_duck.to_pylist()]


@pytest.mark.parametrize("operator", KEPT)
@pytest.mark.parametrize("kind", VALUES)
def test_a_comparison_keeps_what_fulfils_it_and_not_null(kind, operator):
    values, other = VALUES[kind]
    column = Column("x y", parse_type(kind, "x"))
    table = pa.table({"x y": pa.array(values, column.type.arrow())})
    expected = [{"x y": value} for value in values if value is not None and KEPT[operator](value, other)]
    assert rows_of(((Comparison("x y", operator, (other,)),),), [column], table) == [expected, expected]


def test_a_row_fulfils_all_of_one_alternative():
    columns = [Column(name, parse_type("int", name)) for name in ("A", "b")]
    table = pa.Table.from_pylist(
        [{"A": a, "b": b} for a in (1, 2, 3, None) for b in (1, None)],
        pa.schema([("A", pa.int32()), ("b", pa.int32())]),
    )
    wanted = (
        (Comparison("a", ">", (1,)), Comparison("b", "=", (1,))),
        (Comparison("a", "in", (1, 3)),),
    )
    expected = [
        {"A": 1, "b": 1},
        {"A": 1, "b": None},
        {"A": 2, "b": 1},
        {"A": 3, "b": 1},
        {"A": 3, "b": None},
    ]
    assert rows_of(wanted, columns, table) == [expected, expected]


def test_a_date_that_a_file_may_have_in_another_calendar_is_not_compared_here():
    column = Column("d", parse_type("date", "d"))
    assert in_arrow(((Comparison("d", "<", (datetime.date(1500, 1, 1),)),),), [column]) is None
