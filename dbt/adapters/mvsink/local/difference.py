"""The updates that turn a shard's rows into a query's, and whether the hashes of a change fit a
shard.

Both sides are added up by whole rows, as Spark does for a correction (`sink.correction`). Besides
large inputs, this is left to Spark:

- rows without a hash in any record
- a type whose equal values Spark writes in one form (floats in nested values)
- dates that other tools may read in another calendar (`calendars`)

>>> from dbt.adapters.mvsink.shard import physical_schema
>>> schema = physical_schema(pa.schema([("a", pa.string())]))
>>> def updates(*rows):
...     of = [{"a": a, "_mv_time": 3, "_mv_hash": h, "_mv_diff": n} for a, h, n in rows]
...     return pa.Table.from_pylist(of, schema)
>>> stored = Stored(updates(("x", 7, 1)), updates(("y", 8, 1)))
>>> rows = updates(("x", 7, 1), ("z", 9, 1)).drop_columns(["_mv_time"])
>>> change = difference(rows, stored, 5)
>>> change.select(["a", "_mv_time", "_mv_diff"]).to_pylist()
[{'a': 'z', '_mv_time': 5, '_mv_diff': 1}, {'a': 'y', '_mv_time': 5, '_mv_diff': -1}]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.calendars import ambiguous
from dbt.adapters.mvsink.engine import Column, Engine, EngineError, sql
from dbt.adapters.mvsink.local.copies import negated
from dbt.adapters.mvsink.local.rows import local_row_limit, log
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, TIME
from dbt.adapters.mvsink.shard import DataFile, grouped
from dbt.adapters.mvsink.shard.updates import comparable

_BASE = "in_base"
_NARROW = pa.schema([(HASH, pa.int64()), (DIFF, pa.int64())])


def collected(engine: Engine, query: str, columns: Sequence[Column], files: sql.Shared) -> pa.Table | None:
    """The rows of ``query`` with their hashes; None if they are too many, or the connection does
    not return Arrow. Raises `EngineError` for an error that the data cause.
    """
    most = local_row_limit(columns)
    items = sql.columns(column.name for column in columns)
    limited = f"select {items}, {ERROR}, {HASH}, {DIFF} from (\n{query}\n) limit {most + 1}"
    try:
        rows = engine.arrow(files.around(files.of(limited)), "collect")
    except EngineError as error:
        if error.caused_by_data:
            raise
        log.debug("the query's rows were not collected: %s", error.message)
        return None
    return None if rows is None or rows.num_rows > most or rows.nbytes > limits.DECODED_BYTES else rows


@dataclass(frozen=True)
class Stored:
    """Updates of a shard, in the physical schema: those of compacted directories, and others."""

    base: pa.Table
    others: pa.Table

    @property
    def rows(self) -> int:
        return len(self.base) + len(self.others)


def difference(rows: pa.Table, stored: Stored, time: int) -> pa.Table | None:
    """The updates at ``time`` (ms) that turn ``stored`` into ``rows``, which have hashes and diffs.
    None if a row has no hash anywhere, or if other tools would read its dates differently.
    """
    schema = stored.base.schema
    wanted = rows.append_column(TIME, _repeated(time, rows))
    sides = [
        (wanted.select(schema.names).cast(schema), 0),
        (negated(stored.base, time), 1),
        (negated(stored.others, time), 0),
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
    # as GROUP BY gives floats: one zero and one NaN
    columns = [comparable(each) if pa.types.is_floating(each.type) else each for each in columns]
    updates = pa.table(columns, schema=schema)
    return None if ambiguous(updates) else updates


def without_hashes(updates: pa.Table, shared: pa.Array) -> pa.Table | None:
    """``updates`` without the hashes that are ``shared``; None if other tools would read their
    dates differently.
    """
    at = updates.schema.get_field_index(HASH)
    hashes = updates.column(at)
    kept = pc.if_else(
        pc.is_in(hashes, value_set=shared, skip_nulls=True), pa.scalar(None, pa.int64()), hashes
    )
    return None if ambiguous(updates) else updates.set_column(at, updates.schema.field(at), kept)


def _own_hashes(groups: pa.Table) -> pa.ChunkedArray:
    """The hashes of distinct rows; NULL where another row has the same, or the base has the row
    more than once: see `Correction.consolidate_at_since`.
    """
    hashes = groups.column("hash_max")
    counts = hashes.value_counts()
    shared = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    own = pc.and_(pc.invert(pc.is_in(hashes, shared)), pc.less(groups.column("base_sum"), 2))
    return pc.if_else(own, hashes, pa.scalar(None, pa.int64()))


def _repeated(value: int, table: pa.Table) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.int64()), table.num_rows)


@dataclass(frozen=True)
class Fit:
    """How updates fit a shard. ``missing`` counts rows to delete that are not in the shard, and
    ``unhashed`` rows without a hash, which cannot be looked up. ``ambiguous`` counts rows whose
    hash may also stand for other rows, because the shard holds it for more rows than are deleted,
    or in several records of the base; ``shared`` are these hashes, if they were looked up here.
    """

    missing: int
    unhashed: int
    ambiguous: int
    shared: pa.Array | None = None


def fit_of(
    updates: pa.Table,
    base: Sequence[DataFile],
    others: Sequence[DataFile],
    computed: pa.Table | None,
    read: Callable[[DataFile, pa.Schema], pa.Table],
    cores: int,
) -> Fit:
    """How hashes and diffs of ``updates`` fit the shard with these files, ``base`` in compacted
    directories and ``others``, and with the ``computed`` hashes and diffs of its other files.
    ``read`` gives columns of a file.
    """
    wanted = updates.column(HASH).combine_chunks()

    def present(rows: pa.Table, in_base: int) -> pa.Table:
        rows = rows.filter(pc.is_in(rows.column(HASH), value_set=wanted, skip_nulls=True))
        return rows.append_column(_BASE, _repeated(in_base, rows))

    files = [*((file, 1) for file in base), *((file, 0) for file in others)]
    with ThreadPoolExecutor(min(max(cores, 1), limits.HASH_FILES_AT_ONCE)) as threads:
        current = list(threads.map(lambda each: present(read(each[0], _NARROW), each[1]), files))
    if computed is not None:
        current.append(present(computed.select(_NARROW.names).cast(_NARROW), 0))
    empty = _NARROW.append(pa.field(_BASE, pa.int64())).empty_table()
    sums = pa.concat_tables([empty, *current]).group_by(HASH).aggregate([(DIFF, "sum"), (_BASE, "sum")])
    joined = updates.select([HASH, DIFF]).join(sums, HASH, join_type="left outer")
    diff = joined.column(DIFF)
    rows, in_base = (pc.fill_null(joined.column(f"{name}_sum"), 0) for name in (DIFF, _BASE))
    hashed = pc.is_valid(joined.column(HASH))
    missing = pc.and_(hashed, pc.and_(pc.less(diff, 0), pc.less(rows, pc.negate(diff))))
    more = pc.or_(pc.greater(rows, pc.negate(diff)), pc.greater(in_base, 1))
    unsure = pc.and_(pc.greater(rows, 0), pc.or_(pc.greater(diff, 0), more))
    lost, without, many = (pc.sum(each).as_py() or 0 for each in (missing, pc.invert(hashed), unsure))
    shared = joined.column(HASH).filter(pc.fill_null(unsure, False)).combine_chunks()
    return Fit(lost, without, many, shared)
