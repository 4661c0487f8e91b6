"""Many processes on one shard, and processes that die at every step."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from dbt.adapters.mvsink.shard import Antichain, ShardClient
from tests.support.clocks import collect_at
from tests.support.processes import process
from tests.support.shards import SCHEMA, at, live, read, staged, updates

APPENDER = """
import sys
from dbt.adapters.mvsink.shard import ShardClient, UpperMismatch, checkpoint
from tests.support.processes import process
from tests.support.shards import SCHEMA, updates
uri, name = sys.argv[1:]
with ShardClient().open_writer(uri, SCHEMA) as handle:
    for i in range(20):
        while True:
            upper = handle.upper
            time = upper.as_option()
            try:
                done = handle.compare_and_append(updates((f"{name}-{i}", time, 1)), upper, upper.step_forward())
                break
            except UpperMismatch:
                pass
        if done.maintenance.checkpoint:
            checkpoint(handle)
"""

KILLED = """
import os, sys
from dbt.adapters.mvsink.shard import ShardClient
from dbt.adapters.mvsink.shard.delta import DeltaStorage
from tests.support.processes import process
from tests.support.shards import SCHEMA, at, updates
from tests.support.storage_faults import FaultyStorage
uri, point = sys.argv[1:]
die = lambda: os._exit(9)
plan = lambda call: None
if point == "commit sent":
    plan = lambda call: die() if call == "commit" else None
if point == "commit done":
    plan = lambda call: die if call == "commit" else None
handle = ShardClient(locate=lambda uri: FaultyStorage(DeltaStorage(uri), plan)).open_writer(uri, SCHEMA)
if point == "staged":
    handle.batch(updates(("b", 1, 1)), at(1), at(2)); die()
handle.compare_and_append(updates(("b", 1, 1)), at(1), at(2))
"""


def test_eight_processes_twenty_appends_each(tmp_path):
    uri = str(tmp_path / "s")
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda n: process(APPENDER, uri, f"p{n}"), range(8)))
    assert [p.returncode for p in done] == [0] * 8, [p.stderr[-500:] for p in done]
    handle = ShardClient().open_writer(uri, SCHEMA)
    appends = [c for c in handle.storage.history() if c.kind == "append"]
    assert len(appends) == 160 and len({c.token for c in appends}) == 160
    assert [(c.lower, c.upper) for c in appends] == [(at(t), at(t + 1)) for t in range(160)]
    assert read(ShardClient(), uri, 159) == sorted((f"p{n}-{i}", 1) for n in range(8) for i in range(20))


@pytest.mark.parametrize(
    ("point", "happened"), [("staged", False), ("commit sent", False), ("commit done", True)]
)
def test_a_process_killed_at(tmp_path, point, happened):
    uri = str(tmp_path / "s")
    handle = ShardClient().open_writer(uri, SCHEMA)
    handle.compare_and_append(updates(("a", 0, 1)), at(0), at(1))
    assert process(KILLED, uri, point).returncode == 9
    assert handle.fetch_recent_upper() == (at(2) if happened else at(1))
    handle.append(updates(("b", 1, 1)), at(1), at(2))  # the next run does the same work
    assert read(ShardClient(), uri, 1) == [("a", 1), ("b", 1)]
    collect_at(handle, 4 * 10**12, staged_grace_ms=0)
    assert staged(handle) == live(handle)
    assert handle.upper == Antichain.of(2)


def test_a_lost_reply_is_no_second_append(tmp_path):
    from dbt.adapters.mvsink.shard.delta import DeltaStorage
    from tests.support.storage_faults import FaultyStorage

    uri = str(tmp_path / "s")
    faults = iter(["lost"])
    plan = lambda call: next(faults, None) if call == "commit" else None  # noqa: E731
    handle = ShardClient(locate=lambda u: FaultyStorage(DeltaStorage(u), plan)).open_writer(uri, SCHEMA)
    handle.compare_and_append(updates(("a", 0, 1)), at(0), at(1))
    assert read(ShardClient(), uri, 0) == [("a", 1)]
    assert handle.state().version == 1
