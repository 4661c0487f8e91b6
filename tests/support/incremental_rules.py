"""Queries and changes in SQL files, each with the query of its change and its rows.

    -- table a (k int, v int) = (1, 10), (2, 20) change (3, 30, 1), (1, 10, -1)

    -- a filter and a projection
    -- over a
    select k + 1 as n from a where v > 15
    -- changes by
    select k + 1 as n, _mv_diff from Δa as `a` where ( v > 15 )
    -- rows (4, 1)

A table holds rows before, and a change: rows with their diffs. In the text of a change, `a'` is the
relation a as it is, `a°` as it was, `Δa` its change; blanks do not count. With ``±1L`` as its diff
a text is new less old: it stands for itself and for the same over what was. ``over b = b_still``
reads another table as b. ``from 2000 to 7000``: the time passes (ms).
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from dbt.adapters.mvsink.incremental import Plan
from tests.support.incremental_database import Database, Row, Table

FILES = Path(__file__).parent.parent / "fixtures" / "incremental"
NOW = "timestamp_millis(9000L) /* mv_now */"
_TABLE = re.compile(r"-- table (\w+) \((.*?)\) =(.*?)(?: change (.*))?")
_CASE = re.compile(
    r"-- (?P<name>[^\n]*)\n-- over ?(?P<over>[^\n]*)\n(?:-- from (?P<old>\d+) to (?P<new>\d+)\n)?(?P<query>.*)\n"
    r"-- changes by\n(?P<text>.*)\n-- rows ?(?P<rows>.*)",
    re.DOTALL,
)


class Case(NamedTuple):
    query: str
    tables: Mapping[str, Table]
    text: str
    rows: Mapping[Row, int]
    clock: tuple[int, int] | None = None


def cases(file: str) -> dict[str, Case]:
    """The cases of a file by name."""
    tables, every = {}, {}
    for piece in (FILES / f"{file}.sql").read_text().strip().split("\n\n"):
        declared = [_TABLE.fullmatch(line) for line in piece.splitlines()]
        if all(declared):
            tables |= {match[1]: _table(match) for match in declared if match}
            continue
        match = _CASE.fullmatch(piece)
        assert match is not None, piece
        over = (each.split(" = ") for each in match["over"].split(", ") if each)
        clock = None if match["old"] is None else (int(match["old"]), int(match["new"]))
        rows = {row[:-1]: row[-1] for row in _rows(match["rows"])}
        read = {name: tables[(of or [name])[0]] for name, *of in over}
        assert match["name"] not in every, match["name"]
        every[match["name"]] = Case(match["query"], read, _whole(match["text"]), rows, clock)
    return every


def _table(match: re.Match[str]) -> Table:
    columns = dict(each.rsplit(" ", 1) for each in match[2].split(", "))
    return Table(columns, _rows(match[3]), [(row[:-1], row[-1]) for row in _rows(match[4] or "")])


def _whole(text: str) -> str:
    text = " ".join(text.split())
    if "±" not in text:
        return text
    was = re.sub(r"(\w)' as `", r"\1° as `", text)
    return f"{text.replace('±', '')} union all {was.replace('±', '-')}"


def _rows(listed: str) -> list[Row]:
    """Python's literals, and null."""
    return literal_eval(f"[{re.sub(r'null', 'None', listed)}]")


def readable(text: str) -> str:
    """See above."""
    text = " ".join(text.split())
    for schema, sign in (("after", "{}'"), ("before", "{}°"), ("changes", "Δ{}")):
        text = re.sub(
            rf"\( select \* from {schema}\.(\w+) \)", lambda match, sign=sign: sign.format(match[1]), text
        )
    return text.replace("_mv_diff as _mv_diff", "_mv_diff").replace(" as _mv_diff", " _mv_diff")


def shown(rows: Mapping[Row, int]) -> dict[Row, int]:
    """Times as texts, as the files have them."""
    return {
        tuple(str(value) if isinstance(value, datetime) else value for value in row): diff
        for row, diff in rows.items()
    }


def check(case: Case) -> None:
    """The change has the case's text and rows, and so has the difference of the contents; the
    shard's rows in scope can be replaced.
    """
    query, tables, text, rows, clock = case
    database = Database(tables)
    plan = database.plan(query, clock)
    assert isinstance(plan, Plan), plan
    assert readable(plan.query) == text
    assert shown(database.change(query, clock)) == rows
    assert shown(database.difference(query, clock)) == rows
    if plan.scoped is not None:
        assert shown(database.replaced(query, plan.scoped, clock)) == rows
