"""Which uses of maps are incremental: those that are the same for maps that are equal."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.incremental import Analysed, NotIncremental, Plan, Sides, analyse, claims, delta

COLUMNS = {
    "a": [
        ("k", "int"), ("v", "int"), ("m", "map<string,int>"), ("mm", "map<string,map<string,int>>"),
        ("s", "struct<x:int,m:map<string,int>>"), ("xs", "array<map<string,int>>"),
    ],
    "b": [("k", "int"), ("w", "int"), ("m", "map<string,int>")],
}  # fmt: skip
ALLOWED = [
    "select k from a",
    "select * from a",
    "select k, m as n, (m) as o, s, xs from a where m is not null",
    "select m['a'] as x, s.x as f, s.m as sm, mm['a'] as y, xs[0]['a'] as z, mm['a']['b'] as w from a",
    "select a.m.q, m.r, element_at(m, 'c') as c, try_element_at(m, 'd') as d from a where map_contains_key(m, 'e')",
    "select m as n, n['a'] as x from a",
    "select m['a'] as x, count(*) as n, max(m['b']) as y from a group by m['a'] having max(m['b']) > 1",
    "select distinct m['a'] as x from a union select k from b",
    "select k, m, sum(v) over (partition by k order by m['a'], v) as r from a",
    "select x.m['a'] as y, x.m from (select m, k from a union all select m, k from b) x",
    "with c(p, q) as (select k, mm['a'] from a) select p, q, q['b'] as r from c",
    "select a.m, b.m as n from a left join b on a.m['x'] = b.k and map_contains_key(b.m, 'q')",
    "select * from a join (select k, w from b) using (k)",
    "select k, a.m from a full join (select k, w from b) using (k)",
    "select k from a where exists (select * from b where b.m['a'] = a.m['b'])",
    "select a.k, a.m, (select max(b.m['x']) from b where b.k = a.k) as n from a",
    "select k, m from a order by k limit 3",
]
OF_KEYS = "a select list may also show the column itself"
COMPARED = "as in `m['key'] as key`"
REFUSED = {
    "select map_keys(m) as x from a": OF_KEYS,
    "select to_json(s) as x from a": OF_KEYS,
    "select struct(m) as x from a": OF_KEYS,
    "select transform(xs, x -> x['a']) as x from a": OF_KEYS,
    "select k from a where cast(m as string) = 'x'": OF_KEYS,
    "select k from a where mm['a'] = m": OF_KEYS,
    "select k, any_value(m) as m from a group by k": OF_KEYS,
    "select k from a group by k having count(m) > 1": OF_KEYS,
    "select m, count(*) as n from a group by m": OF_KEYS,
    "select m, count(*) as n from a group by 1": OF_KEYS,
    "select m, count(*) as n from a group by all": OF_KEYS,
    "select count(*) over (partition by m) as n from a": OF_KEYS,
    "select k, max(v) over (partition by k order by cast(m as string)) as n from a": OF_KEYS,
    "select explode(m) as (q, r) from a": OF_KEYS,
    "select q from a lateral view explode(m) e as q, r": OF_KEYS,
    "select a.k from a join b on size(a.m) = b.k": OF_KEYS,
    # under another name
    "select m as x, map_keys(x) as y from a": OF_KEYS,
    "select to_json(x.y) as j from (select mm['a'] as y from a) x": OF_KEYS,
    "with c(p, q) as (select k, m from a) select p, to_json(q) as j from c": OF_KEYS,
    "select map_entries(d.m) as e from (select k, null as m from a union all select k, m from a) d": OF_KEYS,
    "select size(x.m) as n from (select * from (select k, m from a) p join (select k, w as c from b) q using (k)) x": OF_KEYS,
    "select k from a where exists (select 1 from b where map_keys(a.m)[0] = 'x')": OF_KEYS,
    # compared
    "select distinct k, m from a": COMPARED,
    "select distinct * from b": COMPARED,
    "select k, m from a union select k, m from b": COMPARED,
    "select k, s from a except all select k, s from a": COMPARED,
    "select * from a join b using (m)": COMPARED,
    "select a.k from a natural join b": COMPARED,
    "select map_keys((select m from b)) as y from a": COMPARED,
    "select k from a where m in (select m from b)": OF_KEYS,
}


def read(query: str) -> Analysed | NotIncremental:
    return analyse(query, COLUMNS.get)


@pytest.mark.parametrize("query", ALLOWED)
def test_maps_are_passed_on_and_looked_up(query):
    analysed = read(query)
    assert isinstance(analysed, Analysed), analysed
    assert claims(query, analysed)
    sides = {name: Sides(f"new_{name}", f"old_{name}", f"d_{name}") for name in analysed.relations}
    assert isinstance(delta(analysed, sides), Plan)


@pytest.mark.parametrize("query", REFUSED)
def test_uses_of_maps_that_could_show_their_order_are_refused(query):
    refused = read(query)
    assert isinstance(refused, NotIncremental)
    assert refused.reason.startswith("line 1: ") and refused.reason.endswith(REFUSED[query])
