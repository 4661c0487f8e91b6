"""Counts the packages of the adapter and the imports between them: ``python -m
tests.support.package_edges [ROOT]``.

A package is a directory below ``dbt/adapters/mvsink``; the modules beside the packages count each
as one. An edge is a distinct pair of an importing and an imported one.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OURS = "dbt.adapters.mvsink"


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


if __name__ == "__main__":
    print(*summary(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT))
