"""The rules for groups, windows, DISTINCT and set operators, each over a tiny database, with the
text and the rows of the change.

The texts are those of `incremental_rules.readable`. ``both`` is new less old: a text for `a'`, and
the same for `a°`.
"""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.incremental import Plan
from tests.support.incremental_database import Database, Millis, Table
from tests.support.incremental_rules import EVENTS, NOW, A, Case, a, a_still, b, b_still, check

twice = Table(
    A, [(1, 10), (1, 11), (2, 20), (2, 20)], [((1, 12), 1), ((1, 10), -1), ((2, 20), -1), ((2, 20), 1)]
)
nulls = Table(A, [(None, 1), (1, 1)], [((None, 2), 1), ((3, None), 1)])
emptied = Table(A, [(1, 10)], [((1, 10), -1)])


def both(text: str) -> str:
    """``{diff}`` is the last column; ``a'`` and ``b'`` are read old, too."""
    old = text.replace("a' as `a`", "a° as `a`").replace("b' as `b`", "b° as `b`")
    return f"{text.replace('{diff}', '1L _mv_diff')} union all {old.replace('{diff}', '-1L _mv_diff')}"


def among(keys: str, *texts: str) -> str:
    """That the row's keys are those of ``keys``."""
    names = [f"_mv_k{number}" for number in range(len(texts))]
    equal = " and ".join(f"_mv_k.{name} <=> ({text})" for name, text in zip(names, texts, strict=True))
    return f"( exists (select 1 from ( select distinct {', '.join(names)} from ( {keys} ) as _mv_k ) as _mv_k where {equal}) )"


