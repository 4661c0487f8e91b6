"""Columns whose names differ only in case: refused before anything is written."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink.exceptions import SameColumnTwice, check_distinct
from dbt.adapters.mvsink.materialization.mv import Invocation, MaintainedRun
from dbt.adapters.mvsink.materialization.options.table import ModelOptions


@pytest.mark.parametrize("columns", [["a", "A"], ["a", "b", "a"], ["Ä", "b", "ä"]])
def test_they_are_refused(columns):
    with pytest.raises(SameColumnTwice, match=f"s.m: its columns `{columns[0]}` and `{columns[-1]}`"):
        check_distinct("s.m", columns)


def test_others_are_not():
    check_distinct("s.m", ["a", "b", "a_"])


def test_a_models_check_refuses_them():
    """As Spark describes `select 1 as a, 2 as A` with spark.sql.caseSensitive=true."""
    run = MaintainedRun(
        adapter=SimpleNamespace(),
        relation=SimpleNamespace(schema="s", identifier="m"),
        node={"config": {}},
        query="select 1 as a, 2 as A",
        options=ModelOptions.parse("s.m", {}),
        invocation=Invocation("id", 0, "dev", "shop", empty=True),
        current=None,
    )
    run.engine = SimpleNamespace(columns=lambda query: [("a", "int"), ("A", "int")])
    with pytest.raises(SameColumnTwice):
        run.check()
