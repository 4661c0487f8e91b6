"""What people read of a query's rules."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.incremental import Analysed, analyse, remarks, rules

COLUMNS = {
    "db.a": [("k", "int"), ("v", "int"), ("s", "string"), ("d", "double")],
    "b": [("k", "int"), ("w", "int")],
    "c": [("k", "int"), ("ts", "timestamp")],
}
NOW = "timestamp_millis(5000L) /* mv_now */"
GROUPS = "groups that a change touches"
SUMS = f"{GROUPS}; or its sums, to which what changed is added"


def analysed(query: str) -> Analysed:
    outcome = analyse(query, lambda name: COLUMNS[name.replace("`", "").lower()])
    assert isinstance(outcome, Analysed), outcome
    return outcome


RULES = {
    "select k from db.a where v > 1": ["select from a: rows that changed"],
    "select a.k from `db`.`a` join b on a.k = b.k, c": ["select from a join b, c: rows that changed"],
    "select b.k from b right join db.a on a.k = b.k left join c on c.k = a.k": [
        "select from b right join a left join c: rows that changed; rows that match what changed in b or c"
    ],
    "select a.k from db.a full join b on a.k = b.k": [
        "select from a full join b: rows that changed; rows of the keys that changed in a full join"
    ],
    "select k from db.a where exists (select 1 from b where b.k = a.k)": [
        "select from a semi join (a subquery): rows that changed; rows that match what changed in (a subquery)",
        "  select from b: rows that changed",
    ],
    "select k from db.a where k not in (select k from b)": [
        "select from a: rows that changed; each row tested again, if a subquery in WHERE changed",
        "  select from b: rows that changed",
    ],
    "select k, (select max(w) from b) m from db.a": [
        "select from a: all rows, if a subquery that is shown changed; rows that changed",
        "  aggregates from b: its one row",
    ],
    f"select k from c where ts > {NOW}": [
        "select from c: rows that changed; rows that enter or leave as time passes"
    ],
    "select upper(s) u, max(v) m from db.a group by 1": [f"group by upper(s) from a: {GROUPS}"],
    "select k, sum(v) n from db.a group by k": [f"group by k from a: {SUMS}"],
    "select count(*) n from db.a": ["aggregates from a: its one row; or its sums, to which what changed is added"],
    "select * from (select *, rank() over (partition by k order by v) r from db.a) where r = 1": [
        "select from (a query): rows that changed",
        "  windows by k from a: partitions that a change touches",
    ],
    "select k, rank() over (order by v) r from db.a": ["windows by nothing from a: all rows: its windows share no key"],
    "select k, sum(v) n from db.a group by k order by n desc limit 3": [
        "limit: all rows: a change moves others among the first",
        f"  group by k from a: {GROUPS}",
    ],
    "select k from (select k, v from b join db.a using (k)\norder by v, k limit 3 offset 1) q where k > 0": [
        "select from q: rows that changed",
        "  limit: all rows: a change moves others among the first",
        "    select from b join a: rows that changed",
    ],
    "with x as (select distinct k from db.a) select k from x union select y.k from x join x y on x.k = y.k": [
        "union: rows that a change touches",
        "  select from x: rows that changed",
        "    distinct from a: rows that a change touches",
        "  select from x join x: rows that changed",
    ],
    "(select k from b union all select id from range(3))": [
        "union all: what changed in its branches",
        "  select from b: rows that changed",
        "  select from range: rows that changed",
    ],
    f"select max(v) m from db.a group by concat({', '.join(['s'] * 40)})": [
        f"group by concat({', '.join(['s'] * 17)},... from a: {GROUPS}"
    ],
}  # fmt: skip


@pytest.mark.parametrize("query", RULES)
def test_each_part_of_a_query_has_its_rule(query):
    lines = [f"{'  ' * rule.depth}{rule.part}: {rule.rule}" for rule in rules(analysed(query))]
    assert lines == RULES[query]


REMARKS = {
    "select k, sum(v) n, sum(cast(d as decimal(9, 2))) m, sort_array(collect_list(s)) l from db.a group by k": [],
    "select k,\n sum(d) n from db.a group by k": [
        "line 2: sum() may differ in its last digits when it is evaluated again; sums of decimals do not"
    ],
    "with x as (\nselect k, w, ts,\n row_number() over (partition by k order by w) r from b join c using (k)) select * from x": [
        "line 3: row_number() may give rows that tie other values when it is evaluated again; a unique ORDER BY does not"
    ],
    "select k, v from db.a\norder by k\nlimit 3": [
        "line 2: LIMIT may take other rows that tie when it is evaluated again; a unique ORDER BY does not"
    ],
    "select k, v from db.a order by k, v limit 3": [],
    "select k, v, row_number() over (order by k) u_0 from db.a order by k limit 3": [
        "line 1: LIMIT may take other rows that tie when it is evaluated again; a unique ORDER BY does not",
        "line 1: row_number() may give rows that tie other values when it is evaluated again; a unique ORDER BY does not",
    ],
    "select k, stddev(v) a,\n stddev(v + 1) b, stddev(v) over (order by k) c, listagg(s) t\nfrom db.a group by k, v": [
        "lines 1, 2: stddev() computes with doubles and may differ in its last digits when it is evaluated again; readers that compare it should round it",
        "line 2: listagg() may join its values in another order when it is evaluated again; array_join(sort_array(collect_list())) does not",
    ],
    "select k, sum(d) a, sum(d) b,\n sum(d) c, approx_percentile(v, 0.5) p from db.a group by k": [
        "lines 1, 2: sum() may differ in its last digits when it is evaluated again; sums of decimals do not",
        "line 2: approx_percentile() estimates, and may give another value when it is evaluated again",
    ],
    "select k, first(s) f, collect_list(s) l from db.a group by k": [
        "line 1: first() may give another value when it is evaluated again; min_by() with a unique column does not",
        "line 1: collect_list() may list its values in another order when it is evaluated again; in sort_array() it does not",
    ],
}  # fmt: skip


@pytest.mark.parametrize("query", REMARKS)
def test_a_remark_names_each_call_that_may_give_something_else(query):
    assert list(remarks(analysed(query))) == REMARKS[query]
