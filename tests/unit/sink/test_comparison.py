"""Which way a large shard is corrected."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink.shard import CommitNote
from dbt.adapters.mvsink.sink.run_history import BUCKETS, HASHES, ONCE, RunHistory

ROWS = 6_400_000  # 2^16 buckets


def run(changed, seconds=None, way=""):
    return CommitNote(rows_inserted=changed, computed_through=1, seconds=seconds, way=way)


def chosen(*notes, detectable=True):
    return RunHistory(notes).comparison(SimpleNamespace(rows=ROWS, salt=0, detectable=detectable))


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
