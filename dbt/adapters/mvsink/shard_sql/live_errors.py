"""The errors that a shard holds at its newest time."""

from __future__ import annotations

from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.physical import DIFF, ERROR
from dbt.adapters.mvsink.shard_sql.layout import Layout


def live_errors(layout: Layout) -> str:
    """The query of their messages and counts, `(m, n)`, by message; empty if no file has any."""
    directories = [directory for directory in layout.directories if directory.may_hold_errors]
    parts = layout.parts(directories, f"{ERROR} m, {DIFF} d", f"{ERROR} is not null")
    return (
        f"select m, sum(d) n from (\n{sql.union_all(parts)}\n) group by m having sum(d) > 0 order by m"
        if parts
        else ""
    )
