"""docs/design/refresh.md's table of runs, row by row, on a virtual clock; and what a schedule
means for everything else that a run does.
"""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.materialization.response import log_line
from dbt.adapters.mvsink.refresh_schedule import RefreshSpec
from dbt.adapters.mvsink.shard import Antichain
from dbt.adapters.mvsink.shard_sql import Kind, Layout, view_query
from dbt.adapters.mvsink.sink import Driver, NeverRefreshed
from tests.functional.sink.scheduled import DAY, HOUR, HOURLY, MINUTE, ONCE, UNALIGNED, at, rows, scheduled_on


@pytest.fixture
def scheduled(session, tmp_path):
    return scheduled_on(session, tmp_path)


@pytest.fixture
def scheduled_on_spark(quick, tmp_path):
    return scheduled_on(quick, tmp_path)


# the table


def test_the_contents_are_written_at_the_refresh_before_the_run_and_the_upper_becomes_the_next(scheduled):
    mv = scheduled(HOURLY)
    mv.run("09:00", "a")
    mv.assert_state("10:00")
    outcome = mv.run("10:20", "a", "b")
    assert log_line(outcome) == f"+1 -0 at {DAY}T10:00:00Z"
    assert (outcome.lower, outcome.upper) == (Antichain.of(at("10:00")), Antichain.of(at("11:00")))
    mv.assert_state("11:00")
    assert mv.updates() == [("a", at("09:00"), 1), ("b", at("10:00"), 1)] and mv.computed_through() == at(
        "10:20"
    )


def test_missed_refreshes_are_not_made_up(scheduled):
    mv = scheduled(HOURLY)
    mv.run("07:00", "a")
    mv.assert_state("08:00")
    mv.run("10:20", "b")
    mv.assert_state("11:00")
    assert mv.updates() == [("a", at("07:00"), 1), ("a", at("10:00"), -1), ("b", at("10:00"), 1)]


def test_a_view_that_was_on_commit_keeps_its_contents_until_the_next_refresh(scheduled):
    mv = scheduled(RefreshSpec(), retain_history=MINUTE)
    mv.run("10:00", "a")
    mv.assert_state("10:00:00.001")
    mv.refresh = HOURLY
    outcome = mv.run("10:20", "b")
    assert log_line(outcome) == f"up to date until {DAY}T11:00:00Z" and outcome.kind is Kind.NONE
    mv.assert_state("11:00")
    assert mv.shown() == ["a"] and mv.computed_through() == at("10:20")
    assert mv.state().since == Antichain.of(at("10:00"))  # never past the newest write time


def test_a_new_shard_that_is_not_created_at_a_refresh_waits_for_the_first(scheduled):
    mv = scheduled(HOURLY)
    outcome = mv.run("10:20", "a")
    assert log_line(outcome) == f"not refreshed yet; first refresh at {DAY}T11:00:00Z"
    mv.assert_state("11:00", readable=False)
    assert mv.state().since == Antichain.of(at("11:00")) and mv.state().creation == at("10:20")
    again = mv.run("10:40", "a")
    assert log_line(again) == log_line(outcome)
    assert log_line(mv.run("11:05", "a")) == f"+1 -0 at {DAY}T11:00:00Z"
    mv.assert_state("12:00")
    assert mv.shown() == ["a"] and mv.state().since == Antichain.of(at("11:00"))


def test_without_an_alignment_creation_is_a_refresh_and_the_others_count_from_it(scheduled):
    mv = scheduled(UNALIGNED)
    assert log_line(mv.run("10:20", "a")) == f"+1 -0 at {DAY}T10:20:00Z"
    mv.assert_state("11:20")
    assert mv.state().since == Antichain.of(at("10:20"))  # raised to its as-of first
    assert log_line(mv.run("11:50", "b")) == f"+1 -1 at {DAY}T11:20:00Z"
    mv.assert_state("12:20")
    assert mv.state().creation == at("10:20")


def test_a_run_before_the_next_refresh_does_nothing(scheduled):
    mv = scheduled(HOURLY)
    mv.run("10:00", "a")
    before = mv.state()
    outcome = mv.run("10:40", "b")
    assert log_line(outcome) == f"up to date until {DAY}T11:00:00Z" and not outcome.warnings
    assert mv.state() == before and mv.shown() == ["a"]


