"""The documents name files, functions and figures that are true."""

from __future__ import annotations

import ast
import re

import pytest

from tests.support.package_edges import ROOT

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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_rows_of_tables_are_whole_lines(page):
    """Otherwise they would be shown as prose with bars in it."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    assert [line for line in text.splitlines() if line.startswith("|") != line.rstrip().endswith("|")] == []


def test_every_term_of_the_glossary_is_defined_once():
    glossary = (DESIGN / "overview.md").read_text().split("## Glossary")[1].split("\n## ")[0]
    terms = re.findall(r"^\| ([^|]+?) \|", glossary, re.M)[1:]
    assert len(terms) > 30
    assert len(terms) == len(set(terms))


HOP = re.compile(r"^( *)(> )?(\w+)(?:/(\w+))?::(\w+)")
WALKS = re.findall(r"```\n(macros::.*?)```\n\nCrossings: (\d+)\.", (DESIGN / "walk.md").read_text(), re.S)


def hops(walk: str) -> list[tuple[str, str, str, bool, str]]:
    """Package, module, function, whether a crossing is marked, and the caller's package."""
    callers: list[tuple[int, str]] = []
    read = []
    for line in walk.splitlines():
        hop = HOP.match(line)
        assert hop, line
        indent, mark, package, module, function = hop.groups()
        depth = len(indent) + len(mark or "")  # the column of the name
        callers = [caller for caller in callers if caller[0] < depth]
        read.append((package, module or "", function, bool(mark), callers[-1][1] if callers else package))
        callers.append((depth, package))
    return read


@pytest.mark.parametrize(("walk", "count"), WALKS, ids=["view", "change", "task"])
def test_a_walk_counts_its_crossings(walk, count):
    marked = [(hop[0], hop[4]) for hop in hops(walk) if hop[3]]
    assert [(hop[:3], hop[4]) for hop in hops(walk) if hop[3] != (hop[0] != hop[4])] == []
    assert len(marked) == int(count) <= 30


@pytest.mark.parametrize(("walk", "count"), WALKS, ids=["view", "change", "task"])
def test_the_functions_of_a_walk_exist(walk, count):
    package = ROOT / "dbt" / "adapters" / "mvsink"
    for name, module, function, _, _ in hops(walk):
        if name != "macros":
            assert f"def {function}(" in (package / name / f"{module}.py").read_text(), (module, function)


@pytest.mark.parametrize("package", sorted((ROOT / "dbt/adapters/mvsink").glob("*/__init__.py")), ids=str)
def test_the_modules_that_a_package_lists_exist(package):
    """A list of modules begins each of them with its name, and says after a colon what it is."""
    text = ast.get_docstring(ast.parse(package.read_text())) or ""
    items = re.findall(r"(?:^- |\. |^  )((?:`[a-z_]+`(?:, | and )?)+): ", text, re.M)
    listed = {name for item in items for name in re.findall(r"`([a-z_]+)`", item)}
    assert listed <= {path.stem for path in package.parent.iterdir()}
