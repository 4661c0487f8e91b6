"""Which key a model has, as its contract and its tests in dbt's manifest say."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink.cli.comparison import ModelKey, grouped_key, known_key
from tests.support.dbt_on_duckdb import node, unique_test

M = "model.shop.m"


def constraint(kind, *columns):
    return SimpleNamespace(type=SimpleNamespace(value=kind), columns=list(columns))


ID_TEST = unique_test("unique_m_id", M, column_name="ID")
BOTH_TEST = unique_test("both", M, combination_of_columns=["id", "day"])
CASES = {
    "nothing": (node(), (), None),
    "a test": (node(), (ID_TEST,), ModelKey(("ID",), "test unique_m_id")),
    "of one column before of two": (node(), (BOTH_TEST, ID_TEST), ModelKey(("ID",), "test unique_m_id")),
    "of two columns": (node(), (BOTH_TEST,), ModelKey(("id", "day"), "test both")),
    "a quoted column": (node(), (unique_test("q", M, column_name="`day`"),), ModelKey(("day",), "test q")),
    "of some rows only": (node(), (unique_test("u", M, where="x", column_name="id"),), None),
    "of another model": (node(), (unique_test("u", "model.shop.n", column_name="id"),), None),
    "of an expression": (node(), (unique_test("u", M, column_name="id % 7"),), None),
    "the primary key before all": (
        node(constraints=[constraint("unique", "id"), constraint("primary_key", "id", "day")]),
        (ID_TEST,),
        ModelKey(("id", "day"), "primary key"),
    ),
    "a column's constraint": (
        node(columns={"day": node(constraints=[constraint("not_null"), constraint("unique")])}),
        (ID_TEST,),
        ModelKey(("day",), "unique constraint"),
    ),
    "a column that is not compared": (node(constraints=[constraint("primary_key", "gone")]), (), None),
}


@pytest.mark.parametrize(("model", "tests", "key"), CASES.values(), ids=CASES)
def test_the_key_of_a_model(model, tests, key):
    manifest = SimpleNamespace(nodes={M: model, **{f"test.{n}": each for n, each in enumerate(tests)}})
    assert known_key(manifest, M, ["id", "day"]) == key


def test_a_model_that_is_gone_has_none():
    assert known_key(SimpleNamespace(nodes={}), M, ["id"]) is None


GROUPED = {
    "names": ("select day, k, sum(x) s from {model.shop.t} group by day, k", ("day", "k")),
    "an alias": ("select date(at) as day, count(*) n from t group by date(at)", ("day",)),
    "the alias itself": ("select date(at) as day, count(*) n from t group by day", ("day",)),
    "numbers": ("select k, day, max(x) m from t group by 2, 1", ("day", "k")),
    "all": ("select k, day, max(x) m from t group by all", ("k", "day")),
    "below WITH": ("with w as (select * from t) select day, min(x) m from w group by day", ("day",)),
    "not shown": ("select sum(x) s from t group by day", None),
    "not compared": ("select gone, sum(x) s from t group by gone", None),
    "a number out of range": ("select day, sum(x) s from t group by 7", None),
    "an inner one": ("select * from (select day, sum(x) s from t group by day)", None),
    "no query": ("select from where", None),
    "no text": ("", None),
}


@pytest.mark.parametrize(("query", "columns"), GROUPED.values(), ids=GROUPED)
def test_a_model_without_a_key_is_paired_by_what_it_groups_by(query, columns):
    state = SimpleNamespace(properties={"definition": json.dumps({"sql": query})}, version=1, uri="")
    expected = None if columns is None else ModelKey(columns, "group by")
    assert grouped_key(state, ["id", "day", "K", "s", "n", "m"]) == expected
