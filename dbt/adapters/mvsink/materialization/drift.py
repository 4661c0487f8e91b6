"""Drift: what a verification found different although no input had changed."""

from __future__ import annotations

from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.materialization.opening import Opened
from dbt.adapters.mvsink.physical import DIFF
from dbt.adapters.mvsink.shard_sql import Layout, as_of
from dbt.adapters.mvsink.sink import Outcome

SAMPLE = 5  # rows


def drift_warnings(opened: Opened, outcome: Outcome) -> list[str]:
    """What to warn of: how many rows were wrong, and some of them."""
    counts = outcome.counts
    if counts.nothing:
        return []
    message = f"verification found drift: +{counts.inserted} -{counts.deleted} rows that no change of an input explains"
    if opened.context.read_only:
        return [f"{message}; nothing was written"]
    layout = Layout.of(opened.handle, outcome.state)
    updates = as_of.updates_between(layout, outcome.time, outcome.time + 1)
    items = f"{sql.columns(layout.names)}, {DIFF}"
    rows = opened.context.engine.query(f"select {items} from (\n{updates}\n) limit {SAMPLE}", "drift")
    shown = "; ".join(f"{int(str(diff)):+d} ({', '.join(map(str, row))})" for *row, diff in rows)
    return [f"{message}; corrected. Some of them: {shown}"]
