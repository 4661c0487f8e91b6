"""The files of a dropped shard: deleted after the grace period, out of the log first, and never of
a shard that lives again.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from dbt.adapters.mvsink.shard import ShardClient
from tests.support.clocks import delete_dropped_at
from tests.support.shards import SCHEMA, at, updates

DAY = 86_400_000
NOW = int(time.time() * 1000)


@pytest.fixture
def handle(tmp_path):
    with ShardClient().open_writer(str(tmp_path / "s"), SCHEMA) as opened:
        for t in range(3):
            opened.compare_and_append(updates(("a", t, 1)), at(t), at(t + 1))
        yield opened


def files(handle):
    return sorted(Path(handle.uri).glob("table/*/*.parquet"))


def test_files_go_and_nothing_can_be_read(handle):
    handle.mark_dropped(NOW - 8 * DAY)
    before = files(handle)
    assert len(delete_dropped_at(handle, NOW)) == 3 == len(before) and files(handle) == []
    state = handle.state()
    assert (state.files, state.readable, state.dropped) == ((), False, NOW - 8 * DAY)
    assert delete_dropped_at(handle, NOW) == []
    handle.replace([], SCHEMA, at(9), at(8), creation=8)
    assert (handle.state().dropped, handle.state().generation) == (None, 1)


KEPT = {
    "not dropped": lambda handle: None,
    "dropped a moment ago": lambda handle: handle.mark_dropped(NOW),
    "dropped within the grace period": lambda handle: handle.mark_dropped(NOW - 6 * DAY),
    "lives again": lambda handle: (handle.mark_dropped(NOW - 8 * DAY), again(handle)),
    "a holder needs history": lambda handle: (handle.mark_dropped(NOW - 8 * DAY), handle.hold("task", 1)),
    "a reader has a lease": lambda handle: (handle.mark_dropped(NOW - 8 * DAY), lease(handle)),
}


def again(handle):
    handle.replace([], SCHEMA, at(9), at(8))
    handle.compare_and_append(updates(("b", 9, 1)), at(9), at(10))


def lease(handle):
    handle.storage.write_text("leases/reader", json.dumps({"since": 0, "expires": 0}))
    os.utime(Path(handle.uri) / "leases/reader", times=(NOW / 1000,) * 2)


@pytest.mark.parametrize("prepare", KEPT.values(), ids=KEPT)
def test_files_stay(handle, prepare):
    prepare(handle)
    before, live = files(handle), handle.state().files
    delete_dropped_at(handle, NOW)
    assert (files(handle), handle.state().files) == (before, live)


def test_row_b_a_reader_that_begins_while_its_files_are_removed_from_the_log_keeps_them(handle, monkeypatch):
    """The second look at the leases: this one was taken after the first."""
    handle.mark_dropped(NOW - 8 * DAY)
    before, discard = files(handle), handle.discard
    monkeypatch.setattr(handle, "discard", lambda by: (discard(by), lease(handle)))
    assert delete_dropped_at(handle, NOW) == [] and files(handle) == before
    assert handle.state().files == ()  # the log has removed them, and they go once the lease has ended
