"""Spark as the witness of what replaces the relations of a query: see `splice_witness`."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.exceptions import ReadOtherwise
from dbt.adapters.mvsink.materialization import splice_witness
from dbt.adapters.mvsink.user_sql import splice
from tests.support.maintained import Warehouse

pytestmark = pytest.mark.embedded("it asks the session for the plan of a query")
ONE, TWO = "splice_one", "splice_two"
QUERIES = """
select * from {one}.t
select {one}.t.k, {one}.t.* from {one}.t where exists (select 1 from {two}.u where {two}.u.k = {one}.t.k)
select x.k, y.v from {one}.t x, {two}.t as y where x.k = y.k
select {one}.t.v, u.w from {one}.t join {two}.u using (k)
select `t`.v, c from {one}.t lateral view explode(array(k, v)) e as c
with c as (select k from {two}.u) select c.k, {one}.t.v from c join {one}.t on c.k = {one}.t.k
select k, (select max(w) from {two}.u where k = t.k) from {one}.t as t
select k from {one}.t tablesample (100 percent) union all table {two}.u
select k, v from (table {one}.t) order by 1 limit 1
from {one}.t |> where v > 1 |> select k
select * from (select * from {one}.t where false) t
select k, uuid() from {one}.t
"""


@pytest.fixture(scope="module")
def warehouse(quick, tmp_path_factory):
    for schema in (ONE, TWO):
        quick.sql(f"create schema if not exists {schema}")
    made = Warehouse(quick, tmp_path_factory.mktemp("splices"))
    made.run(ONE, "t", "select 1 as k, 10 as v union all select 2, 20")
    made.run(TWO, "t", "select 2 as k, 21 as v")
    made.run(TWO, "u", "select 2 as k, 22 as w")
    yield made
    for schema in (ONE, TWO):
        quick.sql(f"drop schema {schema} cascade")


@pytest.mark.parametrize("query", QUERIES.strip().splitlines())
def test_no_text_that_is_read_rightly_is_refused(warehouse, query):
    query = query.format(one=ONE, two=TWO)
    names = [name for name in (f"{ONE}.t", f"{TWO}.t", f"{TWO}.u") if name in query]
    replaced = splice.replace_relations(query, {name: name for name in names})
    assert replaced != query
    assert splice_witness._problem(warehouse.engine, query, replaced) == ""
    alike = splice_witness._parsed_alike(warehouse.engine, query, replaced, names)
    # a column is qualified by a schema, or what is replaced is more than a name
    assert alike is not any(each in query for each in (f"{ONE}.t.", "tablesample", "(table"))


@pytest.mark.parametrize(
    ("query", "replaced"),
    [
        ("select k from {one}.t", "select k from ({two}.t) as t"),
        ("select k from {one}.t", "select v from ({one}.t) as t"),
        ("select k from {one}.t", "select k from ({one}.t) as u"),
        ("select k from {one}.t", "select k from ({one}.t where true) as t"),
        ("select t.k from {one}.t, {two}.u t", "select t.k from ({one}.t) as t, ({two}.u) as u"),
        (
            "select k from {one}.t where k in (select k from {two}.u)",
            "select k from ({one}.t) as t where k in (select k from ({two}.t) as t)",
        ),
        (
            "with c as (select 1 k from {one}.t) select k from c",
            "with c as (select 2 k from ({one}.t) as t) select k from c",
        ),
        ("select '{one}.t' from {one}.t", "select '({one}.t) as t' from ({one}.t) as t"),
        (
            "select " + ", ".join(f"k + {n} c{n}" for n in range(60)) + " from {one}.t",
            "select " + ", ".join(f"k + {n // 59 + n} c{n}" for n in range(60)) + " from ({one}.t) as t",
        ),
        ("select {one}.t.k from {one}.t", "select {one}.t.k from ({one}.t) as t"),
        ("select `{one}`.t.k from {one}.t", "select `{one}`.t.k from ({one}.t) as t"),
        ("select {one}.t.* from {one}.t", "select {one}.t.* from ({one}.t) as t"),
    ],
)
def test_texts_that_may_mean_something_else_are_not_parsed_alike(warehouse, query, replaced):
    texts = [text.format(one=ONE, two=TWO) for text in (query, replaced)]
    assert not splice_witness._parsed_alike(warehouse.engine, *texts, [f"{ONE}.t", f"{TWO}.t", f"{TWO}.u"])


def other_name(monkeypatch):
    """Case b: what has two relations' last name belongs to the one."""
    monkeypatch.setattr(splice, "shares_its_name", lambda sql, name: False)


def one_qualifier(monkeypatch):
    """Columns of every relation are taken for the first one's."""
    every = splice.qualifiers

    def first(sql, aliases, **kwargs):
        return every(sql, dict.fromkeys(aliases, next(iter(aliases.values()))), **kwargs)

    monkeypatch.setattr(splice, "qualifiers", first)


def other_relation(monkeypatch):
    names = {}

    def swapped(sql, queries, **kwargs):
        first, *others = queries.items()
        names.update({first[0]: first[1].replace(ONE, TWO), **dict(others)})
        return whole(sql, names, **kwargs)

    whole = splice_witness.replace_relations
    monkeypatch.setattr(splice_witness, "replace_relations", swapped)


@pytest.mark.parametrize("mutant", [other_name, one_qualifier, other_relation])
def test_another_meaning_is_an_error_before_anything_is_stored(warehouse, monkeypatch, mutant):
    query = (
        f"select {ONE}.t.k, {ONE}.t.v from {ONE}.t where not exists "
        f"(select 1 from {TWO}.t where {TWO}.t.k = {ONE}.t.k)"
    )
    references, name = (f"{ONE}.t", f"{TWO}.t"), f"m_{mutant.__name__}"
    with monkeypatch.context() as patch:
        mutant(patch)
        with pytest.raises(ReadOtherwise, match=rf"{ONE}\.{name}: this adapter cannot replace {ONE}\.t"):
            warehouse.run(ONE, name, query, references)
        assert f"{ONE}.{name}" not in warehouse.names
    warehouse.run(ONE, name, query, references)
    assert warehouse.stored(ONE, name, ["k", "v"]) == {(1, 10): 1}


def test_it_is_asked_once_a_definition(warehouse, monkeypatch):
    asked = []
    compare = type(warehouse.engine).same_plan
    monkeypatch.setattr(
        type(warehouse.engine), "same_plan", lambda self, *args: asked.append(args) or compare(self, *args)
    )
    for query in ("select {0}.t.k from {0}.t", "select {0}.t.k from {0}.t", "select {0}.t.v from {0}.t"):
        before = len(asked)
        warehouse.next_round()
        warehouse.run(ONE, "asked", query.format(ONE), [f"{ONE}.t"], incremental="never")
        query_is_new = before == 0 or ".v from" in query
        assert len(asked) - before == query_is_new


def test_a_query_that_is_not_due_is_not_asked(warehouse, monkeypatch):
    warehouse.next_round()
    warehouse.run(ONE, "late", f"select k from {ONE}.t", [f"{ONE}.t"], refresh="every 1 day")
    monkeypatch.setattr(type(warehouse.engine), "same_plan", lambda *args: pytest.fail("it was asked"))
    for _ in range(2):
        warehouse.next_round()
        warehouse.run(
            ONE,
            "late",
            f"select v as k from {ONE}.t",
            [f"{ONE}.t"],
            refresh="every 1 day",
            on_configuration_change="continue",
        )
