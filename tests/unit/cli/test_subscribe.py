"""`mvsink subscribe`: where a stream begins, how it ends, what it refuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.cli.commands import subscribe
from dbt.adapters.mvsink.shard import Antichain
from tests.support.shards import updates
from tests.unit.cli.shop import HOUR, NOW, write

FIRST, SECOND = NOW - 2 * HOUR, NOW - HOUR


@pytest.fixture
def orders(shop):
    """Three rows written two hours ago; a change an hour ago."""
    handle = shop.shard("s.orders", "orders")
    write(handle, FIRST, ("a", 1), ("b", 2), ("c", 1), invocation_id="first-run")
    write(handle, SECOND, ("a", -1), ("d", 1), invocation_id="second-run")
    return handle


def lines(result):
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines() if line]


def short(result):
    """Each line as ``x+diff@time``, progress as its frontier; times in hours before NOW."""
    shown = []
    for line in lines(result):
        if "_mv_time" in line:
            shown.append(f"{line['x']}{line['_mv_diff']:+d}@{(line['_mv_time'] - NOW) // HOUR}")
        else:
            shown.append((line.get("_mv_start") or line.get("_mv_progress") or NOW) - NOW)
    return shown


CHANGE = ["a-1@-1", "d+1@-1", -HOUR + 1]
POINTS = {
    "nothing: what comes after now": ((), [-HOUR + 1]),
    "latest": (("--from", "latest"), [-HOUR + 1]),
    "a time, inclusive": (("--from", str(SECOND)), [-HOUR, *CHANGE]),
    "a saved frontier": (("--from", str(FIRST + 1)), [-2 * HOUR + 1, *CHANGE]),
    "ISO 8601": (("--from", "2025-11-20T13:30:00Z"), [-HOUR - HOUR // 2, *CHANGE]),
    "a run: what came after it": (("--from", "first-run"), [-2 * HOUR + 1, *CHANGE]),
    "-1: the newest run's changes": (("--from", "-1"), [-2 * HOUR + 1, *CHANGE]),
    "the first run": (
        ("--from", "-2"),
        [-2 * HOUR, "a+1@-2", "b+2@-2", "c+1@-2", -2 * HOUR + 1, *CHANGE],
    ),
    "the contents": (("--snapshot",), [-HOUR, "b+2@-1", "c+1@-1", "d+1@-1", -HOUR + 1]),
    "earlier contents": (
        ("--snapshot", "--from", "first-run"),
        [-2 * HOUR, "a+1@-2", "b+2@-2", "c+1@-2", -2 * HOUR + 1, *CHANGE],
    ),
    "a time to come": (("--from", str(NOW + HOUR)), [HOUR]),
}


@pytest.mark.parametrize("options, expected", POINTS.values(), ids=POINTS)
def test_where_the_stream_begins(shop, orders, options, expected):
    assert short(shop.run("subscribe", "orders", *options)) == expected


def test_times_without_changes_are_progress(shop, orders):
    write(orders, NOW)
    assert short(shop.run("subscribe", "orders", "--from", str(SECOND + 1))) == [-HOUR + 1, 1]


def test_a_final_shard_ends_with_a_frontier_of_null(shop, orders):
    write(orders, NOW, ("e", 1), upper=2**63 - 1)
    assert lines(shop.run("subscribe", "orders", "--from", "-1", "--follow"))[-1] == {"_mv_progress": None}


def test_a_position_continues_exactly_there(shop, orders, tmp_path):
    place = tmp_path / "position"
    command = ("subscribe", "orders", "--snapshot", "--position", str(place))
    assert short(shop.run(*command))[-1] == -HOUR + 1
    kept = json.loads(place.read_text())
    assert kept == {
        "shard_id": str(orders.shard_id),
        "generation": 0,
        "frontier": SECOND + 1,
    }
    assert short(shop.run(*command)) == [-HOUR + 1]
    write(orders, NOW, ("e", 1))
    assert short(shop.run(*command)) == [-HOUR + 1, "e+1@0", 1]
    assert sorted(file.name for file in tmp_path.iterdir() if "position" in file.name) == ["position"]


def released(shop, orders):
    orders.downgrade_since(Antichain.of(SECOND))


def replaced(shop, orders):
    batch = orders.batch(updates(("z", NOW, 1)), Antichain.of(0), Antichain.of(NOW + 1))
    orders.replace([batch], orders.schema, Antichain.of(NOW + 1), Antichain.of(NOW))


def dropped(shop, orders):
    orders.mark_dropped(NOW)


def restored(shop, orders):
    """The log of a backup from before the second run, which the consumer has seen."""
    newest = orders.state().version
    orders.storage._forget()
    os.remove(f"{orders.uri}/_delta_log/{newest:020d}.json")


def failed(shop, orders):
    table = pa.table(
        {
            "x": pa.nulls(1, pa.string()),
            "_mv_time": pa.array([NOW]),
            "_mv_diff": pa.array([1]),
            "_mv_error": pa.array(["division by zero"]),
        }
    )
    orders.compare_and_append(table, orders.upper, Antichain.of(NOW + 1))


REFUSALS = {
    "compacted": (released, ("2025-11-20T13:00:00.001Z", "2025-11-20T14:00:00Z", "retain_history")),
    "replaced": (replaced, ("generation 0 by 1", "--snapshot")),
    "dropped": (dropped, ("was dropped at 2025-11-20T15:00:00Z",)),
    "an error in the contents": (failed, ("2025-11-20T15:00:00Z", "division by zero", "--errors")),
}


@pytest.mark.parametrize("happens, expected", REFUSALS.values(), ids=REFUSALS)
def test_what_cannot_be_delivered_is_an_error(shop, orders, tmp_path, happens, expected):
    place = tmp_path / "position"
    place.write_text(json.dumps({"shard_id": str(orders.shard_id), "generation": 0, "frontier": FIRST + 1}))
    happens(shop, orders)
    result = shop.run("subscribe", "orders", "--position", str(place))
    assert result.exit_code == 1 and all(part in result.stderr for part in expected), result.stderr
    assert "z" not in result.stdout.replace("_mv_", "")


def test_row_n_a_position_ahead_of_the_shard_is_refused_with_both_numbers(shop, orders, tmp_path):
    place = tmp_path / "position"
    command = ("subscribe", "orders", "--position", str(place))
    place.write_text(json.dumps({"shard_id": str(orders.shard_id), "generation": 0, "frontier": SECOND + 1}))
    assert short(shop.run(*command)) == [-HOUR + 1]
    before = place.read_text()
    restored(shop, orders)
    result = shop.run(*command)
    assert result.exit_code == 1 and result.stdout == "" and place.read_text() == before
    for part in (
        str(SECOND + 1),
        str(FIRST + 1),
        "restored from a backup",
        "--snapshot, without the position",
    ):
        assert part in result.stderr, result.stderr


def test_errors_are_delivered_on_request(shop, orders):
    failed(shop, orders)
    newest = lines(shop.run("subscribe", "orders", "--from", "-1", "--errors"))[1]
    assert newest == {"x": None, "_mv_time": NOW, "_mv_diff": 1, "_mv_error": "division by zero"}


WRONG_POSITIONS = [
    '{"shard_id": "other", "generation": 0, "frontier": 1}',
    '{"shard_id": "other", "generation": 0, "frontier": "x"}',
    '{"shard_id": "other", "generation": 1e400, "frontier": 1}',
    "[" * 10_000,
]


@pytest.mark.parametrize("text", ["", "{}", "[1]", *WRONG_POSITIONS], ids=range(7))
def test_row_e_a_file_that_is_no_position_of_this_shard_is_refused(shop, orders, tmp_path, text):
    place = tmp_path / "position"
    place.write_text(text)
    result = shop.run("subscribe", "orders", "--position", str(place))
    assert result.exit_code == 2 and str(place) in result.stderr and place.read_text() == text


def test_an_unknown_model_and_an_unknown_point_name_what_is_known(shop, orders):
    assert shop.run("subscribe", "nope").exit_code == 2
    result = shop.run("subscribe", "orders", "--from", "yesterday")
    assert result.exit_code == 2 and "second-run" in result.stderr


def test_it_follows_until_it_is_stopped_and_releases_its_lease(shop, orders, monkeypatch):
    """What is appended while it follows is delivered; SIGTERM ends it with exit code 0."""
    monkeypatch.setattr(subscribe, "POLL", 0.01)

    def append_and_stop():
        time.sleep(0.3)
        write(orders, NOW, ("e", 1))
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=append_and_stop)
    thread.start()
    result = shop.run("subscribe", "orders", "--follow")
    thread.join()
    assert short(result) == [-HOUR + 1, "e+1@0", 1]
    assert orders.storage.list_files("leases") == []


def test_a_reader_that_is_gone_ends_it(shop, orders):
    code = "from dbt.adapters.mvsink.cli.main import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "subscribe", "orders", "--snapshot", "--follow"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=shop.root,
    )
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(60) == 0, process.stderr.read()
    assert process.stderr.read() == b""
    process.stderr.close()


def test_row_l_what_a_killed_process_left_beside_its_position_is_gone_with_the_next(tmp_path, monkeypatch):
    path = tmp_path / "pos.json"
    first, second = (subscribe.FeedPosition("s", 0, frontier) for frontier in (1, 2))
    subscribe.write_position(path, first)
    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        subscribe.write_position(path, second)
    assert subscribe.read_position(path) == first and os.listdir(tmp_path) == ["pos.json"]
