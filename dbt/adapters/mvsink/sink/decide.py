"""Whether a run computes from the changes of its inputs or evaluates the query, and why. Pure.

A run, its preview (`mvsink plan`) and `mvsink explain` all ask `decide`. The first line of the
table that holds decides. How many changes there are, and how many keys may differ, is known only
while the changes are staged. Then the `Bounds` of the decision have the last word.

| case | evaluates because |
|---|---|
| an input changed while its change was computed | `MOVED` |
| the shard has no contents | |
| the user wants nothing else (`incremental: never`) | `NEVER` |
| contents had drifted, unless the run insists | `DRIFTED`, `DRIFTED_TWICE` |
| earlier incremental runs were in vain, unless the run insists | `SLOW`, `USUALLY_MANY_KEYS` |
| they were not fast, and the query was never evaluated since its first load | `NEVER_EVALUATED` |
| the inputs or the query do not allow it | as `Evidence.increment` says |
| it verifies, and the query may give different rows each time | |
| it has few sums | nothing: the query over all of them is evaluated |
| little data is read, and earlier runs do not say that the changes may cost less | `SMALL` |
| the last evaluation took less than 0.4 s, unless the run insists | `QUICK` |
| otherwise | nothing: it computes from the changes |

If nothing changed in the rows and columns that the query may use, none of this matters: the
contents stay, unless they had drifted or are to be verified.

Earlier incremental runs say nothing of a change that is far smaller than theirs. Of a larger one
they say what it will take at most, if the seconds grow with it (`RunHistory.bearable`): that moves
the bound above which much of an input has changed. A large share of so few rows that they cannot
take long is tried once, where evaluating the query does (`RunHistory.much_untried`).

Earlier runs say that the changes of little data may cost less where an evaluation took 0.8 s or
more, and computing from the changes took less, or has not been tried: so each way is tried once.
Of tiny data, the first load does not count for that: it says more of the session, which was new.
Other queries that only join, filter and unite rows are tried from the changes first, before an
evaluation, whatever the first load took.

A run *insists* on the changes if the policy is `incremental: always`, or if it verifies: a
verification has to separate the change from what was wrong before.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.engine.predicates import Filter
from dbt.adapters.mvsink.incremental import Analysed, Scoped, filters
from dbt.adapters.mvsink.inputs.position import InputSides
from dbt.adapters.mvsink.reasons import EvaluateFully, Why
from dbt.adapters.mvsink.shard import DataFile
from dbt.adapters.mvsink.sink.run_history import SUMMED, RunHistory


class Incremental(enum.Enum):
    """`AUTO` computes from the changes where that is right and costs less. `ALWAYS` computes from
    the changes, or the model fails. With `NEVER`, every run evaluates the query.
    """

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class SumsPolicy(enum.Enum):
    """Whether a model whose query adds up keeps its sums. With `AUTO`, it does where incremental
    runs without them take as long as evaluating the query.
    """

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Volume(NamedTuple):
    """How much data files hold; rows that are not counted do not count."""

    bytes: int
    rows: int

    @classmethod
    def of(cls, files: Iterable[DataFile]) -> Volume:
        """That of a shard's files."""
        listed = [*files]
        return cls(sum(file.size for file in listed), sum(file.rows or 0 for file in listed))


