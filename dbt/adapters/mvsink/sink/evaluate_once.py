"""When a query is evaluated once, into files, instead of twice, to detect changes and fetch them.

Two evaluations write only what changed, and the second is not needed if nothing did. But a query
that shuffles (joins, aggregates, sorts, deduplicates) costs much more than writing down a small
result: a single evaluation then costs hardly more if nothing changed, and saves a whole evaluation
if something did.

The staged correction is the same either way.
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
    """The query whose rows a `Copied` reads."""
    return f"select {_items(desired.columns)}, {ERROR}, {HASH} from (\n{desired.hashed()}\n)"


def evaluated_once(engine: Engine, desired: Desired, shard: Layout) -> bool:
    """Whether to evaluate ``desired`` once. For a small shard this asks the engine for its plan."""
    return sum(directory.rows for directory in shard.directories) <= FEW_ROWS and _shuffles(
        engine, desired.query
    )


def _shuffles(engine: Engine, query: str) -> bool:
    """Whether the plan moves rows between tasks; False for a plan in another form than Spark's."""
    return any(_SHUFFLE.search(str(row[0])) for row in engine.query(f"explain\n{query}", "explain"))


def _items(columns: Sequence[Column]) -> str:
    return sql.columns(column.name for column in columns)