def test_exactly_at_the_next_refresh_the_run_refreshes(scheduled):
    mv = scheduled(HOURLY)
    mv.run("10:00", "a")
    assert log_line(mv.run("11:00", "b")) == f"+1 -1 at {DAY}T11:00:00Z"
    mv.assert_state("12:00")


def test_after_the_last_refresh_the_view_is_final_and_every_later_run_says_so(scheduled):
    mv = scheduled(ONCE)
    mv.run("10:30", "a")
    outcome = mv.run("11:30", "b")
    assert log_line(outcome) == f"+1 -0 at {DAY}T11:00:00Z; final" and outcome.kind is Kind.APPEND
    mv.assert_state("final")
    before = mv.state()
    for now in ("11:31", "23:59"):
        later = mv.run(now, "c")
        assert (log_line(later), later.kind) == ("final; --full-refresh starts from scratch", Kind.FINAL)
    assert mv.state() == before and mv.shown() == ["b"]


READERS = (
    "select * from waiting",
    "select count(*) from waiting",
    "select x from waiting where x = 'q'",
    "select max(x) from waiting group by x",
    "select 1 from waiting join waiting w using (x)",
)


def test_before_the_first_refresh_the_shard_is_there_and_refuses_readers(scheduled_on_spark):
    mv = scheduled_on_spark(ONCE)
    mv.run("10:20", "a")
    mv.assert_state("11:00", readable=False)
    with mv.model.open(rows("a")) as handle:
        parts = Layout.of(handle, handle.state())
        text = view_query(parts, refreshed=False, first_refresh=f"{DAY}T11:00:00Z")
    mv.model.session.sql(text).createOrReplaceTempView("waiting")
    for reader in READERS:
        with pytest.raises(Exception, match=f"not refreshed yet; first refresh at {DAY}T11:00:00Z"):
            mv.model.session.sql(reader).collect()


# what the table leaves out


def test_a_shard_whose_refreshes_are_all_past_is_not_made(scheduled):
    mv = scheduled(ONCE)
    with pytest.raises(NeverRefreshed, match="the specified refreshes would never happen"):
        mv.run("11:30", "a")
    assert mv.state().upper == Antichain.of(0) and mv.state().files == ()


def test_at_creation_writes_once_and_alone_it_is_final(scheduled):
    mv = scheduled(RefreshSpec(((HOUR, 0),), at_creation=True))
    mv.run("10:20", "a")
    mv.assert_state("11:00")
    assert mv.shown() == ["a"]
    mv.model.name, mv.refresh = "dev.once", RefreshSpec(at_creation=True)
    mv.run("10:20", "a")
    mv.assert_state("final")


def test_a_changed_schedule_counts_from_the_upper(scheduled):
    mv = scheduled(HOURLY)
    mv.run("10:00", "a")
    mv.refresh = RefreshSpec(((10 * MINUTE, 0),))
    assert log_line(mv.run("10:20", "b")) == f"up to date until {DAY}T11:00:00Z"
    assert log_line(mv.run("11:12", "b")) == f"+1 -1 at {DAY}T11:10:00Z"
    mv.refresh = RefreshSpec(((12 * HOUR, 0),))
    assert log_line(mv.run("11:25", "c")) == f"up to date until {DAY}T12:00:00Z"
    mv.refresh = RefreshSpec()
    assert log_line(mv.run("11:40", "c")) == f"up to date until {DAY}T12:00:00Z"
    assert log_line(mv.run("12:10", "c")) == f"+1 -1 at {DAY}T12:10:00Z"
    mv.refresh = RefreshSpec(ats=(at("09:00"),))
    assert log_line(mv.run("12:20", "d")) == "final; --full-refresh starts from scratch"
    mv.assert_state("final")
    assert mv.shown() == ["c"]


def test_the_warning_of_a_clock_ahead_knows_schedules(scheduled):
    mv = scheduled(RefreshSpec(((12 * HOUR, 0),)))
    mv.run("00:00", "a")
    assert mv.run("02:00", "b").warnings == ()
    # its next refresh is 03:00, the upper is 12:00 by the schedule that the view had
    mv.refresh = HOURLY
    assert mv.run("02:00", "b").warnings == ()
    mv.refresh = RefreshSpec()
    assert mv.run("02:00", "b").warnings == ()
    mv.refresh = HOURLY
    mv.run("20:00", "a")  # a mistyped run_time
    [warning] = mv.run("13:00", "b").warnings
    assert f"the shard's upper {at('21:00')} is ahead of the clock" in warning and "--full-refresh" in warning


