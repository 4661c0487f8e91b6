"""Verification: a correction after which an independent digest proves the contents.

The rows that a correction writes are exact, but the choice of the rows to compare depends on the
row hash, which chance or intent can defeat. So from time to time both sides are compared by the
sums of the SHA-256 digests of all their rows: equal collections have equal sums. If the sums differ
even after the correction, whole rows are compared, as they always are in a small shard (`write`).
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, replace

from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.engine.whole_rows import row_digest
from dbt.adapters.mvsink.physical import DIFF, ERROR
from dbt.adapters.mvsink.shard import Verified, digests_of, keep_verified, last_verified
from dbt.adapters.mvsink.shard_sql import Counts, Layout
from dbt.adapters.mvsink.shard_sql.layout import with_batch
from dbt.adapters.mvsink.sink.correction import Desired, persisted
from dbt.adapters.mvsink.sink.detection import PART_BITS
from dbt.adapters.mvsink.sink.round import Round, Written
from dbt.adapters.mvsink.sink.write import Write

log = logging.getLogger("mvsink.sink.write")
SEEDS = (1, 2)
SUMS = 3 * len(SEEDS)


def verified(write: Write, at: Round) -> Written:
    """Like `Write.stage`, but with it the contents are certainly the desired ones."""
    if at.shard.empty or at.by_whole_rows:
        return write.stage(at)
    with write.watch("verify"):
        if equal(write, at.desired, at.shard):
            return Written(None, Counts())
    written = replace(write.stage(at), way="")  # its time is another
    if written.negation is not None:  # all rows of the query, as it gave them
        return written
    with write.watch("verify"):
        after = at.shard if written.batch is None else with_batch(at.shard, written.batch)
        if equal(write, at.desired, after):
            return written
    log.warning("%s: the row hash missed a difference; comparing whole rows", write.model)
    written.delete()
    return write.whole_rows(at)


def equal(write: Write, desired: Desired, shard: Layout) -> bool:
    """Whether both have the same rows in the same numbers, by the sums of numbers from each digest.

    If Spark and the files are on this machine, the base's rows are not read as long as its files
    have the same bytes as when a verification last read them (`shard.progress`).
    """
    adds = _Adds.up(desired)
    digests = _bytes_of_base(write, shard)
    kept = last_verified(write.handle) if digests else None
    if kept is not None and (kept.what, kept.digests, len(kept.sums)) != (adds.what, digests, SUMS):
        kept = None
    sides = {"desired": f"select {adds.items}, 1L {DIFF} from (\n{desired.rows()}\n)"}
    for name, part in _parted(shard).items() if digests else [("shard", shard)]:
        rows = None if name == "base" and kept is not None else persisted(part)
        if rows is not None:
            sides[name] = f"select {adds.items}, {DIFF} from (\n{rows}\n)"
    totals = write.engine.query(sql.union_all(map(adds.query, range(len(sides)), sides.values())), "verify")
    sums = {name: tuple(map(_integer, row[1:])) for name, row in zip(sides, sorted(totals), strict=True)}
    if kept is not None:
        sums["base"] = kept.sums
    wanted = sums.pop("desired")
    if any(number != sum(each) for number, *each in zip(wanted, *sums.values(), strict=True)):
        return False
    if digests and kept is None:
        keep_verified(write.handle, Verified(adds.what, digests, sums["base"]))
    return True


def _bytes_of_base(write: Write, shard: Layout) -> dict[str, str]:
    """The digests of the base's files; none if they are not at hand. They are taken before the rows
    are read, so a change in between is found now or gives the next verification other digests.
    """
    cores = write.engine.cores_here() if write.handle.storage.is_local else 0
    return digests_of(write.handle, shard.base.files, cores) if cores and shard.base is not None else {}


def _parted(shard: Layout) -> dict[str, Layout]:
    """The base alone, and the rest."""
    base = replace(shard, recent=(), unhashed=(), loose=(), loose_columns=())
    return {"base": base, "others": replace(shard, base=None)}


@dataclass(frozen=True)
class _Adds:
    """How rows are added up: the ``items`` of each row besides its diff, and its ``digest``."""

    items: str
    digest: str

    @classmethod
    def up(cls, rows: Desired) -> _Adds:
        return cls(f"{sql.columns(c.name for c in rows.columns)}, {ERROR}", row_digest(rows.columns, ERROR))

    @property
    def what(self) -> str:
        """An identifier of this way of adding up."""
        return hashlib.sha256(self.query(0, self.items).encode()).hexdigest()

    def query(self, number: int, rows: str) -> str:
        """The query of one row: the ``number`` of this query among the others, and the sums of its
        ``rows``.
        """
        digests = f"select {self.digest} _mv_digest, {DIFF} from (\n{rows}\n)"
        numbers = ", ".join(f"xxhash64({seed}, _mv_digest) _mv_n{seed}" for seed in SEEDS)
        parts = [part for seed in SEEDS for part in _parts(f"_mv_n{seed}")]
        sums = ", ".join(f"coalesce(sum({part} * {DIFF}), 0) s{at}" for at, part in enumerate(parts))
        return f"select {number} side, {sums} from (\nselect {numbers}, {DIFF} from (\n{digests}\n)\n)"


def _integer(value: object) -> int:
    assert isinstance(value, int)
    return value


def _parts(number: str) -> list[str]:
    """The bits of a BIGINT in three parts, whose sums over fewer than 2^40 rows cannot overflow."""
    mask = f"{2**PART_BITS - 1}L"
    return [
        f"shiftrightunsigned({number}, {2 * PART_BITS})",
        f"(shiftrightunsigned({number}, {PART_BITS}) & {mask})",
        f"({number} & {mask})",
    ]
