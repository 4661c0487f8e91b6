"""The rules for subqueries, over tiny databases, with the text and the rows of the change: those in
WHERE that become joins (`unnest`), and others.

The texts are those of `incremental_rules.readable`.
"""

from __future__ import annotations

import pytest

from tests.support.incremental_database import Table
from tests.support.incremental_rules import A, B, Case, a, a_still, b, b_still, check

b_null = Table(B, [(1, 100)], [((None, 300), 1)])


def enters_and_leaves(condition: str, items: str = "k, v") -> str:
    """Rows for which ``condition``, in which `b'` is read, is true now and was not; the reverse."""
    new, old = condition, condition.replace("b'", "b°")
    return (
        f"select {items}, 1L _mv_diff from a where ( {new} ) and ( not coalesce(( {old} ), false) ) union all "
        f"select {items}, -1L _mv_diff from a where ( {old} ) and ( not coalesce(( {new} ), false) )"
    )


def not_among(value: str, query: str) -> str:
    """The same for `value not in (query)`."""
    terms = []
    for diff, new, old in ((1, query, query.replace("b'", "b°")), (-1, query.replace("b'", "b°"), query)):
        among = (
            f"{value} in ( {old} ) or {value} is null and exists (select 1 from ( {old} ) as _mv_q) "
            f"or exists (select 1 from ( {old} ) as _mv_q(_mv_c) where _mv_c is null)"
        )
        terms.append(f"select k, v, {diff}L _mv_diff from a where ( {value} not in ({new}) ) and ( {among} )")
    return " union all ".join(terms)


KEYS, BY_KEY = "( select b.k as u_0_0 from b' as `b` ) as `u_0`", "u_0.u_0_0 = a.k"
IN, BY_VALUE = "( select k from b' as `b` ) as `u_0`(`u_0_0`)", "k = u_0.u_0_0"


def changed(relation: str) -> str:
    """The change of a relation without groups of b'."""
    named = "as `u_0`(`u_0_0`, `_mv_diff`)"
    return relation.replace(" from b'", ", _mv_diff from Δb").replace("as `u_0`(`u_0_0`)", named)


def matches(
    relation: str = KEYS,
    on: str = BY_KEY,
    *,
    kind: str = "semi",
    change: str = "",
    rows: str = "a",
    items: str = "k, v",
) -> str:
    """The rows that match what changed in ``relation``: those that are kept now, and that were."""
    matched = f"from {rows} left semi join {change or changed(relation)} on {on}"
    return " union all ".join(
        f"select {items}, {diff} _mv_diff {matched} left {kind} join {each} on {on} where ( 1 = 1 )"
        for diff, each in (("1L", relation), ("-1L", relation.replace("b'", "b°")))
    )


def groups(listed: str) -> tuple[str, str]:
    """The groups of b' as a relation, and its change."""
    grouped = f"select {listed}{{}} from {{}} as `b`{{}} group by b.k"
    scope = (
        " where ( exists (select 1 from ( select distinct _mv_k0 from ( select (b.k) as _mv_k0 from Δb as `b` ) as _mv_k ) as _mv_k "
        "where _mv_k._mv_k0 <=> (b.k)) )"
    )
    new, old = (
        grouped.format(f", {diff} _mv_diff", side, scope) for diff, side in (("1L", "b'"), ("-1L", "b°"))
    )
    return f"( {grouped.format('', chr(98) + chr(39), '')} ) as `u_0`", f"( {new} union all {old} ) as `u_0`"


