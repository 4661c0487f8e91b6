"""Row h of issue 41: a lease names what its reader reads, and what it keeps is kept whenever it is
taken. Row i: updates at `since` are refused, whether compaction has moved others there or not.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.mvsink.shard import InvalidUsage, ShardClient, compact_with_pyarrow, policy
from dbt.adapters.mvsink.shard.errors import NotPermitted
from dbt.adapters.mvsink.shard.leases import LEASE_MS, leased_since
from tests.support.clocks import DAY, clock_ahead, storage_clock
from tests.support.shards import SCHEMA, at, rows, updates

U = "s"


def appended(writer: Any, until: int, *, since: int | None = None) -> Any:
    """One update at each time up to ``until``; the last append moves `since`."""
    for t in range(until):
        moved = None if since is None or t < until - 1 else at(since)
        result = writer.compare_and_append(updates((f"a{t}", t, 1)), at(t), at(t + 1), since=moved)
    return result


def test_row_h_a_lease_keeps_what_is_read_and_no_more(opened, writer):
    appended(writer, 6)
    with opened.open_reader(U) as reader:
        reader.snapshot(4)
        assert writer.downgrade_since(at(5)) == at(4)
        reader.updates(5, 6)
        assert leased_since(writer.storage) == at(4)  # until it is renewed
        with pytest.raises(InvalidUsage):
            reader.snapshot(3)
        assert leased_since(writer.storage) == at(4)  # none is taken on history that is gone


def test_row_h_two_readers_that_alternate_do_not_keep_since(opened, writer):
    appended(writer, 6)
    first, second = opened.open_reader(U), opened.open_reader(U)
    for t in (1, 3, 5):
        first.snapshot(t)
        second.snapshot(t)
        (first, second)[t == 3].expire()
        assert writer.downgrade_since(at(5)) == at(t)
        (first, second)[t != 3].expire()


def test_row_h_history_is_kept_by_a_lease_that_is_taken_while_since_moves(opened, writer, monkeypatch):
    """`since` may pass it in the one commit that was on its way. What the reader needs stays: the
    compaction that is due after this commit keeps it apart, and the reader reads it.
    """
    monkeypatch.setattr(policy, "MAX_RECENT_BATCHES", 4)
    appended(writer, 4)
    reader = opened.open_reader(U)
    during: list[Any] = []

    def interrupted(self, since):
        during.append(rows(reader.snapshot(1)))  # after the look at the leases, before the commit
        return since

    monkeypatch.setattr(type(writer), "_without_leases", interrupted)
    result = writer.compare_and_append(updates(("b", 4, 1)), at(4), at(5), since=at(4))
    assert writer.state().since == at(4) and leased_since(writer.storage) == at(1)
    due = result.maintenance.compact
    assert due is not None and due.since == at(1)
    assert compact_with_pyarrow(writer, due)
    assert rows(reader.snapshot(1)) == during[0] == [("a0", 1), ("a1", 1)]
    assert reader.updates(2, 5).num_rows == 3
    with opened.open_reader(U) as other, pytest.raises(InvalidUsage, match=r"\[Antichain\(4\)"):
        other.snapshot(1)


def test_row_h_a_lease_that_ended_keeps_nothing(opened, writer):
    appended(writer, 6)
    reader = opened.open_reader(U)
    reader.snapshot(2)
    first = reader.lease.path
    later = writer.storage.clock() + LEASE_MS + 60_000
    with clock_ahead(LEASE_MS + 60_000), storage_clock(writer.storage, later):
        assert writer.downgrade_since(at(4)) == at(4)
        with pytest.raises(InvalidUsage):
            reader.snapshot(2)
        reader.snapshot(4)
        assert reader.lease.path != first  # a file of that name may be in the middle of being deleted


def test_row_h_a_lease_dated_ahead_ends_too(tmp_path):
    """The storage's clock was set back by a year since the lease was written."""
    with ShardClient().open_writer(str(tmp_path / U), SCHEMA) as writer:
        appended(writer, 3)
        writer.storage.write_text("leases/r", json.dumps({"since": 1, "expires": 0}))
        ahead = writer.storage.clock() / 1000 + 365 * DAY / 1000
        os.utime(tmp_path / U / "leases/r", times=(ahead, ahead))
        assert leased_since(writer.storage) == at(1)
        with storage_clock(writer.storage, writer.storage.clock() + LEASE_MS + 60_000):
            assert leased_since(writer.storage) == at(None)


