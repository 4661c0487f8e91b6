"""`mvsink undo`: what it asks, shows, refuses and records. DuckDB takes the place of dbt."""

from __future__ import annotations

import json
from dataclasses import asdict
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from dbt.adapters.mvsink.cli.commands.undo import Undoing
from dbt.adapters.mvsink.cli.dbt_runner import Dbt, DbtFailed, MacroOutput, RunResult
from dbt.adapters.mvsink.cli.main import cli
from dbt.adapters.mvsink.engine import DataflowError
from dbt.adapters.mvsink.shard import Antichain, ReadPoints, ShardClient, WriteHandle
from dbt.adapters.mvsink.shard_sql.properties import Pause, pause_of
from dbt.adapters.mvsink.sink import Audit, Gate, MaxChange
from dbt.adapters.mvsink.sink.undoing import UndoRequest, undo
from tests.support.duck_engine import DuckEngine
from tests.unit.cli.shop import HOUR, NOW, write

AUDITS = (
    Audit(
        "no_more_than_one_c",
        lambda rows: f"select x, count(*) n from ({rows}) where x = 'c' group by x having count(*) > 1",
        lambda rows: f"select count(*), false, count(*) > 1 from ({rows}) where x = 'c'",
    ),
    Audit(
        "some_a",
        lambda rows: f"select 1 where not exists (select * from ({rows}) where x = 'a')",
        lambda rows: f"select 1, count(*) = 0, false from ({rows}) where x = 'a'",
    ),
)


@pytest.fixture
def audits():
    """Those of the model; a test may add some."""
    return []


@pytest.fixture(autouse=True)
def operations(monkeypatch, audits):
    """What is asked of dbt, answered by DuckDB; the model allows changes of 3 rows."""
    asked = []

    def operation(self, macro, arguments, manifest=None):
        request = json.loads(arguments["request"])
        asked.append(request)
        assert macro == "mvsink_undo" and (request["schema"], request["identifier"]) == ("s", "orders")
        with WriteHandle.from_read(ShardClient().open_reader(request["uri"])) as handle:
            values = {
                "model": "s.orders",
                "intervals": tuple(map(tuple, request["intervals"])),
                "time": NOW,
                "reason": request["reason"],
                "pause": Pause(request["by"], NOW, request["reason"]),
                "gate": Gate(
                    MaxChange(rows=3), () if request["accept"] else tuple(audits), request["accept"]
                ),
                "invocation_id": "undoing",
                "dry_run": request["dry_run"],
            }
            try:
                done = undo(UndoRequest(**values), handle, DuckEngine())
            except DataflowError as error:
                raise DbtFailed(str(error)) from error
        return MacroOutput([json.dumps(asdict(done))])

    monkeypatch.setattr(Dbt, "parsed", lambda self: SimpleNamespace(nodes={}))
    monkeypatch.setattr(Dbt, "operation", operation)
    monkeypatch.setenv("MVSINK_USER", "alice")
    return asked


@pytest.fixture
def orders(shop):
    """Three runs; the last takes away a row that the second added."""
    handle = shop.shard("s.orders", "orders")
    write(handle, NOW - 3 * HOUR, ("a", 1), ("b", 1), invocation_id="aaaa1111", rows_inserted=2)
    write(
        handle, NOW - 2 * HOUR, ("a", -1), ("c", 2), invocation_id="bbbb2222", rows_inserted=2, rows_deleted=1
    )
    write(handle, NOW - HOUR, ("c", -1), ("d", 3), invocation_id="cccc3333", rows_inserted=3, rows_deleted=1)
    return handle


def contents(handle):
    with ShardClient().open_reader(handle.uri) as reader:
        rows = reader.snapshot(handle.state().upper.stored() - 1).to_pylist()
    return {row["x"]: row["_mv_diff"] for row in rows}


BEFORE = {"b": 1, "c": 1, "d": 3}


def test_the_newest_run_is_taken_back_the_model_paused_and_both_are_in_the_history(shop, orders):
    result = shop.run("undo", "orders", "-1", "--yes", "--reason", "wrong\nfile")
    assert result.exit_code == 0, result.output
    assert "changes it by +1 -3 at 2025-11-20T15:00:00Z" in result.output
    assert "the next run would compute its query again" in result.output
    assert contents(orders) == {"b": 1, "c": 2}
    why = "undo of run cccc3333 (2025-11-20T14:00:00Z): wrong file"
    assert pause_of(orders.state()) == Pause("alice", NOW, why)
    newest, before = shop.as_json("history", "orders", "--limit", "2")["commits"]
    assert (newest["kind"], newest["purpose"], newest["invocation_id"]) == (
        "append",
        f"{why}; by alice",
        "undoing",
    )
    assert (newest["rows_inserted"], newest["rows_deleted"], newest["time"] > 0) == (1, 3, True)
    assert before["purpose"] == f"paused by alice at 2025-11-20T15:00:00Z: {why}"


