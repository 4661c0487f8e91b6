"""`mvsink status --slo` and `mvsink metrics`: how old contents may be, and every figure as text."""

from __future__ import annotations

import json

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from dbt.adapters.mvsink.cli.commands.metrics import GAUGES, exposition
from dbt.adapters.mvsink.cli.status_table import Condition, ShardStatus
from dbt.adapters.mvsink.physical import EMPTY_FRONTIER
from dbt.adapters.mvsink.shard_sql.properties import Freshness, Verdict
from tests.support.package_edges import ROOT
from tests.unit.cli.shop import HOUR, NOW, write

MINUTE = 60_000


def limit(handle, warn_after=None, error_after=None):
    handle.set_properties(Freshness(warn_after, error_after).properties({}))


CASES = {  # the contents are an hour old: limits, what happened meanwhile; verdict, shown, exit code
    "in time": ((2 * HOUR, 3 * HOUR), None, "pass", "pass", 0),
    "exactly as old as allowed": ((HOUR, None), None, "pass", "pass", 0),
    "a warning": ((30 * MINUTE, 6 * HOUR), None, "warn", "warn after 30m", 0),
    "an error": ((20 * MINUTE, 50 * MINUTE), None, "error", "error after 50m", 1),
    "an error without a warning": ((None, 50 * MINUTE), None, "error", "error after 50m", 1),
    "final contents are never too old": (
        (1000, 1000),
        lambda shard: write(shard, NOW - HOUR // 2, upper=EMPTY_FRONTIER),
        "pass",
        "pass",
        0,
    ),
}


@pytest.mark.parametrize(("limits", "happened", "verdict", "shown", "code"), CASES.values(), ids=CASES)
def test_the_age_of_contents_is_compared_with_the_limits(
    shop, orders, limits, happened, verdict, shown, code
):
    limit(orders, *limits)
    if happened:
        happened(orders)
    for wide in ([], ["--wide"]):
        result = shop.run("status", "--slo", *wide)
        assert shown in result.stdout
        assert result.exit_code == code
    assert shop.run("status").exit_code == 0
    [shard] = json.loads(shop.run("status", "--slo", "--output", "json").stdout)["shards"]
    assert (shard["slo"], shard["warn_after"], shard["error_after"]) == (verdict, *limits)


def test_only_shards_with_limits_are_shown_and_a_dropped_one_has_none(shop, orders):
    assert shop.run("status", "--slo").stdout.startswith("no shards with a `freshness` of project shop")
    limit(orders, HOUR // 2)
    write(shop.shard("s.other", "other"), NOW - 9 * HOUR, ("a", 1))
    assert [shard["model"] for shard in shop.as_json("status", "--slo")["shards"]] == ["orders"]
    orders.mark_dropped(NOW)
    assert shop.as_json("status", "--slo")["shards"] == []


def test_a_shard_that_cannot_be_read_is_shown_and_fails(shop, orders, quick):
    limit(orders, HOUR)
    shop.shard("s.broken", "broken")
    shop.destroy("s.broken")
    result = shop.run("status", "--slo")
    assert result.exit_code == 1
    assert "s.broken" in result.stdout and "orders" in result.stdout


def test_a_shard_without_contents_is_as_old_as_its_creation(shop, monkeypatch):
    shard = shop.shard("s.new", "new")
    limit(shard, HOUR)
    created = shard.state().created
    for age, verdict in ((HOUR, "pass"), (HOUR + 1, "warn")):
        monkeypatch.setattr("dbt.adapters.mvsink.cli.commands.status.clock", lambda age=age: created + age)
        [shown] = shop.as_json("status", "--slo")["shards"]
        assert (shown["slo"], shown["lag"]) == (verdict, None)


def test_limits_that_a_model_no_longer_has_are_taken_back():
    kept = Freshness(1000, 2000).properties({})
    assert Freshness().properties(kept) == {"freshness": "{}"}
    assert Freshness().properties({}) == {}


# metrics


def families(text):
    """The samples of each metric by the shard's relation: the value, or the state that is 1."""
    assert text.endswith("# EOF\n")
    return {family.name: family for family in text_string_to_metric_families(text)}


def values(family):
    return {sample.labels["relation"]: sample.value for sample in family.samples}


def test_every_metric_of_a_shard(shop, orders):
    limit(orders, HOUR // 2, 2 * HOUR)
    write(orders, NOW - HOUR // 4, ("e", 1), seconds=2.5)
    read = families(shop.run("metrics").stdout)
    assert {name: values(family)["s.orders"] for name, family in read.items() if family.type == "gauge" and family.samples} == {
        "mvsink_shard_readable": 1,
        "mvsink_shard_lag_seconds": 900,
        "mvsink_shard_last_refresh_timestamp_seconds": orders.history()[-1].timestamp / 1000,
        "mvsink_shard_incident_runs": 0,
        "mvsink_shard_run_seconds": 2.5,
        "mvsink_shard_warn_after_seconds": 1800,
        "mvsink_shard_error_after_seconds": 7200,
        "mvsink_shard_rows": 5,
        "mvsink_shard_updates": 5,
        "mvsink_shard_error_updates": 0,
        "mvsink_shard_files": 3,
        "mvsink_shard_size_bytes": sum(file.size for file in orders.state().files),
        "mvsink_shard_generation": 0,
    }  # fmt: skip
    states = read["mvsink_shard_freshness"]
    assert states.type == "stateset"
    assert {s.labels["mvsink_shard_freshness"]: s.value for s in states.samples} == {
        "pass": 1,
        "warn": 0,
        "error": 0,
    }
    [labels] = [sample.labels for sample in read["mvsink_shard_rows"].samples]
    assert labels == {"model": "orders", "relation": "s.orders", "project": "shop", "target": "dev"}


def test_a_shard_that_cannot_be_read_has_one_figure(shop, orders, quick):
    shop.shard("s.broken", "broken")
    shop.destroy("s.broken")
    result = shop.run("metrics")
    assert result.exit_code == 1
    assert result.stderr.startswith("s.broken: ")
    read = families(result.stdout)
    assert values(read["mvsink_shard_readable"]) == {"s.orders": 1, "s.broken": 0}
    assert values(read["mvsink_shard_rows"]) == {"s.orders": 4}


def test_shards_are_selected_as_for_status(shop, orders):
    write(shop.shard("s.theirs", "theirs", target="prod"), NOW, ("a", 1))
    assert set(values(families(shop.run("metrics").stdout)["mvsink_shard_rows"])) == {"s.orders"}
    everything = families(shop.run("metrics", "--all").stdout)["mvsink_shard_rows"]
    assert set(values(everything)) == {"s.orders", "s.theirs"}
    assert shop.run("metrics", "nothing").exit_code == 2
    assert families(shop.run("metrics", "--target", "prod", "theirs").stdout)


def test_any_name_and_any_figure_can_be_read_back():
    name = 'a"b\\c\nd'
    shard = ShardStatus(
        name, "s.x", "", Condition.READABLE, lag=1, rows=2**62, run_seconds=1e-9, slo=Verdict.WARN
    )
    read = families(exposition([shard]))
    [rows], [lag] = read["mvsink_shard_rows"].samples, read["mvsink_shard_lag_seconds"].samples
    assert (rows.labels["model"], rows.value, lag.value) == (name, 2**62, 0.001)


def test_the_metrics_are_documented_with_their_units():
    page = (ROOT / "docs" / "commands.md").read_text()
    read = families(exposition([]))
    assert len(read) == len(GAUGES) + 2
    for name, family in read.items():
        assert f"`{name}`" in page
        assert family.documentation
        assert (f"_{family.unit}" if family.unit else "") in name
