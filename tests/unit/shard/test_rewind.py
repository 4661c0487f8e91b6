"""A shard whose upper is far ahead is taken back to the present, with its history."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.shard import FilesChanged, InvalidUsage, ShardReplaced, rewind
from dbt.adapters.mvsink.shard.maintenance import collect_garbage
from tests.support.shards import at, live, read, staged, updates

FAR, NOW = 1_000_000, 50


@pytest.fixture
def ahead(writer):
    """Runs at 10 and 20, then one far ahead that took a row away, added one and changed one."""
    writer.compare_and_append(updates(("a", 10, 1), ("b", 10, 1)), at(0), at(11), since=at(10))
    writer.compare_and_append(updates(("c", 20, 2)), at(11), at(21))
    writer.compare_and_append(updates(("a", FAR, -1), ("c", FAR, 1), ("d", FAR, 1)), at(21), at(FAR + 1))
    return writer


NEWEST = [("b", 1), ("c", 3), ("d", 1)]


def test_row_m_history_stays_and_the_newest_contents_are_those_of_the_present(opened, ahead):
    assert rewind(ahead, NOW) == ahead.state().version
    state = ahead.state()
    assert (state.since, state.upper, state.generation) == (at(10), at(NOW + 1), 1)
    assert read(opened, "s", 10) == [("a", 1), ("b", 1)]
    assert read(opened, "s", 20) == read(opened, "s", NOW - 1) == [("a", 1), ("b", 1), ("c", 2)]
    assert read(opened, "s", NOW) == NEWEST


def test_row_m_later_runs_write_again(opened, ahead):
    rewind(ahead, NOW)
    ahead.compare_and_append(updates(("e", 60, 1)), at(NOW + 1), at(61))
    assert read(opened, "s", 60) == [*NEWEST, ("e", 1)]
    assert read(opened, "s", NOW) == NEWEST


def test_row_m_a_shard_that_is_not_ahead_is_left_alone(ahead):
    version = ahead.state().version
    assert rewind(ahead, FAR) is None and rewind(ahead, FAR + 5) is None
    assert ahead.state().version == version


def test_row_m_a_history_that_a_run_far_ahead_has_released_begins_at_the_present(opened, ahead):
    ahead.downgrade_since(at(FAR))
    rewind(ahead, NOW)
    assert ahead.state().since == at(NOW) and read(opened, "s", NOW) == NEWEST


def test_row_m_a_commit_that_comes_meanwhile_is_not_lost(opened, ahead, monkeypatch):
    other = opened.open_writer("s", ahead.schema)
    replace = ahead.replace

    def later(*arguments, **options):
        other.compare_and_append(updates(("x", FAR + 1, 1)), at(FAR + 1), at(FAR + 2))
        return replace(*arguments, **options)

    monkeypatch.setattr(ahead, "replace", later)
    with pytest.raises(FilesChanged):
        rewind(ahead, NOW)
    ahead.expire()
    assert read(opened, "s", FAR + 1) == [*NEWEST, ("x", 1)]
    assert staged(other) == live(other)


def test_row_m_handles_of_before_cannot_append_what_they_staged(opened, ahead):
    other = opened.open_writer("s", ahead.schema)
    batch = other.batch(updates(("x", FAR + 1, 1)), at(FAR + 1), at(FAR + 2))
    rewind(ahead, NOW)
    with pytest.raises(ShardReplaced):
        other.compare_and_append_batch([batch], at(FAR + 1), at(FAR + 2))


def test_row_m_a_batch_of_several_times_that_come_to_one_is_no_longer_trusted(opened, writer):
    """Its rows may be there twice now, and readers take a row of the base to be there once."""
    writer.compare_and_append(updates(("a", 90, 1), ("a", 95, 1), ("b", 95, 1)), at(0), at(100), since=at(90))
    rewind(writer, NOW)
    assert [file.trusted for file in writer.state().files] == [False]
    assert read(opened, "s", NOW) == [("a", 2), ("b", 1)]


def test_row_m_a_dropped_shard_is_refused(ahead):
    ahead.mark_dropped(1)
    with pytest.raises(InvalidUsage, match="was dropped"):
        rewind(ahead, NOW)


def test_row_m_files_of_before_stay_for_readers_and_are_collected_like_any_other(ahead):
    before = live(ahead)
    rewind(ahead, NOW)
    collect_garbage(ahead)
    assert before <= staged(ahead) and not before & live(ahead)
