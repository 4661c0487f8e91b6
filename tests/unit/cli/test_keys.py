"""Which key a model has, as its contract and its tests in dbt's manifest say."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink.cli.comparison import ModelKey, known_key
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
