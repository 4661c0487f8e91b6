"""`mvsink status`: what it shows, of which shards, and when it fails."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.physical import EMPTY_FRONTIER
from dbt.adapters.mvsink.shard.delta import DeltaStorage
from tests.unit.cli.shop import HOUR, NOW, heading, write

VARYING = ("uri", "shard_id", "created", "last_refresh", "bytes")


def hourly():
    """A schedule as a shard keeps it."""
    return {"every": [[HOUR, 0]], "at": [], "at_creation": False}


# what is shown


def test_the_json_of_a_shard(shop, orders):
    output = shop.as_json("status")
    [shard] = output.pop("shards")
    assert output == {"project": "shop", "target": "dev", "shard_root": str(shop.shards), "now": NOW}
    varying = {key: shard.pop(key) for key in VARYING}
    assert shard == {
        "model": "orders",
        "relation": "s.orders",
        "condition": "readable",
        "kind": "view",
        "incident": None,
        "inserted": 0,
        "deleted": 0,
        "project": "shop",
        "target": "dev",
        "unique_id": "model.shop.orders",
        "version": 3,
        "generation": 0,
        "dropped": None,
        "since": NOW - 2 * HOUR,
        "upper": NOW - HOUR + 1,
        "computed_through": NOW - HOUR,
        "lag": HOUR,
        **dict.fromkeys(("slo", "warn_after", "error_after", "run_seconds", "author")),
        "scheduled": False,
        "next_refresh": None,
        "pending_inputs": None,
        "rows": 4,
        "updates": 4,
        "error_updates": 0,
        "files": 2,
        "recent_share": 1 / 3,
        "paused": None,
        **dict.fromkeys(("verified", "verify_by", "verify_after_seconds", "verify_after_runs")),
        **dict.fromkeys(("file_format", "table_version", "table_lag")),
        **dict.fromkeys(("table_through", "table_foreign")),
        "holds": [],
        "error": None,
        "inputs": [],
    }
    assert (varying["uri"], varying["shard_id"]) == (str(shop.at("s.orders")), str(orders.shard_id))
    assert varying["bytes"] == sum(
        file.stat().st_size for file in shop.at("s.orders").glob("table/*/*.parquet")
    )
    assert varying["last_refresh"] == orders.history()[-1].timestamp
    assert varying["created"] == orders.state().created


def test_an_unreadable_shard_has_the_same_keys_as_any_other(shop, orders, quick):
    shop.shard("s.broken", "broken")
    shop.destroy("s.broken")
    result = shop.run("status", "--output", "json")
    broken, right = json.loads(result.stdout)["shards"]
    assert broken.keys() == right.keys()


def test_the_wide_table_of_a_shard(shop, orders):
    line = table(shop.run("status", "--wide"))["orders"]
    assert line == (
        "view 0 0 2025-11-20T13:00:00Z 2025-11-20T14:00:00.001Z 1h "
        f"{iso_seconds(orders.history()[-1].timestamp)} every run 4 4 2 {size(shop, 's.orders')} 33.3%"
    )


def test_empty_columns_are_omitted(shop, orders):
    assert heading(shop.run("status", "--wide").stdout) == (
        "model kind + - history from to lag last refresh next refresh rows updates files size recent"
    )


CONDITIONS = {
    "readable": (lambda shard: None, "readable", HOUR, ""),
    "finished": (lambda shard: write(shard, NOW - HOUR, upper=EMPTY_FRONTIER), "final", None, "final"),
    "dropped": (lambda shard: shard.mark_dropped(NOW), "dropped", HOUR, "dropped 2025-11-20T15:00:00Z"),
}


@pytest.mark.parametrize(("happened", "condition", "behind", "shown"), CONDITIONS.values(), ids=CONDITIONS)
def test_the_condition_of_a_shard(shop, orders, happened, condition, behind, shown):
    happened(orders)
    [shard] = shop.as_json("status")["shards"]
    assert (shard["condition"], shard["lag"]) == (condition, behind)
    assert table(shop.run("status", "--wide"))["orders"].startswith(f"view {shown}".rstrip())


def test_a_shard_that_no_run_has_written_is_not_refreshed_yet(shop):
    shop.shard("s.new", "new")
    [shard] = shop.as_json("status")["shards"]
    assert (shard["condition"], shard["since"], shard["upper"], shard["lag"], shard["last_refresh"]) == (
        "not refreshed yet",
        0,
        0,
        None,
        None,
    )
    assert "1970" not in shop.run("status").stdout


SCHEDULES = {  # at 15:00; the newest run was at 14:20
    "every run": ({}, NOW - 2_400_000, None, "every run"),
    "hourly, refreshed until 16:00": (hourly(), NOW + HOUR, NOW + HOUR, "2025-11-20T16:00:00Z"),
    "hourly, due since 15:00": (hourly(), NOW, NOW, "2025-11-20T15:00:00Z"),
    "hourly, refreshed until 12:00 only: missed refreshes are not made up": (
        hourly(),
        NOW - 3 * HOUR,
        NOW,
        "2025-11-20T15:00:00Z",
    ),
    "at 18:00": (
        {"every": [], "at": [NOW + 3 * HOUR], "at_creation": False},
        NOW - HOUR,
        NOW + 3 * HOUR,
        "2025-11-20T18:00:00Z",
    ),
    "none left": ({"every": [], "at": [NOW - 9 * HOUR], "at_creation": False}, NOW - HOUR, None, "none left"),
}


@pytest.mark.parametrize(("refresh", "upper", "following", "shown"), SCHEDULES.values(), ids=SCHEDULES)
def test_the_next_refresh_is_that_of_the_schedule_in_the_shard(shop, refresh, upper, following, shown):
    handle = shop.shard("s.m", "m")
    handle.set_properties({"definition": json.dumps({"sql": "select 1", "ansi": "true", "refresh": refresh})})
    write(handle, upper - 2 * HOUR, ("a", 1), upper=upper)
    [shard] = shop.as_json("status")["shards"]
    assert (shard["scheduled"], shard["next_refresh"]) == (bool(refresh), following)
    assert shown in table(shop.run("status", "--wide"))["m"]


def test_a_hold_names_its_holder(shop, orders):
    report = shop.shard("s.report", "report")
    orders.hold(str(report.shard_id), NOW - 2 * HOUR)
    orders.hold("another", NOW - HOUR)
    [shard] = shop.as_json("status", "orders")["shards"]
    assert sorted(shard["holds"], key=lambda hold: hold["time"]) == [
        {"holder": str(report.shard_id), "time": NOW - 2 * HOUR, "model": "report"},
        {"holder": "another", "time": NOW - HOUR, "model": None},
    ]
    shown = table(shop.run("status", "--wide", "orders"))["orders"]
    assert "report from 2025-11-20T13:00:00Z" in shown and "another from 2025-11-20T14:00:00Z" in shown


def test_the_newest_refresh_is_found_below_many_other_commits(shop, orders):
    for step in range(25):
        orders.hold("another", NOW - 2 * HOUR + step)
    [shard] = shop.as_json("status")["shards"]
    assert (shard["version"], shard["computed_through"], shard["lag"]) == (28, NOW - HOUR, HOUR)


def test_inputs_of_a_task_are_shown_below_it(shop, orders):
    write(shop.shard("s.orders/_inputs/raw.events"), NOW - HOUR, ("x", 1))
    [shard] = shop.as_json("status", "orders")["shards"]
    assert [(each["relation"], each["rows"]) for each in shard["inputs"]] == [
        ("s.orders/_inputs/raw.events", 1)
    ]
    assert list(table(shop.run("status", "--wide"))) == ["orders", "  input raw.events"]


# the short table


def test_by_default_a_shard_is_one_line_with_relative_times(shop, orders):
    write(shop.shard("s.orders/_inputs/~60raw~60.~60events~60"), NOW - HOUR, ("x", 1))
    shop.shard("s.new", "new")
    result = shop.run("status")
    assert heading(result.stdout) == "model kind state age + - next rows"
    lines = table(result)
    assert list(lines) == ["new", "orders"]
    assert lines["new"] == "view not refreshed yet every run 0"
    assert lines["orders"] == "view 1 h 0 0 every run 4"


@pytest.mark.parametrize(
    ("upper", "shown"),
    [(NOW + HOUR // 3, "in 20 min"), (NOW - HOUR, "due"), (NOW + 26 * HOUR, "in 1 d")],
)
def test_the_next_refresh_is_relative_to_now(shop, upper, shown):
    every = {"every": [[HOUR // 3, upper % (HOUR // 3)]], "at": [], "at_creation": False}
    handle = shop.shard("s.m", "m")
    handle.set_properties({"definition": json.dumps({"sql": "", "ansi": "true", "refresh": every})})
    write(handle, NOW - 2 * HOUR, ("a", 1), upper=upper)
    assert shown in table(shop.run("status"))["m"]


def test_long_names_are_cut_so_that_lines_fit_100_characters(shop):
    names = [
        f"a_model_with_a_long_name_that_describes_everything_about_the_{what}_of_the_company"
        for what in ("orders", "returns")
    ]
    for name in names:
        write(shop.shard(f"a_schema.{name}", name), NOW - HOUR, *((f"x{i}", 1) for i in range(20)))
    short, all_owners, wide = (shop.run("status", *more).stdout for more in ((), ("--all",), ("--wide",)))
    for shown in (short, all_owners):
        lines = [line for line in shown.splitlines() if "a_model" in line]
        assert len(lines) == 2 and all("…" in line and "every run" in line for line in lines)
        assert max(map(len, shown.splitlines())) <= 100
    assert max(map(len, wide.splitlines())) > 100


def test_inputs_have_readable_names(shop, orders):
    write(shop.shard("s.orders/_inputs/~60parquet~60.~60~2Fdata~2Fa~20b~60"), NOW - HOUR, ("x", 1))
    assert list(table(shop.run("status", "--wide"))) == ["orders", "  input parquet./data/a b"]


def test_an_error_is_written_in_full_below_the_table(shop, orders, quick):
    shop.shard("s.orders/_inputs/raw")
    shop.destroy("s.orders/_inputs/raw")
    result = shop.run("status")
    assert list(table(result))[:2] == ["orders", "  input raw"] and result.exit_code == 1
    assert "\ninput raw: " in result.stdout


# which shards


@pytest.fixture
def several(shop):
    """Two of our own, one of another target, one of another project, one without an owner, and
    things that are not shards.
    """
    shop.shard("s.orders", "orders")
    shop.shard("s.customers_alias", "customers.v2")
    shop.shard("t.orders_in_prod", "orders", target="prod")
    shop.shard("s.theirs", "theirs", project="elsewhere")
    shop.shard("s.no_owner")
    foreign_table(shop.at("s.a_delta_table"))
    (shop.shards / "s" / "no_table").mkdir()
    (shop.shards / "s" / "a_file").write_text("")


CHOICES = {
    "ours by default": ((), ["s.customers_alias", "s.orders"]),
    "of another target": (("--target", "prod"), ["t.orders_in_prod"]),
    "all": (("--all",), ["s.customers_alias", "s.no_owner", "s.orders", "s.theirs", "t.orders_in_prod"]),
    "by name": (("orders",), ["s.orders"]),
    "by the name of a version": (("customers.v2",), ["s.customers_alias"]),
    "by unique id": (("model.shop.orders",), ["s.orders"]),
    "by relation": (("s.customers_alias",), ["s.customers_alias"]),
    "several": (("orders", "customers.v2"), ["s.customers_alias", "s.orders"]),
    "by name among all": (("--all", "orders"), ["s.orders", "t.orders_in_prod"]),
    "by identifier if the owner is not known": (("--all", "no_owner"), ["s.no_owner"]),
}


@pytest.mark.parametrize(("arguments", "relations"), CHOICES.values(), ids=CHOICES)
def test_which_shards_are_shown(shop, several, arguments, relations):
    assert [shard["relation"] for shard in shop.as_json("status", *arguments)["shards"]] == relations


def test_the_table_names_the_relation_if_it_differs_from_the_model(shop, several):
    assert list(table(shop.run("status", "--wide", "--all"))) == [
        "customers.v2 (s.customers_alias)",
        "s.no_owner",
        "orders (s.orders)",
        "theirs",
        "orders (t.orders_in_prod)",
    ]


def test_all_shows_owners(shop, several):
    assert table(shop.run("status", "--wide", "--all"))["theirs"].startswith("elsewhere, dev")


@pytest.mark.parametrize("unknown", ["nope", "theirs", "s.no_owner"])
def test_an_unknown_model_is_wrong_usage_and_the_known_ones_are_listed(shop, several, unknown):
    result = shop.run("status", "orders", unknown)
    assert result.exit_code == 2
    assert (
        f"no shard of a model '{unknown}' below {shop.shards}. Known: customers.v2, orders\n" in result.stderr
    )


def test_no_shards_is_not_a_failure(shop):
    assert shop.as_json("status")["shards"] == []
    assert shop.run("status").stdout == f"no shards of project shop, target dev below {shop.shards}\n"


def test_a_root_may_be_a_uri(shop, orders):
    shop.profiles(
        f"p: {{target: dev, outputs: {{dev: {{type: mvsink, schema: s, shard_root: 'file://{shop.shards}'}}}}}}"
    )
    assert [shard["rows"] for shard in shop.as_json("status")["shards"]] == [4]


def test_a_root_that_cannot_be_listed_is_an_error(shop):
    shop.profiles(
        "p: {target: dev, outputs: {dev: {type: mvsink, schema: s, shard_root: 'gopher://hole/shards'}}}"
    )
    result = shop.run("status")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "cannot list the shards below gopher://hole/shards" in result.stderr


# failure


def test_a_shard_that_cannot_be_read_is_shown_with_its_error_beside_the_others(shop, orders, quick):
    shop.shard("s.broken", "broken")
    shop.destroy("s.broken")
    result = shop.run("status", "--wide")
    lines = table(result)
    assert result.exit_code == 1
    assert lines["s.broken"].startswith("unreadable MVS-211: the log of shard")
    assert "2025-11-20T14:00:00.001Z" in lines["orders"]
    assert shop.run("status", "orders").exit_code == 0
    assert shop.run("status", "broken").exit_code == 1


def test_an_input_that_cannot_be_read_fails_the_command_too(shop, orders, quick):
    shop.shard("s.orders/_inputs/raw")
    shop.destroy("s.orders/_inputs/raw")
    result = shop.run("status", "--wide")
    assert result.exit_code == 1
    assert table(result)["  input raw"].startswith("unreadable MVS-211: the log of shard")


def test_a_commit_that_cannot_be_read_is_an_error_of_its_shard(shop, orders):
    orders.storage.checkpoint()
    newest = orders.state().version
    (shop.at("s.orders") / "_delta_log" / f"{newest:020d}.json").write_text('{"commitInfo": broken')
    result = shop.run("status", "--output", "json")
    [shard] = json.loads(result.stdout)["shards"]
    assert (result.exit_code, shard["condition"], bool(shard["error"])) == (1, "unreadable", True)


DAMAGES = {"is gone": lambda path: path.unlink(), "has 0 of": lambda path: path.write_bytes(b"")}


@pytest.mark.parametrize(("wrong", "damage"), DAMAGES.items(), ids=DAMAGES)
def test_a_lost_file_is_an_error_of_its_shard_seen_by_one_listing(shop, orders, monkeypatch, wrong, damage):
    write(shop.shard("s.right", "right"), NOW - HOUR, ("x", 1))
    lost = orders.state().files[0].path
    damage(shop.at("s.orders") / lost)
    listed, inner = [], DeltaStorage.list_files
    monkeypatch.setattr(
        DeltaStorage, "list_files", lambda self, path: listed.append(path) or inner(self, path)
    )
    monkeypatch.setattr(DeltaStorage, "_parquet", None)  # no file is opened
    result = shop.run("status", "--output", "json")
    shard, right = json.loads(result.stdout)["shards"]
    assert (result.exit_code, shard["condition"], shard["rows"]) == (1, "unreadable", 4)
    assert f"{lost} {wrong}" in shard["error"] and right["error"] is None
    assert (listed.count("table"), listed.count("batches")) == (2, 2)
    assert (
        f"orders: MVS-231: shard {shop.at('s.orders')} has lost data: {lost} {wrong}"
        in shop.run("status").stdout
    )


# parsing the output


def table(result):
    """The table's lines by the text of their first column, the rest with single spaces."""
    lines = result.stdout.splitlines()
    rule = next(number for number, line in enumerate(lines) if "───" in line)
    first = lines[rule - 1].index("model")
    width = len(lines[rule - 1][first:]) - len(lines[rule - 1][first:].removeprefix("model").lstrip())
    cells = {}
    label = ""
    for line in lines[rule + 1 :]:
        if line.strip():
            label = line[first : first + width].rstrip() or label
            cells[label] = " ".join((cells.get(label, "") + " " + line[first + width :]).split())
    return cells


def size(shop, relation):
    total = sum(file.stat().st_size for file in shop.at(relation).glob("table/*/*.parquet"))
    return f"{total / 1000:.1f} kB"


def iso_seconds(time):
    return iso(time // 1000 * 1000)


def foreign_table(path):
    write_deltalake(str(path), pa.table({"x": [1]}))
