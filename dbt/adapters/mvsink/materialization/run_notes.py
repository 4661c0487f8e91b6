"""What a run says besides its result: warnings about drift, and notes about the gate.

*Drift* is contents that were wrong although they should have followed from the inputs. About the
gate, a run says in its log line, once, that

- `max_change: auto` has no bound while the log is too short to learn from;
- `audit: {scope: changes}` has audits that look at all rows. It says so again if the audits change.

The shard's properties record what was said.
"""

from __future__ import annotations

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.materialization.opening import Opened
from dbt.adapters.mvsink.physical import DIFF
from dbt.adapters.mvsink.shard import ShardState
from dbt.adapters.mvsink.shard_sql import Layout, as_of
from dbt.adapters.mvsink.sink import Drift, Incremental, Learned, Outcome, Suspended, changes_before

SAMPLE = 5  # rows
BOUND, SCOPE = "max_change", "audit_scope"  # properties


def drift_warnings(opened: Opened, before: ShardState, outcome: Outcome, drift: Drift) -> list[str]:
    """The warnings: how many rows were wrong, some of them, and what follows. ``before`` is the
    state with which the run began.
    """
    counts = drift.counts
    if counts.nothing:
        return []
    who = "verification" if outcome.verified else "the run"
    message = (
        f"{who} found drift: +{counts.inserted} -{counts.deleted} rows that no change of an input explains"
    )
    if opened.context.read_only:
        return [f"{message}; nothing was written"]
    shown = "; ".join(
        f"{int(str(diff)):+d} ({', '.join(map(str, row))})" for *row, diff in _rows(opened, outcome, drift)
    )
    return [
        f"{message}; corrected. Some of them: {shown}{_suspended(opened, before, outcome)}{_report(opened, outcome, drift)}"
    ]


def _rows(opened: Opened, outcome: Outcome, drift: Drift) -> list[tuple[object, ...]]:
    """Some of the rows, with their diffs."""
    layout = Layout.of(opened.handle, outcome.state)
    if drift.sample:  # behind the columns: time and diff
        width = len(layout.names)
        return [(*row[:width], row[width + 1]) for row in drift.sample]
    updates = as_of.updates_between(layout, outcome.time, outcome.time + 1)
    items = f"{sql.columns(layout.names)}, {DIFF}"
    return opened.context.engine.query(f"select {items} from (\n{updates}\n) limit {SAMPLE}", "drift")


def _report(opened: Opened, outcome: Outcome, drift: Drift) -> str:
    """What to report to the maintainers of this adapter."""
    if not outcome.verified or drift.noise:
        return ""
    definition = f"the definition {opened.definition.digest} that `mvsink history` shows"
    return f". If nothing else wrote its shard, please report this with the query and {definition}"


def _suspended(opened: Opened, before: ShardState, outcome: Outcome) -> str:
    """What a suspension means for the next runs."""
    level = Suspended(outcome.state.suspended)
    if level is Suspended.NOT or opened.context.options.incremental is not Incremental.AUTO:
        return ""
    if level is Suspended.UNTIL_VERIFIED:
        return ". Runs evaluate the query until a verification finds no drift"
    earlier = f" It drifted before, at {iso(before.drifted)}:" if before.drifted else ""
    return f".{earlier} runs evaluate the query until its definition changes"


def gate_notes(opened: Opened) -> tuple[str, ...]:
    """The notes for the log line. To be called before the run writes anything."""
    new, notes = gate_properties(opened), []
    commits, enough = limits.CHANGES_READ, limits.CHANGES_ENOUGH
    if BOUND in new and len(changes_before(opened.handle.history(commits))) < enough:
        notes.append(f"max_change auto allows any change until {enough} runs have changed something")
    if new.get(SCOPE):
        notes.append(f"audits of all rows: {new[SCOPE]}")
    return tuple(notes)


def gate_properties(opened: Opened) -> dict[str, str]:
    """The properties that record the notes; none if there is nothing new."""
    texts = {SCOPE: ", ".join(f"{audit.name}: {audit.whole}" for audit in opened.audits if audit.whole)}
    if opened.context.options.max_change is Learned.AUTO:
        texts[BOUND] = Learned.AUTO.value
    kept = opened.handle.state().properties
    return {key: text for key, text in texts.items() if kept.get(key, "") != text}
