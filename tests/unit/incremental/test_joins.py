"""The rules for FROM trees, each over a tiny database, with the text and the rows of the change.

The texts are those of `incremental_rules.readable`.
"""

from __future__ import annotations

import pytest

from tests.support.incremental_database import Table
from tests.support.incremental_rules import Case, a, a_still, arrays, b, b_still, check

e_still = Table({"k": "int"}, [(1,), (2,), (3,)])


def of_full(changed: str, right: str) -> str:
    """What follows the left side of the full join: both sides under the keys of the change."""
    keys = f"( select distinct _mv_k0 from ( select `{changed}`.`k` as _mv_k0 from Δ{changed} as `{changed}` ) as _mv_k ) as _mv_k"
    scoped = f"({right} as `b` left semi join {keys} on _mv_k._mv_k0 <=> `b`.`k` )"
    return f"left semi join {keys} on _mv_k._mv_k0 <=> `a`.`k` full join {scoped} on a.k = b.k"


CASES = {
    "a filter and a projection": Case(
        "select k + 1 as n from a where v > 15",
        {"a": a},
        """
        select k + 1 as n, _mv_diff from Δa as `a` where ( v > 15 )
        """,
        {(4,): 1},
    ),
    "an inner join whose both sides changed": Case(
        "select a.k, w from a join b on a.k = b.k",
        {"a": a, "b": b},
        """
        select a.k, w, _mv_diff from Δa as `a` join b' as `b` on a.k = b.k union all
        select a.k, w, _mv_diff from a° as `a` join Δb as `b` on a.k = b.k
        """,
        {(1, 100): -1, (2, 200): 1},
    ),
    "an inner join of which one side changed": Case(
        "select a.k, w from a join b on a.k = b.k",
        {"a": a_still, "b": b},
        """
        select a.k, w, _mv_diff from a join Δb as `b` on a.k = b.k
        """,
        {(2, 200): 1},
    ),
    "a cross join": Case(
        "select a.k, w from a cross join b",
        {"a": a, "b": b_still},
        """
        select a.k, w, _mv_diff from Δa as `a` cross join b
        """,
        {(3, 100): 1, (1, 100): -1, (3, 300): 1, (1, 300): -1},
    ),
    "a comma": Case(
        "select a.k, w from a, b where a.k = b.k",
        {"a": a_still, "b": b},
        """
        select a.k, w, _mv_diff from a, Δb as `b` where ( a.k = b.k )
        """,
        {(2, 200): 1},
    ),
    "a comma before a right join, whose left side is both": Case(
        "select a.k, v, w, e.k as o from a, b right join e on b.k = e.k",
        {"a": a, "b": b_still, "e": e_still},
        """
        select a.k, v, w, e.k as o, 1L _mv_diff from a' as `a`, b right join (e left semi join (Δa as `a` cross join b) on b.k = e.k ) on b.k = e.k union all
        select a.k, v, w, e.k as o, -1L _mv_diff from a° as `a`, b right join (e left semi join (Δa as `a` cross join b) on b.k = e.k ) on b.k = e.k
        """,
        {(3, 30, 100, 1): 1, (1, 10, 100, 1): -1, (3, 30, 300, 3): 1, (1, 10, 300, 3): -1},
    ),
    "a lateral view": Case(
        "select k, x from arrays lateral view explode(xs) e as x where x > 7",
        {"arrays": arrays},
        """
        select k, x, _mv_diff from Δarrays as `arrays` lateral view explode(xs) e as x where ( x > 7 )
        """,
        {(2, 9): 1, (2, 8): 1},
    ),
    "a generator in the select list": Case(
        "select k, explode(xs) as x from arrays",
        {"arrays": arrays},
        """
        select k, explode(xs) as x, _mv_diff from Δarrays as `arrays`
        """,
        {(2, 8): 1, (2, 9): 1},
    ),
    "a table function and VALUES": Case(
        "select k, id, p from a, range(2), values (5) as c(p)",
        {"a": a},
        """
        select k, id, p, _mv_diff from Δa as `a`, range(2), ( select * from values (5) as c(p) ) as `c`(`p`)
        """,
        {(3, 0, 5): 1, (1, 0, 5): -1, (3, 1, 5): 1, (1, 1, 5): -1},
    ),
    "the left side of a left join": Case(
        "select a.k, w from a left join b on a.k = b.k",
        {"a": a, "b": b_still},
        """
        select a.k, w, _mv_diff from Δa as `a` left join b on a.k = b.k
        """,
        {(3, 300): 1, (1, 100): -1},
    ),
    "the right side of a left join": Case(
        "select a.k, w from a left join b on a.k = b.k",
        {"a": a_still, "b": b},
        """
        select a.k, w, 1L _mv_diff from a left semi join Δb as `b` on a.k = b.k left join b' as `b` on a.k = b.k union all
        select a.k, w, -1L _mv_diff from a left semi join Δb as `b` on a.k = b.k left join b° as `b` on a.k = b.k
        """,
        {(2, 200): 1, (2, None): -1},
    ),
    "the left side of a semi join": Case(
        "select * from a left semi join b on a.k = b.k",
        {"a": a, "b": b_still},
        """
        select * except (_mv_diff), _mv_diff from Δa as `a` left semi join b on a.k = b.k
        """,
        {(3, 30): 1, (1, 10): -1},
    ),
    "an alias that is also a column behind the semi join": Case(
        "select w.k from a as w left semi join b on w.k = b.k where w.v > 5",
        {"a": a, "b": b_still},
        "select w.k, _mv_diff from Δa as `w` left semi join b on w.k = b.k where ( w.v > 5 )",
        {(1,): -1, (3,): 1},
    ),
    "the right side of a semi join": Case(
        "select * from a left semi join b on a.k = b.k",
        {"a": a_still, "b": b},
        """
        select *, 1L _mv_diff from a left semi join Δb as `b` on a.k = b.k left semi join b' as `b` on a.k = b.k union all
        select *, -1L _mv_diff from a left semi join Δb as `b` on a.k = b.k left semi join b° as `b` on a.k = b.k
        """,
        {(2, 20): 1},
    ),
    "the left side of an anti join": Case(
        "select * from a left anti join b on a.k = b.k",
        {"a": a, "b": b_still},
        """
        select * except (_mv_diff), _mv_diff from Δa as `a` left anti join b on a.k = b.k
        """,
        {},
    ),
    "the right side of an anti join": Case(
        "select * from a left anti join b on a.k = b.k",
        {"a": a_still, "b": b},
        """
        select *, 1L _mv_diff from a left semi join Δb as `b` on a.k = b.k left anti join b' as `b` on a.k = b.k union all
        select *, -1L _mv_diff from a left semi join Δb as `b` on a.k = b.k left anti join b° as `b` on a.k = b.k
        """,
        {(2, 20): -1},
    ),
    "the left side of a right join": Case(
        "select v, b.k from a right join b on a.k = b.k",
        {"a": a, "b": b_still},
        """
        select v, b.k, 1L _mv_diff from a' as `a` right join (b left semi join Δa as `a` on a.k = b.k ) on a.k = b.k union all
        select v, b.k, -1L _mv_diff from a° as `a` right join (b left semi join Δa as `a` on a.k = b.k ) on a.k = b.k
        """,
        {(30, 3): 1, (None, 1): 1, (10, 1): -1, (None, 3): -1},
    ),
    "the right side of a right join": Case(
        "select v, b.k from a right join b on a.k = b.k",
        {"a": a_still, "b": b},
        """
        select v, b.k, _mv_diff from a right join Δb as `b` on a.k = b.k
        """,
        {(None, 3): -1, (20, 2): 1},
    ),
    "a range in ON": Case(
        "select a.k, b.k as o from a left join b on a.k < b.k",
        {"a": a_still, "b": b},
        """
        select a.k, b.k as o, 1L _mv_diff from a left semi join Δb as `b` on a.k < b.k left join b' as `b` on a.k < b.k union all
        select a.k, b.k as o, -1L _mv_diff from a left semi join Δb as `b` on a.k < b.k left join b° as `b` on a.k < b.k
        """,
        {(1, 2): 1, (2, None): 1, (1, 3): -1, (2, 3): -1},
    ),
    "USING": Case(
        "select * from a left join b using (k)",
        {"a": a_still, "b": b},
        """
        select *, 1L _mv_diff from a left semi join Δb as `b` using (k) left join b' as `b` using (k) union all
        select *, -1L _mv_diff from a left semi join Δb as `b` using (k) left join b° as `b` using (k)
        """,
        {(2, 20, 200): 1, (2, 20, None): -1},
    ),
    "NATURAL": Case(
        "select * from a natural join b",
        {"a": a_still, "b": b},
        """
        select * except (_mv_diff), _mv_diff from a natural join Δb as `b`
        """,
        {(2, 20, 200): 1},
    ),
    "a natural left join": Case(
        "select * from a natural left join b",
        {"a": a_still, "b": b},
        """
        select *, 1L _mv_diff from a left semi join Δb as `b` using (`k`) natural left join b' as `b` union all
        select *, -1L _mv_diff from a left semi join Δb as `b` using (`k`) natural left join b° as `b`
        """,
        {(2, 20, 200): 1, (2, 20, None): -1},
    ),
    "a natural right join": Case(
        "select v, w from a natural right join b",
        {"a": a, "b": b_still},
        """
        select v, w, 1L _mv_diff from a' as `a` natural right join (b left semi join Δa as `a` using (`k`) ) union all
        select v, w, -1L _mv_diff from a° as `a` natural right join (b left semi join Δa as `a` using (`k`) )
        """,
        {(30, 300): 1, (None, 100): 1, (10, 100): -1, (None, 300): -1},
    ),
    "a full join": Case(
        "select a.k, b.k as o, w from a full join b on a.k = b.k and v > 10",
        {"a": a_still, "b": b},
        """
        select a.k, b.k as o, w, 1L _mv_diff from a left semi join ( select distinct _mv_k0 from ( select `b`.`k` as _mv_k0 from Δb as `b` ) as _mv_k ) as _mv_k on _mv_k._mv_k0 <=> `a`.`k` full join (b' as `b` left semi join ( select distinct _mv_k0 from ( select `b`.`k` as _mv_k0 from Δb as `b` ) as _mv_k ) as _mv_k on _mv_k._mv_k0 <=> `b`.`k` ) on a.k = b.k and v > 10 union all
        select a.k, b.k as o, w, -1L _mv_diff from a left semi join ( select distinct _mv_k0 from ( select `b`.`k` as _mv_k0 from Δb as `b` ) as _mv_k ) as _mv_k on _mv_k._mv_k0 <=> `a`.`k` full join (b° as `b` left semi join ( select distinct _mv_k0 from ( select `b`.`k` as _mv_k0 from Δb as `b` ) as _mv_k ) as _mv_k on _mv_k._mv_k0 <=> `b`.`k` ) on a.k = b.k and v > 10
        """,
        {(2, 2, 200): 1, (2, None, None): -1, (None, 3, 300): -1},
    ),
    "a full join whose both sides changed": Case(
        "select a.k, b.k as o from a full join b on a.k = b.k",
        {"a": a, "b": b},
        f"""
        select a.k, b.k as o, 1L _mv_diff from a' as `a` {of_full("a", "b'")} union all
        select a.k, b.k as o, -1L _mv_diff from a° as `a` {of_full("a", "b'")} union all
        select a.k, b.k as o, 1L _mv_diff from a° as `a` {of_full("b", "b'")} union all
        select a.k, b.k as o, -1L _mv_diff from a° as `a` {of_full("b", "b°")}
        """,
        {(3, None): 1, (None, 1): 1, (1, 1): -1, (2, 2): 1, (2, None): -1, (None, 3): -1},
    ),
    "a full join by USING": Case(
        "select k, v, w from a full join b using (k)",
        {"a": a_still, "b": b},
        """
        select k, v, w, 1L _mv_diff from a left semi join ( select distinct _mv_k0 from ( select `b`.`k` as _mv_k0 from Δb as `b` ) as _mv_k ) as _mv_k on _mv_k._mv_k0 <=> `a`.`k` full join (b' as `b` left semi join ( select distinct _mv_k0 from ( select `b`.`k` as _mv_k0 from Δb as `b` ) as _mv_k ) as _mv_k on _mv_k._mv_k0 <=> `b`.`k` ) using (k) union all
        select k, v, w, -1L _mv_diff from a left semi join ( select distinct _mv_k0 from ( select `b`.`k` as _mv_k0 from Δb as `b` ) as _mv_k ) as _mv_k on _mv_k._mv_k0 <=> `a`.`k` full join (b° as `b` left semi join ( select distinct _mv_k0 from ( select `b`.`k` as _mv_k0 from Δb as `b` ) as _mv_k ) as _mv_k on _mv_k._mv_k0 <=> `b`.`k` ) using (k)
        """,
        {(2, 20, 200): 1, (2, 20, None): -1, (3, None, 300): -1},
    ),
    "a self join": Case(
        "select x.k, y.v from a as x join a as y on x.k = y.k",
        {"a": a},
        """
        select x.k, y.v, _mv_diff from Δa as `x` join a' as `y` on x.k = y.k union all
        select x.k, y.v, _mv_diff from a° as `x` join Δa as `y` on x.k = y.k
        """,
        {(3, 30): 1, (1, 10): -1},
    ),
    "a CTE that is used twice": Case(
        "with c as (select k from a) select x.k from c as x join c as y on x.k = y.k",
        {"a": a},
        """
        select x.k, _mv_diff from ( select k, _mv_diff from Δa as `a` ) as `x` join ( select k from a' as `a` ) as `y` on x.k = y.k union all
        select x.k, _mv_diff from ( select k from a° as `a` ) as `x` join ( select k, _mv_diff from Δa as `a` ) as `y` on x.k = y.k
        """,
        {(3,): 1, (1,): -1},
    ),
    "a join in parentheses below a left join": Case(
        "select a.k, b.w from a left join (b join a as o on o.k = b.k) on a.k = b.k",
        {"a": a_still, "b": b},
        """
        select a.k, b.w, 1L _mv_diff from a left semi join (Δb as `b` join a as o on o.k = b.k) on a.k = b.k left join (b' as `b` join a as o on o.k = b.k) on a.k = b.k union all
        select a.k, b.w, -1L _mv_diff from a left semi join (Δb as `b` join a as o on o.k = b.k) on a.k = b.k left join (b° as `b` join a as o on o.k = b.k) on a.k = b.k
        """,
        {(2, 200): 1, (2, None): -1},
    ),
    "a right side of which several leaves changed": Case(
        "select e.k, w from e left join (b join a on a.k = b.k) on e.k = b.k",
        {"e": e_still, "a": a, "b": b},
        """
        select e.k, w, 1L _mv_diff from e left semi join (Δb as `b` join a' as `a` on a.k = b.k) on e.k = b.k left join (b' as `b` join a' as `a` on a.k = b.k) on e.k = b.k union all
        select e.k, w, -1L _mv_diff from e left semi join (Δb as `b` join a' as `a` on a.k = b.k) on e.k = b.k left join (b° as `b` join a' as `a` on a.k = b.k) on e.k = b.k union all
        select e.k, w, 1L _mv_diff from e left semi join (b° as `b` join Δa as `a` on a.k = b.k) on e.k = b.k left join (b° as `b` join a' as `a` on a.k = b.k) on e.k = b.k union all
        select e.k, w, -1L _mv_diff from e left semi join (b° as `b` join Δa as `a` on a.k = b.k) on e.k = b.k left join (b° as `b` join a° as `a` on a.k = b.k) on e.k = b.k
        """,
        {(2, 200): 1, (2, None): -1, (1, None): 1, (1, 100): -1},
    ),
    "a right side below two joins": Case(
        "select c.k as n, b.w from a left join b on a.k = b.k right join a as c on a.k = c.k",
        {"a": a_still, "b": b},
        """
        select c.k as n, b.w, 1L _mv_diff from a left join b' as `b` on a.k = b.k right join (a as c left semi join (a left semi join Δb as `b` on a.k = b.k left join b' as `b` on a.k = b.k) on a.k = c.k ) on a.k = c.k union all
        select c.k as n, b.w, -1L _mv_diff from a left join b° as `b` on a.k = b.k right join (a as c left semi join (a left semi join Δb as `b` on a.k = b.k left join b' as `b` on a.k = b.k) on a.k = c.k ) on a.k = c.k union all
        select c.k as n, b.w, 1L _mv_diff from a left join b' as `b` on a.k = b.k right join (a as c left anti join (a left semi join Δb as `b` on a.k = b.k left join b' as `b` on a.k = b.k) on a.k = c.k left semi join (a left semi join Δb as `b` on a.k = b.k left join b° as `b` on a.k = b.k) on a.k = c.k ) on a.k = c.k union all
        select c.k as n, b.w, -1L _mv_diff from a left join b° as `b` on a.k = b.k right join (a as c left anti join (a left semi join Δb as `b` on a.k = b.k left join b' as `b` on a.k = b.k) on a.k = c.k left semi join (a left semi join Δb as `b` on a.k = b.k left join b° as `b` on a.k = b.k) on a.k = c.k ) on a.k = c.k
        """,
        {(2, 200): 1, (2, None): -1},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_change(name):
    check(CASES[name])
