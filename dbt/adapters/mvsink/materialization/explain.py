"""Explains how a run would treat a view's inputs, and why. Nothing is evaluated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dbt.adapters.mvsink.materialization.evidence import InputEvidence, verification_due
from dbt.adapters.mvsink.materialization.opening import Opened
from dbt.adapters.mvsink.materialization.sums import wanted
from dbt.adapters.mvsink.references.positions import Position
from dbt.adapters.mvsink.sink import (
    QUICK,
    REMEMBERED,
    SMALL,
    Full,
    Incremental,
    in_vain,
    quick,
    suspended,
)

UNCHANGED, CHANGED, UNKNOWN = "unchanged", "changed", "cannot be known"


@dataclass(frozen=True)
class Explanation:
    """``evaluates``: why something would be computed, empty if nothing would. ``inputs``: for each
    its name, kind, state, and the reason if it cannot be known. ``full``: why the query would be
    evaluated in full, empty if the contents follow from the changes of the inputs.
    """

    evaluates: str
    inputs: tuple[dict[str, str], ...]
    full: str = ""

    def values(self) -> dict[str, Any]:
        """As `run_results.json` keeps it."""
        return {"evaluates": self.evaluates, "inputs": list(self.inputs), "full": self.full}


def explanation(evidence: InputEvidence, opened: Opened) -> Explanation:
    """What a run of the opened view would do now."""
    context, state, recorded = opened.context, opened.handle.state(), opened.handle.progress
    time = opened.timing.time
    if time is None:
        return Explanation("", ())
    inputs = tuple(_input(position, recorded) for position in evidence.positions(time))
    reasons = [opened.timing.generation, "" if state.readable else "it has no contents yet"]
    reasons.append(evidence.problems(state))
    reasons += [each["reason"] or f"{each['name']} changed" for each in inputs if each["state"] != UNCHANGED]
    verified = "a verification is due" if verification_due(context, state) else ""
    evaluates = next((reason for reason in (*reasons, verified) if reason), "")
    return Explanation(evaluates, inputs, _full(evidence, opened, time, verified) if evaluates else "")


def _full(evidence: InputEvidence, opened: Opened, time: int, verified: str) -> str:
    """Why the query would be evaluated in full; empty if it would not."""
    state = opened.handle.state()
    if opened.timing.generation or not state.readable:
        return opened.timing.generation or "it has no contents yet"
    if verified:
        return verified
    always = opened.context.options.incremental is Incremental.ALWAYS
    if not always and (reason := suspended(state)):
        return reason
    increment = evidence.increment(state, opened.handle.progress, time)
    if isinstance(increment, Full):
        return increment.reason
    commits = opened.handle.history(REMEMBERED)
    if always or wanted(opened.context.options.state, opened.handle.progress, commits):
        return ""
    if increment.small:
        return SMALL
    return QUICK if quick(commits) else in_vain(commits, summed=False)


def _input(position: Position, recorded: Callable[[str], int | None]) -> dict[str, str]:
    reason = position.problem
    if not reason and position.id and recorded(position.id) is None:
        reason = "no earlier position is recorded"
    state = UNKNOWN if reason else UNCHANGED if position.unchanged(recorded) else CHANGED
    return {"name": position.name, "kind": position.kind, "state": state, "reason": reason}
