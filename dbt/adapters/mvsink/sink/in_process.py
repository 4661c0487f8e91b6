"""The correction of a small shard in this process: the same as Spark's, without its shuffles.

The query's rows come as Arrow, with the hashes that Spark computes for them. The shard's rows are
read from its files. Both are added up by whole rows, as `correction` has Spark do it, and what
differs is written by the shard layer.

Whatever cannot be done exactly here is left to Spark: `correct` then returns None, and nothing is
staged. These cases are

- a shard, or a result, that is not small
- files that other tools wrote, rows of which no record has a hash
- a type whose equal values Spark writes in one form (floats in nested values), or whose comparison
  is slow here (nested ones, beyond few rows)
- dates that other tools may read in another calendar (`shard.calendars`)
- a connection that does not return Arrow
- any failure that the data did not cause: then Spark's is reported
"""

from __future__ import annotations

import logging

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.engine import Engine, EngineError, sql
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, TIME
from dbt.adapters.mvsink.shard import StorageError, WriteHandle, ambiguous, grouped
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.shard_sql.small import FEW_BYTES, are_few, few
from dbt.adapters.mvsink.sink.correction import Desired

log = logging.getLogger("mvsink.sink.write")
FEW_DECODED = 4 * FEW_BYTES  # of the query's result, which Arrow does not compress


def correct(
    engine: Engine, handle: WriteHandle, desired: Desired, shard: Layout, time: int
) -> pa.Table | None:
    """The updates at ``time`` (ms) after which ``shard`` holds ``desired``, in the physical schema.
    None, and nothing has happened, if that is left to Spark.

    Raises `EngineError` for an error that the data cause.
    """
    if shard.loose or not few(desired.columns) or not are_few(shard.files, desired.columns):
        return None
    try:
        rows = _desired(engine, desired)
        if rows is None:
            return None
        updates = _difference(rows, handle, shard, time)
        return None if updates is None or ambiguous(updates) else updates
    except (pa.ArrowException, StorageError, OverflowError, ValueError) as error:
        log.debug("%s is corrected by Spark: %s", handle.uri, error)
        return None


def _desired(engine: Engine, desired: Desired) -> pa.Table | None:
    """The query's rows with their hashes; None if they are too many or not available."""
    most = few(desired.columns)
    items = sql.columns(column.name for column in desired.columns)
    query = f"select {items}, {ERROR}, {HASH} from (\n{desired.hashed()}\n) limit {most + 1}"
    try:
        rows = engine.arrow(query, "collect")
    except EngineError as error:
        if error.caused_by_data:
            raise
        log.debug("the query's rows were not collected: %s", error.message)
        return None
    if rows is None or rows.num_rows > most or rows.nbytes > FEW_DECODED:
        return None
    return rows


def _difference(rows: pa.Table, handle: WriteHandle, shard: Layout, time: int) -> pa.Table | None:
    """The query's ``rows`` less the shard's; None if a row has no hash anywhere."""
    in_base = [directory for directory in shard.directories if directory.compacted]
    others = [directory for directory in shard.directories if not directory.compacted]
    stored = [
        (handle.read_updates([file for directory in directories for file in directory.files]), base)
        for directories, base in ((in_base, 1), (others, 0))
    ]
    schema = stored[0][0].schema
    wanted = rows.append_column(TIME, _repeated(time, rows)).append_column(DIFF, _repeated(1, rows))
    sides = [
        (wanted.select(schema.names).cast(schema), 0),
        *((_negated(table), base) for table, base in stored),
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
    return pa.table([_as_grouped(column) for column in columns], schema=schema)


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
