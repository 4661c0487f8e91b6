"""Explains how a run would treat a view's inputs, and why. Nothing is evaluated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.incremental import (
    Analysed,
    NotIncremental,
    Rule,
    Sides,
    Sums,
    clock_probe,
    delta,
    remarks,
    rules,
    sums_of,
)
from dbt.adapters.mvsink.inputs.position import CLOCK, SHARD, Position
from dbt.adapters.mvsink.inputs.registry import VERSIONED
from dbt.adapters.mvsink.inputs.sides import EvaluateFully
from dbt.adapters.mvsink.materialization.evidence import InputEvidence, verification_due
from dbt.adapters.mvsink.materialization.opening import Opened
from dbt.adapters.mvsink.materialization.sums import wanted
from dbt.adapters.mvsink.sink import (
    ALL_ROWS,
    QUICK,
    REMEMBERED,
    SMALL,
    Increment,
    Incremental,
    all_may_differ,
    in_vain,
    last_seconds,
    quick,
    suspended,
)
from dbt.adapters.mvsink.user_sql.words import parts

UNCHANGED, CHANGED, UNKNOWN = "unchanged", "changed", "cannot be known"
NOT_DUE, SAME = "no refresh is due", "its inputs are unchanged"
NO_CONTENTS, VERIFICATION = "it has no contents yet", "a verification is due"


@dataclass(frozen=True)
class Explanation:
    """``evaluates``: why something would be computed, empty if nothing would; ``rests``: then, why
    not. ``inputs``: for each its name, kind, state, the reason if it cannot be known, and whether
    its ``changes`` are `known` or `not known`, and where it stood and stands, if it ``moved``.
    ``full``: why the query would be evaluated in full,
    empty if the contents follow from the changes of the inputs. ``later``: why runs after this one
    would evaluate it when inputs change, empty if they would not; None where `full` says it.
    ``always``: then such runs fail; ``fails``: this one would.
    ``seconds``: see `last_seconds`. ``rules`` and ``remarks``: of the query, see
    `incremental.describe`; none if it is not incremental.
    """

    evaluates: str
    inputs: tuple[dict[str, str], ...]
    full: str = ""
    later: str | None = None
    always: bool = False
    fails: bool = False
    rests: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    remarks: tuple[str, ...] = ()

    def values(self) -> dict[str, Any]:
        """As `run_results.json` keeps it."""
        return {
            "evaluates": self.evaluates,
            "rests": self.rests,
            "inputs": list(self.inputs),
            "full": self.full,
            "later": self.later,
            "always": self.always,
            "fails": self.fails,
            "seconds": dict(self.seconds),
            "rules": [asdict(rule) for rule in self.rules],
            "remarks": list(self.remarks),
        }


def explanation(evidence: InputEvidence, opened: Opened) -> Explanation:
    """What a run of the opened view would do now."""
    time = opened.timing.time
    explained = Explanation("", (), rests=NOT_DUE)
    if time is not None:
        explained = _Explained(evidence, opened, time).all()
        analysed = evidence.change(opened.handle.progress, time).analysed()
        if isinstance(analysed, Analysed):
            explained = replace(explained, rules=rules(analysed), remarks=remarks(analysed))
    seconds = last_seconds(opened.handle.history(REMEMBERED))
    return replace(explained, always=_always(opened), seconds=seconds)


def unfit(evidence: InputEvidence, opened: Opened, time: int) -> str:
    """Why runs after this one, as of ``time`` (ms), would fail when inputs change: a model whose
    `incremental` is always, and whose query has to be evaluated. Empty if they would not.
    """
    return _Explained(evidence, opened, time).later() if _always(opened) else ""


def _always(opened: Opened) -> bool:
    return opened.context.options.incremental is Incremental.ALWAYS


@dataclass(frozen=True)
class _Explained:
    """A run as of ``time`` (ms)."""

    evidence: InputEvidence
    opened: Opened
    time: int

    def all(self) -> Explanation:
        state, recorded = self.opened.handle.state(), self.opened.handle.progress
        unknown = self.evidence.change(recorded, self.time).inputs.unknown()
        inputs = tuple(
            _input(position, recorded, known=position.name not in unknown)
            for position in self.evidence.positions(self.time)
        )
        due = verification_due(self.opened.context, state)
        passing = [self.opened.timing.generation, "" if state.readable else NO_CONTENTS]
        reasons = [*passing, self.evidence.problems(state)]
        reasons += [
            each["reason"] or f"{each['name']} changed" for each in inputs if each["state"] != UNCHANGED
        ]
        evaluates = next((reason for reason in (*reasons, VERIFICATION if due else "") if reason), "")
        if not evaluates:
            return Explanation("", inputs, later=self.later(), rests=SAME)
        passes = next(filter(None, (*passing, VERIFICATION if due else "")), "")
        if passes:
            return Explanation(evaluates, inputs, passes, self.later())
        full = self._full()
        fails = _always(self.opened) and bool(full.reason) and not full.expected
        return Explanation(evaluates, inputs, full.reason, fails=fails)

    def _full(self) -> EvaluateFully:
        """Why the query would be evaluated in full, or `EvaluateFully()`: it would not."""
        increment = self.evidence.increment(
            self.opened.handle.state(), self.opened.handle.progress, self.time
        )
        if isinstance(increment, EvaluateFully):
            return replace(increment, reason=self._suspended() or increment.reason)
        changed = [each.name for each in increment.inputs if each.change is not None]
        return EvaluateFully(self._declined(increment, changed))

    def later(self) -> str:
        """The same of a change of any input, after this run."""
        outlook = self.evidence.outlook(self.opened.handle.state(), self.opened.handle.progress, self.time)
        if isinstance(outlook, EvaluateFully):
            return self._suspended() or outlook.reason
        unknown = self.evidence.change(self.opened.handle.progress, self.time).inputs.unknown()
        last_two = {parts(name)[-2:] for name in unknown}
        known = [each.name for each in outlook.inputs if parts(each.name)[-2:] not in last_two]
        return self._declined(outlook, known)

    def _suspended(self) -> str:
        return "" if _always(self.opened) else suspended(self.opened.handle.state())

    def _declined(self, increment: Increment, changed: Sequence[str]) -> str:
        """Why the query would be evaluated although its change can be computed."""
        if reason := self._suspended():
            return reason
        analysed, options = increment.analysed, self.opened.context.options
        plan = delta(analysed, dict.fromkeys(changed, Sides("", "", "")), self._clock(increment))
        if isinstance(plan, NotIncremental):
            return plan.reason
        commits = self.opened.handle.history(REMEMBERED)
        summed = wanted(options.state, self.opened.handle.progress, commits)
        if _always(self.opened) or (summed and isinstance(sums_of(analysed), Sums)):
            return ""
        if increment.small:
            return SMALL
        rows = sum(file.rows or 0 for file in self.opened.handle.state().files)
        if plan.adding is None and plan.scoped is not None and all_may_differ(plan.scoped, rows):
            return ALL_ROWS
        return QUICK if quick(commits) else in_vain(commits, summed=False)

    def _clock(self, increment: Increment) -> tuple[int, int] | None:
        """The times that `mv_now()` was and is, if it matters."""
        clock = increment.clock
        probe = None if clock is None else clock_probe(increment.analysed, clock)
        if probe is None:
            return clock
        [[same]] = self.opened.context.engine.query(probe, "clock")
        return None if same else clock


def _input(position: Position, recorded: Callable[[str], int | None], *, known: bool) -> dict[str, str]:
    reason = position.problem
    if not reason and position.id and recorded(position.id) is None:
        reason = "no earlier position is recorded"
    state = UNKNOWN if reason else UNCHANGED if position.unchanged(recorded) else CHANGED
    return {
        "name": position.name,
        "kind": position.kind,
        "state": state,
        "reason": reason,
        "changes": "known" if known else "not known",
        "moved": _moved(position, recorded(position.id)) if state == CHANGED else "",
    }


def _moved(position: Position, before: int | None) -> str:
    """From where to where, if people can read that."""
    if before is None or position.kind not in (SHARD, CLOCK, *VERSIONED):
        return ""
    timed = position.kind in (SHARD, CLOCK)
    was, now = (iso(number) if timed else str(number) for number in (before, position.number))
    return f"{was} -> {now}" if timed else f"version {was} -> {now}"
