"""Runs without a due refresh need no engine: what they leave in a shard, in memory and on Delta."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.engine import Column, arrow_schema, parse_type
from dbt.adapters.mvsink.inputs.reference import References
from dbt.adapters.mvsink.materialization.response import log_line
from dbt.adapters.mvsink.refresh_schedule import RefreshSpec
from dbt.adapters.mvsink.shard import Antichain, MemoryStorage, ShardClient, checkpoint
from dbt.adapters.mvsink.sink import Driver, SinkRequest

MINUTE, T = 60_000, 1_795_168_800_000  # 2026-11-20T10:00:00Z
HOURLY, COMMIT, PAST = RefreshSpec(((60 * MINUTE, 0),)), RefreshSpec(), RefreshSpec(ats=(T,))
COLUMNS = (Column("x", parse_type("string", "x")),)


class NoEngine:
    """Refuses everything."""

    def query(self, query, what):
        raise AssertionError(query)

    execute = query

    def columns(self, query):
        raise AssertionError(query)


@pytest.fixture(params=["memory", "delta"])
def handle(request, tmp_path):
    client = ShardClient(locate=MemoryStorage) if request.param == "memory" else ShardClient()
    with client.open_writer(str(tmp_path / "shard"), arrow_schema(COLUMNS), "test") as opened:
        yield opened


def run(handle, minute, refresh=HOURLY, **more):
    """A run so many minutes after 10:00; its log line."""
    time = T + minute * MINUTE
    return Driver(
        SinkRequest("m", "q", COLUMNS, time, time, 1000, References(), refresh=refresh, **more),
        handle,
        NoEngine(),
    ).run()


def frontiers(state):
    return [None if f.is_empty() else (f.stored() - T) // MINUTE for f in (state.since, state.upper)]


def test_a_waiting_shard_records_its_creation_once_per_generation(handle):
    waits = "not refreshed yet; first refresh at 2026-11-20T11:00:00Z"
    assert log_line(run(handle, 20)) == waits
    checkpoint(handle)
    for minute in (30, 40):
        before = handle.state().version
        assert log_line(run(handle, minute)) == waits and handle.state().version == before
    assert handle.state().creation == T + 20 * MINUTE and frontiers(handle.state()) == [60, 60]
    handle.mark_dropped(5)
    assert log_line(run(handle, 45)) == f"{waits}; rebuilt: dropped before"
    assert (handle.state().creation, handle.state().generation) == (T + 45 * MINUTE, 1)
    assert frontiers(handle.state()) == [60, 60] and handle.state().dropped is None
    assert handle.history()[-1].note.computed_through == T + 45 * MINUTE


def test_a_waiting_shard_may_begin_again_under_another_schedule(handle):
    run(handle, 20, RefreshSpec(ats=(T + 600 * MINUTE,)))
    outcome = run(handle, 30, HOURLY, full_refresh=True)
    assert (
        log_line(outcome) == "not refreshed yet; first refresh at 2026-11-20T11:00:00Z; rebuilt: full refresh"
    )
    assert frontiers(handle.state()) == [60, 60]


def test_read_only_leaves_a_shard_that_is_not_there_yet_alone(handle):
    assert log_line(run(handle, 20, read_only=True)) == "read-only: would write +0 -0"
    assert handle.state().upper == Antichain.of(0) and handle.state().creation is None


def test_contents_stay_readable_while_the_upper_moves_without_a_refresh(handle):
    run(handle, 20)
    rows = pa.table({"x": ["a"], "_mv_time": [T + 60 * MINUTE], "_mv_diff": [1]})
    handle.compare_and_append(rows, handle.upper, Antichain.of(T + 60 * MINUTE + 1))
    assert log_line(run(handle, 70)) == "up to date until 2026-11-20T12:00:00Z"
    assert frontiers(handle.state()) == [60, 120]
    later = run(handle, 125, PAST)
    assert log_line(later) == "final; --full-refresh starts from scratch" and frontiers(handle.state()) == [
        60,
        None,
    ]
    version = handle.state().version
    assert log_line(run(handle, 130, COMMIT)) == log_line(later) and handle.state().version == version
