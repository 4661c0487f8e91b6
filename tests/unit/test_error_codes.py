"""Every error of the package has a code, and docs/errors.md an entry for each.

A new error is a class with ``error_code``, and an entry. To try it, leave out one of the two.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from importlib import import_module

import click
import pytest
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.mvsink.cli.errors import CommandFailed, WrongUsage, failed
from dbt.adapters.mvsink.connection.frames import error_text
from dbt.adapters.mvsink.exceptions import InvalidOption, MvsinkError
from dbt.adapters.mvsink.materialization.errors import translate, translated
from dbt.adapters.mvsink.shard.errors import LogDamaged, ShardError, message_of
from tests.support.package_edges import OURS, ROOT

PACKAGE = ROOT / "dbt" / "adapters" / "mvsink"
PAGE = ROOT / "docs" / "errors.md"
CODE = re.compile(r"MVS-\d{3}")
FIRST_DIGITS = {
    "0": {"exceptions", "cli"},
    "1": {"exceptions", "materialization", "adapter"},
    "2": {"shard", "shard_sql", "published"},
    "3": {"sink"},
    "4": {"inputs", "references"},
    "5": {"continual_task"},
    "6": {"engine", "user_sql", "exceptions"},
    "7": {"exceptions", "connection"},
    "8": {"history", "cli"},
}
CAUGHT = {  # which never leave the package, and who turns them into a code or into another way to go on
    "FeedColumnsChanged": "cli.commands.subscribe",
    "InputsMoved": "sink: the query is evaluated",
    "InvalidProfile": "credentials",
    "LiveErrors": "published: the table shows nothing",
    "NoInput": "materialization.task_inputs",
    "NotAllowed": "materialization.options",
    "NotRowByRow": "materialization.task_inputs",
    "NotLocated": "published: rows are copied",
    "ReadsLater": "sink: the query is evaluated",
    "Refused": "incremental: the query is evaluated",
    "TooMany": "sink: the engine does it",
    "TransientError": "shard.commit_loop",
    "UnknownOutcome": "shard.commit_loop",
    "UnknownVector": "inputs, published",
    "Unreadable": "shard.delta_encoding and others: the log is damaged",
    "VersionTaken": "shard.commit_loop",
}
ROOTS = {  # never raised
    *(
        "Conflict",
        "DataflowError",
        "GateFailed",
        "InputError",
        "InvalidPoint",
        "ShardError",
        "CodedError",
    ),
    *("StatementColumns", "TaskError", "TaskSyntax", "UnreadableVersion", "UsageRefused"),
}
CARRIERS = {"Defect", "MvsinkError", "SparkError"}  # get the code of the error that they stand for
RETIRED: set[str] = set()  # codes of errors that no longer exist: never used again


def classes():
    """The public classes of errors of the package, by name."""
    errors = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        named = [node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
        if named:
            module = import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
            for name in named:
                each = getattr(module, name)
                if isinstance(each, type) and issubclass(each, BaseException) and not name.startswith("_"):
                    errors[name] = each
    return errors


ERRORS = classes()
CODED = {
    name: each.error_code for name, each in ERRORS.items() if "error_code" in vars(each) and each.error_code
}
ENTRIES = re.findall(r"^### (MVS-\d{3}) `(\w+)`$", PAGE.read_text(), re.M)


def test_every_error_has_a_code_of_its_own_or_is_caught_within_the_package():
    assert ERRORS.keys() - CODED.keys() == (CAUGHT.keys() | ROOTS | CARRIERS)
    assert [code for code, number in Counter(CODED.values()).items() if number > 1] == []
    assert [code for code in CODED.values() if not CODE.fullmatch(code)] == []
    assert RETIRED.isdisjoint(CODED.values())


def test_the_first_digit_is_the_part_of_the_package():
    parts = {name: ERRORS[name].__module__.removeprefix(OURS + ".").split(".")[0] for name in CODED}
    assert {name: part for name, part in parts.items() if part not in FIRST_DIGITS[CODED[name][4]]} == {}


def test_roots_are_never_raised():
    raised = {
        ast.unparse(node.func).split(".")[-1]
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
    }
    assert raised & ROOTS == set()


@pytest.mark.parametrize(
    "outer", ["DbtRuntimeError", "DbtDatabaseError", "ClickException", "UsageError", "BadParameter"]
)
def test_nothing_raises_an_error_of_a_library_that_a_user_would_see_without_a_code(outer):
    places = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and ast.unparse(node.exc.func).split(".")[-1] == outer
    ]
    assert places == []


def test_the_page_has_an_entry_for_every_code_and_no_other():
    assert {code for code, _ in ENTRIES} - RETIRED == set(CODED.values())
    assert {name: code for code, name in ENTRIES if code not in RETIRED} == CODED
    assert sorted(ENTRIES) == ENTRIES and len(dict(ENTRIES)) == len(ENTRIES)


def test_every_entry_says_what_it_means_how_it_comes_about_and_the_remedy():
    sections = re.split(r"^###? .*$", PAGE.read_text(), flags=re.M)
    entries = [each for each in sections if "*Example:*" in each or "*Remedy:*" in each]
    assert len(entries) == len(ENTRIES)
    for entry in entries:
        meaning, _, rest = entry.partition("*Example:*")
        example, _, remedy = rest.partition("*Remedy:*")
        assert len(meaning.split()) > 3 and example.strip() and len(remedy.split()) > 1, entry


def test_dbt_shows_the_code_in_its_first_line():
    error = InvalidOption("s.m", "refresh", "x", "a schedule")
    error.add_node(type("Node", (), {"resource_type": "model", "name": "m", "original_file_path": "m.sql"})())
    assert str(error).splitlines()[0] == "Runtime Error MVS-101 in model m (m.sql)"
    assert "MVS" not in error.msg


def test_an_error_of_a_lower_layer_keeps_its_code():
    error = LogDamaged("/s", "no version 3")
    assert str(translate("s.m", error)).startswith("Runtime Error MVS-211\n  s.m: the log of shard /s")
    assert failed(error).error_code == "MVS-211"
    assert failed(OSError("disk full")).error_code == CommandFailed.error_code


def test_what_nothing_expects_says_what_was_being_done_and_how_to_report_it():
    with (
        pytest.raises(
            MvsinkError, match="a defect of dbt-mvsink while running s.m: KeyError: '\\*'"
        ) as raised,
        translated("s.m"),
    ):
        raise KeyError("*")
    assert raised.value.error_code == "MVS-001" and "Please report it" in raised.value.msg
    with pytest.raises(DbtRuntimeError, match="dbt's own") as others, translated("s.m"):
        raise DbtRuntimeError("dbt's own")
    assert type(others.value) is DbtRuntimeError
    with pytest.raises(KeyboardInterrupt), translated("s.m"):
        raise KeyboardInterrupt


def test_no_message_is_empty():
    assert error_text(AssertionError()) == "AssertionError"
    assert "s.m: ShardError" in str(translate("s.m", ShardError()))
    assert message_of(OSError("\n first\nsecond")) == "first"
    assert failed(TimeoutError()).message == "TimeoutError"
    with pytest.raises(MvsinkError, match=r"s\.m: TimeoutError"), translated("s.m"):
        raise TimeoutError


def test_the_command_shows_the_code_and_clicks_usage(capsys):
    context = click.Context(click.Command("plan"), info_name="plan")
    WrongUsage("--a and --b exclude each other", ctx=context).show()
    assert capsys.readouterr().err == (
        "Usage: plan [OPTIONS]\nTry 'plan --help' for help.\n\nError MVS-822: --a and --b exclude each other\n"
    )
    CommandFailed("Runtime Error MVS-101 in model m").show()
    assert capsys.readouterr().err == "Error: Runtime Error MVS-101 in model m\n"
