"""Taking back the errors that a task recorded in its output.

Errors of the input are passed on: they are in the output too, and are retracted with the input's.
So only the errors that the output has beyond the input's are taken back; otherwise the input's own
retraction would leave the output with a negative number of errors.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbt.adapters.mvsink.engine import Column, sql
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, TIME
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.shard_sql.as_of import nulls
from dbt.adapters.mvsink.shard_sql.layout import live_errors


def retractions(output: Layout, columns: Sequence[Column], inputs: str, time: int) -> str:
    """Updates at ``time`` (ms) that take the task's own errors back; empty if there can be none.

    ``inputs`` is the input as updates, as of the last time that the task has processed, with
    `_mv_error` and `_mv_diff`.
    """
    live = live_errors(output)
    if not live:
        return ""
    inherited = f"select {ERROR} m, -{DIFF} n from (\n{inputs}\n) where {ERROR} is not null"
    both = sql.union_all([f"select m, n from (\n{live}\n)", inherited])
    own = f"select m, sum(n) n from (\n{both}\n) group by m having sum(n) > 0"
    return f"select {nulls(columns)}, {sql.bigint(time)} {TIME}, -n {DIFF}, m {ERROR}, cast(null as bigint) {HASH} from (\n{own}\n)"
