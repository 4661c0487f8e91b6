"""Explains how a run would treat a view's inputs, and why. Nothing is evaluated."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from dbt.adapters.mvsink import limits
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
from dbt.adapters.mvsink.inputs.position import CLOCK, SHARD, InputSides, Position
from dbt.adapters.mvsink.inputs.registry import VERSIONED
from dbt.adapters.mvsink.materialization.errors import LOWER_ERRORS
from dbt.adapters.mvsink.materialization.evidence import InputEvidence, verification_due
from dbt.adapters.mvsink.materialization.kept_sums import KeptSums, in_use
from dbt.adapters.mvsink.materialization.opening import Opened
from dbt.adapters.mvsink.reasons import EvaluateFully, Why
from dbt.adapters.mvsink.shard import ShardState
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.sink import (
    Bounds,
    Case,
    Increment,
    Incremental,
    RunHistory,
    SumsPolicy,
    Weighed,
    fails,
    keeps_sums,
    suspended,
    weighed,
)
from dbt.adapters.mvsink.sink.decide import decide
from dbt.adapters.mvsink.user_sql.words import parts

log = logging.getLogger("mvsink.sink.write")
UNCHANGED, CHANGED, UNKNOWN = "unchanged", "changed", "cannot be known"
NOT_DUE, SAME = "no refresh is due", "its inputs are unchanged"
UNREAD = "nothing that its query uses of its inputs has changed"
NO_CONTENTS, VERIFICATION = "it has no contents yet", "a verification is due"


@dataclass(frozen=True)
class Explanation:
    """``evaluates`` says why something would be computed; if nothing would, it is empty and
    ``rests`` says why. ``inputs`` has for each input its name, kind and state, the reason if it
    cannot be known, whether its ``changes`` are `known` or `not known`, and, if it ``moved``, from
    where to where. ``full`` says why the query would be evaluated in full, and is empty if the
    contents follow from the changes of the inputs. ``later`` says why later runs would evaluate it
    when inputs change; it is empty if they would not, and None if `full` says it. With ``always``
    such runs would fail; ``fails`` says that this one would. `RunHistory.seconds` explains
    ``seconds``. ``weighed`` is what the decision of this or a later run weighs. ``rules`` and
    ``remarks`` are those of `incremental.describe`, none if the query is not incremental, and what
    each of the last runs has cost the readers.
    """

    evaluates: str
    rests: str = ""
    inputs: list[dict[str, str]] = field(default_factory=list)
    full: str = ""
    later: str | None = None
    always: bool = False
    fails: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    weighed: tuple[Weighed, ...] = ()
    rules: list[Rule] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def explanation(evidence: InputEvidence, opened: Opened) -> Explanation:
    """What a run of the opened view would do now."""
    time = opened.timing.time
    explained = Explanation("", NOT_DUE)
    if time is not None:
        explained = _Explained(evidence, opened, time).all()
        analysed = evidence.change(opened.handle.progress, time).analysed()
        if isinstance(analysed, Analysed):
            explained = replace(explained, rules=[*rules(analysed)], remarks=[*remarks(analysed)])
    history = RunHistory.of(opened.handle)
    rewritten = history.rewritten(Layout.of(opened.handle, opened.handle.state()).live_rows)
    if rewritten is not None and rewritten >= limits.REWRITTEN:
        remark = f"{rewritten:.0%} of its rows changed in each of the last {limits.REWRITING} runs; its readers evaluate"
        explained = replace(explained, remarks=[*explained.remarks, remark])
    return replace(explained, always=_always(opened), seconds=history.seconds())


def option_warnings(
    evidence: InputEvidence | None, opened: Opened, before: ShardState, kept: KeptSums | NotIncremental | None
) -> Iterator[str]:
    """Warnings about options that ask for what the query does not allow, after a run of the opened
    view. Its shard was in the state ``before``; ``kept`` are its sums, or why it cannot keep any.

    A run warns about `incremental: always` if the query, or what decides its contents, is new: this
    run evaluated the query, but later runs will fail.
    """
    context, timing = opened.context, opened.timing
    if isinstance(kept, NotIncremental) and context.options.state is SumsPolicy.ALWAYS:
        yield f"`state` is always, but it keeps no sums: {kept.reason}"
    same = before.readable and not timing.generation and before.plan == opened.handle.state().plan
    if same or evidence is None or timing.time is None or context.read_only or not _always(opened):
        return
    explained = _Explained(evidence, opened, timing.time)
    try:
        reason, dated = explained.later(), explained.dated
    except LOWER_ERRORS as error:  # the run itself has succeeded
        log.info("%s: what later runs will do is not known: %s", context.model, error)
        return
    if reason or dated is not None:
        which = "runs after this one" if reason else "the first run of each new value of its `mv_now()`"
        yield f"`incremental` is always, but {which} cannot be, and will fail: {reason or dated}"


def _always(opened: Opened) -> bool:
    return opened.context.options.incremental is Incremental.ALWAYS


@dataclass(frozen=True)
class _Explained:
    """The explanation of a run as of ``time`` (ms)."""

    evidence: InputEvidence
    opened: Opened
    time: int

    def all(self) -> Explanation:
        state, recorded = self.opened.handle.state(), self.opened.handle.progress
        unknown = self.evidence.change(recorded, self.time).inputs.unknown()
        inputs = [
            _input(position, recorded, known=position.name not in unknown and self._maintained(position))
            for position in self.evidence.positions(self.time)
        ]
        due = verification_due(self.opened.context, state)
        passing = [self.opened.timing.generation, "" if state.readable else NO_CONTENTS]
        problem = self.evidence.problem(state)
        reasons = [*passing, "" if problem is None else problem.text]
        reasons += [
            each["reason"] or f"{each['name']} changed" for each in inputs if each["state"] != UNCHANGED
        ]
        evaluates = next((reason for reason in (*reasons, VERIFICATION if due else "") if reason), "")
        if not evaluates:
            return Explanation("", SAME, inputs, later=self.later(), weighed=self._weighed(self._outlook))
        passes = next(filter(None, (*passing, VERIFICATION if due else "")), "")
        if passes:
            later = self.later()
            return Explanation(evaluates, "", inputs, passes, later, weighed=self._weighed(self._outlook))
        increment = self.evidence.increment(state, recorded, self.time)
        if isinstance(increment, Increment) and decide(self._case(increment)).keeps:
            return Explanation("", UNREAD, inputs, later=self.later(), weighed=self._weighed(self._outlook))
        changed = {each.name for each in _inputs(increment) if each.change is not None}
        full, costs = self._full(increment, changed), self._weighed(increment)
        return Explanation(evaluates, "", inputs, full.text, fails=fails(self._policy, full), weighed=costs)

    def later(self) -> str:
        """Why the query would be evaluated after a change of any input, after this run."""
        outlook, recorded = self._outlook, self.opened.handle.progress
        unknown = {parts(name)[-2:] for name in self.evidence.change(recorded, self.time).inputs.unknown()}
        known = {each.name for each in _inputs(outlook) if parts(each.name)[-2:] not in unknown}
        return self._full(outlook, known).text

    @cached_property
    def _outlook(self) -> Increment | EvaluateFully:
        """How a later change of any input would be treated."""
        handle = self.opened.handle
        return self.evidence.outlook(handle.state(), handle.progress, self.time)

    def _weighed(self, increment: Increment | EvaluateFully) -> tuple[Weighed, ...]:
        """What `incremental: auto` weighs; nothing where the user or the query has decided."""
        case = self._case(increment)
        return weighed(case, decide(case)) if case.policy is Incremental.AUTO else ()

    @cached_property
    def dated(self) -> str | None:
        """Why a run evaluates the query when the value of an expression of `mv_now()` changes, as
        that of `cast(mv_now() as date)` does at midnight; None if it need not.
        """
        analysed = self.evidence.change(self.opened.handle.progress, self.time).analysed()
        if not isinstance(analysed, Analysed) or not analysed.marks:
            return None
        plan = delta(analysed, {}, (self.time, self.time + 1))
        return plan.reason if isinstance(plan, NotIncremental) else None

    def _maintained(self, position: Position) -> bool:
        return position.kind != CLOCK or self.dated is None

    def _full(self, increment: Increment | EvaluateFully, changed: Collection[str]) -> EvaluateFully:
        """Why the query would be evaluated after a change of the inputs ``changed``; `Why.UNSAID`
        if it would not be, as far as that is known before the changes are staged.
        """
        decision = decide(self._case(increment))
        if decision.full is not None or decision.all_sums:
            return decision.full or EvaluateFully()
        assert decision.increment is not None
        return self._refused(decision.increment, changed, decision.bounds) or EvaluateFully()

    def _case(self, increment: Increment | EvaluateFully) -> Case:
        return Case(
            increment=lambda: increment,
            history=lambda: self._history,
            policy=self._policy,
            summed=isinstance(increment, Increment) and self._summed(increment),
            suspended=suspended(self.opened.handle.state()),
        )

    def _summed(self, increment: Increment) -> bool:
        """Whether the run would compute from the model's sums."""
        handle, option = self.opened.handle, self.opened.context.options.state
        keeps = keeps_sums(option, self._history, in_use=in_use(handle.progress))
        drifted = suspended(handle.state())
        return keeps and not drifted and isinstance(sums_of(increment.analysed), Sums)

    @cached_property
    def _history(self) -> RunHistory:
        return RunHistory.of(self.opened.handle)

    @property
    def _policy(self) -> Incremental:
        return self.opened.context.options.incremental

    def _refused(
        self, increment: Increment, changed: Collection[str], bounds: Bounds
    ) -> EvaluateFully | None:
        """Why a change of these inputs cannot be computed, or not at less cost."""
        plan = delta(increment.analysed, dict.fromkeys(changed, Sides("", "", "")), self._clock(increment))
        if isinstance(plan, NotIncremental):
            return EvaluateFully(Why.NOT_INCREMENTAL, plan.reason)
        if plan.adding is not None or plan.scoped is None or self._summed(increment):
            return None
        return bounds.scope(plan.scoped, sum(file.rows or 0 for file in self.opened.handle.state().files))

    def _clock(self, increment: Increment) -> tuple[int, int] | None:
        """The times that `mv_now()` was and is, if it matters."""
        clock = increment.clock
        probe = None if clock is None else clock_probe(increment.analysed, clock)
        if probe is None:
            return clock
        [[same]] = self.opened.context.engine.query(probe, "clock")
        return None if same else clock


def _inputs(increment: Increment | EvaluateFully) -> tuple[InputSides, ...]:
    return increment.inputs if isinstance(increment, Increment) else ()


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
    """From where to where the input moved, if people can read that."""
    if before is None or position.kind not in (SHARD, CLOCK, *VERSIONED):
        return ""
    timed = position.kind in (SHARD, CLOCK)
    was, now = (iso(number) if timed else str(number) for number in (before, position.number))
    return f"{was} -> {now}" if timed else f"version {was} -> {now}"
