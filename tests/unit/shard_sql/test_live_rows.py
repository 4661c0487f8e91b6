"""About how many rows a shard holds, by the statistics of its files."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.shard import DataFile, Directory
from dbt.adapters.mvsink.shard_sql import Layout


def directory(rows, least, most):
    return Directory("b", (DataFile("batches/b/1.parquet", 1, rows=rows, min_diff=least, max_diff=most),))


ADDED, MORE = directory(10_000, 1, 1), directory(50, 1, 2)
REPLACED, DELETED = directory(9_000, -1, 1), directory(10, -1, -1)

SHARDS = {
    "a first load": (ADDED, (), 10_000),
    "most were replaced": (ADDED, (REPLACED,), 10_000),
    "all were replaced, or twice as many are there": (ADDED, (REPLACED, REPLACED), 28_000),
    "some were added, some deleted": (ADDED, (MORE, DELETED), 10_050),
    "no batch only adds": (None, (REPLACED, DELETED), 9_010),
    "nothing": (None, (), 0),
}


@pytest.mark.parametrize(("base", "recent", "wanted"), SHARDS.values(), ids=SHARDS)
def test_batches_that_also_delete_leave_as_many(base, recent, wanted):
    assert Layout("/root", (), 7, 10, base, recent, (), (), ()).live_rows == wanted
