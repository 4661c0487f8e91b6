"""Which views and ephemeral models may be a task's input, and how they map changes. No Spark."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.continual_task.carry_time import NotRowByRow, row_by_row

MAPPED = {  # a query, the table behind it, the carried text
    "select a, b + 1 as c from s.t where a > 0": (
        "`s`.`t`",
        "select a, b + 1 as c, `t`.`_mv_time` from ( ROWS ) as `t` where a > 0",
    ),
    "select x.* from s.t x": ("`s`.`t`", "select x.* except (`_mv_time`), `x`.`_mv_time` from ( ROWS ) x"),
    "select a from parquet.`/data/in` -- the files": (
        "`parquet`.`/data/in`",
        "select a, `/data/in`.`_mv_time` from ( ROWS ) as `/data/in` -- the files",
    ),
    "select a, x from s.t lateral view explode(xs) e as x": (
        "`s`.`t`",
        "select a, x, `t`.`_mv_time` from ( ROWS ) as `t` lateral view explode(xs) e as x",
    ),
    "with a as (select p, q from s.t), b as (select p from a where q) select * from b": (
        "`s`.`t`",
        "select * except (`_mv_time`), `b`.`_mv_time` from ( select p, `a`.`_mv_time` from ( select p, q, `t`.`_mv_time` from ( ROWS ) as `t` ) "
        "as `a` where q ) as `b`",
    ),
    # a WITH query with the name of the table that it reads
    "with t as (select * from t where a) select * from t": (
        "`t`",
        "select * except (`_mv_time`), `t`.`_mv_time` from ( select * except (`_mv_time`), `t`.`_mv_time` from ( ROWS ) as `t` where a ) as `t`",
    ),
}


@pytest.mark.parametrize("query", MAPPED)
def test_filters_and_projections_map_rows(query):
    mapping = row_by_row(query)
    table, carried = MAPPED[query]
    assert (mapping.table, " ".join(mapping.carry("ROWS").split())) == (table, carried)


def test_an_ephemeral_model_may_read_another():
    named = {
        "__dbt__cte__a": "select p from s.t where p",
        "__dbt__cte__b": "select p + 1 as p from __dbt__cte__a",
    }
    mapping = row_by_row("select p * 2 as p from __dbt__cte__b", named)
    assert mapping.table == "`s`.`t`" and len(mapping.steps) == 3


REFUSED = {
    "select t.a from s.t join s.u on u.a = t.a": "a join",
    "select t.a from s.t, s.u": "a join",
    "select a from s.t where a in (select a from s.u)": "several tables",
    "select sum(a) from s.t": "an aggregation",
    "select a from s.t group by a": "an aggregation",
    "select distinct a from s.t": "DISTINCT",
    "select a, row_number() over (order by a) as n from s.t": "a window function",
    "select a from s.t limit 3": "a LIMIT",
    "select a from s.t union select a from s.t": "more than filter and projection",
    "select 1 as a": "no table",
    "select a, timestamp_millis(5L) /* mv_now */ as at from s.t": "mv_now()",
    "select a from s.t order by a": "more than filter and projection",
    "select a from s.t version as of 3": "syntax that cannot be analyzed",
    "select a from s.t /* mv_deletes */": "more than filter and projection",
    "select a from s.t /* mv_contents */": "more than filter and projection",
    "with recursive a as (select 1) select * from a": "a recursive WITH, or one with a list of columns",
    "with a as (select * from s.t), b as (select count(*) from a) select * from b": "an aggregation",
    "with a as (select * from s.t), b as (select * from s.u) select * from a where x in (select x from b)": "several tables",
    "select ' from s.t": "syntax that cannot be analyzed",
}


@pytest.mark.parametrize("query", REFUSED)
def test_a_query_that_does_more_is_refused_with_the_reason(query):
    with pytest.raises(NotRowByRow) as refused:
        row_by_row(query)
    assert refused.value.reason == REFUSED[query]
