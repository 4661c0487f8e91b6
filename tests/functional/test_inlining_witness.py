"""Spark as the witness of views whose texts take the place of their names: `inlining_witness`."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.materialization.inlining_witness import Reading, compared
from dbt.adapters.mvsink.references import inlined as module
from dbt.adapters.mvsink.references.inlined import inlined
from tests.support.maintained import Warehouse

pytestmark = pytest.mark.embedded("views are described as JSON")
SCHEMA = "inlining"
VIEWS = {
    "plain": "select k, v from {s}.t where v > 10",
    "renamed (b, a)": "select k, v from {s}.t",
    "documented (k comment 'the key', v)": "select k, v from {s}.t -- a comment",
    "shaped": "select v as k, k as v, cast(k as bigint) * 2 as `odd name` from {s}.t",
    "joined": "select t.k, u.w from {s}.t left join {s}.u using (k)",
    "grouped": "select k, count(*) as many, max(v) as most from {s}.t group by k having count(*) > 0",
    "with_ctes": "with c as (select k, w from {s}.u) select c.k, c.w from c where exists (select 1 from {s}.t where t.k = c.k)",
    "over": "select k, v from {s}.plain union all select k, w from {s}.u",
    "ranked": "select k, v, row_number() over (partition by k order by v desc) as place from {s}.t",
    "exploded": "select k, x from {s}.t lateral view explode(array(v, v + 1)) e as x",
    "ordered": "select k, v from {s}.t order by v desc limit 2",
}
QUERIES = """
select * from {s}.plain
select a, b from {s}.renamed where b > 1
select documented.v, d.k from {s}.documented d, {s}.documented where d.k = documented.k
select k, v, `odd name` from {s}.shaped
select j.w, p.v from {s}.joined j join {s}.plain as p using (k)
select many, most from {s}.grouped where k in (select k from {s}.renamed r join {s}.u on r.b = u.k)
select * from {s}.with_ctes
select k, sum(v) from {s}.over group by k
with plain as (select 1 as k) select o.k, plain.k from {s}.over o, plain
select * from {s}.ranked where place = 1
select x, count(*) from {s}.exploded group by x
select (select max(v) from {s}.plain p where p.k = u.k) from {s}.u
"""


@pytest.fixture(scope="module")
def warehouse(quick, tmp_path_factory):
    quick.sql(f"create schema if not exists {SCHEMA}")
    made = Warehouse(quick, tmp_path_factory.mktemp("inlining"))
    made.run(SCHEMA, "t", "select * from values (1, 10), (1, 20), (2, 30) as t(k, v)")
    made.run(SCHEMA, "u", "select * from values (1, 5), (3, 7) as t(k, w)")
    for name, text in VIEWS.items():
        quick.sql(f"create view {SCHEMA}.{name} as {text.format(s=SCHEMA)}")
    yield made
    quick.sql(f"drop schema {SCHEMA} cascade")


def texts(warehouse, query):
    """The query as it is written, and with the texts of its views."""
    query, names = query.format(s=SCHEMA), [f"{SCHEMA}.{name.split()[0]}" for name in VIEWS]
    module._texts = type(module._texts)(dict)
    whole = inlined(warehouse.engine, query, names, lambda name: name[-1] == "plain", (), "test")
    assert whole.refused == {} and whole.query != query
    return query, whole.query


@pytest.mark.parametrize("query", QUERIES.strip().splitlines())
def test_no_text_that_is_read_rightly_stays_a_view(warehouse, query):
    assert compared(warehouse.engine, *texts(warehouse, query)) is Reading.SAME


def other_columns(reader, name, view, text):
    """The text's own columns, whatever the view calls them."""
    return text


def other_order(reader, name, view, text):
    names = [column["name"] for column in view["columns"]]
    items = ", ".join(f"`{one}` as `{other}`" for one, other in zip(names, reversed(names), strict=True))
    return f"select {items} from ({text})"


def lost_condition(reader, name, view, text):
    return text.replace("where v > 10", "")


def lost_outer_rows(reader, name, view, text):
    return text.replace("left join", "join")


def other_type(reader, name, view, text):
    return text.replace("bigint", "int")


def other_direction(reader, name, view, text):
    return text.replace("desc", "asc")


def distinct(reader, name, view, text):
    return text.replace("select", "select distinct", 1)


def other_relation(reader, name, view, text):
    return text.replace(".t", ".u").replace("v", "w")


def other_value(reader, name, view, text):
    return text.replace("v + 1", "v + 2")


def cut(reader, name, view, text):
    return text.split(" union all ")[0].split(" having ")[0]


MUTANTS = {
    other_columns: "select a, b from {s}.renamed",
    other_order: "select * from {s}.plain",
    lost_condition: "select * from {s}.plain",
    lost_outer_rows: "select * from {s}.joined",
    other_type: "select * from {s}.shaped",
    other_direction: "select * from {s}.ranked where place = 1",
    distinct: "select * from {s}.plain",
    other_relation: "select count(*) from {s}.plain",
    other_value: "select * from {s}.exploded",
    cut: "select * from {s}.over",
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_another_meaning_is_noticed_without_a_row(warehouse, monkeypatch, mutant):
    monkeypatch.setattr(module._Reader, "_shaped", mutant)
    try:
        query, whole = texts(warehouse, MUTANTS[mutant])
        assert compared(warehouse.engine, query, whole) is Reading.OTHER
    finally:
        module._texts = type(module._texts)(dict)


def test_a_view_with_a_limit_may_stay_a_view(warehouse):
    """Spark's plan has one projection more with the view: not wrong, but not the same."""
    query = "select * from {s}.ordered union all select k, v from {s}.plain"
    assert compared(warehouse.engine, *texts(warehouse, query)) is Reading.OTHER


def test_what_has_no_rows_says_nothing(warehouse):
    nothing = f"select * from {SCHEMA}.t where false"
    assert compared(warehouse.engine, nothing, f"select * from {SCHEMA}.u where 1 = 0") is not Reading.SAME


def test_a_plan_that_is_never_the_same_is_not_the_same(warehouse):
    query = f"select k, rand() from {SCHEMA}.t"
    assert compared(warehouse.engine, query, query) is Reading.OTHER