def test_mv_now_is_the_write_time(scheduled):
    mv = scheduled(HOURLY)
    rendered = "select date_format(timestamp_millis({}L) /* mv_now */, 'HH:mm') x"
    for now, written in (("10:00", "10:00"), ("11:20", "11:00")):
        mv.run(now, query=rendered.format(at(now)))
        assert mv.shown() == [written]
    mv.run("11:40", query=rendered.format(at("11:40")), full_refresh=True)
    assert mv.shown() == ["11:40"]


def test_a_full_refresh_writes_at_the_runs_time_also_where_the_view_was_final(scheduled):
    mv = scheduled(ONCE)
    mv.run("10:00", "a")
    mv.run("11:30", "a")
    outcome = mv.run("11:40", "b", full_refresh=True)
    assert log_line(outcome) == f"+1 -0 at {DAY}T11:40:00Z; final; rebuilt: full refresh"
    mv.assert_state("final")
    mv.refresh = HOURLY
    mv.run("11:50", "c", full_refresh=True)
    mv.assert_state("12:00")
    assert mv.shown() == ["c"] and mv.state().creation == at("11:50") and mv.state().generation == 2


def test_each_commit_of_contents_says_how_they_were_computed(scheduled):
    """A new generation as a first load does: `max_change: auto` learns from neither."""
    mv = scheduled(HOURLY)
    mv.run("09:00", "a")
    mv.run("10:10", "b")
    mv.run("10:20", "c", full_refresh=True)
    mv.run("11:10", query="select 'd' as y")
    notes = [commit.note for commit in mv.history()]
    assert [note.mode for note in notes if note.rows_inserted] == ["loaded", "evaluated", "loaded", "loaded"]


def test_a_changed_definition_makes_a_new_generation_as_of_the_run(scheduled):
    mv = scheduled(UNALIGNED)
    mv.run("10:00", "a")
    assert (
        log_line(mv.run("10:20", "b", redefined=True))
        == f"+1 -0 at {DAY}T10:20:00Z; rebuilt: definition changed"
    )
    mv.assert_state("11:20")
    assert mv.updates() == [("b", at("10:20"), 1)] and mv.state().creation == at("10:20")


def test_changed_columns_wait_for_the_next_refresh(scheduled):
    mv = scheduled(UNALIGNED)
    mv.run("10:00", "a")
    wider = rows("a").replace(" x from", " x, 1 as y from")
    assert log_line(mv.run("10:20", query=wider)) == f"up to date until {DAY}T11:00:00Z"
    assert (
        log_line(mv.run("11:10", query=wider, read_only=True))
        == "read-only: would write +1 -1; columns added: y int"
    )
    since = mv.state().since
    assert log_line(mv.run("11:20", query=wider)) == f"+1 -1 at {DAY}T11:00:00Z; columns added: y int"
    state = mv.state()
    assert (state.since, state.upper) == (since, Antichain.of(at("12:00")))
    assert state.creation == at("10:00") and state.generation == 0
    other = rows("a").replace("cast(x as string) x", "1 as y")
    assert (
        log_line(mv.run("12:20", query=other))
        == f"+1 -0 at {DAY}T12:00:00Z; rebuilt: columns changed (`x` is gone)"
    )
    assert mv.state().generation == 1 and mv.state().creation == at("10:00")


def test_read_only_reports_what_the_refresh_would_write(scheduled):
    mv = scheduled(HOURLY)
    mv.run("10:00", "a", "c")
    before = mv.state()
    lines = {
        "10:20": f"up to date until {DAY}T11:00:00Z",
        "11:20": "read-only: would write +2 -1",
    }
    assert {now: log_line(mv.run(now, "a", "b", "b", read_only=True)) for now in lines} == lines
    assert (
        log_line(mv.run("10:30", "b", read_only=True, redefined=True))
        == "read-only: would write +1 -0; rebuilt: definition changed"
    )
    mv.refresh = RefreshSpec(ats=(at("12:00"),))
    assert (
        log_line(mv.run("11:20", "b", read_only=True)) == "read-only: would write +0 -0"
    )  # no refresh, though the upper would move
    assert mv.state() == before


