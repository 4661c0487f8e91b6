"""What opening a shard costs after many runs: requests to an object store."""

from __future__ import annotations

import os
import shutil
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from dbt.adapters.mvsink.shard import ShardClient, checkpoint, compact_with_pyarrow, perform_maintenance
from dbt.adapters.mvsink.shard.delta import DeltaStorage
from dbt.adapters.mvsink.shard.upkeep import UPKEEP_EVERY
from tests.support.object_store import object_store
from tests.support.shards import SCHEMA, at, updates

HOUR = 3_600_000
KEPT = 60  # commits; Delta keeps those of 30 days
RUNS = 120
FIXED, PER_COMMIT = 30, 4  # requests; the second for each commit since the last checkpoint


def hourly_runs(handle, log, number):
    """Each changes a row, and what is due is done. Old commits are cleaned up, as after 30 days."""
    start = time.time_ns() // 1_000_000
    for run in range(number):
        now, upper = start + run * HOUR, handle.upper
        batch = updates((f"row {run % 50}", now, 1), (f"row {(run - 1) % 50}", now, -1))
        since = at(now if run == 0 else max(start, now - 24 * HOUR))
        result = handle.compare_and_append(batch, upper, at(now + 1), since=since)
        if result.maintenance.checkpoint:
            newest = handle.state().version
            for file in log.iterdir():
                version = file.name.split(".")[0]
                if version.isdigit() and int(version) < newest - KEPT:
                    os.utime(file, (1, 1))
        perform_maintenance(handle, result.maintenance, lambda plan: compact_with_pyarrow(handle, plan))
        yield run


def test_opening_takes_a_bounded_number_of_requests_also_after_many_runs(tmp_path):
    log = tmp_path / "s" / "_delta_log"
    ages = []
    with ShardClient().open_writer(str(tmp_path / "s"), SCHEMA) as handle, object_store(tmp_path) as store:
        for holder in ("one", "another", "a-third"):
            handle.hold(holder, 0)
        for run in hourly_runs(handle, log, RUNS):
            if run < RUNS - UPKEEP_EVERY or run % 5:
                continue
            store.requests()
            with ShardClient(store.options).open_reader(store.uri("s")) as reader:
                assert reader.state() == handle.state()
            age = handle.state().version - handle.storage.checkpointed()
            requests = store.requests()
            assert len(requests) <= FIXED + PER_COMMIT * age, requests
            ages.append(age)
    assert len(list(log.glob("*.json"))) < KEPT + 2 * UPKEEP_EVERY
    assert max(ages) <= UPKEEP_EVERY + 2


CHECKPOINTS = {
    "of another form": lambda file: pq.write_table(pa.table({"x": [1]}), file),
    "damaged": lambda file: file.write_text("not Parquet"),
    "of several files": lambda file: file.rename(file.with_suffix(".1.2.parquet")),
}


@pytest.mark.parametrize("change", CHECKPOINTS.values(), ids=CHECKPOINTS)
def test_where_a_checkpoint_cannot_be_read_here_the_library_reads_the_log(tmp_path, monkeypatch, change):
    with ShardClient().open_writer(str(tmp_path / "s"), SCHEMA) as handle:
        for time_ in range(5):
            handle.compare_and_append(updates(("a", time_, 1)), at(time_), at(time_ + 1))
        checkpoint(handle)
        handle.compare_and_append(updates(("a", 5, 1)), at(5), at(6))
        expected = handle.state()
    asked, whole = [], DeltaTable.transaction_version
    monkeypatch.setattr(
        DeltaTable, "transaction_version", lambda self, name: asked.append(name) or whole(self, name)
    )
    assert ShardClient().open_reader(str(tmp_path / "s")).state() == expected and asked == []
    storage = DeltaStorage(str(tmp_path / "s"))
    copied = storage.column
    [file] = (tmp_path / "s" / "_delta_log").glob("*.checkpoint.parquet")
    kept = tmp_path / file.name
    shutil.copy(file, kept)
    change(kept)
    monkeypatch.setattr(
        storage,
        "column",
        lambda path, name: copied(f"../{kept.name}" if "checkpoint" in path else path, name),
    )
    assert storage.load() == expected and asked


def test_the_newest_commits_are_read_once_and_those_of_a_log_that_was_replaced_again(tmp_path, monkeypatch):
    texts, read = [], DeltaStorage._commit_text
    monkeypatch.setattr(
        DeltaStorage, "_commit_text", lambda self, version: texts.append(version) or read(self, version)
    )

    def fill(name):
        handle = ShardClient().open_or_create(str(tmp_path / name), SCHEMA, name)
        for upper in range(1, 6):
            handle.compare_and_append(updates((name, upper - 1, 1)), at(upper - 1), at(upper))
        return handle

    with fill("s") as handle:
        storage = handle.storage
        for newest, versions in ((3, [3, 4, 5]), (3, []), (4, [2])):
            texts.clear()
            assert len(storage.history(newest)) == newest and texts == versions
        handle.compare_and_append(updates(("x", 5, 1)), at(5), at(6))
        texts.clear()
        assert [commit.version for commit in storage.history(4)] == [3, 4, 5, 6] and texts == [6]
    with fill("other"):
        pass
    shutil.rmtree(tmp_path / "s")
    shutil.copytree(tmp_path / "other", tmp_path / "s")
    assert storage.history(4) == DeltaStorage(str(tmp_path / "s")).history(4)
