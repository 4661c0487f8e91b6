"""`mvsink plan --against` without Spark: where models run, what they are compared with, and that
nothing is left. The queries of the comparison run on DuckDB.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink.cli import rehearsal
from dbt.adapters.mvsink.cli.dbt_runner import Dbt, DbtFailed, MacroOutput, Model, RunResult
from dbt.adapters.mvsink.cli.render import TableColumn, comment, escaped
from dbt.adapters.mvsink.shard import ShardClient
from dbt.adapters.mvsink.shard_sql.properties import Pause, pause
from tests.support.duck_engine import DuckEngine
from tests.support.shards import SCHEMA
from tests.unit.cli.shop import HOUR, NOW, PROFILES, write

MODELS = {
    "orders": "self_correcting_mv",
    "stg": "view",
    "log": "continual_task",
    "fresh": "self_correcting_mv",
}


class Manifest:
    """As much of dbt's as is asked for: where models are, and how it is written."""

    def __init__(self, schema):
        self.nodes = {
            f"model.shop.{name}": SimpleNamespace(schema=schema, alias=name, columns={}, constraints=[])
            for name in MODELS
        }

    def writable_manifest(self):
        return SimpleNamespace(write=lambda path: Path(path).write_text("{}"))


FORECAST = {
    "generation": "",
    "added": {},
    "removed": [],
    "retyped": {},
    "gate": None,
    "gate_message": "",
    "error": "",
}


def operation(asked, macro, arguments, manifest):
    """What the macros of a run in temporary schemas answer."""
    asked["operations"].append((macro, arguments))
    if macro != "mvsink_judge":
        return None
    requests = json.loads(arguments["request"])
    return MacroOutput([json.dumps({**FORECAST, **asked["forecast"]}) for _ in requests])


@pytest.fixture
def aside(shop, monkeypatch):
    """dbt that writes `orders` and `fresh` where its profile says; what it was asked for."""
    asked = {"operations": [], "schema": None, "rows": (("a", 1), ("x", 1)), "fails": None, "forecast": {}}

    def output(dbt):
        profile = json.loads((Path(dbt.profiles_dir) / "profiles.yml").read_text())["p"]
        return profile["outputs"][profile["target"]]

    def parsed(dbt):
        aside = Path(dbt.profiles_dir) != shop.root
        return Manifest((asked["schema"] or output(dbt)["schema"]) if aside else "s")

    def run(dbt, models, manifest=None):
        asked.update(dbt=dbt, ran=[model.name for model in models], output=output(dbt))
        if asked["fails"]:
            raise asked["fails"]
        results = []
        for model in models:
            schema, message = output(dbt)["schema"], asked.get("message", "")
            if model.maintained and not message:
                root = f"{output(dbt)['shard_root']}/{schema}/{model.name}"
                handle = ShardClient().open_writer(root, SCHEMA, "test")
                owner = {"project": "shop", "unique_id": model.unique_id, "target": "dev"}
                handle.set_properties({"owner": json.dumps(owner, sort_keys=True)})
                write(handle, NOW, *asked["rows"])
            response = {"rows_inserted": 2, "seconds": {"write": 1.25}, "bytes_staged": 2048}
            status = "error" if message else "success"
            results.append(
                RunResult(
                    model.unique_id,
                    status,
                    message,
                    f"{schema}.{model.name}",
                    "",
                    {} if message else response,
                )
            )
        return results

    monkeypatch.setattr(Dbt, "parsed", parsed)
    monkeypatch.setattr(Dbt, "run", run)
    monkeypatch.setattr(Dbt, "operation", lambda self, *arguments: operation(asked, *arguments))
    monkeypatch.setattr(
        Dbt,
        "models",
        lambda *_: [Model(f"model.shop.{name}", kind, f"shop.{name}") for name, kind in MODELS.items()],
    )
    monkeypatch.setattr(rehearsal, "through_dbt", lambda *_: DuckEngine().query)
    return asked


@pytest.fixture
def prod(shop):
    handle = shop.shard("s.orders", "orders", target="prod")
    write(handle, NOW - HOUR, ("a", 1), ("b", 1))
    return handle


def plan(shop, *arguments, code=0):
    result = shop.run("plan", "--against", "prod", *arguments)
    assert result.exit_code == code, result.output
    return result


