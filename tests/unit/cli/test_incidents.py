"""What `mvsink status` shows of runs that went wrong, and when that is over."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from dbt.adapters.mvsink.shard import Incident, Incidents, ReadPoints, Trouble
from dbt.adapters.mvsink.shard.incidents import INCIDENTS
from tests.unit.cli.shop import HOUR, NOW, heading, write

DAY = 24 * HOUR
FAILED = Incident(
    relation="s.orders",
    project="shop",
    unique_id="model.shop.orders",
    target="dev",
    trouble=Trouble.FAILED,
    time=NOW - HOUR,
    since=NOW - 7 * DAY,
    runs=7,
    messages=("Database Error in model orders (models/orders.sql)\n  [TABLE_OR_VIEW_NOT_FOUND] raw.rates",),
    where="models/orders.sql",
    host="h",
    invocation_id="i",
    author={"user": "ada"},
)


@pytest.fixture
def failed(shop, orders):
    """What the failed run of `orders` keeps."""
    incident = replace(FAILED, shard_id=str(orders.shard_id), version=orders.state().version)
    keep(shop, incident)
    return incident


def keep(shop, incident):
    Incidents(str(shop.shards)).write(incident)


def test_a_failed_run_is_shown_with_its_message_and_the_exit_code_is_1(shop, failed):
    result = shop.run("status")
    assert result.exit_code == 1 and heading(result.stdout) == "model kind state age + - next rows"
    assert "orders view failed, 7 runs 1 h" in " ".join(result.stdout.split())
    assert result.stdout.endswith(
        "orders: failed 1 h ago, as in all of the last 7 runs since 2025-11-13T15:00:00Z in models/orders.sql (run by ada): "
        "[TABLE_OR_VIEW_NOT_FOUND] raw.rates; it shows what was computed at 2025-11-20T14:00:00Z\n"
    )
    assert "last run" in heading(shop.run("status", "--wide").stdout)
    answer = shop.run("status", "--output", "json")
    [shard] = json.loads(answer.stdout)["shards"]
    assert answer.exit_code == 1
    assert shard["incident"] == {
        **vars(failed),
        "trouble": "failed",
        "messages": list(failed.messages),
        "author": {"user": "ada"},
    }


def test_it_is_over_once_a_later_run_committed_whatever_the_clocks_say(shop, orders, failed):
    keep(shop, replace(failed, time=NOW + 9 * DAY))
    orders.hold("another", NOW - HOUR)  # not a run
    assert shop.run("status").exit_code == 1
    write(orders, NOW - HOUR // 2, ("e", 1))
    assert shop.run("status").exit_code == 0
    assert shop.as_json("status")["shards"][0]["incident"] is None


def test_it_is_over_for_a_shard_that_replaced_the_one_of_the_failed_run(shop, failed):
    keep(shop, replace(failed, shard_id="another", version=99))
    assert shop.run("status").exit_code == 0


def test_a_model_without_a_shard_is_shown(shop, orders):
    never = replace(FAILED, relation="s.new", unique_id="model.shop.new", messages=("no such column: y",))
    keep(shop, never)
    result = shop.run("status")
    assert result.exit_code == 1 and "new failed, 7 runs, not refreshed yet" in " ".join(
        result.stdout.split()
    )
    assert "no such column: y" in shop.run("status", "new").stdout
    assert shop.run("status", "orders").exit_code == 0
    write(shop.shard("s.new", "new"), NOW, ("a", 1))
    assert shop.run("status").exit_code == 0


@pytest.mark.parametrize("trouble", [Trouble.SKIPPED, Trouble.WARNED])
def test_models_that_were_skipped_or_warned_count_as_well(shop, orders, failed, trouble):
    keep(shop, replace(failed, trouble=trouble, runs=1, messages=("first", "second")))
    result = shop.run("status")
    assert result.exit_code == 1
    assert f"orders: {trouble.value} 1 h ago (run by ada): first; second" in result.stdout


def test_other_projects_and_targets_have_their_own(shop, orders, failed):
    keep(shop, replace(failed, target="prod"))
    keep(shop, replace(failed, project="elsewhere", unique_id="model.elsewhere.orders"))
    Incidents(str(shop.shards)).delete(failed.name)
    assert shop.run("status").exit_code == 0
    assert shop.run("status", "--target", "prod").exit_code == 1
    shown = json.loads(shop.run("status", "--all", "--output", "json").stdout)["shards"]
    assert [(each["project"], each["target"], each["incident"] is None) for each in shown] == [
        ("shop", "dev", True),
        ("elsewhere", "dev", False),
        ("shop", "prod", False),
    ]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"trouble": "odd"}', '{"trouble": "failed"}', "\x00"])
def test_what_is_not_an_incident_is_ignored(shop, orders, failed, text):
    (shop.shards / INCIDENTS / failed.name).write_text(text)
    assert shop.run("status").exit_code == 0


def test_the_places_of_incidents_are_no_shards(shop, orders, failed):
    assert [
        shard["relation"]
        for shard in json.loads(shop.run("status", "--all", "--output", "json").stdout)["shards"]
    ] == ["s.orders"]
    assert shop.run("history", "orders").exit_code == 0


def test_metrics_count_the_runs(shop, orders, failed):
    line = next(each for each in shop.run("metrics").stdout.splitlines() if "incident_runs{" in each)
    assert line.endswith(" 7")


def test_models_come_after_those_that_they_read(shop):
    read = {"a_report": ("z_orders", "m_rates"), "m_rates": ("z_orders",), "z_orders": ()}
    for name, inputs in read.items():
        points = ReadPoints({f"`s`.`{each}`": NOW for each in inputs})
        write(shop.shard(f"s.{name}", name), NOW, ("a", 1), read=points)
    assert [shard["model"] for shard in shop.as_json("status")["shards"]] == [
        "z_orders",
        "m_rates",
        "a_report",
    ]