TOTALS, CHANGED_TOTALS = groups("b.k as u_0_0, sum(w) as u_0_1")
CASES = {
    "EXISTS": Case(
        "select k, v from a where exists (select 1 from b where b.k = a.k)",
        {"a": a_still, "b": b},
        matches(),
        {(2, 20): 1},
    ),
    "NOT EXISTS": Case(
        "select k, v from a where not exists (select 1 from b where b.k = a.k)",
        {"a": a_still, "b": b},
        matches(kind="anti"),
        {(2, 20): -1},
    ),
    "EXISTS with conditions of its own, and of both": Case(
        "select k, v from a where exists (select * from b where w > 1 and b.k = a.k and (w > v or w = 0))",
        {"a": a_still, "b": b},
        matches(
            "( select b.k as u_0_0, w as u_0_1 from b' as `b` where w > 1 ) as `u_0`",
            "u_0.u_0_0 = a.k and (u_0.u_0_1 > v or u_0.u_0_1 = 0)",
            change="( select b.k as u_0_0, w as u_0_1, _mv_diff from Δb as `b` where ( w > 1 ) ) as `u_0`",
        ),
        {(2, 20): 1},
    ),
    "EXISTS over groups: what HAVING leaves": Case(
        "select k, v from a where exists (select b.k from b where b.k = a.k group by b.k having count(*) > 0)",
        {"a": a_still, "b": b},
        enters_and_leaves(
            "exists (select b.k from b' as `b` where b.k = a.k group by b.k having count(*) > 0)"
        ),
        {(2, 20): 1},
    ),
    "IN": Case(
        "select k, v from a where k in (select k from b)",
        {"a": a_still, "b": b},
        matches(IN, BY_VALUE),
        {(2, 20): 1},
    ),
    "NOT IN, and a NULL comes": Case(
        "select k, v from a where k not in (select k from b)",
        {"a": a_still, "b": b_null},
        not_among("k", "select k from b' as `b`"),
        {(2, 20): -1},
    ),
    "NOT IN of a NULL, and the last row goes": Case(
        "select k, v from a where k not in (select k from b)",
        {"a": Table(A, [(None, 5), (1, 10)]), "b": Table(B, [(7, 100)], [((7, 100), -1)])},
        not_among("k", "select k from b' as `b`"),
        {(None, 5): 1},
    ),
    "a correlated NOT IN": Case(
        "select k, v from a where v not in (select w / 10 from b where b.k = a.k)",
        {"a": a_still, "b": b},
        enters_and_leaves("v not in (select w / 10 from b' as `b` where b.k = a.k)"),
        {(2, 20): -1},
    ),
    "a correlated IN": Case(
        "select k, v from a where k in (select k from b where b.w = a.v * 10)",
        {"a": a_still, "b": b},
        matches("( select b.w as u_0_0, k as u_0_1 from b' as `b` ) as `u_0`", "k = u_0.u_0_1 and u_0.u_0_0 = a.v * 10"),
        {(2, 20): 1},
    ),
    "a correlated IN of an expression, whose type may be another": Case(
        "select k, v from a where v in (select w / 10 from b where b.k = a.k)",
        {"a": a_still, "b": b},
        enters_and_leaves("v in (select w / 10 from b' as `b` where b.k = a.k)"),
        {(2, 20): 1},
    ),
    "IN below NOT": Case(
        "select k, v from a where not (k in (select k from b))",
        {"a": a_still, "b": b},
        enters_and_leaves("not (k in (select k from b' as `b`))"),
        {(2, 20): -1},
    ),
    "IN below CASE": Case(
        "select k, v from a where case when k in (select k from b) then v > 15 else v < 15 end",
        {"a": a_still, "b": b},
        enters_and_leaves("case when k in (select k from b' as `b`) then v > 15 else v < 15 end"),
        {(2, 20): 1},
    ),
    "IN below OR": Case(
        "select k, v from a where (k in (select k from b) or v = 20)",
        {"a": a_still, "b": b},
        enters_and_leaves("(k in (select k from b' as `b`) or v = 20)"),
        {},
    ),
    "a scalar subquery": Case(
        "select k, v from a where v * 10 >= (select max(w) from b)",
        {"a": a_still, "b": b},
        enters_and_leaves("v * 10 >= (select max(w) from b' as `b`)"),
        {(2, 20): 1},
    ),
    "a scalar subquery of another table that gives the same": Case(
        "select k, v from a where v < (select count(*) * 10 from b)",
        {"a": a_still, "b": b},
        enters_and_leaves("v < (select count(*) * 10 from b' as `b`)"),
        {},
    ),
    "a correlated scalar subquery": Case(
        "select k, v from a where v < (select sum(w) from b where b.k = a.k)",
        {"a": a_still, "b": b},
        matches(TOTALS, f"{BY_KEY} and v < u_0.u_0_1", change=CHANGED_TOTALS),
        {(2, 20): 1},
    ),
    "a CTE in a subquery, and a WITH": Case(
        "with c as (select k as n from b) select k, v from a where k in (with d as (select n from c) select n from d order by 1)",
        {"a": a_still, "b": b},
        matches(
            "( select n from ( select n from ( select k as n from b' as `b` ) as `c` ) as `d` ) as `u_0`(`u_0_0`)",
            BY_VALUE,
            change="( select n, _mv_diff from ( select n, _mv_diff from ( select k as n, _mv_diff from Δb as `b` ) as `c` ) as `d` ) "
            "as `u_0`(`u_0_0`, `_mv_diff`)",
        ),
        {(2, 20): 1},
    ),
    "what it reads did not change": Case(
        "select k, v from a where k in (select k from b)",
        {"a": a, "b": Table(B, [(3, 300)])},
        "select k, v, _mv_diff from Δa as `a` left semi join ( select k from b ) as `u_0`(`u_0_0`) on k = u_0.u_0_0 where ( 1 = 1 )",
        {(3, 30): 1},
    ),
    "both changed": Case(
        "select k from a where exists (select * from b where b.k = a.k)",
        {"a": Table(A, [(1, 10), (2, 20)], [((3, 30), 1)]), "b": b},
        f"select k, _mv_diff from Δa as `a` left semi join {KEYS} on {BY_KEY} where ( 1 = 1 ) union all "
        + matches(rows="a° as `a`", items="k"),
        {(2,): 1},
    ),
    "groups over a subquery": Case(
        "select k, count(*) as n from a where k in (select k from b) group by k",
        {"a": a_still, "b": b},
        " union all ".join(
            f"select k, count(*) as n, {diff} _mv_diff from a left semi join {relation} on {BY_VALUE} where ( 1 = 1 ) and "
            "( exists (select 1 from ( select distinct _mv_k0 from ( "
            + matches(IN, BY_VALUE, items="(k) as _mv_k0").replace(", 1L _mv_diff", "").replace(", -1L _mv_diff", "")
            + " ) as _mv_k ) as _mv_k where _mv_k._mv_k0 <=> (k)) ) group by k"
            for diff, relation in (("1L", IN), ("-1L", IN.replace("b'", "b°")))
        ),
        {(2, 1): 1},
    ),
    "in the select list: all rows, as they are shown now and as they were": Case(
        "select k, (select max(w) from b where b.k = a.k) as m from a where v > 10",
        {"a": a_still, "b": b},
        " union all ".join(
            f"select k, (select max(w) from {side} as `b` where b.k = a.k) as m, {diff} _mv_diff from a where ( v > 10 )"
            for diff, side in (("1L", "b'"), ("-1L", "b°"))
        ),
        {(2, 200): 1, (2, None): -1},
    ),
    "in the select list, over leaves that changed": Case(
        "select k, case when exists (select 1 from b where b.k = a.k) then 1 else 0 end as m from a",
        {"a": a, "b": b},
        "select k, case when exists (select 1 from b' as `b` where b.k = a.k) then 1 else 0 end as m, _mv_diff from Δa as `a` union all "
        + " union all ".join(
            f"select k, case when exists (select 1 from {side} as `b` where b.k = a.k) then 1 else 0 end as m, {diff} _mv_diff from a° as `a`"
            for diff, side in (("1L", "b'"), ("-1L", "b°"))
        ),
        {(1, 1): -1, (3, 0): 1, (2, 0): -1, (2, 1): 1},
    ),
    "in the select list, and what it reads did not change": Case(
        "select k, (select max(w) from b) as m from a",
        {"a": a, "b": b_still},
        "select k, (select max(w) from b) as m, _mv_diff from Δa as `a`",
        {(3, 300): 1, (1, 300): -1},
    ),
    "in HAVING: every group": Case(
        "select k, sum(v) as n from a group by k having sum(v) * 15 > (select max(w) from b)",
        {"a": a_still, "b": b},
        " union all ".join(
            f"select k, sum(v) as n, {diff} _mv_diff from a group by k having sum(v) * 15 > (select max(w) from {side} as `b`)"
            for diff, side in (("1L", "b'"), ("-1L", "b°"))
        ),
        {(2, 20): 1},
    ),
    "beside an aggregate: every group": Case(
        "select k, count(*) + (select max(w) from b) as n from a group by k",
        {"a": a_still, "b": b},
        " union all ".join(
            f"select k, count(*) + (select max(w) from {side} as `b`) as n, {diff} _mv_diff from a group by k"
            for diff, side in (("1L", "b'"), ("-1L", "b°"))
        ),
        {(1, 301): -1, (2, 301): -1, (1, 201): 1, (2, 201): 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_change(name):
    check(CASES[name])
