"""`mvsink rewind`: what it takes back, asks and refuses."""

from __future__ import annotations

import time

import pytest

from dbt.adapters.mvsink.shard import ShardClient
from dbt.adapters.mvsink.shard_sql.properties import WATCHED
from tests.support.shards import SCHEMA, at, rows
from tests.unit.cli.shop import HOUR, write

NOW = int(time.time() * 1000)
DAY = 24 * HOUR
FAR = NOW + 40 * DAY


@pytest.fixture
def orders(shop):
    """Two runs of yesterday, and one far ahead."""
    handle = shop.shard("s.orders", "orders")
    write(handle, NOW - DAY, ("a", 1), ("b", 2))
    write(handle, NOW - DAY + HOUR, ("c", 1))
    write(handle, FAR, ("a", -1), ("d", 1))
    return handle


def contents(handle, time):
    with ShardClient().open_reader(handle.uri) as reader:
        return rows(reader.snapshot(time))


def test_row_m_it_keeps_history_and_contents_and_runs_write_again(shop, orders):
    result = shop.run("rewind", "orders", "--yes")
    assert result.exit_code == 0 and "the next run brings it up to date" in result.output
    state = orders.follow()
    newest = state.upper.stored() - 1
    assert NOW - HOUR < newest < NOW + HOUR and state.generation == 1
    assert contents(orders, NOW - DAY) == [("a", 1), ("b", 2)]
    assert contents(orders, newest - 1) == [("a", 1), ("b", 2), ("c", 1)]
    assert contents(orders, newest) == [("b", 2), ("c", 1), ("d", 1)]
    write(orders, newest + HOUR, ("e", 1))
    assert contents(orders, newest + HOUR) == [("b", 2), ("c", 1), ("d", 1), ("e", 1)]
    newest_commits = shop.as_json("history", "orders", "--limit", "2")["commits"]
    assert any((commit["purpose"] or "").startswith("rewind by ") for commit in newest_commits)


def test_row_m_the_second_time_there_is_nothing_to_do(shop, orders):
    shop.run("rewind", "orders", "--yes")
    version = orders.follow().version
    again = shop.run("rewind", "orders")
    assert again.exit_code == 0 and "is not ahead of the clock" in again.output
    assert orders.state().version == version


def test_row_m_it_asks_and_no_is_no(shop, orders):
    version = orders.state().version
    assert shop.run("rewind", "orders").exit_code == 1
    assert orders.state().version == version


def test_row_m_its_json(shop, orders):
    answer = shop.as_json("rewind", "orders", "--yes")
    assert answer["models"] == [
        {"model": "orders", "relation": "s.orders", "version": orders.follow().version}
    ]


def test_row_m_sums_are_computed_again(shop, orders):
    sums = ShardClient().open_writer(f"{orders.uri}/_sums/00ab", SCHEMA)
    sums.compare_and_append_batch([], at(0), at(FAR + 1))
    assert shop.run("rewind", "orders", "--yes").exit_code == 0
    assert sums.state().dropped is not None


def test_row_m_a_task_is_refused_with_what_to_do(shop, orders):
    orders.set_properties({WATCHED: "{}"})
    result = shop.run("rewind", "orders", "--yes")
    assert result.exit_code == 1 and "is a task" in result.output and "mvsink_reset" in result.output