@dataclass(frozen=True)
class Increment:
    """A change of contents that follows from the changes of ``inputs``.

    ``inputs`` are the relations that are not read as the text of the query names them. ``clock`` is
    the times (ms) that `mv_now()` was and is, None if the query does not use it. ``small`` means
    that so little data is read that evaluating the query should cost no more, and ``tiny`` that
    only an evaluation may say otherwise, not the first load; for a query over the model's sums,
    ``small`` means that the sums are few. ``volume`` is what evaluating it would read, None if that
    is not known. ``reading`` is a number for everything that decides how the query is read. With
    ``unread``, inputs changed only in rows or columns that the query does not use.
    """

    analysed: Analysed
    inputs: tuple[InputSides, ...]
    clock: tuple[int, int] | None = None
    small: bool = False
    tiny: bool = False
    volume: Volume | None = None
    reading: int = 0
    unread: bool = False

    @property
    def share(self) -> float | None:
        """The largest share of an input's rows that have changed, at most; None if that is not
        known of each.
        """
        changed = [each for each in self.inputs if each.change is not None]
        if any(each.rows is None or each.updates is None for each in changed):
            return None
        return max(((each.updates or 0) / max(each.rows or 0, 1) for each in changed), default=None)

    @cached_property
    def filters(self) -> Mapping[str, Filter]:
        """See `incremental.filters`."""
        return filters(self.analysed)


@dataclass(frozen=True)
class Case:
    """What decides. ``contents`` says whether the shard has any, ``summed`` whether the query is
    the one over the model's sums, and ``moved`` whether an input changed while its change was
    computed. ``suspended`` is explained in `trust`. ``increment`` and ``history`` are called only
    if a line needs them, at most once.
    """

    increment: Callable[[], Increment | EvaluateFully]
    history: Callable[[], RunHistory]
    policy: Incremental = Incremental.AUTO
    verify: bool = False
    summed: bool = False
    contents: bool = True
    suspended: Why | None = None
    moved: bool = False

    @property
    def insists(self) -> bool:
        return self.policy is Incremental.ALWAYS or self.verify

    @cached_property
    def past(self) -> RunHistory:
        """The result of `history`."""
        return self.history()

    @cached_property
    def present(self) -> Increment | EvaluateFully:
        """The result of `increment`."""
        return self.increment()


@dataclass(frozen=True)
class Bounds:
    """How much may have changed for a correction from the changes to cost less.

    With ``none`` there is no bound, because the user insists or the sums are few. With ``wary``,
    much changed in the last runs, so changes that may be many are not even read. ``bearable`` is
    the share of an input that earlier runs have shown to be no more than that, and ``tried`` the
    number of rows that are tried whatever their share.
    """

    none: bool = False
    wary: bool = False
    bearable: float = 0.0
    tried: int = 0

    def may_change(self, each: InputSides, *, linear: bool) -> EvaluateFully | None:
        """The check before the changes of an input are staged. `Analysed` explains ``linear``."""
        if self.none or not self.wary or each.rows is None:
            return None
        many = each.updates is None or each.updates > self._most(each.rows, linear)
        return EvaluateFully(Why.USUALLY_MUCH) if many else None

    def changed(self, each: InputSides, count: int, *, linear: bool) -> EvaluateFully | None:
        """The check once ``count`` rows of the input are known to have changed; a replaced row
        counts twice.
        """
        if self.none or each.rows is None or count <= self._most(each.rows, linear):
            return None
        return EvaluateFully(Why.MUCH_CHANGED, each.name, f"{count / max(each.rows, 1):.0%}")

    def most(self, each: InputSides, *, linear: bool) -> float | None:
        """How many rows of the input may have changed; None without a bound."""
        return None if self.none or each.rows is None else self._most(each.rows, linear)

    def _most(self, rows: int, linear: bool) -> float:
        """How many changes of an input with so many rows are not much."""
        share = limits.MAX_CHANGED_LINEAR if linear else limits.MAX_CHANGED
        return max(limits.FEW_CHANGES, self.tried, max(share, self.bearable) * rows)

    def keys(self, count: int, rows: int) -> EvaluateFully | None:
        """The check where ``count`` keys may differ, of ``rows`` rows that each have one of the
        keys.
        """
        return None if self.none or count <= limits.MAX_KEYS * rows else EvaluateFully(Why.MANY_KEYS)

    def scope(self, scoped: Scoped, rows: int) -> EvaluateFully | None:
        """The check where the rows in scope are compared with a shard of ``rows`` rows."""
        every = scoped.keys is None and rows > limits.MANY_ROWS
        return EvaluateFully(Why.ALL_ROWS) if every and not self.none else None


