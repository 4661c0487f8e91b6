"""docs/design/refresh.md, *Rounding* and its table of runs, row by row, without a shard."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbt.adapters.mvsink import refresh_schedule
from dbt.adapters.mvsink.durations import iso, parse_time
from dbt.adapters.mvsink.physical import LARGEST_TIME
from dbt.adapters.mvsink.refresh_schedule import (
    RefreshCron,
    RefreshDecision,
    RefreshEvery,
    RefreshSchedule,
    RefreshSpec,
    decide,
)
from dbt.adapters.mvsink.shard import Antichain

HOUR = 3_600_000


def every(interval, aligned_to, *ats):
    return RefreshSchedule((RefreshEvery(interval, aligned_to),), ats)


AT_500 = RefreshSchedule(ats=(500,))
TWO_ATS = RefreshSchedule(ats=(700, 500))
ROUNDING = {  # schedule, time: rounded up, rounded down (- 1)
    "every 100, at 0": (every(100, 500), 0, 0, 0),
    "every 100, just after a refresh": (every(100, 500), 1, 100, 0),
    "every 100, before the first refresh there is 0": (every(100, 500), 100, 100, 0),
    "every 100, just after the next": (every(100, 500), 101, 200, 100),
    "every 100, a refresh maps to itself": (every(100, 500), 500, 500, 400),
    "every 100, far after its alignment": (every(100, 500), 12_345, 12_400, 12_300),
    "aligned in the future": (every(100, 10_050), 120, 150, 50),
    "not a divisor of its alignment: before the first": (every(1000, 500), 0, 500, 0),
    "not a divisor of its alignment: at the first": (every(1000, 500), 500, 500, 0),
    "not a divisor of its alignment: after the first": (every(1000, 500), 501, 1500, 500),
    "at, before": (AT_500, 0, 500, None),
    "at, at": (AT_500, 500, 500, None),
    "at, after": (AT_500, 501, None, 500),
    "two ats, between": (TWO_ATS, 600, 700, 500),
    "two ats, after": (TWO_ATS, 701, None, 700),
    "a mix: the at comes first": (every(1000, 0, 1700), 1200, 1700, 1000),
    "a mix: the every comes first": (every(1000, 0, 1700), 1800, 2000, 1700),
    "two everies": (RefreshSchedule((RefreshEvery(100, 0), RefreshEvery(70, 0))), 201, 210, 200),
    "no entry": (RefreshSchedule(), 5, None, None),
    "saturates at the largest time": (every(2**62, 1), 2**62 + 2, LARGEST_TIME, 2**62 + 1),
    "the largest time": (
        every(10**6, 3),
        LARGEST_TIME,
        LARGEST_TIME,
        LARGEST_TIME - 1 - (LARGEST_TIME - 4) % 10**6,
    ),
}


@pytest.mark.parametrize(("schedule", "time", "up", "down"), ROUNDING.values(), ids=ROUNDING)
def test_rounding(schedule, time, up, down):
    assert schedule.round_up_timestamp(time) == up
    assert schedule.round_down_timestamp_m1(time) == down


LAST = {
    "ats": (TWO_ATS, 700),
    "an every never ends": (every(100, 0, 7000), None),
    "no entry": (RefreshSchedule(), None),
}


@pytest.mark.parametrize(("schedule", "last"), LAST.values(), ids=LAST)
def test_last_refresh(schedule, last):
    assert schedule.last_refresh() == last


@pytest.mark.parametrize("interval", [0, -1])
def test_an_interval_is_greater_than_zero(interval):
    with pytest.raises(ValueError, match="greater than zero"):
        RefreshEvery(interval, 0)


def clock(text):
    """A time of 2026-11-20, in ms."""
    return parse_time(f"2026-11-20 {text}")


def upper(text):
    return {"-": Antichain.of(0), "final": Antichain.empty()}.get(text) or Antichain.of(clock(text))


HOURLY = RefreshSpec(((HOUR, 0),))
UNALIGNED = RefreshSpec(((HOUR, None),))
AT_11 = RefreshSpec(ats=(clock("11:00"),))
RUNS = {  # spec, creation, upper before, now: write time, upper after
    "the contents are written at the refresh before": (HOURLY, "09:20", "10:00", "10:20", "10:00", "11:00"),
    "missed refreshes are not made up": (HOURLY, "07:20", "08:00", "10:20", "10:00", "11:00"),
    "a schedule that was on_commit waits": (HOURLY, "07:20", "10:00:00.001", "10:20", None, "11:00"),
    "a new shard, aligned, waits": (HOURLY, "10:20", "-", "10:20", None, "11:00"),
    "a new shard, aligned, created at a refresh": (HOURLY, "10:00", "-", "10:00", "10:00", "11:00"),
    "a new shard, not aligned: creation is a refresh": (UNALIGNED, "10:20", "-", "10:20", "10:20", "11:20"),
    "not aligned, an hour later": (UNALIGNED, "10:20", "11:20", "11:50", "11:20", "12:20"),
    "before the next refresh": (HOURLY, "07:20", "11:00", "10:40", None, "11:00"),
    "11:00 exactly": (HOURLY, "07:20", "11:00", "11:00", "11:00", "12:00"),
    "the only refresh": (AT_11, "10:00", "11:00", "11:30", "11:00", "final"),
    "the only refresh, upper before it": (AT_11, "10:00", "10:30", "11:30", "11:00", "final"),
    "final": (AT_11, "10:00", "final", "12:00", None, "final"),
    "a new shard before its only refresh": (AT_11, "10:20", "-", "10:20", None, "11:00"),
    "a new shard after its only refresh": (AT_11, "11:20", "-", "11:20", None, "final"),
    "at_creation alone": (RefreshSpec(at_creation=True), "10:20", "-", "10:20", "10:20", "final"),
    "at_creation and every hour": (
        RefreshSpec(((HOUR, 0),), at_creation=True),
        "10:20",
        "-",
        "10:20",
        "10:20",
        "11:00",
    ),
    "at_creation counts once": (
        RefreshSpec(((HOUR, 0),), at_creation=True),
        "10:20",
        "11:00",
        "11:10",
        "11:00",
        "12:00",
    ),
    "aligned in the future": (
        RefreshSpec(((HOUR, clock("18:30")),)),
        "10:00",
        "10:30",
        "11:40",
        "11:30",
        "12:30",
    ),
    "a refresh before the creation is none": (HOURLY, "10:20", "09:00", "10:30", None, "11:00"),
    "on_commit": (RefreshSpec(), "10:00", "10:00", "10:20", "10:20", "10:20:00.001"),
    "on_commit, past the run": (RefreshSpec(), "10:00", "10:30", "10:20", None, "10:30"),
    "a new schedule counts from the upper": (
        RefreshSpec(((60_000, 0),)),
        "07:20",
        "11:00",
        "10:20",
        None,
        "11:00",
    ),
    "a new schedule, once past the upper": (
        RefreshSpec(((60_000, 0),)),
        "07:20",
        "11:00",
        "11:00:30",
        "11:00",
        "11:01",
    ),
}


@pytest.mark.parametrize(("spec", "creation", "before", "now", "write", "after"), RUNS.values(), ids=RUNS)
def test_runs(spec, creation, before, now, write, after):
    decision = decide(spec.schedule(clock(creation)), clock(creation), upper(before), clock(now))
    assert decision == RefreshDecision(None if write is None else clock(write), upper(after))


def test_0_is_no_refresh_only_because_rounding_down_saturates_there():
    assert decide(every(1000, 500), 0, Antichain.of(0), 300) == RefreshDecision(None, Antichain.of(500))
    assert decide(every(1000, 0), 0, Antichain.of(0), 300) == RefreshDecision(0, Antichain.of(1000))


def test_after_the_largest_time_nothing_comes():
    assert decide(every(1000, 0), 0, Antichain.of(5), LARGEST_TIME).upper == Antichain.empty()
    assert decide(RefreshSchedule(), 0, Antichain.of(5), LARGEST_TIME) == RefreshDecision(
        LARGEST_TIME, Antichain.empty()
    )


@pytest.mark.parametrize(
    "spec", [RefreshSpec(), AT_11, UNALIGNED, RefreshSpec(((HOUR, 7), (5, None)), (9, 8), True)]
)
def test_what_a_shard_keeps_gives_the_same_spec(spec):
    assert RefreshSpec.from_stored(spec.stored()) == spec


def test_examples():
    assert doctest.testmod(refresh_schedule).failed == 0 and doctest.testmod(refresh_schedule).attempted > 0


CLOCKS = {  # expression, zone, from, and the refreshes that follow
    "the hour that clocks skip": (
        "30 2 * * *",
        "Europe/Berlin",
        "2026-03-28T12:00:00Z",
        ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"],
    ),
    "the hour that they repeat": (
        "30 2 * * *",
        "Europe/Berlin",
        "2026-10-24T12:00:00Z",
        ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
    ),
    "every half hour, through both": (
        "*/30 * * * *",
        "Europe/Berlin",
        "2026-10-25T00:15:00Z",
        ["2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:00:00Z"],
    ),
    "at 6 in winter and in summer": (
        "0 6 * * *",
        "Europe/Berlin",
        "2026-03-28T00:00:00Z",
        ["2026-03-28T05:00:00Z", "2026-03-29T04:00:00Z"],
    ),
    "a zone of half hours": ("0 0 * * *", "Asia/Kolkata", "2026-01-01T00:00:00Z", ["2026-01-01T18:30:00Z"]),
    "the last day of February": (
        "0 0 L 2 *",
        "UTC",
        "2027-01-01T00:00:00Z",
        ["2027-02-28T00:00:00Z", "2028-02-29T00:00:00Z"],
    ),
}


@pytest.mark.parametrize(("expression", "zone", "start", "expected"), CLOCKS.values(), ids=CLOCKS)
def test_cron_goes_by_the_clocks_of_its_zone(expression, zone, start, expected):
    cron, time, refreshes = RefreshCron(expression, zone), parse_time(start), []
    for _ in expected:
        time = cron.round_up_timestamp(time + 1)
        refreshes.append(iso(time))
    assert refreshes == expected
    back = [time := cron.round_down_timestamp_m1(time) for _ in expected[1:]]
    assert [iso(each) for each in back] == expected[-2::-1]


@given(
    st.sampled_from(["30 2 * * *", "0 6 * * MON-FRI", "*/7 1-3 * * *", "0 0 31 * *", "15,45 * 25,29 3,10 *"]),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]),
    st.one_of(
        st.integers(0, 4_102_444_800_000),
        st.integers(-20_000_000, 20_000_000).map(lambda off: 1_774_746_000_000 + off),  # around DST
    ),
)
def test_rounding_by_cron_is_consistent(expression, zone, time):
    """Up and down are inverse, and no refresh lies between them."""
    cron = RefreshCron(expression, zone)
    up = cron.round_up_timestamp(time)
    assert up >= time
    assert cron.round_up_timestamp(up) == up
    assert cron.round_down_timestamp_m1(up + 1) == up
    down = cron.round_down_timestamp_m1(time)
    assert down < time or down == 0
    assert down == cron.round_down_timestamp_m1(up)
    if down:
        assert cron.round_up_timestamp(down) == down
        assert cron.round_up_timestamp(down + 1) == up


def test_cron_at_the_ends_of_time():
    daily = RefreshCron("0 6 * * *", "America/New_York")
    assert daily.round_up_timestamp(LARGEST_TIME) == LARGEST_TIME
    assert daily.round_down_timestamp_m1(0) == 0
    assert daily.round_down_timestamp_m1(LARGEST_TIME) > parse_time("9899-01-01")


def test_cron_beside_others_and_as_a_shard_keeps_it():
    spec = RefreshSpec(((HOUR, 0),), crons=(("30 6 * * *", "UTC"),))
    schedule = spec.schedule(creation=0)
    six = parse_time("2026-01-01T06:00:00Z")
    assert [schedule.round_up_timestamp(six + at) - six for at in (0, 1, HOUR // 2 + 1)] == [
        0,
        HOUR // 2,
        HOUR,
    ]
    assert schedule.last_refresh() is None
    assert RefreshSpec.from_stored(spec.stored()) == spec
    assert decide(RefreshSpec(crons=spec.crons).schedule(0), 0, Antichain.of(six), six + HOUR) == (
        RefreshDecision(six + HOUR // 2, Antichain.of(six + 24 * HOUR + HOUR // 2))
    )
