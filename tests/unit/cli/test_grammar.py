"""All commands are used alike: the same words for models, selectors, targets and output."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink.cli.dbt_runner import Dbt, Model
from dbt.adapters.mvsink.cli.main import MODULES
from tests.unit.cli.shop import NOW, write

# one model; the other arguments are points in time, or a new name
ONE = ("history", "diff", "blame", "subscribe", "undo", "import", "rename", "purge")
OWN_FORMS = ("metrics", "subscribe")  # of output
GROUP = ("session start", "session stop", "session status")  # about no model


@pytest.mark.parametrize("command", [*(each for each in MODULES if each != "session"), *GROUP])
def test_every_command_has_examples_and_the_common_options(shop, command):
    shown = shop.run(*command.split(), "--help").stdout
    examples = shown.partition("Examples:\n")[2].partition("\n\n")[0].splitlines()
    assert examples and all(line.strip().startswith(f"mvsink {command}") for line in examples)
    wanted = ["--target", "--vars", "--project-dir"]
    wanted += [] if command in OWN_FORMS else ["--output"]
    wanted += [] if command in (*ONE, *GROUP) else ["[MODELS]...", "--select", "--exclude", "--state"]
    assert [option for option in wanted if option not in shown] == []


@pytest.fixture
def selected(shop, monkeypatch):
    """What dbt is asked to select, from a project of two models, one of which has run."""
    asked = []

    def models(self, select, exclude, manifest=None):
        asked.append((list(select), list(exclude), self.state))
        kinds = {"orders": "self_correcting_mv", "fresh": "self_correcting_mv", "stg": "view"}
        return [Model(f"model.shop.{name}", kind, f"shop.{name}") for name, kind in kinds.items()]

    monkeypatch.setattr(Dbt, "parsed", lambda self: SimpleNamespace(nodes={}))
    monkeypatch.setattr(Dbt, "models", models)
    for name in ("orders", "others"):
        write(shop.shard(f"s.{name}", name), NOW, ("a", 1))
    return asked


def test_a_selector_selects_models_that_have_run(shop, selected):
    assert [each["model"] for each in shop.as_json("status", "--select", "tag:a")["shards"]] == ["orders"]
    assert [each["model"] for each in shop.as_json("status", "others", "-s", "x")["shards"]] == [
        "orders",
        "others",
    ]
    options = ("--exclude", "y", "--state", "artifacts")
    shop.as_json("status", *options)
    assert selected == [(["tag:a"], [], None), (["x"], [], None), ([], ["y"], "artifacts")]
    paused = json.loads(shop.run("hold", "--select", "x", "--yes", "--output", "json").stdout)["models"]
    assert [each["model"] for each in paused] == ["orders"]


def test_without_a_selector_dbt_reads_no_project(shop, selected):
    shop.as_json("status", "orders")
    assert selected == []


@pytest.mark.parametrize("command", ["hold", "release", "rewind", "drop"])
def test_a_command_that_changes_models_wants_some(shop, command):
    result = shop.run(command, "--yes")
    assert (result.exit_code, "which models? Give MODELS, or --select" in result.stderr) == (2, True)


def test_a_state_without_a_selector_is_wrong_usage(shop):
    assert shop.run("status", "--state", "artifacts").exit_code == 2
