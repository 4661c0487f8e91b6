"""`mvsink blame`: who wrote which row, from the files or through dbt, and what is shown."""

from __future__ import annotations

import socket

import pytest

from dbt.adapters.mvsink.engine import Column, parse_type
from dbt.adapters.mvsink.engine.predicates import Comparison, Filter
from dbt.adapters.mvsink.history import row_authors
from dbt.adapters.mvsink.history.row_authors import parse_terms
from tests.support.dbt_on_duckdb import install
from tests.unit.cli.runs import FIRST, SECOND, THIRD, three_runs


@pytest.fixture
def engine(monkeypatch):
    return install(monkeypatch)


@pytest.fixture
def orders(shop, engine):
    return three_runs(shop)


def by(time, invocation, version):
    return {
        "time": time,
        "exact": True,
        "invocation_id": invocation,
        "computed_through": time,
        "host": socket.gethostname(),
        "purpose": None,
        "version": version,
        "definition": f"text {invocation[:4]}",
        "author": None,
    }


def test_the_json(shop, orders, engine):
    answer = shop.as_json("blame", "orders", "--where", "id is null", "--key", "id")
    first, last = by(FIRST, "aaaa1111-0", 2), by(THIRD, "cccc3333-0", 4)
    assert answer == {
        "model": "orders",
        "relation": "s.orders",
        "uri": str(shop.at("s.orders")),
        "point": "latest",
        "time": THIRD,
        "invocation_id": "cccc3333-0",
        "computed_through": THIRD,
        "since": FIRST,
        "where": "id is null",
        "key": ["id"],
        "limit": 20,
        "from_files": True,
        "rows": [
            {
                "row": {"id": None, "v": "z", "odd `name": 5},
                "copies": 1,
                "written": last,
                "before": [
                    {"row": {"id": None, "v": "c", "odd `name": 5}, "copies": 1, "written": first, "removed": last}
                ],
            }
        ],
        "gone": [],
    }  # fmt: skip
    assert engine.ran == []


WHERE = {
    "from the files": "id = 2",
    "through dbt": "id = 1 + 1",
    "a comment at its end": "id in (2) -- the second",
}


@pytest.mark.parametrize("where", WHERE.values(), ids=WHERE)
def test_both_ways_give_the_same(shop, orders, engine, where):
    answer = shop.as_json("blame", "orders", "--where", where, "--key", "ID")
    assert (answer["from_files"], bool(engine.ran)) == (where == "id = 2", where != "id = 2")
    [row] = answer["rows"]
    assert (row["row"]["v"], row["written"]) == (None, by(SECOND, "bbbb2222-0", 3))
    assert [(each["row"]["v"], each["removed"]["version"]) for each in row["before"]] == [("b", 3)]


def test_the_text(shop, orders):
    host = socket.gethostname()
    assert shop.run("blame", "orders", "--where", "id = 3").stdout.splitlines() == [
        "orders as of 2025-11-20T14:00:00Z: 1 row",
        "  id=3, v='d', odd `name=5  (2 copies)",
        f"    written at 2025-11-20T13:00:00Z by run bbbb2222-0 on {host}, definition text bbbb",
    ]
    assert shop.run("blame", "orders", "--where", "id = 1").stdout.splitlines() == [
        "orders as of 2025-11-20T14:00:00Z: no row satisfies the condition",
        "  no longer there: id=1, v='a', odd `name=5",
        f"    written at 2025-11-20T12:00:00Z by run aaaa1111-0 on {host}, definition text aaaa",
        f"    removed at 2025-11-20T14:00:00Z by run cccc3333-0 on {host}, definition text cccc",
    ]
    shown = shop.run("blame", "orders", "--where", "`odd ``name` = 5", "--limit", "1").stdout
    assert shown.startswith("orders as of 2025-11-20T14:00:00Z: the first 1 row\n  id=NULL, v='z'")
    before = shop.run("blame", "orders", "--where", "id=1", "--at", "-1").stdout
    assert before.startswith("orders as of 2025-11-20T13:00:00Z: 1 row\n  id=1, v='a'")


