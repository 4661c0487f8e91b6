"""The change feed against a replay of the updates: random histories, compacted at random."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbt.adapters.mvsink.shard import (
    Compacted,
    Feed,
    MemoryStorage,
    ShardClient,
    compact_with_pyarrow,
    compaction_due,
    feed,
    snapshot_step,
    steps,
)
from tests.support.shards import SCHEMA, at, updates

# times that pass, then rows that change at that time; since follows at some distance
APPENDS = st.lists(
    st.tuples(
        st.integers(1, 4),
        st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([-1, 1, 2])), max_size=4),
        st.integers(0, 9),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)


def written(appends):
    """The shard, and the replay: ``(row, time) -> diff``."""
    storage = MemoryStorage()
    client = ShardClient(locate=lambda _: storage)
    handle, replay, present = client.open_writer("s", SCHEMA), Counter(), Counter()
    for gap, rows, distance, compacts in appends:
        time = handle.upper.stored() + gap
        rows = [(row, time, diff) for row, diff in rows if diff > 0 or present[row] > 0]
        for row, _, diff in rows:
            replay[row, time] += diff
            present[row] += diff
        handle.compare_and_append(
            updates(*rows), handle.upper, at(time + 1), since=at(max(0, time - distance))
        )
        plan = compaction_due(handle.state()) if compacts else None
        if plan:
            compact_with_pyarrow(handle, plan)
    return client, handle, replay


def summed(tables):
    total = Counter()
    for table in tables:
        for row in table.to_pylist():
            total[row["x"], row["_mv_time"]] += row["_mv_diff"]
    return {key: diff for key, diff in total.items() if diff}


@pytest.mark.parametrize("small", [True, False], ids=["consolidated", "file by file"])
@settings(max_examples=100, deadline=None)
@given(appends=APPENDS, begin=st.integers(0, 40))
def test_the_steps_are_the_updates_in_order_and_leave_nothing_out(small, appends, begin):
    client, handle, replay = written(appends)
    begin, size = min(begin, handle.upper.stored()), feed.SMALL_ROWS
    feed.SMALL_ROWS = size if small else -1
    try:
        with client.open_reader("s") as reader:
            changes = Feed(reader)
            try:
                state = changes.state(at(begin))
            except Compacted:
                assert 0 < handle.state().since.stored() >= begin
                return
            frontier = at(begin)
            for step in steps(state, frontier):
                assert step.lower == frontier and frontier.less_than(step.upper)
                tables = list(changes.tables(state, step, errors=False))
                first, end = step.lower.stored(), step.upper.stored()
                assert summed(tables) == {
                    key: diff for key, diff in replay.items() if diff and first <= key[1] < end
                }
                times = [time for table in tables for time in table.column("_mv_time").to_pylist()]
                assert not small or times == sorted(times)
                frontier = step.upper
            assert frontier == state.upper
    finally:
        feed.SMALL_ROWS = size


@pytest.mark.parametrize("small", [True, False], ids=["consolidated", "file by file"])
@settings(max_examples=60, deadline=None)
@given(appends=APPENDS, back=st.integers(0, 9))
def test_a_snapshot_is_the_contents_at_its_time(small, appends, back):
    client, handle, replay = written(appends)
    state, size = handle.state(), feed.SMALL_ROWS
    time = max(state.since.stored(), state.upper.stored() - 1 - back)
    feed.SMALL_ROWS = size if small else -1
    try:
        with client.open_reader("s") as reader:
            changes = Feed(reader)
            state = changes.state(at(time), snapshot=True)
            contents = summed(changes.tables(state, snapshot_step(state, time), errors=False))
    finally:
        feed.SMALL_ROWS = size
    expected = Counter()
    for (row, when), diff in replay.items():
        expected[row, time] += diff if when <= time else 0
    assert contents == {key: diff for key, diff in expected.items() if diff}