def test_rows_against_the_other_targets(shop, aside, prod):
    result = plan(shop, "--output", "json", "--detailed-exitcode", code=2)
    output = json.loads(result.stdout)
    assert (output["target"], output["against"]) == ("dev", "prod")
    fresh, orders = output["models"]
    assert (orders["inserted"], orders["deleted"], orders["relation"]) == (1, 1, "s.orders")
    assert (orders["seconds"], orders["bytes_written"]) == (1.25, 2048)
    assert [(each["a"], each["b"]) for each in orders["difference"]["sample"]] == [
        ({"x": "b"}, None),
        (None, {"x": "x"}),
    ]
    assert (fresh["inserted"], fresh["deleted"], fresh["difference"], fresh["relation"]) == (
        2,
        0,
        None,
        "fresh",
    )
    assert "log is a continual task and is not planned: its statements run over each change" in result.stderr


def test_equal_contents_are_no_change(shop, aside, prod):
    aside["rows"] = (("a", 1), ("b", 1))
    write(shop.shard("s.fresh", "fresh", target="prod"), NOW - HOUR, ("a", 1), ("b", 1))
    plan(shop, "--detailed-exitcode")


def test_where_it_runs(shop, aside, prod, monkeypatch):
    monkeypatch.setenv("KEY", "secret")
    shop.profiles(
        PROFILES.replace(
            "schema: s, threads: 2}",
            "schema: s, threads: 2, storage_options: {key: \"{{ env_var('KEY') }}\"}}",
        )
    )
    plan(shop, "--vars", "{a: 1}")
    dbt, output = aside["dbt"], aside["output"]
    assert aside["ran"] == ["orders", "stg", "fresh"]
    assert output["schema"].startswith("mvsink_plan_") and len(output["schema"]) == 20
    assert (output["threads"], output["type"]) == (2, "mvsink")
    assert output["storage_options"] == {"key": "{{ env_var('KEY') }}"}  # secrets stay where they are
    assert (dbt.target, dbt.vars) == ("dev", {"a": 1, "mvsink_rehearsal": True})
    assert dbt.defer and dbt.state == str(Path(dbt.profiles_dir) / "state")
    assert dbt.target_path == str(Path(dbt.profiles_dir) / "target")  # what dbt keeps of runs stays
    assert aside["operations"][-1] == ("mvsink_end_rehearsal", {"schemas": [output["schema"]]})
    assert not Path(dbt.profiles_dir).exists()


def test_a_state_of_the_users_is_deferred_to(shop, aside, prod):
    plan(shop, "--defer", "--state", "artifacts")
    assert aside["dbt"].state == "artifacts"


@pytest.mark.parametrize("error", [DbtFailed("no"), RuntimeError("no"), KeyboardInterrupt()])
def test_nothing_is_left_after_a_failure(shop, aside, prod, error):
    aside["fails"] = error
    before = sorted(shop.shards.rglob("*"))
    assert shop.run("plan", "--against", "prod").exit_code != 0
    assert len(aside["operations"]) == 1
    assert not Path(aside["dbt"].profiles_dir).exists()
    assert sorted(shop.shards.rglob("*")) == before


def test_schemas_that_cannot_be_dropped_are_named(shop, aside, prod, monkeypatch):
    def failing(self, macro, *arguments):
        if macro == "mvsink_end_rehearsal":
            raise DbtFailed("no such thing")
        return operation(aside, macro, *arguments)

    monkeypatch.setattr(Dbt, "operation", failing)
    assert "temporary schemas are left: mvsink_plan_" in plan(shop).stderr


def test_schemas_that_do_not_follow_the_profile_are_refused_before_anything_runs(shop, aside, prod):
    aside["schema"] = "marts"
    result = plan(shop, code=2)
    assert "`generate_schema_name` returns marts regardless of the target's schema" in result.stderr
    assert "ran" not in aside and aside["operations"] == []


def test_a_target_that_does_not_exist(shop, aside):
    assert "does not have a target named 'nope'" in shop.run("plan", "--against", "nope").stderr


def test_a_gate_that_fails_and_another_failure(shop, aside, prod):
    aside["message"] = "the new contents fail their audit; nothing was written"
    models = json.loads(plan(shop, "--output", "json", code=1).stdout)["models"]
    assert [model["gate"] for model in models] == [False] * 3
    aside["message"] = "no such column"
    models = json.loads(plan(shop, "--output", "json", code=1).stdout)["models"]
    assert [(model["gate"], model["error"]) for model in models] == [(None, "no such column")] * 3


