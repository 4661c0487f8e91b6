"""Updates in the shape of Delta's change data feed: one row per changed row, with `_change_type`.

- `update_preimage` and `update_postimage`: of rows with that key the only one that left at that
  time, and the only one that came;
- `delete` and `insert`: any other row that left or came.

Whether a key is unique is decided among the changes of one time. Rows without a key, and rows whose
key left or came several times, are never paired.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.physical import DIFF, TIME

CHANGE_TYPE, COMMIT_TIMESTAMP = "_change_type", "_commit_timestamp"
ADDED = (CHANGE_TYPE, TIME, COMMIT_TIMESTAMP)


def change_data(columns: Sequence[str], key: Sequence[str], updates: str) -> str:
    """``columns, _change_type, _mv_time, _commit_timestamp`` of ``updates`` (a query for net
    updates: ``columns``, `_mv_time`, `_mv_diff`).

    ``key`` are the columns to pair rows by, none for inserts and deletes alone; NULL keys pair with
    NULL keys. A row that came or left n times is n rows, as in Delta: the number of copies is that
    of a diff, so it is not large where the shard's view can be read.
    """
    items = sql.columns(columns)
    kinds = f"case when {DIFF} > 0 then 'insert' else 'delete' end"
    if key:
        window = f"over (partition by {TIME}, {sql.columns(key)})"
        came, left = (f"sum(greatest({sign}{DIFF}, 0L)) {window} = 1" for sign in ("", "-"))
        updates = f"select *, {came} and {left} as _mv_paired from (\n{updates}\n)"
        kinds = (
            f"case when _mv_paired and {DIFF} > 0 then 'update_postimage' when _mv_paired then 'update_preimage' "
            f"when {DIFF} > 0 then 'insert' else 'delete' end"
        )
    return (
        f"select {items}, {kinds} as {CHANGE_TYPE}, {TIME}, timestamp_millis({TIME}) as {COMMIT_TIMESTAMP} from (\n{updates}\n) "
        f"lateral view explode(sequence(1, cast(abs({DIFF}) as int))) copies as _mv_copy"
    )
