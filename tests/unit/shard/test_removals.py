"""The ledger of removed files: collection needs no commit twice, and none that was cleaned away."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable

from dbt.adapters.mvsink.shard import CompactionPlan, ShardClient, checkpoint, compact_with_pyarrow
from dbt.adapters.mvsink.shard.delta import DeltaStorage
from dbt.adapters.mvsink.shard.removals import PLACE, Removals
from tests.support.clocks import collect_at
from tests.support.shards import SCHEMA, at, live, read, staged, updates

DAY = 86_400_000


def now():
    return int(time.time() * 1000)


@pytest.fixture
def handle(tmp_path):
    """A writer on Delta."""
    with ShardClient().open_writer(str(tmp_path / "s"), SCHEMA) as opened:
        yield opened


def grow(handle, runs=3):
    """Appends, and a compaction of them all; the paths that it removed."""
    start = handle.upper.as_option()
    for t in range(start, start + runs):
        handle.compare_and_append(updates(("a", t, 1)), at(t), at(t + 1))
    state = handle.state()
    assert compact_with_pyarrow(handle, CompactionPlan(state.files, at(0)))
    return {file.path for file in state.files}


def clean(handle):
    """Delete all commits, as clean-up does, after a checkpoint."""
    checkpoint(handle)
    for path in (Path(handle.uri) / "_delta_log").glob("*.json"):
        path.unlink()


@pytest.fixture
def asked(monkeypatch):
    """How often each file of a log was read."""
    counts: Counter[str] = Counter()
    inner = DeltaStorage.read_text
    monkeypatch.setattr(
        DeltaStorage, "read_text", lambda self, path: counts.update([path]) or inner(self, path)
    )
    return counts


def test_collection_reads_each_commit_once(handle, asked):
    grow(handle, 10)
    collect_at(handle, now())
    asked.clear()
    newest = handle.state().version
    grow(handle, 2)
    collect_at(handle, now())
    commits = {
        path: n for path, n in asked.items() if path.endswith(".json") and path.startswith("_delta_log")
    }
    assert len(commits) <= 2 * 3 and all(int(path[-25:-5]) > newest for path in commits)


def test_removed_files_are_collected_after_the_grace_period_though_the_log_was_cleaned(handle):
    removed = grow(handle)
    collect_at(handle, now())
    clean(handle)
    again = ShardClient().open_writer(handle.uri, SCHEMA)
    collect_at(again, now() + 6 * DAY)
    assert removed <= staged(again)
    collect_at(again, now() + 8 * DAY)
    assert staged(again) == live(again) and read(ShardClient(), handle.uri, 2) == [("a", 3)]
    assert again.storage.removals().times == {}


LOST = {
    "gone": None,
    "garbage": "{",
    "another shard's": Removals(2, {}).text("x"),
    "ahead": "",
    "leading outside": "",
}


@pytest.mark.parametrize("lost", LOST)
def test_a_ledger_that_is_lost_is_made_again_from_the_log(handle, lost):
    removed = grow(handle)
    collect_at(handle, now())
    shard_id, place = str(handle.shard_id), Path(handle.uri) / PLACE
    texts = {
        **LOST,
        "ahead": Removals(99, {}).text(shard_id),
        "leading outside": Removals(4, {"../x": 1}).text(shard_id),
    }
    place.unlink() if texts[lost] is None else place.write_text(texts[lost])
    assert handle.storage.removals().times.keys() == removed


def test_without_ledger_and_log_a_removed_file_lives_on_for_the_grace_period_from_when_it_was_noticed(handle):
    removed = grow(handle)
    clean(handle)
    for path in staged(handle):
        os.utime(Path(handle.uri) / path, times=(1, 1))
    later = now() + 30 * DAY
    collect_at(handle, later)
    assert removed <= staged(handle)
    collect_at(handle, later + 6 * DAY)
    assert removed <= staged(handle)
    collect_at(handle, later + 8 * DAY)
    assert staged(handle) == live(handle) and live(handle)


def test_a_file_that_was_put_back_is_not_collected(handle):
    grow(handle)
    collect_at(handle, now())
    DeltaTable(handle.uri).restore(2)  # its files are live again
    collect_at(handle, now() + 30 * DAY, staged_grace_ms=0)
    assert live(handle) <= staged(handle)
    assert read(ShardClient(), handle.uri, 1) == [("a", 2)]


@pytest.mark.parametrize("claimed", [None, 1, 9 * 10**15], ids=["none", "long ago", "far ahead"])
def test_row_b_a_removal_counts_from_when_the_storage_wrote_its_commit(handle, claimed):
    """Whatever time the commit claims: it is by the clock of its writer."""
    handle.compare_and_append(updates(("a", 0, 1)), at(0), at(1))
    [file] = handle.state().files
    path = Path(handle.uri) / "_delta_log" / f"{handle.state().version + 1:020d}.json"
    removal = {"path": file.path, "dataChange": True, "deletionTimestamp": claimed}
    lines = [{"commitInfo": {"timestamp": claimed}}, {"remove": removal}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    os.utime(path, times=(5 * 86_400, 5 * 86_400))
    assert handle.storage.removals().times == {file.path: 5 * DAY}


def test_the_log_is_cleaned_after_its_retention_and_the_shard_is_as_it_was(handle):
    handle.hold("task", 1)
    removed = grow(handle, 30)
    collect_at(handle, now())
    for path in (Path(handle.uri) / "_delta_log").iterdir():
        os.utime(path, times=(time.time() - 40 * 86_400,) * 2)
    before = handle.state()
    checkpoint(handle)
    grow(handle, 2)
    checkpoint(handle)
    kept = list((Path(handle.uri) / "_delta_log").glob("*.json"))
    assert len(kept) < 10
    after = ShardClient().open_writer(handle.uri, SCHEMA).state()
    assert (after.upper, after.since, dict(after.holds)) == (at(32), before.since, {"task": 1})
    assert removed <= handle.storage.removals().times.keys()


def test_the_log_is_not_cleaned_while_an_earlier_generation_is_to_stay_readable(handle):
    grow(handle, 5)
    handle.replace([], SCHEMA, at(9), at(8), keeps=60 * DAY)
    for path in (Path(handle.uri) / "_delta_log").iterdir():
        os.utime(path, times=(time.time() - 40 * 86_400,) * 2)
    checkpoint(handle)
    [kept] = handle.kept_generations(handle.state())
    assert (kept.last.generation, kept.last.upper, kept.end) == (0, at(5), 8)
    handle.replace([], SCHEMA, at(11), at(10))
    assert handle.kept_generations(handle.state()) == ()


def test_empty_directories_are_collected_once_no_writer_can_be_about_to_write_there(handle):
    batches = Path(handle.uri) / "table"
    young, old = batches / "young", batches / "old" / "_temporary" / "0"
    for directory in (young, old):
        directory.mkdir(parents=True)
    for directory in (old, *list(old.parents)[:2]):
        os.utime(directory, times=(time.time() - 25 * 3600,) * 2)
    grow(handle)
    collect_at(handle, now())
    assert young.is_dir() and not old.exists()
    collect_at(handle, now() + 8 * DAY)
    collect_at(handle, now() + 16 * DAY)
    assert {path.name for path in batches.iterdir()} == {file.split("/")[1] for file in live(handle)}
