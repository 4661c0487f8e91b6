"""The documents name files, functions and figures that are true."""

from __future__ import annotations

import re

import pytest

from tests.support.package_edges import ROOT, summary

DESIGN = ROOT / "docs" / "design"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page):
    links = LINK.findall(page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", sorted(DESIGN.glob("*.md")), ids=lambda page: page.name)
def test_prose_is_at_most_100_columns_wide_but_for_tables(page):
    lines = page.read_text().splitlines()
    assert [line for line in lines if len(line) > 100 and not line.startswith("|")] == []


def test_the_number_of_packages_and_of_imports_between_them():
    [after] = re.findall(
        r"^\| now \| (\d+) \| (\d+) \| (\d+) \|$", (DESIGN / "overview.md").read_text(), re.M
    )
    assert tuple(map(int, after)) == summary()


def test_every_term_of_the_glossary_is_defined_once():
    glossary = (DESIGN / "overview.md").read_text().split("## Glossary")[1].split("\n## ")[0]
    terms = re.findall(r"^\| ([^|]+?) \|", glossary, re.M)[1:]
    assert len(terms) > 30
    assert len(terms) == len(set(terms))
