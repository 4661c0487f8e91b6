"""Which way a large shard is corrected."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink.shard import CommitNote
from dbt.adapters.mvsink.sink.run_history import BUCKETS, HASHES, ONCE, RunHistory

ROWS = 6_400_000  # 2^16 buckets


def run(changed, seconds=None, way="", of=None):
    return CommitNote(rows_inserted=changed, computed_through=1, seconds=seconds, way=way, input_changes=of)


def chosen(*notes, detectable=True, changes=None):
    shard = SimpleNamespace(rows=ROWS, salt=0, detectable=detectable)
    return RunHistory(notes).comparison(shard, changes)


LOADED = run(ROWS)
COMPACTION = CommitNote()


@pytest.mark.parametrize(
    ("changed", "expected"),
    [(0, BUCKETS), (32_767, BUCKETS), (32_768, HASHES), (5_119_999, HASHES), (5_120_000, ONCE)],
)
def test_by_how_many_rows_the_last_run_changed(changed, expected):
    assert chosen(LOADED, run(1_000_000), run(changed), COMPACTION) == expected


def test_after_a_first_load_or_without_a_log_few_changes_are_expected():
    assert chosen() == chosen(LOADED) == BUCKETS


def test_sums_that_could_overflow_are_not_made():
    assert chosen(run(0), detectable=False) == ONCE


def test_in_the_middle_both_are_tried_and_the_faster_one_stays():
    assert chosen(run(100_000)) == HASHES
    assert chosen(run(100_000, 20.0, HASHES)) == ONCE
    assert chosen(run(100_000, 30.0, ONCE)) == HASHES
    hashes, once = run(100_000, 20.0, HASHES), run(100_000, 30.0, ONCE)
    assert chosen(hashes, once) == chosen(once, hashes) == HASHES
    assert chosen(hashes, once, run(100_000, 35.0, HASHES)) == ONCE
    assert chosen(hashes, run(100_000, 19.0, ONCE)) == ONCE


@pytest.mark.parametrize(
    ("notes", "changes", "expected"),
    [
        ([run(5_120_000)], 600, BUCKETS),  # a tiny change after a large one
        ([run(5_120_000)], 3_276, BUCKETS),
        ([run(5_120_000)], 3_277, HASHES),
        ([run(5_120_000)], 0, BUCKETS),
        ([run(100)], 3_000_000, BUCKETS),  # the last run is all that is known
        ([run(5_120_000, of=1_000_000)], 6_000, BUCKETS),
        ([run(5_120_000, of=1_000_000)], 6_400, HASHES),  # 5.12 rows for each
        ([run(5_120_000, of=100)], 100, ONCE),  # ranks against all
        ([run(5_120_000, of=100)], 0, BUCKETS),
        ([run(5_120_000, of=100), run(1_000, of=1_000_000)], 150, ONCE),  # the most similar run counts
        ([run(5_120_000, of=100), run(1_000, of=1_000_000)], 500_000, BUCKETS),
        ([run(5_120_000, of=100), run(100, of=100)], 100, BUCKETS),  # of equal ones the newest
        ([run(5_120_000, of=0)], 600, BUCKETS),
    ],
)
def test_the_size_of_the_inputs_changes_decides_where_it_is_known(notes, changes, expected):
    assert chosen(*notes, changes=changes) == expected
