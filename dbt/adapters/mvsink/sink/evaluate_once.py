"""When a query is evaluated once, into files of its own, instead of once to detect changes and once
more to fetch them.

Two evaluations write nothing that did not change, and where nothing changed the second is not
needed. But a query that shuffles (joins, aggregates, sorts, deduplicates) costs much more than
writing down a result that is small: there one evaluation is hardly dearer if nothing changed, and
saves a whole one if something did.

Evaluated once or twice, what is staged is the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dbt.adapters.mvsink.engine import Column, Engine, sql
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.sink.correction import BASE, Desired

FEW_ROWS = 1_000_000
_SHUFFLE = re.compile(r"(?<!Broadcast)(?<!Reused)Exchange\b")


@dataclass(frozen=True)
class Copied:
    """A query's rows in files, with their hashes: a term of a correction as `Desired` is."""

    uri: str
    columns: tuple[Column, ...]

    def hashed(self) -> str:
        """See `Desired.hashed`."""
        return f"select {_items(self.columns)}, {ERROR}, {HASH}, 1L {DIFF}, 0L {BASE} from {sql.parquet_in(self.uri)}"


def copied_rows(desired: Desired) -> str:
    """What a `Copied` is read from."""
    return f"select {_items(desired.columns)}, {ERROR}, {HASH} from (\n{desired.hashed()}\n)"


def evaluated_once(engine: Engine, desired: Desired, shard: Layout) -> bool:
    """Is ``desired`` to be evaluated once? Asks the engine for the query's plan if the shard is
    small, as its result then is.
    """
    return sum(directory.rows for directory in shard.directories) <= FEW_ROWS and _shuffles(
        engine, desired.query
    )


def _shuffles(engine: Engine, query: str) -> bool:
    """Does the plan move rows between tasks? A plan that cannot be had, or that is no text of
    Spark's, tells of none.
    """
    return any(_SHUFFLE.search(str(row[0])) for row in engine.query(f"explain\n{query}", "explain"))


def _items(columns: Sequence[Column]) -> str:
    return sql.columns(column.name for column in columns)
