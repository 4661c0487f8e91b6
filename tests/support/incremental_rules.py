"""Tiny relations before and after, and a check of the query of a change: its text and its rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from dbt.adapters.mvsink.incremental import Plan
from tests.support.incremental_database import Database, Millis, Row, Table

A = {"k": "int", "v": "int"}
B = {"k": "int", "w": "int"}
EVENTS = {"k": "int", "ts": "timestamp"}
a = Table(A, [(1, 10), (2, 20)], [((3, 30), 1), ((1, 10), -1)])
a_still = Table(A, [(1, 10), (2, 20)])
b = Table(B, [(1, 100), (3, 300)], [((3, 300), -1), ((2, 200), 1)])
b_still = Table(B, [(1, 100), (3, 300)])
arrays = Table({"k": "int", "xs": "array<int>"}, [(1, [7])], [((2, [8, 9]), 1)])
events = Table(EVENTS, [(1, Millis(1000)), (2, Millis(5000)), (3, None)])
NOW = "timestamp_millis(9000L) /* mv_now */"


class Case(NamedTuple):
    query: str
    tables: Mapping[str, Table]
    text: str
    rows: Mapping[Row, int]
    clock: tuple[int, int] | None = None


def readable(text: str) -> str:
    """In it, `a'` is the relation a as it is, `a°` as it was, `Δa` its change."""
    text = " ".join(text.split())
    for schema, sign in (("after", "{}'"), ("before", "{}°"), ("changes", "Δ{}")):
        text = re.sub(
            rf"\( select \* from {schema}\.(\w+) \)", lambda match, sign=sign: sign.format(match[1]), text
        )
    return text.replace("_mv_diff as _mv_diff", "_mv_diff").replace(" as _mv_diff", " _mv_diff")


def check(case: Case) -> None:
    """The change has the case's text and rows, and so has the difference of the contents."""
    query, tables, text, rows, clock = case
    database = Database(tables)
    plan = database.plan(query, clock)
    assert isinstance(plan, Plan), plan
    assert readable(plan.query) == " ".join(text.split())
    assert database.change(query, clock) == rows
    assert database.difference(query, clock) == rows
