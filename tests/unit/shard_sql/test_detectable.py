"""For which shards sums by bucket cannot overflow: a question of how many copies of rows their
statistics allow.
"""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.shard import DataFile, Directory
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.shard_sql.layout import MAX_DETECTABLE


def file(rows, least, most):
    return DataFile("batches/b/1.parquet", 1, rows=rows, min_diff=least, max_diff=most)


FILES = {
    "one row each": ([file(10**9, 1, 1)], True),
    "rows of many copies": ([file(1_000, 1, 5_000), file(10, -(2**20), 2**20)], True),
    "more copies than can be added up": ([file(1, 1, MAX_DETECTABLE)], False),
    "taken away": ([file(2, -(MAX_DETECTABLE // 2), 1)], False),
    "all files together": ([file(1, 1, MAX_DETECTABLE // 2)] * 2, False),
    "a bound that is not known": ([file(1, None, 1)], False),
    "a number of rows that is not known": ([file(None, 1, 1)], False),
}


@pytest.mark.parametrize(("files", "wanted"), FILES.values(), ids=FILES)
def test_bounds(files, wanted):
    assert Layout("/root", (), 7, 10, Directory("b", tuple(files)), (), (), (), ()).detectable is wanted