def test_what_stood_when_history_begins_may_be_older(shop, orders):
    orders.downgrade_since(orders.upper.__class__.of(SECOND))
    written = shop.as_json("blame", "orders", "--where", "id = 2")["rows"][0]["written"]
    assert (written["time"], written["exact"], written["version"]) == (SECOND, False, None)
    shown = shop.run("blame", "orders", "--where", "id = 2").stdout
    assert "written at 2025-11-20T13:00:00Z, where the readable history begins, or before" in shown
    assert shop.as_json("blame", "orders", "--where", "v = 'z'")["rows"][0]["written"]["exact"]


def test_a_commit_that_the_log_no_longer_has(shop, orders, monkeypatch):
    from dbt.adapters.mvsink.shard import ReadHandle

    history = ReadHandle.history
    monkeypatch.setattr(ReadHandle, "history", lambda self, newest=None: history(self, newest)[-1:])
    written = shop.as_json("blame", "orders", "--where", "id = 2")["rows"][0]["written"]
    assert (written["time"], written["exact"], written["version"]) == (SECOND, True, None)
    assert "its commit is no longer in the log" in shop.run("blame", "orders", "--where", "id = 2").stdout


def test_a_shard_that_is_not_small_is_read_by_the_engine(shop, orders, engine, monkeypatch):
    monkeypatch.setattr(row_authors, "MAX_UPDATES", 3)
    assert not shop.as_json("blame", "orders", "--where", "id = 2")["from_files"] and engine.ran


WRONG = {
    "no condition": (("orders",), 2, "--where"),
    "an unknown model": (("nope", "--where", "id=1"), 2, "Known: orders"),
    "an unknown column of the key": (("orders", "--where", "id=1", "--key", "no"), 2, "Expected: any of id, v"),
    "no such point": (("orders", "--where", "id=1", "--at", "soon"), 2, "Expected: `latest`"),
    "an unknown column": (("orders", "--where", "no_column = 1"), 2, "there is no column `no_column`; the columns are id, v"),
    "half a condition": (("orders", "--where", "id = "), 2, "it ends with `=`"),
    "an open quote": (("orders", "--where", "v = 'x"), 1, "a quote or a comment is not closed"),
    "what only the engine knows": (("orders", "--where", "no_function(id) = 1"), 1, "no_function"),
    "a misspelled option": (("orders", "--were", "id=1"), 2, "--were"),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "code", "words"), WRONG.values(), ids=WRONG)
def test_what_is_refused(shop, orders, engine, arguments, code, words):
    result = shop.run("blame", *arguments)
    assert (result.exit_code, result.stdout) == (code, "") and words in result.stderr
    assert bool(engine.ran) == ("no_function" in words), "Spark takes 10 s to start"


COLUMNS = [Column(name, parse_type(kind, name)) for name, kind in [("id", "int"), ("a `b", "string"), ("ok", "boolean"), ("day", "date"), ("x", "double"), ("fixed", "char(3)")]]  # fmt: skip
TERMS = {
    "id=7": [Comparison("id", "=", (7,))],
    " ID = -7 AND `a ``b` = 'and' ": [Comparison("id", "=", (-7,)), Comparison("a `b", "=", ("and",))],
    "ok = true and id IS NULL": [Comparison("ok", "=", (True,)), Comparison("id", "is null")],
    "`a ``b` = ''": [Comparison("a `b", "=", ("",))],
    "id = 123456789012345678": [Comparison("id", "in", ())],
    "id = 7 or id = 8": None,
    "id = 7 and": None,
    "id == 7": None,
    "id = '7'": None,
    "id = 7.0": None,
    "`a ``b` = 7": None,
    "`a ``b` = 'it''s'": None,
    r"`a ``b` = 'a\n'": None,
    "`a ``b` = '${x}'": None,
    "x = 1": None,
    "day = '2026-01-01'": None,
    "no = 1": None,
    "not ok = true": None,
    "id = 7 -- and more": None,
    "id = 1234567890123456789": None,
    "id is not null": None,
    "": None,
}


@pytest.mark.parametrize("where", TERMS)
def test_conditions_that_mean_the_same_without_an_engine(where):
    terms = TERMS[where]
    assert parse_terms(where, COLUMNS) == (None if terms is None else Filter((tuple(terms),)))
