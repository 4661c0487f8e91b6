"""When a run tries to compute its correction from the changes of its inputs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dbt.adapters.mvsink.reasons import EvaluateFully, Why
from dbt.adapters.mvsink.shard_sql import Counts
from dbt.adapters.mvsink.sink import Incremental, Independent, ReadsLater
from dbt.adapters.mvsink.sink.correction import Desired
from dbt.adapters.mvsink.sink.errors import CannotBeIncremental
from dbt.adapters.mvsink.sink.round import Round, Written
from dbt.adapters.mvsink.sink.strategy import Strategy

STATE = SimpleNamespace(plan=1, suspended=0)


def staging(
    reason: EvaluateFully,
    *,
    verify: bool = False,
    stage: Any = lambda *arguments: Written(None, Counts()),
    own_text: Any = None,
) -> Strategy:
    evidence = SimpleNamespace(
        increment=lambda state, recorded, time: reason, settled=lambda state, recorded, time: False
    )
    request = SimpleNamespace(
        model="dev.m",
        verify=verify,
        incremental=Incremental.ALWAYS,
        summed=False,
        evidence=evidence,
        independent=Independent(own_text),
        way="",
    )
    return Strategy(request, SimpleNamespace(model="dev.m", stage=stage), None, None)


def over(shard: Any, desired: Any = None) -> Round:
    return Round(STATE, SimpleNamespace(time=1), shard, None, desired)


def test_always_fails_with_the_reason_and_what_else_is_allowed():
    wanted = "`incremental` is always, but this run cannot be: raw.t changed. Nothing was written; with auto the query would be evaluated in full"
    with pytest.raises(CannotBeIncremental, match=wanted):
        staging(EvaluateFully(Why.UNREADABLE, "raw.t changed")).stage(over(SimpleNamespace(empty=False)))


def test_always_evaluates_where_nothing_is_known_of_the_inputs():
    """An error would have no reason to give."""
    written = staging(EvaluateFully()).stage(over(SimpleNamespace(empty=False)))
    assert not written.incremental


def test_always_evaluates_what_a_new_definition_asks_for():
    reason = EvaluateFully(Why.REDEFINED)
    written = staging(reason).stage(over(SimpleNamespace(empty=False)))
    assert (written.incremental, written.full) == (False, reason)


def test_a_verification_says_why_it_cannot_tell_drift_from_a_change():
    shard = SimpleNamespace(empty=False, rows=1, files=())
    written = staging(EvaluateFully(Why.OTHER_TOOL), verify=True).stage(over(shard))
    assert (written.incremental, written.full.why) == (False, Why.OTHER_TOOL)


class OwnText:
    """The author's text; what it reads is written in the checks of these numbers."""

    def __init__(self, *written: int):
        self.written, self.checks = written, 0

    def at(self, time: int) -> str:
        self.check(time)
        return "the author's"

    def check(self, time: int) -> None:
        self.checks += 1
        if self.checks in self.written:
            raise ReadsLater("dev.r was written since")


@pytest.mark.parametrize(
    ("written", "evaluated", "reason"),
    [
        ((), ["the author's"], ""),
        ((1,), ["the run's"], "dev.r was written since"),
        ((2,), ["the author's", "the run's"], "dev.r was written since"),
    ],
)
def test_a_verification_evaluates_what_the_author_wrote_as_long_as_it_reads_the_same(
    written, evaluated, reason
):
    texts, deleted = [], []
    batch = SimpleNamespace(delete=lambda: deleted.append(texts[-1]))

    def stage(at, *_):
        texts.append(at.desired.query)
        return Written(batch, Counts(1, 0))

    verification = staging(EvaluateFully(), verify=True, stage=stage, own_text=OwnText(*written))
    desired = Desired("the run's", (), 0)
    staged = verification.stage(over(SimpleNamespace(empty=False, rows=1, files=()), desired))
    assert (texts, staged.rewritten) == (evaluated, reason)
    assert deleted == evaluated[:-1]
