"""The query of a change, against evaluating the model before and after, over random databases,
changes and queries.

``MVSINK_INCREMENTAL_CASES=20000`` runs more than the 500 cases of a CI run.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from dbt.adapters.mvsink.incremental import NotIncremental, Plan
from tests.support.incremental_database import Database
from tests.support.incremental_queries import Queries, tables

CASES = int(os.environ.get("MVSINK_INCREMENTAL_CASES", "500"))
FOCUS = ("", "left join", "right join", "left anti join", "left semi join", "clock", "union")


# Characters of the query of a change; it grows with the product of positions that are nested.
LARGEST = 6_000 if CASES <= 500 else 30_000


def case(seed: int) -> tuple[Database, str, tuple[int, int] | None]:
    random = Random(seed)
    database = Database(tables(random))
    times = sorted(random.randint(0, 12) * 1000 for _ in range(2))
    clock = (times[0], times[1]) if random.random() < 0.7 else None
    while True:
        query = Queries(random, FOCUS[seed % len(FOCUS)]).query()
        plan = database.plan(query, clock)
        if isinstance(plan, NotIncremental) or len(plan.query) <= LARGEST:
            return database, query, clock


def differs(seed: int) -> bool:
    database, query, clock = case(seed)
    if database.change(query, clock) == database.difference(query, clock):
        return False
    database.engine.connection.execute("pragma disable_optimizer")  # DuckDB's may be wrong
    try:
        return database.change(query, clock) != database.difference(query, clock)
    finally:
        database.engine.connection.execute("pragma enable_optimizer")


@pytest.mark.parametrize("part", range(10))
def test_the_change_of_a_random_query_is_the_difference_of_its_contents(part):
    wrong = [seed for seed in range(part * CASES // 10, (part + 1) * CASES // 10) if differs(seed)]
    assert wrong == []


def test_the_random_queries_are_not_refused_and_do_change():
    changes = 0
    for seed in range(100):
        database, query, clock = case(seed)
        assert isinstance(database.plan(query, clock), Plan)
        changes += bool(database.difference(query, clock))
    assert changes > 40
