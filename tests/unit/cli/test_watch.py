"""`mvsink watch` without dbt and Spark: its options, its lines, and that it goes on, backs off and
stops.
"""

from __future__ import annotations

import json
import os
import signal
from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink.cli.commands import watch as command
from dbt.adapters.mvsink.cli.commands.watch import lines
from dbt.adapters.mvsink.cli.dbt_runner import Dbt, DbtFailed, MacroOutput, Model, RunResult
from dbt.adapters.mvsink.cli.scheduler import Reason, WatchRound
from dbt.adapters.mvsink.connection.embedded import EmbeddedSpark
from dbt.adapters.mvsink.inputs.position import SHARD
from dbt.adapters.mvsink.inputs.probes import ProbedPlace, ProbedPlaces, Prober
from tests.unit.cli.shop import NOW


def ran(name, status="success", message="", **response):
    return RunResult(f"model.shop.{name}", status, message, f"s.{name}", "select 1", response)


def test_a_round_in_words():
    why = {
        f"model.shop.{name}": Reason(text, NOW + since)
        for name, text, since in (("a", "raw/a", 0), ("b", "upstream", 500))
    }
    wrote = ran("a", kind="append", rows_inserted=1200, rows_deleted=3)
    done = WatchRound((wrote, ran("b", kind="none")), why, NOW + 1000, NOW + 3400)
    assert list(lines(done, [])) == [
        "a +1,200 -3, b unchanged  (raw/a; fresh 3.4 s after the change, ran 2.4 s)"
    ]
    failed = WatchRound((ran("a", "error", "no such file"), ran("b", "skipped")), why, NOW, NOW + 2000)
    assert list(lines(failed, [ran("v", "error", "a view")])) == [
        "nothing ran  (raw/a; ran 2.0 s)",
        "  a failed: no such file",
        "  b skipped: ",
        "  v failed: a view",
    ]


class Manifest:
    """Two models, one of them a view."""

    class Node:
        schema, alias, config = "s", "orders", {}

    nodes = {"model.shop.orders": Node}

    def deepcopy(self):
        return self


@pytest.fixture
def dbt(monkeypatch):
    """dbt whose runs are taken from a list; what it ran. The last one is followed by a signal."""
    story = {"results": [], "ran": [], "signal": signal.SIGINT}

    def run(self, models, manifest=None):
        story["ran"].append([model.name for model in models])
        result = story["results"].pop(0) if story["results"] else None
        if result is None:
            os.kill(os.getpid(), story["signal"])
            raise AssertionError("the signal interrupts")
        if isinstance(result, Exception):
            raise result
        return result

    def operation(self, macro, arguments, manifest=None):
        """What a server answers: every query reads a table."""
        answer = json.dumps({"shards": [], "others": True})
        return MacroOutput([answer] * len(json.loads(arguments["request"])))

    models = [
        Model("model.shop.orders", "self_correcting_mv", "shop.orders"),
        Model("model.shop.stg", "view", "shop.stg"),
    ]
    monkeypatch.setattr(Dbt, "parsed", lambda self: Manifest())
    monkeypatch.setattr(Dbt, "models", lambda *_: models)
    monkeypatch.setattr(Dbt, "run", run)
    monkeypatch.setattr(Dbt, "operation", operation)
    monkeypatch.setattr(command.Prober, "written_by_others", lambda *_: False)
    monkeypatch.setattr(command.time, "sleep", lambda _: None)
    monkeypatch.setattr(command, "EMBEDDED", EmbeddedSpark())
    return story


