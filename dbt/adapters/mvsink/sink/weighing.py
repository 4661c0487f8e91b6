"""What `decide` weighs, with its numbers, for people: the lines of its table down to the one that
decided. Pure.

    fact                     numbers                                                     decides
    earlier runs             incremental 0.7 s, 0.9 s, evaluated 4.0 s: worth it up to 3.2 s
    data that it reads       210.0 MB, 6,000,000 rows: small up to 32.0 MB, 1,000,000 rows
    an evaluation            4.0 s: quick below 0.4 s
    changes of shop.orders   600 of 6,000,000 rows: from the changes up to 600,000       yes
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.reasons import EvaluateFully, Why
from dbt.adapters.mvsink.sink.decide import Bounds, Case, Decision, Increment, far_less_changed
from dbt.adapters.mvsink.sink.run_history import INCREMENTAL, SUMMED

NOT_KNOWN = "not known"


@dataclass(frozen=True)
class Weighed:
    """A ``fact`` with its ``numbers``. ``decides``: it is why the query is evaluated or, in the
    last line, why it is not.
    """

    fact: str
    numbers: str
    decides: bool = False


def weighed(case: Case, decision: Decision) -> tuple[Weighed, ...]:
    """The facts down to the one that made the ``decision`` of the ``case``."""
    why = None if decision.full is None else decision.full.why
    if why is not None and why not in _WEIGHED:  # nothing was weighed: it cannot be otherwise
        return ()
    listed = []
    for name, decides_by, numbers in _LINES:
        listed.append(Weighed(name, numbers(case), why in decides_by))
        if listed[-1].decides:
            return tuple(listed)
    if decision.all_sums:
        return (*listed, Weighed("sums", "few: all of them are computed again", True))
    increment = decision.increment
    return tuple(listed) if increment is None else (*listed, *_changes(increment, decision.bounds))


def _earlier_runs(case: Case) -> str:
    seconds, evaluated = case.past.last_two(SUMMED if case.summed else INCREMENTAL)
    if not seconds:
        return "none was incremental"
    took = f"incremental {_listed(seconds)}"
    if evaluated is None:
        return f"{took}, evaluated: {NOT_KNOWN}"
    worth = f"worth it up to {_seconds(limits.WORTHWHILE * evaluated)}"
    return f"{took}, evaluated {_seconds(evaluated)}: {worth}{_less_changed(case, Why.SLOW)}"


def _less_changed(case: Case, vain: Why) -> str:
    """The words where earlier runs say nothing, because far less changed."""
    return "; far less has changed this time" if far_less_changed(case, vain) else ""


def _keys(case: Case) -> str:
    if not case.past.most_keys_change():
        return f"few, as far as is known: from the changes up to {limits.MAX_KEYS:.0%} of them"
    less = _less_changed(case, Why.USUALLY_MANY_KEYS)
    return f"too many in the last two runs: from the changes up to {limits.MAX_KEYS:.0%} of them{less}"


def _volume(case: Case) -> str:
    increment = case.present
    volume = None if isinstance(increment, EvaluateFully) else increment.volume
    read = NOT_KNOWN if volume is None else f"{_megabytes(volume.bytes)}, {volume.rows:,} rows"
    return f"{read}: small up to {_megabytes(limits.SMALL_BYTES)}, {limits.SMALL_ROWS:,} rows"


def _evaluation(case: Case) -> str:
    took = case.past.seconds().get("evaluated")
    shown = NOT_KNOWN if took is None else _seconds(took)
    return f"{shown}: quick below {_seconds(limits.QUICK_EVALUATION)}"


# in the order of `decide`
_LINES: tuple[tuple[str, tuple[Why, ...], Callable[[Case], str]], ...] = (
    ("earlier runs", (Why.SLOW, Why.NEVER_EVALUATED), _earlier_runs),
    ("keys that may differ", (Why.USUALLY_MANY_KEYS,), _keys),
    ("data that it reads", (Why.SMALL,), _volume),
    ("an evaluation", (Why.QUICK,), _evaluation),
)
_WEIGHED = {why for _, decides_by, _ in _LINES for why in decides_by}


def _changes(increment: Increment, bounds: Bounds) -> Iterator[Weighed]:
    linear = increment.analysed.linear
    for each in increment.inputs:
        if each.change is None:
            continue
        most = bounds.most(each, linear=linear)
        count = NOT_KNOWN if each.updates is None else f"at most {each.updates:,}"
        rows = NOT_KNOWN if each.rows is None else f"{each.rows:,}"
        bound = "whatever their number" if most is None else f"up to {most:,.0f}"
        yield Weighed(f"changes of {each.name}", f"{count} of {rows} rows: from the changes {bound}", True)


def _listed(seconds: list[float]) -> str:
    return ", ".join(map(_seconds, seconds))


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s"


def _megabytes(size: int) -> str:
    return f"{size / 2**20:.1f} MB"
