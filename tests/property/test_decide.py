"""Run, preview and explanation read one table of decisions, and sentences decide nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbt.adapters.mvsink.incremental import Sums
from dbt.adapters.mvsink.materialization import explanation
from dbt.adapters.mvsink.materialization.kept_sums import TIME
from dbt.adapters.mvsink.reasons import EvaluateFully, Why
from dbt.adapters.mvsink.shard import CommitNote
from dbt.adapters.mvsink.shard_sql import Counts
from dbt.adapters.mvsink.sink import (
    Increment,
    Incremental,
    Independent,
    RunHistory,
    SumsPolicy,
    fails,
    keeps_sums,
    strategy,
)
from dbt.adapters.mvsink.sink.errors import CannotBeIncremental
from dbt.adapters.mvsink.sink.round import Round, Written
from dbt.adapters.mvsink.sink.run_history import EVALUATED, INCREMENTAL, LOADED, SUMMED

ABOUT = ("shop.orders", "31%", "")  # as many as the longest sentence has holes
REASONS = st.sampled_from([why for why in Why if why is not Why.UNSAID])
MODES = st.sampled_from([EVALUATED, INCREMENTAL, LOADED, SUMMED, ""])
NOTES = st.lists(
    st.tuples(MODES, st.sampled_from([None, 0.1, 0.7, 1.0, 5.0]), st.sampled_from(["", *Why])), max_size=6
)


@st.composite
def states(draw: st.DrawFn) -> SimpleNamespace:
    """What decides: options, the shard, its log, and what is known of the inputs. Sums are in use
    or not; if a model's query adds up, it has them.
    """
    adds_up = draw(st.booleans())
    analysed = SimpleNamespace(unrepeatable=None, linear=False, relations={}, adds_up=adds_up)
    increment: Any = Increment(analysed, (), small=draw(st.booleans()), tiny=draw(st.booleans()))  # type: ignore[arg-type]
    if draw(st.booleans()):
        increment = EvaluateFully(draw(REASONS), *ABOUT)
    return SimpleNamespace(
        policy=draw(st.sampled_from(Incremental)),
        sums=draw(st.sampled_from(SumsPolicy)),
        in_use=draw(st.booleans()),
        suspended=draw(st.sampled_from([0, 1, 2])),
        notes=draw(NOTES),
        increment=increment,
    )


def noted(state: SimpleNamespace) -> list[SimpleNamespace]:
    """The commits of those runs, with the words that the reasons have now."""
    commits = []
    for mode, seconds, why in state.notes:
        full = EvaluateFully(why, *ABOUT) if why else EvaluateFully()
        note = CommitNote(mode=mode, seconds=seconds, why=full.why.code, reason=full.text)
        commits.append(SimpleNamespace(note=note))
    return commits


def handle(state: SimpleNamespace) -> SimpleNamespace:
    commits = noted(state)
    return SimpleNamespace(
        history=lambda newest: commits[-newest:],
        progress={TIME: int(state.in_use)}.get,
        state=lambda: SimpleNamespace(plan=1, suspended=state.suspended, files=()),
    )


def keeps(state: SimpleNamespace) -> bool:
    """Whether the run keeps sums (`SelfCorrectingView._sums`)."""
    if state.policy is Incremental.NEVER or state.suspended or isinstance(state.increment, EvaluateFully):
        return False
    history = RunHistory(tuple(commit.note for commit in noted(state)))
    wanted = keeps_sums(state.sums, history, in_use=state.in_use)
    return wanted and state.increment.analysed.adds_up


def run(state: SimpleNamespace) -> tuple[str, bool]:
    """How a run, or its preview, computes: why in full, and whether it fails."""
    opened = handle(state)
    request = SimpleNamespace(
        model="dev.m",
        verify=False,
        incremental=state.policy,
        summed=keeps(state),
        evidence=SimpleNamespace(increment=lambda *_: state.increment),
        independent=Independent(),
    )
    run = strategy.Strategy(request, SimpleNamespace(handle=opened), opened.progress, print)  # type: ignore[arg-type]
    try:
        plan, shard = SimpleNamespace(time=1), SimpleNamespace(empty=False)
        change = run.change(Round(opened.state(), plan, shard, None, None))  # type: ignore[arg-type]
    except CannotBeIncremental as error:
        return str(error).split(": ", 1)[1].split(". Nothing was written")[0], True
    return ("" if isinstance(change, Written) else change.text), False


def explained(state: SimpleNamespace) -> tuple[str, bool]:
    """The same as `mvsink explain` has it."""
    options = SimpleNamespace(incremental=state.policy, state=state.sums)
    opened = SimpleNamespace(handle=handle(state), context=SimpleNamespace(options=options))
    full = explanation._Explained(None, opened, 1)._full(state.increment, ())  # type: ignore[arg-type]
    return full.text, fails(state.policy, full)


@pytest.fixture(autouse=True)
def staged(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is decided before anything is staged."""
    whole = Written(None, Counts(), incremental=True)
    monkeypatch.setattr(strategy, "stage_change", lambda *_: whole)
    monkeypatch.setattr(strategy.Strategy, "_of_few_sums", lambda *_: whole)
    monkeypatch.setattr(explanation._Explained, "_refused", lambda *_: None)
    monkeypatch.setattr(explanation, "sums_of", lambda read: Sums("", (), ()) if read.adds_up else None)


@settings(max_examples=400, deadline=None)
@given(states())
def test_a_run_and_its_explanation_agree(state):
    """`mvsink plan` computes as a run does (tests/property/test_previews.py)."""
    assert run(state) == explained(state)


@settings(max_examples=100, deadline=None)
@given(states())
def test_other_sentences_decide_nothing_else(state):
    before = [(bool(text), fails) for text, fails in (run(state), explained(state))]
    words = {why: why.words for why in Why}
    try:
        for why in Why:
            why.words = "other words" if why.words else ""
        after = [(bool(text), fails) for text, fails in (run(state), explained(state))]
    finally:
        for why, sentence in words.items():
            why.words = sentence
    assert after == before


def test_each_reason_has_a_name_and_a_sentence_of_its_own():
    codes, sentences = ([getattr(why, each) for why in Why] for each in ("code", "words"))
    assert len({*codes}) == len(codes)
    unlike = [words for words in sentences if words not in ("", "{}")]
    assert len({*unlike}) == len(unlike)
    assert all(EvaluateFully(why, *ABOUT).text or why is Why.UNSAID for why in Why)
