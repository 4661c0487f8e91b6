"""Counts the packages of the adapter and the imports between them, and writes what
docs/design/overview.md says of them: ``python -m tests.support.package_edges``. With the root of
another checkout it prints the counts of that one.

A package is a directory below ``dbt/adapters/mvsink``; the modules beside the packages count each
as one. An edge is a distinct pair of an importing and an imported one.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Mapping, Set
from pathlib import Path

ROOT: Path = Path(__file__).resolve().parents[2]
OURS = "dbt.adapters.mvsink"
OVERVIEW: Path = ROOT / "docs" / "design" / "overview.md"


def imports(path: Path) -> set[str]:
    """Full names of every module, or name in a module, that a file imports, anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def package_of(name: str) -> str | None:
    """The package, or the module beside the packages, of an imported name; None if not ours."""
    rest = name.removeprefix(f"{OURS}.")
    return None if rest == name else rest.split(".")[0]


def edges(root: Path = ROOT) -> set[tuple[str, str]]:
    """Distinct pairs (importing, imported)."""
    package = root / "dbt" / "adapters" / "mvsink"
    pairs = set()
    for path in package.rglob("*.py"):
        own = path.relative_to(package).with_suffix("").parts[0]
        pairs |= {(own, other) for name in imports(path) if (other := package_of(name)) and other != own}
    return pairs


def packages(root: Path = ROOT) -> set[str]:
    """The directories with modules."""
    return {path.parent.name for path in (root / "dbt" / "adapters" / "mvsink").glob("*/__init__.py")}


def summary(root: Path = ROOT) -> tuple[int, int, int]:
    """How many packages, how many edges between packages alone, and how many edges in all."""
    inner = {pair for pair in edges(root) if set(pair) <= packages(root)}
    return len(packages(root)), len(inner), len(edges(root))


def overview(text: str, rules: Mapping[str, Set[str]]) -> str:
    """``text``, the page, with the table of what may import what, by the ``rules`` that
    `test_layers` holds, and the newest counts. What a package holds is written in the page.
    """
    contents = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \| [^|]* \|$", text, re.M))
    rows = (
        f"| `{name}` | {contents.get(name, '')} | {_names(below, rules)} |\n" for name, below in rules.items()
    )
    text = re.sub(
        r"(?<=\n\| package \| holds \| may import \|\n\|---\|---\|---\|\n)(\|.*\n)*", "".join(rows), text
    )
    return re.sub(r"^\| now \|.*$", f"| now | {' | '.join(map(str, summary()))} |", text, flags=re.M)


def _names(below: Set[str], rules: Mapping[str, Set[str]]) -> str:
    """The highest packages first; last the modules beside them."""
    order = [*reversed(rules), *sorted(below - rules.keys())]
    return ", ".join(f"`{name}`" for name in order if name in below) or "none of the others"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(*summary(Path(sys.argv[1])))
    else:
        from tests.unit.test_layers import RULES

        OVERVIEW.write_text(overview(OVERVIEW.read_text(), RULES))
