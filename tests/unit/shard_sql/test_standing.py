"""About how many rows a shard holds, by the statistics of its files."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.shard import DataFile
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.shard_sql.layout import Directory


def directory(rows, least, most):
    return Directory("b", (DataFile("batches/b/1.parquet", 1, rows=rows, min_diff=least, max_diff=most),))


ADDED, MORE = directory(10_000, 1, 1), directory(50, 1, 2)
REPLACED, DELETED = directory(19_000, -1, 1), directory(10, -1, -1)
LOOSE = DataFile("part-1.parquet", 1, rows=7)

SHARDS = {
    "a first load": (ADDED, (), (), 10_000),
    "a day of runs that replaced nearly all": (ADDED, (REPLACED,) * 24, (), 10_000),
    "some were added, some deleted": (ADDED, (MORE, DELETED), (), 10_050),
    "no batch only adds": (None, (REPLACED, DELETED), (), 19_010),
    "files of other tools": (ADDED, (REPLACED,), (LOOSE,), 10_007),
    "nothing": (None, (), (), 0),
}


@pytest.mark.parametrize(("base", "recent", "loose", "wanted"), SHARDS.values(), ids=SHARDS)
def test_batches_that_also_delete_leave_as_many(base, recent, loose, wanted):
    assert Layout("/root", (), 7, 10, base, recent, (), loose, ((),) * len(loose)).standing == wanted
