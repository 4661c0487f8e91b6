"""The query of a change on Spark: random queries over random databases, against evaluating them
before and after.

``MVSINK_SPARK_QUERIES=200`` runs more than the few of a CI run.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from dbt.adapters.mvsink.incremental import Analysed, Plan, Scoped, Sides, Sums, analyse, delta, sums_of
from dbt.adapters.mvsink.user_sql.marks import query_at
from tests.property.test_incremental import case
from tests.support.incremental_database import Database, Millis, Row, Table, consolidated

QUERIES = int(os.environ.get("MVSINK_SPARK_QUERIES", "3"))


def literal(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, (list, tuple)):
        return f"array({', '.join(map(literal, value))})"
    return f"timestamp_millis({int(value)}L)" if isinstance(value, Millis) else repr(value)


def relation(columns: dict[str, str], rows: Sequence[Row]) -> str:
    typed = ", ".join(f"cast({name} as {kind}) as {name}" for name, kind in columns.items())
    values = ", ".join(f"({', '.join(map(literal, row))})" for row in rows)
    nothing = f"({', '.join(['null'] * len(columns))})"
    none = "" if rows else " where false"
    return f"select {typed} from values {values or nothing} as t({', '.join(columns)}){none}"


class OnSpark:
    def __init__(self, spark: Any, database: Database):
        self.spark, self.tables, self.database = spark, database.tables, database
        self.sides = {name: self._sides(table) for name, table in database.tables.items()}

    def _sides(self, table: Table) -> Sides:
        columns, change = dict(table.columns), [(*row, diff) for row, diff in table.change]
        changed = relation({**columns, "_mv_diff": "bigint"}, change) if change else None
        return Sides(relation(columns, table.new), relation(columns, table.old), changed)

    def rows(self, query: str, *, old: bool = False) -> list[Row]:
        for name, sides in self.sides.items():
            text = sides.old if old else sides.new
            self.spark.sql(f"create or replace temporary view {name} as {text}")
        collected = self.spark.sql(query).collect()
        return [tuple(tuple(v) if isinstance(v, list) else v for v in row) for row in collected]

    def changes(self, query: str, clock: tuple[int, int] | None) -> list[Counter[Row]]:
        analysed = analyse(query, self.database.columns_of)
        assert isinstance(analysed, Analysed)
        read = {name.strip("`").lower() for name in analysed.relations}
        changed = {name: each for name, each in self.sides.items() if name in read and each.change}
        plan = delta(analysed, changed, clock)
        assert isinstance(plan, Plan)
        ways = [] if plan.query is None else [consolidated(self.rows(plan.query))]
        return ways if plan.scoped is None else [*ways, self.replaced(query, plan.scoped, clock)]

    def replaced(self, query: str, scoped: Scoped, clock: tuple[int, int] | None) -> Counter[Row]:
        old = self.rows(query if clock is None else query_at(query, clock[0]), old=True)
        names = [name.lower() for name in self.spark.sql(query).columns]
        places = [names.index(column) for column in scoped.columns]
        keys = {()} if scoped.keys is None else {*self.rows(scoped.keys)}
        gone = [(*row, -1) for row in old if tuple(row[at] for at in places) in keys]
        return consolidated([*gone, *((*row, 1) for row in self.rows(scoped.new))])

    def difference(self, query: str, clock: tuple[int, int] | None) -> Counter[Row]:
        before, after = (query, query) if clock is None else (query_at(query, at) for at in clock)
        old = [(*row, -1) for row in self.rows(before, old=True)]
        return consolidated([*old, *((*row, 1) for row in self.rows(after))])


def outcome(on_spark: OnSpark, query: str, clock: tuple[int, int] | None) -> str:
    """What is wrong, empty if nothing is."""
    try:
        expected = on_spark.difference(query, clock)
    except Exception as error:  # then it cannot be a model either
        return f"refused: {str(error).splitlines()[0]}"
    try:
        changes = on_spark.changes(query, clock)
    except Exception as error:
        return f"fails: {str(error).splitlines()[0]}"
    if any(change != expected for change in changes):
        return "differs"
    return "right" if expected else "right, nothing changed"


@pytest.mark.timeout(7200)
def test_the_change_of_a_random_query_is_the_difference_of_its_contents(quick):
    outcomes = {}
    for seed in range(QUERIES):
        database, query, clock = case(seed)
        outcomes[seed] = outcome(OnSpark(quick, database), query, clock)
        print(seed, outcomes[seed], flush=True)
    counts = Counter(each.split(":")[0] for each in outcomes.values())
    assert counts["differs"] == counts["fails"] == 0, outcomes
    assert counts["refused"] <= 0.1 * QUERIES, outcomes


NATURAL = """
select * from a natural left join b
select v, w from a natural right join b
select x.v, w from (select v from a) x natural left join b
select v, sum(w) s from b natural right join (select v from a) x group by v
select k, v, w from e left semi join (a natural left join b) using (k) natural left join a natural left join b
"""
SHAPES = """
select k, v, w from a natural full join b
select k, v, w from a full join b using (k) full join e using (k)
select a.k, b.k as l, e.k as m, v from a full join b on a.k = b.k full join e on e.k = coalesce(a.k, b.k)
select k, count(*) n, sum(v) s from e full join (a join b using (k)) using (k) group by k
select a.v, x.y from a join (values (2, 'p'), (3, 'q'), (3, 'q')) as x(k, y) on x.k = a.k
with x(k) as (values (1), (3)) select x.k, sum(v) s from x left join a on a.k = x.k group by x.k
select window.k, b.w from a window, b where b.k = window.k
select k from a where exists (select 1 from (select w from b where b.k = a.k) x where x.w > 1)
select k from a where 1 <= (select count(*) from (select distinct w from b where b.k = a.k) x)
select x.k, y.k as l, s, t + 1 as u from (select k, sum(cast(v as double)) s from a group by k) x left join (select k, max_by(w, struct(w, k)) t from b group by k) y on x.k = y.k
select p, q, k from (select k, stack(2, v, 'x', v + 1, 'y') as (p, q) from a where v > 5) x
select p, count(*) n from (select inline(array(struct(k as x, w as y), struct(w as x, k as y))) as (p, q) from b) x group by p
select posexplode(array(k, v)) as (p, k), v from a union select k, w, k from b
select k from a where exists (select 1 from b where b.k = a.k and w in (select x.c from (select v * 10 as c from a where a.k = b.k) x))
"""


@pytest.mark.parametrize("query", [*NATURAL.strip().splitlines(), *SHAPES.strip().splitlines()])
def test_queries_whose_changes_spark_could_refuse(quick, query):
    """Spark has no natural semi join, by which a change would find its rows."""
    a = Table({"k": "int", "v": "int"}, [(1, 10), (2, 20)], [((3, 30), 1), ((1, 10), -1)])
    b = Table({"k": "int", "w": "int"}, [(1, 100), (3, 300)], [((3, 300), -1), ((2, 200), 1)])
    e = Table({"k": "int"}, [(1,), (2,), (3,)])
    assert outcome(OnSpark(quick, Database({"a": a, "b": b, "e": e})), query, None) == "right"


LATERAL = """
select k, v from a, lateral explode(xs) as e(v)
select * from a left join lateral explode(xs) as e(v) on true
select k, v from a left join lateral posexplode(xs) as e(p, v) on v > 1 and p < k
select k, v, w from a cross join lateral explode_outer(xs) e(v), lateral stack(2, v, k, v, k + 1) f(w, x) where w = v or v is null
select v, count(*) n, max(k) m from a join lateral inline(transform(xs, x -> struct(x, x + 1 as y))) e(v, y) on y > v group by v
select distinct k, y from a left join b using (k) left outer join lateral explode(sequence(a.k, w)) as e(y) on y <> b.k
select k from b where exists (select 1 from a, lateral explode(xs) e(v) where v = b.k)
select x.k, w from (select k, col from a left join lateral explode(xs) on true) x left join b on b.k = x.col
"""


@pytest.mark.parametrize("query", LATERAL.strip().splitlines())
def test_lateral_joins_of_arrays(quick, query):
    """Of NULL and empty ones, and of rows and elements that are there twice."""
    old = [(1, [1, 1, 3]), (1, [1, 1, 3]), (2, []), (2, []), (3, None), (4, [None, 2]), (5, [2])]
    change = [
        ((1, [1, 1, 3]), -1), ((2, []), -1), ((2, None), 2), ((3, None), -1), ((3, [3, 2]), 1),
        ((4, [None, 2]), -1), ((4, []), 1), ((6, [1, 1]), 2), ((None, [4]), 1),
    ]  # fmt: skip
    a = Table({"k": "int", "xs": "array<int>"}, old, change)
    b = Table({"k": "int", "w": "int"}, [(1, 2), (3, 3), (3, 3)], [((3, 3), -1), ((2, 4), 1)])
    assert outcome(OnSpark(quick, Database({"a": a, "b": b})), query, None) == "right"


@pytest.mark.parametrize(
    ("kind", "decimals"),
    [("int", 0), *((f"decimal({p},{s})", s) for p, s in ((1, 0), (5, 2), (9, 9), (15, 2), (18, 0), (18, 10), (27, 2), (27, 10)))],
)  # fmt: skip
def test_averages_from_sums_are_those_of_spark(spark, kind, decimals):
    """All digits, and the type."""
    whole = 9 if kind == "int" else int(kind.split("(")[1].split(",")[0]) - decimals
    value = f"cast((rand(7) - 0.5) * 1.9 * pow(10, {whole}) as {kind})"
    rows = f"select id % 89 g, if(id % 11 = 0, null, {value}) x from range(5000)"
    spark.sql(f"create or replace temporary view averaged as {rows}")
    query = "select g, avg(x) as m from averaged group by g"
    analysed = analyse(query, lambda name: [("g", "bigint"), ("x", kind)])
    assert isinstance(analysed, Analysed)
    sums = sums_of(analysed)
    assert isinstance(sums, Sums)
    kept = spark.sql(sums.query)
    types = {field.name: field.dataType.simpleString() for field in kept.schema.fields}
    shown = sums.shown(f"({sums.query}) as kept", types)
    assert shown is not None
    both = f"select a.m <=> b.m same, typeof(a.m) = typeof(b.m) typed from ({query}) a join ({shown}) b on a.g <=> b.g"
    assert Counter(map(tuple, spark.sql(both).collect())) == {(True, True): 89}
