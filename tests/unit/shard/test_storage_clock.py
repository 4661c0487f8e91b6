"""Row b of issue 41: what is deleted, and how long a lease lasts, is by the storage's clock."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from dbt.adapters.mvsink.shard import (
    CompactionPlan,
    ShardClient,
    collect_garbage,
    compact_with_pyarrow,
    delete_dropped,
)
from dbt.adapters.mvsink.shard.leases import leased_since
from tests.support.clocks import DAY, clock_ahead, storage_clock
from tests.support.shards import SCHEMA, at, staged, updates

CLOCKS = {"a day ahead": DAY, "a year ahead": 365 * DAY, "a year behind": -365 * DAY}


@pytest.fixture
def handle(tmp_path):
    """A writer on Delta, with a batch of each kind: live, removed, and only staged."""
    with ShardClient().open_writer(str(tmp_path / "s"), SCHEMA) as opened:
        for t in range(3):
            opened.compare_and_append(updates(("a", t, 1)), at(t), at(t + 1))
        assert compact_with_pyarrow(opened, CompactionPlan(opened.state().files, at(0)))
        opened.batch(updates(("b", 3, 1)), at(3), at(4)).to_transmittable()
        yield opened


@pytest.mark.parametrize("by", CLOCKS.values(), ids=CLOCKS)
def test_row_b_a_collector_whose_clock_is_ahead_deletes_nothing_early(handle, by):
    before = staged(handle)
    with clock_ahead(by):
        assert collect_garbage(handle) == [] and staged(handle) == before


def test_row_b_what_is_old_by_the_storages_clock_is_deleted_by_a_collector_whose_clock_is_behind(handle):
    for path in staged(handle):
        os.utime(Path(handle.uri) / path, times=(time.time() - 25 * 3600,) * 2)
    with clock_ahead(-365 * DAY):
        assert len(collect_garbage(handle)) == 1


@pytest.mark.parametrize("by", CLOCKS.values(), ids=CLOCKS)
def test_row_b_a_lease_lasts_whatever_the_clocks_of_reader_and_writer_say(handle, by):
    with ShardClient().open_reader(handle.uri) as reader:
        with clock_ahead(by):
            reader.snapshot(2)
        assert leased_since(handle.storage) == at(2)
        with clock_ahead(by):
            assert leased_since(handle.storage) == at(2)
        with storage_clock(handle.storage, handle.storage.clock() + 16 * 60_000):
            assert leased_since(handle.storage) == at(None)


@pytest.mark.parametrize("by", CLOCKS.values(), ids=CLOCKS)
def test_row_b_a_dropped_shard_keeps_its_files_whatever_the_clocks_say(handle, by):
    before = staged(handle)
    with clock_ahead(by):
        handle.mark_dropped()
    assert delete_dropped(handle) == []
    with clock_ahead(by):
        assert delete_dropped(handle) == []
    assert staged(handle) == before
    with storage_clock(handle.storage, handle.storage.clock() + 8 * DAY):
        assert set(delete_dropped(handle)) == before


@pytest.mark.parametrize("by", CLOCKS.values(), ids=CLOCKS)
def test_row_b_the_times_that_a_writer_puts_into_the_log_decide_nothing(tmp_path, by):
    """When a commit was made and when a shard was created, by the writer's clock, is for people."""
    with clock_ahead(by), ShardClient().open_writer(str(tmp_path / "s"), SCHEMA) as writer:
        for t in range(2):
            writer.compare_and_append(updates(("a", t, 1)), at(t), at(t + 1), since=at(t))
        assert compact_with_pyarrow(writer, CompactionPlan(writer.state().files, at(1)))
        removed = staged(writer)
        created, now = writer.state().created, writer.storage.clock()
    assert abs(created - now - by) < DAY / 2
    with ShardClient().open_writer(str(tmp_path / "s"), SCHEMA) as other:
        for later, left in ((6 * DAY, removed), (8 * DAY, {file.path for file in other.state().files})):
            with storage_clock(other.storage, now + later):
                collect_garbage(other)
            assert staged(other) == left
