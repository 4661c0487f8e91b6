"""`mvsink drop` without dbt: what it says, what dbt is asked for, and how it exits."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink.cli.dbt_runner import Dbt, DbtFailed, MacroOutput
from tests.unit.cli.shop import HOUR, NOW, write

DAY = 24 * HOUR


@pytest.fixture
def dbt(monkeypatch):
    """A project in which `orders` is left; what it was asked for, and what its macro says."""
    asked = SimpleNamespace(calls=[], said=MacroOutput(["dropped the view s.orders"]), fails="")

    def operation(self, macro, arguments, manifest=None):
        if asked.fails:
            raise DbtFailed(asked.fails)
        asked.calls.append((macro, json.loads(json.dumps(arguments))))
        return asked.said

    monkeypatch.setattr(Dbt, "parsed", lambda self: SimpleNamespace(nodes={"model.shop.orders": None}))
    monkeypatch.setattr(Dbt, "operation", operation)
    return asked


@pytest.fixture
def orders(shop):
    """`orders` holds `customers`, and `daily` holds it; `old` is an orphan."""
    handle, customers, daily = (shop.shard(f"s.{name}", name) for name in ("orders", "customers", "daily"))
    handle.set_properties({"held": json.dumps([str(shop.at("s.customers"))])})
    handle.hold(str(daily.shard_id), 0)
    customers.hold(str(handle.shard_id), 0)
    shop.shard("s.old", "old")
    return handle


@pytest.mark.parametrize("name", ["orders", "model.shop.orders", "s.orders"])
def test_what_would_happen_is_said_first(shop, dbt, orders, name):
    result = shop.run("drop", name, "--dry-run")
    assert (result.exit_code, dbt.calls) == (0, [])
    assert result.stdout.splitlines() == [
        "s.orders (model.shop.orders)",
        "  drops its view or table, if that shows this shard",
        f"  marks the shard dropped: {shop.at('s.orders')}",
        "  releases its holds on s.customers",
        "  is still read by s.daily",
        "  its model is still in the project: the next `dbt run` creates it again",
        "dry run: nothing was changed",
    ]


def test_what_dbt_is_asked_for(shop, dbt, orders):
    result = shop.run("drop", "orders", "s.old", "--yes")
    assert result.exit_code == 0 and "dropped the view s.orders\n2 shard(s) dropped." in result.stdout
    [(macro, arguments)] = dbt.calls
    assert macro == "mvsink_drop" and [each["identifier"] for each in arguments["shards"]] == [
        "old",
        "orders",
    ]
    assert arguments["shards"][1] == {
        "schema": "s", "identifier": "orders", "uri": str(shop.at("s.orders")), "shard_id": str(orders.shard_id),
    }  # fmt: skip
    assert result.stdout.count("creates it again") == 1


@pytest.mark.parametrize("answer", ["n\n", "", "\n"])
def test_without_a_yes_nothing_happens(shop, dbt, orders, answer):
    from click.testing import CliRunner

    from dbt.adapters.mvsink.cli.main import cli

    assert CliRunner().invoke(cli, ["drop", "orders"], input=answer).exit_code == 1
    assert dbt.calls == []
    assert CliRunner().invoke(cli, ["drop", "orders"], input="y\n").exit_code == 0 and dbt.calls


def test_of_a_shard_that_was_dropped_the_files_go_after_the_grace_period(shop, dbt, orders):
    write(orders, NOW - 10 * DAY, ("a", 1))
    orders.release_hold(next(iter(orders.state().holds)))
    [path] = [shop.at("s.orders") / file.path for file in orders.state().files]
    orders.mark_dropped(NOW - 6 * DAY)
    result = shop.run("drop", "orders", "--yes")
    assert (result.exit_code, dbt.calls, path.exists()) == (0, [], True)
    assert "was dropped at 2025-11-14T15:00:00Z; its files (1 files, " in result.stdout
    assert "can be deleted from 2025-11-21T15:00:00Z on" in result.stdout


def test_not_before_a_yes_and_never_of_a_shard_that_lives(shop, dbt, orders):
    write(orders, NOW - 10 * DAY, ("a", 1))
    [holder] = orders.state().holds
    [path] = [shop.at("s.orders") / file.path for file in orders.state().files]
    orders.mark_dropped(NOW - 8 * DAY)
    assert "deletes its files (1 files, " in shop.run("drop", "orders", "--dry-run").stdout
    assert shop.run("drop", "orders").exit_code == 1
    result = shop.run("drop", "orders", "--yes")
    assert result.exit_code == 1 and "its files stay" in result.stderr and path.exists(), "held"
    orders.release_hold(holder)
    result = shop.run("drop", "orders", "--yes")
    assert result.exit_code == 0 and "deleted the files of s.orders" in result.stdout and not path.exists()
    assert "nothing to do" in shop.run("drop", "orders", "--yes").stdout and dbt.calls == []


def test_failures(shop, dbt, orders, quick):
    assert shop.run("drop", "unknown", "--yes").exit_code == 2
    assert shop.run("drop").exit_code == 2
    dbt.said.warnings.append("s.orders: its shard could not be marked dropped")
    result = shop.run("drop", "orders", "--yes")
    assert (
        result.exit_code == 1
        and "could not be marked" in result.stderr
        and "shard(s) dropped" not in result.stdout
    )
    dbt.fails = "read-only"
    result = shop.run("drop", "orders", "--yes")
    assert result.exit_code == 1 and "Error MVS-836: read-only" in result.stderr
    shop.destroy("s.old")
    result = shop.run("drop", "s.old", "--dry-run")
    assert result.exit_code == 0 and "cannot be read, so it may not be possible to mark it" in result.stdout


def test_the_json(shop, dbt, orders):
    answer = shop.as_json("drop", "orders", "--yes")
    assert answer == {
        "dry_run": False,
        "shards": [
            {
                "model": "orders",
                "relation": "s.orders",
                "uri": str(shop.at("s.orders")),
                "action": "drop",
                "dropped": None,
                "details": [
                    "s.orders (model.shop.orders)",
                    "drops its view or table, if that shows this shard",
                    f"marks the shard dropped: {shop.at('s.orders')}",
                    "releases its holds on s.customers",
                    "is still read by s.daily",
                    "its model is still in the project: the next `dbt run` creates it again",
                ],
            }
        ],
        "warnings": [],
    }
    assert [macro for macro, _ in dbt.calls] == ["mvsink_drop"]
    dbt.said = MacroOutput(["no"], ["cannot be marked"])
    result = shop.run("drop", "orders", "--yes", "--output", "json")
    assert result.exit_code == 1 and json.loads(result.stdout)["warnings"] == ["cannot be marked"]
    orders.mark_dropped(NOW - DAY)
    [dropped] = shop.as_json("drop", "orders", "--dry-run")["shards"]
    assert (dropped["action"], dropped["dropped"]) == ("nothing", NOW - DAY)


@pytest.mark.parametrize("below", ["_inputs/~60s~60.~60raw~60", "_sums/00f1"])
def test_the_files_of_inputs_and_sums_go_with_it(shop, dbt, below):
    handle, companion = shop.shard("s.rich", "rich"), shop.shard(f"s.rich/{below}")
    for each in (handle, companion):
        write(each, NOW - 10 * DAY, ("a", 1))
    [path] = [shop.at(f"s.rich/{below}") / file.path for file in companion.state().files]
    handle.mark_dropped(NOW - 8 * DAY)
    assert shop.run("drop", "rich", "--yes").exit_code == 0
    assert not path.exists()
