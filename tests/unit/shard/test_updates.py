"""Updates in Arrow: what is refused, how rows compare, consolidation against a plain dictionary."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbt.adapters.mvsink.shard import InvalidUsage, SchemaMismatch
from dbt.adapters.mvsink.shard.updates import advance, between, check_data_schema, consolidate, normalize
from tests.support.shards import SCHEMA, at, updates

REFUSED = {
    "no time": (pa.table({"x": ["a"], "_mv_diff": [1]}), InvalidUsage, "_mv_time"),
    "a NULL diff": (
        pa.table({"x": ["a"], "_mv_time": [1], "_mv_diff": pa.array([None], pa.int64())}),
        InvalidUsage,
        "_mv_diff",
    ),
    "another column": (
        pa.table({"y": ["a"], "_mv_time": [1], "_mv_diff": [1]}),
        SchemaMismatch,
        "`y` string is not in the shard",
    ),
    "another type": (pa.table({"x": [1], "_mv_time": [1], "_mv_diff": [1]}), SchemaMismatch, "given int64"),
}


@pytest.mark.parametrize(("table", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(table, error, message):
    with pytest.raises(error, match=message):
        normalize(table, SCHEMA)


def test_names_may_not_repeat_or_be_reserved():
    for names in (["a", "a"], ["_MV_a"]):
        with pytest.raises(InvalidUsage):
            check_data_schema(pa.schema([(name, pa.int64()) for name in names]))


EQUAL = {
    "NULL": (pa.string(), [None, None]),
    "NaN": (pa.float64(), [float("nan"), float("nan")]),
    "zero": (pa.float32(), [0.0, -0.0]),
    "a map has no order": (
        pa.map_(pa.string(), pa.int32()),
        [[("a", 1), ("b", None)], [("b", None), ("a", 1)]],
    ),
    "nested": (
        pa.struct([("l", pa.list_(pa.float64()))]),
        [{"l": [float("nan"), -0.0]}, {"l": [float("nan"), 0.0]}],
    ),
}
DIFFERENT = {
    "NULL and empty": (pa.string(), [None, ""]),
    "NULL and an empty list": (pa.list_(pa.int32()), [None, []]),
    "NULL at another place": (pa.list_(pa.int32()), [[None, 1], [1, None]]),
    "NULL and zero in a map": (pa.map_(pa.string(), pa.int32()), [[("a", None)], [("a", 0)]]),
    "bytes": (pa.binary(), [b"\x00", b""]),
}


@pytest.mark.parametrize(("kind", "values"), EQUAL.values(), ids=EQUAL)
def test_equal_rows_are_added_up(kind, values):
    assert consolidate(rows_of(kind, values)).column("_mv_diff").to_pylist() == [2]


@pytest.mark.parametrize(("kind", "values"), DIFFERENT.values(), ids=DIFFERENT)
def test_different_rows_are_not(kind, values):
    assert consolidate(rows_of(kind, values)).column("_mv_diff").to_pylist() == [1, 1]


def rows_of(kind, values):
    table = pa.table(
        {"x": pa.array(values, kind), "_mv_time": [1] * len(values), "_mv_diff": [1] * len(values)}
    )
    return normalize(table, pa.schema([("x", kind)]))


changes = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 5), st.integers(-3, 3)), max_size=12
)


@given(changes, st.integers(0, 5), st.integers(0, 6))
def test_consolidation_advancing_and_cutting_against_a_dictionary(rows, lower, upper):
    table = normalize(updates(*rows), SCHEMA)
    expected = Counter()
    for x, time, diff in rows:
        expected[x, time] += diff
    assert as_dict(consolidate(table)) == {key: diff for key, diff in expected.items() if diff}
    moved = Counter()
    for (x, time), diff in expected.items():
        moved[x, max(time, lower)] += diff
    assert as_dict(consolidate(advance(table, lower))) == {key: diff for key, diff in moved.items() if diff}
    kept = as_dict(consolidate(between(table, at(lower), at(upper))))
    assert kept == {key: diff for key, diff in expected.items() if diff and lower <= key[1] < upper}


def as_dict(table):
    return {(row["x"], row["_mv_time"]): row["_mv_diff"] for row in table.to_pylist()}


NESTED = {
    "a list of dates": (pa.list_(pa.date32()), lambda value: [value, None]),
    "a struct with a time": (pa.struct([("t", pa.timestamp("us", "UTC"))]), lambda value: {"t": value}),
    "a map of dates to times": (
        pa.map_(pa.date32(), pa.timestamp("us")),
        lambda value: [(value, value), (1, None)],
    ),
}


@pytest.mark.parametrize(("kind", "holding"), NESTED.values(), ids=NESTED)
def test_answers_c_nested_dates_and_times_that_python_does_not_have(kind, holding):
    far = 3_000_000 if "date" in str(kind) else 300_000_000_000_000_000  # in the year 10183, and 11476
    rows = rows_of(kind, [holding(far), holding(far + 1), holding(far)])
    assert sorted(consolidate(rows).column("_mv_diff").to_pylist()) == [1, 2]
