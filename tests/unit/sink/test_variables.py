"""`${...}` in a piece of ours: Spark never gets to replace it."""

from __future__ import annotations

import re

import pytest

from dbt.adapters.mvsink.engine import DataflowError, parse_type, sql

VARIABLE = re.compile(r"\$\{\S+?\}")  # what Spark looks for
NAMES = ["${env:HOME}", "a ${spark.app.name} b", "${x}", "${a{b}"]


@pytest.mark.parametrize("name", NAMES)
def test_literals_and_paths_hold_no_variable(name):
    for text in (
        sql.text(name),
        sql.parquet_in(f"/data/{name}"),
        sql.overwrite_directory(f"/{name}", "select 1"),
    ):
        assert not VARIABLE.search(text)


def test_an_escaped_literal_is_the_same_text():
    assert sql.text("${env:HOME} $5 {x}") == "concat('$', '{env:HOME} $5 {x}')"
    assert sql.constant("${env:HOME} $5 {x}") == r"'\u0024{env:HOME} $5 {x}'"


@pytest.mark.parametrize("name", NAMES)
def test_an_identifier_that_holds_one_is_refused(name):
    with pytest.raises(DataflowError, match="holds a variable"):
        sql.identifier(name)
    with pytest.raises(DataflowError):
        parse_type(f"struct<{name}:int>", "c")


@pytest.mark.parametrize("name", ["$", "{x}", "$ {x}", "${}", "${a b}", "${a"])
def test_other_names_stay(name):
    assert name in sql.identifier(name)
