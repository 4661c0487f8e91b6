"""Every test that docs/reliability.md names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[^`]+\.py[^`]*)`", PAGE)))
ROWS = [line for line in PAGE.splitlines() if re.match(r"\| \d+ \|", line)]


@pytest.mark.parametrize("named", NAMED)
def test_a_named_test_exists(named):
    path, *parts = named.split("::")
    text = (ROOT / path).read_text()
    for part in parts:
        assert re.search(rf"^\s*(class|def) {part}\b", text, re.MULTILINE), named


def test_every_point_has_a_row():
    assert {int(row.split("|")[1]) for row in ROWS} == set(range(1, 32))


def test_every_row_has_a_test_or_is_about_documents():
    assert {row.split("|")[1].strip() for row in ROWS if "`tests/" not in row} <= {"4"}
