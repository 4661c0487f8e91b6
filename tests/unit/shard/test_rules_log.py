"""docs/design/shard.md, *ReadHandle*, *Maintenance*, *Generations and dropping*; *On disk*,
where a shard's state lives in Delta.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import fields
from pathlib import Path

import pytest
from deltalake import DeltaTable

from dbt.adapters.mvsink.physical import EMPTY_FRONTIER
from dbt.adapters.mvsink.shard import (
    CommitNote,
    CompactionPlan,
    InvalidUsage,
    ReadPoints,
    ShardClient,
    ShardReplaced,
    StorageError,
    checkpoint,
    compact_with_pyarrow,
)
from dbt.adapters.mvsink.shard.delta import DeltaStorage
from dbt.adapters.mvsink.shard.errors import TransientError
from dbt.adapters.mvsink.shard.leases import leased_since
from tests.support.clocks import clock_ahead, collect_at, storage_clock
from tests.support.shards import SCHEMA, at, live, read, staged, updates

U = "s"
DAY = 86_400_000


def now():
    return int(time.time() * 1000)


@pytest.fixture
def handle(tmp_path):
    """A writer on Delta."""
    with ShardClient().open_writer(str(tmp_path / "s"), SCHEMA, "test") as opened:
        yield opened


def log_lines(handle, version):
    path = Path(handle.uri) / "_delta_log" / f"{version:020d}.json"
    return [json.loads(line) for line in path.read_text().splitlines()]


# reading


def test_files_gives_the_live_files_and_refuses_an_unreadable_time(opened, writer):
    writer.compare_and_append(updates(("a", 1, 1)), at(0), at(3))
    with opened.open_reader(U) as reader:
        assert {f.path for f in reader.files()} == {f.path for f in reader.files(as_of=2)} == live(writer)
        with pytest.raises(InvalidUsage, match="as of 3: the readable times are"):
            reader.files(as_of=3)


OUTSIDE = {"before since": (1, 4), "past the upper": (2, 7), "upside down": (5, 3), "no time": (-1, 4)}


@pytest.mark.parametrize(("lower", "upper"), OUTSIDE.values(), ids=OUTSIDE)
def test_updates_outside_since_and_upper_are_invalid(opened, writer, lower, upper):
    writer.compare_and_append(updates(("a", 3, 1)), at(0), at(6))
    writer.downgrade_since(at(2))
    with opened.open_reader(U) as reader, pytest.raises(InvalidUsage):
        reader.updates(lower, upper)


LEASES = {"living": (14, 3), "dead": (16, EMPTY_FRONTIER)}
YEAR = 365 * DAY


@pytest.mark.parametrize(("minutes", "leased"), LEASES.values(), ids=LEASES)
@pytest.mark.parametrize("expires", [-YEAR, YEAR], ids=["a clock a year behind", "a clock a year ahead"])
def test_row_h_a_lease_holds_since_for_15_minutes_whatever_it_says(writer, expires, minutes, leased):
    writer.compare_and_append(updates(), at(0), at(9))
    began = writer.storage.clock()
    writer.storage.write_text("leases/r", json.dumps({"since": 3, "expires": began + expires}))
    with storage_clock(writer.storage, began + minutes * 60_000):
        assert leased_since(writer.storage) == at(leased)
        assert writer.downgrade_since(at(7)) == at(min(leased, 7))
    assert bool(writer.storage.list_files("leases")) is (leased == 3)


def test_a_working_reader_renews_its_lease(opened, writer):
    writer.compare_and_append(updates(("a", 0, 1)), at(0), at(3))
    reader = opened.open_reader(U)
    reader.snapshot(2)
    path = reader.lease.path
    first = json.loads(writer.storage.read_text(path))["expires"]
    with clock_ahead(10 * 60_000), storage_clock(writer.storage, now() + 10 * 60_000):
        reader.snapshot(2)
    assert json.loads(writer.storage.read_text(path))["expires"] >= first + 10 * 60_000 - 1000


# generation


def test_only_a_new_generation_lets_the_upper_fall_and_every_old_handle_says_so(opened, writer):
    writer.compare_and_append(updates(("a", 5, 1)), at(0), at(9))
    old_writer, old_reader = opened.open_writer(U, SCHEMA), opened.open_reader(U)
    batch = writer.batch(updates(("b", 2, 1)), at(2), at(3))
    version = writer.state().version
    writer.replace([batch], SCHEMA, at(3), at(2))
    state = writer.state()
    assert (state.version, state.generation, state.upper, state.since) == (version + 1, 1, at(3), at(2))
    assert read(opened, U, 2) == [("b", 1)] and len(state.files) == 1
    for use in (
        old_writer.fetch_recent_upper,
        lambda: old_writer.compare_and_append(updates(), at(9), at(10)),
        lambda: old_writer.append(updates(), at(9), at(10)),
        lambda: old_writer.downgrade_since(at(1)),
        lambda: old_reader.snapshot(2),
    ):
        with pytest.raises(ShardReplaced, match="generation 0, the shard of 1"):
            use()
    assert writer.state() == state


# maintenance


def test_maintenance_is_returned_as_a_value(handle):
    rows = [[(f"{n}", 0, 1) for n in range(100)], *([("a", t, 1)] for t in range(1, 20))]
    due = [handle.compare_and_append(updates(*rows[t]), at(t), at(t + 1)).maintenance for t in range(20)]
    assert [m.collect_garbage and m.checkpoint for m in due] == [version == 20 for version in range(1, 21)]
    assert due[15].compact is None and due[16].compact is not None  # 16 batches beside the largest
    assert len(live(handle)) == 20  # nothing was done unasked


def test_the_log_is_due_until_its_checkpoint_is_written_whatever_other_commits_there_are(handle):
    def appended(t):
        # two commits a round: their versions pass over every other number
        handle.set_properties({"seen": str(t)})
        done = handle.compare_and_append(updates(), at(t), at(t + 1))
        assert done.maintenance.checkpoint == done.maintenance.collect_garbage
        return done.maintenance.checkpoint

    assert [appended(t) for t in range(12)] == [False] * 9 + [True] * 3
    checkpoint(handle)
    assert handle.storage.checkpointed() == handle.state().version
    assert [appended(t) for t in range(12, 23)] == [False] * 9 + [True] * 2


def test_an_append_succeeds_even_if_what_is_due_cannot_be_determined(handle, monkeypatch):
    def out_of_reach(self):
        raise StorageError("out of reach")

    monkeypatch.setattr(DeltaStorage, "checkpointed", out_of_reach)
    done = handle.compare_and_append(updates(("a", 0, 1)), at(0), at(1))
    assert not done.maintenance.checkpoint and handle.state().upper == at(1)


def test_a_maintenance_commit_moves_no_upper_and_its_removals_count_for_other_writers(handle):
    for t in range(3):
        handle.compare_and_append(updates(("a", t, 1)), at(t), at(t + 1))
    assert compact_with_pyarrow(handle, CompactionPlan(handle.state().files, at(0)))
    actions = log_lines(handle, handle.state().version)
    moved = [action["txn"]["appId"] for action in actions if "txn" in action]
    changed = [
        action[kind]["dataChange"] for action in actions for kind in ("add", "remove") if kind in action
    ]
    assert moved == [] and changed and all(changed)  # `test_beside_other_tools` says why
    assert handle.state().upper == at(3)


def test_staged_directories_are_collected_24_hours_after_their_newest_file(handle):
    young, old = (handle.batch(updates((x, 0, 1)), at(0), at(1)) for x in "ab")
    for batch in (young, old):
        batch.to_transmittable()
    for batch, hours in ((young, 23), (old, 25)):
        for file in batch.files:
            os.utime(Path(handle.uri) / file.path, times=(time.time() - 3600 * hours,) * 2)
    collect_at(handle, now())
    assert staged(handle) == {file.path for file in young.files}


DROPPED = {
    "within the grace period": (6 * DAY, False, True),
    "after it": (8 * DAY, False, False),
    "after it, but a reader holds a lease": (8 * DAY, True, True),
}


@pytest.mark.parametrize(("later", "leased", "kept"), DROPPED.values(), ids=DROPPED)
def test_files_dropped_by_compaction_live_on(handle, later, leased, kept):
    for t in range(3):
        handle.compare_and_append(updates(("a", t, 1)), at(t), at(t + 1))
    handle.downgrade_since(at(2))
    before = live(handle)
    assert compact_with_pyarrow(handle, CompactionPlan(handle.state().files, at(2)))
    if leased:
        handle.storage.write_text("leases/r", json.dumps({"since": 2, "expires": 0}))
        os.utime(Path(handle.uri) / "leases/r", times=((now() + later) / 1000,) * 2)
    collect_at(handle, now() + later)
    assert (before <= staged(handle)) is kept and live(handle) <= staged(handle)
    assert read(ShardClient(), handle.uri, 2) == [("a", 3)]


def test_compaction_keeps_the_times_of_updates_newer_than_since(opened, writer):
    for t in range(6):
        writer.compare_and_append(updates(("a", t, 1), (f"b{t}", t, 1)), at(t), at(t + 1))
    writer.downgrade_since(at(2))
    assert compact_with_pyarrow(writer, CompactionPlan(writer.state().files, at(2)))
    times = sorted((f.min_time, f.max_time) for f in writer.state().files)
    assert times == [(2, 2), (3, 5)]
    assert [dict(read(opened, U, t))["a"] for t in range(2, 6)] == [3, 4, 5, 6]


# the log


def rich(handle):
    """A shard with something of everything."""
    note = CommitNote(
        rows_inserted=3, rows_deleted=1, drift=2, computed_through=77, purpose="why", invocation_id="inv"
    )
    batch = handle.batch(updates(("a", 5, 1)), at(5), at(7))
    handle.compare_and_append(updates(), at(0), at(5))
    handle.compare_and_append_batch([batch], at(5), at(7), since=at(3), inputs={"orders": 41}, note=note)
    handle.hold("task", 4)
    handle.hold("gone", 5)
    handle.release_hold("gone")
    handle.set_properties({"owner": "me"})
    return handle.state()


def test_every_field_of_a_note_comes_back(handle):
    texts = ("purpose", "invocation_id", "mode", "way", "why", "reason", "definition")
    values = {
        "read": ReadPoints({"a": 1}, {"b": 2}, {"c": "d"}),
        "audits": ("x", "y"),
        "seconds": 0.5,
        "share": 0.25,
    }
    values |= {name: f"some {name}" for name in texts}
    names = [each.name for each in fields(CommitNote)]
    note = CommitNote(**{name: values.get(name, number) for number, name in enumerate(names, 1)})
    handle.set_properties({"owner": "me"}, note)
    assert handle.history(1)[0].note == note


STORED = {"upper": 7, "since": 3, "hold:task": 4, "hold:gone": EMPTY_FRONTIER, "input:orders": 41}


@pytest.mark.parametrize(("transaction", "value"), STORED.items())
def test_where_state_lives_in_delta(handle, transaction, value):
    rich(handle)
    assert DeltaTable(handle.uri).transaction_version(f"mvsink.{transaction}") == value


def test_shard_id_format_version_and_salt_are_table_configuration(handle):
    state = rich(handle)
    configuration = DeltaTable(handle.uri).metadata().configuration
    assert configuration["mvsink.shard_id"] == str(handle.shard_id)
    assert (configuration["mvsink.format_version"], configuration["mvsink.salt"]) == ("2", str(state.salt))


def test_progress_is_in_the_commit_of_its_effects(handle):
    rich(handle)
    actions = log_lines(handle, 2)
    assert {action["txn"]["appId"] for action in actions if "txn" in action} == {
        "mvsink.upper",
        "mvsink.since",
        "mvsink.input:orders",
    }
    assert sum("add" in action for action in actions) == 1


def test_the_empty_antichain_is_stored_as_the_largest_number(handle):
    handle.compare_and_append(updates(), at(0), at(None))
    assert DeltaTable(handle.uri).transaction_version("mvsink.upper") == EMPTY_FRONTIER
    assert ShardClient().open_reader(handle.uri).upper.is_empty()


def test_who_when_and_why_are_commit_metadata(handle):
    rich(handle)
    [info] = [action["commitInfo"] for action in log_lines(handle, 2) if "commitInfo" in action]
    metadata = json.loads(info["mvsink"])
    expected = {"kind": "append", "lower": 5, "upper": 7, "computed_through": 77, "rows_inserted": 3, "rows_deleted": 1,
                "drift": 2, "writer_id": str(handle.writer_id), "purpose": "why", "invocation_id": "inv"}  # fmt: skip
    assert {key: metadata[key] for key in expected} == expected and metadata["host"]
    assert [commit.kind for commit in handle.history()][:3] == ["create", "advance", "append"]


def test_state_survives_a_checkpoint_and_the_clean_up_of_the_log(handle):
    before = rich(handle)
    checkpoint(handle)
    # no clean-up removes the newest
    for path in sorted((Path(handle.uri) / "_delta_log").glob("*.json"))[:-1]:
        path.unlink()
    with ShardClient().open_reader(handle.uri) as reader:
        assert reader.state() == before
    assert read(ShardClient(), handle.uri, 6) == [("a", 1)]
    with ShardClient().open_writer(handle.uri, SCHEMA) as again:
        again.compare_and_append(updates(("b", 7, 1)), at(7), at(8))
        collect_at(again, now() + 100 * DAY)
        assert live(again) <= staged(again)


def test_physical_columns_are_the_models_then_ours_all_nullable(handle):
    fields = DeltaTable(handle.uri).schema().fields
    assert [(f.name, f.type.type, f.nullable) for f in fields] == [
        ("x", "string", True), ("_mv_time", "long", True), ("_mv_diff", "long", True), ("_mv_error", "string", True),
        ("_mv_hash", "long", True),
    ]  # fmt: skip


def test_a_reader_that_follows_the_log_knows_what_one_that_just_came_knows(handle):
    follower, storage = DeltaStorage(handle.uri), handle.storage
    for step in range(60):
        for _ in range({20: 15, 40: 25}.get(step, 1)):  # so many commits are followed, and too many
            upper = handle.state().upper.as_option()
            handle.compare_and_append(
                updates(("a", upper, 1)), at(upper), at(upper + 1), inputs={"orders": upper}
            )
            if step % 7 == 3:
                handle.hold(f"task-{step}", upper)
            if step % 11 == 5:
                handle.downgrade_since(at(upper - 1))
        if step == 30:
            handle.replace([handle.batch(updates(("b", 1, 1)), at(1), at(9))], SCHEMA, at(9), at(2))
        if step == 50:  # the commits between are cleaned up
            checkpoint(handle)
            for version in range(handle.state().version):
                (Path(handle.uri) / "_delta_log" / f"{version:020d}.json").unlink(missing_ok=True)
        newcomer = DeltaStorage(handle.uri)
        assert follower.load() == newcomer.load() == storage.load(), step
        assert (
            follower.progress("orders") == newcomer.progress("orders") and follower.progress("others") is None
        )


def test_commits_that_cannot_be_followed_are_looked_up(handle, monkeypatch):
    follower = DeltaStorage(handle.uri)
    for t, text in enumerate((None, StorageError("out of reach"))):
        assert follower.load() == handle.state()
        handle.compare_and_append(updates(("a", t, 1)), at(t), at(t + 1))

        def read_text(path, text=text):
            if isinstance(text, Exception):
                raise text
            return text

        monkeypatch.setattr(follower, "read_text", read_text)
        assert follower.load() == handle.state() and follower.load().upper == at(t + 1)


def test_a_log_out_of_reach_while_it_is_looked_through_is_transient(handle, monkeypatch):
    class Broken(DeltaTable):
        def transaction_version(self, name):
            raise OSError("no route")

    def no_checkpoint(self):
        return None

    monkeypatch.setattr("dbt.adapters.mvsink.shard.delta.DeltaTable", Broken)
    # as of one of several files: then the library looks through the log
    monkeypatch.setattr(DeltaStorage, "_checkpoint_transactions", no_checkpoint)
    storage = DeltaStorage(handle.uri)
    for use in (storage.load, lambda: storage.progress("orders")):
        with pytest.raises(TransientError, match=f"cannot read the log of shard {handle.uri}: no route"):
            use()


@pytest.mark.parametrize("hint", ["", "{", "[]", '{"version": null}'])
def test_a_hint_at_the_newest_checkpoint_that_says_nothing_makes_one_due(handle, hint):
    handle.storage.write_text("_delta_log/_last_checkpoint", hint)
    assert handle.storage.checkpointed() == 0


def test_a_remote_log_is_read_many_commits_at_a_time(handle, monkeypatch):
    for n in range(40):
        handle.compare_and_append(updates(("a", n, 1)), at(n), at(n + 1), note=CommitNote(rows_inserted=n))
    expected = handle.history()
    text, reading, most = DeltaStorage._commit_text, [0], [0]

    def slow(self, version):
        reading[0] += 1
        most[0] = max(most[0], reading[0])
        time.sleep(0.01)
        reading[0] -= 1
        return text(self, version)

    monkeypatch.setattr(DeltaStorage, "_commit_text", slow)
    assert handle.history(5) == expected[-5:] and most == [1]
    monkeypatch.setattr(DeltaStorage, "is_local", False)
    assert handle.history() == expected and most[0] > 4
