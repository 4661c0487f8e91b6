"""A condition for Arrow, and the one for Spark as DuckDB reads it, keep the same rows."""

from __future__ import annotations

import datetime
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
import sqlglot

from dbt.adapters.mvsink.engine import Column, parse_type
from dbt.adapters.mvsink.engine.predicates import MAX_LISTED, MAX_RANGES, Comparison, Filter, OneOf

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


def rows_of(wanted: Filter, columns, table: pa.Table) -> list[list[dict]]:
    """What the two conditions keep."""
    where = wanted.arrow(columns)
    condition = sqlglot.transpile(f"select {wanted.sql(columns)}", read="spark", write="duckdb")[0]
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
    assert rows_of(Filter(((Comparison("x y", operator, (other,)),),)), [column], table) == [
        expected,
        expected,
    ]


def test_a_row_fulfils_all_of_one_alternative():
    columns = [Column(name, parse_type("int", name)) for name in ("A", "b")]
    table = pa.Table.from_pylist(
        [{"A": a, "b": b} for a in (1, 2, 3, None) for b in (1, None)],
        pa.schema([("A", pa.int32()), ("b", pa.int32())]),
    )
    wanted = Filter(
        (
            (Comparison("a", ">", (1,)), Comparison("b", "=", (1,))),
            (Comparison("a", "in", (1, 3)),),
        )
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
    assert Filter(((Comparison("d", "<", (datetime.date(1500, 1, 1),)),),)).arrow([column]) is None


def test_null_is_what_is_null():
    column = Column("x", parse_type("int", "x"))
    table = pa.table({"x": pa.array([1, None], pa.int32())})
    assert rows_of(Filter(((Comparison("x", "is null"),),)), [column], table) == [[{"x": None}]] * 2


def one_of(kind: str, values: pa.Array, *, nulls: bool = False) -> OneOf:
    return OneOf(Column("x", parse_type(kind, "x")), pa.chunked_array([values]), nulls)


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
    condition = one_of(kind, pa.array(values, types[kind]))
    duck = kind.replace("string", "varchar")
    for value in values:
        if value is not None:
            assert fulfils(condition.sql(), duck, value), value
    for value in others:
        assert not fulfils(condition.sql(), duck, value), value
    assert condition.exact == (kind != "string")


def test_many_values_are_ranges_without_the_largest_gaps():
    values = [step * 1000 + each for step in range(40) for each in range(100)]
    assert len(values) > MAX_LISTED
    condition = one_of("int", pa.array(values, pa.int32()))
    assert not condition.exact and condition.sql().count("between") == MAX_RANGES


def test_without_a_value_nothing_fulfils_it():
    assert one_of("int", pa.array([None], pa.int32())).sql() == "false"


def test_ranges_of_doubles_are_of_no_use():
    assert one_of("double", pa.array([1.0, float("nan")])).sql() is None


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
    arrow = parse_type(kind, "x").arrow()
    rows = pa.table({"x": pa.array([*values, *others, None], arrow)})
    matched = rows.filter(one_of(kind, pa.array([*values, None], arrow), nulls=nulls).arrow())
    matched = matched.column("x").to_pylist()
    assert matched == [*values, *([None] if nulls else [])]


@pytest.mark.parametrize(
    ("kind", "value"),
    [("double", 1.0), ("array<int>", [1]), ("date", datetime.date(1500, 1, 1))],
)
def test_what_has_no_condition(kind, value):
    assert one_of(kind, pa.array([value], parse_type(kind, "x").arrow())).arrow() is None


def test_dates_that_python_does_not_have():
    condition = one_of("date", pa.array([-800_000, 2_932_897], pa.int32()).cast(pa.date32()))
    assert condition.exact
    assert "`x` in (date_from_unix_date(-800000),date_from_unix_date(2932897))" in condition.sql()
