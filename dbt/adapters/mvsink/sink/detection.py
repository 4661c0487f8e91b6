"""Detection: which rows of two collections may differ, by their hashes alone.

Each side's hashes are summed per bucket, with one bucket for about 64 rows. So a task's sums fit
the processor's cache, and if few rows changed, few unchanged rows are in a bucket that differs. The
result only shows which rows to compare.

A row's bucket follows from its hash, which spreads changed rows best: most are alone in their
bucket. Or it follows from the value of a column, the *locator*, which keeps the rows of a key
together. Then a condition on that column limits the query's second evaluation to the values of the
buckets that differ; Spark pushes it down past projections, joins, and groupings and windows by that
column, towards the scans. Any column gives the same rows, wherever Spark applies the condition: the
choice only affects speed. Rows with NULL in that column may be most of the table, so they have
buckets of their own, by their hash.

Where more rows changed, both sides are compared hash by hash instead. Then the query is evaluated
once, into files, or twice. The files are already a batch: where nearly everything changed, they
become the shard's new base. Otherwise both sides' rows whose hashes differ are grouped by the whole
row.

No sum can overflow, however many rows share a bucket: a hash is summed in two parts of 22 bits, and
fewer than 2^40 copies of rows are summed on either side (for the shard, `Layout.detectable` ensures
it).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.engine import Column, Engine, arrow_schema, sql
from dbt.adapters.mvsink.local.copies import negate_locally
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, TIME
from dbt.adapters.mvsink.shard import StagedDirectory, StagingHandle
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.shard_sql.layout import MAX_BROADCAST
from dbt.adapters.mvsink.shard_sql.rewrite import ORDERED
from dbt.adapters.mvsink.shard_sql.stager import Stager
from dbt.adapters.mvsink.sink.correction import BASE, Desired

ROWS_PER_BUCKET = 64
NEIGHBOUR_BITS = 5  # low bits of an integer that do not count for its bucket
INTEGERS = ("tinyint", "smallint", "int", "bigint")
PART_BITS = 22  # of a hash; two parts and the longest bucket number make up the whole hash
# of a bucket's number; the embedded session's fast map for sums holds up to 2^20 keys
MIN_BITS, MAX_BITS = 10, 20
# whose least value Spark keeps in place while it groups; for others it would sort all rows
FIXED_WIDTH = ("tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz")


@dataclass(frozen=True)
class BucketScope:
    """The rows to compare: ``query`` gives a bucket, ``b``, and ``h``, the only hash in it to
    compare, or NULL if all are to be compared.

    It is broadcast, because it has at most one row per bucket (`MAX_BITS`).
    """

    query: str
    buckets: Buckets
    alone = False

    def restrict(self, rows: str) -> str:
        """The rows to compare among ``rows``, a query with `_mv_hash` and the locator."""
        return (
            f"select /*+ BROADCAST(_mv_scope) */ * from (\n{rows}\n) _mv_rows left semi join {self._joined}"
        )

    def overlooked(self, rows: str, hashes: str) -> str:
        """The hashes of those ``rows`` that have one of ``hashes`` (``h``) but are not compared.

        With buckets by hash, all rows of a hash are in one bucket and are compared together. With a
        locator, two rows with the same hash may be in two buckets. Then neither may be stored with
        its hash, because a deletion by that hash would hide the other row from readers.
        """
        return (
            f"select /*+ BROADCAST(_mv_scope) */ _mv_rows.{HASH} from (\n{rows}\n) _mv_rows "
            f"left semi join (\n{hashes}\n) _mv_taken on _mv_taken.h = _mv_rows.{HASH} left anti join {self._joined}"
        )

    @property
    def _joined(self) -> str:
        within = f"{self.buckets.number('_mv_rows')} = _mv_scope.b and (_mv_scope.h is null or _mv_scope.h = _mv_rows.{HASH})"
        return f"(\n{self.query}\n) _mv_scope on {within}"


@dataclass(frozen=True)
class Buckets:
    """A bucket's number is ``bits`` bits of the row's hash or, with a ``locator``, of the hash of
    that column's value, so that equal values share a bucket.
    """

    bits: int
    salt: int = 0
    locator: Column | None = None

    @classmethod
    def of(cls, shard: Layout, locator: Column | None = None) -> Buckets:
        """The buckets for a shard of that size; a locator doubles their number (see `number`)."""
        most = MAX_BITS if locator is None else MAX_BITS - 1
        return cls(
            min(max((shard.rows // ROWS_PER_BUCKET).bit_length() - 1, MIN_BITS), most), shard.salt, locator
        )

    @property
    def nearly_all(self) -> int:
        """The number of differing buckets from which comparing them alone saves nothing."""
        return 1 << (self.bits - 1)

    def with_locator(self, *items: str) -> str:
        """A list of columns, followed by the locator if there is one."""
        return ", ".join([*items, *([] if self.locator is None else [sql.identifier(self.locator.name)])])

    def number(self, qualifier: str = "") -> str:
        """A row's bucket. Rows whose locator is NULL have as many more buckets, by their hash."""
        by_hash = self._low_bits(f"{qualifier}.{HASH}" if qualifier else HASH)
        if self.locator is None:
            return by_hash
        value = sql.columns([self.locator.name], qualifier)
        return f"if({value} is null, {2**self.bits}L + {by_hash}, {self._located(value)})"

    def located(self, value: str, numbers: Sequence[int]) -> str:
        """The condition that a row with the locator ``value`` may be in the buckets ``numbers``.

        The numbers are bits of a constant array, so that the optimizer sees a simple condition on
        one column. A NULL may be in any of the buckets for NULL.
        """
        words = [0] * (-(-(2**self.bits) // 64))
        nulls = False
        for number in numbers:  # at most 2^19 of them
            if number >> self.bits:
                nulls = True
            else:
                words[number >> 6] |= 1 << (number & 63)
        listed = ", ".join(sql.bigint(word - (word >> 63 << 64)) for word in words)
        bucket = self._located(value)
        among = f"shiftright(array({listed})[cast(shiftright({bucket}, 6) as int)], cast({bucket} & 63 as int)) & 1L = 1L"
        return f"({value} is null or {among})" if nulls else f"({value} is not null and {among})"

    def digest(self, hashed_rows: str, sign: int) -> str:
        """Each row's bucket ``b`` and its contribution to the bucket's totals: ``x`` to the XOR of
        hashes, ``s`` and ``t`` to sums of parts of hashes.

        XOR misses a multiplicity that changes by two; the sums do not. Together they show whether
        the totals are those of a single hash. ``hashed_rows`` gives `_mv_hash`, `_mv_diff` and the
        locator.
        """
        diff = DIFF if sign > 0 else f"-{DIFF}"
        odd = f"if({DIFF} % 2 = 0, 0L, {HASH})"
        sums = f"{diff} * {_upper(HASH)} s, {diff} * {_middle(HASH)} t"
        return f"select {self.number()} b, {odd} x, {sums} from (\n{hashed_rows}\n)"

    def scope(self, differing: str) -> BucketScope:
        """The rows that may differ by ``differing``, the result of `differing_buckets`.

        If a bucket differs only in the copies of one row, by one, ``x`` is that row's hash: the
        bucket is a cell of an invertible Bloom lookup table (Goodrich and Mitzenmacher, 2011). If
        few rows changed, most buckets are of this kind, and hardly any unchanged row is compared.
        Several hashes look like one only if 44 bits agree by chance. Then the staged rows do not
        agree with what was detected and are deleted (`write`).
        """
        inside = f"{self._low_bits('x')} = b and " if self.locator is None else ""
        came = f"s = {_upper('x')} and t = {_middle('x')}"
        went = f"s = -{_upper('x')} and t = -{_middle('x')}"
        one = f"{inside}({came} or {went})"
        return BucketScope(f"select b, if({one}, x, cast(null as bigint)) h from (\n{differing}\n)", self)

    def _located(self, value: str) -> str:
        """The bucket of a locator's value. Neighbouring values share one: rows are mostly stored in
        order, so their sums stay in the processor's cache.
        """
        neighbourhood = (
            f"shiftright({value}, {NEIGHBOUR_BITS})"
            if self.locator and self.locator.type.name in INTEGERS
            else value
        )
        return self._low_bits(f"xxhash64({sql.bigint(self.salt)}, {neighbourhood})")

    def _low_bits(self, hash_expression: str) -> str:
        return f"({hash_expression} & {2**self.bits - 1}L)"


def differing_buckets(digests: Sequence[str]) -> str:
    """The buckets whose totals over all ``digests`` are not zero, with the totals: ``b, x, s, t``.

    Each side is summed by itself first: at most one record per bucket and task is shuffled, and
    none is shuffled twice.
    """
    sums = "select b, bit_xor(x) x, sum(s) s, sum(t) t from"
    totals = sql.union_all(f"{sums} (\n{digest}\n) group by b" for digest in digests)
    return f"{sums} (\n{totals}\n) group by b having bit_xor(x) <> 0 or sum(s) <> 0 or sum(t) <> 0"


def narrow(layout: Layout, buckets: Buckets) -> str:
    """`_mv_hash`, `_mv_diff` and the locator of all rows. If hashes are trusted, nothing else is
    read.
    """
    return layout.updates(buckets.with_locator(f"{layout.believed_hash()} {HASH}", DIFF))


def _upper(hash_expression: str) -> str:
    """The upper 22 bits of a hash: a sum of 2^40 of them has fewer than 64 bits."""
    return f"shiftrightunsigned({hash_expression}, {64 - PART_BITS})"


def _middle(hash_expression: str) -> str:
    """The 22 bits below."""
    return f"(shiftrightunsigned({hash_expression}, {64 - 2 * PART_BITS}) & {2**PART_BITS - 1}L)"


def locator(handle: StagingHandle, columns: Sequence[Column], shard: Layout) -> Column | None:
    """The first of the query's ``columns`` whose values in a sample of the base are mostly
    distinct, with none frequent except NULL. None if there is no such column, or if the shard is
    small, so that evaluating the query twice costs little.

    A column with few values fills few buckets, and one changed row makes all rows of its bucket
    candidates; so does a value that many rows share.
    """
    if shard.base is None or shard.base.rows < limits.LOCATED_ROWS:
        return None
    candidates = tuple(c for c in columns if c.type.name in ORDERED)
    if not candidates:
        return None
    largest = max(shard.base.files, key=lambda file: file.rows or 0)
    sample = handle.first_rows(largest, arrow_schema(candidates), limits.LOCATOR_SAMPLE)
    return next((column for column in candidates if _varied(sample.column(column.name))), None)


def _varied(values: pa.ChunkedArray) -> bool:
    present = values.drop_null()
    counts = pc.value_counts(present).field("counts")
    if len(counts) < limits.LOCATOR_DISTINCT * len(values):
        return False
    return bool(
        pc.max(counts).as_py() <= max(limits.LOCATOR_FREQUENCY * len(values), 1 / limits.LOCATOR_DISTINCT)
    )


# hash by hash

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
        shard.updates(f"{shard.believed_hash()} h, -{DIFF} n{items}"),
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
