"""A shard as an input, as far as its log and statistics answer: frontier, pending times, bounds,
holds.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.engine import EngineError, shard_columns
from dbt.adapters.mvsink.inputs import HistoryGone, PendingTime, ShardInput
from dbt.adapters.mvsink.shard import ShardReplaced
from dbt.adapters.mvsink.shard_sql import NotRefreshed
from dbt.adapters.mvsink.shard_sql.as_of import Projection
from tests.support.duck_engine import DuckEngine
from tests.support.engines import NoEngine, ScriptedEngine
from tests.support.shards import SCHEMA, at, client, updates


@pytest.fixture(params=["memory", "delta"])
def opened(request, tmp_path):
    return client(request.param, tmp_path)


@pytest.fixture
def writer(opened):
    handle = opened.open_writer("s", SCHEMA)
    handle.compare_and_append_batch([], at(0), at(10), since=at(10))
    handle.compare_and_append(updates(("a", 10, 1)), at(10), at(11))
    return handle


def test_times_with_inserts_only_need_no_engine(writer):
    writer.compare_and_append(updates(("b", 12, 1), ("b", 12, 1)), at(11), at(13))
    shard = ShardInput(writer, NoEngine(), "m")
    assert shard.frontier() == at(13)
    assert shard.pending(11, 13) == [PendingTime(12, inserts=True, deletes=False)]
    assert shard.pending(11, 12) == [] == shard.pending(11, 11)
    assert [column.name for column in shard.columns] == ["x"]


def test_other_times_are_asked_of_the_engine_and_come_in_order(writer):
    writer.compare_and_append(updates(("b", 12, 1), ("a", 13, -1)), at(11), at(14))
    engine = ScriptedEngine(pending=lambda query: [(13, False, True, False), (12, True, False, False)])
    assert ShardInput(writer, engine).pending(11, 14) == [
        PendingTime(12, True, False),
        PendingTime(13, False, True),
    ]


def test_a_reader_answers_as_a_writer_does(opened, writer):
    writer.compare_and_append(updates(("b", 12, 1)), at(11), at(13))
    shard = ShardInput(opened.open_reader("s"), NoEngine(), "m")
    assert (shard.frontier(), shard.pending(11, 13)) == (at(13), [PendingTime(12, True, False)])
    shard.hold("task", 11)
    assert writer.state().holds == {"task": 11}
    shard.release("task")
    assert writer.state().holds == {}


def test_history_that_is_gone_is_refused_with_both_bounds(writer):
    writer.compare_and_append(updates(("b", 20, 1)), at(11), at(21))
    writer.downgrade_since(at(15))
    shard = ShardInput(writer, NoEngine(), "m")
    bounds = r"the readable times are \[15, 21\)"
    for read in (lambda: shard.pending(15, 21), lambda: shard.changes(12, 21), lambda: shard.changes(16, 22)):
        with pytest.raises(HistoryGone, match=rf"input m: cannot read the changes of .*{bounds}"):
            read()
    for read in (
        lambda: shard.contents(14),
        lambda: shard.snapshot(21),
        lambda: shard.difference("select 1", 14),
    ):
        with pytest.raises(HistoryGone, match=rf"input m: cannot read as of .*{bounds}"):
            read()
    with pytest.raises(
        HistoryGone, match=r"input m: history from 14 on is needed, and it begins at 15; its upper is 21"
    ):
        shard.hold("task", 14)


def test_a_hold_keeps_history(writer):
    shard = ShardInput(writer, NoEngine(), "m")
    shard.hold("task", 10)
    writer.compare_and_append(updates(("b", 20, 1)), at(11), at(21), since=at(20))
    assert shard.pending(11, 21) == [PendingTime(20, True, False)]


def test_a_shard_without_contents_is_not_refreshed_yet(opened):
    shard = ShardInput(opened.open_writer("new", SCHEMA), NoEngine(), "m")
    assert shard.frontier() == at(0) and shard.pending(0, 0) == []
    for read in (lambda: shard.contents(5), lambda: shard.changes(5, 6)):
        with pytest.raises(NotRefreshed, match="^m: not refreshed yet$"):
            read()


def test_a_finished_shard_has_the_empty_frontier(writer):
    writer.compare_and_append(updates(("b", 12, 1)), at(11), at(None))
    shard = ShardInput(writer, NoEngine())
    assert shard.frontier().is_empty()
    assert shard.pending(11, 10**12) == [PendingTime(12, True, False)]


def test_a_new_generation_is_noticed_by_its_number(opened, writer):
    shard = ShardInput(writer, NoEngine(), "m")
    other = opened.open_writer("s", SCHEMA)
    other.replace([other.batch(updates(("z", 30, 1)), at(30), at(31))], SCHEMA, at(31), at(30))
    with pytest.raises(ShardReplaced):
        shard.frontier()
    again = ShardInput(opened.open_writer("s", SCHEMA), NoEngine(), "m")
    assert again.generation == shard.generation + 1
    text = again.difference("select 'a' x, 1L _mv_diff, null _mv_error", 30)
    assert "-_mv_diff _mv_diff" in text and "select 'a' x" in text and "30L _mv_time" in text


def test_an_older_generation_can_be_read_until_its_files_are_removed(opened, writer):
    writer.compare_and_append(updates(("b", 12, 1)), at(11), at(13))
    old = {file.batch_id for file in writer.state().files}
    for time in (30, 40):
        writer.replace(
            [writer.batch(updates(("z", time, 1)), at(time), at(time + 1))], SCHEMA, at(time + 1), at(time)
        )
    shard = ShardInput(writer, NoEngine(), "m")
    query = shard.before(0, 12)
    assert all(batch in query for batch in old)
    assert not any(file.batch_id in shard.before(1, 30) for file in writer.state().files)
    with pytest.raises(
        HistoryGone, match=r"input m: cannot read as of 30: the readable times are \[10, 13\)"
    ):
        shard.before(0, 30)
    with pytest.raises(HistoryGone, match="generation 7 is no longer in the log; the shard is of 2"):
        shard.before(7, 30)
    for batch in old:
        writer.storage.delete_directory(f"table/{batch}")
    with pytest.raises(HistoryGone, match="files of generation 0 were removed"):
        shard.before(0, 12)


def test_changes_name_only_the_files_that_may_hold_them(writer):
    for time in (20, 30, 40):
        writer.compare_and_append(updates((f"r{time}", time, 1)), writer.upper, at(time + 1))
    shard = ShardInput(writer, NoEngine())
    batches = {file.min_time: file.batch_id for file in writer.state().files}
    query = shard.changes(25, 35)
    assert [time for time, batch in batches.items() if batch in query] == [30]


def test_errors_of_a_snapshot_are_updates_of_it(writer):
    broken = pa.table(
        {"x": pa.array([None], pa.string()), "_mv_time": [12], "_mv_diff": [1], "_mv_error": ["no"]}
    )
    writer.compare_and_append(broken, at(11), at(13))
    shard = ShardInput(writer, NoEngine())
    assert "raise_error" in shard.contents(12) and "raise_error" not in shard.contents(11)
    assert "raise_error" not in shard.snapshot(12) and "_mv_error is not null" in shard.snapshot(12)


def test_errors_pass_a_filter(tmp_path):
    """A condition on rows does not filter errors: a reader of a part of a shard fails while the
    shard does.
    """
    handle = client("delta", tmp_path).open_writer("s", SCHEMA)
    broken = pa.table(
        {"x": pa.array([None], pa.string()), "_mv_time": [12], "_mv_diff": [2], "_mv_error": ["no"]}
    )
    handle.compare_and_append(updates(("a", 11, 1), ("b", 11, 1)), at(0), at(12))
    handle.compare_and_append(broken, at(12), at(13))
    handle.compare_and_append(updates(("a", 13, 1), ("b", 13, 1)), at(13), at(14))
    part, engine = Projection(shard_columns(SCHEMA), "`x` = 'b'"), DuckEngine()
    shard = ShardInput(handle, engine, "m", part)
    changes = engine.query(shard.changes(11, 14), "changes")
    assert sorted(changes, key=repr) == [("b", 11, 1, None), ("b", 13, 1, None), (None, 12, 2, "no")]
    assert sorted(engine.query(shard.snapshot(13), "snapshot"), key=repr) == [
        ("b", 13, 1, None), ("b", 13, 1, None), (None, 13, 2, "no"),
    ]  # fmt: skip
    assert shard.pending(11, 14) == [
        PendingTime(11, True, False), PendingTime(12, False, False, errors=True), PendingTime(13, True, False),
    ]  # fmt: skip
    assert engine.query(shard.contents(11), "contents") == [("b",)]
    with pytest.raises(EngineError, match="no"):
        engine.query(shard.contents(12), "contents")


def test_a_hold_that_does_not_go_forward_keeps_the_earlier_time(writer):
    shard = ShardInput(writer, NoEngine(), "m")
    writer.compare_and_append_batch([], at(11), at(31))
    for time, forward, expected in (
        (20, False, 20),
        (25, False, 20),
        (15, False, 15),
        (25, True, 25),
        (20, True, 20),
    ):
        shard.hold("task", time, forward=forward)
        assert writer.state().holds == {"task": expected}
