"""The errors that a task recorded in its output, and taking them back.

Errors of the input pass through a task: they are in its output too, and go when the input's go. So
what is taken back is what the output holds beyond the input: otherwise the input's own retraction
would leave the output with an error less than none.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbt.adapters.mvsink.engine import Column, sql
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, TIME
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.shard_sql.live_errors import live_errors


def retractions(output: Layout, columns: Sequence[Column], inputs: str, time: int) -> str:
    """Updates at ``time`` (ms) that take the task's own errors back; empty if the output cannot
    hold any.

    ``inputs`` is the input as updates, as of the last time that the task has processed. Both have
    `_mv_error` and `_mv_diff`.
    """
    held = live_errors(output)
    if not held:
        return ""
    nulls = ", ".join(f"cast(null as {c.type.text}) {sql.identifier(c.name)}" for c in columns)
    passed = f"select {ERROR} m, -{DIFF} n from (\n{inputs}\n) where {ERROR} is not null"
    both = sql.union_all([f"select m, n from (\n{held}\n)", passed])
    own = f"select m, sum(n) n from (\n{both}\n) group by m having sum(n) > 0"
    return f"select {nulls}, {sql.bigint(time)} {TIME}, -n {DIFF}, m {ERROR}, cast(null as bigint) {HASH} from (\n{own}\n)"
