"""A query compared with the shard hash by hash. The query is evaluated once, into files, or twice.

The files are already a batch: where nearly everything changed, they become the shard's new base.
Otherwise both sides' rows whose hashes differ are grouped by the whole row. As in `detection`, a
hash only shows which rows to compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dbt.adapters.mvsink.engine import Column, Engine, sql
from dbt.adapters.mvsink.local.copies import negate_locally
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, TIME
from dbt.adapters.mvsink.shard import StagedDirectory
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.shard_sql.layout import MAX_BROADCAST
from dbt.adapters.mvsink.shard_sql.stager import Stager
from dbt.adapters.mvsink.sink.correction import BASE, Desired
from dbt.adapters.mvsink.sink.detection import Buckets, believed_hash, differing_buckets

EVERYTHING = Buckets(0)  # a single one


@dataclass(frozen=True)
class EvaluatedFiles:
    """A query's rows in files, with their hashes: a term of a correction, like `Desired`."""

    uri: str
    columns: tuple[Column, ...]

    def hashed(self) -> str:
        """See `Desired.hashed`."""
        return f"select {_items(self.columns)}, {ERROR}, {HASH}, {DIFF}, 0L {BASE} from {sql.parquet_in(self.uri)}"

    def differing_hashes(self, shard: Layout) -> str:
        """See `differing_hashes`; in addition, ``e`` is 1 for the hashes of errors."""
        rows = f"select {ERROR}, {HASH}, {DIFF} from {sql.parquet_in(self.uri)}"
        return _differing(rows, shard, f", cast({ERROR} is not null as int) e", ", max(e) e")

    @staticmethod
    def changes(differing: str) -> str:
        """The files at ``differing``, the result of `differing_hashes`, as updates to count."""
        return f"select n {DIFF}, if(e = 1, '', null) {ERROR} from {sql.parquet_in(differing)}"


def differing_hashes(rows: str, shard: Layout, located: Column | None = None) -> str:
    """The hashes ``h`` that ``rows`` and the shard have in different numbers of copies, with the
    difference ``n``. ``rows`` is a query with `_mv_hash`, `_mv_diff` and `_mv_error`. ``c`` is the
    number of records with the hash on both sides together, and ``k`` the least value of
    ``located``, a column of both sides.
    """
    key = "" if located is None else f", {sql.identifier(located.name)} k"
    return _differing(rows, shard, key, "" if located is None else ", min(k) k")


def _differing(rows: str, shard: Layout, items: str, sums: str) -> str:
    """Every further sum costs, because it is kept for each hash of both sides. Hardly any two
    records of one side share a hash, so adding up each side before the shuffle saves nothing.
    """
    sides = [
        f"select {HASH} h, {DIFF} n{items} from (\n{rows}\n)",
        shard.updates(f"{believed_hash(shard)} h, -{DIFF} n{items}"),
    ]
    both = f"select * from (\n{sql.union_all(sides)}\n) distribute by h"
    return f"select h, sum(n) n, count(*) c{sums} from (\n{both}\n) group by h having sum(n) <> 0"


def updates_of(desired: Desired, time: int) -> str:
    """All of ``desired`` in the columns of a batch, at ``time`` (ms), one record per row."""
    meta = f"{sql.bigint(time)} {TIME}, {DIFF}, {ERROR}, {HASH}"
    return f"select {_items(desired.columns)}, {meta} from (\n{desired.hashed()}\n)"


def staged_negation(stager: Stager, shard: Layout, time: int) -> StagedDirectory:
    """The negation at ``time`` (ms) of all that ``shard`` holds. This process writes it if the
    files are at hand; otherwise the engine does, without a shuffle.
    """
    cores = stager.engine.cores_here()
    with stager.watch("negate"):
        staged = negate_locally(stager.handle, shard.files, time, cores) if cores else None
    return staged or stager.stage(_negated_updates(shard, time), "negate", negates=shard.files)


def _negated_updates(shard: Layout, time: int) -> str:
    return shard.updates(
        f"{_items(shard.columns)}, {sql.bigint(time)} {TIME}, -{DIFF} {DIFF}, {ERROR}, {HASH}"
    )


@dataclass(frozen=True)
class DifferingHashes:
    """The rows to compare: those with one of the ``count`` hashes ``h`` in the files at ``uri``,
    which hold the result of `differing_hashes`, with ``located`` if it is given.
    """

    uri: str
    count: int
    located: Column | None = None
    alone: bool = False  # there is one record of each hash: nothing to add up

    def examined(self, engine: Engine) -> DifferingHashes:
        """The same, with ``alone`` and ``located`` as they hold for all these hashes. The rows of a
        hash must be compared all or not at all. So the located column is useless if it is NULL in
        one of the rows, or if rows share a hash, because they may have several values of it.
        """
        unlocated = "true" if self.located is None else "k is null"
        facts = f"bool_or(c > 1 or abs(n) > 1), bool_or({unlocated})"
        [(several, nowhere)] = engine.query(f"select {facts} from {sql.parquet_in(self.uri)}", "hashes")
        located = None if several or nowhere else self.located
        return replace(self, alone=not several, located=located)

    def narrowed(self, desired: Desired) -> Desired:
        """``desired``, limited to the values that the located column has in these rows; Spark
        pushes the condition towards the scans.
        """
        if self.located is None:
            return desired
        values = f"select k from {sql.parquet_in(self.uri)}"
        return desired.where(f"{desired.value(self.located)} in ({values})")

    def restrict(self, rows: str) -> str:
        """The rows to compare among ``rows``, a query with `_mv_hash`."""
        hint = "/*+ BROADCAST(_mv_scope) */ " if self.count <= MAX_BROADCAST else ""
        scope = f"(select h from {sql.parquet_in(self.uri)}) _mv_scope on _mv_scope.h = _mv_rows.{HASH}"
        return f"select {hint}* from (\n{rows}\n) _mv_rows left semi join {scope}"

    def disagrees(self, staged: str) -> str:
        """A query that has a row if ``staged``, updates with `_mv_hash`, do not add up to these
        hashes and differences. It compares the totals of both.
        """
        detected = f"select h {HASH}, n {DIFF} from {sql.parquet_in(self.uri)}"
        return differing_buckets([EVERYTHING.digest(detected, 1), EVERYTHING.digest(staged, -1)])


def _items(columns: Sequence[Column]) -> str:
    return sql.columns(column.name for column in columns)
