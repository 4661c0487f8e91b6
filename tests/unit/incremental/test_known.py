"""Scopes whose keys the changes hold."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.incremental import Analysed, KnownScope, Sides, analyse, basis, delta
from tests.support.incremental_database import Database, Table
from tests.support.incremental_rules import NOW
from tests.unit.incremental.test_scoped import COLUMNS, SIDES

JOINED = "select a.k, a.v, max(b.w) as m from a left join b on a.k = b.k group by a.k, a.v"
KNOWN = {
    # the column of the relation that changed
    ("select k, max(v) as m from a group by k", "a"): ("k", {"a.k"}),
    ("select v, k, count(*) as n from a group by k, v", "a"): ("k", {"a.k"}),
    ("select k, v, rank() over (partition by k order by v) as r from a", "a"): ("k", {"a.k"}),
    ("select k as Key, v from (select *, row_number() over (partition by k order by v, x, d, s, t) as r from a) d where r = 1", "a"): ("key", {"a.k"}),
    # one that is equal to it
    (JOINED, "b"): ("k", {"b.k"}),
    (JOINED, "a"): ("k", {"a.k"}),
    (JOINED, "ab"): ("k", {"a.k", "b.k"}),
    ("with c as (select k as l, w from b) select a.k, max(w) as m from a join c on a.k = c.l group by a.k", "b"): ("k", {"b.k"}),
    # no column of a change
    ("select k % 2 as p, max(v) as m from a group by k % 2", "a"): None,
    ("select a.v, max(b.w) as m from a join b on a.k = b.k group by a.v", "b"): None,
    ("select b.k, max(a.v) as m from a left join b on a.k = b.k group by b.k", "b"): None,  # NULL if none matches
    ("select a.k, max(b.w) as m from a join b on a.t = b.k group by a.k", "b"): None,
    # one that is shown, not another that is known, too
    ("select v, max(d) as m from a group by k, v", "a"): ("v", {"a.v"}),
    # rows that may differ when they are evaluated again: only those whose keys are in the change
    ("select k, sum(x) as total from a group by k", "a"): ("k", {"a.k"}),
    ("select * from (select *, row_number() over (partition by k order by v) as r from a) where r = 1", "a"): ("k", {"a.k"}),
    ("select k, v, sum(x) as total from a group by k, v", "a"): None,
    ("select a.k, sum(a.x) as total from a left join b on a.k = b.k group by a.k", "b"): None,
    # whole rows, and what has no keys
    ("select distinct k from a", "a"): None,
    ("select k from a union select k from b", "a"): None,
    ("select max(k) as m from a", "a"): None,
    ("select k from a where v > 1", "a"): None,
    # what is not followed
    ("select a.k, max(b.w) as m from a full join b on a.k = b.k group by a.k", "a"): None,
    ("select k, max(v) as m from a where k not in (select k from b) group by k", "a"): None,
    # a subquery that is a join
    ("select k, max(v) as m from a where k in (select k from b) group by k", "ab"): ("k", {"a.k", "b.k"}),
}  # fmt: skip


def known(query: str, changed: str, clock: tuple[int, int] | None = None) -> KnownScope | None:
    analysed = analyse(query, lambda name: COLUMNS[name.lower()])
    assert isinstance(analysed, Analysed), analysed
    return basis(analysed, changed, clock).known_scope({name: SIDES[name] for name in changed})


@pytest.mark.parametrize(("query", "changed"), KNOWN)
def test_one_key_that_the_changes_hold_is_enough(query, changed):
    scope = known(query, changed)
    if KNOWN[query, changed] is None:
        assert scope is None
        return
    column, values = KNOWN[query, changed]
    assert scope.scoped.columns == (column,)
    assert {f"{key.changed}.{key.changed_column}" for key in scope.keys} == values
    assert scope.scoped.new.count(scope.scoped.keys) == 1
    assert scope.nulls == ("null" in scope.scoped.keys) == (changed != "a")


def test_as_time_passes_any_key_may_matter():
    query = f"select k, max(v) as m from a where t < unix_millis({NOW}) group by k"
    assert known(query, "a") is not None
    assert known(query, "a", (1, 2)) is None


def test_nothing_is_known_of_a_relation_that_did_not_change():
    analysed = analyse(JOINED, lambda name: COLUMNS[name.lower()])
    assert basis(analysed, []).known_scope({"a": Sides("select new a", "select old a")}) is None


def test_a_group_without_a_key_is_in_scope():
    """The NULL is in no change: it is a row of `a` that no longer has one of `b`."""
    database = Database(
        {
            "a": Table({"k": "int", "v": "int"}, [(1, 5), (2, 6)], []),
            "b": Table({"k": "int", "w": "int"}, [(1, 7)], [((1, 7), -1)]),
        }
    )
    query = "select l, count(*) as n from (select b.k as l from a left join b on a.k = b.k) d group by l"
    analysed = analyse(query, database.columns_of)
    scope = basis(analysed, ["b"]).known_scope({"b": database.sides()["b"]})
    assert scope is not None
    assert database.replaced(query, scope.scoped) == database.difference(query)
    assert delta(analysed, {"b": database.sides()["b"]}).scoped.columns == ("l",)
