"""Conditions of constants: every value fulfils them, and they rule out what lies between."""

from __future__ import annotations

import datetime
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
import sqlglot

from dbt.adapters.mvsink.engine import Column, parse_type
from dbt.adapters.mvsink.sink.ranges import MAX_LISTED, MAX_RANGES, among, matching

DAY = datetime.date(2026, 1, 1)


def fulfils(condition: str, kind: str, value: object) -> bool:
    text = sqlglot.transpile(f"select {condition} from t", read="spark", write="duckdb")[0]
    connection = duckdb.connect()
    connection.execute(f"create table t as select cast(? as {kind}) x", [value])
    return connection.execute(text).fetchall()[0][0] is True


@pytest.mark.parametrize(
    ("kind", "values", "others"),
    [
        ("int", [1, 2, 900, None], [3, 500, 901, None]),
        ("bigint", [-(2**63), 2**63 - 1, 0], [1, -1]),
        ("date", [DAY, DAY + datetime.timedelta(400)], [DAY + datetime.timedelta(1)]),
        ("string", ["b", "it's", "y\\"], ["", "z"]),
    ],
)
def test_what_fulfils_the_condition(kind, values, others):
    types = {"int": pa.int32(), "bigint": pa.int64(), "date": pa.date32(), "string": pa.string()}
    condition = among(
        "x", Column("x", parse_type(kind, "x")), pa.chunked_array([pa.array(values, types[kind])])
    )
    duck = kind.replace("string", "varchar")
    for value in values:
        if value is not None:
            assert fulfils(condition.condition, duck, value), value
    for value in others:
        assert not fulfils(condition.condition, duck, value), value
    assert condition.exact == (kind != "string")


def test_many_values_are_ranges_without_the_largest_gaps():
    values = [step * 1000 + each for step in range(40) for each in range(100)]
    assert len(values) > MAX_LISTED
    condition = among(
        "x", Column("x", parse_type("int", "x")), pa.chunked_array([pa.array(values, pa.int32())])
    )
    assert not condition.exact and condition.condition.count("between") == MAX_RANGES


def test_without_a_value_nothing_fulfils_it():
    nulls = pa.chunked_array([pa.array([None], pa.int32())])
    assert among("x", Column("x", parse_type("int", "x")), nulls).condition == "false"


def test_ranges_of_doubles_are_of_no_use():
    values = pa.chunked_array([pa.array([1.0, float("nan")])])
    assert among("x", Column("x", parse_type("double", "x")), values).condition == ""


@pytest.mark.parametrize(
    ("kind", "values", "others"),
    [
        ("int", [1, 2, 900], [3, 901]),
        ("decimal(10,2)", [Decimal("1.10"), Decimal("-5.00")], [Decimal("1.11")]),
        ("date", [DAY], [DAY + datetime.timedelta(1)]),
        ("string", ["b", ""], ["a", "z"]),
        ("binary", [b"b"], [b""]),
        (
            "timestamp",
            [datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)],
            [datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)],
        ),
        ("boolean", [True], [False]),
        ("bigint", [], [1]),
    ],
)
@pytest.mark.parametrize("nulls", [False, True])
def test_what_matches(kind, values, others, nulls):
    column = Column("x", parse_type(kind, "x"))
    rows = pa.table({"x": pa.array([*values, *others, None], column.type.arrow())})
    keys = pa.chunked_array([pa.array([*values, None], column.type.arrow())])
    matched = rows.filter(matching(column, keys, nulls=nulls)).column("x").to_pylist()
    assert matched == [*values, *([None] if nulls else [])]


@pytest.mark.parametrize(
    ("kind", "value"),
    [("double", 1.0), ("array<int>", [1]), ("date", datetime.date(1500, 1, 1))],
)
def test_what_has_no_condition(kind, value):
    column = Column("x", parse_type(kind, "x"))
    assert matching(column, pa.chunked_array([pa.array([value], column.type.arrow())]), nulls=False) is None


def test_dates_that_python_does_not_have():
    days = pa.chunked_array([pa.array([-800_000, 2_932_897], pa.int32()).cast(pa.date32())])
    condition = among("d", Column("d", parse_type("date", "d")), days)
    assert (
        condition.exact
        and "d in (date_from_unix_date(-800000),date_from_unix_date(2932897))" in condition.condition
    )
