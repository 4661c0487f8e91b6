"""Who wrote which row is what a replay of the updates in plain Python says, for random
histories; by the engine and from the files alike.
"""

from __future__ import annotations

import random

import pyarrow.parquet as pq
import pytest

from dbt.adapters.mvsink.history.row_authors import (
    Question,
    is_small,
    parse_terms,
    rows_from_engine,
    rows_from_files,
)
from dbt.adapters.mvsink.history.row_versions import RowVersions
from tests.support.duck_engine import DuckEngine
from tests.support.replay import PHYSICAL, SCHEMA, histories, random_replay, time

HISTORIES = 50  # side by side in a shard
SHARDS = histories(200) // HISTORIES
NAMES = SCHEMA.names
ALL = 10**6
WHERE = {"id = 2": lambda row: row[1] == 2, "v is null and ID = 1": lambda row: row[1] == 1 and row[2] is None, "`v` = 'a'": lambda row: row[2] == "a"}  # fmt: skip


def lifetimes(replay, since, until):
    """Each row with its copies at ``until`` and when the newest were written, and its removals."""
    result = {}
    for row in {row for row, _, _ in replay.updates}:
        copies, written, removals = replay.at(since)[row], since, []
        for each in (time(n) for n in range(replay.last + 1) if since < time(n) <= until):
            now = replay.at(each)[row]
            written = each if now > copies else written
            removals += [(copies - now, written, each)] if now < copies else []
            copies = now
        result[row] = copies, written, removals
    return result


@pytest.mark.parametrize("seed", range(SHARDS))
def test_blame_is_what_a_replay_says(tmp_path, seed):
    chance = random.Random(seed)
    replay = random_replay(chance, HISTORIES)
    first = chance.randrange(replay.last)
    since, until = time(first), time(chance.randrange(first, replay.last + 1))
    state, layout = replay.shard(tmp_path, since, chance)
    where, matches = chance.choice(sorted(WHERE.items(), key=str))
    question = Question(RowVersions(layout, since, until), where, ("h", "id"), ALL)
    terms = parse_terms(where, layout.columns)
    assert terms is not None and is_small(state, layout.columns)
    answer = rows_from_engine(DuckEngine().query, question)
    local = rows_from_files(
        state, lambda file: pq.read_table(tmp_path / file.path, schema=PHYSICAL), question, terms
    )
    assert local == answer

    lives = lifetimes(replay, since, until)
    rows = {tuple(each.row.values()): (each.copies, each.written) for each in answer.standing}
    assert rows == {row: life[:2] for row, life in lives.items() if matches(row) and life[0]}
    gone = {tuple(each.row.values()): (each.copies, each.written, each.removed) for each in answer.gone}
    assert gone == {
        row: life[2][-1] for row, life in lives.items() if matches(row) and not life[0] and life[2]
    }
    keys = {row[:2] for row in rows}
    before = sorted(
        ((tuple(e.row.values()), e.copies, e.written, e.removed) for e in answer.before), key=repr
    )
    wanted = [(row, *each) for row, life in lives.items() if row[:2] in keys for each in life[2]]
    assert before == sorted(wanted, key=repr)
    few = Question(question.versions, where, question.key, 2)
    fewer = rows_from_engine(DuckEngine().query, few)
    assert fewer.standing == answer.standing[:2] and fewer.gone == answer.gone[:2]
    assert fewer == rows_from_files(
        state, lambda file: pq.read_table(tmp_path / file.path, schema=PHYSICAL), few, terms
    )