@dataclass(frozen=True)
class Decision:
    """``full`` says why the query is evaluated. If it is None, the contents follow from
    ``increment`` within ``bounds``, or, with ``all_sums``, from the query over all of the model's
    few sums. With ``keeps``, the contents stay as they are.
    """

    full: EvaluateFully | None = None
    increment: Increment | None = None
    bounds: Bounds = Bounds()
    all_sums: bool = False
    keeps: bool = False


def decide(case: Case) -> Decision:
    """The decision by the first line of the module's table that holds."""
    if case.moved:
        return Decision(EvaluateFully(Why.MOVED))
    if not case.contents:
        return Decision(EvaluateFully())
    if case.policy is Incremental.NEVER:
        return Decision(EvaluateFully(Why.NEVER))
    if not case.insists:
        vain = _in_vain(case)
        why = case.suspended or (None if vain is None or far_less_changed(case, vain) else vain)
        if why is not None:
            return Decision(EvaluateFully(why))
    increment = case.present
    if isinstance(increment, EvaluateFully):
        return Decision(increment)
    if increment.unread and not case.verify:
        return Decision(increment=increment, keeps=True)
    if case.verify and increment.analysed.unrepeatable:
        return Decision(EvaluateFully())  # rows that did not change may differ when evaluated again
    if case.summed and increment.small and not case.verify:
        return Decision(increment=increment, all_sums=True)
    # what such a query costs from the changes depends on them alone: that is tried first
    first = increment.analysed.linear and not increment.tiny and not case.past.evaluated_before()
    free = case.policy is Incremental.ALWAYS or (case.summed and increment.small)
    if increment.small and not free:  # a verification is not about its cost
        if case.verify:
            return Decision(EvaluateFully())
        only_loaded = increment.tiny and not case.past.evaluated_before()
        may_pay = first or case.past.changes_may_pay() or far_less_changed(case, Why.SMALL)
        if only_loaded or not may_pay:
            return Decision(EvaluateFully(Why.SMALL))
    if not case.insists and not case.summed and not first and case.past.quick():
        return Decision(EvaluateFully(Why.QUICK))
    wary = not case.insists and case.past.much_changes()
    tried = limits.TRIED_CHANGES if not free and case.past.much_untried() else 0
    return Decision(None, increment, Bounds(free, wary, 0.0 if free else case.past.bearable(), tried))


def fails(policy: Incremental, full: EvaluateFully) -> bool:
    """Whether a run fails rather than evaluate the query."""
    return policy is Incremental.ALWAYS and full.why is not Why.UNSAID and not full.expected


def keeps_sums(policy: SumsPolicy, history: RunHistory, *, in_use: bool) -> bool:
    """Whether a run keeps sums. ``in_use`` says whether the model's contents were computed from
    sums.
    """
    if policy is not SumsPolicy.AUTO:
        return policy is SumsPolicy.ALWAYS
    worthwhile = in_use or history.slow() or history.most_keys_change()
    return worthwhile and not history.slow(SUMMED)


def _in_vain(case: Case) -> Why | None:
    """Why the changes of the inputs are not read, judging by earlier runs."""
    history = case.past
    if case.summed:
        return Why.SLOW if history.slow(SUMMED) else None
    if history.slow():
        return Why.SLOW if history.evaluated_before() else Why.NEVER_EVALUATED
    return Why.USUALLY_MANY_KEYS if history.most_keys_change() else None


def far_less_changed(case: Case, vain: Why) -> bool:
    """Whether so much less changed than in the runs that were in ``vain`` that they say nothing."""
    increment = case.present
    if isinstance(increment, EvaluateFully):
        return False
    if increment.unread:
        return True
    earlier = case.past.shares(vain)
    known = [share for share in earlier if share is not None]
    if not known or len(known) < len(earlier):
        return False
    share = increment.share
    return share is not None and share * limits.FAR_LESS <= min(known)
