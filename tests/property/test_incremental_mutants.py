"""Wrong rules, each of which random queries must notice, and relations between changes that hold
whatever the rules are.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import duckdb
import pytest
from sqlglot.errors import ParseError

from dbt.adapters.mvsink.incremental import NotIncremental, filtering, lineage, maps, restrict, terms, unnest
from dbt.adapters.mvsink.incremental.terms import Terms
from dbt.adapters.mvsink.user_sql.algebra import leaves
from tests.property.test_incremental import case, differs, differs_restricted
from tests.support import incremental_database
from tests.support.incremental_database import Database, Millis, Table
from tests.support.incremental_narrowed import restricted
from tests.support.incremental_queries import tables
from tests.support.wrong_rules import BLOCKS, FOCUS, MUTANTS, keys_of_the_first_window, maps_of_relations_only

WITHIN = 600  # cases


@pytest.mark.parametrize("wrong", MUTANTS)
def test_a_wrong_rule_is_noticed(wrong, monkeypatch):
    owner, name, mutate = MUTANTS[wrong]
    monkeypatch.setattr(owner, name, mutate(getattr(owner, name)))
    focus = next((each for word, each in FOCUS.items() if word in wrong), None)
    assert any(noticed(seed, focus, wrong not in BLOCKS) for seed in range(WITHIN))


def noticed(seed: int, focus: str | None, plain: bool) -> bool:
    try:
        return differs(*case(seed, focus, plain=plain))
    except (duckdb.Error, ParseError, TypeError):  # no query at all, or one with NULL as a diff
        return True


def nothing_is_null(need):
    return lambda self, leaf, column, keys, nulls: need(self, leaf, column, keys, False)


RESTRICT_KEYS = {
    "a block is evaluated over its changes": ("_in_keys", "group"),
    "a set operator is evaluated over its changes": ("_in_rows", "set"),
}


@pytest.mark.parametrize("wrong", RESTRICT_KEYS)
def test_a_wrong_restriction_by_keys_is_noticed(wrong, monkeypatch):
    name, focus = RESTRICT_KEYS[wrong]
    monkeypatch.setattr(restrict.Needs, name, lambda self, block: None)
    assert any(differs_restricted(seed, focus)[0] for seed in range(WITHIN))


def test_a_subquery_that_is_never_null_is_noticed_by_a_query(monkeypatch):
    a = Table({"k": "int"}, [(1,), (2,)])
    database = Database({"a": a, "b": Table({"w": "int"}, [(1,)], [((None,), 1)])})
    query = "select k from a where not (k in (select w from b))"
    assert database.change(query) == database.difference(query)
    monkeypatch.setattr(terms, "_null_only_by_columns", lambda node: True)
    assert database.change(query) != database.difference(query)


SUBQUERIES = {  # which random queries rarely notice
    "time does not pass in a subquery that is a join": (
        unnest._Joining,
        "_cut",
        lambda cut: (
            lambda self, start, end, edits=(): cut(self, start, end, edits).replace("/* mv_now */", "")
        ),
        "select k from a where exists (select 1 from b where b.k = a.k and b.ts < timestamp_millis(5000L) /* mv_now */)",
    ),
    "a count of no rows is NULL": (
        unnest,
        "_null_over_nothing",
        lambda right: lambda node: True,
        "select k from a where k - 3 < (select count(*) from b where b.k = a.k)",
    ),
}


@pytest.mark.parametrize("wrong", SUBQUERIES)
def test_a_subquery_that_is_another_join_is_noticed_by_a_query(wrong, monkeypatch):
    owner, name, mutate, query = SUBQUERIES[wrong]
    b = Table(
        {"k": "int", "ts": "timestamp"}, [(1, Millis(2000)), (3, Millis(7000))], [((2, Millis(8000)), 1)]
    )
    database = Database({"a": Table({"k": "int"}, [(1,), (2,), (3,)]), "b": b})
    clock = (1000, 9000)
    assert database.change(query, clock) == database.difference(query, clock)
    monkeypatch.setattr(owner, name, mutate(getattr(owner, name)))
    assert database.change(query, clock) != database.difference(query, clock)


MAPS = {  # which random queries rarely notice
    "maps are like other values": (
        maps.Maps,
        "check",
        lambda right: lambda self, tree: None,
        "select map_keys(m) as keys from a",
    ),
    "maps of derived tables are like other values": (
        maps.Maps,
        "_kinds",
        maps_of_relations_only,
        "select map_keys(x.n) as keys from (select m as n from a) x",
    ),
    "maps under an alias are like other values": (
        maps,
        "_add",
        lambda right: lambda aliases, alias, kinds: None,
        "select m as n, map_keys(n) as keys from a",
    ),
}


@pytest.mark.parametrize("wrong", MAPS)
def test_an_order_of_entries_that_is_shown_is_noticed_by_a_query(wrong, monkeypatch):
    owner, name, mutate, query = MAPS[wrong]
    equal = (1, {"b": 2, "a": 1})
    a = Table({"k": "int", "m": "map<string,int>"}, [(1, {"a": 1, "b": 2})], [(equal, 1), (equal, -1)])
    database = Database({"a": a})
    assert isinstance(database.plan(query), NotIncremental)
    monkeypatch.setattr(owner, name, mutate(getattr(owner, name)))
    assert database.change(query) != database.difference(query)


NAMED = {  # which random queries rarely notice
    "NULL is no key": (
        restrict.Needs,
        "_need",
        nothing_is_null,
        "select k, count(*) as n from a group by k",
    ),
    "a key is pushed into windows that have it not": (
        lineage,
        "key_columns",
        lambda right: lambda names, block: None,
        "select b.w, n from b join (select k, v, count(*) over (partition by k) as n from a) c on b.w = c.v",
    ),
    "a key is pushed into windows of which one has it not": (
        lineage,
        "keys_of",
        keys_of_the_first_window,
        "select b.w, n, m from b join (select k, v, count(*) over (partition by v, k) as n, count(*) over (partition by k) as m from a) c on b.w = c.v",
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrong", NAMED)
def test_a_wrong_restriction_is_noticed_by_a_query(wrong, monkeypatch):
    owner, name, mutate, query = NAMED[wrong]
    change = [] if " b " in query else [((None, 2), 1), ((1, 3), 1)]
    a = Table({"k": "int", "v": "int"}, [(None, 1), (1, 1), (1, 2), (2, 5)], change)
    database = Database({"a": a, "b": Table({"w": "int"}, [(5,)], [((1,), 1)])})
    assert restricted(database, query)[0][0] == database.difference(query)
    monkeypatch.setattr(owner, name, mutate(getattr(owner, name)))
    assert restricted(database, query)[0][0] != database.difference(query)


FILTERS = {
    "a preserved row must fulfil the condition": (
        filtering,
        "_must",
        lambda right: lambda join, leaf: True,
        "select a.v, b.w from a left join b on a.v = b.w and a.k > 5",
    ),
    "a constant on the left is one on the right": (
        filtering,
        "_TURNED",
        lambda right: {},
        "select v from a where 2 > k",
    ),
    "a filter is pushed into windows that have it not": (
        lineage,
        "key_columns",
        lambda right: lambda names, block: None,
        "select n from (select k, v, count(*) over (partition by k) as n from a) w where v = 1",
    ),
    "a row must fulfil the conditions of one place": (
        incremental_database,
        "filters",
        lambda right: (
            lambda analysed: {
                name: replace(each, alternatives=each.alternatives[:1])
                for name, each in right(analysed).items()
            }
        ),
        "select k from a where v = 5 union all select v from a where k = 1",
    ),
}


@pytest.mark.parametrize("wrong", FILTERS)
def test_a_wrong_filter_is_noticed_by_a_query(wrong, monkeypatch):
    owner, name, mutate, query = FILTERS[wrong]
    a = Table({"k": "int", "v": "int"}, [(1, 1), (1, 2), (2, 5)], [((1, 3), 1), ((1, 1), -1)])
    database = Database({"a": a, "b": Table({"w": "int"}, [(1,), (3,)])})
    assert not differs(database, query, None)
    monkeypatch.setattr(owner, name, mutate(getattr(owner, name)))
    assert differs(database, query, None)


def test_a_change_that_does_not_leave_its_side_is_noticed_by_a_query(monkeypatch):
    """`(3, 2)` has no changed `v`, but without it the 3 of b would match nothing."""
    a = Table({"k": "int", "v": "int"}, [(3, 2), (3, 3)], [((0, 1), 1), ((3, 3), -1)])
    database = Database({"a": a, "b": Table({"w": "int"}, [(0,), (3,)])})
    query = "select b.w, a.v from b c right join (a right join b on a.k = b.w) on c.w = a.v"
    assert restricted(database, query)[0][0] == database.difference(query)
    right = restrict.Needs._equal
    monkeypatch.setattr(
        restrict.Needs, "_equal", lambda self, block, start, changed=False: right(self, block, start)
    )
    assert restricted(database, query)[0][0] != database.difference(query)


RESTRICT = {
    "a chain leaves by the condition by which it entered": (
        "decides",
        lambda join, leaf: leaf in leaves(join),
    ),
    "a condition of a left join on one side holds": ("_crosses", lambda *sides: True),
    "a padded leaf is read as its change only": ("scoping", lambda source, leaf: None),
}


@pytest.mark.parametrize("wrong", RESTRICT)
def test_a_wrong_restriction_is_noticed(wrong, monkeypatch):
    name, mutant = RESTRICT[wrong]
    monkeypatch.setattr(restrict, name, mutant)
    assert any(differs_restricted(seed, "left join")[0] for seed in range(10 * WITHIN))


def steps(seed: int) -> tuple[dict[str, Table], dict[str, Table], dict[str, Table]]:
    """A change, another one after it, and both in one."""
    first, random = tables(Random(seed)), Random(-seed)
    second, both = {}, {}
    for name, table in first.items():
        gone = random.sample(table.new, len(table.new) // 2)
        more = [*((row, -1) for row in gone), *((row, 1) for row in table.old[:2])]
        second[name] = Table(table.columns, table.new, more)
        both[name] = Table(table.columns, table.old, [*table.change, *more])
    return first, second, both


def added(*changes: Counter) -> dict:
    total: Counter = Counter()
    for change in changes:
        for row, diff in change.items():
            total[row] += diff
    return {row: diff for row, diff in total.items() if diff}


@pytest.mark.parametrize("seed", range(100, 130))
def test_scopes_may_be_too_wide(seed, monkeypatch):
    database, query, clock = case(seed, "left join")
    every = [("full", "(select 1) as _mv_k on true")] * 2
    monkeypatch.setattr(
        Terms, "_scopes", lambda self, block, join, leaf: [every if join.kind == "full" else []]
    )
    assert not differs(database, query, clock)


@pytest.mark.parametrize("seed", range(40))
def test_a_change_in_two_steps_is_the_change_in_one(seed):
    _, query, clock = case(seed)
    then, middle, now = (clock[0], sum(clock) // 2, clock[1]) if clock else (0, 0, 0)
    clocks = [(then, middle), (middle, now), (then, now)] if clock else [None] * 3
    one, two, both = (Database(each).change(query, at) for each, at in zip(steps(seed), clocks, strict=True))
    assert added(one, two) == both


@pytest.mark.parametrize("seed", range(40))
def test_a_change_and_its_inverse_are_nothing(seed):
    _, query, clock = case(seed)
    forth = tables(Random(seed))
    back = {
        name: Table(table.columns, table.new, [(row, -diff) for row, diff in table.change])
        for name, table in forth.items()
    }
    idle = {
        name: Table(table.columns, table.old, [*table.change, *back[name].change])
        for name, table in forth.items()
    }
    assert (
        added(Database(forth).change(query, clock), Database(back).change(query, clock and clock[::-1])) == {}
    )
    assert Database(idle).change(query) == {}