K = "select (k) as _mv_k0 from Δa as `a`"
CHANGED_K = "( select distinct _mv_k0 from ( select k, _mv_diff from Δa as `a` ) as _mv_k(_mv_k0, _mv_diff) ) as _mv_k"
SET_KEYS = (
    "( select distinct _mv_k0 from ( ( select k, _mv_diff from Δa as `a` ) union all ( select k, 0L _mv_diff from b where ( 1 = 0 ) ) ) "
    "as _mv_k(_mv_k0, _mv_diff) ) as _mv_k on _mv_k._mv_k0 <=> _mv_o.`k`"
)
CASES = {
    "GROUP BY a column": Case(
        "select k, count(*) as n from a group by k",
        {"a": twice},
        both(f"select k, count(*) as n, {{diff}} from a' as `a` where {among(K, 'k')} group by k"),
        {},
    ),
    "GROUP BY an alias that is a column behind a semi join": Case(
        "select a.k + 1 as w, count(*) as n from a left semi join b on a.k = b.k group by w",
        {"a": twice, "b": b_still},
        both(
            "select a.k + 1 as w, count(*) as n, {diff} from a' as `a` left semi join b on a.k = b.k where "
            f"{among('select (a.k + 1) as _mv_k0 from Δa as `a` left semi join b on a.k = b.k', 'a.k + 1')} group by w"
        ),
        {},
    ),
    "a group that comes, one that goes, NULL as a key": Case(
        "select k, max(v) as v from a group by k",
        {"a": nulls},
        both(f"select k, max(v) as v, {{diff}} from a' as `a` where {among(K, 'k')} group by k"),
        {(None, 1): -1, (None, 2): 1, (3, None): 1},
    ),
    "the least and the largest go; distinct values; percentiles": Case(
        "select k, min(v) as l, max(v) as h, count(distinct v) as n, percentile(v, 0.5) as p from a group by k",
        {"a": Table(A, [(1, 10), (1, 11), (1, 11), (1, 12)], [((1, 10), -1), ((1, 12), -1)])},
        both(f"select k, min(v) as l, max(v) as h, count(distinct v) as n, percentile(v, 0.5) as p, {{diff}} from a' as `a` where {among(K, 'k')} group by k"),
        {(1, 10, 12, 3, 11): -1, (1, 11, 11, 1, 11): 1},
    ),
    "lists, which are sorted": Case(
        "select k, sort_array(collect_list(v)) as l from a group by k",
        {"a": twice},
        both(f"select k, sort_array(collect_list(v)) as l, {{diff}} from a' as `a` where {among(K, 'k')} group by k"),
        {(1, (11, 12)): 1, (1, (10, 11)): -1},
    ),
    "HAVING, and a filter": Case(
        "select k, sum(v) as s from a where v > 10 group by k having sum(v) > 20",
        {"a": twice},
        both(
            "select k, sum(v) as s, {diff} from a' as `a` where ( v > 10 ) and "
            + among("select (k) as _mv_k0 from Δa as `a` where ( v > 10 )", "k")
            + " group by k having sum(v) > 20"
        ),
        {(1, 23): 1},
    ),
    "GROUP BY an alias, which is an expression": Case(
        "select k + 1 as n, min(v) as v from a group by n",
        {"a": a},
        both(
            "select k + 1 as n, min(v) as v, {diff} from a' as `a` where "
            + among("select (k + 1) as _mv_k0 from Δa as `a`", "k + 1")
            + " group by n"
        ),
        {(4, 30): 1, (2, 10): -1},
    ),
    "GROUP BY an alias that is a column, too": Case(
        "select k + 1 as v, count(*) as n from a group by k, v",
        {"a": a},
        both(
            "select k + 1 as v, count(*) as n, {diff} from a' as `a` where "
            + among("select (k) as _mv_k0, (v) as _mv_k1 from Δa as `a`", "k", "v")
            + " group by k, v"
        ),
        {(4, 1): 1, (2, 1): -1},
    ),
    "GROUP BY ordinals": Case(
        "select count(*) as n, k % 2 odd from a group by 2",
        {"a": a},
        both(
            "select count(*) as n, k % 2 odd, {diff} from a' as `a` where "
            + among("select (k % 2) as _mv_k0 from Δa as `a`", "k % 2")
            + " group by 2"
        ),
        {},
    ),
    "GROUP BY ALL": Case(
        "select count(*) as n, k from a group by all",
        {"a": a},
        both(f"select count(*) as n, k, {{diff}} from a' as `a` where {among(K, 'k')} group by 2"),
        {(1, 3): 1, (1, 1): -1},
    ),
    "a key that is not shown": Case(
        "select max(v) as v from a group by k",
        {"a": twice},
        both(f"select max(v) as v, {{diff}} from a' as `a` where {among(K, 'k')} group by k"),
        {(11,): -1, (12,): 1},
    ),
    "groups over a left join": Case(
        "select a.k, count(w) as n from a left join b on a.k = b.k group by a.k",
        {"a": a_still, "b": b},
        """
        select a.k, count(w) as n, 1L _mv_diff from a left join b' as `b` on a.k = b.k where {0} group by a.k union all
        select a.k, count(w) as n, -1L _mv_diff from a left join b° as `b` on a.k = b.k where {0} group by a.k
        """.format(
            among(
                "select (a.k) as _mv_k0 from a left semi join Δb as `b` on a.k = b.k left join b' as `b` on a.k = b.k union all "
                "select (a.k) as _mv_k0 from a left semi join Δb as `b` on a.k = b.k left join b° as `b` on a.k = b.k",
                "a.k",
            )
        ),
        {(2, 0): -1, (2, 1): 1},
    ),
    "groups of groups": Case(
        "select n, count(*) as m from (select k, count(*) as n from a group by k) d group by n",
        {"a": a},
        both(
            "select n, count(*) as m, {diff} from ( select k, count(*) as n from a' as `a` group by k ) as `d` where "
            + among(
                "select (n) as _mv_k0 from ( select k, count(*) as n, 1L _mv_diff from <new> union all "
                "select k, count(*) as n, -1L _mv_diff from <old> ) as `d`".replace(
                    "<new>", f"A as `a` where {among(K, 'k')} group by k"
                ).replace("<old>", f"O as `a` where {among(K, 'k')} group by k"),
                "n",
            )
            + " group by n"
        ).replace("A as `a`", "a' as `a`").replace("O as `a`", "a° as `a`"),
        {},
    ),
    "a filter over groups": Case(
        "select k from (select k, count(*) as n from a group by k) d where n > 0",
        {"a": a},
        "select k, _mv_diff from ( "
        + both(f"select k, count(*) as n, {{diff}} from a' as `a` where {among(K, 'k')} group by k")
        + " ) as `d` where ( n > 0 )",
        {(3,): 1, (1,): -1},
    ),
    "aggregates without GROUP BY": Case(
        "select count(*) as n, max(v) as v from a",
        {"a": emptied},
        both("select count(*) as n, max(v) as v, {diff} from a' as `a`"),
        {(1, 10): -1, (0, None): 1},
    ),
    "groups of what did not change": Case(
        "select k, count(*) as n from a group by k",
        {"a": a_still},
        "select *, 0L _mv_diff from ( select k, count(*) as n from a group by k ) as _mv_o where 1 = 0",
        {},
    ),
    "groups as time passes": Case(
        f"select k, count(*) as n from events where ts <= {NOW} group by k",
        {"events": Table(EVENTS, [(1, Millis(1000)), (1, Millis(5000))])},
        """
        select k, count(*) as n, 1L _mv_diff from events where ( ts <= timestamp_millis(7000L) ) and {0} group by k union all
        select k, count(*) as n, -1L _mv_diff from events where ( ts <= timestamp_millis(2000L) ) and {0} group by k
        """.format(
            among(
                "select (k) as _mv_k0 from events where ( ts <= timestamp_millis(7000L) ) and ( not ( ts <= timestamp_millis(2000L) ) ) union all "
                "select (k) as _mv_k0 from events where ( ts <= timestamp_millis(2000L) ) and ( not ( ts <= timestamp_millis(7000L) ) )",
                "k",
            )
        ),
        {(1, 2): 1, (1, 1): -1},
        (2000, 7000),
    ),
    "a window": Case(
        "select k, v, rank() over (partition by k order by v desc) as r from a",
        {"a": twice},
        both(
            f"select k, v, rank() over (partition by k order by v desc) as r, {{diff}} from a' as `a` where {among(K, 'k')}"
        ),
        {(1, 10, 2): -1, (1, 11, 1): -1, (1, 11, 2): 1, (1, 12, 1): 1},
    ),
    "windows that share one of two keys, one of them by name": Case(
        "select k, count(*) over (partition by v, k) as n, max(v) over w as m from a window w as (partition by A.k)",
        {"a": a},
        both(
            "select k, count(*) over (partition by v, k) as n, max(v) over w as m, {diff} from a' as `a` where "
            + among(K, "k")
            + " window w as (partition by A.k)"
        ),
        {(3, 1, 30): 1, (1, 1, 10): -1},
    ),
    "windows over groups": Case(
        "select k, v, sum(count(*)) over (partition by k) as n from a group by k, v",
        {"a": twice},
        both(
            f"select k, v, sum(count(*)) over (partition by k) as n, {{diff}} from a' as `a` where {among(K, 'k')} group by k, v"
        ),
        {(1, 12, 2): 1, (1, 10, 2): -1},
    ),
    "windows that share no key: every row": Case(
        "select k, v, rank() over (order by v desc) as r, count(*) over (partition by k) as n from a",
        {"a": twice},
        both(
            "select k, v, rank() over (order by v desc) as r, count(*) over (partition by k) as n, {diff} from a' as `a`"
        ),
        {(1, 11, 3, 2): -1, (1, 10, 4, 2): -1, (1, 12, 3, 2): 1, (1, 11, 4, 2): 1},
    ),
    "windows over groups by another key: every row": Case(
        "select v, sum(count(*)) over (partition by v % 2) as n from a group by v",
        {"a": twice},
        both(
            "select v, sum(count(*)) over (partition by v % 2) as n, {diff} from a' as `a` group by v"
        ),
        {(10, 3): -1, (12, 3): 1},
    ),
    "the newest row for each key": Case(
        "select k, v from (select k, v, row_number() over (partition by k order by v desc) as r from a) where r = 1",
        {"a": twice},
        "select k, v, _mv_diff from ( "
        + both(
            f"select k, v, row_number() over (partition by k order by v desc) as r, {{diff}} from a' as `a` where {among(K, 'k')}"
        )
        + " ) where ( r = 1 )",
        {(1, 12): 1, (1, 11): -1},
    ),
    "the newest two rows for each key": Case(
        "select k, v from (select k, v, row_number() over (partition by k order by v desc) as r from a) where r <= 2",
        {"a": Table(A, [(1, 10), (1, 11), (2, 20)], [((1, 12), 1)])},
        "select k, v, _mv_diff from ( "
        + both(
            f"select k, v, row_number() over (partition by k order by v desc) as r, {{diff}} from a' as `a` where {among(K, 'k')}"
        )
        + " ) where ( r <= 2 )",
        {(1, 12): 1, (1, 10): -1},
    ),
    "DISTINCT over windows": Case(
        "select distinct k, max(v) over (partition by k) as m from a",
        {"a": twice},
        both(
            "select _mv_o.*, {diff} from ( select distinct k, max(v) over (partition by k) as m from a' as `a` ) as _mv_o left semi join "
            "( select distinct _mv_k0, _mv_k1 from ( <pair> ) as _mv_k(_mv_k0, _mv_k1, _mv_diff) ) as _mv_k on _mv_k._mv_k0 <=> _mv_o.`k` and _mv_k._mv_k1 <=> _mv_o.`m`"
        ).replace(
            "<pair>", both(f"select k, max(v) over (partition by k) as m, {{diff}} from a' as `a` where {among(K, 'k')}")
        ),
        {(1, 12): 1, (1, 11): -1},
    ),
    "DISTINCT": Case(
        "select distinct k from a",
        {"a": twice},
        both(
            f"select _mv_o.*, {{diff}} from ( select distinct k from a' as `a` ) as _mv_o left semi join {CHANGED_K} on _mv_k._mv_k0 <=> _mv_o.`k`"
        ),
        {},
    ),
    "DISTINCT over groups": Case(
        "select distinct count(*) as n from a group by k",
        {"a": a},
        both(
            "select _mv_o.*, {diff} from ( select distinct count(*) as n from a' as `a` group by k ) as _mv_o left semi join "
            "( select distinct _mv_k0 from ( <pair> ) as _mv_k(_mv_k0, _mv_diff) ) as _mv_k on _mv_k._mv_k0 <=> _mv_o.`n`"
        ).replace(
            "<pair>", both(f"select count(*) as n, {{diff}} from a' as `a` where {among(K, 'k')} group by k")
        ),
        {},
    ),
    "DISTINCT whose rows come and go": Case(
        "select distinct k from a",
        {"a": a},
        both(
            f"select _mv_o.*, {{diff}} from ( select distinct k from a' as `a` ) as _mv_o left semi join {CHANGED_K} on _mv_k._mv_k0 <=> _mv_o.`k`"
        ),
        {(3,): 1, (1,): -1},
    ),
    **{
        operator.upper(): Case(
            f"select k from a {operator} select k from b",
            {"a": a, "b": b_still},
            both(
                f"select _mv_o.*, {{diff}} from ( select k from a' as `a` {operator} select k from b ) as _mv_o left semi join {SET_KEYS}"
            ),
            rows,
        )
        for operator, rows in {
            "union": {},
            "except": {(1,): 0},
            "except all": {(1,): 0},
            "minus": {(1,): 0},
            "intersect": {(1,): -1, (3,): 1},
            "intersect all": {(1,): -1, (3,): 1},
        }.items()
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_change(name):
    case = CASES[name]
    check(case._replace(rows={row: diff for row, diff in case.rows.items() if diff}))


@pytest.mark.parametrize("name", CASES)
def test_the_shards_rows_in_scope_can_be_replaced(name):
    query, tables, _, rows, clock = CASES[name]
    database = Database(tables)
    plan = database.plan(query, clock)
    assert isinstance(plan, Plan)
    if plan.scoped is not None:
        expected = {row: diff for row, diff in rows.items() if diff}
        assert database.replaced(query, plan.scoped, clock) == expected
