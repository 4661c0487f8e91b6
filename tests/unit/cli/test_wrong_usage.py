"""Every command: a misspelled option, an unknown model, target or value are wrong usage (2), said
before Spark is started or anything is written.
"""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.cli.dbt_runner import Dbt
from dbt.adapters.mvsink.cli.main import MODULES

MODEL = {  # what each command takes besides its model
    "status": (),
    "metrics": (),
    "history": (),
    "diff": (),
    "blame": ("--where", "id = 1"),
    "subscribe": (),
    "hold": ("--yes",),
    "release": ("--yes",),
    "rewind": (),
    "undo": ("-1", "--yes"),
    "drop": ("--yes",),
    "purge": ("--where", "id = 1", "--yes"),
}
NO_MODEL = ("plan", "explain", "watch")
# whose model need not have run: tests/functional/cli/test_import.py, test_rename.py
READS_PROJECT = {"import": (), "rename": ("new",)}
ARGUMENTS = {**MODEL, **READS_PROJECT}
GROUP = "session"  # tests/functional/connection/test_warm_session.py
TAKES_NONE = ("status", "metrics")  # without a model: all of them


@pytest.fixture(autouse=True)
def no_dbt(monkeypatch):
    def refused(self, *arguments):
        raise AssertionError("dbt was started")

    monkeypatch.setattr(Dbt, "_invoke", refused)


def refused(shop, *arguments):
    before = sorted(shop.shards.rglob("*"))
    result = shop.run(*arguments)
    assert result.exit_code == 2, (result.output, result.exception)
    assert sorted(shop.shards.rglob("*")) == before
    return result.stderr


def test_every_command_is_here():
    assert MODULES.keys() == {*MODEL, *NO_MODEL, *READS_PROJECT, GROUP}


@pytest.mark.parametrize("command", MODEL)
def test_an_unknown_model(shop, orders, command):
    assert "Known: orders" in refused(shop, command, "nope", *MODEL[command])


@pytest.mark.parametrize("command", [command for command in MODEL if command not in TAKES_NONE])
def test_no_model(shop, orders, command):
    if command == "history":  # of all models
        assert shop.run("history").exit_code == 0
        return
    words = refused(shop, command)
    assert "Missing argument 'MODEL" in words or "which models? Give MODELS, or --select" in words


@pytest.mark.parametrize("command", [*MODEL, *NO_MODEL, *READS_PROJECT])
def test_a_misspelled_option(shop, orders, command):
    arguments = () if command in NO_MODEL else ("orders", *ARGUMENTS.get(command, ()))
    assert "No such option" in refused(shop, command, *arguments, "--no-such-option")


@pytest.mark.parametrize("command", [*MODEL, *NO_MODEL, *READS_PROJECT])
def test_an_unknown_target(shop, orders, command):
    arguments = () if command in NO_MODEL else ("orders", *ARGUMENTS.get(command, ()))
    assert "does not have a target named 'nope'" in refused(shop, command, *arguments, "--target", "nope")


@pytest.mark.parametrize("command", [*MODEL, *NO_MODEL, *READS_PROJECT])
def test_a_target_of_another_adapter(shop, orders, command):
    arguments = () if command in NO_MODEL else ("orders", *ARGUMENTS.get(command, ()))
    assert "is of type 'postgres', not 'mvsink'" in refused(
        shop, command, *arguments, "--target", "warehouse"
    )


OUTPUTS = [
    *(command for command in MODEL if command != "metrics"),
    "plan",
    "explain",
    "watch",
    "import",
    "rename",
]


@pytest.mark.parametrize("command", OUTPUTS)
def test_an_unknown_format(shop, orders, command):
    arguments = () if command in NO_MODEL else ("orders", *ARGUMENTS.get(command, ()))
    message = refused(shop, command, *arguments, "--output", "yaml")
    assert "'yaml' is not one of" in message and ("'json'" in message or "'ndjson'" in message)


@pytest.mark.parametrize("command", ["hold", "release", "undo", "drop", "purge"])
def test_json_that_would_ask(shop, orders, command):
    arguments = [word for word in MODEL[command] if word != "--yes"]
    message = refused(shop, command, "orders", *arguments, "--output", "json")
    assert "--output json cannot ask: add --yes" in message


NUMBERS = {
    "history --limit": ("history", "orders", "--limit", "0"),
    "diff --sample": ("diff", "orders", "--sample", "-1"),
    "blame --limit": ("blame", "orders", "--where", "x = 'a'", "--limit", "0"),
    "plan --sample": ("plan", "--sample", "many"),
    "watch --max-rate": ("watch", "--max-rate", "0"),
}


@pytest.mark.parametrize("arguments", NUMBERS.values(), ids=NUMBERS)
def test_an_invalid_number(shop, orders, arguments):
    assert f"Invalid value for '{arguments[-2]}'" in refused(shop, *arguments)
