"""Every command that takes a point in time, or a run, takes and refuses the same ones."""

from __future__ import annotations

import json

import pytest

from dbt.adapters.mvsink.cli.dbt_runner import Dbt, MacroOutput
from dbt.adapters.mvsink.shard import Antichain
from tests.support.dbt_on_duckdb import install
from tests.unit.cli.runs import FIRST, SCHEMA, SECOND, run, three_runs
from tests.unit.cli.shop import HOUR, NOW

UNDONE = {
    "counts": {"inserted": 1, "deleted": 0, "errors_inserted": 0, "errors_deleted": 0},
    "time": NOW,
    "missing": 0,
    "gate": "",
    "warnings": [],
    "committed": False,
}
COMMANDS = {
    "diff, A": ("diff", "orders", "POINT", "latest"),
    "diff, B": ("diff", "orders", "latest", "POINT"),
    "blame": ("blame", "orders", "--where", "id = 2", "--at", "POINT"),
    "subscribe": ("subscribe", "orders", "--from", "POINT"),
    "subscribe, contents": ("subscribe", "orders", "--from", "POINT", "--snapshot"),
    "undo": ("undo", "orders", "POINT", "--dry-run"),
}
RUNS_ONLY = ("undo",)


@pytest.fixture
def orders(shop, monkeypatch):
    """Three runs, and one more whose id begins like the first's."""
    engine = install(monkeypatch)
    read = Dbt.operation

    def operation(self, macro, arguments, manifest=None):
        if macro == "mvsink_undo":
            return MacroOutput([json.dumps(UNDONE)])
        return read(self, macro, arguments, manifest)

    monkeypatch.setattr(Dbt, "operation", operation)
    handle = three_runs(shop)
    run(handle, NOW, "aaaa2222-0", (9, "y", 1, 1))
    return handle, engine


def result(shop, command, point):
    return shop.run(*(point if word == "POINT" else word for word in COMMANDS[command]))


ACCEPTED = {  # a point, and whether it names a run
    "latest": ("latest", False),
    "in any case": ("Latest", False),
    "ISO 8601": ("2025-11-20T13:30:00Z", False),
    "ISO 8601, another zone": ("2025-11-20T14:30:00+01:00", False),
    "a date and a time": ("2025-11-20 13:30", False),
    "milliseconds": (str(SECOND), False),
    "an invocation id": ("bbbb2222-0", True),
    "a unique beginning": ("bbbb", True),
    "a longer one of two that begin alike": ("aaaa2", True),
    "the newest run": ("-1", True),
    "a run back": ("-2", True),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("point", "names_a_run"), ACCEPTED.values(), ids=ACCEPTED)
def test_what_is_a_point(shop, orders, command, point, names_a_run):
    done = result(shop, command, point)
    refused = command in RUNS_ONLY and not names_a_run
    assert done.exit_code == (2 if refused else 0), done.output
    assert not refused or f"Got: '{point}'" in done.stderr


BOUNDS = "the readable times are [2025-11-20T12:00:00Z"
REFUSED = {
    "a word": ("yesterday", "Got: 'yesterday'"),
    "nothing": ("", "Got: ''"),
    "too short for an id": ("bbb", "Got: 'bbb'"),
    "an unknown id": ("ffff", "the newest runs in its log: aaaa2222-0"),
    "two ids": ("aaaa", "2 runs begin with 'aaaa'"),
    "too far back": ("-9", "it has 4 runs of this generation that changed contents"),
    "-0": ("-0", "Got: '-0'"),
}
OUTSIDE = {
    "before the first run": (str(FIRST - 1), "Its contents begin there, with its first run"),
    "the same in ISO 8601": ("2025-11-20 11:00", "Its contents begin there, with its first run"),
    "not before upper": (str(NOW + 1), "No run has written contents for that time yet"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("point", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_point(shop, orders, command, point, words):
    done = result(shop, command, point)
    assert (done.exit_code, words in done.stderr) == (2, True), done.output


@pytest.mark.parametrize("command", ["diff, A", "diff, B", "blame", "subscribe, contents"])
@pytest.mark.parametrize(("point", "words"), OUTSIDE.values(), ids=OUTSIDE)
def test_what_is_outside_the_history(shop, orders, command, point, words):
    done = result(shop, command, point)
    assert done.exit_code == 2 and BOUNDS in done.stderr and words in done.stderr, done.output


@pytest.mark.parametrize("command", ["diff, A", "diff, B", "blame", "subscribe, contents"])
@pytest.mark.parametrize("point", ["2025-11-20 12:30", "1763641800000", "aaaa1111", "-4"])
def test_what_is_no_longer_kept(shop, orders, command, point):
    handle, _ = orders
    handle.downgrade_since(Antichain.of(SECOND))
    done = result(shop, command, point)
    assert done.exit_code == 2 and "the readable times are [2025-11-20T13:00:00Z" in done.stderr, done.output
    assert "`retain_history` (1 day by default) keeps more from the next run on" in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("point", "by_time"), {"bbbb": False, "2025-11-20 13:00": True}.items())
def test_a_generation_is_a_wall(shop, orders, command, point, by_time):
    """The changes from a time before it are not known; a run of an earlier one is named as such."""
    handle, _ = orders
    handle.replace([], SCHEMA, Antichain.of(NOW + HOUR), Antichain.of(NOW))
    done = result(shop, command, point)
    if by_time and command in ("undo", "subscribe"):
        assert done.exit_code in (1, 2) and done.stdout.count("_mv_progress") == 0, done.output
    else:
        assert done.exit_code == 2 and "the history before that is gone" in done.stderr, done.output
        assert "Generation 1 replaced all contents" in done.stderr
