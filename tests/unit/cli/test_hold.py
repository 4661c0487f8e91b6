"""`mvsink hold` and `release`: what they write, ask and refuse, and what shows it."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from dbt.adapters.mvsink.cli.main import cli
from dbt.adapters.mvsink.shard_sql.properties import Pause, pause_of
from tests.unit.cli.shop import NOW

PAUSED = Pause("alice", NOW, "wrong rates")


@pytest.fixture(autouse=True)
def alice(monkeypatch):
    monkeypatch.setenv("MVSINK_USER", "alice")


def on_hold(shop):
    return shop.run("hold", "orders", "--reason", " wrong\n rates ", "--yes")


def test_a_hold_says_who_when_and_why_and_stands_in_status_and_history(shop, orders):
    assert shop.as_json("status")["shards"][0]["paused"] is None
    result = on_hold(shop)
    assert result.exit_code == 0 and "`mvsink release orders`" in result.output
    assert pause_of(orders.state()) == PAUSED
    assert shop.as_json("status")["shards"][0]["paused"] == {
        "by": "alice",
        "at": NOW,
        "reason": "wrong rates",
    }
    assert "paused just now" in shop.run("status").output
    assert "by alice at 2025-11-20T15:00:00Z: wrong rates" in shop.run("status", "--wide").output
    newest = shop.as_json("history", "orders", "--limit", "1")["commits"][0]
    assert (newest["kind"], newest["purpose"]) == (
        "schema",
        "paused by alice at 2025-11-20T15:00:00Z: wrong rates",
    )


def test_a_release_ends_it_and_stands_in_the_history(shop, orders):
    on_hold(shop)
    assert "the next run brings it up to date" in shop.run("release", "orders", "-y").output
    assert pause_of(orders.state()) is None
    newest = shop.as_json("history", "orders", "--limit", "1")["commits"][0]
    assert newest["purpose"] == "released by alice"
    version = orders.state().version
    again = shop.run("release", "orders")
    assert (again.exit_code, again.output) == (0, "s.orders: is not paused\n")
    assert orders.state().version == version


@pytest.mark.parametrize("command", ["hold", "release"])
def test_both_ask_and_no_answer_is_no(shop, orders, command):
    if command == "release":
        on_hold(shop)
    version = orders.state().version
    for answer in ("n\n", ""):
        result = CliRunner().invoke(cli, [command, "orders"], input=answer)
        assert result.exit_code == 1 and orders.state().version == version
    assert CliRunner().invoke(cli, [command, "orders"], input="y\n").exit_code == 0
    assert orders.state().version == version + 1


def test_a_second_hold_shows_the_first_and_replaces_it(shop, orders, monkeypatch):
    on_hold(shop)
    monkeypatch.setenv("MVSINK_USER", "bob")
    assert "is paused by alice" in shop.run("hold", "orders", "--yes").output
    assert pause_of(orders.state()) == Pause("bob", NOW)


def test_a_dropped_shard_is_refused_and_what_was_paused_is_no_longer(shop, orders):
    on_hold(shop)
    orders.mark_dropped(NOW)
    assert pause_of(orders.state()) is None
    result = shop.run("hold", "orders", "--yes")
    assert result.exit_code == 1 and "was dropped" in result.output


def test_an_unknown_model_and_an_unreadable_shard(shop, orders, quick):
    assert shop.run("hold", "nope", "--yes").exit_code == 2
    shop.destroy("s.orders")
    result = shop.run("hold", "orders", "--yes")
    assert result.exit_code in (1, 2) and "orders" in result.output


def test_the_json(shop, orders):
    done = shop.as_json("hold", "orders", "--reason", "wrong rates", "--yes")
    paused = {"by": "alice", "at": NOW, "reason": "wrong rates"}
    assert done == {
        "models": [{"model": "orders", "relation": "s.orders", "paused": paused, "changed": True}]
    }
    released = [shop.as_json("release", "orders", "--yes")["models"][0] for _ in range(2)]
    assert [(each["paused"], each["changed"]) for each in released] == [(None, True), (None, False)]
    assert pause_of(orders.state()) is None
