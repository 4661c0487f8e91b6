"""The change feed against a replay of the updates: random histories, compacted at random."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbt.adapters.mvsink.cli.commands.subscribe import begin
from dbt.adapters.mvsink.cli.discovery import DiscoveredShard
from dbt.adapters.mvsink.cli.update_formats import FORMATS
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
from tests.support.consumer import Consumer
from tests.support.replay import T0, histories
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


def written(appends, after=lambda client, handle: None, start=0):
    """The shard, and the replay: ``(row, time) -> diff``. ``after``: called after each append.
    ``start``: times (ms) come after it."""
    storage = MemoryStorage()
    client = ShardClient(locate=lambda _: storage)
    handle, replay, present = client.open_writer("s", SCHEMA), Counter(), Counter()
    for gap, rows, distance, compacts in appends:
        time = max(start, handle.upper.stored()) + gap
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
        after(client, handle)
    return client, handle, replay


def summed(tables):
    total = Counter()
    for table in tables:
        for row in table.to_pylist():
            total[row["x"], row["_mv_time"]] += row["_mv_diff"]
    return {key: diff for key, diff in total.items() if diff}


@pytest.mark.parametrize("small", [True, False], ids=["consolidated", "file by file"])
@settings(max_examples=histories(100), deadline=None)
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
@settings(max_examples=histories(60), deadline=None)
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


class Subscriber:
    """A consumer of `mvsink subscribe` that is cut off anywhere in the output and continues with
    its own position; or whose output always arrives, and that continues with the command's file.
    """

    def __init__(self, cuts, path):
        self.cuts, self.path, self.consumer = iter(cuts), path, Consumer()

    def __call__(self, client, handle):
        cut = next(self.cuts, None)
        if cut is not None and handle.state().readable:
            self.read(client, cut)

    def read(self, client, cut):
        """``cut``: how much of the output arrives."""
        with client.open_reader("s") as reader:
            try:
                text = self.output(reader, again=self.consumer.progress < 0)
            except Compacted:
                text = self.output(reader, again=True)
        self.consumer.read(text[: len(text) if self.path else round(cut * len(text))])

    def output(self, reader, *, again):
        """What the command writes from the position on; ``again``: from a snapshot on."""
        out, shard = io.BytesIO(), DiscoveredShard("s.s", "s", reader)
        if again and self.path is not None:
            self.path.unlink(missing_ok=True)
        start = None if again or self.path else str(self.consumer.progress)
        begun = begin(shard, reader, start, again, self.path)
        begun.write(FORMATS["ndjson"](out, False), out, follow=False)
        return out.getvalue().decode()


@pytest.mark.parametrize("by_file", [False, True], ids=["its own position", "a position file"])
@settings(max_examples=histories(100), deadline=None)
@given(appends=APPENDS, cuts=st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=8))
def test_a_consumer_that_is_cut_off_anywhere_has_the_contents(by_file, appends, cuts):
    with TemporaryDirectory() as directory:
        subscriber = Subscriber(cuts, Path(directory) / "position" if by_file else None)
        client, handle, replay = written(appends, subscriber, T0)
        subscriber.read(client, 1.0)
    contents = Counter()
    for (row, _), diff in replay.items():
        contents[row,] += diff
    assert subscriber.consumer.rows() == {row: count for row, count in contents.items() if count}
    assert subscriber.consumer.progress == handle.upper.stored()
