"""`mvsink plan` without dbt: what is made of a read-only run's result, what is shown, and how it
exits.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import click
import pytest

from dbt.adapters.mvsink.cli import behind as module
from dbt.adapters.mvsink.cli.commands import plan as command
from dbt.adapters.mvsink.cli.commands.plan import exit_code
from dbt.adapters.mvsink.cli.dbt_runner import Dbt, DbtFailed, Model, RunResult, flat
from dbt.adapters.mvsink.cli.model_plan import planned
from dbt.adapters.mvsink.cli.rehearsal import Rehearsed
from tests.unit.cli.shop import HOUR, NOW

SAMPLE = [{"diff": 2, "row": {"id": 1, "name": None}}, {"diff": -1, "error": "division by zero"}]
PREVIEW = {"gate": None, "errors": 0, "compacted": {"files": 0, "updates": 0}, "sample": []}


def ran(
    name="orders",
    status="success",
    message="",
    inserted=0,
    deleted=0,
    next_refresh=None,
    generation="",
    added=None,
    **preview,
):
    response = {
        "rows_inserted": inserted,
        "rows_deleted": deleted,
        "generation": generation,
        "preview": {**PREVIEW, **preview},
    }
    response["columns_added"] = added or {}
    if next_refresh:
        response["next_refresh"] = next_refresh
    return RunResult(
        f"model.shop.{name}", status, message, f"s.{name}", "", response if status == "success" else {}
    )


EXITS = {
    "nothing": ([ran()], 0, 0),
    "no models": ([], 0, 0),
    "rows": ([ran(inserted=1)], 0, 2),
    "rows of one of them": ([ran(), ran(deleted=1)], 0, 2),
    "errors": ([ran(errors=1)], 0, 2),
    "a new generation": ([ran(generation="columns changed")], 0, 2),
    "columns that are NULL in every row": ([ran(added={"c": "bigint"})], 0, 2),
    "a gate that lets it through": ([ran(inserted=1, gate="")], 0, 2),
    "a gate that would fail": ([ran(inserted=1, gate="too much")], 1, 1),
    "a model that fails": ([ran(inserted=1), ran(status="error", message="no")], 1, 1),
    "one that is skipped for it": ([ran(status="skipped")], 1, 1),
}


COMPUTED = {
    "incremental": ("incremental", "", "incremental"),
    "in full, with the reason": ("evaluated", "its data is small", "in full: its data is small"),
    "in full": ("evaluated", "", "in full"),
    "unchanged": ("unchanged", "", "inputs unchanged"),
    "not due": ("none", "", ""),
}


@pytest.mark.parametrize(("mode", "reason", "shown"), COMPUTED.values(), ids=COMPUTED)
def test_how_it_was_computed(mode, reason, shown):
    result = ran()
    result.response.update(mode=mode, not_incremental=reason)
    plan = planned(result)
    assert (plan.mode, plan.not_incremental) == (mode, reason)
    [column] = [column for column in command.COLUMNS if column.title == "computed"]
    assert column.text(plan) == shown


@pytest.mark.parametrize(("results", "plain", "detailed"), EXITS.values(), ids=EXITS)
def test_exit_codes(results, plain, detailed):
    plans = [planned(result) for result in results]
    assert (exit_code(plans, False), exit_code(plans, True)) == (plain, detailed)


@pytest.fixture
def dbt(monkeypatch):
    """dbt with made-up results; what it was asked for."""
    asked = {}

    def run(self, models, manifest=None):
        asked.update(ran=[model.name for model in models], vars=self.vars, dbt=self)
        return [
            ran(
                "orders",
                inserted=1200,
                deleted=3,
                next_refresh=NOW + HOUR,
                gate="",
                sample=SAMPLE,
                compacted={"files": 4, "updates": 99},
            ),
            ran("customers", inserted=1, gate="2 rows, max_change allows 1"),
            ran("broken", status="error", message="no such table"),
        ]

    def models(self, select, exclude, manifest=None):
        asked.update(select=select, exclude=exclude)
        kinds = {
            "orders": "self_correcting_mv",
            "stg": "view",
            "customers": "self_correcting_mv",
            "t": "table",
        }
        return [Model(f"model.shop.{name}", kind, f"shop.{name}") for name, kind in kinds.items()]

    depends = {"customers": ["stg"], "stg": []}
    nodes = {
        f"model.shop.{name}": SimpleNamespace(
            depends_on=SimpleNamespace(nodes=[f"model.shop.{each}" for each in read])
        )
        for name, read in depends.items()
    }
    asked["nodes"] = nodes

    def parsed(self):
        asked["parsed"] = self
        return SimpleNamespace(nodes=nodes)

    monkeypatch.setattr(Dbt, "parsed", parsed)
    monkeypatch.setattr(Dbt, "run", run)
    monkeypatch.setattr(Dbt, "models", models)
    return asked


def test_what_is_shown(shop, dbt):
    result = shop.run("plan")
    assert result.exit_code == 1
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "orders +1,200 -3 2025-11-20T16:00:00Z 4 files, 99 updates passes" in lines
    assert "customers +1 -0 every run would fail: 2 rows, max_change allows 1" in lines
    assert "broken fails every run" in lines or "broken fails" in lines
    assert lines[lines.index("broken") + 1] == "no such table"
    assert lines[lines.index("orders") :][:4] == [
        "orders",
        "id name",
        "+ 1 NULL (2 copies)",
        "- error: division by zero",
    ]


def test_a_paused_model_changes_nothing_and_says_who_paused_it():
    paused = RunResult("model.shop.m", "success", "left as it is", "s.m", "", {"paused": "paused by alice"})
    plan = planned(paused)
    assert (plan.paused, plan.changes, plan.fails) == ("paused by alice", False, False)


def test_what_dbt_is_asked_for(shop, dbt):
    shop.run(
        "plan",
        "--select",
        "orders+",
        "tag:a",
        "--exclude",
        "stg",
        "--vars",
        "{a: 1}",
        "--sample",
        "7",
        "--target",
        "prod",
    )
    assert (dbt["select"], dbt["exclude"]) == (["orders+", "tag:a"], ["stg"])
    assert dbt["ran"] == ["orders", "customers"]  # only what is maintained: all else would be built
    assert dbt["vars"] == {"a": 1, "mvsink_read_only": True, "mvsink_sample": 7}
    assert dbt["parsed"].vars == {"a": 1}  # with others dbt would read the whole project again
    assert (dbt["dbt"].target, dbt["dbt"].project_dir) == ("prod", str(shop.root))


def test_another_state_is_for_selectors_and_to_defer_to(shop, dbt, monkeypatch):
    monkeypatch.undo()
    invoked = []
    monkeypatch.setattr(Dbt, "_invoke", lambda self, command, *_: invoked.append(list(command)))
    monkeypatch.chdir(shop.root)
    place = Dbt(".", ".", state="/artifacts", defer=True, favor_state=True)
    place.models(["state:modified+"], [])
    with pytest.raises(AttributeError):
        place.run([Model("model.shop.orders", "view", "shop.orders")])
    assert invoked[0][-4:] == ["--select", "state:modified+", "--state", "/artifacts"]
    assert invoked[1] == [
        "run",
        "--select",
        "shop.orders",
        "--state",
        "/artifacts",
        "--defer",
        "--favor-state",
    ]


def test_markdown(shop, dbt):
    result = shop.run("plan", "--output", "markdown")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[:4] == [
        "### mvsink plan: shop, target dev",
        "",
        "| model | change | next refresh | compaction | gate |",
        "| --- | --- | --- | --- | --- |",
    ]
    assert "| customers | +1 -0 | every run |  | would fail: 2 rows, max\\_change allows 1 |" in lines
    folded = lines.index("<details><summary>orders</summary>")
    assert lines[folded + 2 : folded + 8] == [
        "```diff",
        "   id  name",
        "+  1   NULL  (2 copies)",
        "-  error: division by zero",
        "... --sample shows more",
        "```",
    ]


def test_the_json(shop, dbt, monkeypatch):
    monkeypatch.setattr(command, "exit_code", lambda *_: 0)
    output = shop.as_json("plan")
    assert (output["project"], output["target"], output["changes"]) == ("shop", "dev", True)
    assert output["against"] is None
    by_name = {model.pop("model"): model for model in output["models"]}
    assert by_name["orders"] == {
        "unique_id": "model.shop.orders",
        "relation": "s.orders",
        "inserted": 1200,
        "deleted": 3,
        "errors": 0,
        "generation": "",
        "columns_added": {},
        "columns_widened": {},
        "columns_removed": [],
        "columns_retyped": {},
        "next_refresh": NOW + HOUR,
        "gate": True,
        "gate_message": "",
        "compacted": {"files": 4, "updates": 99},
        "overtaken": "",
        "paused": "",
        "sample": SAMPLE,
        **dict.fromkeys(("seconds", "bytes_written", "difference")),
        "mode": "",
        "not_incremental": "",
        "message": "",
        "error": "",
        "pending": False,
        "behind": [],
        "unknown": "",
    }
    assert (by_name["customers"]["gate"], by_name["broken"]["error"]) == (False, "no such table")


def test_nothing_is_selected(shop, dbt, monkeypatch):
    monkeypatch.setattr(Dbt, "models", lambda *_: [])
    result = shop.run("plan", "--detailed-exitcode")
    assert (result.exit_code, result.stdout) == (0, "no maintained models are selected\n")


def test_a_project_that_dbt_cannot_parse(shop, dbt, monkeypatch):
    def parsed(self):
        raise DbtFailed("Compilation Error in model orders")

    monkeypatch.setattr(Dbt, "parsed", parsed)
    result = shop.run("plan")
    assert result.exit_code == 1 and "Error MVS-836: Compilation Error in model orders" in result.stderr


@pytest.mark.parametrize(
    ("option", "words"), [((), []), ((("a", "b"), ("c",)), ["a", "b", "c"]), (("a",), ["a"]), ("a", ["a"])]
)
def test_words_of_a_selection(option, words):
    assert flat(option) == words


# models behind one that would change


SIDE = {"relation": "s.customers", "rows": 5}
NO_COLUMNS = {"only_in_a": [], "only_in_b": [], "retyped": {}}
COUNTS = {"only_in_a": 1, "only_in_b": 2, "changed": 3, "errors": 0, "repeated_keys": 0}
DIFFERENCE = {**COUNTS, "key": ["id"], "columns": NO_COLUMNS, "a": SIDE, "b": SIDE, "sample": []}
FORECAST = {
    "generation": "",
    "added": {},
    "removed": [],
    "retyped": {},
    "gate": None,
    "gate_message": "",
    "error": "",
}


@pytest.fixture
def later(dbt, monkeypatch):
    """`customers` reads `orders`, which would change. What runs in temporary schemas, and how."""
    dbt["nodes"]["model.shop.stg"].depends_on.nodes.append("model.shop.orders")
    rehearsed = {"failure": None, "ran": []}

    class Place:
        dbt = Dbt(".", ".")

        def run(self, models, manifest, sample):
            rehearsed["ran"] += [model.name for model in models]
            if rehearsed["failure"] is not None:
                raise rehearsed["failure"]
            return [Rehearsed(ran("customers"), DIFFERENCE, FORECAST)]

    @contextmanager
    def rehearsal(*_):
        yield Place()

    monkeypatch.setattr(module, "rehearsal", rehearsal)
    monkeypatch.setattr(command, "sample_of", lambda difference, all_columns: ["a row"])
    return rehearsed


def shown(shop, *options):
    plans = json.loads(shop.run("plan", "--output", "json", *options).stdout)["models"]
    return {plan["model"]: (plan["inserted"], plan["deleted"], plan["unknown"]) for plan in plans}


def test_a_model_behind_one_that_changes_is_computed_from_what_that_would_hold(shop, later):
    assert shown(shop)["customers"] == (5, 4, "")
    assert later["ran"] == ["orders", "stg", "customers"]  # in the project's order, views between included
    lines = [" ".join(line.split()) for line in shop.run("plan").stdout.splitlines()]
    assert "customers +5 -4 from what orders would hold every run" in lines


def test_where_that_is_not_possible_or_not_wanted_its_rows_are_not_known(shop, later):
    assert shown(shop, "--quick")["customers"] == (None, None, "it reads orders, which would change")
    assert later["ran"] == []
    later["failure"] = click.UsageError("the schemas are fixed")
    assert shown(shop)["customers"] == (
        None, None, "what it reads cannot be computed before the run: the schemas are fixed"
    )  # fmt: skip
    lines = [" ".join(line.split()) for line in shop.run("plan").stdout.splitlines()]
    assert any(line.startswith("customers ? what it reads cannot be computed") for line in lines)


def as_task(models):
    """`orders` is a task."""

    def listed(*arguments):
        return [
            replace(each, materialized="continual_task") if each.name == "orders" else each
            for each in models(*arguments)
        ]

    return listed


def test_a_task_behind_a_change_and_what_reads_it_are_not_known(shop, later, monkeypatch):
    """`customers` are a task that reads `orders`; `report` reads it."""

    def models(self, select, exclude, manifest=None):
        kinds = {
            "orders": "self_correcting_mv",
            "customers": "continual_task",
            "report": "self_correcting_mv",
        }
        return [Model(f"model.shop.{name}", kind, f"shop.{name}") for name, kind in kinds.items()]

    nodes = {
        "model.shop.customers": SimpleNamespace(depends_on=SimpleNamespace(nodes=["model.shop.orders"])),
        "model.shop.report": SimpleNamespace(depends_on=SimpleNamespace(nodes=["model.shop.customers"])),
    }
    task = replace(ran("customers"), response={"input": "select 1", "pending": 0})
    monkeypatch.setattr(Dbt, "models", models)
    monkeypatch.setattr(Dbt, "parsed", lambda self: SimpleNamespace(nodes=nodes))
    monkeypatch.setattr(Dbt, "run", lambda *_: [ran("orders", inserted=1), task, ran("report")])
    assert shown(shop)["customers"] == (None, None, "a task: it would process what orders would change")
    assert shown(shop)["report"][2] == "it reads customers, a task that may have changes to process"
    assert later["ran"] == []


@pytest.mark.parametrize(
    ("upstream", "why"),
    [
        (ran("orders", status="error", message="no"), "it reads orders, which would fail"),
        (
            replace(ran("orders"), response={"input": "select 1", "pending": None}),
            "it reads orders, a task that may have changes to process",
        ),
    ],
)
def test_behind_one_that_fails_or_a_task_nothing_is_known(shop, later, monkeypatch, upstream, why):
    if upstream.response:
        monkeypatch.setattr(Dbt, "models", as_task(Dbt.models))
    monkeypatch.setattr(Dbt, "run", lambda *_: [upstream, ran("customers")])
    assert shown(shop)["customers"] == (None, None, why)
    assert later["ran"] == []


def test_behind_a_task_with_nothing_to_do_everything_is_as_it_is(shop, later, monkeypatch):
    monkeypatch.setattr(Dbt, "models", as_task(Dbt.models))
    task = replace(ran("orders"), response={"input": "select 1", "pending": 0})
    monkeypatch.setattr(Dbt, "run", lambda *_: [task, ran("customers")])
    assert shown(shop)["customers"] == (0, 0, "")


def test_what_is_not_known_may_change(shop, later):
    assert shop.run("plan", "--quick", "--detailed-exitcode").exit_code == 1
    unknown = replace(planned(ran()), inserted=None, deleted=None, unknown="why")
    assert (exit_code([unknown], False), exit_code([unknown], True)) == (0, 2)


def test_quick_means_nothing_with_against(shop, dbt):
    assert shop.run("plan", "--quick", "--against", "prod").exit_code == 2
