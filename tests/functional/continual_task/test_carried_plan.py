"""Spark as the witness of times that are carried through a task's query: what is right is shared,
and what is wrong is noticed without a row.
"""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.continual_task.carry_time import carry_time, row_by_row
from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.engine.plan_text import STAND_IN, carries
from dbt.adapters.mvsink.user_sql.splice import replace_relations
from tests.support.session_engine import SessionEngine

COLUMNS = [("a", "int"), ("b", "string"), ("c", "int"), ("é x", "array<struct<k:int,v:string>>")]
INPUT = "`db`.`t`"
DIM = "(select id k, cast(id as string) v from range(10))"
RIGHT = [
    "select a, b from {t}",
    "select * from {t}",
    "select t.*, a + 1 x from {t} where b > 'x' -- from \\\n  and c > 9\n",
    "select i.a, d.v from {t} i join {d} d on i.a = d.k",
    "select i.*, d.v from {t} i left join {d} d on i.a = d.k where c > 1",
    "select d.v, i.a from {d} d right join {t} i on i.a = d.k",
    "select a from {t} union all select c from {t} where a > 1",
    "select x from (select a + 1 x, b from {t} where c > 0) s where b is not null",
    "select a, b from {t} where a in (select k from {d})",
    "select a x, '/* -- */' y from {t} /* b, /* nested */ */ where b = '--' -- c \n and a > 1",
    "select q.* from (select * from {t}) q cross join {d} d",
    "select i.a, (select v from {d} d where d.k = 3) m from {t} i left anti join {d} e on e.k = i.c",
    "select i.a, d.n from {t} i join (select k, row_number() over (order by v) n from {d} d) d on i.a = d.k",
    "select `é x`[0].v v, 1 as one from {t} where `é x` is not null and b rlike '\\\\d;'",
]
# edits of a right text that read it wrongly, and texts that do not go row by row
WRONG = {
    "a star with the time": ("select * from {t}", "select *, _mv_time from {t}"),
    "another column": ("select a, c from {t}", "select c, a, _mv_time from {t}"),
    "a lost conjunct": ("select a from {t} where a > 1 and c > 1", "select a, _mv_time from {t} where a > 1"),
    "a comment that ends too early": ("select a -- b\n + c x from {t}", "select a x, _mv_time from {t}"),
    "one branch of a union": (
        "select a from {t} union all select c from {t}",
        "select a, _mv_time from {t} union all select a, _mv_time from {t}",
    ),
    "a limit": ("select a from {t} limit 5", "select a, _mv_time from {t} limit 5"),
    "distinct": ("select distinct a from {t}", "select distinct a, _mv_time from {t}"),
    "a window": (
        "select row_number() over (order by a) n from {t}",
        "select row_number() over (order by a) n, _mv_time from {t}",
    ),
    "groups": ("select a, count(*) n from {t} group by a", "select a, count(*) n, _mv_time from {t} group by a, _mv_time"),
    "the outer side of a join": (
        "select d.k, i.a from {d} d left join {t} i on i.a = d.k",
        "select d.k, i.a, i._mv_time from {d} d left join {t} i on i.a = d.k",
    ),
    "a subquery": (
        "select k from {d} d where k in (select a from {t})",
        "select k, 1L _mv_time from {d} d where k in (select a from {t})",
    ),
    "a minus": ("select a from {t} except all select c from {t}", "select a, _mv_time from {t} except all select c, _mv_time from {t}"),
}  # fmt: skip


@pytest.fixture(scope="module")
def engine(spark):
    return SessionEngine(spark)


def shared(engine, plain: str, carried: str) -> bool:
    rows = f"select * from {STAND_IN}"
    plain = replace_relations(plain, {INPUT: f"select * except (_mv_time) from {STAND_IN}"})
    try:
        return carries(engine, plain, replace_relations(carried, {INPUT: rows}), COLUMNS)
    except EngineError:
        return False


@pytest.mark.parametrize("text", RIGHT)
def test_a_query_that_carries_the_times_is_shared(engine, text):
    query = text.format(t=INPUT, d=DIM)
    carried = carry_time(query, INPUT)
    assert carried is not None
    assert shared(engine, query, carried)


@pytest.mark.parametrize(("text", "carried"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_noticed(engine, text, carried):
    assert not shared(engine, text.format(t=INPUT, d=DIM), carried.format(t=INPUT, d=DIM))


def test_the_mapping_of_a_view_is_shared(engine):
    query = f"with a as (select *, c + 1 d from {INPUT} where a > 0), b as (select d, b from a) select d y, upper(b) from b"
    rows = row_by_row(query)
    plain = replace_relations(query, {INPUT: f"select * except (_mv_time) from {STAND_IN}"})
    assert carries(engine, plain, rows.carry(f"select * from {STAND_IN}"), COLUMNS)
    wrong = rows.carry(f"select * from {STAND_IN}").replace("a > 0", "a > 1")
    assert not carries(engine, plain, wrong, COLUMNS)
