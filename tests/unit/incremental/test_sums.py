"""Groups in two steps: which queries add up, what their sums are, and what is shown of them."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, getcontext

import pytest

from dbt.adapters.mvsink.incremental import (
    Analysed,
    NotIncremental,
    Plan,
    Sides,
    Sums,
    analyse,
    delta,
    exact_sums,
    sums_of,
)

COLUMNS = {
    "a": [("k", "int"), ("v", "bigint"), ("x", "double"), ("d", "decimal(10,2)"), ("s", "string")],
    "b": [("k", "int"), ("w", "int")],
}
TYPES = {"k0": "int", "n": "bigint", "c0": "bigint", "s0": "decimal(20,2)", "c1": "bigint", "s1": "bigint"}


def analysed(query: str) -> Analysed:
    outcome = analyse(query, lambda name: COLUMNS.get(name.lower()))
    assert isinstance(outcome, Analysed), outcome
    return outcome


def sums(query: str) -> Sums:
    outcome = sums_of(analysed(query))
    assert isinstance(outcome, Sums), outcome
    return outcome


SPLIT = {
    "select k, sum(d) as s from a group by k": (
        "select (k) as k0, count(*) as n, count(d) as c0, sum(d) as s0\nfrom a\ngroup by (k)",
        "select k0 as `k`, (s0) as `s` from t",
    ),
    "select sum(d) / count(*) as r from a where k > 1": (
        "select count(*) as n, count(d) as c0, sum(d) as s0\nfrom a\nwhere (\nk > 1\n)",
        "select (s0 / n) as `r` from t",
    ),
    # an expression is added up once; the alias of an item in HAVING is the item
    "select k, sum( d ) as total, sum(d) + 1 as t from a group by k having total > 3 and k is not null": (
        "select (k) as k0, count(*) as n, count(d) as c0, sum(d) as s0\nfrom a\ngroup by (k)",
        "select k0 as `k`, (s0) as `total`, (s0 + 1) as `t` from t where ((s0) > 3 and k0 is not null)",
    ),
    "select upper(a.s) as u, count(b.w) as c from a left join b on a.k = b.k group by 1": (
        "select (upper(a.s)) as k0, count(*) as n, count(b.w) as c0\nfrom a left join b on a.k = b.k\n"
        "group by (upper(a.s))",
        "select k0 as `u`, (c0) as `c` from t",
    ),
    "select k, count_if(v > 2) as c from a group by all": (
        "select (k) as k0, count(*) as n, count(case when v > 2 then 1 end) as c0\nfrom a\ngroup by (k)",
        "select k0 as `k`, (c0) as `c` from t",
    ),
    "select k, bool_and(v > 2) as b, every(v > 2) as e, some(v > 2) as o from a group by k having not bool_or(v < 0)": (
        "select (k) as k0, count(*) as n, count(v > 2) as c0, count(case when v > 2 then 1 end) as c1, "
        "count(v < 0) as c2, count(case when v < 0 then 1 end) as c3\nfrom a\ngroup by (k)",
        "select k0 as `k`, (case when c0 > 0 then c1 = c0 end) as `b`, (case when c0 > 0 then c1 = c0 end) as `e`, "
        "(case when c0 > 0 then c1 > 0 end) as `o` from t where (not case when c2 > 0 then c3 > 0 end)",
    ),
    "with c as (select k, v + 1 as w from a) select k, sum(w) as s from c group by k order by k": (
        "select (k) as k0, count(*) as n, count(w) as c0, sum(w) as s0\n"
        "from (\nselect k, v + 1 as w from a\n) as `c`\ngroup by (k)",
        "select k0 as `k`, (s0) as `s` from t",
    ),
}


@pytest.mark.parametrize(("query", "split"), SPLIT.items())
def test_a_query_is_split_in_sums_and_what_is_shown_of_them(query, split):
    both = sums(query)
    assert (both.query, both.shown("t", TYPES)) == split


@pytest.mark.parametrize("query", SPLIT)
def test_the_sums_add_up_themselves(query):
    plan = delta(analysed(sums(query).query), {"a": Sides("new a", "old a", "select * from change_of_a")})
    assert isinstance(plan, Plan) and plan.adding is not None
    assert plan.adding.rows == "n" and set(plan.adding.sums) <= {"s0"}
    assert "old a" not in plan.adding.query and "new a" not in plan.adding.query


REFUSED = {
    # s is a column, too
    "select k, sum(d) as s from a group by k having s > 3": "neither a group key nor a sum",
    "select k, max(v) as m from a group by k": "max() does not add up",
    "select k, sum(x) as s from a group by k": "sum() cannot be repeated",
    "select k, count(distinct v) as c from a group by k": "count() does not add up here",
    "select k, sum(v) filter (where v > 1) as s from a group by k": "sum() does not add up here",
    "select k, avg(v) as m from a group by k": "avg() cannot be repeated",
    "select k, v from a": "it has no groups",
    "select k, sum(d) from a group by k": "a column without a name",
    "select k, count(*) from a group by k": "a column without a name",  # Spark's own is `count(1)`
    "select k, count(1) from a group by k": "a column without a name",
    "select k + 1 as j, sum(d) as s from a group by k + 1 having k + 1 > sum(d)": "neither a group key nor a sum",
    "select k, sum(d) as s, rank() over (partition by k order by sum(d)) as r from a group by k": "windows",
    "select k, sum(d) + (select max(w) from b) as s from a group by k": "of the time",
    "select distinct k from a": "it has no groups",
}


@pytest.mark.parametrize(("query", "reason"), REFUSED.items())
def test_what_does_not_add_up_is_refused_with_a_reason(query, reason):
    outcome = sums_of(analysed(query))
    assert isinstance(outcome, NotIncremental) and reason in outcome.reason


SHAPES = {
    "select k, count(*) as n from a group by k": True,
    "select count(*) as n, count(v) as c, sum(v) as s from a": True,
    "select k, count(*) as n, sum(v) as s from a group by k": False,  # of how many values?
    "select k, count(v) as c, sum(v) as s from a group by k": False,  # are there rows?
    "select count(*) as n from a group by k": False,
    "select k, k as j, count(*) as n from a group by k": False,
    "select k, count(*) as n, count(*) as m, count(v) as c, count(v) as e from a group by k": True,
    "select k, count(*) as n, max(v) as m from a group by k": False,
    "select k, count(*) as n from a group by k having count(*) > 1": False,
    "select k, count(*) as n, count(distinct v) as c from a group by k": False,
    "select k, count(*) as n, count(x) as c, sum(x) as s from a group by k": False,
    "select k, count(*) from a group by k": False,  # a column without a name
}


@pytest.mark.parametrize(("query", "adds_up"), SHAPES.items())
def test_a_query_adds_up_if_it_shows_all_that_is_needed(query, adds_up):
    plan = delta(analysed(query), {"a": Sides("new a", "old a", "select * from change_of_a")})
    assert isinstance(plan, Plan)
    assert (plan.adding is not None) == adds_up


def test_nothing_is_added_up_where_nothing_changed():
    plan = delta(analysed("select k, count(*) as n from a group by k"), {"a": Sides("new", "old")})
    assert isinstance(plan, Plan) and plan.adding is None


@pytest.mark.parametrize(
    ("kind", "exactly"), [((20, 2), True), ((37, 18), True), ((38, 6), True), ((38, 7), False)]
)
def test_sums_of_wide_decimals_need_few_decimals(kind, exactly):
    assert exact_sums(*kind) is exactly
    types = {**TYPES, "s0": f"decimal({kind[0]},{kind[1]})"}
    assert (sums("select k, sum(d) as s from a group by k").shown("t", types) is not None) is exactly


def test_an_average_of_many_decimals_is_not_taken_from_sums():
    both = sums("select k, avg(d) as m from a group by k")
    assert both.shown("t", {**TYPES, "s0": "decimal(30,11)"}) is None


def test_an_average_is_rounded_once():
    """The quotient is taken apart; its parts give what one division with one rounding gives."""
    getcontext().prec = 60
    for total, count in ((10, 3), (-10, 3), (99999999, 7), (5, 100000), (-5, 100000), (123456789, 200000000)):
        value = Decimal(total).scaleb(-2)
        rest = value % count  # with the sign of the value, as in Spark
        parts = (value - rest) / count + _rounded(rest / count)
        assert parts == _rounded(value / count)


def _rounded(value: Decimal) -> Decimal:
    return value.quantize(Decimal("1e-6"), ROUND_HALF_UP)


class TestRowD:
    @pytest.mark.parametrize(
        "one, other, apart",
        [
            ("count_if(s = 'A')", "count_if(s = a.a)", True),
            ("count_if(s = '1')", "count_if(s = 1)", True),
            ("count_if(s = 'A')", "count_if(s = 'a')", True),
            ("count_if(s = 'A')", "count_if(s = r'A')", True),
            ("count_if(s = x'41')", "count_if(s = '41')", True),
            ("count_if(s = `A`)", "count_if(s = 'A')", True),
            ("count_if(v = 1L)", "count_if(v = 1)", True),
            ("count_if(S = 'A')", "count_if( s = 'A' )", False),
            ("count(s || 'B')", "count(s || b)", True),
        ],
    )
    def test_row_d_what_is_in_quotes_is_another_expression(self, one, other, apart):
        columns = [("s", "string"), ("a", "string"), ("b", "string"), ("v", "int")]
        outcome = analyse(f"select {one} x, {other} y from a", lambda name: columns)
        assert isinstance(outcome, Analysed), outcome
        split = sums_of(outcome)
        assert isinstance(split, Sums)
        assert ("as c1" in split.query) == apart
