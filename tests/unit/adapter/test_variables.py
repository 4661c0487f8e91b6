"""`--vars` of the adapter, and what is nearly one of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink.adapter.variables import VARIABLES, check_variables, variable
from dbt.adapters.mvsink.exceptions import MvsinkError

DOCS = Path(__file__).resolve().parents[3] / "docs" / "configuration.md"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project's configuration; ``read`` is what its only macro reads."""
    monkeypatch.setattr(
        "dbt.flags.get_flags", lambda: SimpleNamespace(PROFILES_DIR=str(tmp_path / "profiles"))
    )

    def make(cli, declared=None, read="", profile=""):
        for path, text in (("macros/m.sql", read), ("profiles/profiles.yml", profile)):
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_text(text)
        return SimpleNamespace(
            cli_vars=cli,
            vars=SimpleNamespace(vars=declared or {}),
            project_name="shop",
            project_root=str(tmp_path),
            macro_paths=["macros"],
            model_paths=["models"],
        )

    return make


@pytest.mark.parametrize(
    ("cli", "message"),
    [
        (
            {"read_only": True},
            "unknown variable `read_only`: neither dbt-mvsink nor this project reads it. Did you mean `mvsink_read_only`?",
        ),
        ({"readonly": True}, "Did you mean `mvsink_read_only`?"),
        ({"MVSINK_READ_ONLY": True}, "Did you mean `mvsink_read_only`?"),
        ({"mvsink-read-only": True}, "Did you mean `mvsink_read_only`?"),
        ({"mvsink_read_onyl": True}, "unknown variable `mvsink_read_onyl`"),
        ({"run_time": "2026-11-20"}, "Did you mean `mvsink_run_time`?"),
        ({"reset": ["t"]}, "Did you mean `mvsink_reset`?"),
        ({"accept": ["t"]}, "Did you mean `mvsink_accept`?"),
        ({"sample": 5}, "Did you mean `mvsink_sample`?"),
        ({"mvsink_dry_run": True}, "unknown variable `mvsink_dry_run`"),
        (
            {"mvsink_read_only": "yes"},
            "invalid variable `mvsink_read_only`\n  Got: 'yes'\n  Expected: true or false",
        ),
        ({"mvsink_read_only": None}, "Got: None"),
        ({"mvsink_run_time": "noon"}, "Got: 'noon'\n  Expected: milliseconds since"),
        ({"mvsink_sample": -1}, "Got: -1"),
        ({"mvsink_sample": True}, "Got: True"),
        ({"mvsink_future": "yes"}, "Got: 'yes'"),
        ({"mvsink_reset": {"t": True}}, "Got: {'t': True}"),
        ({"mvsink_accept": [1]}, "Got: [1]"),
    ],
)
def test_a_misspelled_variable_or_an_invalid_value_is_refused(project, cli, message):
    with pytest.raises(MvsinkError) as raised:
        check_variables(project(cli))
    assert message in raised.value.msg
    if "unknown" in message:
        assert all(known.name in raised.value.msg for known in VARIABLES)


@pytest.mark.parametrize("declared", [{"mvsink_readonly": True}, {"shop": {"mvsink_readonly": True}}])
def test_an_unknown_variable_of_the_project_with_our_prefix_is_refused(project, declared):
    with pytest.raises(MvsinkError, match="mvsink_readonly"):
        check_variables(project({}, declared))


@pytest.mark.parametrize(
    "config",
    [
        {"cli": {}},
        {"cli": {"run_date": "2026-11-20", "samples": 5, "resets": 1}},
        {"cli": {"sample": 5}, "read": "limit {{ var('sample', 1) }}"},
        {"cli": {"read_only": True}, "profile": "read_only: \"{{ var( 'read_only' ) | as_bool }}\""},
        {"cli": {"read_only": True}, "declared": {"read_only": False}},
        {
            "cli": {
                "mvsink_read_only": False,
                "mvsink_run_time": 1_763_650_800_000,
                "mvsink_reset": "t",
                "mvsink_sample": 0,
            }
        },
    ],
)
def test_the_projects_own_variables_and_ours_are_accepted(project, config):
    check_variables(project(**config))


def test_dbt_debug_has_no_project():
    check_variables(SimpleNamespace(credentials=None))


@pytest.mark.parametrize(
    ("cli", "declared", "value"),
    [
        ({}, {}, None),
        ({}, {"mvsink_read_only": True}, True),
        (
            {},
            {
                "shop": {"mvsink_read_only": True},
                "mvsink_read_only": False,
                "other": {"mvsink_read_only": False},
            },
            True,
        ),
        ({"mvsink_read_only": False}, {"mvsink_read_only": True}, False),
    ],
)
def test_the_command_line_takes_precedence_over_the_project_and_that_over_packages(
    project, cli, declared, value
):
    assert variable(project(cli, declared), "mvsink_read_only") is value


@pytest.mark.parametrize("name", [known.name for known in VARIABLES])
def test_every_variable_is_documented(name):
    assert f"| `{name}` |" in DOCS.read_text()
