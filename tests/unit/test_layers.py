"""Who may import what, and how long a file may be: see docs/design/overview.md."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.package_edges import OURS, OVERVIEW, ROOT, imports, overview, package_of

PACKAGE = ROOT / "dbt" / "adapters" / "mvsink"


def within(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def modules(layer: str) -> list[Path]:
    """The files of a package, or the one module beside the packages of that name."""
    files = sorted((PACKAGE / layer).rglob("*.py")) or [PACKAGE / f"{layer}.py"]
    assert all(file.exists() for file in files), layer
    return files


# values, and hooks for tests
NEUTRAL = {
    "authors",
    "calendars",
    "durations",
    "error_codes",
    "failpoints",
    "limits",
    "masking",
    "per_invocation",
    "physical",
    "profile_keys",
    "reasons",
    "refresh_schedule",
    "spark_words",
    "wall_clock",
}
DATAFLOW = {"engine", "shard", "shard_sql", "user_sql"}
RULES = {  # which packages each may import, besides the neutral modules
    "shard": set(),
    "engine": set(),
    "user_sql": {"engine"},
    "local": {"shard", "engine"},
    "shard_sql": {"shard", "engine", "local"},
    "published": {"shard", "local", "shard_sql"},
    "sink": {"incremental", "inputs", "local", "shard", "engine", "shard_sql"},
    "inputs": {"local", *DATAFLOW},
    "history": {"shard", "engine", "local", "shard_sql"},
    "continual_task": {"inputs", *DATAFLOW},
    "incremental": {"user_sql", "engine"},
    "references": {"inputs", "sink", *DATAFLOW},
    "materialization": {
        "continual_task",
        "exceptions",
        "incremental",
        "inputs",
        "local",
        "published",
        "references",
        "relation",
        "sink",
        *DATAFLOW,
    },
    "adapter": {
        "connection",
        "connections",
        "credentials",
        "exceptions",
        "history",
        "inputs",
        "materialization",
        "published",
        "references",
        "relation",
        "sink",
        *DATAFLOW,
    },
    "credentials": {"exceptions"},
    "connection": {"__version__", "credentials", "engine", "exceptions"},
    "connections": {"connection", "credentials", "exceptions"},
    "cli": {"__version__", "connection", "credentials", "history", "inputs", "published", *DATAFLOW},
}
LIBRARIES = {  # of those that matter, which each package may import
    "shard": {"deltalake"},
    "engine": {"sqlglot"},
    "user_sql": {"sqlglot"},
    "local": set(),
    "shard_sql": set(),
    "published": {"deltalake", "obstore", "pyiceberg", "pyroaring"},
    "sink": set(),
    "inputs": {"deltalake"},
    "history": set(),
    "continual_task": {"sqlglot"},
    "incremental": {"sqlglot"},
    "references": set(),
    "materialization": {"dbt", "dbt_common"},
    "adapter": {"dbt", "dbt_common", "pyspark"},
    "credentials": {"dbt", "dbt_common", "pyspark"},
    "connection": {"dbt", "dbt_common", "pyspark"},
    "connections": {"dbt", "dbt_common"},
    "cli": {"dbt", "dbt_common"},
}
WATCHED = {"dbt", "dbt_common", "deltalake", "obstore", "pyiceberg", "pyroaring", "pyspark", "sqlglot"}


@pytest.mark.parametrize("package", RULES)
def test_a_package_imports_only_what_stands_below_it(package):
    allowed = RULES[package] | NEUTRAL | {package}
    wrong = {
        (path.name, other)
        for path in modules(package)
        for name in imports(path)
        if (other := package_of(name)) and other not in allowed
    }
    assert wrong == set()


@pytest.mark.parametrize("package", RULES)
def test_a_package_imports_only_the_libraries_of_its_layer(package):
    libraries = {
        (path.name, name.split(".")[0])
        for path in modules(package)
        for name in imports(path)
        if package_of(name) is None
    }
    assert {(path, name) for path, name in libraries if name in WATCHED - LIBRARIES[package]} == set()


def test_every_package_has_its_rule():
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages | {"credentials", "connections"} == RULES.keys() == LIBRARIES.keys()


def test_the_overview_shows_the_rules_and_counts_the_imports():
    """`python -m tests.support.package_edges` writes both; by hand only what a package holds."""
    text = OVERVIEW.read_text()
    assert text == overview(text, RULES)
    assert [name for name in RULES if f"\n| `{name}` |  |" in text] == []


def test_of_the_command_line_only_watch_and_session_reach_the_embedded_spark():
    reaching = {
        path.name for path in modules("cli") if "connection" in {package_of(name) for name in imports(path)}
    }
    assert reaching == {"watch.py", "sessions.py"}


def test_no_circle_between_packages():
    left = {package: RULES[package] & RULES.keys() for package in RULES}
    while free := {package for package, below in left.items() if not below}:
        left = {package: below - free for package, below in left.items() if package not in free}
    assert left == {}


def test_neutral_modules_know_no_package_but_schedules_the_shards_times():
    for name in NEUTRAL:
        imported = {package_of(each) for each in imports(PACKAGE / f"{name}.py")} - {None} - NEUTRAL
        assert imported <= ({"shard"} if name == "refresh_schedule" else set()), name


def test_no_two_modules_need_each_other_not_even_through_others():
    """Imports for type checkers count. Errors and frontiers of shards are one thing."""
    paths = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py"
    }
    imported = {name: set(imports(path)) for name, path in paths.items()}
    needs = {
        name: {other for other in paths for each in names if within(each, other)}
        for name, names in imported.items()
    }
    needs[f"{OURS}.shard.errors"].discard(f"{OURS}.shard.frontier")
    while leaves := {name for name, needed in needs.items() if not needed}:
        needs = {name: needed - leaves for name, needed in needs.items() if name not in leaves}
    assert needs == {}


def test_of_sqlglot_only_documented_modules_are_used():
    """Others come and go between versions, and the package has no upper bound for it."""
    documented = ("sqlglot.exp", "sqlglot.errors", "sqlglot.dialects.spark", "sqlglot.Token")
    used = {name for path in PACKAGE.rglob("*.py") for name in imports(path) if within(name, "sqlglot")}
    assert {name for name in used if name != "sqlglot" and not within(name, *documented)} == set()


def test_few_modules_know_delta_for_shards_for_inputs_and_for_published_tables():
    knowing = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        for name in imports(path)
        if within(name, "deltalake")
    }
    tables = {f"published/{name}.py" for name in ("table_log", "table_store")}  # whose store is Delta's
    assert knowing == {"shard/delta.py", "inputs/delta_log.py", *tables}


def test_only_these_modules_know_iceberg_and_are_imported_where_it_is_asked_for():
    knowing = {
        path.stem for path in PACKAGE.rglob("*.py") for name in imports(path) if within(name, "pyiceberg")
    }
    assert knowing == {
        "as_iceberg",
        *(f"iceberg_{name}" for name in ("bounds", "files", "places", "schema", "updates")),
    }
    code = f"import sys, {OURS}.impl, {OURS}.cli.main; sys.exit('pyiceberg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_decisions_about_state_do_no_input_or_output():
    allowed = (
        "__future__",
        "collections",
        "dataclasses",
        "types",
        "typing",
        "uuid",
        "pyarrow",
        f"{OURS}.physical",
        f"{OURS}.shard.errors",
        f"{OURS}.shard.frontier",
        f"{OURS}.shard.widening",
        f"{OURS}.physical",
    )
    for name in imports(PACKAGE / "shard" / "state.py"):
        assert within(name, *allowed), name


def python_files() -> list[Path]:
    return [
        path
        for folder in ("dbt", "tests", "example_project", "benchmarks")
        for path in sorted((ROOT / folder).rglob("*.py"))
    ]


def test_no_file_is_longer_than_450_lines():
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in python_files()}
    assert {path: length for path, length in lengths.items() if length > 450} == {}


def test_no_function_of_the_package_is_longer_than_60_lines():
    lengths = {
        f"{path.relative_to(PACKAGE)}::{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    assert {name: length for name, length in lengths.items() if length > 60} == {}


def test_no_two_files_have_one_name():
    """But those that every package may have: a stranger who searches for a name finds one file."""
    names = Counter(path.name for path in PACKAGE.rglob("*.py"))
    shared = {"__init__.py", "errors.py", "protocol.py"}
    assert {name for name, times in names.items() if times > 1} <= shared


def test_no_two_public_classes_have_one_name():
    names = Counter(
        node.name
        for path in PACKAGE.rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name, times in names.items() if times > 1} == set()


NOT_SIZES = {  # numbers of a format, of exact arithmetic, of a version; lengths of what is shown
    "detection": {"MAX_BITS", "MIN_BITS", "NEIGHBOUR_BITS", "PART_BITS", "ROWS_PER_BUCKET"},
    "trust": {"PROVEN", "UNPROVEN"},
    "request": {"LONGEST_REASON"},
    "strategy": {"SAMPLE"},
    "verify": {"SEEDS"},
    "gate": {"FAILING_ROWS", "LONGEST_VALUE"},
    "adding": {"KEPT_SCALE", "MAX_PRECISION"},
    "sums": {"MAX_COUNT", "MAX_SCALE"},
    "change_plan": {"RULES"},
    "describe": {"WIDTH"},
    "audits": {"ALL"},
    "response": {"REASON_LENGTH"},
    "run_notes": {"SAMPLE"},
}


@pytest.mark.parametrize("package", ["sink", "local", "incremental", "materialization"])
def test_sizes_that_decide_are_in_limits(package):
    number = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.operator, ast.unaryop, ast.Load)
    own = {
        (path.stem, name.id)
        for path in modules(package)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign) and all(isinstance(each, number) for each in ast.walk(node.value))
        if any(isinstance(getattr(each, "value", None), (int, float)) for each in ast.walk(node.value))
        for name in ast.walk(node.targets[0])
        if isinstance(name, ast.Name) and name.id.isupper()
    }
    assert {(module, name) for module, name in own if name not in NOT_SIZES.get(module, ())} == set()


def test_no_link_is_tracked():
    """One to a place on its author's machine was once: wherever that place is missing, nothing can
    be written below it.
    """
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "--stage"], capture_output=True, text=True, check=True
    ).stdout
    assert [line for line in listed.splitlines() if line.startswith("120000")] == []
