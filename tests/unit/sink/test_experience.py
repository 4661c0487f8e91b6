"""Which runs show that computing from the changes is in vain."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink.shard import CommitNote
from dbt.adapters.mvsink.sink.experience import (
    REMEMBERED,
    in_vain,
    last_seconds,
    much_changed,
    quick,
    slow,
)
from dbt.adapters.mvsink.sink.increment import MANY_KEYS, SLOW, USUALLY_MANY_KEYS, USUALLY_MUCH
from dbt.adapters.mvsink.sink.ways import EVALUATED, INCREMENTAL, LOADED, SUMMED

Run = tuple[str, float | None]


def commits(*runs: Run) -> list[SimpleNamespace]:
    """The newest that a run remembers."""
    every = [SimpleNamespace(note=CommitNote(mode=mode, seconds=seconds)) for mode, seconds in runs]
    return every[-REMEMBERED:]


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
    assert slow(commits(*runs)) == expected


def test_what_was_slow_is_tried_again_after_some_commits():
    slow_runs = [(EVALUATED, 4.0), (INCREMENTAL, 9.0), (INCREMENTAL, 9.0)]
    assert slow(commits(*slow_runs, *[(EVALUATED, 4.0)] * 18))
    assert not slow(commits(*slow_runs, *[(EVALUATED, 4.0)] * 19))


def test_a_run_that_evaluated_the_query_counts_and_not_the_guess_from_the_first_load():
    """A correction may take far longer than the load: it also reads the shard."""
    runs = [(LOADED, 1.0), (INCREMENTAL, 1.4), (INCREMENTAL, 1.2)]
    assert slow(commits(*runs))
    assert not slow(commits(*runs, (EVALUATED, 10.0)))


def test_the_newest_run_that_evaluated_the_query_counts():
    """More changes may come than before; then both ways take longer."""
    runs = [(EVALUATED, 4.0), (INCREMENTAL, 5.0), (INCREMENTAL, 5.0)]
    assert slow(commits(*runs))
    assert not slow(commits(*runs, (EVALUATED, 14.0)))
    assert not slow(commits(*runs, (EVALUATED, 4.0), (EVALUATED, 14.0)))


def test_an_evaluation_that_took_somewhat_longer_later_does_not_speak_for_the_changes():
    runs = [(EVALUATED, 4.0), (INCREMENTAL, 5.0), (INCREMENTAL, 5.0), (EVALUATED, 4.0)]
    assert slow(commits(*runs, (EVALUATED, 7.0), (EVALUATED, 8.0)))
    assert slow(commits(*runs, (EVALUATED, 3.0)))
    assert not slow(commits(*runs, (EVALUATED, 8.1)))


def changing(mode: str, seconds: float, rows: int) -> SimpleNamespace:
    return SimpleNamespace(note=CommitNote(mode=mode, seconds=seconds, rows_inserted=rows))


@pytest.mark.parametrize(("rows", "expected"), [(200, False), (201, True)])
@pytest.mark.parametrize("between", [(), (changing(EVALUATED, 2.0, 90),)])
def test_an_evaluation_that_changed_far_more_rows_does_not_speak_for_the_changes(rows, expected, between):
    """They would have taken longer, too. If it took longer for as many rows, there is more data."""
    runs = [changing(mode, seconds, 100) for mode, seconds in ((EVALUATED, 2.0), *[(INCREMENTAL, 3.0)] * 2)]
    assert slow([*runs, *between, changing(EVALUATED, 9.0, rows)]) == expected


def test_an_evaluation_that_changed_far_more_rows_counts_if_there_is_no_other():
    runs = [changing(INCREMENTAL, 3.0, 100)] * 2
    assert slow([*runs, changing(EVALUATED, 3.0, 1000)])
    assert not slow([*runs, changing(EVALUATED, 9.0, 1000)])


@pytest.mark.parametrize(
    ("share", "seconds", "expected"),
    [
        (None, 4.9, True),
        (0.01, 4.7, False),
        (0.01, 4.9, True),
        (0.02, 7.9, False),
        (0.05, 8.1, True),
        (0.06, 15.9, False),
        (0.5, 16.1, True),
    ],
)
def test_while_no_evaluation_is_known_the_load_and_what_changes_are_a_guess(share, seconds, expected):
    """A load of 10 s: an evaluation takes 6 s where little changes and 20 s where much does."""
    note = CommitNote(mode=INCREMENTAL, seconds=seconds, share=share)
    assert slow([changing(LOADED, 10.0, 1000), *[SimpleNamespace(note=note)] * 2]) is expected


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([], False),
        ([(LOADED, 0.7)], True),
        ([(LOADED, 0.9)], False),
        ([(LOADED, 0.5), (EVALUATED, 0.9)], False),
        ([(LOADED, 9.0), (EVALUATED, 1.9), (EVALUATED, 0.7), (INCREMENTAL, 0.6)], True),
    ],
)
def test_a_query_that_is_evaluated_quickly_is(runs, expected):
    assert quick(commits(*runs)) == expected


def test_where_most_keys_changed_they_are_not_looked_for():
    many = SimpleNamespace(note=CommitNote(mode=EVALUATED, seconds=9.0, reason=MANY_KEYS))
    assert in_vain([many], summed=False) == ""
    assert in_vain([many, many], summed=False) == USUALLY_MANY_KEYS
    assert in_vain([many, many], summed=True) == ""


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        (["a changed by 30%"], False),
        (["a changed by 30%", "b changed by 12%"], True),
        (["a changed by 30%", "its query changed", USUALLY_MUCH, "b changed by 12%", USUALLY_MUCH], True),
        (["a changed by 30%", "b changed by 12%", ""], False),
    ],
)
def test_where_much_changed_twice_it_is_expected_again(reasons, expected):
    notes = [CommitNote(mode=EVALUATED if reason else INCREMENTAL, reason=reason) for reason in reasons]
    assert much_changed([SimpleNamespace(note=note) for note in notes]) is expected


def test_a_query_over_sums_is_judged_by_runs_with_sums():
    runs = [(EVALUATED, 4.0), (INCREMENTAL, 9.0), (INCREMENTAL, 9.0)]
    assert in_vain(commits(*runs), summed=False) == SLOW
    assert in_vain(commits(*runs), summed=True) == ""
    assert in_vain(commits(*runs, (SUMMED, 9.0), (SUMMED, 9.0)), summed=True) == SLOW


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
    assert last_seconds(commits(*runs)) == expected
