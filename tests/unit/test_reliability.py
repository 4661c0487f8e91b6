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


SAFETY = (ROOT / "docs" / "design" / "storage-safety.md").read_text()
IN_TABLES = sorted(set(re.findall(r"`((?:tests/|\.\./|test_)[^`]*\.py::[^`]*)`", SAFETY)))


@pytest.mark.parametrize("named", IN_TABLES)
def test_a_test_of_the_tables_of_storage_safety_exists(named):
    path, name = named.split("::")
    base = ROOT if path.startswith("tests/") else ROOT / "tests" / "unit" / "shard"
    assert re.search(rf"^def {name}\b", (base / path).read_text(), re.MULTILINE), named


def test_every_row_of_the_tables_of_storage_safety_has_a_test():
    rows = [
        line
        for line in SAFETY.splitlines()
        if line.startswith("| ") and not re.match(r"\| (time|what|step|thing) \|", line)
    ]
    assert [row for row in rows if ".py" not in row] == []


def test_every_point_has_a_row():
    assert {int(row.split("|")[1]) for row in ROWS} == set(range(1, 32))


def test_every_row_has_a_test_or_is_about_documents():
    assert {row.split("|")[1].strip() for row in ROWS if "`tests/" not in row} <= {"4"}
