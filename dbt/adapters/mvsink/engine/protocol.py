"""The one seam to the SQL engine: *execute this text, give me rows*.

The dbt layer implements it on a connection; tests implement it on a session. It has a core of five
calls. All other methods are hints, things that a connection may be able to do faster; `Engine`
itself implements them with the core. Large data never passes through the seam; `arrow` returns the
rows of small results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, Protocol

import pyarrow as pa

from dbt.adapters.mvsink.engine import sql


class Engine(Protocol):
    """Runs Spark SQL. Every failure is an `EngineError`."""

    def execute(self, statement: str, what: str) -> None:
        """Run a statement for its effect. ``what`` names the step, for the job's description."""
        ...

    def query(self, query: str, what: str) -> list[tuple[object, ...]]:
        """The rows of a query that is known to give few."""
        ...

    def columns(self, query: str) -> list[tuple[str, str]]:
        """Names and Spark type texts of a query's columns, without running it."""
        ...

    def settings(self, wanted: Mapping[str, str]) -> AbstractContextManager[None]:
        """A context in which the engine's settings are ``wanted``; afterwards they are as
        before.
        """
        ...

    def same_plan(self, one: str, other: str, stand_ins: Mapping[str, Sequence[tuple[str, str]]]) -> bool:
        """Whether the engine reads two queries in the same way: their analyzed plans are the same,
        apart from names of columns and aliases. Nothing is run. The relations that both name are
        ``stand_ins``, temporary views with these columns and types, called `_mv_w` and a number.
        Raises `EngineError` if one of them cannot be analyzed.
        """
        ...

    def arrow(self, query: str, what: str) -> pa.Table | None:
        """The rows of a query that is known to give few, with all of Spark's digits. None if the
        connection cannot give them in that form; then the query has not run.
        """
        return None

    def facts(self, query: str, what: str) -> list[tuple[object, ...]]:
        """The rows of a query about the session only, such as its settings. They may come from
        earlier in the invocation, if no statement since then can have changed the session.
        """
        return self.query(query, what)

    def recent(self, query: str, what: str, *, of_model: bool) -> list[tuple[object, ...]]:
        """The rows of a query about the catalog. They may be those of the same query up to two
        seconds ago, if none of the user's statements in this invocation can have changed the
        catalog since and, with ``of_model``, no model was published.
        """
        return self.query(query, what)

    def recent_view(self, view: str, *, of_model: bool) -> Mapping[str, Any] | None:
        """`view_here`, of a moment ago perhaps, as `recent`."""
        return self.view_here(view)

    def relist(self, table: Sequence[str]) -> None:
        """Make the engine list the files of ``table`` (the parts of its name) again before it is
        read.
        """
        self.execute(f"refresh table {sql.qualified(table)}", "refresh")

    def files_views(self, paths: Sequence[str]) -> AbstractContextManager[Mapping[str, str]]:
        """Names of temporary views over a shard's Parquet files, by path (a glob); they last as
        long as the context. A path is left out if naming the files is not slower.
        """
        return nullcontext({})

    def cores_here(self) -> int:
        """How many of this machine's cores the engine computes with; 0 if it runs elsewhere, or if
        that is not known.
        """
        return 0

    def explained(self, query: str) -> str | None:
        """The output of EXPLAIN EXTENDED with all columns, while the session's settings stay as
        they are; None if that takes a setting. Raises `EngineError`.
        """
        return None

    def replace_view_text(self, view: str, text: str, replaceable: Callable[[str], bool]) -> bool:
        """Give the ``view`` (quoted) another text with the same columns, without reading what the
        text names. False, and nothing has happened, if its present text is not ``replaceable``, or
        if that takes a statement.
        """
        return False

    def parsed(self, query: str) -> str | None:
        """The parsed plan of ``query``, before its names are looked up, as a tree with all columns;
        None if that takes a statement. Raises `EngineError`.
        """
        return None

    def view_here(self, view: str) -> Mapping[str, Any] | None:
        """The `view_text`, `comment`, `columns` (`name`, `comment`) and `table_properties` of the
        ``view`` (quoted), as DESCRIBE AS JSON names them, without a statement. None if there is no
        such view, or if that takes a statement.
        """
        return None

    def analyzed(self, query: str, what: str) -> tuple[str, list[tuple[str, str]]] | None:
        """The analyzed plan of a query, as EXPLAIN EXTENDED prints it, and its columns, as
        `columns` gives them, by one analysis; None if that would take a statement for each.
        """
        return None


@contextmanager
def shared_files(engine: Engine) -> Iterator[sql.Shared]:
    """A context for the files that its statements read, through views of the engine where that is
    faster.
    """
    with ExitStack() as views:
        yield sql.Shared(lambda paths: views.enter_context(engine.files_views(paths)))
