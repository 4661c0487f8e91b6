"""Verification: a correction after which an independent digest proves the contents.

The rows that a correction writes are exact, but the choice of the rows to compare depends on the
row hash, which chance or intent can defeat. So from time to time both sides are compared by the
SHA-256 digests of all of their rows, summed: equal collections have equal sums. If the sums differ
even after the correction, whole rows are compared. A small shard always is (`write`).
"""

from __future__ import annotations

import logging
from dataclasses import replace

from dbt.adapters.mvsink.engine import Engine, sql
from dbt.adapters.mvsink.engine.row_digest import row_digest
from dbt.adapters.mvsink.physical import DIFF, ERROR
from dbt.adapters.mvsink.shard_sql import BatchDescription, Counts, Layout
from dbt.adapters.mvsink.shard_sql.layout import with_batch
from dbt.adapters.mvsink.sink.correction import Desired, persisted
from dbt.adapters.mvsink.sink.detection import PART_BITS
from dbt.adapters.mvsink.sink.write import FEW_ROWS, Write, Written

log = logging.getLogger("mvsink.sink.write")
SEEDS = (1, 2)


def verified(
    write: Write, desired: Desired, shard: Layout, time: int, description: BatchDescription
) -> Written:
    """As `Write.stage`; afterwards the contents as of ``time`` (ms) are certainly ``desired``."""
    if shard.empty or shard.rows <= FEW_ROWS:
        return write.stage(desired, shard, time, description)
    with write.watch("verify"):
        if equal(write.engine, desired, shard):
            return Written(None, Counts())
    written = replace(write.stage(desired, shard, time, description), way="")  # its time is another
    if written.negation is not None:  # all rows of the query, as it gave them
        return written
    with write.watch("verify"):
        after = shard if written.batch is None else with_batch(shard, written.batch)
        if equal(write.engine, desired, after):
            return written
    log.warning("%s: the row hash missed a difference; comparing whole rows", write.model)
    written.delete()
    return write.whole_rows(desired, shard, time, description)


def equal(engine: Engine, desired: Desired, shard: Layout) -> bool:
    """Whether both have the same rows, as often, by the sums of two numbers from each digest."""
    digest, items = row_digest(desired.columns, ERROR), sql.columns(c.name for c in desired.columns)
    sides = [f"select {items}, {ERROR}, 1L {DIFF} from (\n{desired.rows()}\n)"]
    current = persisted(shard)
    if current is not None:
        sides.append(f"select {items}, {ERROR}, -{DIFF} {DIFF} from (\n{current}\n)")
    digests = f"select {digest} _mv_digest, {DIFF} from (\n{sql.union_all(sides)}\n)"
    numbers = ", ".join(f"xxhash64({seed}, _mv_digest) _mv_n{seed}" for seed in SEEDS)
    rows = f"select {numbers}, {DIFF} from (\n{digests}\n)"
    sums = ", ".join(
        f"coalesce(sum({part} * {DIFF}), 0) = 0" for seed in SEEDS for part in _parts(f"_mv_n{seed}")
    )
    [row] = engine.query(f"select {sums} from (\n{rows}\n)", "verify")
    return all(row)


def _parts(number: str) -> list[str]:
    """The bits of a BIGINT in three parts, which fewer than 2^40 rows cannot make overflow."""
    mask = f"{2**PART_BITS - 1}L"
    return [
        f"shiftrightunsigned({number}, {2 * PART_BITS})",
        f"(shiftrightunsigned({number}, {PART_BITS}) & {mask})",
        f"({number} & {mask})",
    ]
