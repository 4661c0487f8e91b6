"""Whether a staged change fits the shard: what it deletes is there, and each of its hashes may
stand for one row.

Hashes are compared, not rows. A shard with more rows than fit this process is asked in Spark.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.engine import Column, sql
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, TIME
from dbt.adapters.mvsink.shard import DataFile, StagedDirectory
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.shard_sql.layout import MAX_BROADCAST
from dbt.adapters.mvsink.sink.correction import BASE, persisted
from dbt.adapters.mvsink.sink.write import Write

# Rows whose hashes are read into this process, 16 bytes each, a few files at a time. Where Spark
# has the same cores, its job takes twice as long: 2.0 s in place of 0.9 for 30 million rows.
MAX_READ = 10_000_000
MAX_READ_HERE = 10 * MAX_READ
MAX_FILES = 4
MAX_KEYS = 100_000  # values of a column, or hashes, of what is staged, that are read to look for them
_NARROW = pa.schema([(HASH, pa.int64()), (DIFF, pa.int64())])


@dataclass(frozen=True)
class Fit:
    """``missing``: rows that are to be deleted and are not in the shard. ``unhashed``: rows without
    a hash, which cannot be looked up. ``ambiguous``: rows whose hash may not stand for them alone,
    because the shard holds it for more than what is deleted, or in several records of the base.
    """

    missing: int
    unhashed: int
    ambiguous: int


def fit(write: Write, staged: StagedDirectory, shard: Layout) -> Fit:
    """How the updates in ``staged`` fit ``shard``."""
    with write.watch("look up"):
        hashed = not shard.unhashed and not shard.loose
        most = MAX_READ_HERE if write.engine.cores_here() else MAX_READ
        if hashed and shard.rows <= most and staged.rows() <= MAX_KEYS:
            return _read(write, staged, shard)
        counts = "count_if(_mv_missing), count_if(_mv_h is null), count_if(_mv_ambiguous)"
        [row] = write.engine.query(f"select {counts} from (\n{_judged(staged, shard)}\n)", "look up")
        return Fit(*(int(str(count)) for count in row))


def without_hashes(
    write: Write, staged: StagedDirectory, columns: tuple[Column, ...], shard: Layout
) -> StagedDirectory:
    """The same updates; those whose hash is ambiguous have none."""
    names = sql.columns([*(column.name for column in columns), TIME, DIFF, ERROR])
    unsure = f"select _mv_h from (\n{_judged(staged, shard)}\n) where _mv_ambiguous"
    kept = f"if({HASH} in (\n{unsure}\n), cast(null as bigint), {HASH}) {HASH}"
    return write.stager.stage(f"select {names}, {kept} from {sql.parquet_in(staged.uri)}", "write")


def _read(write: Write, staged: StagedDirectory, shard: Layout) -> Fit:
    updates = write.handle.read_staged(staged, _NARROW)
    wanted = updates.column(HASH).combine_chunks()

    def present(file: DataFile, in_base: int) -> pa.Table:
        rows = write.handle.columns_of(file, _NARROW)
        rows = rows.filter(pc.is_in(rows.column(HASH), value_set=wanted, skip_nulls=True))
        return rows.append_column(BASE, pa.array([in_base] * len(rows), pa.int64()))

    files = [
        (file, int(directory is shard.base or directory.compacted))
        for directory in shard.directories
        for file in directory.files
    ]
    with ThreadPoolExecutor(min(max(write.engine.cores_here(), 1), MAX_FILES)) as threads:
        current = list(threads.map(present, *zip(*files, strict=True))) if files else []
    empty = _NARROW.append(pa.field(BASE, pa.int64())).empty_table()
    sums = pa.concat_tables([empty, *current]).group_by(HASH).aggregate([(DIFF, "sum"), (BASE, "sum")])
    joined = updates.join(sums, HASH, join_type="left outer")
    diff = joined.column(DIFF)
    rows, base = (pc.fill_null(joined.column(f"{name}_sum"), 0) for name in (DIFF, BASE))
    hashed = pc.is_valid(joined.column(HASH))
    missing = pc.and_(hashed, pc.and_(pc.less(diff, 0), pc.less(rows, pc.negate(diff))))
    others = pc.or_(pc.greater(rows, pc.negate(diff)), pc.greater(base, 1))
    ambiguous = pc.and_(pc.greater(rows, 0), pc.or_(pc.greater(diff, 0), others))
    missing, unhashed, ambiguous = (
        pc.sum(each).as_py() or 0 for each in (missing, pc.invert(hashed), ambiguous)
    )
    return Fit(missing, unhashed, ambiguous)


def _judged(staged: StagedDirectory, shard: Layout) -> str:
    """Each staged hash, ``_mv_h``: is its row ``_mv_missing``, is the hash ``_mv_ambiguous``?"""
    batch = f"select {HASH} _mv_h, {DIFF} _mv_d from {sql.parquet_in(staged.uri)}"
    few = staged.rows() <= MAX_BROADCAST
    hints = ("/*+ BROADCAST(_mv_w) */ ", "/*+ BROADCAST(_mv_s) */ ") if few else ("", "")
    current = persisted(shard)
    stored = (
        f"select {HASH} _mv_h, {DIFF} _mv_n, {BASE} _mv_b from (\n{current}\n)"
        if current
        else "select 0L _mv_h, 0L _mv_n, 0L _mv_b where false"
    )
    among = f"select {hints[0]}_mv_p.* from (\n{stored}\n) _mv_p left semi join (\n{batch}\n) _mv_w on _mv_w._mv_h = _mv_p._mv_h"
    sums = f"select _mv_h, sum(_mv_n) _mv_n, sum(_mv_b) _mv_b from (\n{among}\n) group by _mv_h"
    missing = "_mv_c._mv_h is not null and _mv_d < 0 and coalesce(_mv_n, 0) < -_mv_d"
    ambiguous = "_mv_n > 0 and (_mv_d > 0 or _mv_n > -_mv_d or _mv_b > 1)"
    return (
        f"select {hints[1]}_mv_c._mv_h, {missing} _mv_missing, coalesce({ambiguous}, false) _mv_ambiguous "
        f"from (\n{batch}\n) _mv_c left join (\n{sums}\n) _mv_s on _mv_s._mv_h = _mv_c._mv_h"
    )
