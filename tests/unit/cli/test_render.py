"""How values look, and that a narrow terminal gets them all."""

from __future__ import annotations

import re

import pytest

from dbt.adapters.mvsink.cli import render as output
from dbt.adapters.mvsink.cli.render import TableColumn, duration_text, write_table

DURATIONS = {
    0: "0ms",
    999: "999ms",
    1_000: "1s",
    61_000: "1m 1s",
    3_600_000: "1h",
    3_601_000: "1h",
    93_784_000: "1d 2h",
    None: "",
}


@pytest.mark.parametrize(("duration", "text"), DURATIONS.items())
def test_a_duration_is_shown_in_its_two_largest_units(duration, text):
    assert duration_text(duration) == text


@pytest.fixture
def terminal(monkeypatch):
    """What is printed goes to a terminal of that width."""

    def of(width):
        real = output.Console
        monkeypatch.setattr(
            output,
            "Console",
            lambda **options: real(**{"width": width, **options, "force_terminal": True, "no_color": True}),
        )

    return of


COLUMNS = [
    TableColumn("name", lambda row: row[0]),
    TableColumn("text", lambda row: row[1]),
    TableColumn("none", lambda row: "", optional=True),
]
ROWS = [("one", "x" * 30), ("[bold]two", "")]


def test_a_table_that_fits_is_a_table(terminal, capsys):
    terminal(60)
    write_table(COLUMNS, ROWS)
    shown = capsys.readouterr().out
    assert "───" in shown and "x" * 30 in shown and "[bold]two" in shown and "none" not in shown


def test_on_a_narrow_terminal_rows_stand_below_each_other_and_nothing_is_lost(terminal, capsys):
    terminal(25)
    write_table(COLUMNS, ROWS)
    shown = capsys.readouterr().out
    lines = [re.sub("\\x1b\\[[0-9;]*m", "", line).rstrip() for line in shown.splitlines()]
    assert lines == ["one", "  text  " + "x" * 17, "        " + "x" * 13, "", "[bold]two", ""]
