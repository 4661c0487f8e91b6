"""Whether a result follows from text and inputs alone."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.user_sql.checks import breaks_lines, uncertain

CERTAIN = {
    "functions of Spark's own": "select upper(a), count(distinct b), sum(c) over (partition by a) from t group by a, b, c",
    "a CTE with a list of columns": "with r(x, y) as (select 1, 2) select x from r",
    "an alias with a list of columns": "select * from values (1, 2) as v(a, b)",
    "a name after a closing parenthesis": "select * from (values (1)) v(a)",
    "keywords before a parenthesis": "select * from t where a in (1) and (a = 1 or not (b > 2)) and exists (select 1)",
    "a typed cast": "select cast(a as decimal(10, 2)), cast(b as varchar(3)) from t",
    "a generator": "select x from t lateral view outer explode(split(a, ',')) e as x",
    "columns with names of functions": "select t.current_date, a as user, `now` from t",
    "a function's name as text": "select 'now() and current_date' from t",
    "with an argument": "select unix_timestamp(a) from t",
    "a literal date": "select date '2026-01-01' from t",
    "a pivot": "select * from t pivot (max(b) for a in (1, 2))",
}
UNCERTAIN = {
    "the clock": ("select now() from t", "now()"),
    "the clock without parentheses": ("select current_date from t", "current_date"),
    "the clock without an argument": ("select unix_timestamp() from t", "unix_timestamp()"),
    "a moving literal": ("select timestamp 'now' from t", "timestamp 'now'"),
    "chance": ("select rand(1), uuid() from t", "rand()"),
    "a sample": ("select * from t tablesample (10 percent)", "TABLESAMPLE"),
    "the session": ("select current_user() from t", "current_user()"),
    "a file's name": ("select input_file_name() from t", "input_file_name()"),
    "a function of the user's": ("select my_udf(a) from t", "my_udf()"),
    "a qualified function": ("select db.upper(a) from t", "db.upper()"),
    "a substituted text": ("select '${env:HOME}' from t", "${...}"),
    "an open quote": ("select 'a from t", "not closed"),
}


@pytest.mark.parametrize("query", CERTAIN.values(), ids=CERTAIN)
def test_certain(query):
    assert uncertain(query) == ""


@pytest.mark.parametrize(("query", "named"), UNCERTAIN.values(), ids=UNCERTAIN)
def test_uncertain(query, named):
    assert named in uncertain(query)


@pytest.mark.parametrize(
    ("query", "declared", "named"),
    [
        ("select s.f(a) from t", ["S.F"], ""),
        ("select `s` . `F`(a), c.s.g(a) from t", ["s.f", "c.s.g"], ""),
        ("select f(a) from t", ["f"], ""),
        ("select s.f(a) from t", ["f"], "s.f()"),
        ("select f(a) from t", ["s.f"], "f()"),
        ("select x.s.f(a) from t", ["s.f"], "x.s.f()"),
        ("select s.upper(a) from t", ["s.f"], "s.upper()"),
    ],
)
def test_row_d_a_declared_function_is_called_as_it_was_declared(query, declared, named):
    assert named in uncertain(query, declared) and bool(uncertain(query, declared)) is bool(named)


@pytest.mark.parametrize(
    ("query", "breaks"),
    [
        ("select 'a\nb'", True),
        (r"select 'a\nb'", True),
        ("select `a\nb`", True),
        ("select 'a',\n'b' -- text\n", False),
        (r"select a rlike '\\d+'", False),
    ],
)
def test_line_breaks_in_names_and_texts(query, breaks):
    assert breaks_lines(query) is breaks