def test_a_dropped_shard_begins_again_and_waits(scheduled):
    mv = scheduled(HOURLY)
    mv.run("10:00", "a")
    with mv.model.open(rows("a")) as handle:
        handle.mark_dropped(at("10:10"))
    outcome = mv.run("10:20", "b")
    assert (
        log_line(outcome) == f"not refreshed yet; first refresh at {DAY}T11:00:00Z; rebuilt: dropped before"
    )
    mv.assert_state("11:00", readable=False)
    assert mv.state().creation == at("10:20") and mv.state().files == ()
    mv.run("11:20", "b")
    mv.assert_state("12:00")
    assert mv.shown() == ["b"]


def test_foreign_rows_stay_until_the_next_refresh_repairs_them(scheduled_on_spark):
    mv = scheduled_on_spark(HOURLY)
    mv.run("10:00", "a")
    name = f"delta.`{mv.model.uri}`"
    mv.model.session.sql(
        f"insert into {name} (x, _mv_time, _mv_diff) values ('q', {at('10:30')}, 1), ('r', {at('11:30')}, 1)"
    )
    mv.run("10:40", "a")
    assert mv.shown() == ["a", "q"]
    outcome = mv.run("11:20", "a")
    assert log_line(outcome) == f"+0 -1 at {DAY}T11:00:00Z, 1 foreign rows dropped"
    mv.assert_state("12:00")
    assert mv.shown() == ["a"]


KILLED = {  # run again at: what it writes at
    "within the same hour": ("10:40", None, "11:00"),
    "after the next refresh": ("11:10", "11:00", "12:00"),
}


@pytest.mark.parametrize(
    "refresh", [HOURLY, RefreshSpec(((HOUR, 0),), at_creation=True)], ids=["aligned", "at creation too"]
)
@pytest.mark.parametrize(("again", "written", "upper"), KILLED.values(), ids=KILLED)
def test_killed_once_the_upper_was_raised(scheduled, refresh, again, written, upper):
    mv = scheduled(refresh)

    def die(point):
        if point == "upper raised":
            raise RuntimeError("killed")

    failpoints.install(die)
    try:
        with pytest.raises(RuntimeError, match="killed"):
            mv.run("10:20", "a")
    finally:
        failpoints.install(None)
    assert not mv.state().readable and mv.state().creation == at("10:20")
    mv.run(again, "b")
    written = "10:20" if refresh.at_creation and written is None else written
    mv.assert_state(upper, readable=written is not None)
    assert written is None or (mv.shown() == ["b"] and mv.state().since == Antichain.of(at(written)))


def test_two_runs_of_one_refresh_write_it_once(scheduled):
    mv = scheduled(HOURLY)
    mv.run("10:00", "a")
    other = []

    def overtake(point):
        if point == "staged":
            failpoints.install(None)
            other.append(mv.run("11:10", "a", "b"))

    failpoints.install(overtake)
    try:
        late = mv.run("11:20", "a", "b")
    finally:
        failpoints.install(None)
    assert [log_line(o) for o in (*other, late)] == [
        f"+1 -0 at {DAY}T11:00:00Z",
        f"up to date until {DAY}T12:00:00Z",
    ]
    assert mv.updates() == [("a", at("10:00"), 1), ("b", at("11:00"), 1)]


def test_since_trails_the_run_and_never_passes_the_write_time(scheduled):
    mv = scheduled(HOURLY, retain_history=30 * MINUTE)
    mv.run("10:00", "a")
    mv.run("11:59", "b")
    assert mv.state().since == Antichain.of(at("11:00"))
    mv.run("12:10", "c")
    assert mv.state().since == Antichain.of(at("11:40:00.001"))
    mv.assert_state("13:00")


def test_compaction_at_the_end_leaves_a_final_view_readable(scheduled):
    mv = scheduled(RefreshSpec(ats=tuple(at(f"11:{minute:02}") for minute in range(6))), retain_history=1000)
    for minute in range(6):
        mv.run(f"11:{minute:02}:30", *"abcdef"[: minute + 1])
    mv.assert_state("final")
    assert mv.shown() == list("abcdef")
    with mv.model.open(rows("a")) as handle, pytest.raises(NeverRefreshed):
        handle.mark_dropped(at("12:00"))
        Driver(
            mv.model.request(rows("a"), time=at("12:10"), refresh=mv.refresh), handle, mv.model.engine()
        ).run()
