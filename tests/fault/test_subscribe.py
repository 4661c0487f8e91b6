"""`mvsink subscribe --follow` killed again and again, while the shard is written and compacted."""

from __future__ import annotations

import multiprocessing
import os
import random
import select
import time

import pytest

from dbt.adapters.mvsink.shard import ShardClient, compact_with_pyarrow, compaction_due
from tests.support.consumer import Consumer, run_command
from tests.support.shards import at, updates
from tests.unit.cli.shop import NOW, Shop

RESTARTS = int(os.environ.get("MVSINK_RESTARTS", "12"))
MINUTE = 60_000
LIMIT = 60  # seconds until the first line


class Runs:
    """Runs of one model: a few rows change in each, sometimes thousands, sometimes none."""

    def __init__(self, handle, seed):
        self.handle, self.random, self.number = handle, random.Random(seed), 0
        self.rows = []

    def next(self, keep):
        """One run; history from ``keep`` (ms) on stays readable."""
        chance, time_ = self.random, NOW + self.number * MINUTE
        removed = [self.rows.pop(chance.randrange(len(self.rows))) for _ in range(min(2, len(self.rows)))]
        added = [f"row {chance.randrange(10**6)}" for _ in range(chance.choice([0, 1, 3, 2_000]))]
        self.rows += added
        changes = [(row, time_, 1) for row in added] + [(row, time_, -1) for row in removed]
        since = at(NOW if keep is None else max(NOW, min(keep, time_) - 1))
        self.handle.compare_and_append(
            updates(*changes), self.handle.upper, at(time_ + 1), since=since, creation=NOW
        )
        self.number += 1
        plan = compaction_due(self.handle.state())
        if plan and chance.random() < 0.5:
            compact_with_pyarrow(self.handle, plan)


@pytest.fixture(scope="module")
def processes():
    """Processes that begin with everything imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["tests.support.consumer", "dbt.adapters.mvsink.cli.main", "pandas", "pyarrow.dataset"]
    )
    return context


def killed(processes, shop, arguments, feed, chance):
    """What the command wrote until it was killed: soon after its first line, or before.

    With ``feed`` it writes to the end of that file.
    """
    inward, outward = processes.Pipe(duplex=False)
    process = processes.Process(
        target=run_command,
        args=(str(shop.root), ["subscribe", "orders", *arguments], outward, str(feed or "")),
    )
    before = feed.stat().st_size if feed and feed.exists() else 0
    process.start()
    outward.close()
    text, started = b"", chance.random() < 0.1
    deadline = time.monotonic() + (0.2 if started else LIMIT)
    while time.monotonic() < deadline:
        if select.select([inward], [], [], 0.01)[0]:
            text += os.read(inward.fileno(), 100 + chance.randrange(5_000))
        if not started and (text or (feed and feed.exists() and feed.stat().st_size > before)):
            started, deadline = True, time.monotonic() + chance.choice([0.0, 0.02, 0.3])
    process.kill()
    process.join()
    while not feed and (chunk := os.read(inward.fileno(), 2**16)):
        text += chunk
    return text.decode()


def begin(consumer):
    """Where a consumer continues that keeps its position itself."""
    return ["--from", str(consumer.progress)] if consumer.progress >= 0 else ["--snapshot"]


@pytest.mark.parametrize("kept", ["by the consumer", "in a file"])
def test_the_copy_of_a_consumer_equals_the_shard_however_often_it_is_killed(
    tmp_path, monkeypatch, processes, kept
):
    monkeypatch.chdir(tmp_path)
    shop, chance = Shop(tmp_path), random.Random(kept)
    handle = shop.shard("s.orders", "orders")
    runs, consumer = Runs(handle, kept), Consumer()
    feed, position = tmp_path / "feed.ndjson", tmp_path / "position.json"
    runs.next(None)
    for _ in range(RESTARTS // 2):
        for _ in range(chance.randrange(4)):
            runs.next(consumer.progress if consumer.progress >= 0 else None)
        if kept == "in a file":
            killed(processes, shop, ["--snapshot", "--follow", "--position", str(position)], feed, chance)
            consumer = Consumer()
            consumer.read(feed.read_text() if feed.exists() else "")
        else:
            consumer.read(killed(processes, shop, [*begin(consumer), "--follow"], None, chance))
    last = ["--snapshot", "--position", str(position)] if kept == "in a file" else begin(consumer)
    consumer.read(shop.run("subscribe", "orders", *last).stdout)
    with ShardClient().open_reader(handle.uri) as reader:
        contents = reader.snapshot(handle.upper.stored() - 1).to_pylist()
    assert consumer.rows() == {(row["x"],): row["_mv_diff"] for row in contents}
    assert consumer.progress == handle.upper.stored() and runs.number > 1
