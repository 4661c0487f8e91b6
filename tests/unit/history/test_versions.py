"""A history of rows: what is refused before anything runs, and when its beginning is known."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from dbt.adapters.mvsink.history.row_versions import ColumnTaken, RowVersions, UnknownKey, history_query
from dbt.adapters.mvsink.shard import Antichain
from dbt.adapters.mvsink.shard_sql import NotRefreshed
from tests.support.duck_engine import DuckEngine
from tests.support.replay import Replay, time

NAMES = ("h", "id", "v")
REPLAY = Replay([((1, None, "a"), time(0), 1), ((1, None, "a"), time(2), -1), ((1, None, "b"), time(2), 1)], 2)  # fmt: skip


@pytest.fixture
def shard(tmp_path):
    return REPLAY.shard(tmp_path, time(0), random.Random(1))


BAD_KEYS = {"unknown": ("no",), "a text": "id", "empty": (), "one of two": ("id", "no")}


@pytest.mark.parametrize("key", BAD_KEYS.values(), ids=BAD_KEYS)
def test_a_key_that_is_not_one(shard, key):
    with pytest.raises(UnknownKey, match="Expected: a list of columns without maps, of h, id, v; or none"):
        history_query(RowVersions.of(shard[1], shard[0]), NAMES, key, "m")


TAKEN = {"in another case": ("Valid_To", False, True), "copies": ("copies", True, True), "copies, with a key": ("copies", False, False)}  # fmt: skip


@pytest.mark.parametrize(("column", "keyless", "refused"), TAKEN.values(), ids=TAKEN)
def test_a_column_of_the_same_name(shard, column, keyless, refused):
    def query():
        return history_query(
            RowVersions.of(shard[1], shard[0]), (*NAMES, column), ("id",), "m", keyless=keyless
        )

    if not refused:
        assert "`copies`" in query()
        return
    with pytest.raises(ColumnTaken, match=f"its column `{column}` has the name of one"):
        query()


BEGAN = {"when the shard did": (time(0), True), "later": (time(0) - 1, False), "unknown": (None, False)}


@pytest.mark.parametrize(("creation", "known"), BEGAN.values(), ids=BEGAN)
def test_whether_the_first_versions_are_no_older(shard, creation, known):
    versions = RowVersions.of(shard[1], replace(shard[0], creation=creation))
    rows = DuckEngine().query(history_query(versions, NAMES, ("h", "id"), "m"), "history")
    assert sorted((row[2], row[5], row[6]) for row in rows) == [("a", False, known), ("b", True, True)]


def test_a_shard_without_contents_has_none(shard):
    with pytest.raises(NotRefreshed):
        RowVersions.of(shard[1], replace(shard[0], since=Antichain.of(5), upper=Antichain.of(5)))
