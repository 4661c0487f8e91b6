"""The rules for blocks, UNION ALL and time, each with the text and the rows of the change.

The texts are those of `incremental_rules.readable`.
"""

from __future__ import annotations

from datetime import datetime

import pytest

from tests.support.incremental_database import Millis, Table
from tests.support.incremental_rules import EVENTS, NOW, Case, a, a_still, b, b_still, check, events

CASES = {
    "a derived table": Case(
        "select d.n from (select k + 1 as n from a where v > 15) d",
        {"a": a},
        """
        select d.n, _mv_diff from ( select k + 1 as n, _mv_diff from Δa as `a` where ( v > 15 ) ) as `d`
        """,
        {(4,): 1},
    ),
    "a derived table on the right side of a left join": Case(
        "select a.k, d.n from a left join (select k, w + 1 as n from b) as d(k, n) on a.k = d.k",
        {"a": a_still, "b": b},
        """
        select a.k, d.n, 1L _mv_diff from a left semi join ( select k, w + 1 as n, _mv_diff from Δb as `b` ) as `d`(`k`, `n`, `_mv_diff`) on a.k = d.k left join ( select k, w + 1 as n from b' as `b` ) as `d`(`k`, `n`) on a.k = d.k union all
        select a.k, d.n, -1L _mv_diff from a left semi join ( select k, w + 1 as n, _mv_diff from Δb as `b` ) as `d`(`k`, `n`, `_mv_diff`) on a.k = d.k left join ( select k, w + 1 as n from b° as `b` ) as `d`(`k`, `n`) on a.k = d.k
        """,
        {(2, 201): 1, (2, None): -1},
    ),
    "UNION ALL of which both sides changed": Case(
        "select k as n from a union all select w from b",
        {"a": a, "b": b},
        """
        ( select k as n, _mv_diff from Δa as `a` ) union all
        ( select w, _mv_diff from Δb as `b` )
        """,
        {(3,): 1, (1,): -1, (300,): -1, (200,): 1},
    ),
    "UNION ALL of which one side changed": Case(
        "select k as n from a union all select w from b",
        {"a": a_still, "b": b},
        """
        ( select k as n, 0L _mv_diff from a where ( 1 = 0 ) ) union all
        ( select w, _mv_diff from Δb as `b` )
        """,
        {(300,): -1, (200,): 1},
    ),
    "UNION ALL within UNION ALL": Case(
        "select k as n from a union all (select w from b union all select v from a)",
        {"a": a, "b": b_still},
        """
        ( select k as n, _mv_diff from Δa as `a` ) union all
        ( ( select w, 0L _mv_diff from b where ( 1 = 0 ) ) union all
        ( select v, _mv_diff from Δa as `a` ) )
        """,
        {(3,): 1, (1,): -1, (30,): 1, (10,): -1},
    ),
    "ORDER BY is ignored": Case(
        "select k from a order by v",
        {"a": a},
        """
        select k, _mv_diff from Δa as `a`
        """,
        {(3,): 1, (1,): -1},
    ),
    "nothing that is read changed": Case(
        "select k from a",
        {"a": a_still},
        """
        select k, 0L _mv_diff from a where ( 1 = 0 )
        """,
        {},
    ),
    "no relation at all": Case(
        "select 1 as one",
        {},
        """
        select 1 as one, 0L _mv_diff where ( 1 = 0 )
        """,
        {},
    ),
    "a star beside others": Case(
        "select b.*, *, a.* except (v) from a, b",
        {"a": a_still, "b": b},
        """
        select b.* except (_mv_diff), * except (_mv_diff), a.* except (v), _mv_diff from a, Δb as `b`
        """,
        {
            (3, 300, 1, 10, 3, 300, 1): -1,
            (2, 200, 1, 10, 2, 200, 1): 1,
            (3, 300, 2, 20, 3, 300, 2): -1,
            (2, 200, 2, 20, 2, 200, 2): 1,
        },
    ),
    "rows enter and leave as time passes": Case(
        f"select k from events where ts > {NOW} - interval 3 seconds",
        {"events": events},
        """
        select k, 1L _mv_diff from events where ( ts > timestamp_millis(7000L) /* mv_now */ - interval 3 seconds ) and ( not ( ts > timestamp_millis(2000L) /* mv_now */ - interval 3 seconds ) ) union all
        select k, -1L _mv_diff from events where ( ts > timestamp_millis(2000L) /* mv_now */ - interval 3 seconds ) and ( not ( ts > timestamp_millis(7000L) /* mv_now */ - interval 3 seconds ) )
        """,
        {(1,): -1},
        (2000, 7000),
    ),
    "an input changes while time passes": Case(
        f"select k from events where ts > {NOW} - interval 3 seconds",
        {"events": Table(EVENTS, [(1, Millis(1000))], [((4, Millis(4500)), 1)])},
        """
        select k, _mv_diff from Δevents as `events` where ( ts > timestamp_millis(7000L) /* mv_now */ - interval 3 seconds ) union all
        select k, 1L _mv_diff from events° as `events` where ( ts > timestamp_millis(7000L) /* mv_now */ - interval 3 seconds ) and ( not ( ts > timestamp_millis(2000L) /* mv_now */ - interval 3 seconds ) ) union all
        select k, -1L _mv_diff from events° as `events` where ( ts > timestamp_millis(2000L) /* mv_now */ - interval 3 seconds ) and ( not ( ts > timestamp_millis(7000L) /* mv_now */ - interval 3 seconds ) )
        """,
        {(4,): 1, (1,): -1},
        (2000, 7000),
    ),
    "a condition that is NULL at one time only": Case(
        f"select k from events where case when {NOW} > timestamp_millis(4000L) then k > 1 end",
        {"events": events},
        """
        select k, 1L _mv_diff from events where ( case when timestamp_millis(7000L) /* mv_now */ > timestamp_millis(4000L) then k > 1 end ) and ( not coalesce(( case when timestamp_millis(2000L) /* mv_now */ > timestamp_millis(4000L) then k > 1 end ), false) ) union all
        select k, -1L _mv_diff from events where ( case when timestamp_millis(2000L) /* mv_now */ > timestamp_millis(4000L) then k > 1 end ) and ( not coalesce(( case when timestamp_millis(7000L) /* mv_now */ > timestamp_millis(4000L) then k > 1 end ), false) )
        """,
        {(2,): 1, (3,): 1},
        (2000, 7000),
    ),
    "two conditions with mv_now()": Case(
        f"select k from events where ts <= {NOW} and ts > {NOW} - interval 3 seconds",
        {"events": events},
        """
        select k, 1L _mv_diff from events where ( ts > timestamp_millis(7000L) /* mv_now */ - interval 3 seconds ) and ( ts <= timestamp_millis(7000L) ) and ( not ( ts <= timestamp_millis(2000L) ) ) union all
        select k, -1L _mv_diff from events where ( ts > timestamp_millis(7000L) /* mv_now */ - interval 3 seconds ) and ( ts <= timestamp_millis(2000L) ) and ( not ( ts <= timestamp_millis(7000L) ) ) union all
        select k, 1L _mv_diff from events where ( ts <= timestamp_millis(2000L) ) and ( ts > timestamp_millis(7000L) /* mv_now */ - interval 3 seconds ) and ( not ( ts > timestamp_millis(2000L) /* mv_now */ - interval 3 seconds ) ) union all
        select k, -1L _mv_diff from events where ( ts <= timestamp_millis(2000L) ) and ( ts > timestamp_millis(2000L) /* mv_now */ - interval 3 seconds ) and ( not ( ts > timestamp_millis(7000L) /* mv_now */ - interval 3 seconds ) )
        """,
        {(2,): 1, (1,): -1},
        (2000, 7000),
    ),
    "time passes below a join": Case(
        f"select a.k, d.ts from a left join (select * from events where ts <= {NOW}) d on a.k = d.k",
        {"a": a_still, "events": events},
        """
        select a.k, d.ts, 1L _mv_diff from a left semi join ( select *, 1L _mv_diff from events where ( ts <= timestamp_millis(7000L) ) and ( not ( ts <= timestamp_millis(2000L) ) ) union all
        select *, -1L _mv_diff from events where ( ts <= timestamp_millis(2000L) ) and ( not ( ts <= timestamp_millis(7000L) ) ) ) as `d` on a.k = d.k left join ( select * from events where ts <= timestamp_millis(7000L) ) as `d` on a.k = d.k union all
        select a.k, d.ts, -1L _mv_diff from a left semi join ( select *, 1L _mv_diff from events where ( ts <= timestamp_millis(7000L) ) and ( not ( ts <= timestamp_millis(2000L) ) ) union all
        select *, -1L _mv_diff from events where ( ts <= timestamp_millis(2000L) ) and ( not ( ts <= timestamp_millis(7000L) ) ) ) as `d` on a.k = d.k left join ( select * from events where ts <= timestamp_millis(2000L) ) as `d` on a.k = d.k
        """,
        {(2, datetime(1970, 1, 1, 0, 0, 5)): 1, (2, None): -1},
        (2000, 7000),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_change(name):
    check(CASES[name])
