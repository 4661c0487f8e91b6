"""What is generated from the table of options is current, the defaults that pages name by hand are
the code's, and editors get the right answers."""

from __future__ import annotations

import dataclasses
import re

import click
import pytest
from jsonschema import Draft202012Validator

from dbt.adapters.mvsink.cli.main import cli
from dbt.adapters.mvsink.credentials import MvsinkCredentials
from dbt.adapters.mvsink.materialization.options.table import OPTIONS, ModelOptions
from docs import generate
from tests.support.package_edges import ROOT

VALIDATOR = Draft202012Validator(generate.schema())
PARSE = {"self_correcting_mv": ModelOptions.parse, "continual_task": ModelOptions.parse_task}


def test_the_page_is_what_is_generated():
    """If not: python -m docs.generate"""
    assert generate.PAGE.read_text() == generate.page(generate.PAGE.read_text())


def test_the_published_schema_is_what_is_generated():
    """If not: python -m docs.generate"""
    assert generate.SCHEMA.read_text() == generate.schema_text()
    Draft202012Validator.check_schema(generate.schema())


BY_HAND = [  # where the prose names a default: the page, what it says there, the option, its default
    ("README.md", "(`verify`, at the latest after 7 days by default)", "verify", "auto"),
    ("README.md", "(`retain_history`, one day by default)", "retain_history", "1 day"),
    ("docs/configuration.md", "By default (`auto`) a run evaluates it anyway", "verify", "auto"),
    ("docs/incremental.md", "By default, every query is evaluated in full at the latest", "verify", "auto"),
    ("docs/incremental.md", "no more than the default of a day: its history", "retain_history", "1 day"),
    ("docs/incremental.md", "| `incremental` | | |---|---| | `auto` (default) |", "incremental", "auto"),
    ("docs/incremental.md", "| `state` | | |---|---| | `auto` (default) |", "state", "auto"),
    (
        "docs/reliability.md",
        "A verification finds it, at the latest after 7 days by default",
        "verify",
        "auto",
    ),
    ("docs/design/sink.md", "(`sink/verify.py`, at the latest after 7 days by default)", "verify", "auto"),
    ("docs/design/refresh.md", "refresh: on_commit # default", "refresh", "on_commit"),
    ("docs/design/tasks.md", "With `initial_snapshot: true` (default)", "initial_snapshot", True),
    ("docs/design/why.md", "**Files are copied** into the companion by default", "input_files", "copied"),
]


@pytest.mark.parametrize(("page", "words", "option", "default"), BY_HAND)
def test_the_prose_names_the_defaults_that_options_have(page, words, option, default):
    """If not: the page does not follow the option, or this list does not follow the page."""
    assert words in " ".join((ROOT / page).read_text().split())
    assert OPTIONS[option].written == default


def test_the_prose_names_the_defaults_that_commands_have():
    text = (ROOT / "docs" / "commands.md").read_text()
    compared = {}
    for command, section in re.findall(r"^## `(\w+)`\n(.*?)(?=^## |\Z)", text, re.M | re.S):
        defaults = {
            name: each.default
            for each in cli.get_command(click.Context(cli), command).params
            for name in each.opts
        }
        for name, row in re.findall(r"^\| `(--[\w-]+).*?` \| (.* by default.*) \|$", section, re.M):
            if named := re.search(r"[`; ]*([^`;,]+?)`? by default", row):
                compared[command, name] = (named[1].strip(), str(defaults[name]))
    assert len(compared) == 6
    assert {key for key, (named, default) in compared.items() if named != default} == set()


def test_the_page_names_the_defaults_that_profiles_have():
    defaults = {field.name: field.default for field in dataclasses.fields(MvsinkCredentials)}
    table = generate.PAGE.read_text().split("| key | meaning | default |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| .* \| `([^`]+)` \|$", table, re.M)
    assert len(rows) == 7
    assert [row for row in rows if str(defaults[row[0]]).lower() != row[1]] == []


GOOD = [
    ("self_correcting_mv", {"refresh": "on_commit", "tags": ["hourly"], "on_schema_change": "ignore"}),
    ("self_correcting_mv", {"refresh": {"every": "1 hour", "aligned_to": "2026-01-01 00:00:00"}}),
    ("self_correcting_mv", {"refresh": ["every 1 day", {"at": 1_795_186_800_000}, {"at_creation": True}]}),
    ("self_correcting_mv", {"retain_history": "2 Weeks", "assert_not_null": ["id"], "on_error": "record"}),
    (
        "self_correcting_mv",
        {"max_change": "auto", "freshness": {"warn_after": {"count": 1, "period": "day"}}},
    ),
    ("continual_task", {"freshness": {"warn_after": "1 hour", "error_after": "2 days"}}),
    ("self_correcting_mv", {"verify": "20 runs"}),
    ("self_correcting_mv", {"verify": "1 run"}),
    ("self_correcting_mv", {"verify": "never"}),
    ("self_correcting_mv", {"audit": {"tests": ["a"], "scope": "changes"}}),
    ("self_correcting_mv", {"audit": ["a_test"], "max_change": {"rows": 10, "percent": 0.5}, "adopt": None}),
    ("continual_task", {"snapshot": False, "column_types": {"a": "int"}, "input_files": "append_only"}),
    ("continual_task", {"on_late_reference": "wait", "read_only": False}),
]
BAD = [
    ("self_correcting_mv", {"refresh": "sometimes"}),
    ("self_correcting_mv", {"refresh": {"each": "1 hour"}}),
    ("self_correcting_mv", {"refresh": {"aligned_to": "2026-01-01"}}),
    ("self_correcting_mv", {"refresh": [{"at": 1439}]}),
    ("self_correcting_mv", {"retain_history": 86400}),
    ("self_correcting_mv", {"max_change": "automatic"}),
    ("self_correcting_mv", {"freshness": {"warn_after": 5}}),
    ("self_correcting_mv", {"audit": {"scope": "changes"}}),
    ("self_correcting_mv", {"max_change": {"row": 5}}),
    ("self_correcting_mv", {"on_error": "ignore"}),
    ("self_correcting_mv", {"input_files": "copied"}),
    ("self_correcting_mv", {"verify": 20}),
    ("self_correcting_mv", {"verify": "always"}),
    ("self_correcting_mv", {"target_lag": "1 hour"}),
    ("continual_task", {"refresh": "on_commit"}),
    ("continual_task", {"audit": True}),
    ("continual_task", {"initial_snapshot": "no"}),
]


@pytest.mark.parametrize(("materialization", "config"), GOOD)
def test_the_schema_allows_what_the_adapter_allows(materialization, config):
    PARSE[materialization]("dev.m", config)
    assert problems(materialization, config) == []


@pytest.mark.parametrize(("materialization", "config"), BAD)
def test_the_schema_refuses_what_the_adapter_refuses(materialization, config):
    with pytest.raises(Exception, match="dev.m: (invalid )?config"):
        PARSE[materialization]("dev.m", config)
    assert problems(materialization, config) != []


def test_the_schema_allows_jinja_and_leaves_other_materializations_alone():
    assert problems("self_correcting_mv", {"read_only": "{{ target.name == 'dev' }}"}) == []
    assert problems("table", {"refresh": 5}) == []


def problems(materialization, config):
    models = [{"name": "m", "config": {"materialized": materialization, **config}}]
    return [error.message for error in VALIDATOR.iter_errors({"models": models})]
