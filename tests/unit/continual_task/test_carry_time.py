"""Which tasks may compute all pending times in one job, and the queries that carry the time
through.
"""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.continual_task.bind import carried_delta
from dbt.adapters.mvsink.continual_task.carry_time import Carried, stateless
from dbt.adapters.mvsink.continual_task.parse import parse
from dbt.adapters.mvsink.engine import Column, parse_type

NOW = "timestamp_millis(17L) /* mv_now */"
TIME = "`_mv_time`"
CARRIED_NOW = f"timestamp_millis(`x`.{TIME}) /* mv_now */"


def carried(query: str) -> str | None:
    result = stateless(parse(f"from transform db.x using (\n{query}\n)", "db.t", "t"), ["db.shard"])
    return result and result.queries[0]


CARRIED = [
    ("select a from db.x", f"select a, `x`.{TIME} from db.x"),
    ("select a from db.x d where d.b > 1", f"select a, `d`.{TIME} from db.x d where d.b > 1"),
    ("select * from db.x", f"select * except ({TIME}), `x`.{TIME} from db.x"),
    ("select d.*, 1 + 2 * a from db.x as d", f"select d.* except ({TIME}), 1 + 2 * a, `d`.{TIME} from db.x as d"),
    ("select db.x.*, x.* from db.x", f"select db.x.* except ({TIME}), x.* except ({TIME}), `x`.{TIME} from db.x"),
    ("select s.* from db.x d", f"select s.*, `d`.{TIME} from db.x d"),  # the fields of a struct
    ("select db.x.* from db.x x", f"select db.x.*, `x`.{TIME} from db.x x"),  # the same
    ("select a, 'from' -- from\n from db.x", f"select a, 'from', `x`.{TIME} -- from\n from db.x"),
    ("select a is distinct from b from db.x", f"select a is distinct from b, `x`.{TIME} from db.x"),
    ("select explode(a) from db.x", f"select explode(a), `x`.{TIME} from db.x"),
    ("select a, e from db.x lateral view outer explode(b) t as e", f"select a, e, `x`.{TIME} from db.x lateral view outer explode(b) t as e"),
    (f"select * from db.x, lateral explode(b) as e(c) left join lateral explode(c) f on f.col < {NOW}",
     f"select * except ({TIME}), `x`.{TIME} from db.x, lateral explode(b) as e(c) left join lateral explode(c) f on f.col < {CARRIED_NOW}"),
    ("select a from db.x join db.y using (k)", f"select a, `x`.{TIME} from db.x join db.y using (k)"),
    ("select x.*, y.* from db.y y, db.x x where x.k = y.k", f"select x.* except ({TIME}), y.*, `x`.{TIME} from db.y y, db.x x where x.k = y.k"),
    ("select a from db.x left join db.y on x.k = y.k", f"select a, `x`.{TIME} from db.x left join db.y on x.k = y.k"),
    ("select a from db.y right join db.x on x.k = y.k", f"select a, `x`.{TIME} from db.y right join db.x on x.k = y.k"),
    ("select a from db.x left semi join db.y using (k)", f"select a, `x`.{TIME} from db.x left semi join db.y using (k)"),
    ("select a from db.x left anti join db.y using (k)", f"select a, `x`.{TIME} from db.x left anti join db.y using (k)"),
    ("select a from db.x join (select k, max(v) from db.y group by k limit 3) m using (k)",
     f"select a, `x`.{TIME} from db.x join (select k, max(v) from db.y group by k limit 3) m using (k)"),
    ("select a from db.x where k in (select k from db.y)", f"select a, `x`.{TIME} from db.x where k in (select k from db.y)"),
    ("select a from db.x union all select b from db.x d", f"select a, `x`.{TIME} from db.x union all select b, `d`.{TIME} from db.x d"),
    ("select u.a from (select * from db.x) u", f"select u.a, `u`.{TIME} from (select * except ({TIME}), `x`.{TIME} from db.x) u"),
    ("select * from (select a from db.x)", f"select * except ({TIME}), {TIME} from (select a, `x`.{TIME} from db.x)"),
    ("select u.* from (select a from db.x union all select b from db.x) u join db.y using (k)",
     f"select u.* except ({TIME}), `u`.{TIME} from (select a, `x`.{TIME} from db.x union all select b, `x`.{TIME} from db.x) u join db.y using (k)"),
    (f"select {NOW}, a from db.x where (ts > ({NOW}))", f"select {CARRIED_NOW}, a, `x`.{TIME} from db.x where (ts > ({CARRIED_NOW}))"),
    (f"select a from (select {NOW} n, a from db.x) x where n = {NOW}",
     f"select a, `x`.{TIME} from (select {CARRIED_NOW} n, a, `x`.{TIME} from db.x) x where n = {CARRIED_NOW}"),
    (f"select a from db.x union all select f({NOW}) from db.x d",
     f"select a, `x`.{TIME} from db.x union all select f(timestamp_millis(`d`.{TIME}) /* mv_now */), `d`.{TIME} from db.x d"),
    (f"select {NOW} from db.x", f"select timestamp_millis(`x`.{TIME}), `x`.{TIME} /* mv_now */ from db.x"),
    (f"select '{NOW}' from db.x", f"select '{NOW}', `x`.{TIME} from db.x"),
]  # fmt: skip

