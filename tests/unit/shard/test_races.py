"""Threads that meet at random: writers, readers, compaction and a collector that waits for nothing.
CI runs three seeds of each, `make long LONG=races` a hundred.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from dbt.adapters.mvsink.shard import (
    InvalidUsage,
    ShardClient,
    StorageError,
    collect_garbage,
    compact_with_pyarrow,
    policy,
)
from dbt.adapters.mvsink.shard.errors import UnresolvedCommit
from tests.support.shards import SCHEMA, at, live, rows, staged, updates

SEEDS = range(*map(int, os.environ.get("MVSINK_SEEDS", "0 3").split()))


class Together:
    """Runs functions in threads of their own until the first one ends, and raises what they did."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.errors: list[BaseException] = []

    def run(self, leading: Callable[[], None], *others: Callable[[], None]) -> None:
        def guarded(step: Callable[[], None], *, once: bool) -> None:
            try:
                step()
                while not once and not self.over.is_set():
                    step()
            except BaseException as error:
                self.errors.append(error)
            finally:
                if once or self.errors:
                    self.over.set()

        threads = [threading.Thread(target=guarded, args=(leading,), kwargs={"once": True})]
        threads += [
            threading.Thread(target=guarded, args=(other,), kwargs={"once": False}) for other in others
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.errors:
            raise self.errors[0]


def pause(chance: random.Random) -> None:
    time.sleep(chance.random() * 0.01)


@pytest.mark.parametrize("seed", SEEDS)
def test_row_h_what_a_lease_keeps_is_read_whatever_others_do(tmp_path, monkeypatch, seed):
    """Each commit releases all history that it may, each compaction merges it, and a collector
    deletes what the log has removed a moment ago, unless a lease is there.
    """
    monkeypatch.setattr(policy, "MAX_RECENT_BATCHES", 4)
    uri, chance = str(tmp_path / "s"), random.Random(seed)
    writer = ShardClient().open_writer(uri, SCHEMA)
    writer.compare_and_append(updates(("a0", 0, 1)), at(0), at(1))
    collector = ShardClient().open_writer(uri, SCHEMA)
    read: list[int] = []

    def write() -> None:
        for t in range(1, 25):
            done = writer.compare_and_append(updates((f"a{t}", t, 1)), at(t), at(t + 1), since=at(t))
            if done.maintenance.compact is not None:
                compact_with_pyarrow(writer, done.maintenance.compact)
            pause(chance)

    def look() -> None:
        with ShardClient().open_reader(uri) as reader:
            as_of = max(0, (reader.upper.as_option() or 1) - 1 - chance.randint(0, 1))
            right = sorted((f"a{t}", 1) for t in range(as_of + 1))
            try:
                first = rows(reader.snapshot(as_of))
            except InvalidUsage:  # it was released before
                return
            for _ in range(3):
                assert rows(reader.snapshot(as_of)) == first == right
                pause(chance)
            read.append(as_of)

    def collect() -> None:
        collect_garbage(collector, removed_grace_ms=-1000)
        pause(chance)

    Together().run(write, look, look, collect)
    assert read and live(writer) <= staged(writer)
    writer.expire()
    collector.expire()


@pytest.mark.parametrize("seed", SEEDS)
def test_row_b_two_replicas_beside_a_collector_that_takes_all_that_is_staged(tmp_path, seed):
    """What was collected is staged again: every update is there once, and each live file."""
    uri, chance, collected = str(tmp_path / "s"), random.Random(seed), []
    handles: list[Any] = [ShardClient().open_writer(uri, SCHEMA) for _ in range(3)]

    def replica(handle: Any) -> Callable[[], None]:
        def write() -> None:
            for t in range(8):
                while True:
                    try:
                        handle.append(updates((f"a{t}", t, 1)), at(t), at(t + 1))
                        break
                    except UnresolvedCommit:
                        raise
                    except StorageError as error:
                        collected.append(str(error))
                pause(chance)

        return write

    def collect() -> None:
        collect_garbage(handles[2], staged_grace_ms=-1000)
        time.sleep(0.1)

    Together().run(replica(handles[0]), replica(handles[1]), collect)
    with ShardClient().open_reader(uri) as reader:
        assert rows(reader.snapshot(7)) == [(f"a{t}", 1) for t in range(8)]
    assert live(handles[0]) <= staged(handles[0])
    assert all("collected" in each or "gone" in each or "cannot" in each for each in collected), collected
    for handle in handles:
        handle.expire()
