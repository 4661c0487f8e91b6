"""`max_change: auto`: which runs it learns from, what it allows, and how it does over a year."""

from __future__ import annotations

import math
import random

import pytest

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.shard import Commit, CommitNote
from dbt.adapters.mvsink.sink.gate import Learned, LearnedChange, change_limit, changes_before
from tests.support.seldom import often

HOUR = 3_600_000
DAY = 24 * HOUR
MONDAY = 1_764_547_200_000 + 3 * HOUR  # 2025-12-01T03:00:00Z


def commit(rows_inserted, rows_deleted=0, mode="evaluated", time=MONDAY):
    note = CommitNote(rows_inserted, rows_deleted, computed_through=time, mode=mode)
    return Commit(1, 0, "append", None, None, "t", "w", "h", note)


def limit(rows):
    return LearnedChange(lambda newest: [commit(each) for each in rows])


@pytest.mark.parametrize(
    ("rows", "allowed"),
    [
        ([250, 80, 120, 1, 1, 1, 1, 1], 1000),
        ([3] * limits.CHANGES_ENOUGH, limits.CHANGE_FLOOR),
        ([10**6, *[50] * limits.CHANGES_REMEMBERED], 200),
        ([50, 10**6, *[50] * (limits.CHANGES_REMEMBERED - 1)], 4 * 10**6),
    ],
)
def test_four_times_the_largest_of_the_last_twenty_changes(rows, allowed):
    assert limit(rows).broken_by(allowed, 0, 1) == limit(rows).broken_by(0, allowed, 1) == ""
    assert f"max_change auto allows {allowed}:" in limit(rows).broken_by(allowed + 1, 0, 1)


def test_only_runs_that_corrected_contents_teach_something():
    commits = [
        commit(9000, mode="loaded"),
        commit(8000, mode=""),  # a new generation, an undo, another release
        commit(0),
        commit(5, 7),
        commit(6, 2, mode="incremental"),
        commit(5, time=None),
    ]
    assert changes_before(commits) == [(7, MONDAY), (6, MONDAY)]


def test_a_message_explains_the_bound():
    daily = [commit(1000 + day, time=MONDAY - day * DAY) for day in range(25, 0, -1)]
    learned = change_limit(Learned.AUTO, lambda newest: daily)
    assert learned is not None and learned.broken_by(4080, 17, 9) == ""
    assert learned.broken_by(17, 5000, 9) == (
        "5000 rows, max_change auto allows 4080: 4 times the largest of the last 20 changes, 1020 rows at "
        "2025-11-11T03:00:00Z"
    )


def test_the_log_is_read_only_for_changes_over_the_floor():
    def unread(newest):
        raise AssertionError(newest)

    assert LearnedChange(unread).broken_by(limits.CHANGE_FLOOR, limits.CHANGE_FLOOR, 1) == ""
    with pytest.raises(AssertionError, match="500"):
        LearnedChange(unread).broken_by(limits.CHANGE_FLOOR + 1, 0, 1)


def test_too_little_history_allows_anything():
    assert limit([1] * (limits.CHANGES_ENOUGH - 1)).broken_by(10**9, 0, 1) == ""
    assert limit([1] * limits.CHANGES_ENOUGH).broken_by(10**9, 0, 1)


def a_year(seed, noise):
    """Hourly runs whose changes follow the hour and the weekday by a factor of 30, grow twofold
    within the year, and are none at all in a tenth of the runs.
    """
    chance = random.Random(seed)
    for hour in range(365 * 24):
        time = MONDAY + hour * HOUR
        day = 1 + 9 * max(0.0, math.sin((time // HOUR % 24 - 6) / 24 * 2 * math.pi))
        weekend = (time // DAY + 3) % 7 >= 5
        usual = 2000 * day * (0.33 if weekend else 1) * 2 ** (hour / 8760)
        quiet = chance.random() < 0.1
        yield 0 if quiet else max(1, round(usual * math.exp(chance.gauss(0, noise))))


@pytest.mark.parametrize("noise", often([0.1, 0.3, 0.5], 0.5))
def test_a_year_of_hourly_runs(noise):
    """Of a thousand runs two at most are refused without a reason, although mornings change ten
    times as much as nights. What is ten times the day's largest change is always refused.
    """
    past, alarms, judged = [], 0, 0
    for rows in a_year(7, noise):
        if rows and len(past) > limits.CHANGES_REMEMBERED:
            largest = max(past[-limits.CHANGES_REMEMBERED :])
            judged += 1
            alarms += bool(limit(past).broken_by(rows, 0, 1))
            assert limit(past).broken_by(10 * largest, 0, 1)
        if rows:
            past = [*past[-limits.CHANGES_REMEMBERED :], rows]
    assert judged > 5000 and limits.CHANGE_FACTOR == 4
    assert alarms <= 0.002 * judged
