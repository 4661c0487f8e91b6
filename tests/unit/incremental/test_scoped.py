"""The shard as the old side: which plans have it, and where it is the only way."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.incremental import Analysed, NotIncremental, Plan, Sides, analyse, delta

COLUMNS = {
    "a": [
        ("k", "int"),
        ("v", "int"),
        ("x", "double"),
        ("d", "decimal(10,2)"),
        ("s", "string"),
        ("t", "bigint"),
    ],
    "b": [("k", "int"), ("w", "int")],
}
SIDES = {name: Sides(f"select new {name}", f"select old {name}", f"select change {name}") for name in COLUMNS}


def plan(query: str) -> Plan | NotIncremental:
    analysed = analyse(query, lambda name: COLUMNS[name.lower()])
    if isinstance(analysed, NotIncremental):
        return analysed
    return delta(analysed, {name: SIDES[name] for name in analysed.relations})


def scope(query: str) -> tuple[str, ...] | None:
    """The columns that carry keys."""
    outcome = plan(query)
    assert isinstance(outcome, Plan), outcome
    return outcome.scoped and outcome.scoped.columns


SCOPES = {
    "select k, count(*) as n from a group by k": ("k",),
    "select k as Key, v + 1 as n, count(*) as m from a group by v + 1, k": ("n", "key"),
    # every row of the shard
    "select v, row_number() over (order by v, k) as n, k from a": (),
    "select k, sum(v) as n from a group by k having sum(v) > (select max(w) from b)": (),
    # those of the keys that are shown
    "select v, count(*) as n from a group by k, v": ("v",),
    "select count(*) as n from a group by k": None,
    "select upper(s) as u, count(*) as n from a group by 1": ("u",),
    "select * from (select k, count(*) as n from a group by k) where n > 1": ("k",),
    "select n + 1 as m, d.k as `Key` from (select k, count(*) as n from a group by k) as d": ("key",),
    "select n + 1 as m from (select k, count(*) as n from a group by k) as d": None,
    "select o from (select k, v, count(*) as n from a group by k, v) as d(m, o, n)": ("o",),
    "with c as (select k, count(*) as n from a group by k) select * from c": ("k",),
    "select k, v, rank() over (partition by k, v order by d) as r from a": ("k", "v"),
    "select distinct v, k from a": ("v", "k"),
    "select k from (select distinct v, k from a) e": ("k",),
    "select k from a union select k from b": ("k",),
    "select k, v from a except all select k, w from b": ("k", "v"),
    # every row
    "select count(*) as n from a": (),
    # what is evaluated in terms of rows is not replaced
    "select k from a": None,
    "select b.k, n from b join (select k, count(*) as n from a group by k) d on b.k = d.k": None,
    "select k, count(*) as n from a group by k union all select k, w from b": None,
}  # fmt: skip


@pytest.mark.parametrize("query", SCOPES)
def test_the_columns_that_carry_keys(query):
    assert scope(query) == SCOPES[query]


@pytest.mark.parametrize("query", SCOPES)
def test_the_keys_are_one_piece_of_the_new_rows(query):
    outcome = plan(query)
    if outcome.scoped is not None and outcome.scoped.keys is not None:
        assert outcome.scoped.new.count(outcome.scoped.keys) == 1


def test_nothing_is_replaced_if_nothing_changed():
    analysed = analyse("select k, count(*) as n from a group by k", COLUMNS.get)
    assert delta(analysed, {}).scoped is None
    assert delta(analysed, {}).terms == 0


REPEATABLE = [
    "select k, sum(v) as s, avg(v) as m, sum(t + 1) as u, avg(d) as n, sum(d * v) as o from a group by k",
    "select k, min(x) as m, max(s) as n, count(distinct x) as c, percentile(x, 0.5) as p from a group by k",
    "select k, sum(cast(x as decimal(10, 2))) as s from a group by k",
    "select k, sum(case when v > 1 then d else 0 end) as s, sum(coalesce(v, 0) - 1) as t from a group by k",
    "select k, sum(n) as s from (select k, count(*) as n, sum(v) as t from a group by k) group by k",
    "select k, sort_array(collect_set(s)) as s from a group by k",
    "select k, max_by(v, struct(d, v)) as m, min_by(v + 1, named_struct('a', d, 'b', v)) as n from a group by k",
    "select k, max_by(v, v) as m, min_by(k, d) as n from a group by k",
    "select k, max_by(n, v) as m from (select k, v, count(*) as n from a group by k, v) b group by k",
    "select max_by(n, struct(v, k)) as m from (select k, v, count(*) as n from a group by k, v) b",
    "select k, rank() over (partition by k order by x) as r, sum(v) over (partition by k order by s) as t from a",
    # rows that are equal in ORDER BY are equal in all that is shown, or are one row
    "select k, v, row_number() over (partition by k order by v) as r from a",
    "select k, v, sum(v) over (partition by k order by v rows 1 preceding) as r from a",
    "select k, v, n, lag(n) over (partition by k order by v) as l from (select k, v, count(*) as n from a group by k, v)",
    "select k, v, sum(d) as n, lag(sum(d)) over (partition by k order by v) as l from a group by k, v",
    "select k, s, first_value(s) over (partition by k order by s) as l from (select distinct k, s from a) e",
]  # fmt: skip
ONLY_SCOPED = {
    "select k, sum(x) as s from a group by k": "sum()",
    "select k, avg(x) as s from a group by k": "avg()",
    "select k, avg(t) as s from a group by k": "avg()",  # of doubles: integers beyond 2^53 are not exact
    "select k, sum(v / 2) as s from a group by k": "sum()",
    "select k, stddev(v) as s from a group by k": "stddev()",
    "select k, first(v) as s, count(*) as n from a group by k": "first()",
    "select k, count(*) as n from a group by k having any_value(v) > 1": "any_value()",
    "select k, collect_list(v) as s from a group by k": "collect_list()",
    "select k, max_by(v, d) as s from a group by k": "max_by()",
    "select k, max_by(v, struct(d, s)) as m from a group by k": "max_by()",
    "select k, max_by(n, v) as m from (select k, v, d, count(*) as n from a group by k, v, d) b group by k": "max_by()",
    "select k, max_by(v, d) filter (where v > 0) as m from a group by k": "max_by()",
    "select k, s, max_by(v, struct(d, v)) over (partition by k order by d rows 1 preceding) as m from a": "max_by()",
    "select sum(x) as s from a": "sum()",
    "select k, v, s, row_number() over (partition by k order by v) as r from a": "row_number()",
    "select k, v, s, lag(s) over (partition by k order by v) as r from a": "lag()",
    "select k, v, s, sum(v) over (partition by k order by v rows 1 preceding) as r from a": "sum()",
    # two windows: equal rows may be numbered in one order by one, in another by the other
    "select k, v, row_number() over (partition by k order by v) as r, row_number() over (partition by k order by v desc) as q from a": "row_number()",
    "select k, s from (select *, row_number() over (partition by k order by v) as r from a) where r = 1": "row_number()",
    # nested: output values only
    "select b.k, max(d.s) as m from b join (select k, sum(x) as s from a group by k) d on b.k = d.k group by b.k": "sum()",
    "select distinct k, s from (select k, sum(x) as s from a group by k) d": "sum()",
    "select k, sum(x) as s from a group by k except select k, w from b": "sum()",
}  # fmt: skip
ONLY_SCOPED |= {  # the rows of a join that are equal in what can be repeated
    "select b.k, s from b join (select k, sum(x) as s from a group by k) d on b.k = d.k": "sum()",
    "select d.k, s, m from (select k, sum(x) as s from a group by k) d left join (select k, first(w) as m from b group by k) e on d.k = e.k": "sum()",
    "select q.k, q.s + 1 as t from (select d.k, s from b join (select k, sum(x) as s from a group by k) d on b.k = d.k) q where s > 1": "sum()",
}  # fmt: skip
DECIDES = " cannot be repeated, and decides more than an output value"
REFUSED = {
    "select b.k, s from b join (select k, sum(x) as s from a group by k) d on b.w = d.s": "sum()" + DECIDES,
    "select w + 1 as w, s from b join (select k, sum(x) as s from a group by k) d on b.k = d.k": "sum() cannot be repeated, and the model has no column with its key",
    "select b.k, s from b join (select k, sum(x) as s from a group by k) d on b.k = d.k union all select k, w from b": "sum()" + DECIDES,
    "select b.k, count(*) as n from b join (select k, sum(x) as s from a group by k) d on b.w = d.s group by b.k": "sum()" + DECIDES,
    "select k, count(*) as n from (select k, sum(x) as s from a group by k) d where s > 1 group by k": "sum()" + DECIDES,
    "select s, count(*) as n from (select k, sum(x) as s from a group by k) d group by s": "sum()" + DECIDES,
    "select k, count(*) as n from (select k from a group by k having sum(x) > 1) d group by k": "sum()" + DECIDES,
    "select k, count(*) as n from (select distinct k, s from (select k, first(s) as s from a group by k)) d group by k": "first()" + DECIDES,
    "select k, count(*) over (partition by s) as n from (select k, max_by(s, v) as s from a group by k) d": "max_by()" + DECIDES,
    "select k, n from (select k, count(*) as n from (select k, sum(x) as s from a group by k) e where s > 1 group by k) d": "sum()" + DECIDES,
    "select k, s from (select k, sum(x) as s from a group by k) union all select k, w from b": "sum()" + DECIDES,
    "select sum(x) as s from a group by k": "sum() cannot be repeated, and the model has no column with its key",
}  # fmt: skip


@pytest.mark.parametrize("query", REPEATABLE)
def test_what_is_the_same_when_it_is_evaluated_again(query):
    outcome = plan(query)
    assert isinstance(outcome, Plan), outcome
    assert outcome.query is not None


@pytest.mark.parametrize("query", ONLY_SCOPED)
def test_what_may_differ_is_replaced_in_the_shard(query):
    analysed, outcome = analyse(query, COLUMNS.get), plan(query)
    assert isinstance(analysed, Analysed), analysed
    assert isinstance(outcome, Plan)
    assert analysed.unrepeatable == f"{ONLY_SCOPED[query]} cannot be repeated"
    assert outcome.query is None
    assert outcome.scoped is not None


@pytest.mark.parametrize("query", REFUSED)
def test_what_may_differ_may_not_decide_which_rows_there_are(query):
    assert plan(query) == NotIncremental(f"line 1: {REFUSED[query]}")


def test_only_columns_that_can_be_repeated_carry_keys():
    join = "from b join (select k, sum(x) as s from a group by k) d on b.k = d.k"
    assert scope(f"select b.k, s, b.w {join}") == ("k", "w")
    assert scope(f"select s, *, b.w + 1 as u, d.k as l {join}") == ("l",)
    assert scope("select distinct k, s from (select k, sum(x) as s from a group by k) d") == ("k",)
    assert scope("select k, sum(x) as s from a group by k except select k, w from b") == ("k",)
