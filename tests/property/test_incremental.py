"""The query of a change, against evaluating the model before and after, over random databases,
changes and queries.

``MVSINK_INCREMENTAL_CASES=20000`` runs more than the 90 queries of a CI run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from random import Random

import pytest

from dbt.adapters.mvsink.incremental import Analysed, NotIncremental, Plan, analyse
from tests.support.incremental_database import Database, Row
from tests.support.incremental_narrowed import narrowed, restricted
from tests.support.incremental_queries import Queries, tables

CASES = int(os.environ.get("MVSINK_INCREMENTAL_CASES", "90"))
FOCUS = (
    "", "left join", "right join", "left anti join", "left semi join", "clock", "union", "group", "window", "distinct", "full join", "subquery",
    "set",
)  # fmt: skip
LARGEST = 9_000  # characters of the query of a change, which grow with what is nested in what
REFUSED = (  # values that cannot be repeated, and relations in more than 500 places
    "decides more than an output value",
    "no column with its key",
    "cannot be repeated",
    "through CTEs or views",
    "takes rows in the order of a query below it",
)
# uses of maps that are drawn to be refused
OF_MAPS = ("a select list may also show the column itself", "as in `m['key'] as key`")  # fmt: skip
PARTS = 10

Clock = tuple[int, int] | None


@lru_cache(maxsize=1)
def database_of(seed: int) -> Database:
    return Database(tables(Random(seed)))


def case(
    seed: int, focus: str | None = None, equalities: bool = False, plain: bool = False
) -> tuple[Database, str, Clock]:
    """Cases of every focus share a database."""
    random, database = Random(seed), database_of(seed // len(FOCUS))
    times = sorted(random.randint(0, 12) * 1000 for _ in range(2))
    clock = (times[0], times[1]) if random.random() < 0.7 else None
    while True:
        chosen = FOCUS[seed % len(FOCUS)] if focus is None else focus
        query = Queries(random, chosen, equalities, plain).query()
        plan = database.plan(query, clock)
        refused = isinstance(plan, NotIncremental)
        expected = (*REFUSED, *OF_MAPS) if chosen == "maps" else REFUSED
        if refused and not plan.reason.endswith(expected):
            raise AssertionError(f"{plan.reason}: {query}")
        if not refused and len(plan.query or plan.scoped.new) <= LARGEST:
            return database, query, clock


@contextmanager
def without_optimizer(database: Database) -> Iterator[None]:
    """DuckDB's may lose rows."""
    database.engine.connection.execute("pragma disable_optimizer")
    try:
        yield
    finally:
        database.engine.connection.execute("pragma enable_optimizer")


def _differs(database: Database, query: str, clock: Clock) -> bool:
    difference = database.difference(query, clock)
    return any(change != difference for change in database.changes(query, clock))


def differs(database: Database, query: str, clock: Clock) -> bool:
    """Whether the change is wrong, also without DuckDB's optimizer, which may be wrong itself."""
    if not _differs(database, query, clock):
        return False
    with without_optimizer(database):
        return _differs(database, query, clock)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.timeout(3600)
def test_the_change_of_a_random_query_is_the_difference_of_its_contents(part):
    seeds = range(part * CASES // PARTS, (part + 1) * CASES // PARTS)
    assert [seed for seed in seeds if differs(*case(seed))] == []


def test_the_change_of_random_top_rows_is_the_difference_of_their_contents():
    assert [seed for seed in range(CASES // 5) if differs(*case(seed, "top rows"))] == []


def test_the_change_of_random_joins_of_sums_is_the_difference_of_their_contents():
    assert [seed for seed in range(CASES // 5) if differs(*case(seed, "sums"))] == []


def test_the_change_of_random_queries_of_maps_is_the_difference_of_their_contents():
    assert [seed for seed in range(CASES // 2) if differs(*case(seed, "maps"))] == []


def differs_restricted(seed: int, focus: str | None = None) -> tuple[bool, int]:
    database, query, _ = case(seed, focus, equalities=True)
    changes, left_out = restricted(database, query)
    if all(change == database.difference(query) for change in changes):
        return False, left_out
    with without_optimizer(database):
        changes, _ = restricted(database, query)
        return any(change != database.difference(query) for change in changes), left_out


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.timeout(3600)
def test_rows_that_no_key_of_a_change_reaches_do_not_matter(part):
    wrong, left_out = [], 0
    for seed in range(part * CASES // PARTS, (part + 1) * CASES // PARTS, 2):
        differs, rows = differs_restricted(seed)
        wrong += [seed] if differs else []
        left_out += rows
    assert wrong == []
    # of half of the queries all rows matter, so now and then of all in a part
    assert left_out > 0 or any(differs_restricted(seed)[1] for seed in range(CASES, CASES + PARTS))


def sums_over_the_change(database: Database, analysed: Analysed, *, narrow: bool) -> tuple[list[Row], int]:
    """What is added to the sums of a query, and `restricted`'s number."""
    based, sides, left_out = narrowed(database, analysed, added=True)
    if not narrow:
        read = [name.strip("`").lower() for name in analysed.relations]
        sides = {name: each for name, each in database.sides().items() if name in read}
    plan = based.plan(sides)
    assert isinstance(plan, Plan)
    return database.rows(plan.adding.query, "run") if plan.adding is not None else [], left_out


def test_rows_that_join_with_no_change_do_not_matter_to_sums_that_are_added():
    changed, left_out = 0, 0
    for seed in range(CASES // 5):
        database, query, _ = case(seed, equalities=True)
        counted = f"select count(*) n from (\n{query}\n) counted"
        analysed = analyse(counted, database.columns_of)
        if isinstance(analysed, NotIncremental):
            assert analysed.reason.endswith(REFUSED)
            continue
        sums, rows = sums_over_the_change(database, analysed, narrow=True)
        assert sums == sums_over_the_change(database, analysed, narrow=False)[0], seed
        changed, left_out = changed + any(row[0] for row in sums), left_out + rows
    assert changed > 0 and left_out > 0


def test_the_random_queries_are_not_refused_and_do_change():
    changes = 0
    for seed in range(50):
        database, query, clock = case(seed)
        assert isinstance(database.plan(query, clock), Plan)
        changes += bool(database.difference(query, clock))
    assert changes > 15  # about two of five do
