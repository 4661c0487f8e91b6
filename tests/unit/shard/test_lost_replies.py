"""Rows a and f of issue 41: a commit whose reply was lost is never taken for another writer's, and
a commit that was not written whole is never skipped.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dbt.adapters.mvsink.shard import (
    CompactionPlan,
    ShardClient,
    UpperMismatch,
    checkpoint,
    collect_garbage,
    compact_with_pyarrow,
)
from dbt.adapters.mvsink.shard import damage as damage_module
from dbt.adapters.mvsink.shard.delta import DeltaStorage
from dbt.adapters.mvsink.shard.errors import LogDamaged, UnknownOutcome, UnresolvedCommit, VersionTaken
from tests.support.shards import SCHEMA, at, live, read, staged, updates
from tests.support.storage_faults import FaultyStorage


def log_of(uri):
    return Path(uri) / "_delta_log"


def cleaned(uri, handle):
    """A checkpoint, and no commit before the newest: as after clean-up."""
    checkpoint(handle)
    for path in sorted(log_of(uri).glob("*.json"))[:-1]:
        path.unlink()


def others(uri, *, compacted):
    """Another writer: appends, compacts or not, and cleans the log up."""
    with ShardClient().open_writer(uri, SCHEMA) as other:
        for _ in range(3):
            upper = other.fetch_recent_upper().as_option()
            other.compare_and_append(updates(("other", upper, 1)), at(upper), at(upper + 1))
        if compacted:
            assert compact_with_pyarrow(other, CompactionPlan(other.state().files, at(0)))
            other.compare_and_append(updates(), at(upper + 1), at(upper + 2))
        cleaned(uri, other)


def lost(uri, then, reply=UnknownOutcome):
    """A writer whose first commit takes effect, and its reply is lost; ``then`` comes before it
    asks the log.
    """
    plans = iter(["commit"])

    def plan(call):
        if call != "commit" or next(plans, None) is None:
            return None

        def act():
            then()
            raise reply("the reply was lost")

        return act

    storage = FaultyStorage(DeltaStorage(uri), plan)
    return ShardClient(locate=lambda _: storage).open_writer(uri, SCHEMA)


REPLIES = {"no reply": UnknownOutcome, "the version is taken, by itself": VersionTaken}


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_row_a_a_commit_past_which_the_log_was_cleaned_up_is_found_by_its_live_files(tmp_path, reply):
    uri = str(tmp_path / "s")
    with lost(uri, lambda: others(uri, compacted=False), reply) as writer:
        result = writer.compare_and_append(updates(("mine", 0, 1)), at(0), at(1))
        assert result.version == 1
        assert live(writer) <= staged(writer)
    assert read(ShardClient(), uri, 3) == [("mine", 1), ("other", 3)]


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_row_a_if_its_files_are_not_live_any_more_the_outcome_is_unknown_and_nothing_is_deleted(
    tmp_path, reply
):
    uri = str(tmp_path / "s")
    writer = lost(uri, lambda: others(uri, compacted=True), reply)
    with pytest.raises(UnresolvedCommit, match=r"whether version 1 of shard .* newest version is 6"):
        writer.compare_and_append(updates(("mine", 0, 1)), at(0), at(1))
    left = staged(writer)
    writer.expire()
    assert staged(writer) == left > live(ShardClient().open_writer(uri, SCHEMA))
    assert read(ShardClient(), uri, 3) == [("mine", 1), ("other", 3)]


def test_row_a_a_commit_without_files_past_which_the_log_was_cleaned_up_is_unresolved(tmp_path):
    uri = str(tmp_path / "s")
    writer = lost(uri, lambda: others(uri, compacted=False))
    with pytest.raises(UnresolvedCommit, match="whether version 1"):
        writer.compare_and_append(updates(), at(0), at(1))


def test_row_a_another_writers_version_is_still_another_writers(tmp_path):
    uri = str(tmp_path / "s")
    writer, other = (ShardClient().open_writer(uri, SCHEMA) for _ in range(2))
    batch = writer.batch(updates(("mine", 0, 1)), at(0), at(1))
    other.compare_and_append(updates(("other", 0, 1)), at(0), at(1))
    with pytest.raises(UpperMismatch):
        writer.compare_and_append_batch([batch], at(0), at(1))
    batch.delete()


def test_row_a_a_commit_that_is_damaged_is_nobodys(tmp_path):
    uri = str(tmp_path / "s")
    with ShardClient().open_writer(uri, SCHEMA) as handle:
        handle.compare_and_append(updates(("a", 0, 1)), at(0), at(1))
        assert handle.storage.token_at(1)
        for text in ("", "garbage", "[]\n"):
            (log_of(uri) / f"{1:020d}.json").write_text(text)
            assert handle.storage.token_at(1) is None


# row f


@pytest.fixture(autouse=True)
def no_wait(monkeypatch):
    """Damage is checked twice; these tests do not wait between the two checks."""
    monkeypatch.setattr(damage_module, "MOMENT", 0)


def grown(uri, runs=4):
    handle = ShardClient().open_writer(uri, SCHEMA)
    for t in range(runs):
        handle.compare_and_append(updates(("a", t, 1)), at(t), at(t + 1), inputs={"orders": t})
    return handle


def shorten(path, lines):
    """Leave only so many lines: each is a whole action."""
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:lines]))


CUTS = {"0 bytes": 0, "only the first line": 1, "without its last line": -1}


@pytest.mark.parametrize("lines", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("version", [1, 3, 4])
def test_row_f_a_commit_that_was_not_written_whole_is_a_damaged_log(tmp_path, version, lines):
    uri = str(tmp_path / "s")
    handle = grown(uri)
    before = staged(handle)
    path = log_of(uri) / f"{version:020d}.json"
    shorten(path, lines)
    for use in (
        lambda: ShardClient().open_reader(uri),
        lambda: ShardClient().open_writer(uri, SCHEMA),
        lambda: collect_garbage(ShardClient().open_writer(uri, SCHEMA)),
        lambda: DeltaStorage(uri).history(),
    ):
        with pytest.raises(LogDamaged, match=f"commit _delta_log/{path.name} is .*Restore"):
            use()
    assert staged(handle) == before


@pytest.mark.parametrize("lines", CUTS.values(), ids=CUTS)
def test_row_f_a_reader_that_follows_the_log_notices_it_too(tmp_path, lines):
    uri = str(tmp_path / "s")
    handle, follower = grown(uri), DeltaStorage(uri)
    assert follower.load() == handle.state()
    handle.compare_and_append(updates(("a", 4, 1)), at(4), at(5))
    shorten(log_of(uri) / f"{5:020d}.json", lines)
    with pytest.raises(LogDamaged, match="05.json is"):
        follower.load()


def test_row_f_an_empty_commit_is_noticed_where_the_library_reads_the_log(tmp_path, monkeypatch):
    """Behind a checkpoint of several files, or over 100 commits."""
    uri = str(tmp_path / "s")
    grown(uri)
    (log_of(uri) / f"{2:020d}.json").write_text("")
    monkeypatch.setattr(DeltaStorage, "_checkpoint_transactions", lambda self: None)
    with pytest.raises(LogDamaged, match="02.json is empty"):
        ShardClient().open_reader(uri)


def test_row_f_an_empty_commit_that_a_checkpoint_replaces_stops_only_the_history(tmp_path):
    uri = str(tmp_path / "s")
    handle = grown(uri)
    checkpoint(handle)
    (log_of(uri) / f"{2:020d}.json").write_text("")
    with ShardClient().open_writer(uri, SCHEMA) as again:
        again.compare_and_append(updates(("b", 4, 1)), at(4), at(5))
        assert live(again) <= staged(again)
        with pytest.raises(LogDamaged, match="02.json is empty"):
            again.history()
    assert read(ShardClient(), uri, 4) == [("a", 4), ("b", 1)]


def test_row_f_every_kind_of_commit_says_how_many_actions_it_has(tmp_path):
    """Also those that rewrite, replace, or set properties: none is taken for damaged."""
    uri = str(tmp_path / "s")
    handle = grown(uri)
    assert compact_with_pyarrow(handle, CompactionPlan(handle.state().files, at(0)))
    handle.hold("task", 2)
    handle.set_properties({"owner": "me"})
    handle.downgrade_since(at(1))
    handle.replace([handle.batch(updates(("b", 5, 1)), at(5), at(6))], SCHEMA, at(6), at(5))
    handle.mark_dropped()
    assert DeltaStorage(uri).load() == handle.state()
    assert [commit.version for commit in DeltaStorage(uri).history()] == list(
        range(handle.state().version + 1)
    )
