"""What the newest commits say: which runs show that computing from the changes is in vain."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.inputs.position import InputSides, QueryRows
from dbt.adapters.mvsink.reasons import EvaluateFully, Why
from dbt.adapters.mvsink.shard import CommitNote
from dbt.adapters.mvsink.sink.decide import Bounds, Case, Increment, Incremental, decide
from dbt.adapters.mvsink.sink.run_history import EVALUATED, INCREMENTAL, LOADED, SUMMED, RunHistory

Run = tuple[str, float | None]


def history(*runs: Run) -> RunHistory:
    """The newest that a run remembers."""
    notes = [CommitNote(mode=mode, seconds=seconds) for mode, seconds in runs]
    return RunHistory(tuple(notes[-limits.REMEMBERED :]))


def in_vain(history: RunHistory, *, summed: bool) -> Why:
    """Why the changes of the inputs are not read."""
    unknown = EvaluateFully()
    decision = decide(Case(increment=lambda: unknown, history=lambda: history, summed=summed))
    assert decision.full is not None
    return decision.full.why


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([], False),
        ([(LOADED, 10.0), (INCREMENTAL, 9.0)], False),
        ([(EVALUATED, 10.0), (INCREMENTAL, 9.0), (INCREMENTAL, 9.0)], True),
        ([(EVALUATED, 10.0), (INCREMENTAL, 9.0), (INCREMENTAL, 7.0)], False),
        ([(EVALUATED, 20.0), (EVALUATED, 4.0), (INCREMENTAL, 9.0), (INCREMENTAL, 3.5)], True),
        ([(EVALUATED, 4.0), (INCREMENTAL, 9.0), (INCREMENTAL, 3.5), (INCREMENTAL, 3.0)], False),
        ([(INCREMENTAL, 9.0), (INCREMENTAL, 9.0)], False),
        ([(EVALUATED, 4.0), ("", 0.0), (INCREMENTAL, None), (INCREMENTAL, 9.0)], False),
    ],
)
def test_two_slow_runs_in_a_row_are_enough(runs, expected):
    assert history(*runs).slow() == expected


def test_what_was_slow_is_tried_again_after_some_commits():
    slow_runs = [(EVALUATED, 4.0), (INCREMENTAL, 9.0), (INCREMENTAL, 9.0)]
    assert history(*slow_runs, *[(EVALUATED, 4.0)] * 18).slow()
    assert not history(*slow_runs, *[(EVALUATED, 4.0)] * 19).slow()


def test_a_run_that_evaluated_the_query_counts_and_not_the_guess_from_the_first_load():
    """A correction may take far longer than the load: it also reads the shard."""
    runs = [(LOADED, 1.0), (INCREMENTAL, 1.4), (INCREMENTAL, 1.2)]
    assert history(*runs).slow()
    assert not history(*runs, (EVALUATED, 10.0)).slow()


def test_the_newest_run_that_evaluated_the_query_counts():
    """More changes may come than before; then both ways take longer."""
    runs = [(EVALUATED, 4.0), (INCREMENTAL, 5.0), (INCREMENTAL, 5.0)]
    assert history(*runs).slow()
    assert not history(*runs, (EVALUATED, 14.0)).slow()
    assert not history(*runs, (EVALUATED, 4.0), (EVALUATED, 14.0)).slow()


def test_an_evaluation_that_took_somewhat_longer_later_does_not_speak_for_the_changes():
    runs = [(EVALUATED, 4.0), (INCREMENTAL, 5.0), (INCREMENTAL, 5.0), (EVALUATED, 4.0)]
    assert history(*runs, (EVALUATED, 7.0), (EVALUATED, 8.0)).slow()
    assert history(*runs, (EVALUATED, 3.0)).slow()
    assert not history(*runs, (EVALUATED, 8.1)).slow()


def changing(mode: str, seconds: float, rows: int) -> CommitNote:
    return CommitNote(mode=mode, seconds=seconds, rows_inserted=rows)


def slow(*notes: CommitNote) -> bool:
    return RunHistory(notes).slow()


@pytest.mark.parametrize(("rows", "expected"), [(200, False), (201, True)])
@pytest.mark.parametrize("between", [(), (changing(EVALUATED, 2.0, 90),)])
def test_an_evaluation_that_changed_far_more_rows_does_not_speak_for_the_changes(rows, expected, between):
    """They would have taken longer, too. If it took longer for as many rows, there is more data."""
    runs = [changing(mode, seconds, 100) for mode, seconds in ((EVALUATED, 2.0), *[(INCREMENTAL, 3.0)] * 2)]
    assert slow(*runs, *between, changing(EVALUATED, 9.0, rows)) == expected


def test_an_evaluation_that_changed_far_more_rows_counts_if_there_is_no_other():
    runs = [changing(INCREMENTAL, 3.0, 100)] * 2
    assert slow(*runs, changing(EVALUATED, 3.0, 1000))
    assert not slow(*runs, changing(EVALUATED, 9.0, 1000))


@pytest.mark.parametrize(
    ("share", "seconds", "expected"),
    [
        (None, 3.5, True),
        (0.01, 3.4, False),
        (0.01, 3.5, True),
        (0.02, 6.6, False),
        (0.05, 6.7, True),
        (0.06, 14.6, False),
        (0.5, 14.7, True),
    ],
)
def test_while_no_evaluation_is_known_the_load_and_what_changes_are_a_guess(share, seconds, expected):
    """A load of 10 s: an evaluation takes 6 s where little changes and 20 s where much does, of
    which 2 s may be what the session took to begin; and 0.3 s more, to compare.
    """
    note = CommitNote(mode=INCREMENTAL, seconds=seconds, share=share)
    assert slow(changing(LOADED, 10.0, 1000), note, note) is expected


def test_half_of_what_a_short_load_lets_expect_may_be_the_session():
    for seconds, expected in ((0.73, True), (0.71, False)):  # half of 60 % of 2 s, and 0.3, less a fifth
        assert slow(changing(LOADED, 2.0, 9), *[changing(INCREMENTAL, seconds, 1)] * 2) is expected


def test_a_query_that_was_never_evaluated_since_its_load_says_so():
    """One dear evaluation that is known from a first load alone decides nothing for ever."""
    runs = [(LOADED, 3.0), (INCREMENTAL, 1.5), (INCREMENTAL, 1.5)]
    assert in_vain(history(*runs), summed=False) is Why.NEVER_EVALUATED
    assert in_vain(history(*runs, (EVALUATED, 2.0)), summed=False) is Why.UNSAID
    assert in_vain(history(*runs, (EVALUATED, 0.9)), summed=False) is Why.SLOW


SMALL = Increment(SimpleNamespace(unrepeatable=None, linear=False), (), small=True)  # type: ignore[arg-type]
LINEAR = replace(SMALL, analysed=SimpleNamespace(unrepeatable=None, linear=True))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([], Why.SMALL),
        ([(LOADED, 0.7)], Why.SMALL),
        ([(LOADED, 0.9)], Why.UNSAID),
        ([(LOADED, 9.0), (EVALUATED, 0.7)], Why.SMALL),
        ([(EVALUATED, 2.0), (INCREMENTAL, 1.5)], Why.UNSAID),
        ([(EVALUATED, 2.0), (INCREMENTAL, 1.7)], Why.SMALL),
        ([(EVALUATED, 2.0), (INCREMENTAL, 1.7), (EVALUATED, 2.2)], Why.UNSAID),
    ],
)
def test_little_data_are_evaluated_unless_the_changes_are_faster_or_have_not_been_tried(runs, expected):
    decided = [
        decide(Case(increment=lambda each=each: each, history=lambda: history(*runs)))
        for each in (SMALL, replace(SMALL, tiny=True))
    ]
    of_tiny = expected if any(mode == EVALUATED for mode, _ in runs) else Why.SMALL
    assert [Why.UNSAID if each.full is None else each.full.why for each in decided] == [expected, of_tiny]


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([], Why.UNSAID),
        ([(LOADED, 0.2)], Why.UNSAID),
        ([(LOADED, 0.2), (INCREMENTAL, 0.9)], Why.UNSAID),
        ([(LOADED, 0.2), (INCREMENTAL, 0.9), (INCREMENTAL, 0.9)], Why.NEVER_EVALUATED),
        ([(LOADED, 9.0), (INCREMENTAL, 0.9), (EVALUATED, 0.3)], Why.SMALL),
        ([(LOADED, 9.0), (INCREMENTAL, 0.9), (EVALUATED, 2.0)], Why.UNSAID),
    ],
)
def test_a_query_that_only_joins_and_filters_is_tried_from_the_changes_first(runs, expected):
    decided = [
        decide(Case(increment=lambda each=each: each, history=lambda: history(*runs)))
        for each in (LINEAR, replace(LINEAR, small=False), replace(LINEAR, tiny=True))
    ]
    small, large, tiny = (Why.UNSAID if each.full is None else each.full.why for each in decided)
    assert small is expected
    assert large is (Why.QUICK if expected is Why.SMALL else expected)
    if not any(mode == EVALUATED for mode, _ in runs):
        assert tiny is (expected if expected is Why.NEVER_EVALUATED else Why.SMALL)


SLOW_RUNS = [CommitNote(mode=INCREMENTAL, seconds=9.0, share=share) for share in (0.05, 0.02)]
KEYS_RUNS = [CommitNote(why=Why.MANY_KEYS.code, share=share) for share in (0.05, 0.02)]


def of_orders(updates, rows=1_000_000):
    orders = InputSides(
        "shop.orders", (), QueryRows(""), QueryRows(""), "changes", rows=rows, updates=updates
    )
    kinds = replace(orders, name="shop.kinds", change=None, rows=None, updates=None)
    return Increment(SimpleNamespace(unrepeatable=None, linear=False), (orders, kinds))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("runs", "why"),
    [
        ([CommitNote(mode=EVALUATED, seconds=4.0), *SLOW_RUNS], Why.SLOW),
        ([CommitNote(mode=LOADED, seconds=4.0), *SLOW_RUNS], Why.NEVER_EVALUATED),
        (KEYS_RUNS, Why.USUALLY_MANY_KEYS),
    ],
    ids=["slow", "never evaluated", "many keys"],
)
@pytest.mark.parametrize(
    ("increment", "counts"),
    [
        (of_orders(2_001), True),
        (of_orders(2_000), False),
        (of_orders(None), True),
        (of_orders(10, rows=None), True),
        (EvaluateFully(Why.MOVED), True),
    ],
    ids=["a tenth", "less than a tenth", "unknown", "of unknown rows", "cannot be incremental"],
)
def test_earlier_runs_say_nothing_of_a_far_smaller_change(runs, why, increment, counts):
    decision = decide(Case(increment=lambda: increment, history=lambda: RunHistory(tuple(runs))))
    assert (None if decision.full is None else decision.full.why) is (why if counts else None)


@pytest.mark.parametrize(("updates", "why"), [(2_001, Why.SMALL), (2_000, None), (None, Why.SMALL)])
def test_nor_of_one_of_little_data(updates, why):
    runs = (CommitNote(mode=EVALUATED, seconds=2.0), *SLOW_RUNS[1:])
    little = replace(of_orders(updates), small=True)
    decision = decide(Case(increment=lambda: little, history=lambda: RunHistory(runs)))
    assert (None if decision.full is None else decision.full.why) is why


def test_runs_of_which_the_change_is_not_known_count():
    """Those of an earlier release, for one."""
    runs = [CommitNote(mode=EVALUATED, seconds=4.0), replace(SLOW_RUNS[0], share=None), SLOW_RUNS[1]]
    decision = decide(Case(increment=lambda: of_orders(10), history=lambda: RunHistory(tuple(runs))))
    assert decision.full.why is Why.SLOW


@pytest.mark.parametrize(("changed", "expected"), [(1_000, Why.UNSAID), (1_001, Why.MUCH_CHANGED)])
def test_few_changes_are_no_large_share_of_an_input_with_few_rows(changed, expected):
    nothing = QueryRows("")
    few = InputSides("shop.kinds", (), nothing, nothing, "", rows=11, updates=changed)
    refused = Bounds().changed(few, changed, linear=False)
    assert (Why.UNSAID if refused is None else refused.why) is expected
    usually = Bounds(wary=True).may_change(few, linear=False)
    assert (usually is None) is (expected is Why.UNSAID)


def shares(*runs: tuple[str, float, float | None]) -> RunHistory:
    """Runs with their seconds, and the share of an input that had changed."""
    return RunHistory(tuple(CommitNote(mode=mode, seconds=took, share=of) for mode, took, of in runs))


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([], 0.0),
        ([(LOADED, 4.0, None), (INCREMENTAL, 1.0, 0.1)], 0.0),  # what an evaluation takes is not known
        ([(EVALUATED, 4.0, None)], 0.0),
        ([(EVALUATED, 4.0, None), (INCREMENTAL, 1.0, 0.1)], 0.8),  # 8 s if they grow with the share
        ([(EVALUATED, 4.0, None), (INCREMENTAL, 3.0, 0.1)], 0.1 * 8 / 3),
        ([(EVALUATED, 4.0, None), (INCREMENTAL, 4.0, 0.1)], 0.08),  # not worthwhile
        ([(EVALUATED, 4.0, None), (INCREMENTAL, 1.0, 0.1), (INCREMENTAL, 8.0, 0.5)], 0.2),
        ([(EVALUATED, 4.0, None), (INCREMENTAL, 8.0, 0.5), (INCREMENTAL, 2.0, 0.5)], 2.0),  # the newest
        ([(EVALUATED, 4.0, None), (INCREMENTAL, 1.0, None), (SUMMED, 2.0, 0.2)], 0.8),
    ],
)
def test_the_share_that_may_have_changed_follows_from_the_run_with_most(runs, expected):
    assert shares(*runs).bearable() == pytest.approx(expected)


def test_experience_moves_the_bound_up_and_never_below_the_usual_one():
    nothing = QueryRows("")
    orders = InputSides("shop.orders", (), nothing, nothing, "", rows=100_000, updates=30_000)
    for bearable, allowed in ((0.0, False), (0.3, True), (0.01, False)):
        bounds = Bounds(wary=True, bearable=bearable)
        assert (bounds.changed(orders, 30_000, linear=False) is None) is allowed
        assert (bounds.may_change(orders, linear=False) is None) is allowed
        assert bounds.changed(orders, 10_000, linear=False) is None


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([], False),
        ([(LOADED, 4.0, None)], False),  # what an evaluation takes is not known
        ([(EVALUATED, 0.7, None)], False),  # it is quick
        ([(EVALUATED, 4.0, None)], True),
        ([(INCREMENTAL, 1.0, 0.1), (EVALUATED, 4.0, None), (SUMMED, 1.0, None)], True),
        ([(INCREMENTAL, 1.0, 0.3), (EVALUATED, 4.0, None)], False),  # `bearable` knows
    ],
)
def test_a_large_share_is_tried_once(runs, expected):
    assert shares(*runs).much_untried() is expected


def test_what_is_tried_once_is_no_more_than_a_number_of_rows():
    nothing = QueryRows("")
    orders = InputSides("shop.orders", (), nothing, nothing, "", rows=100_000, updates=30_000)
    for tried, allowed in ((0, False), (20_000, False), (30_000, True)):
        bounds = Bounds(wary=True, tried=tried)
        assert (bounds.changed(orders, 30_000, linear=False) is None) is allowed
        assert (bounds.may_change(orders, linear=False) is None) is allowed


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([], False),
        ([(LOADED, 0.3)], True),
        ([(LOADED, 0.5)], False),
        ([(LOADED, 0.3), (EVALUATED, 0.5)], False),
        ([(LOADED, 9.0), (EVALUATED, 1.9), (EVALUATED, 0.3), (INCREMENTAL, 0.2)], True),
    ],
)
def test_a_query_that_is_evaluated_quickly_is(runs, expected):
    assert history(*runs).quick() == expected


def test_where_most_keys_changed_they_are_not_looked_for():
    many = CommitNote(mode=EVALUATED, seconds=9.0, why=Why.MANY_KEYS.code)
    assert in_vain(RunHistory((many,)), summed=False) is Why.UNSAID
    assert in_vain(RunHistory((many, many)), summed=False) is Why.USUALLY_MANY_KEYS
    assert in_vain(RunHistory((many, many)), summed=True) is Why.UNSAID


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        ([Why.MUCH_CHANGED], False),
        ([Why.MUCH_CHANGED, Why.MUCH_CHANGED], True),
        ([Why.MUCH_CHANGED, Why.REDEFINED, Why.USUALLY_MUCH, Why.MUCH_CHANGED, Why.USUALLY_MUCH], True),
        ([Why.MUCH_CHANGED, Why.MUCH_CHANGED, None], False),
    ],
)
def test_where_much_changed_twice_it_is_expected_again(reasons, expected):
    notes = [
        CommitNote(mode=EVALUATED, why=why.code) if why else CommitNote(mode=INCREMENTAL) for why in reasons
    ]
    assert RunHistory(tuple(notes)).much_changes() is expected


def test_sentences_in_older_commits_decide_nothing():
    """They are shown, and count as unknown reasons."""
    sentences = [Why.MANY_KEYS.words, "a changed by 30%"]
    notes = [CommitNote(mode=EVALUATED, seconds=9.0, reason=each) for each in sentences for _ in range(2)]
    history = RunHistory(tuple(notes))
    assert not history.most_keys_change() and not history.much_changes()


def test_a_query_over_sums_is_judged_by_runs_with_sums():
    runs = [(EVALUATED, 4.0), (INCREMENTAL, 9.0), (INCREMENTAL, 9.0)]
    assert in_vain(history(*runs), summed=False) is Why.SLOW
    assert in_vain(history(*runs), summed=True) is Why.UNSAID
    assert in_vain(history(*runs, (SUMMED, 9.0), (SUMMED, 9.0)), summed=True) is Why.SLOW


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([], {}),
        ([(LOADED, 3.0)], {"evaluated": 3.0}),
        ([(LOADED, 3.0), (EVALUATED, 2.0), (INCREMENTAL, 0.5)], {"evaluated": 2.0, "incremental": 0.5}),
        ([(SUMMED, 0.7), (INCREMENTAL, 0.5), (EVALUATED, None)], {"incremental": 0.5}),
        ([(INCREMENTAL, 0.5), (SUMMED, 0.7)], {"incremental": 0.7}),
    ],
)
def test_the_seconds_of_the_newest_run_of_each_kind(runs, expected):
    assert history(*runs).seconds() == expected


@pytest.mark.parametrize(
    ("deleted", "share"),
    [
        ([94, 97, 95, 94, 99], 0.94),
        ([0, 94, 97, 95, 94, 99], 0.94),  # only the last five count
        ([94, 97, 95, 94], None),
        ([94, 97, 95, 94, 0], 0.0),
        ([300] * 5, 1.0),  # rows are replaced several times if they occur several times
    ],
)
def test_a_model_that_each_run_rewrites(deleted, share):
    notes = [CommitNote(mode=EVALUATED, rows_deleted=each, rows_inserted=each) for each in deleted]
    # a load, and runs that computed nothing, say nothing
    notes = [CommitNote(mode=LOADED, rows_inserted=100), *notes, CommitNote(mode="")]
    assert RunHistory(tuple(notes)).rewritten(100) == share
    assert RunHistory(tuple(notes)).rewritten(0) is None


@pytest.mark.parametrize("policy", [Incremental.AUTO, Incremental.ALWAYS])
@pytest.mark.parametrize("small", [False, True])
def test_what_changed_only_where_the_query_does_not_look_needs_nothing(policy, small):
    """Whatever earlier runs say; but a verification compares all rows."""
    slow = history((EVALUATED, 4.0), (INCREMENTAL, 9.0), (INCREMENTAL, 9.0))
    increment = Increment(SimpleNamespace(linear=False, unrepeatable=False), (), small=small, unread=True)
    case = Case(increment=lambda: increment, history=lambda: slow, policy=policy)
    assert decide(case).keeps
    assert not decide(replace(case, verify=True)).keeps
    assert not decide(replace(case, suspended=Why.DRIFTED)).keeps or policy is Incremental.ALWAYS
    changed = replace(increment, unread=False)
    assert not decide(replace(case, increment=lambda: changed)).keeps
