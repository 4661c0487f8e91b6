"""Columns whose names differ only in case: refused before anything is written."""

from __future__ import annotations

from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink.exceptions import SameColumnTwice, check_distinct
from dbt.adapters.mvsink.materialization.context import Invocation, RunContext
from dbt.adapters.mvsink.materialization.mv import SelfCorrectingView
from dbt.adapters.mvsink.materialization.options.table import ModelOptions
from dbt.adapters.mvsink.shard import ShardClient


@pytest.mark.parametrize("columns", [["a", "A"], ["a", "b", "a"], ["Ä", "b", "ä"]])
def test_names_that_differ_only_in_case_are_refused(columns):
    with pytest.raises(SameColumnTwice, match=f"s.m: its columns `{columns[0]}` and `{columns[-1]}`"):
        check_distinct("s.m", columns)


def test_distinct_names_are_accepted():
    check_distinct("s.m", ["a", "b", "a_"])


def test_the_check_of_a_model_refuses_them():
    """As Spark describes `select 1 as a, 2 as A` with spark.sql.caseSensitive=true."""
    context = RunContext(
        model="s.m",
        relation=SimpleNamespace(schema="s", identifier="m"),
        node={"config": {}},
        query="select 1 as a, 2 as A",
        options=ModelOptions.parse("s.m", {}),
        invocation=Invocation("id", 0, "dev", "shop", empty=True),
        published=None,
        engine=SimpleNamespace(columns=lambda query: [("a", "int"), ("A", "int")]),
        session=None,
        manifest=None,
        shard_root="/shards",
        client=ShardClient(),
    )
    with pytest.raises(SameColumnTwice):
        SelfCorrectingView().check(context, ExitStack())
