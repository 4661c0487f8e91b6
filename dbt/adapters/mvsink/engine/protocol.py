"""The one seam to the SQL engine: *execute this text, give me rows*.

The dbt layer implements it on a connection; tests implement it on a session. Heavy data never
passes through it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol


class Engine(Protocol):
    """Runs Spark SQL. Every failure is an `EngineError`."""

    def execute(self, statement: str, what: str) -> None:
        """Run a statement for its effect. ``what`` names the step, for the job's description."""
        ...

    def query(self, query: str, what: str) -> list[tuple[object, ...]]:
        """The rows of a query that is known to give few."""
        ...

    def settings(self, wanted: Mapping[str, str]) -> AbstractContextManager[None]:
        """The engine's settings are ``wanted`` in here, and as before afterwards."""
        ...

    def columns(self, query: str) -> list[tuple[str, str]]:
        """Names and Spark type texts of a query's columns, without running it."""
        ...
