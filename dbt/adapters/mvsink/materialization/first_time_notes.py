"""What a run says once about the gate, in its log line: the shard's properties remember it.

- `max_change: auto` has no bound while the log is too short to learn from;
- `audit: {scope: changes}` has audits that look at all rows. It is said again if others do.
"""

from __future__ import annotations

from dbt.adapters.mvsink.materialization.opening import Opened
from dbt.adapters.mvsink.sink import ENOUGH, READ, Learned, changes_before

BOUND, SCOPE = "max_change", "audit_scope"


def gate_notes(opened: Opened) -> tuple[str, ...]:
    """For the log line. Asked before the run writes anything."""
    new, notes = gate_properties(opened), []
    if BOUND in new and len(changes_before(opened.handle.history(READ))) < ENOUGH:
        notes.append(f"max_change auto allows any change until {ENOUGH} runs have changed something")
    if new.get(SCOPE):
        notes.append(f"audits of all rows: {new[SCOPE]}")
    return tuple(notes)


def gate_properties(opened: Opened) -> dict[str, str]:
    """What remembers it; none if there is nothing new."""
    texts = {SCOPE: ", ".join(f"{audit.name}: {audit.whole}" for audit in opened.audits if audit.whole)}
    if opened.context.options.max_change is Learned.AUTO:
        texts[BOUND] = Learned.AUTO.value
    kept = opened.handle.state().properties
    return {key: text for key, text in texts.items() if kept.get(key, "") != text}
