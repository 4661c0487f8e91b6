"""How much of TPC-H, of half of TPC-DS and of a small dbt project is incremental.

The texts are in `texts/`, each behind a line ``-- name``, without ORDER BY and LIMIT. Of TPC-DS
they are every other query, in Spark's SQL, some with fewer columns or branches. An operator counts
if the change of its text is known when everything that the text reads changed.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from dbt.adapters.mvsink.incremental import Analysed, NotIncremental, Plan, Sides, analyse, delta
from dbt.adapters.mvsink.user_sql import grouping
from dbt.adapters.mvsink.user_sql.algebra import Block, SetOp, every_query, joins
from dbt.adapters.mvsink.user_sql.reader import read

TEXTS = Path(__file__).with_name("texts")
SETS = ("tpch", "jaffle_shop", "tpcds")
NOT_INCREMENTAL = {
    ("tpcds", "5"): "line 32: ROLLUP, CUBE or GROUPING SETS",
    ("tpcds", "27"): "line 9: ROLLUP, CUBE or GROUPING SETS",
    ("tpcds", "39"): "line 4: stddev_samp() cannot be repeated, and decides more than an output value",
    ("tpcds", "67"): "line 9: ROLLUP, CUBE or GROUPING SETS",
    ("tpcds", "77"): "line 26: ROLLUP, CUBE or GROUPING SETS",
}


def texts(name: str) -> dict[str, str]:
    pieces = re.split(r"^-- (.*)\n", (TEXTS / f"{name}.sql").read_text(), flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def schema(name: str) -> dict[str, list[tuple[str, str]]]:
    """Lines of ``relation: column type, ...``."""
    lines = (line.split(": ") for line in (TEXTS / f"{name}.txt").read_text().splitlines())
    return {relation: [tuple(each.split(" ")) for each in columns.split(", ")] for relation, columns in lines}


def operators(text: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for query in every_query(read(text)):
        body = query.body
        if isinstance(body, SetOp):
            counts["set operators"] += 1
        if isinstance(body, Block):
            grouped = "GROUP" in body.more or any(call.window is None for call in body.calls)
            counts["blocks"] += 1
            counts["filters"] += len(body.where)
            counts["joins"] += len([*joins(body.source)])
            counts["groupings"] += grouped
            counts["windows"] += len(body.windows)
            counts["DISTINCT, HAVING"] += ("DISTINCT" in body.more) + ("HAVING" in body.more)
            counts["subqueries"] += len(body.subqueries)
    return counts


def outcome(text: str, relations: dict[str, list[tuple[str, str]]]) -> Plan | NotIncremental:
    analysed = analyse(text, lambda name: relations.get(name.lower()))
    if isinstance(analysed, Analysed):
        every = Sides("select 1", "select 2", "select 3")
        return delta(analysed, dict.fromkeys(analysed.relations, every))
    return analysed


@pytest.mark.parametrize("name", SETS)
def test_the_texts_are_incremental_but_for_a_reason(name):
    outcomes = {text: outcome(sql, schema(name)) for text, sql in texts(name).items()}
    refused = {
        (name, text): each.reason for text, each in outcomes.items() if isinstance(each, NotIncremental)
    }
    assert refused == {key: reason for key, reason in NOT_INCREMENTAL.items() if key[0] == name}


def test_nine_of_ten_operators_are_incremental(monkeypatch):
    monkeypatch.setattr(grouping, "_SETS", frozenset())  # the operators of all texts are counted
    every, refused = Counter(), Counter()
    for name in SETS:
        for text, sql in texts(name).items():
            every += operators(sql)
            refused += operators(sql) if (name, text) in NOT_INCREMENTAL else Counter()
    assert len(texts("tpcds")) == 50 and len(texts("tpch")) == 22
    assert refused.total() <= 0.1 * every.total()
