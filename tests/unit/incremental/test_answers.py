"""Queries that failed where they should be incremental, or be evaluated in full with a reason: rows
of the issue about what fails where it should answer, by their letters.
"""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.incremental import (
    Analysed,
    NotIncremental,
    Plan,
    Sides,
    Sums,
    analyse,
    claims,
    delta,
    sums_of,
)

COLUMNS = [("a", "int"), ("b", "int"), ("c", "int"), ("s", "string"), ("d", "decimal(10,2)")]
SIDES = {"t": Sides("select * from new", "select * from old", "select * from change")}


def read(query: str) -> Analysed | NotIncremental:
    return analyse(query, lambda name: COLUMNS)


@pytest.mark.parametrize("operator", ["union", "union all", "except", "except all", "intersect"])
@pytest.mark.parametrize(
    "query",
    [
        "select a, b, c from t {} select explode(map(a, b)), c from t",
        "select explode(map(a, b)), c from t {} select a, b, c from t",
        "select c from (select a, b, c from t {} select explode(map(a, b)), c from t) x where c > 1",
        "with x as (select a, b, c from t {} select explode(map(a, b)), c from t) select distinct c from x",
        "select a from t where c in (select a from (select a, b, c from t {} select explode(map(a, b)), c from t))",
        "select * from (select a, b, c from t {} select explode(map(a, b)), c from t) x order by c limit 3",
    ],
)
def test_answers_a_a_set_operator_over_columns_that_may_be_more(query, operator):
    assert isinstance(read(query.format(operator)), NotIncremental)


@pytest.mark.parametrize(
    "query",
    [
        "with x as (select distinct b, s from t) select s, count(*) from x group by s",
        "select bround(d, 1), count(*) n from t group by 1",
        "select bround(d, 1), count(*) from t group by bround(d, 1) having count(*) > 1",
        "select s, count(*), sum(a) from t group by all",
        "select upper(s), max(a) from t group by upper(s)",
    ],
)
def test_answers_b_columns_without_a_name_are_incremental(query):
    analysed = read(query)
    assert isinstance(analysed, Analysed), analysed
    assert claims(query, analysed)
    plan = delta(analysed, SIDES)
    assert isinstance(plan, Plan), plan
    assert isinstance(sums_of(analysed), (Sums, NotIncremental))


@pytest.mark.parametrize("frame", ["rows between unbounded preceding and 1 following", "rows current row"])
@pytest.mark.parametrize(
    "value",
    [
        "mode(b) over ({})",
        "mode() within group (order by b) over ({})",
        "max(b) filter (where b > 0) over ({})",
        "sum(b) over w",
        "first(b) ignore nulls over w",
    ],
)
def test_answers_t_an_aggregate_over_rows_without_an_order_cannot_be_repeated(value, frame):
    window = f"partition by c {frame}"
    clause = f" window w as ({window})" if value.endswith("w") else ""
    rows = f"select c, {value.format(window)} as m from t{clause}"
    shown, joined = read(rows), read(f"select t.a from ({rows}) x join t on x.m = t.a")
    assert isinstance(shown, Analysed) and shown.unrepeatable is not None
    assert isinstance(joined, NotIncremental) and "cannot be repeated" in joined.reason
