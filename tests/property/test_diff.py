"""A diff is what a replay of the updates in plain Python says, of one shard and of two, for
random histories; rows repeat, keys repeat and are NULL.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from dbt.adapters.mvsink.history.shard_diff import Columns, DiffSide, ShardComparison, compare
from tests.support.duck_engine import DuckEngine
from tests.support.replay import SCHEMA, histories, random_replay, time

HISTORIES = 100  # side by side in a shard
SHARDS = histories(500) // HISTORIES
NAMES = SCHEMA.names


def expected(a: Counter, b: Counter, key: tuple[str, ...]):
    """Rows only in A, rows only in B, pairs, repeated keys, values changed: from the contents."""
    indexes = [NAMES.index(name) for name in key]
    of = {row: tuple(row[i] for i in indexes) for row in {*a, *b}}
    counts = [Counter(), Counter()]
    for side, rows in zip(counts, (a, b)):
        for row, copies in rows.items():
            side[of[row]] += copies
    gone, new = a - b, b - a
    pairs = {}
    if key:
        for old in gone:
            if counts[0][of[old]] == 1 and counts[1][of[old]] == 1:
                pairs[of[old]] = (old, next(row for row in new if of[row] == of[old]))
    affected = {of[row] for row in {*gone, *new}} if key else set()
    return (
        Counter({row: n for row, n in gone.items() if of[row] not in pairs}),
        Counter({row: n for row, n in new.items() if of[row] not in pairs}),
        set(pairs.values()),
        sum(max(counts[0][each], counts[1][each]) > 1 for each in affected),
        {
            name: n
            for i, name in enumerate(NAMES)
            if name not in key and (n := sum(old[i] != now[i] for old, now in pairs.values()))
        },
    )


@pytest.mark.parametrize("seed", range(SHARDS))
def test_a_diff_is_what_a_replay_says(tmp_path, seed):
    chance, engine = random.Random(seed), DuckEngine()
    replays = [random_replay(chance, HISTORIES) for _ in range(2)]
    since = time(chance.randrange(4))
    shards = [replay.shard(tmp_path / str(n), since, chance) for n, replay in enumerate(replays)]
    times = [time(chance.randrange((since - time(0)) // 1000, 7)) for _ in range(2)]
    for other in (0, 1):
        sides = [DiffSide(shards[n][1], when) for n, when in zip((0, other), times)]
        contents = [replays[n].at(when) for n, when in zip((0, other), times)]
        for key in [("h", "id")] + [()] * (seed % 2 == other):
            columns = Columns.of(*(side.layout.columns for side in sides))
            result = compare(engine.query, ShardComparison(*sides, columns, key), 10**6)
            gone, new, pairs, repeated, values = expected(*contents, key)
            assert (result.rows_a, result.rows_b) == tuple(rows.total() for rows in contents)
            assert (result.only_in_a, result.only_in_b) == (gone.total(), new.total())
            assert (result.changed, result.repeated_keys, result.values) == (len(pairs), repeated, values)
            sample = [[each.copies, each.a, each.b] for each in result.sample]
            rows = [
                Counter({tuple((s[1] or s[2]).values()): s[0] for s in sample if s[side] is None})
                for side in (2, 1)
            ]
            assert rows == [gone, new]
            paired = [(tuple(a.values()), tuple(b.values())) for _, a, b in sample if a and b]
            assert set(paired) == pairs and len(paired) == len(pairs)
