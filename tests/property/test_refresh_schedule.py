"""Rounding and the decision of a run against brute force over all times of a small range."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dbt.adapters.mvsink.physical import LARGEST_TIME
from dbt.adapters.mvsink.refresh_schedule import RefreshEvery, RefreshSchedule, decide
from dbt.adapters.mvsink.shard import Antichain

# the times compared; intervals and alignments are such that an `every` always has a refresh in it
RANGE = 200
everies = st.builds(RefreshEvery, st.integers(1, 40), st.integers(0, 3 * RANGE))
schedules = st.builds(
    RefreshSchedule,
    st.lists(everies, max_size=3).map(tuple),
    st.lists(st.integers(0, RANGE), max_size=3).map(tuple),
)
times = st.integers(0, RANGE)
anywhere = st.integers(0, LARGEST_TIME)
anything = st.builds(
    RefreshSchedule,
    st.lists(st.builds(RefreshEvery, st.integers(1, LARGEST_TIME), anywhere), max_size=3).map(tuple),
    st.lists(anywhere, max_size=3).map(tuple),
)


def refreshes(schedule: RefreshSchedule) -> list[int]:
    """All of them up to twice the range, by their definition."""

    def is_one(time: int) -> bool:
        aligned = any((time - every.aligned_to) % every.interval == 0 for every in schedule.everies)
        return aligned or time in schedule.ats

    return [time for time in range(2 * RANGE) if is_one(time)]


@given(schedules, times)
def test_rounding_up_is_the_smallest_refresh_from_there_on(schedule, time):
    assert schedule.round_up_timestamp(time) == min(
        (r for r in refreshes(schedule) if r >= time), default=None
    )


@given(schedules, times)
def test_rounding_down_is_the_largest_refresh_before(schedule, time):
    expected = max((r for r in refreshes(schedule) if r < time), default=0 if schedule.everies else None)
    assert schedule.round_down_timestamp_m1(time) == expected


@given(schedules, times, times, times)
def test_a_run_writes_at_the_newest_refresh_and_moves_the_upper_to_the_next(schedule, creation, upper, now):
    decision = decide(schedule, creation, Antichain.of(upper), now)
    known = refreshes(schedule)
    if upper > now:
        assert decision == (None, Antichain.of(upper))
    elif schedule.on_commit:
        assert decision == (now, Antichain.of(now + 1))
    else:
        newest = max((r for r in known if r <= now), default=None)
        following = min((r for r in known if r > now), default=None)
        due = newest is not None and newest >= creation and newest >= upper
        assert decision.time == (newest if due else None)
        assert decision.upper == (Antichain.empty() if following is None else Antichain.of(following))


@given(schedules, times, st.lists(st.integers(1, 60), min_size=1, max_size=8))
def test_runs_in_a_row_write_at_increasing_refreshes_and_never_take_the_upper_back(schedule, creation, steps):
    upper, now, written = Antichain.of(0), creation, []
    for step in [0, *steps]:
        now += step
        decision = decide(schedule, creation, upper, now)
        assert upper.less_equal(decision.upper) and not decision.upper.less_equal_time(now)
        if decision.time is not None:
            assert upper.less_equal_time(decision.time) and creation <= decision.time <= now
            written.append(decision.time)
        upper = decision.upper
    assert written == sorted(set(written))
    assert schedule.on_commit or set(written) <= set(refreshes(schedule)) | {
        t for t in written if t >= 2 * RANGE
    }


@given(anything, anywhere, anywhere)
def test_at_any_size_rounding_is_monotone_bounded_and_a_fixed_point(schedule, one, other):
    low, high = sorted((one, other))
    after_all = LARGEST_TIME + 1
    ups = [after_all if r is None else r for r in map(schedule.round_up_timestamp, (low, high))]
    downs = [-1 if r is None else r for r in map(schedule.round_down_timestamp_m1, (low, high))]
    assert ups == sorted(ups) and downs == sorted(downs)
    for time, up, down in zip((low, high), ups, downs, strict=True):
        assert time <= up <= after_all and (down < time or down == 0)
        if up <= LARGEST_TIME:
            assert schedule.round_up_timestamp(up) == up
    last = schedule.last_refresh()
    if last is not None:
        assert schedule.round_up_timestamp(last) == last and schedule.round_up_timestamp(last + 1) is None
