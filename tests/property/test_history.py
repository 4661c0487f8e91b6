"""The versions of rows are what a replay of the updates in plain Python says, for random
histories; rows that existed at `since` are marked, and a key that is not unique is refused.
"""

from __future__ import annotations

import random
from datetime import timedelta
from itertools import pairwise

import pytest

from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.history.row_versions import RowVersions, history_query
from tests.support.duck_engine import DuckEngine
from tests.support.replay import SCHEMA, T0, histories, random_replay, time

HISTORIES = 100  # side by side in a shard
SHARDS = histories(300) // HISTORIES
NAMES = tuple(SCHEMA.names)


def versions_of(replay, since):
    """Each row, how many copies, and the times (ms) between which it has so many; all distinct."""
    times = [each for each in map(time, range(replay.last + 1)) if each > since]
    intervals = []
    for row in {row for row, _, _ in replay.updates}:
        counts = [(each, replay.at(each)[row]) for each in (since, *times)]
        steps = [counts[0], *(b for a, b in pairwise(counts) if a[1] != b[1])]
        ends = [each for each, _ in steps[1:]] + [None]
        intervals += [(row, n, start, end) for (start, n), end in zip(steps, ends) if n]
    return sorted(intervals, key=repr)


def milliseconds(value):
    if value is None:
        return None
    from datetime import datetime

    return (value.replace(tzinfo=None) - datetime(1970, 1, 1)) // timedelta(milliseconds=1)


@pytest.mark.parametrize("keyed", [True, False], ids=["by key", "whole rows"])
@pytest.mark.parametrize("seed", range(SHARDS))
def test_the_versions_are_what_a_replay_says(tmp_path, seed, keyed):
    chance = random.Random(seed)
    replay = random_replay(chance, HISTORIES if keyed else HISTORIES // 2, unique=keyed)
    since = time(chance.randrange(replay.last))
    state, layout = replay.shard(tmp_path, since, chance)
    query = history_query(RowVersions.of(layout, state), NAMES, ("h", "ID"), "m", keyless=not keyed)
    rows = DuckEngine().query(query, "history")
    intervals = []
    for row in rows:
        start, end, current, known, *copies = row[len(NAMES) :]
        start, end = milliseconds(start), milliseconds(end)
        assert (current, known) == (end is None, start > since)
        intervals.append((row[: len(NAMES)], copies[0] if copies else 1, start, end))
    assert sorted(intervals, key=repr) == versions_of(replay, since)


@pytest.mark.parametrize("where", ["true", "valid_from < '2030-01-01'", "not is_current", "id = 2"])
def test_a_key_that_is_not_unique_is_refused_whatever_is_read(tmp_path, where):
    chance = random.Random(7)
    replay = random_replay(chance, 20)
    state, layout = replay.shard(tmp_path, T0, chance)
    query = history_query(RowVersions.of(layout, state), NAMES, ("h", "id"), "mv_history(s.m)")
    message = r"mv_history\(s\.m\): the key is not unique: h = \d+, id = \w+ occurs more than once at 2027"
    with pytest.raises(EngineError, match=message):
        DuckEngine().query(f"select * from (\n{query}\n) where {where}", "history")
