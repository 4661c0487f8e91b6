"""How many columns there are is not counted by tables of ours."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.incremental import Analysed, NotIncremental, analyse

COLUMNS = [("a", "string"), ("b", "int"), ("c", "int"), ("xs", "array<int>")]
NARROW = [
    "select * from (select explode(map(a, b)), c from t) d(k, v, c2) where v = 1",
    "with d(k, v, c2) as (select explode(map(a, b)), c from t) select v, c2 from d",
    "with d(k, v, c2) as (select explode(map(a, b)), c from t) select v, count(*) n from d group by v",
    "select d.c, u.c from (select explode(map(a, b)), c from t) d join t u on d.c = u.c",
    "select explode(map(a, b)), c from t union all select a, b, c from t",
    "select * from t lateral view explode(map(a, b)) e",
    "select e.*, c from t lateral view outer posexplode(map(a, b)) e",
    "select e.*, c from t, lateral explode(map(a, b)) e",
    "select k, v from (select * from t) d(k, v)",
    "select k, v from t d(k, v)",
    "select * from values struct(1, 2), struct(3, 4)",
    "select col1 from values ((1, 2))",
    "select a, b from t union all select a, b, c from t",
    "select * from (select * from t x join t y using (b)) d(k, l, m, n, o, p, q)",
    "select * from (select b, c from t) x join (select c, a from t) y using (c) union all select c, b, a from t",
]
KNOWN = [
    "select explode(map(a, b)) as (k, v), c from t union all select a, b, c from t",
    "select posexplode(xs), c from t union select b, c, b from t",
    "select p, count(*) n from (select stack(2, b, a, c, a) as (p, q) from t) d group by p",
    "select * from (select inline(array(struct(b, c))) as (p, q), a from t) d(x, y, z) where z = 'x'",
    "select explode(map(a, b)) as k, c from t",
    "select * from (select explode(xs), c from t) d(x, c2) where x = 1",
    "select k, v from t lateral view explode(map(a, b)) e as k, v",
    "select col from t lateral view posexplode(xs) e",
    "select k, v from t, lateral explode(map(a, b)) e(k, v)",
    "select * from t left join lateral posexplode(xs) on true",
    "select * from values (1, 'a'), (-2, null) as v(x, y)",
]


class TestRowA:
    @pytest.mark.parametrize("query", NARROW)
    def test_row_a_columns_that_may_be_more_are_evaluated_in_full(self, query):
        assert isinstance(analyse(query, lambda name: COLUMNS), NotIncremental)

    @pytest.mark.parametrize("query", KNOWN)
    def test_row_a_columns_that_are_known_are_incremental(self, query):
        outcome = analyse(query, lambda name: COLUMNS)
        assert isinstance(outcome, Analysed), outcome
