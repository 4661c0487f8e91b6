"""The figures of `mvsink status`: rows, the share of recent updates, lag and pending times."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dbt.adapters.mvsink.cli.commands.status import lag, recent_share, row_count
from dbt.adapters.mvsink.physical import EMPTY_FRONTIER
from dbt.adapters.mvsink.shard import Antichain, DataFile
from dbt.adapters.mvsink.shard_sql.properties import Watched
from tests.unit.cli.shop import HOUR, NOW, write

FILES = {
    "no files": ((), 0, None),
    "a load": ((("a", 10, 1, 1, 0),), 10, 0.0),
    "a load and insertions": ((("a", 10, 1, 1, 0), ("b", 2, 1, 1, 0)), 12, 0.2),
    "rows that occur twice": ((("a", 10, 2, 2, 0),), 20, 0.0),
    "a load and deletions": ((("a", 10, 1, 1, 0), ("b", 2, -1, -1, 0)), 8, 0.2),
    "insertions and deletions in one file": ((("a", 10, 1, 1, 0), ("b", 2, -1, 1, 0)), None, 0.2),
    "errors are not rows": ((("a", 10, 1, 1, 4),), 6, 0.0),
    "errors not counted": ((("a", 10, 1, 1, None),), None, 0.0),
    "diffs not known": ((("a", 10, None, None, 0),), None, 0.0),
    "two files of one batch": ((("a", 10, 1, 1, 0), ("a", 10, 1, 1, 0), ("b", 5, 1, 1, 0)), 25, 0.25),
    "rows not counted": ((("a", None, 1, 1, 0),), None, None),
}


@pytest.mark.parametrize(("files", "rows", "share"), FILES.values(), ids=FILES)
def test_rows_and_recent_share_follow_from_the_statistics_or_are_unknown(files, rows, share):
    live = [
        DataFile(f"batches/{batch}/part-{number:05d}.parquet", 1, count, 0, 0, low, high, errors, 0)
        for number, (batch, count, low, high, errors) in enumerate(files)
    ]
    assert (row_count(live), recent_share(live)) == (rows, share)


def test_a_file_with_a_deletion_vector_has_no_certain_rows():
    assert (
        row_count([DataFile("batches/a/part-00000.parquet", 1, 5, 0, 0, 1, 1, 0, 0, deletion_vector=True)])
        is None
    )


LAGS = {
    "since the run's own time": (100, 500, 340, 260),
    "since the upper if no commit records it": (100, 500, None, 101),
    "an upper that a schedule moved ahead does not count": (100, 9_000, 340, 260),
    "never negative": (100, 9_000, None, 0),
    "nothing written": (0, 0, 340, None),
    "finished": (100, EMPTY_FRONTIER, 340, None),
}


@pytest.mark.parametrize(("since", "upper", "through", "expected"), LAGS.values(), ids=LAGS)
def test_lag_at_600(shop, since, upper, through, expected):
    state = shop.shard("s.m").state()
    assert (
        lag(replace(state, since=Antichain.of(since), upper=Antichain.of(upper)), through, now=600)
        == expected
    )


# what was written to the input after the task's upper, NOW - HOUR + 1, and the pending times
# without and with mv_deletes
PENDING = {
    "nothing": ([], 0, 0),
    "rows at two times": ([(1, ("x", 1)), (2, ("y", 1))], 2, 2),
    "a lost row": ([(1, ("d", -1))], 0, 1),
    "a lost row and a new one at once": ([(1, ("d", -1), ("x", 1))], 1, 1),
}


@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize(("written", "times", "with_deletes"), PENDING.values(), ids=PENDING)
def test_the_pending_times_of_a_task_over_a_shard(shop, orders, deletes, written, times, with_deletes):
    task = shop.shard("s.task", "task")
    write(task, NOW - HOUR, ("d", 1))
    task.set_properties(Watched(str(shop.at("s.orders")), deletes).properties())
    for after, *rows in written:
        write(orders, NOW - HOUR + after, *rows)
    pending = {shard["model"]: shard["pending_inputs"] for shard in shop.as_json("status")["shards"]}
    assert pending == {"orders": None, "task": with_deletes if deletes else times}
