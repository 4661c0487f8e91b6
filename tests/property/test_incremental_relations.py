"""Relations between changes that hold whatever the rules are: a query that is written in another
way has the same change, and keys may be too many. Two more are in `test_incremental_mutants`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest

from dbt.adapters.mvsink.incremental import Adding, Plan
from dbt.adapters.mvsink.incremental.blocks import Changes
from dbt.adapters.mvsink.incremental.compose import Side
from dbt.adapters.mvsink.user_sql.algebra import Query
from tests.property.test_incremental import case, without_optimizer
from tests.support.incremental_database import Database, Row
from tests.support.incremental_queries import Queries, tables
from tests.support.seldom import often

SEEDS = often(range(20), *range(10))
LARGEST = 4_000  # characters


def database_of(seed: int) -> Database:
    return Database(tables(Random(seed)))


def same(database: Database, *queries: str) -> bool:
    """Whether all have one change; asked again without DuckDB's optimizer, which may lose rows."""

    def equal() -> bool:
        one, *others = (database.change(query) for query in queries)
        return all(each == one for each in others)

    if equal():
        return True
    with without_optimizer(database):
        return equal()


def drawn(database: Database, draw: Callable[[], list[str]]) -> list[str]:
    """One query in several ways, of a change that is small and need not be replaced."""
    while True:
        texts = draw()
        plans = [database.plan(text) for text in texts]
        if all(isinstance(plan, Plan) and plan.query and len(plan.query) < LARGEST for plan in plans):
            return texts


@pytest.mark.parametrize("seed", SEEDS)
def test_joins_in_another_order_have_the_same_change(seed):
    random, database = Random(seed), database_of(seed)
    queries = Queries(random, plain=True)

    def draw() -> list[str]:
        leaves = [queries.leaf(random.choice([0, 0, 1])) for _ in range(3)]
        on = [queries.condition([one], [other]) for one, other in pairwise(leaves)]
        items = ", ".join(f"{queries.column([leaf], 'int')} as c{at}" for at, leaf in enumerate(leaves))
        where = " and ".join(f"({each})" for each in [*on, queries.conjunct(leaves)])
        one, two, three = (leaf.text for leaf in leaves)
        first, second, third = random.sample([one, two, three], 3)
        trees = (
            f"{one}, {two}, {three}",
            f"{first} join {second} on true cross join {third}",
            f"{one} join {two} on {on[0]} join {three} on {on[1]}",
        )
        return [f"select {items} from {tree} where {where}" for tree in trees]

    assert same(database, *drawn(database, draw))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cte_and_its_text_in_its_place_have_the_same_change(seed):
    random, database = Random(seed), database_of(seed)
    queries = Queries(random, random.choice(["", "group", "window", "left join", "distinct"]))

    def draw() -> list[str]:
        body, columns = queries.body(random.choice([0, 1]))
        names = [name for name, kind in columns if kind == "int"]
        kind = random.choice(["join", "left join", "left semi join", "left anti join"])
        condition = f"a.{random.choice(names)} = b.{random.choice(names)}"
        positive = f"{random.choice(names)} > 0"
        read = f"select a.* from {{0}} as a {kind} {{1}} as b on {condition}"
        ctes = f"with c as ({body}), d as (select * from c where {positive}) {read.format('c', 'd')}"
        inlined = read.format(f"({body})", f"(select * from ({body}) c where {positive})")
        return [ctes, inlined]

    assert same(database, *drawn(database, draw))


def with_sums(adding: Adding, columns: list[str], old: list[Row], sums: list[Row]) -> Counter[Row]:
    """The rows of a query that adds up after those of a change were added to those before."""
    totals: dict[Row, Counter[str]] = {}
    for row in [*old, *(row[:-1] for row in sums)]:
        named = dict(zip(columns, row, strict=True))
        total = totals.setdefault(tuple(named[key] for key in adding.keys), Counter())
        total.update({name: value or 0 for name, value in named.items() if name not in adding.keys})
    return Counter(
        (*key, *(_shown(adding, total, name) for name in columns if name not in adding.keys))
        for key, total in totals.items()
        if total[adding.rows] or not adding.keys
    )


def _shown(adding: Adding, total: Counter[str], name: str) -> int | None:
    """A sum of no values is NULL."""
    count = adding.sums.get(name)
    return None if count is not None and total[count] == 0 else total[name]


@pytest.mark.parametrize("seed", SEEDS)
def test_adding_up_is_recomputing(seed):
    random, database = Random(seed), database_of(seed)
    queries = Queries(random, random.choice(["", "left join", "right join", "left anti join", "union"]))
    plan = None
    while not isinstance(plan, Plan) or (plan.adding is None and plan.terms):  # not of exact numbers
        source, scope = queries.tree(random.choice([0, 0, 1]))
        key, one, other = (queries.column(scope, "int") for _ in range(3))
        keys, grouped = random.choice([(f"{key} as g, ", f" group by {key}"), ("", "")])
        counts = f"count(*) as n, count({one}) as c, count({one} + {other}) as d"
        where = random.choice(["", f" where {queries.conjunct(scope)}"])
        query = (
            f"select {keys}{counts}, sum({one}) as s, sum({one} + {other}) as t from {source}{where}{grouped}"
        )
        plan = database.plan(query)
    if plan.adding is None:  # nothing changed
        assert database.difference(query) == {}
        return
    columns = [*plan.adding.keys, "n", "c", "d", "s", "t"]

    def differs() -> bool:
        old, new = database.rows(query, "before"), database.rows(query, "after")
        return with_sums(plan.adding, columns, old, database.rows(plan.adding.query, "run")) != Counter(new)

    if differs():
        with without_optimizer(database):
            assert not differs()


def all_rows(self: Changes, query: Query, side: Side, diff: str | None, *keys: object) -> str:
    """In place of `Changes._rows`, of which they are those with one of the ``keys``."""
    more = "" if diff is None else f", {diff} as _mv_diff"
    return f"select _mv_o.*{more} from (\n{self.writer.contents(query, side)}\n) as _mv_o"


@pytest.mark.parametrize("focus", ["group", "window", "distinct", "set"])
def test_keys_may_be_too_many(focus, monkeypatch):
    """Of a block, new less old. The shard's rows in scope are those of the keys that are asked."""
    widened = 0
    for seed in range(12):
        database, query, clock = case(seed, focus)
        if (right := database.plan(query, clock)).query is None:  # it is replaced in the shard
            continue
        with monkeypatch.context() as patch:
            patch.setattr(Changes, "_in_scope", lambda self, keys, text: "true")
            patch.setattr(Changes, "_rows", all_rows)
            widened += database.plan(query, clock).query != right.query
            assert not differs(database, query, clock), seed
    assert widened > 2


def differs(database: Database, query: str, clock: tuple[int, int] | None) -> bool:
    if database.change(query, clock) == database.difference(query, clock):
        return False
    with without_optimizer(database):
        return database.change(query, clock) != database.difference(query, clock)