ANSWERS = {
    "the newest": (("-1",), (1, 3, 0, False)),
    "by id": (("cccc",), (1, 3, 0, False)),
    "all since": (("bbbb", "--since"), (1, 4, 0, False)),
    "both, in any order": (("cccc", "-2"), (1, 4, 0, False)),
    "one of which another took a row": (("bbbb",), (1, 2, 1, True)),
}


@pytest.mark.parametrize("runs, expected", ANSWERS.values(), ids=ANSWERS)
def test_a_dry_run_says_what_would_change_and_changes_nothing(shop, orders, runs, expected):
    before = orders.state()
    result = shop.run("undo", "orders", *runs, "--accept", "--dry-run", "--output", "json")
    answer = json.loads(result.stdout)
    assert (answer["inserted"], answer["deleted"], answer["missing"]) == expected[:3], answer
    assert result.exit_code == int(expected[3]) and not answer["committed"]
    assert orders.state() == before and contents(orders) == BEFORE


def test_the_keys_of_the_json(shop, orders):
    result = shop.run("undo", "orders", "bbbb", "--dry-run", "--output", "json")
    assert json.loads(result.stdout) == {
        "model": "orders",
        "relation": "s.orders",
        "runs": [{"invocation_id": "bbbb2222", "computed_through": NOW - 2 * HOUR}],
        "since": False,
        "later": [{"invocation_id": "cccc3333", "computed_through": NOW - HOUR}],
        "inserted": 1,
        "deleted": 2,
        "errors": 0,
        "time": NOW,
        "missing": 1,
        "gate": "",
        "warnings": [],
        "committed": False,
        "downstream": [],
    }


def test_an_undo_that_would_leave_a_row_fewer_than_0_times_is_refused_and_names_the_later_runs(
    shop, orders, operations
):
    result = shop.run("undo", "orders", "-2", "--yes")
    assert result.exit_code == 1 and "1 row(s) would be there fewer than 0 times" in result.output
    assert "cccc3333" in result.output and "--since" in result.output
    assert contents(orders) == BEFORE and pause_of(orders.state()) is None
    assert [request["dry_run"] for request in operations] == [False, True]  # the second one to say why


def test_without_a_question_it_is_computed_once(shop, orders, operations):
    result = shop.run("undo", "orders", "cccc", "--yes")
    assert result.exit_code == 0, result.output
    assert "changes it by +1 -3" in result.output and "undone by alice" in result.output
    assert [request["dry_run"] for request in operations] == [False]


def test_an_error_that_is_no_refusal_is_shown_and_nothing_is_written(shop, orders, monkeypatch):
    def failing(self, dry_run):
        if not dry_run:
            raise DbtFailed("another run changed it while the undo was computed")
        return asked(self, dry_run=dry_run)

    asked = Undoing.ask
    monkeypatch.setattr(Undoing, "ask", lambda self, *, dry_run: failing(self, dry_run))
    result = shop.run("undo", "orders", "cccc", "--yes")
    assert result.exit_code == 1 and "another run changed it" in result.output
    assert "undone by" not in result.output and contents(orders) == BEFORE


def test_the_gate_refuses_what_changes_too_much_unless_it_is_accepted(shop, orders):
    result = shop.run("undo", "orders", "bbbb", "--since", "--yes")
    assert result.exit_code == 1 and "--accept lets it through): 4 rows, max_change allows 3" in result.output
    assert contents(orders) == BEFORE
    assert shop.run("undo", "orders", "bbbb", "--since", "--yes", "--accept").exit_code == 0
    assert contents(orders) == {"a": 1, "b": 1}


def test_audits_judge_what_would_be_left(shop, orders, audits):
    audits.extend(AUDITS)
    result = shop.run("undo", "orders", "-1", "--yes")
    assert result.exit_code == 1 and contents(orders) == BEFORE
    assert "--accept lets it through): the new contents fail their audit" in result.output
    assert "no_more_than_one_c: 2 failures\n    x=c, n=2" in result.output
    answer = json.loads(shop.run("undo", "orders", "-1", "-2", "--dry-run", "--output", "json").stdout)
    assert (answer["gate"], answer["warnings"]) == ("4 rows, max_change allows 3", [])