ONE_BY_ONE = [
    "select max(a) from db.x",
    "select a, count(*) from db.x group by a",
    "select a from db.x group by all",
    "select count(*) from db.x having count(*) > 1",
    "select distinct a from db.x",
    "select rank() over (order by a) from db.x",
    "select a from db.x order by a",
    "select a from db.x limit 1",
    "select a from db.x sort by a",
    "select a from db.x tablesample (5 rows)",
    "select a from db.x union select b from db.x",
    "select a from db.x except all select b from db.x",
    "select a from db.x intersect select b from db.x",
    "(select a from db.x union all select b from db.x) limit 1",
    "select 1",  # no input at all
    "select a from db.y",
    "select a from db.x union all select 1",  # a branch that does not read it
    "select a.k from db.x a join db.x b using (k)",  # twice
    "select a from db.x where k in (select k from db.x)",
    "select a from db.y where k in (select k from db.x)",
    "select a, (select max(a) from db.x) from db.y",
    "select a from db.y where exists (select 1 from db.x where x.k = y.k)",
    "select a from db.y left join db.x using (k)",
    "select a from db.x right join db.y using (k)",
    "select a from db.x full join db.y using (k)",
    "select a from db.y full join db.x using (k)",
    "select a from db.y left semi join db.x using (k)",
    "select a from db.y left anti join db.x using (k)",
    "select a from db.x natural join db.y",
    "select a from db.x join db.shard using (k)",
    "select a from db.x where k in (select k from db.shard)",
    "select a from db.x join (select max(k) k from db.x) m using (k)",
    f"select a from db.x where k in (select k from db.y where ts < {NOW})",
    f"select a from db.x join (select * from db.y where ts < {NOW}) y using (k)",
    f"select a from db.x join db.y on x.k in (select k from db.z where ts < {NOW})",
    f"select a from db.x join lateral explode(b) as e(c) on c in (select k from db.z where ts < {NOW})",
    "select a from db.x join lateral explode(b) as e(c) on c in (select k from db.x)",
    "select a from db.x left join lateral explode(b) as e(c)",
    "select a from db.x join db.y on x.k in (select k from db.x)",
    "select a from db.x where k > 1 limit greatest(1, 2)",
    "select * except (a) from db.x",
    "with c as (select * from db.x) select * from c",
    "select u.b from (select a from db.x) u(b)",
    "from db.x select a",
    "table db.x",
    "select transform(a) using 'cat' from db.x",
    "select a from db.x |> where a > 1",
    "select a from db.x pivot (max(a) for b in (1, 2))",
]


@pytest.mark.parametrize("query, expected", CARRIED)
def test_the_time_is_carried_through(query, expected):
    assert carried(query) == expected


@pytest.mark.parametrize("query", ONE_BY_ONE)
def test_in_doubt_times_run_one_by_one(query):
    assert carried(query) is None


@pytest.mark.parametrize(
    "statements, together",
    [
        ("insert into db.t select a from db.x; insert into db.t (b) select b from db.x", True),
        ("insert into db.t select a from db.x; insert into db.t select max(b) from db.x", False),
        ("insert into db.t select a from db.x; delete from db.t where a", False),
        ("insert into db.t select a from db.x where a not in (select a from db.t)", False),
        ("insert into db.t select a from db.x /* mv_deletes */", False),
        ("insert into db.t select x.a from db.x join db.x /* mv_contents */ w on w.a = x.a", False),
        ("with c as (select 1) insert into db.t select a from db.x", False),
        ("merge into db.t using db.x on a when not matched then insert *", False),
    ],
)
def test_all_statements_must_carry_it(statements, together):
    result = stateless(parse(f"on input db.x as ({statements})", "db.t", "t"), [])
    assert (result is not None) is together and (result is None or isinstance(result, Carried))


@pytest.mark.parametrize(
    "head",
    [
        "with __dbt__cte__e as (select 1) on input db.x as (insert into db.t select a from db.x)",
        "from retain db.x while (a)",
    ],
)
def test_ephemeral_models_and_retain_run_one_by_one(head):
    assert stateless(parse(head, "db.t", "t"), []) is None


def test_a_carried_delta_has_the_outputs_columns_the_time_and_the_diff():
    (insert,) = parse("on input db.x as (insert into db.t (val) select a from db.x)", "db.t", "t").statements
    columns = (Column("key", parse_type("int", "")), Column("val", parse_type("string", "")))
    assert carried_delta(insert, "CARRIED", columns) == (
        "select cast(null as int) `key`, cast(_mv_0 as string) `val`, _mv_time, 1L _mv_diff from (\nCARRIED\n) `_mv_insert`(_mv_0, _mv_time)"
    )
