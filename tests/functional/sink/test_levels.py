"""Compaction by levels: recent batches merge with each other, the base stays as it is, and readers
see the same.
"""

from __future__ import annotations

from dbt.adapters.mvsink.shard.policy import MAX_RECENT_BATCHES
from dbt.adapters.mvsink.shard_sql import Layout
from tests.support.session_engine import Model

ROWS, RUNS = 2_000, 40


def desired(n):
    """A large part that stays, duplicates in it of which one goes at the second run, and a few rows
    that come, change and go again.
    """
    stay = f"select concat('row ', id) x from range(0, {ROWS})"
    twice = f"select 'twice' x from range(0, {2 if n > 1 else 3})"
    few = f"select concat('few ', id % 5, ' at ', {n} div (1 + id % 5)) x from range({n % 3}, {5 + n % 4})"
    return " union all ".join((stay, twice, few))


def test_small_changes_never_rewrite_the_base(session, tmp_path):
    model = Model(session, tmp_path, options={"retain_history": 1})
    model.run(desired(0))
    bases, merged, most = set(), 0, 0
    for n in range(1, RUNS):
        model.run(desired(n))
        with model.open(desired(n)) as handle:
            state = handle.state()
            parts = Layout.of(handle, state)
        bases.add(parts.base.batch_id)
        most = max(most, len(parts.directories) - 1)
        merged += any(file.min_diff < 0 < file.max_diff and file.rows > 8 for file in state.files)
        if n % 6 == 0 or n > RUNS - 3:
            model.assert_holds(desired(n))
    assert len(bases) == 1 and most < MAX_RECENT_BATCHES and merged
    assert sum(1 for commit in handle.history() if commit.kind == "compact") >= 2


def test_what_a_merge_of_recent_batches_writes(session, tmp_path):
    """One directory at `since`, every row with its hash, retractions beside insertions; a row
    without a hash in one of its own.
    """
    model = Model(session, tmp_path, options={"retain_history": 1})
    model.run(desired(0))
    n = 0
    while True:
        n += 1
        model.run(desired(n))
        with model.open(desired(n)) as handle:
            state = handle.state()
            if handle.history(1)[0].kind == "compact":
                break
    parts = Layout.of(handle, state)
    since = state.since.as_option()
    # larger ones were left as they are
    [merged] = [directory for directory in parts.recent if directory.time == since]
    assert (merged.consolidated, merged.min_diff < 0, merged.may_hold_errors) == (True, True, False)
    [unhashed] = parts.unhashed  # what the base holds three times
    assert unhashed.rows == 1 and parts.base.rows == ROWS + 3 + 5
    model.assert_holds(desired(n))