def test_row_k_a_reader_without_permission_to_write_reads_without_a_lease_and_says_so(
    tmp_path, monkeypatch, caplog
):
    with ShardClient().open_writer(str(tmp_path / U), SCHEMA) as writer:
        appended(writer, 3)

    def refused(self, path, text):
        raise NotPermitted(f"cannot write {path} of shard {self.uri}: [Errno 13] Permission denied")

    reader = ShardClient().open_reader(str(tmp_path / U))
    monkeypatch.setattr(type(reader.storage), "write_text", refused)
    with caplog.at_level(logging.WARNING, "mvsink.shard"), reader:
        assert rows(reader.snapshot(1)) == [("a0", 1), ("a1", 1)]
        assert reader.updates(1, 3).num_rows == 2 and next(reader.listen(0))[0].num_rows == 2
    [message] = [record.getMessage() for record in caplog.records]
    assert f"reading shard {tmp_path / U} without a lease" in message and "Permission denied" in message
    assert not list((tmp_path / U).glob("leases/*"))


REFUSALS = {
    "a disk": OSError(13, "Permission denied"),
    "a mounted disk": OSError(30, "Read-only file system"),
    "a store": OSError("Generic S3 error: Client error with status 403 Forbidden: <Code>AccessDenied</Code>"),
}


@pytest.mark.parametrize("error", REFUSALS.values(), ids=REFUSALS)
def test_row_k_a_refusal_is_known_by_number_or_words(tmp_path, monkeypatch, error):
    storage = ShardClient().open_writer(str(tmp_path / U), SCHEMA).storage

    def refuse(path):
        raise error

    monkeypatch.setattr(storage, "_output", refuse)
    with pytest.raises(NotPermitted, match="cannot write leases/r of shard"):
        storage.write_text("leases/r", "")


# row i


@pytest.mark.parametrize("compacted", [False, True], ids=["before compaction", "after it"])
def test_row_i_updates_at_since_are_refused_whether_or_not_others_were_moved_there(opened, writer, compacted):
    appended(writer, 5, since=2)
    if compacted:
        plan = policy.CompactionPlan(writer.state().files, at(2))
        assert compact_with_pyarrow(writer, plan)
    with opened.open_reader(U) as reader:
        with pytest.raises(InvalidUsage, match="snapshot as of 2, and the updates from 3 on"):
            reader.updates(2, 5)
        assert [row["x"] for row in reader.updates(3, 5).sort_by("_mv_time").to_pylist()] == ["a3", "a4"]


def test_row_i_updates_from_the_beginning_are_exact_as_long_as_since_has_not_moved(opened, writer):
    appended(writer, 3)
    with opened.open_reader(U) as reader:
        assert reader.updates(0, 3).num_rows == 3


def test_row_h_what_a_killed_writer_left_beside_a_small_file_is_no_lease_and_is_collected(tmp_path):
    """`write_text` renames a file that is whole; killed in between, it leaves it."""
    from dbt.adapters.mvsink.shard import collect_garbage

    with ShardClient().open_writer(str(tmp_path / U), SCHEMA) as writer:
        appended(writer, 3)
        names = [f"leases/.r.{'0' * 32}", f"_mvsink/.removed.json.{'0' * 32}"]
        for name in names:
            path = tmp_path / U / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps({"since": 0, "expires": 2**60}))
        assert leased_since(writer.storage) == at(None)
        collect_garbage(writer)
        assert all((tmp_path / U / name).exists() for name in names)  # it may be being written
        for name in names:
            os.utime(tmp_path / U / name, times=(1, 1))
        collect_garbage(writer)
        assert not any(Path(tmp_path / U / name).exists() for name in names)
