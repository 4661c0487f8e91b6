"""`max_change: auto`: which runs it learns from, what it allows, and how it does over a year."""

from __future__ import annotations

import doctest
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbt.adapters.mvsink.shard import Commit, CommitNote
from dbt.adapters.mvsink.sink import usual_change
from dbt.adapters.mvsink.sink.usual_change import (
    ALIKE,
    ENOUGH,
    FACTOR,
    FLOOR,
    HOUR,
    Learned,
    PastChange,
    UsualChange,
    learned,
    limit,
    past_changes,
    too_little_history,
)

DAY, WEEK = 24 * HOUR, 168 * HOUR
MONDAY = 1_764_547_200_000 + 3 * HOUR  # 2025-12-01T03:00:00Z


def every(period, count, rows, last=MONDAY):
    """Runs before ``last``, a period apart; ``rows`` is a number, or gives it for a time."""
    times = [last - period * back for back in range(count, 0, -1)]
    return [PastChange(time, rows(time) if callable(rows) else rows) for time in times]


def weekend(time):
    return (time // DAY + 3) % 7 >= 5


CASES = {  # the runs before a Monday, 03:00: how many it learns from, which, and the bound
    "no run": ([], None),
    "too few": (every(HOUR, ENOUGH - 1, 1000), None),
    "just enough": (every(5 * HOUR, ENOUGH, 1000), (ENOUGH, "", 4000)),
    "small changes have a floor": (every(5 * HOUR, ENOUGH, 3), (ENOUGH, "", FLOOR)),
    "daily: at this time of day": (every(DAY, 20, 1000), (20, "around 03:00 UTC", 4000)),
    "weekly: on this day at this time": (every(WEEK, 8, 1000), (8, "around 03:00 UTC on Mondays", 4000)),
    "hourly for a day: all": (every(HOUR, 24, 1000), (24, "", 4000)),
    "hourly for three weeks": (every(HOUR, 21 * 24, 1000), (9, "around 03:00 UTC on Mondays", 4000)),
    "Mondays at other times": (every(WEEK, 12, 500, MONDAY + 12 * HOUR), (12, "on Mondays", 2000)),
    "a few odd ones move nothing": (every(DAY, 20, 1000) + every(HOUR, 1, 10**6), (21, "around 03:00 UTC", 4000)),
    "runs that differ allow more, but not more than four times the largest": (
        every(DAY, 20, lambda time: 100 if time // DAY % 2 else 3000),
        (20, "around 03:00 UTC", 12000),
    ),
    "less on weekends: of Mondays": (
        every(DAY, 60, lambda time: 10 if weekend(time) else 1000),
        (8, "around 03:00 UTC on Mondays", 4000),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("past", "expected"), CASES.values(), ids=CASES)
def test_what_is_learned(past, expected):
    bound = learned(past, MONDAY)
    assert (bound and (bound.runs, bound.like, bound.rows)) == expected


def test_hours_and_weekdays_wrap_around():
    late = every(DAY, 10, 1000, MONDAY - 3 * HOUR - 1)  # 23:59:59.999
    assert learned(late, MONDAY - 3 * HOUR).like == "around 00:00 UTC"
    assert learned(late, MONDAY - HOUR).like == ""
    sundays = every(WEEK, ENOUGH, 1000, MONDAY - 3 * HOUR - 1)
    assert learned(sundays, MONDAY - 3 * HOUR).like == "around 00:00 UTC on Mondays"


def test_any_time_has_a_weekday():
    assert learned(every(WEEK, 9, 1, 2**63 - 2), 2**63 - 2).runs >= ALIKE


def commit(rows_inserted, rows_deleted=0, mode="evaluated", time=MONDAY):
    note = CommitNote(rows_inserted, rows_deleted, computed_through=time, mode=mode)
    return Commit(1, 0, "append", None, None, "t", "w", "h", note)


def test_only_runs_that_corrected_contents_teach_something():
    commits = [
        commit(9000, mode="loaded"),
        commit(8000, mode=""),  # a new generation, an undo, another release
        commit(0),
        commit(5, 7),
        commit(6, 2, mode="incremental"),
        commit(5, time=None),
    ]
    assert past_changes(commits) == [PastChange(MONDAY, 7), PastChange(MONDAY, 6)]


def test_a_message_explains_the_bound():
    daily = [commit(1000 + day, time=MONDAY - day * DAY) for day in range(20, 0, -1)]
    usual = limit(Learned.AUTO, lambda newest: daily, MONDAY)
    assert isinstance(usual, UsualChange)
    assert usual.broken_by(4042, 17, 9) == ""
    assert usual.broken_by(17, 5000, 9) == (
        "5000 rows, max_change auto allows 4042: the last 20 runs around 03:00 UTC that changed something, since "
        "2025-11-11T03:00:00Z, changed a median of 1010 rows"
    )


def test_the_log_is_read_only_for_changes_over_the_floor():
    def unread(newest):
        raise AssertionError(newest)

    assert UsualChange(unread, MONDAY).broken_by(FLOOR, FLOOR, 1) == ""
    with pytest.raises(AssertionError, match="500"):
        UsualChange(unread, MONDAY).broken_by(FLOOR + 1, 0, 1)


def test_too_little_history_allows_anything():
    few = [commit(1, time=MONDAY - day * DAY) for day in range(ENOUGH - 1)]
    assert too_little_history(lambda newest: few, MONDAY)
    assert UsualChange(lambda newest: few, MONDAY).broken_by(10**9, 0, 1) == ""
    assert not too_little_history(lambda newest: [*few, few[0]], MONDAY)


RUNS = st.lists(
    st.builds(PastChange, st.integers(MONDAY - 60 * DAY, MONDAY), st.integers(1, 10**7)), max_size=60
)


@settings(max_examples=300, deadline=None)
@given(RUNS, st.integers(MONDAY, MONDAY + WEEK), st.randoms())
def test_of_any_history(past, time, chance):
    bound = learned(past, time)
    assert (bound is None) == (len(past) < ENOUGH)
    if bound is None:
        return
    assert ALIKE <= bound.runs <= len(past) and bound.since >= min(run.time for run in past)
    rows = [run.rows for run in past]
    assert FLOOR <= bound.rows <= max(FLOOR, math.ceil(FACTOR * max(rows)))
    assert bound.rows >= FACTOR * (bound.usual - 1)  # `usual` is rounded
    assert min(rows) <= bound.usual <= max(rows)
    chance.shuffle(past)
    assert learned(past, time) == bound


def a_year(seed, noise):
    """Hourly runs whose changes follow the hour and the weekday by a factor of 30, grow twofold
    within the year, and are none at all in a tenth of the runs.
    """
    chance = random.Random(seed)
    for hour in range(365 * 24):
        time = MONDAY + hour * HOUR
        day = 1 + 9 * max(0.0, math.sin((time // HOUR % 24 - 6) / 24 * 2 * math.pi))
        usual = 2000 * day * (0.33 if weekend(time) else 1) * 2 ** (hour / 8760)
        quiet = chance.random() < 0.1
        yield time, 0 if quiet else max(1, round(usual * math.exp(chance.gauss(0, noise)))), usual


@pytest.mark.parametrize("noise", [0.1, 0.3, 0.5])
def test_a_year_of_hourly_runs(noise):
    """Every 17th run is judged by the 500 before it; so are ten times the usual rows. At most 2 of
    1,000 are false alarms, at least 98 % of the tenfold changes are caught.
    """
    past, alarms, judged, missed = [], 0, 0, 0
    for number, (time, rows, usual) in enumerate(a_year(7, noise)):
        if number >= 200 and number % 17 == 0:
            bound = learned(past[-500:], time)
            judged += 1
            alarms += rows > bound.rows
            missed += 10 * usual <= bound.rows
        if rows:
            past.append(PastChange(time, rows))
    assert judged > 500
    assert alarms <= 0.002 * judged
    assert missed <= 0.02 * judged


def test_the_examples_in_the_docstrings():
    done = doctest.testmod(usual_change)
    assert done.failed == 0 and done.attempted > 0