FORECASTS = {  # what the policies say, what is shown of it, the exit code
    "max_change": (
        {"gate": False, "gate_message": "9 rows, max_change allows 1"},
        "would fail: 9 rows, max_change allows 1",
        1,
    ),
    "a gate that passes": ({"gate": True}, "passes", 0),
    "on_schema_change: fail": ({"error": "the columns of the query differ"}, "the columns of the query", 1),
    "columns in place": ({"added": {"n": "int"}}, "+n", 0),
    "other columns": (
        {"generation": "columns changed", "removed": ["old"], "retyped": {"m": ["int", "bigint"]}},
        "-old, m: int -> bigint",
        0,
    ),
}


@pytest.mark.parametrize(("forecast", "shown", "code"), FORECASTS.values(), ids=FORECASTS)
def test_what_the_models_policies_say(shop, aside, prod, forecast, shown, code):
    aside["forecast"] = forecast
    assert shown in plan(shop, code=code).stdout
    [[request]] = [
        json.loads(each["request"]) for macro, each in aside["operations"] if macro == "mvsink_judge"
    ]
    assert request["change"] == {"before": 2, "after": 2, "inserted": 1, "deleted": 1}
    assert (request["uri"], request["columns"]) == (str(shop.at("s.orders")), {"x": "string"})
    model = json.loads(plan(shop, "--output", "json", code=code).stdout)["models"][1]
    names = {"added": "columns_added", "removed": "columns_removed", "retyped": "columns_retyped"}
    assert {name: model[names.get(name, name)] for name in forecast} == forecast


def test_a_paused_model_is_left_as_it_is(shop, aside, prod):
    pause(prod, Pause("alice", NOW, "wrong rates"))
    result = plan(shop, "--output", "json")
    orders = json.loads(result.stdout)["models"][1]
    assert aside["ran"] == ["stg", "fresh"]
    assert (orders["inserted"], orders["deleted"], orders["error"]) == (0, 0, "")
    assert orders["paused"] == "paused by alice at 2025-11-20T15:00:00Z: wrong rates"
    assert "paused by alice" in plan(shop).stdout


def test_a_table_that_fails_is_shown(shop, aside, prod):
    aside["message"] = "no such column"
    assert "stg" in plan(shop, code=1).stdout


SIGNALS = {  # a signal, and what the shell has made of Ctrl-C
    "SIGTERM": (signal.SIGTERM, signal.default_int_handler),
    "SIGINT": (signal.SIGINT, signal.default_int_handler),
    "SIGTERM of a job in the background": (signal.SIGTERM, signal.SIG_IGN),
}


@pytest.mark.parametrize(("number", "of_interrupts"), SIGNALS.values(), ids=SIGNALS)
def test_a_signal_deletes_everything(shop, aside, prod, monkeypatch, number, of_interrupts):
    def interrupted(dbt, models, manifest=None):
        aside.update(dbt=dbt)
        os.kill(os.getpid(), number)
        time.sleep(1)
        raise AssertionError("it goes on")

    monkeypatch.setattr(Dbt, "run", interrupted)
    before = signal.signal(signal.SIGINT, of_interrupts)
    try:
        result = shop.run("plan", "--against", "prod")
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.exit_code == 1 and "Aborted!" in result.stderr
    assert [macro for macro, _ in aside["operations"]] == ["mvsink_end_rehearsal"]
    assert not Path(aside["dbt"].profiles_dir).exists()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_comment(shop, aside, prod):
    lines = plan(shop, "--output", "markdown").stdout.splitlines()
    assert lines == [
        "### mvsink plan: shop, target dev, compared with prod",
        "",
        "| model | added | removed | changed | columns | first run | size |",
        "| --- | ---: | ---: | ---: | --- | --- | ---: |",
        "| fresh | 2 | 0 | 0 | a new model | 1.2 s | 2.0 kB |",
        "| orders | 1 | 1 | 0 |  | 1.2 s | 2.0 kB |",
        "",
        "<details><summary>orders</summary>",
        "",
        "```diff",
        "no key is known (a unique test, or a constraint): a changed row is one only now and one only after the run",
        "   x",
        "-  'b'",
        "+  'x'",
        "```",
        "",
        "</details>",
    ]


def test_no_text_is_markup():
    assert escaped("a|b\n<c> `d` *e*") == r"a\|b \<c\> \`d\` \*e\*"
    lines = list(comment("t", [TableColumn("n", str)], ["x" * 999, "x"], {"x": ["```", "a\nb"]}))
    assert len(lines[4]) == len("|  |") + 300
    assert lines[-6:] == ["````diff", "```", "a b", "````", "", "</details>"]
