"""Row n of issue 41: no one reads, or writes, behind the newest version while a clean-up of the log
is half done.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dbt.adapters.mvsink.shard import InvalidUsage, ShardClient, UpperMismatch, checkpoint
from dbt.adapters.mvsink.shard.delta import DeltaStorage
from dbt.adapters.mvsink.shard.errors import StorageError, UnresolvedCommit
from dbt.adapters.mvsink.shard.feed import Ahead, Feed
from dbt.adapters.mvsink.shard.files import FileStore
from tests.support.shards import SCHEMA, at, live, read, staged, updates


@pytest.fixture
def handle(tmp_path):
    """A writer on Delta at version 3."""
    with ShardClient().open_writer(str(tmp_path / "s"), SCHEMA) as opened:
        appended(opened, 3)
        yield opened


def appended(handle, runs):
    for _ in range(runs):
        upper = handle.fetch_recent_upper().as_option()
        handle.compare_and_append(updates(("a", upper, 1)), at(upper), at(upper + 1))


def commit_file(handle, version):
    return Path(handle.uri) / "_delta_log" / f"{version:020d}.json"


def half_cleaned(handle, *kept):
    """Others append, write a checkpoint, and remove the commits before it, all but ``kept``."""
    with ShardClient().open_writer(handle.uri, SCHEMA) as other:
        appended(other, 5)
        checkpoint(other)
        newest = other.state().version
        for version in set(range(newest)) - set(kept):
            commit_file(handle, version).unlink()
        return other.fetch_recent_upper()


@pytest.mark.parametrize("kept", range(8))
def test_row_n_the_recent_upper_is_never_stale_while_a_clean_up_is_half_done(handle, kept):
    upper = half_cleaned(handle, kept)
    assert handle.fetch_recent_upper() == upper == at(8)
    with ShardClient().open_reader(handle.uri) as reader:
        assert reader.state() == handle.state()


@pytest.mark.parametrize("kept", range(8))
def test_row_n_no_append_goes_behind_the_newest_version_while_a_clean_up_is_half_done(handle, kept):
    batch = handle.batch(updates(("b", 3, 1)), at(3), at(4))
    half_cleaned(handle, kept)
    with pytest.raises(UpperMismatch):
        handle.compare_and_append_batch([batch], at(3), at(4))
    batch.delete()
    assert live(handle) <= staged(handle) and read(ShardClient(), handle.uri, 7) == [("a", 8)]


@pytest.mark.parametrize("kept", [(3,), (0, 1, 2, 3, 5, 6, 7)], ids=["the one before", "all others"])
def test_row_n_an_append_whose_version_is_cleaned_up_between_its_check_and_its_commit(
    handle, monkeypatch, kept
):
    """Its commit file can be written, and no reader would see it: it is not reported as done."""
    batch = handle.batch(updates(("b", 3, 1)), at(3), at(4))
    commit_files = DeltaStorage._commit_files

    def late(table, change):
        monkeypatch.setattr(DeltaStorage, "_commit_files", staticmethod(commit_files))
        half_cleaned(handle, *kept)
        commit_files(table, change)

    monkeypatch.setattr(DeltaStorage, "_commit_files", staticmethod(late))
    with pytest.raises(UnresolvedCommit, match="whether version 4 of shard .* is unknown"):
        handle.compare_and_append_batch([batch], at(3), at(4))
    assert handle.fetch_recent_upper() == at(8) and live(handle) <= staged(handle)
    assert read(ShardClient(), handle.uri, 7) == [("a", 8)]


def test_row_n_a_checkpoint_that_others_write_after_an_append_does_not_put_it_in_doubt(handle, monkeypatch):
    commit_files = DeltaStorage._commit_files

    def then_checkpointed(table, change):
        monkeypatch.setattr(DeltaStorage, "_commit_files", staticmethod(commit_files))
        commit_files(table, change)
        checkpoint(ShardClient().open_writer(handle.uri, SCHEMA))

    monkeypatch.setattr(DeltaStorage, "_commit_files", staticmethod(then_checkpointed))
    handle.compare_and_append(updates(("b", 3, 1)), at(3), at(4))
    assert read(ShardClient(), handle.uri, 3) == [("a", 3), ("b", 1)]


def test_row_n_an_outage_of_the_look_at_the_checkpoint_is_no_failure_of_the_append(handle, monkeypatch):
    stat = FileStore.stat
    calls = []

    def failing(self, path):
        if path.endswith("_last_checkpoint"):
            calls.append(path)
            if len(calls) == 2:  # the first is that of the load
                raise OSError("no route")
        return stat(self, path)

    monkeypatch.setattr(FileStore, "stat", failing)
    handle.compare_and_append(updates(("b", 3, 1)), at(3), at(4))
    monkeypatch.undo()
    assert len(calls) >= 2 and read(ShardClient(), handle.uri, 3) == [("a", 3), ("b", 1)]


# positions


def restored(handle, version):
    """The log of a backup: versions after that never were."""
    for path in (Path(handle.uri) / "_delta_log").glob("*.json"):
        if int(path.stem) > version:
            path.unlink()


def test_row_n_a_position_ahead_of_the_shard_is_refused_with_both_numbers(handle):
    restored(handle, 2)
    with ShardClient().open_reader(handle.uri) as reader:
        with pytest.raises(Ahead, match=r"position Antichain\(3\) .* upper is Antichain\(2\).* backup.*Read"):
            Feed(reader).state(at(3), delivered=True)
        assert Feed(reader).state(at(3)).upper == at(2)  # a beginning in the future is waited for
        assert Feed(reader).state(at(2), delivered=True).upper == at(2)


def test_row_n_a_listener_notices_that_the_shard_went_back(handle):
    with ShardClient().open_reader(handle.uri) as reader:
        listening = reader.listen(0)
        next(listening)
        restored(handle, 2)
        with pytest.raises((InvalidUsage, StorageError), match="was that and is"):
            next(listening)


def test_row_n_a_hint_that_is_gone_or_says_nothing_stops_no_reader(handle):
    hint = Path(handle.uri) / "_delta_log" / "_last_checkpoint"
    checkpoint(handle)
    for text in (None, "{", json.dumps({"version": 2})):
        hint.unlink() if text is None else hint.write_text(text)
        appended(handle, 1)
        assert DeltaStorage(handle.uri).load() == handle.state()
