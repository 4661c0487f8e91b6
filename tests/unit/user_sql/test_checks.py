"""What a query's tokens tell."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.user_sql.checks import nondeterministic_functions, reads, without_end

FUNCTIONS = {
    "select current_timestamp() t": ["current_timestamp"],
    "select current_timestamp t": ["current_timestamp"],
    "select a as current_date from t": [],
    "select rand(), RAND(3), uuid()": ["rand", "uuid"],
    "select 'rand()' -- now()": [],
    "select `uuid` from t": [],
    "select t.now from t": [],
    "select unix_timestamp() u": ["unix_timestamp"],
    "select unix_timestamp(ts) u from t": [],
    "select timestamp_millis(1L) /* mv_now */": [],
}


@pytest.mark.parametrize(("query", "names"), FUNCTIONS.items())
def test_nondeterministic_functions(query, names):
    assert nondeterministic_functions(query) == names


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select * from dev.orders", True),
        ("select * from `dev`.`Orders`", True),
        ("select * from dev.orders2", False),
        ("select 'dev.orders' -- dev.orders", False),
    ],
)
def test_reads_its_own_relation(query, expected):
    assert reads(query, "dev", "orders") is expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [("select 1;", "select 1"), ("select 1 ; ;\n", "select 1 "), ("select ';'", "select ';'"), ("select 1 -- ;", "select 1 -- ;")],
)  # fmt: skip
def test_a_closing_semicolon_is_cut(query, expected):
    assert without_end(query) == expected
