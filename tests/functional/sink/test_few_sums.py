"""Sums of which there are few: one query gives all of them, and this process compares them."""

from __future__ import annotations

from collections import Counter

import pytest

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.sink import Incremental
from tests.property.test_increments import World, unlimited
from tests.support.seldom import often_of

QUERIES = {
    "by a key": "select v, count(*) n, count(k) c, sum(k) s from db.a group by v",
    "of all": "select count(*) n, count(k) c, sum(k) s from db.a where v <> 'x'",
}
RUNS = 4

_ = unlimited  # the fixture


@pytest.fixture
def world(quick, tmp_path, request):
    """Inputs, and a model whose sums were evaluated once. Each of its runs is checked."""
    world = World(3, tmp_path, request.param, quick)
    world.run()
    world.engine.ran.clear()
    return world


def sent(world) -> Counter[str]:
    return Counter(what for what, _ in world.engine.ran)


@pytest.mark.parametrize("world", **often_of(QUERIES, "by a key"), indirect=True)
def test_their_changes_are_computed_by_one_query(world, unlimited):
    for _run in range(RUNS):
        world.change()
        assert world.ran(incremental=Incremental.ALWAYS).written.incremental
    assert 0 < sent(world)["collect"] <= RUNS
    assert not sent(world).keys() & {"keys", "write", "look up"}


@pytest.mark.parametrize("world", [QUERIES["by a key"]], indirect=True)
def test_sums_that_are_no_longer_few_are_computed_by_spark(world, unlimited, monkeypatch):
    monkeypatch.setattr(limits, "LOCAL_ROWS", 1)
    world.time += 1000
    world.rows["a"].update({(5, "y"): 1, (None, None): 2})
    world.write("a")
    assert world.ran(incremental=Incremental.ALWAYS).written.incremental
    assert {"keys", "write"} <= sent(world).keys()


@pytest.mark.parametrize("world", [QUERIES["by a key"]], indirect=True)
def test_sums_that_do_not_add_up_are_evaluated(world, unlimited):
    """More rows go than the sums say there are."""
    world.time += 1000
    world.lose_a_row(progress=True)
    world.rows["a"].clear()
    world.write("a")
    world.time += 1000
    outcome = world.ran()
    assert (outcome.written.incremental, outcome.written.full.text) == (
        False,
        "the query of the change failed",
    )
