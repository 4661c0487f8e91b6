"""A query compared with the shard hash by hash; evaluated once, into files, or twice.

The files are a batch already: where nearly everything changed, they become the shard's new base.
Else the rows of the hashes that differ, of both sides, are grouped by the whole row. A hash only
shows which rows to compare, as in `detection`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dbt.adapters.mvsink.engine import Column, sql
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, TIME
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.shard_sql.layout import MAX_BROADCAST
from dbt.adapters.mvsink.sink.correction import BASE, Desired
from dbt.adapters.mvsink.sink.detection import believed_hash


@dataclass(frozen=True)
class Copied:
    """A query's rows in files, with their hashes: a term of a correction as `Desired` is."""

    uri: str
    columns: tuple[Column, ...]

    def hashed(self) -> str:
        """See `Desired.hashed`."""
        return f"select {_items(self.columns)}, {ERROR}, {HASH}, {DIFF}, 0L {BASE} from {sql.parquet_in(self.uri)}"

    def differing_hashes(self, shard: Layout) -> str:
        """See `differing_hashes`."""
        return differing_hashes(f"select {ERROR}, {HASH}, {DIFF} from {sql.parquet_in(self.uri)}", shard)

    @staticmethod
    def changes(differing: str) -> str:
        """The files at ``differing``, of `differing_hashes`, as updates to count."""
        return f"select n {DIFF}, if(e = 1, '', null) {ERROR} from {sql.parquet_in(differing)}"


def differing_hashes(rows: str, shard: Layout) -> str:
    """The hashes ``h`` of which ``rows``, a query with `_mv_hash`, `_mv_diff` and `_mv_error`, and
    the shard have other numbers of copies, by ``n``; ``e`` is 1 for those of errors.
    """
    error = f"cast({ERROR} is not null as int)"
    sides = [
        f"select {HASH} h, {DIFF} n, {error} e from (\n{rows}\n)",
        shard.updates(f"{believed_hash(shard)} h, -{DIFF} n, {error} e"),
    ]
    return f"select h, sum(n) n, max(e) e from (\n{sql.union_all(sides)}\n) group by h having sum(n) <> 0"


def updates_of(desired: Desired, time: int) -> str:
    """All of ``desired`` in the columns of a batch, at ``time`` (ms), one record per row."""
    meta = f"{sql.bigint(time)} {TIME}, {DIFF}, {ERROR}, {HASH}"
    return f"select {_items(desired.columns)}, {meta} from (\n{desired.hashed()}\n)"


def negated_updates(shard: Layout, time: int) -> str:
    """All updates of ``shard`` with their diffs turned, at ``time`` (ms). Nothing is shuffled."""
    return shard.updates(
        f"{_items(shard.columns)}, {sql.bigint(time)} {TIME}, -{DIFF} {DIFF}, {ERROR}, {HASH}"
    )


@dataclass(frozen=True)
class Hashes:
    """The rows to compare: those of the ``count`` hashes ``h`` in the files at ``uri``."""

    uri: str
    count: int

    def restrict(self, rows: str) -> str:
        """The rows to compare among ``rows``, a query with `_mv_hash`."""
        hint = "/*+ BROADCAST(_mv_scope) */ " if self.count <= MAX_BROADCAST else ""
        scope = f"(select h from {sql.parquet_in(self.uri)}) _mv_scope on _mv_scope.h = _mv_rows.{HASH}"
        return f"select {hint}* from (\n{rows}\n) _mv_rows left semi join {scope}"

    def left(self, staged: str) -> str:
        """A query with no rows if ``staged``, hashes ``h`` with their ``n`` copies more or fewer,
        are these hashes with the copies by which they differ.
        """
        detected = f"select h, -n n from {sql.parquet_in(self.uri)}"
        both = sql.union_all([detected, staged])
        return f"select h from (\n{both}\n) group by h having sum(n) <> 0 limit 1"


def _items(columns: Sequence[Column]) -> str:
    return sql.columns(column.name for column in columns)