QUICK = ("watch", "--interval", "1 ms", "--max-rate", "100000")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_goes_on_after_errors_and_stops_on_a_signal(shop, dbt, monkeypatch, number):
    now = iter(range(NOW, NOW + 10**9, 300))
    monkeypatch.setattr(command, "clock", lambda: next(now))
    good = [ran("stg"), ran("orders", kind="append", rows_inserted=3, rows_deleted=0)]
    dbt["results"] = [
        DbtFailed("no connection"),
        [ran("stg"), ran("orders", "error", "division by zero")],
        good[1:],
        good[1:],
    ]
    dbt["signal"] = number
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    result = shop.run(*QUICK)
    assert result.exit_code == 0, result.output
    printed = [line.split("Z  ", 1)[1] for line in result.stdout.splitlines()]
    assert printed[0] == "watching orders" and printed[-1] == "stopped"
    assert printed[1].startswith("dbt failed: MVS-836: no connection; trying again in ")
    assert printed[3] == "  orders failed: division by zero" and printed[4].startswith("  trying again in ")
    assert printed[5].startswith("orders +3 -0  (again, after a failure; ran ") and printed[6].startswith(
        "orders +3 -0  (its interval"
    )
    # Views are there once they have been made.
    assert dbt["ran"] == [["stg", "orders"], ["stg", "orders"], ["orders"], ["orders"], ["orders"]]
    assert {each: signal.getsignal(each) for each in before} == before


def test_json_has_a_line_per_round_and_the_rest_is_on_stderr(shop, dbt, monkeypatch):
    now = iter(range(NOW, NOW + 10**9, 1000))
    monkeypatch.setattr(command, "clock", lambda: next(now))
    wrote = ran("orders", kind="append", rows_inserted=3, rows_deleted=1)
    dbt["results"] = [[ran("stg"), wrote], [ran("orders", "error", " no such file ")], DbtFailed("no")]
    dbt["results"] += [[ran("orders", kind="none")]] * 500
    result = shop.run(*QUICK, "--until", "1 minute", "--output", "json")
    first, second, *_ = rounds = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 0 and len(rounds) > 2
    assert set(first) == {"started", "ended", "delay", "models"} and first["started"] < first["ended"]
    model = {"model": "orders", "unique_id": "model.shop.orders"}
    reason = first["models"][0]["reason"]
    assert reason and first["models"] == [
        {**model, "reason": reason, "status": "success", "kind": "append", "inserted": 3, "deleted": 1, "error": ""},
        {**dict.fromkeys(model | first["models"][0]), "model": "stg", "unique_id": "model.shop.stg", "status": "success", "error": ""},
    ]  # fmt: skip
    assert second["models"][0]["error"] == "no such file" and second["models"][0]["inserted"] is None
    assert all(text in result.stderr for text in ("watching orders", "dbt failed: MVS-836: no", "stopped"))


def test_until(shop, dbt, monkeypatch):
    now = iter(range(NOW, NOW + 10**9, 1000))
    monkeypatch.setattr(command, "clock", lambda: next(now))
    dbt["results"] = [[ran("orders", kind="none")]] * 500
    result = shop.run(*QUICK, "--until", "1 minute")
    assert result.exit_code == 0 and result.stdout.endswith("stopped\n") and 3 < len(dbt["ran"]) < 60


WRONG = {
    "--interval": ("soon", "expected an interval"),
    "--max-rate": ("0", "range"),
    "--until": ("whenever", "an ISO 8601 time"),
}


@pytest.mark.parametrize(("option", "value", "message"), [(name, *rest) for name, rest in WRONG.items()])
def test_wrong_options(shop, dbt, option, value, message):
    result = shop.run("watch", option, value)
    assert result.exit_code == 2 and option in result.stderr and message in result.stderr


def test_nothing_to_watch(shop, dbt, monkeypatch):
    monkeypatch.setattr(Dbt, "models", lambda *_: [Model("model.shop.stg", "view", "shop.stg")])
    result = shop.run("watch")
    assert result.exit_code == 2 and "no maintained models are selected" in result.stderr


COMPILED, INPUT = "the model's text", "select * from s.i"
ASKED = {
    "a view is run for all that it reads": ("self_correcting_mv", {}, {}, COMPILED, False),
    "a task for its input alone": ("continual_task", {}, {"input": INPUT}, INPUT, False),
    "one that waits for references, too": (
        "continual_task",
        {"on_late_reference": "wait"},
        {"input": INPUT},
        INPUT,
        False,
    ),
}


