"""Whether a staged change fits the shard: what it deletes is there, and each of its hashes may
stand for one row.

Hashes are compared, not rows. A shard with more rows than fit this process is asked in Spark.
"""

from __future__ import annotations

import pyarrow as pa

from dbt.adapters.mvsink.engine import Column, sql
from dbt.adapters.mvsink.local.difference import Fit, fit_of
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, TIME
from dbt.adapters.mvsink.shard import StagedDirectory
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.shard_sql.layout import MAX_BROADCAST
from dbt.adapters.mvsink.sink.correction import BASE, persisted
from dbt.adapters.mvsink.sink.write import Write

# Rows of a shard whose hashes are read into this process, 16 bytes each, a few files at a time.
# Where Spark has the same cores, its job takes twice as long: 2.0 s in place of 0.9 for 30 million.
MAX_SEARCHED = 10_000_000
MAX_SEARCHED_HERE = 10 * MAX_SEARCHED
MAX_KEYS = 100_000  # staged values of a column, or hashes, that are read to look for rows with them


def fit(write: Write, staged: StagedDirectory, shard: Layout) -> Fit:
    """How the updates in ``staged`` fit ``shard``."""
    with write.watch("look up"):
        hashed = not shard.unhashed and not shard.loose
        most = MAX_SEARCHED_HERE if write.engine.cores_here() else MAX_SEARCHED
        if hashed and shard.rows <= most and staged.rows() <= MAX_KEYS:
            updates = write.handle.read_staged(staged, pa.schema([(HASH, pa.int64()), (DIFF, pa.int64())]))
            return fit_of(updates, *shard.by_base(), write.handle.columns_of, write.engine.cores_here())
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
