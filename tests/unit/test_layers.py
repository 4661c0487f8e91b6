"""Who may import what, and how long a file may be: see docs/architecture.md."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "dbt" / "adapters" / "mvsink"
OURS = "dbt.adapters.mvsink"


def imports(path: Path) -> set[str]:
    """Every module that a file imports, anywhere in it, full names."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def within(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def modules(layer: str) -> list[Path]:
    found = sorted((PACKAGE / layer).rglob("*.py"))
    assert found, layer
    return found


@pytest.mark.parametrize("path", modules("shard"), ids=lambda p: p.name)
def test_the_shard_layer_knows_nothing_above_it(path):
    for name in imports(path):
        assert not within(name, "pyspark", "sqlglot", "dbt_common"), name
        assert not within(name, "dbt") or within(name, f"{OURS}.shard"), name


@pytest.mark.parametrize("path", modules("sink"), ids=lambda p: p.name)
def test_the_dataflow_layer_knows_neither_dbt_nor_spark(path):
    for name in imports(path):
        assert not within(name, "pyspark", "dbt_common", "deltalake"), name
        assert not within(name, "dbt") or within(name, f"{OURS}.shard", f"{OURS}.sink", f"{OURS}.refresh_schedule"), name


def test_schedules_know_nothing_but_times():
    for name in imports(PACKAGE / "refresh_schedule.py"):
        assert not within(name, "pyspark", "sqlglot", "dbt_common", "deltalake"), name
        assert not within(name, "dbt") or within(name, f"{OURS}.shard"), name


@pytest.mark.parametrize("path", modules("inputs"), ids=lambda p: p.name)
def test_inputs_know_neither_dbt_nor_spark(path):
    for name in imports(path):
        assert not within(name, "pyspark", "sqlglot", "dbt_common"), name
        assert not within(name, "dbt") or within(name, f"{OURS}.shard", f"{OURS}.sink", f"{OURS}.inputs"), name


@pytest.mark.parametrize("path", modules("query"), ids=lambda p: p.name)
def test_what_reads_the_users_sql_by_tokens_knows_neither_dbt_nor_spark(path):
    for name in imports(path):
        assert not within(name, "pyspark", "dbt_common", "deltalake"), name
        assert not within(name, "dbt") or within(name, f"{OURS}.sink", f"{OURS}.query"), name


@pytest.mark.parametrize("path", modules("continual_task"), ids=lambda p: p.name)
def test_tasks_know_neither_dbt_nor_spark(path):
    below = [f"{OURS}.{layer}" for layer in ("shard", "sink", "inputs", "query", "continual_task", "refresh_schedule")]
    for name in imports(path):
        assert not within(name, "pyspark", "dbt_common", "deltalake"), name
        assert not within(name, "dbt") or within(name, *below), name


def test_no_two_modules_need_each_other_not_even_through_others():
    """Imports for type checkers count: who reads the one has to read the other. Two pairs in `shard` are one thing in two files."""
    paths = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py"
    }
    imported = {name: set(imports(path)) for name, path in paths.items()}
    needs = {name: {other for other in paths for each in found if within(each, other)} for name, found in imported.items()}
    for one, other in (("errors", "frontier"), ("batch", "staging")):
        needs[f"{OURS}.shard.{one}"].discard(f"{OURS}.shard.{other}")
    while leaves := {name for name, needed in needs.items() if not needed}:
        needs = {name: needed - leaves for name, needed in needs.items() if name not in leaves}
    assert needs == {}


def test_of_sqlglot_only_documented_modules_are_used():
    """Others come and go between versions, and the package has no upper bound for it."""
    documented = ("sqlglot.exp", "sqlglot.errors", "sqlglot.dialects.spark", "sqlglot.Token")
    used = {name for path in PACKAGE.rglob("*.py") for name in imports(path) if within(name, "sqlglot")}
    assert {name for name in used if name != "sqlglot" and not within(name, *documented)} == set()


def test_two_modules_know_delta_one_for_shards_and_one_for_inputs():
    knowing = {
        str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") for name in imports(path) if within(name, "deltalake")
    }
    assert knowing == {"shard/delta.py", "inputs/delta.py"}


def test_decisions_about_state_do_no_input_or_output():
    allowed = (
        "__future__",
        "collections",
        "dataclasses",
        "types",
        "uuid",
        "pyarrow",
        f"{OURS}.shard.errors",
        f"{OURS}.shard.frontier",
    )
    for name in imports(PACKAGE / "shard" / "state.py"):
        assert within(name, *allowed), name


def test_no_file_is_longer_than_450_lines():
    files = [path for folder in ("dbt", "tests", "example_project", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    assert {str(path.relative_to(ROOT)): n for path in files if (n := len(path.read_text().splitlines())) > 450} == {}
