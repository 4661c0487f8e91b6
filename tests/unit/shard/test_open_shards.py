"""Clients that share what they have read of logs: how often one is read, how much is kept, and that
threads get along.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink.shard import OpenShards, ShardClient, delta
from tests.support.shards import SCHEMA, at, updates

COMMITS = 20


@pytest.fixture
def opened(monkeypatch):
    """How often each log was read from its beginning."""
    opened = []

    class Counted(delta.DeltaTable):
        def __init__(self, table_uri, *arguments, **options):
            opened.append(table_uri.rpartition("/")[2])
            super().__init__(table_uri, *arguments, **options)

    monkeypatch.setattr(delta, "DeltaTable", Counted)
    return opened


def test_one_reads_for_all(tmp_path, opened):
    uri = str(tmp_path / "s")
    with ShardClient().open_writer(uri, SCHEMA) as handle:
        handle.compare_and_append(updates(("a", 0, 1)), at(0), at(1))
        opened.clear()
        shared = OpenShards()
        for moment in range(1, 4):
            for _ in range(3):
                with ShardClient(opened=shared).open_reader(uri) as reader:
                    assert reader.state().upper == at(moment)
            handle.compare_and_append(updates(("a", moment, 1)), at(moment), at(moment + 1))
    assert opened == ["s"]


def test_the_last_used_are_kept():
    shared, made = OpenShards(shards=2), []

    def locate(uri):
        made.append(uri)
        return SimpleNamespace(known_files=1)

    for uri in "abacab":
        shared.at(uri, locate)
    assert made == ["a", "b", "c", "b"]


def test_shards_of_many_files_make_room():
    shared, made = OpenShards(files=10), []

    def locate(uri):
        made.append(uri)
        return SimpleNamespace(known_files=8)

    for uri in "aabbab":
        shared.at(uri, locate)
    assert made == ["a", "b"]
    shared.at("c", locate)
    shared.at("a", locate)
    assert made == ["a", "b", "c", "a"]


def test_writers_and_readers_in_threads(tmp_path):
    """Each writer appends its turn; readers see every upper that was there when they looked."""
    uri, shared = str(tmp_path / "s"), OpenShards()
    ShardClient(opened=shared).open_writer(uri, SCHEMA).expire()

    def write(first):
        with ShardClient(opened=shared).open_writer(uri, SCHEMA) as handle:
            for moment in range(first, COMMITS, 2):
                if moment:
                    handle.wait_for_upper_past(at(moment - 1))
                handle.compare_and_append(updates(("a", moment, 1)), at(moment), at(moment + 1))
                assert not handle.fetch_recent_upper().less_than(at(moment + 1))

    def read(_):
        uppers = []
        with ShardClient(opened=shared).open_reader(uri) as reader:
            while not uppers or uppers[-1] != at(COMMITS):
                state = reader.state()
                uppers.append(state.upper)
                assert sum(file.rows for file in state.files) == state.upper.as_option()
        return uppers

    with ThreadPoolExecutor(4) as pool:
        writers, readers = [pool.submit(write, first) for first in (0, 1)], list(pool.map(read, range(2)))
        for writer in writers:
            writer.result()
    for uppers in readers:
        assert all(a.less_equal(b) for a, b in pairwise(uppers))
