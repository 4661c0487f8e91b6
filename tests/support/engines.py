"""Engines for tests that are free of Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

from dbt.adapters.mvsink.engine import Engine


class NoEngine(Engine):
    """Fails every statement: for results that need only logs, file lists and statistics."""

    def execute(self, statement: str, what: str) -> None:
        raise AssertionError(f"{what}: {statement}")

    def settings(self, wanted: Mapping[str, str]) -> AbstractContextManager[None]:
        return nullcontext()

    def query(self, query: str, what: str) -> list[tuple[object, ...]]:
        raise AssertionError(f"{what}: {query}")

    def same_plan(self, one: str, other: str, stand_ins: object) -> bool:
        """DuckDB does not show how Spark reads."""
        return True

    def columns(self, query: str) -> list[tuple[str, str]]:
        raise AssertionError(query)


class ScriptedEngine(NoEngine):
    """Answers each query by its ``what``; remembers what it was asked."""

    def __init__(self, **answers: Callable[[str], list[tuple[object, ...]]]):
        self.answers = answers
        self.asked: list[tuple[str, str]] = []

    def query(self, query: str, what: str) -> list[tuple[object, ...]]:
        self.asked.append((what, query))
        return self.answers[what](query)
