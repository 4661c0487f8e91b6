"""Many processes on one shard in an object store with conditional puts."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from dbt.adapters.mvsink.shard import ShardClient
from tests.long.iceberg_tables import IcebergHistory
from tests.long.published_tables import History
from tests.support.moto_server import BUCKET, SECRET, options
from tests.support.processes import process
from tests.support.shards import SCHEMA, at, live, read, staged

PROCESSES, APPENDS = 4, 8
APPENDER = f"""
import json, sys
from dbt.adapters.mvsink.shard import ShardClient, UpperMismatch
from tests.support.shards import SCHEMA, updates
uri, name, options = sys.argv[1:]
with ShardClient(json.loads(options)).open_writer(uri, SCHEMA) as handle:
    for i in range({APPENDS}):
        while True:
            upper = handle.upper
            row = (f"{{name}}-{{i}}", upper.as_option(), 1)
            try:
                handle.compare_and_append(updates(row), upper, upper.step_forward())
                break
            except UpperMismatch:
                pass
"""


def test_four_processes_append_eight_times_each_and_nothing_is_lost(s3_port):
    store = options(s3_port)
    uri = f"s3://{BUCKET}/appends/s"
    with ThreadPoolExecutor(PROCESSES) as pool:
        runs = [pool.submit(process, APPENDER, uri, f"p{n}", json.dumps(store)) for n in range(PROCESSES)]
    for run in runs:
        assert run.result().returncode == 0, run.result().stderr[-2000:]
    client, total = ShardClient(store), PROCESSES * APPENDS
    handle = client.open_writer(uri, SCHEMA)
    appends = [commit for commit in handle.storage.history() if commit.kind == "append"]
    assert len({commit.token for commit in appends}) == total
    assert [(commit.lower, commit.upper) for commit in appends] == [
        (at(time), at(time + 1)) for time in range(total)
    ]
    rows = [(f"p{n}-{i}", 1) for n in range(PROCESSES) for i in range(APPENDS)]
    assert read(client, uri, total - 1) == sorted(rows)
    assert staged(handle) == live(handle)
    assert not [commit for commit in handle.storage.history() if SECRET in repr(commit)]


@pytest.mark.parametrize("kind, seeds", [(History, 2), (IcebergHistory, 1)])
def test_a_published_table_shows_the_shard(s3_port, kind, seeds):
    store = options(s3_port)
    for seed in range(seeds):
        history = kind(f"s3://{BUCKET}/published/{kind.__name__}/{seed}", Random(seed), store=store)
        assert not [each for each in history.run() if each.startswith("wrong")]
