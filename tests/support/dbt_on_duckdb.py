"""The commands that query through dbt, with DuckDB in its place. For tests."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from dbt.adapters.mvsink.cli.dbt_runner import Dbt, DbtFailed, MacroOutput
from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.engine.types import plain
from tests.support.duck_engine import DuckEngine


def node(**values: Any) -> SimpleNamespace:
    """A node of dbt's manifest."""
    return SimpleNamespace(**{"constraints": [], "columns": {}, "test_metadata": None, **values})


def unique_test(name: str, model: str, where: str | None = None, **kwargs: Any) -> SimpleNamespace:
    """The test ``unique``, or of several columns, on ``model``, a unique id."""
    kind = "unique" if "column_name" in kwargs else "unique_combination_of_columns"
    metadata = SimpleNamespace(name=kind, kwargs=kwargs)
    return node(name=name, test_metadata=metadata, attached_node=model, config=SimpleNamespace(where=where))


def install(monkeypatch: pytest.MonkeyPatch, **nodes: SimpleNamespace) -> DuckEngine:
    """``nodes``: the manifest's, by unique id with `_` for `.`. Returns what runs the queries."""
    engine = DuckEngine()
    manifest = SimpleNamespace(nodes={name.replace("__", "."): each for name, each in nodes.items()})

    def operation(self: Dbt, macro: str, arguments: dict[str, str], manifest: Any = None) -> MacroOutput:
        assert macro == "mvsink_read"
        asked = json.loads(json.loads(json.dumps(arguments))["request"])
        try:
            rows = engine.query(asked["query"], asked["what"])
        except EngineError as error:
            raise DbtFailed(str(error)) from error
        return MacroOutput([json.dumps([[plain(value) for value in row] for row in rows])])

    monkeypatch.setattr(Dbt, "parsed", lambda self: manifest)
    monkeypatch.setattr(Dbt, "operation", operation)
    return engine
