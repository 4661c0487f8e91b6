"""Two collections compared: columns, keys, which rows are paired, and the order of the sample."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from dbt.adapters.mvsink.engine import Column, parse_type
from dbt.adapters.mvsink.history.shard_diff import (
    Columns,
    DiffSide,
    InvalidKey,
    NothingInCommon,
    ShardComparison,
    changes_query,
    compare,
)
from tests.support.duck_engine import DuckEngine
from tests.support.replay import Replay, time


def columns(**types):
    return [Column(name, parse_type(kind, name)) for name, kind in types.items()]


COLUMNS = {
    "the same": ({"x": "int", "y": "string"}, {"x": "int", "y": "string"}, ["x int", "y string"], (), (), {}),
    "in B's order and spelling": ({"y": "int", "ID": "int"}, {"id": "int", "y": "int"}, ["id int", "y int"], (), (), {}),
    "one side only": ({"x": "int", "old": "int"}, {"new": "date", "x": "int"}, ["x int"], ("old",), ("new",), {}),
    "integers of two sizes": ({"x": "int"}, {"x": "bigint"}, ["x bigint"], (), (), {}),
    "other types": (
        {"x": "int", "y": "decimal(9,2)"},
        {"x": "int", "y": "decimal(9,3)"},
        ["x int"],
        (),
        (),
        {"y": ("decimal(9,2)", "decimal(9,3)")},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("a", "b", "compared", "gone", "new", "retyped"), COLUMNS.values(), ids=COLUMNS)
def test_the_columns_that_are_compared(a, b, compared, gone, new, retyped):
    common = Columns.of(columns(**a), columns(**b))
    assert [f"{each.b} {each.type.text}" for each in common.compared] == compared
    assert (common.only_in_a, common.only_in_b, common.retyped) == (gone, new, retyped)


def test_without_a_common_column_there_is_nothing_to_compare():
    with pytest.raises(NothingInCommon, match="A has x; B has y, z"):
        Columns.of(columns(x="int"), columns(y="int", z="int"))


KEYS = {
    "any case, once": (("ID", "id"), ("id",), None),
    "unknown": (("no",), None, r"Got: 'no', which is not a column of both sides\n  Expected: any of id, m"),
    "a map": (("m",), None, r"Got: 'm', which is or contains a map"),
}


@pytest.mark.parametrize(("names", "key", "refused"), KEYS.values(), ids=KEYS)
def test_keys(names, key, refused):
    common = Columns.of(*[columns(id="int", m="array<map<int,int>>")] * 2)
    if refused is None:
        assert common.key(names) == key
    else:
        with pytest.raises(InvalidKey, match=refused):
            common.key(names)


def rows(*listed):
    return [((1, id, v), n) for id, v, n in listed]


CASES = {  # (id, v, copies) at the first time and at the second; only in A, only in B, changed, repeated keys
    "nothing": (rows((1, "a", 1)), rows((1, "a", 1)), (0, 0, 0, 0)),
    "a new row": (rows(), rows((1, "a", 1)), (0, 1, 0, 0)),
    "another value": (rows((1, "a", 1)), rows((1, "b", 1)), (0, 0, 1, 0)),
    "NULL keys pair": (rows((None, "a", 1)), rows((None, None, 1)), (0, 0, 1, 0)),
    "another key": (rows((1, "a", 1)), rows((2, "a", 1)), (1, 1, 0, 0)),
    "another copy": (rows((1, "a", 1)), rows((1, "a", 2)), (0, 1, 0, 1)),
    "twice in A": (rows((1, "a", 1), (1, "b", 1)), rows((1, "a", 1)), (1, 0, 0, 1)),
    "one of two is another": (rows((1, "a", 1), (1, "b", 1)), rows((1, "a", 1), (1, "c", 1)), (1, 1, 0, 1)),
    "two become one other": (rows((1, "a", 1), (1, "b", 1)), rows((1, "c", 1)), (2, 1, 0, 1)),
    "copies of an equal row": (rows((1, "a", 2)), rows((1, "b", 1)), (2, 1, 0, 1)),
}


@pytest.mark.parametrize(("a", "b", "counts"), CASES.values(), ids=CASES)
def test_which_rows_are_paired(tmp_path, a, b, counts):
    updates = [(row, time(1), n) for row, n in a]
    updates += [(row, time(2), -n) for row, n in a] + [(row, time(2), n) for row, n in b]
    net = {}
    for row, when, n in updates:
        net[row, when] = net.get((row, when), 0) + n
    replay = Replay([(*each, n) for each, n in net.items() if n] + [((2, 0, "other"), time(0), 1)], 2)
    layout = replay.shard(tmp_path, time(0), random.Random(1))[1]
    sides = DiffSide(layout, time(1)), DiffSide(layout, time(2))
    comparison = ShardComparison(*sides, Columns.of(layout.columns, layout.columns), ("h", "id"))
    copied = replace(comparison, b=replace(sides[1], layout=replace(layout)))  # of the shard, opened again
    assert changes_query(copied) == changes_query(comparison)
    result = compare(DuckEngine().query, comparison, 0)
    assert (result.only_in_a, result.only_in_b, result.changed, result.repeated_keys) == counts
    assert result.differs == any(counts) and result.sample == ()
    back = compare(DuckEngine().query, ShardComparison(*reversed(sides), comparison.columns, ("h", "id")), 0)
    assert (back.only_in_b, back.only_in_a, back.changed, back.repeated_keys) == counts


def test_the_sample_is_the_first_rows_by_key_then_by_all_columns(tmp_path):
    replay = Replay([((h, id, v), time(1), 1) for h, id, v in [(2, 1, "a"), (1, 2, "b"), (1, None, "c"), (1, 2, "a")]], 1)  # fmt: skip
    layout = replay.shard(tmp_path, time(0), random.Random(9))[1]
    comparison = ShardComparison(
        DiffSide(layout, time(0)),
        DiffSide(layout, time(1)),
        Columns.of(layout.columns, layout.columns),
        ("h",),
    )
    sample = compare(DuckEngine().query, comparison, 3).sample
    assert [tuple(each.b.values()) for each in sample] == [(1, None, "c"), (1, 2, "a"), (1, 2, "b")]
