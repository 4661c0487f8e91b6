"""Corrections of few rows in this process: the same as Spark's, without its shuffles.

The query's rows come as Arrow, with the hashes that Spark computes for them. The shard's rows are
read from its files: all of a small shard, those of the changed keys of another. Both are added up
by whole rows, as `correction` has Spark do it, and what differs is written by the shard layer.

Whatever cannot be done exactly here is left to Spark: then the result is None, and nothing is
staged. These cases are

- a shard, or a result, that is not small
- files that other tools wrote, rows of which no record has a hash
- a type whose equal values Spark writes in one form (floats in nested values), or whose comparison
  is slow here (nested ones, beyond few rows)
- dates that other tools may read in another calendar (`calendars`)
- a connection that does not return Arrow
- any failure that the data did not cause: then Spark's is reported
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.calendars import ambiguous
from dbt.adapters.mvsink.engine import Engine, EngineError, sql
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, TIME
from dbt.adapters.mvsink.shard import DataFile, ShardError, StagingHandle, grouped
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.shard_sql.small import FEW_BYTES, are_few, few
from dbt.adapters.mvsink.sink.correction import Desired

log = logging.getLogger("mvsink.sink.write")
FEW_DECODED = 4 * FEW_BYTES  # of the query's result, which Arrow does not compress


def correct(
    engine: Engine, handle: StagingHandle, desired: Desired, shard: Layout, time: int, files: sql.Shared
) -> pa.Table | None:
    """The updates at ``time`` (ms) after which ``shard`` holds ``desired``, in the physical schema.
    None, and nothing has happened, if that is left to Spark. ``files`` are those that it reads.

    Raises `EngineError` for an error that the data cause.
    """
    if shard.loose or not few(desired.columns) or not are_few(shard.files, desired.columns):
        return None
    with left_to_spark(handle.uri):
        rows = _desired(engine, desired, files)
        return None if rows is None else difference(rows, Stored.whole(handle, shard), time)
    return None


@contextmanager
def left_to_spark(what: str) -> Iterator[None]:
    """What fails in here is left to Spark, which reports it if it is not this process's failure."""
    try:
        yield
    except (pa.ArrowException, ShardError, OverflowError, ValueError) as error:
        log.debug("%s is left to Spark: %s", what, error)


def _desired(engine: Engine, desired: Desired, files: sql.Shared) -> pa.Table | None:
    """The query's rows with their hashes; None if they are too many or not available."""
    most = few(desired.columns)
    items = sql.columns(column.name for column in desired.columns)
    query = f"select {items}, {ERROR}, {HASH}, {DIFF} from (\n{desired.hashed()}\n) limit {most + 1}"
    try:
        rows = engine.arrow(files.around(files.of(query)), "collect")
    except EngineError as error:
        if error.caused_by_data:
            raise
        log.debug("the query's rows were not collected: %s", error.message)
        return None
    if rows is None or rows.num_rows > most or rows.nbytes > FEW_DECODED:
        return None
    return rows


@dataclass(frozen=True)
class Stored:
    """Updates of a shard, in the physical schema: those of compacted directories, and others."""

    base: pa.Table
    others: pa.Table

    @classmethod
    def read(cls, shard: Layout, read: Callable[[list[DataFile]], pa.Table]) -> Stored:
        """What ``read`` gives of the files of each kind."""
        in_base = [each for each in shard.directories if each.compacted]
        others = [each for each in shard.directories if not each.compacted]
        return cls(*(read([file for each in some for file in each.files]) for some in (in_base, others)))

    @classmethod
    def whole(cls, handle: StagingHandle, shard: Layout) -> Stored:
        """All of them."""
        return cls.read(shard, handle.read_updates)

    @property
    def rows(self) -> int:
        return len(self.base) + len(self.others)


def difference(rows: pa.Table, stored: Stored, time: int) -> pa.Table | None:
    """The updates at ``time`` (ms) that make ``rows``, with their hashes and diffs, of ``stored``.
    None if a row has no hash anywhere, or other tools would read its dates as others.
    """
    schema = stored.base.schema
    wanted = rows.append_column(TIME, _repeated(time, rows))
    sides = [
        (wanted.select(schema.names).cast(schema), 0),
        (_negated(stored.base), 1),
        (_negated(stored.others), 0),
    ]
    together = pa.concat_tables([table for table, _ in sides])
    base = pa.chunked_array([_repeated(base, table) for table, base in sides], pa.int64())
    if together.num_rows == 0:
        return together
    data = [name for name in schema.names if name not in (TIME, DIFF, HASH)]
    groups = grouped(together, data, hash=(together.column(HASH), "max"), base=(base, "sum"))
    if groups.column("hash_max").null_count:
        return None
    changed = groups.append_column("hash", _own_hashes(groups))
    changed = changed.filter(pc.not_equal(changed.column("diff_sum"), 0))
    updates = together.take(changed.column("row_min"))
    replaced = {
        TIME: _repeated(time, updates),
        DIFF: changed.column("diff_sum"),
        HASH: changed.column("hash"),
    }
    columns = [replaced.get(field.name, updates.column(field.name)) for field in schema]
    updates = pa.table([_as_grouped(column) for column in columns], schema=schema)
    return None if ambiguous(updates) else updates


def _own_hashes(groups: pa.Table) -> pa.ChunkedArray:
    """The hashes of distinct rows; NULL where another row has the same, or the base has the row
    more than once: see `Correction.consolidate_at_since`.
    """
    hashes = groups.column("hash_max")
    counts = hashes.value_counts()
    shared = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    own = pc.and_(pc.invert(pc.is_in(hashes, shared)), pc.less(groups.column("base_sum"), 2))
    return pc.if_else(own, hashes, pa.scalar(None, pa.int64()))


def _as_grouped(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Floats as GROUP BY gives them: one zero and one NaN."""
    if not pa.types.is_floating(column.type):
        return column
    positive = pc.add(column, pa.scalar(0.0, column.type))  # -0.0 + 0.0 is 0.0
    return pc.if_else(pc.is_nan(positive), pa.scalar(float("nan"), column.type), positive)


def _negated(table: pa.Table) -> pa.Table:
    place = table.schema.get_field_index(DIFF)
    return table.set_column(place, table.schema.field(place), pc.negate_checked(table.column(DIFF)))


def _repeated(value: int, table: pa.Table) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.int64()), table.num_rows)
