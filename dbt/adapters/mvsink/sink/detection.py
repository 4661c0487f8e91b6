"""Detection: which rows of two collections differ, told by their hashes alone.

Each side's hashes are added up in buckets, a bucket for about 64 rows: few enough that the sums of
a task stay near the processor, enough that few rows which did not change are in a bucket that
differs, as long as few changed. What is found only says where to look.

A bucket is told by the row's hash, which spreads changed rows best: mostly one is alone in its
bucket. Or by a column's value (`locator`), which keeps the rows of a key together and tells the
query which keys to look for. Rows without a value there may be most of the table: they have buckets
of their own, by their hash.

No sum can overflow, however many rows share a bucket: a hash is added up in two parts of 22 bits,
and fewer than 2^40 copies of rows are added on either side (`Layout.detectable` bounds what the
shard holds).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dbt.adapters.mvsink.engine import Column, sql
from dbt.adapters.mvsink.physical import DIFF, HASH
from dbt.adapters.mvsink.shard_sql import Layout

ROWS_A_BUCKET = 64
NEIGHBOUR_BITS = 5  # so many low bits of a whole number do not count for its bucket
INTEGERS = ("tinyint", "smallint", "int", "bigint")
PART_BITS = 22  # of a hash; two parts and the most bits of a bucket's number are the whole hash
# of a bucket's number; the embedded session's quick map for sums ends at 2^20 keys
FEWEST_BITS, MOST_BITS = 10, 20


@dataclass(frozen=True)
class Scope:
    """The rows to look at: ``query`` gives ``b``, a bucket, and ``h``, the one hash in it that
    counts; NULL: all of them do.

    It is broadcast: it has at most as many rows as there are buckets (`MOST_BITS`).
    """

    query: str
    buckets: Buckets

    def restrict(self, rows: str) -> str:
        """Those of ``rows``, a query with `_mv_hash` and the locator, that are to be looked at."""
        return (
            f"select /*+ BROADCAST(_mv_scope) */ * from (\n{rows}\n) _mv_rows left semi join {self._joined}"
        )

    def overlooked(self, rows: str, hashes: str) -> str:
        """Those of ``rows``, by their hash, that have one of ``hashes`` (``h``) but are not looked
        at.

        By its own bits a hash is in one bucket, where every row that has it is seen. By a locator
        two rows that collide may be in two, and then the hash of one must not stand for it: it
        would take the other away from readers.
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
    """``bits`` of a row's hash are its bucket's number; with a ``locator``, of that column's value,
    so that equal values share a bucket.
    """

    bits: int
    salt: int = 0
    locator: Column | None = None

    @classmethod
    def of(cls, shard: Layout, locator: Column | None = None) -> Buckets:
        """For a shard of that size. With a locator there are twice as many: see `number`."""
        rows = sum(directory.rows for directory in shard.directories)
        most = MOST_BITS if locator is None else MOST_BITS - 1
        return cls(min(max((rows // ROWS_A_BUCKET).bit_length() - 1, FEWEST_BITS), most), shard.salt, locator)

    @property
    def nearly_all(self) -> int:
        """If so many differ, looking at these alone saves nothing."""
        return 1 << (self.bits - 1)

    def with_locator(self, *items: str) -> str:
        """A list of columns, with the one that tells the bucket if there is one."""
        return ", ".join([*items, *([] if self.locator is None else [sql.identifier(self.locator.name)])])

    def number(self, qualifier: str = "") -> str:
        """The bucket of a row. Where the locator is NULL it is one of as many further buckets, by
        the row's hash.
        """
        by_hash = self._low_bits(f"{qualifier}.{HASH}" if qualifier else HASH)
        if self.locator is None:
            return by_hash
        value = sql.columns([self.locator.name], qualifier)
        return f"if({value} is null, {2**self.bits}L + {by_hash}, {self._located(value)})"

    def located(self, value: str, numbers: Sequence[int]) -> str:
        """A condition: can the bucket of a row whose locator is ``value``, an expression, be among
        ``numbers``?

        They are bits of a constant array, so that the optimizer sees a plain condition on one
        column. NULL may be in any of its buckets.
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
        """Each row's bucket, and its share of what is added up there: ``x`` of hashes by XOR, ``s``
        and ``t`` of parts of them by sum.

        XOR does not see a multiplicity that changes by two, the sums do; and each tells whether the
        other is that of a single hash. ``hashed_rows`` gives `_mv_hash`, `_mv_diff` and the
        locator.
        """
        diff = DIFF if sign > 0 else f"-{DIFF}"
        odd = f"if({DIFF} % 2 = 0, 0L, {HASH})"
        sums = f"{diff} * {_upper(HASH)} s, {diff} * {_middle(HASH)} t"
        return f"select {self.number()} b, {odd} x, {sums} from (\n{hashed_rows}\n)"

    def scope(self, differing: str, *, exact: bool = True) -> Scope:
        """The rows that ``differing``, the result of `differing_buckets`, says may differ.

        Where the copies of one row are all that differs, by one, ``x`` *is* its hash: the bucket is
        a cell of an invertible Bloom lookup table (Goodrich and Mitzenmacher, 2011). Most are, as
        long as few rows changed, and then hardly any row that did not is looked at. That several
        hashes pass for one takes 44 bits that agree by chance; then what is staged does not add up
        to what was detected, and is thrown away (`write`). Not ``exact``: always the whole bucket.
        """
        inside = f"{self._low_bits('x')} = b and " if self.locator is None else ""
        came = f"s = {_upper('x')} and t = {_middle('x')}"
        went = f"s = -{_upper('x')} and t = -{_middle('x')}"
        one = f"{inside}({came} or {went})" if exact else "false"
        return Scope(f"select b, if({one}, x, cast(null as bigint)) h from (\n{differing}\n)", self)

    def _located(self, value: str) -> str:
        """The bucket of a locator's value. Neighbours share one: rows mostly lie in order, and so
        do their sums near the processor.
        """
        near = (
            f"shiftright({value}, {NEIGHBOUR_BITS})"
            if self.locator and self.locator.type.name in INTEGERS
            else value
        )
        return self._low_bits(f"xxhash64({sql.bigint(self.salt)}, {near})")

    def _low_bits(self, hash_expression: str) -> str:
        return f"({hash_expression} & {2**self.bits - 1}L)"


def differing_buckets(digests: Sequence[str]) -> str:
    """The buckets whose totals over all ``digests`` are not zero, with those totals: ``b, x, s,
    t``.

    Each side is added up on its own first, which leaves at most one record a bucket and task to
    shuffle, and none to shuffle again.
    """
    sums = "select b, bit_xor(x) x, sum(s) s, sum(t) t from"
    totals = sql.union_all(f"{sums} (\n{digest}\n) group by b" for digest in digests)
    return f"{sums} (\n{totals}\n) group by b having bit_xor(x) <> 0 or sum(s) <> 0 or sum(t) <> 0"


def narrow(layout: Layout, buckets: Buckets) -> str:
    """`_mv_hash`, `_mv_diff` and the locator of all the shard's rows: narrow columns where the
    hashes can be believed.
    """
    return layout.updates(buckets.with_locator(f"{believed_hash(layout)} {HASH}", DIFF))


def believed_hash(layout: Layout) -> str:
    """The hash of a row outside the base, computed where none is stored that can be believed."""
    return f"coalesce({HASH}, {layout.hash_of()})" if layout.unhashed or layout.loose else HASH


def _upper(hash_expression: str) -> str:
    """The upper 22 bits of a hash: a sum of 2^40 of them has fewer than 64 bits."""
    return f"shiftrightunsigned({hash_expression}, {64 - PART_BITS})"


def _middle(hash_expression: str) -> str:
    """The 22 bits below."""
    return f"(shiftrightunsigned({hash_expression}, {64 - 2 * PART_BITS}) & {2**PART_BITS - 1}L)"