@pytest.mark.parametrize(
    ("materialized", "config", "response", "asked", "untrackable"), ASKED.values(), ids=ASKED
)
def test_what_a_model_is_run_for(materialized, config, response, asked, untrackable):
    queries = []
    prober = SimpleNamespace(
        inputs=lambda session, query: queries.append(query) or ProbedPlaces(), shard_of=lambda *_: None
    )
    node = SimpleNamespace(config={"materialized": materialized, **config})
    watch = command.Watch(None, SimpleNamespace(nodes={"m": node}), prober, scheduler=None)
    model = RunResult("m", "success", "", "s.log", COMPILED, response)
    assert watch._reader(object(), [model])(model) == (None, ProbedPlaces(untrackable=untrackable))
    assert queries == [asked]


OWN, OTHER = "/shards/s/a", "/shards/s/b"
ANSWERS = {
    "a shard": ({"shards": [OTHER], "others": False}, {ProbedPlace(SHARD, OTHER)}, False),
    "something else too": ({"shards": [OTHER], "others": True}, {ProbedPlace(SHARD, OTHER)}, True),
    "a shard that this machine does not reach": ({"shards": [OTHER, "/gone"], "others": False}, {ProbedPlace(SHARD, OTHER)}, True),
    "an error": ({"error": "no such table"}, set(), True),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "places", "untrackable"), ANSWERS.values(), ids=ANSWERS)
def test_what_a_server_says_of_the_inputs(monkeypatch, capsys, answer, places, untrackable):
    """Two models are asked for at once; what is wrong with one does not concern the other."""
    monkeypatch.setattr(command, "EMBEDDED", EmbeddedSpark())
    monkeypatch.setattr(Prober, "probe", lambda _, place, now: None if place.at == "/gone" else object())
    known = {}
    scheduler = SimpleNamespace(learned=lambda name, inputs, now, own: known.update({name: (inputs, own)}))
    own, fine = {"shards": [OWN], "others": False}, {"shards": [OTHER], "others": False}
    requests = []

    def operation(self, macro, arguments, manifest):
        requests.append(json.loads(arguments["request"]))
        return MacroOutput([json.dumps(each) for each in (own, answer, own, fine)])

    nodes = {name: SimpleNamespace(config={}) for name in ("model.shop.a", "model.shop.b")}
    manifest = SimpleNamespace(nodes=nodes)
    monkeypatch.setattr(Dbt, "operation", operation)
    watch = command.Watch(Dbt("", ""), manifest, Prober("/shards"), scheduler)
    watch._learn([ran("a"), ran("b")])
    failed = "error" in answer
    assert known == {
        "model.shop.a": (
            ProbedPlaces(frozenset(places), untrackable),
            None if failed else ProbedPlace(SHARD, OWN),
        ),
        "model.shop.b": (ProbedPlaces(frozenset({ProbedPlace(SHARD, OTHER)})), ProbedPlace(SHARD, OWN)),
    }
    assert requests == [["select * from `s`.`a`", "select 1", "select * from `s`.`b`", "select 1"]]
    printed = capsys.readouterr().out
    assert (
        "cannot determine what a reads, so it runs every interval: MVS-821: no such table" in printed
    ) is failed
    watch._learn([ran("a")])  # not again at once
    assert len(requests) == 1


def test_a_server_that_does_not_answer(monkeypatch, capsys):
    monkeypatch.setattr(command, "EMBEDDED", EmbeddedSpark())

    def operation(*_):
        raise DbtFailed("connection refused")

    known = {}
    scheduler = SimpleNamespace(learned=lambda name, inputs, now, own: known.update({name: (inputs, own)}))
    monkeypatch.setattr(Dbt, "operation", operation)
    watch = command.Watch(Dbt("", ""), None, Prober("/shards"), scheduler)
    watch._learn([ran("a"), ran("b")])
    assert known == {f"model.shop.{name}": (ProbedPlaces(untrackable=True), None) for name in "ab"}
    assert (
        "cannot determine what b reads, so it runs every interval: MVS-836: connection refused"
        in capsys.readouterr().out
    )
