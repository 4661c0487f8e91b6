"""`mvsink history`: the commits of one shard."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from dbt.adapters.mvsink.reasons import Why
from dbt.adapters.mvsink.shard import ReadHandle, ReadPoints, authored_by
from dbt.adapters.mvsink.shard_sql.properties import Pause, definition_digest, pause
from tests.unit.cli.shop import HOUR, NOW, heading, write


@pytest.fixture
def orders(shop):
    """Created, owned, written twice."""
    handle = shop.shard("s.orders", "orders")
    write(
        handle,
        NOW - 2 * HOUR,
        ("a", 1),
        ("b", 1),
        rows_inserted=2,
        purpose="mv_sink(s.orders)",
        invocation_id="i1",
        seconds=2.25,
        read=ReadPoints({"`s`.`raw orders`": NOW - 2 * HOUR}, {"raw.rates": 4}),
        definition="3f0c",
    )
    write(
        handle,
        NOW - HOUR,
        ("b", -1),
        rows_deleted=1,
        drift=3,
        purpose="mv_sink(s.orders)",
        invocation_id="i2",
    )
    return handle


def test_the_json_of_a_commit(shop, orders):
    history = shop.as_json("history", "orders", "--all-commits")
    commits = history.pop("commits")
    assert history == {"model": "orders", "relation": "s.orders", "uri": str(shop.at("s.orders"))}
    assert [(commit["version"], commit["kind"]) for commit in commits] == [
        (3, "append"),
        (2, "append"),
        (1, "schema"),
        (0, "create"),
    ]
    in_log = orders.history()[2]
    assert commits[1] == {
        "version": 2,
        "time": in_log.timestamp,
        "kind": "append",
        "lower": 0,
        "upper": NOW - 2 * HOUR + 1,
        "final": False,
        "rows_inserted": 2,
        "rows_deleted": 0,
        "drift": 0,
        "computed_through": NOW - 2 * HOUR,
        "writer_id": str(orders.writer_id),
        "host": in_log.host,
        "purpose": "mv_sink(s.orders)",
        "invocation_id": "i1",
        "seconds": 2.25,
        "references": {"`s`.`raw orders`": NOW - 2 * HOUR},
        "versions": {"raw.rates": 4},
        "newer": {},
        "definition": "3f0c",
        "way": "inputs unchanged",
        "reason": None,
        "message": "",
        "diff": None,
        "author": None,
    }
    assert (commits[0]["references"], commits[0]["versions"]) == ({}, {})
    assert (commits[0]["seconds"], commits[0]["drift"]) == (None, 3)


def test_the_table_has_readable_times_and_short_names(shop, orders):
    shown = shop.run("history", "orders", "--all-commits").stdout
    newest = next(line.split() for line in shown.splitlines() if line.split()[:1] == ["3"])
    host, writer = orders.history()[-1].host, str(orders.writer_id)[:8]
    assert newest[2:] == [
        "append",
        "2025-11-20T13:00:00.001Z",
        "2025-11-20T14:00:00.001Z",
        "1",
        "3",
        "2025-11-20T14:00:00Z",
        "mv_sink(s.orders)",
        host,
        writer,
        "i2",
    ]
    first = next(line for line in shown.splitlines() if line.split()[:1] == ["2"])
    assert "raw orders as of 2025-11-20T13:00:00Z, rates version 4 2.2s" in " ".join(first.split())


def defined(handle, query):
    """As a run does after its rows. Returns the digest."""
    definition = {"sql": query, "ansi": "true", "refresh": {}}
    handle.set_properties({"definition": json.dumps(definition)})
    return definition_digest(definition)


def run(handle, time, *rows, query=None, **note):
    """A run at ``time``, whose model has that query."""
    digest = definition_digest({"sql": query, "ansi": "true"})
    write(handle, time, *rows, purpose="mv_sink(s.m)", definition=digest, **note)
    defined(handle, query)


@pytest.fixture
def month(shop):
    """A first load, runs of three kinds, a changed query, a DELETE by another tool, its repair, an
    undo, a pause.
    """
    handle = shop.shard("s.m", "m")
    old, new = "select x\nfrom t\n-- old\nwhere x > 1", "select x\nfrom t\n++ new\nwhere x > 2"
    run(handle, NOW - 9 * HOUR, ("a", 1), ("b", 1), query=old, mode="loaded", rows_inserted=2)
    run(handle, NOW - 8 * HOUR, query=old)
    run(handle, NOW - 7 * HOUR, ("c", 1), query=old, mode="incremental", rows_inserted=1)
    handle.hold("another", NOW - 7 * HOUR)  # of no interest
    much, usual = Why.MUCH_CHANGED.code, Why.SMALL.code
    run(handle, NOW - 6 * HOUR, ("c", -1), query=new, mode="evaluated", why=much, reason="t changed by 31%")
    DeltaTable(str(shop.at("s.m"))).delete("x = 'b'")
    run(handle, NOW - 5 * HOUR, ("b", 1), query=new, mode="evaluated", why=usual, reason="its data is small")
    write(handle, NOW - 4 * HOUR, ("b", -1), purpose="wrong rates; by ada", computed_through=None)
    pause(handle, Pause("ada", NOW, "wrong rates"))
    return handle


def test_runs_are_shown_with_their_way_and_what_else_is_to_say(shop, month):
    commits = shop.as_json("history", "m")["commits"]
    assert [(each["way"], each["message"]) for each in reversed(commits)] == [
        ("first load", ""),
        ("inputs unchanged", ""),
        ("incremental", ""),
        ("evaluated: much changed", "new query; t changed by 31%"),
        ("DELETE by another tool", ""),
        ("evaluated: small", ""),
        (None, "wrong rates; by ada"),
        (None, "paused by ada at 2025-11-20T15:00:00Z: wrong rates"),
    ]
    shown = shop.run("history", "m").stdout
    assert heading(shown) == "when + - way who message" and "another" not in shown.replace("another tool", "")
    assert [len(shop.as_json("history", "m", "--limit", limit)["commits"]) for limit in "28"] == [2, 8]


def test_without_a_model_the_newest_of_all_are_shown(shop, month, orders):
    commits = shop.as_json("history", "--limit", "5")["commits"]
    assert len(commits) == 5 and {each["model"] for each in commits} == {"m", "orders"}
    assert [each["time"] for each in commits] == sorted((each["time"] for each in commits), reverse=True)
    assert heading(shop.run("history").stdout).startswith("when model + - way")
    assert shop.run("history", "--all-commits").exit_code == 2


def test_a_changed_query_is_shown_by_its_lines(shop, month):
    changed = [each for each in shop.as_json("history", "m")["commits"] if each["diff"]]
    assert [each["diff"] for each in changed] == [
        [" from t", "--- old", "-where x > 1", "+++ new", "+where x > 2"]
    ]
    shown = shop.run("history", "m").stdout
    assert "new query at " in shown and "  -where x > 1\n  +++ new\n  +where x > 2\n" in shown
    assert "where x" not in shop.run("history", "m", "--limit", "3").stdout


def test_a_text_that_the_log_no_longer_has_is_no_difference(shop, month, monkeypatch):
    monkeypatch.setattr(ReadHandle, "state_at", lambda self, version: None)
    commits = shop.as_json("history", "m")["commits"]
    assert [each["diff"] for each in commits] == [None] * 8
    assert [each["message"].startswith("new query") for each in commits].count(True) == 1


def test_many_commits_of_no_interest_hide_no_run(shop, orders):
    for step in range(40):
        orders.hold("another", NOW - 2 * HOUR + step)
    assert len(shop.as_json("history", "orders", "--limit", "3")["commits"]) == 2


def test_who_ran_the_command(shop, orders):
    known = {"user": "ada", "commit": "1f3c5a7b9d", "branch": "main", "dirty": "yes", "command": "dbt run"}
    authored_by(lambda: {**known, "link": "https://ci/7"})
    write(orders, NOW, ("y", 1))
    newest = shop.as_json("history", "orders")["commits"][0]
    assert newest["author"] == {**known, "link": "https://ci/7"}
    assert "ada, main 1f3c5a7 and changes" in shop.run("history", "orders").stdout
    shown = shop.run("history", "orders", "--limit", "1", "--all-commits").stdout
    assert all(text in shown for text in ("ada, main 1f3c5a7 and changes", "dbt run", "https://ci/7"))
    info = next(line for line in shop.run("metrics").stdout.splitlines() if "author_info{" in line)
    assert 'user="ada",commit="1f3c5a7b9d",branch="main",dirty="yes",command="dbt run"' in info


def test_a_command_that_commits_records_who_ran_it(shop, orders, monkeypatch):
    monkeypatch.setenv("MVSINK_USER", "eve")
    monkeypatch.setattr("sys.argv", ["/bin/mvsink", "hold", "orders", "--vars", "{secret: x}"])
    assert shop.run("hold", "orders", "--yes").exit_code == 0
    author = shop.as_json("history", "orders")["commits"][0]["author"]
    assert (author["user"], author["command"]) == ("eve", "mvsink hold orders --vars ...")


def test_a_limit_gives_the_newest(shop, orders):
    assert [commit["version"] for commit in shop.as_json("history", "orders", "--limit", "2")["commits"]] == [
        3,
        2,
    ]


def test_a_final_commit_is_shown_as_final(shop, orders):
    write(orders, NOW, upper=2**63 - 1)
    newest = shop.as_json("history", "orders")["commits"][0]
    assert (newest["kind"], newest["upper"], newest["final"]) == ("advance", None, True)
    assert "final" in shop.run("history", "orders", "--limit", "1").stdout


def test_of_another_engine_s_commit_only_its_operation_is_shown(shop, orders):
    row = {"x": ["z"], "_mv_time": [None], "_mv_diff": [None], "_mv_error": [None], "_mv_hash": [None]}
    types = [pa.string(), pa.int64(), pa.int64(), pa.string(), pa.int64()]
    write_deltalake(
        str(shop.at("s.orders")),
        pa.table([pa.array(v, t) for v, t in zip(row.values(), types)], names=list(row)),
        mode="append",
    )
    newest = shop.as_json("history", "orders")["commits"][0]
    assert (newest["version"], newest["kind"], newest["rows_inserted"], newest["writer_id"]) == (
        4,
        "WRITE",
        None,
        None,
    )
    assert (newest["references"], newest["versions"]) == (None, None)


def test_the_shard_of_an_input_is_named_below_its_task(shop, orders):
    write(shop.shard("s.orders/_inputs/raw"), NOW, ("x", 1))
    assert shop.as_json("history", "s.orders/_inputs/raw")["relation"] == "s.orders/_inputs/raw"


def test_an_unknown_model_is_wrong_usage_and_the_known_ones_are_listed(shop, orders):
    result = shop.run("history", "nope")
    assert (result.exit_code, result.stderr.strip().endswith("Known: orders")) == (2, True)


def test_a_name_that_two_shards_have_is_wrong_usage(shop, orders):
    shop.shard("t.orders", "orders")
    result = shop.run("history", "orders")
    assert (result.exit_code, "name one of s.orders, t.orders" in result.stderr) == (2, True)
    assert shop.as_json("history", "t.orders")["relation"] == "t.orders"


def test_a_shard_that_cannot_be_read_fails_with_its_error(shop, orders, quick):
    shop.destroy("s.orders")
    result = shop.run("history", "s.orders")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: s.orders: MVS-211: the log of shard")