def test_audits_that_warn_are_shown(shop, orders, audits):
    audits.extend(AUDITS)
    write(orders, NOW - HOUR // 2, ("e", 1), invocation_id="eeee5555", rows_inserted=1)
    answer = json.loads(shop.run("undo", "orders", "-1", "--dry-run", "--output", "json").stdout)
    assert (answer["gate"], answer["warnings"]) == ("", ["audit some_a: 1 failure"])
    assert "warning: audit some_a: 1 failure" in shop.run("undo", "orders", "-1", "--yes").output


@pytest.mark.parametrize("answer, written", [("n\n", False), ("", False), ("y\n", True)])
def test_it_asks(shop, orders, answer, written):
    result = CliRunner().invoke(cli, ["undo", "orders", "-1"], input=answer)
    assert result.exit_code == int(not written) and (contents(orders) != BEFORE) is written


def test_a_run_that_changed_nothing_is_nothing_to_undo(shop, orders, operations):
    write(orders, NOW - HOUR // 2, invocation_id="dddd4444")
    result = shop.run("undo", "orders", "dddd", "--yes")
    assert (result.exit_code, operations) == (0, []) and "nothing was changed" in result.output


USAGE = {
    "an unknown model": (("nope", "-1"), 2, "nope"),
    "an unknown run": (("orders", "ffff9999"), 2, "cccc3333"),
    "too far back": (("orders", "-9"), 2, "-9"),
    "a misspelled option": (("orders", "-1", "--sinse"), 2, "--sinse"),
    "json that would ask": (("orders", "-1", "--output", "json"), 2, "--yes"),
}


@pytest.mark.parametrize("arguments, code, expected", USAGE.values(), ids=USAGE)
def test_wrong_usage(shop, orders, operations, arguments, code, expected):
    result = shop.run("undo", *arguments)
    assert result.exit_code == code and expected in result.output and operations == []


def compacted(orders):
    orders.downgrade_since(Antichain.of(NOW - HOUR))


def dropped(orders):
    orders.mark_dropped(NOW)


def of_a_task(orders):
    orders.set_properties({"input": "{}"})


REFUSED = {
    "history that is gone": (compacted, ("-1",), "retain_history"),
    "a dropped shard": (dropped, ("-1",), "was dropped"),
    "a task": (of_a_task, ("-1",), "is a task"),
    "the first run, before which there was nothing": (lambda orders: None, ("aaaa",), "retain_history"),
}


@pytest.mark.parametrize("happens, runs, expected", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_undone_is_refused_before_dbt_runs(shop, orders, operations, happens, runs, expected):
    happens(orders)
    result = shop.run("undo", "orders", *runs, "--yes")
    assert result.exit_code == 1 and expected in result.output, result.output
    assert operations == []


# models downstream


@pytest.fixture
def chain(shop, orders):
    """`sums` has read what the newest run wrote, `report` read `sums` since, `old` read earlier."""
    read = {
        "sums": ("s.orders", NOW - HOUR),
        "report": ("`s`.`sums`", NOW),
        "old": ("s.orders", NOW - 2 * HOUR),
    }
    for name, (source, time) in read.items():
        write(shop.shard(f"s.{name}", name), NOW, ("x", 1), read=ReadPoints({source: time}))


def test_models_that_have_read_what_is_undone_are_named(shop, chain):
    result = shop.run("undo", "orders", "-1", "--dry-run")
    assert "was read by sums, report: they follow with their next run" in result.stdout
    assert shop.as_json("undo", "orders", "-1", "--dry-run")["downstream"] == ["sums", "report"]
    refused = json.loads(shop.run("undo", "orders", "-2", "--dry-run", "--output", "json").stdout)
    assert refused["downstream"] == ["old", "sums", "report"]


@pytest.mark.parametrize("status", ["success", "error"])
def test_they_are_run_if_that_is_asked_for(shop, chain, monkeypatch, status):
    config = SimpleNamespace(materialized="self_correcting_mv")
    nodes = {
        f"model.shop.{name}": SimpleNamespace(config=config, fqn=["shop", name])
        for name in ("sums", "report")
    }
    ran = []

    def run(self, models, manifest=None):
        ran.extend(model.selector for model in models)
        return [RunResult(model.unique_id, status, f"of {model.name}", "", "", {}) for model in models]

    monkeypatch.setattr(Dbt, "parsed", lambda self: SimpleNamespace(nodes=nodes))
    monkeypatch.setattr(Dbt, "run", run)
    shop.run("undo", "orders", "-1", "--dry-run", "--downstream")
    assert ran == []
    result = shop.run("undo", "orders", "-1", "--yes", "--downstream")
    assert ran == ["shop.sums", "shop.report"] and "report: of report" in result.stdout
    assert result.exit_code == (0 if status == "success" else 1)
