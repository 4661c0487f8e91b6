"""Which way a large shard is corrected: what the last runs found, and how long they took."""

from __future__ import annotations

from collections.abc import Sequence

from dbt.adapters.mvsink.shard import Commit
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.sink.detection import Buckets

# modes of commits: how the contents were computed
INCREMENTAL, SUMMED, EVALUATED, LOADED = "incremental", "sums", "evaluated", "loaded"
BUCKETS, HASHES, ONCE = "buckets", "hashes", "once"  # ways of what was `EVALUATED`, see `write`
NEARLY_ALL = 0.4  # of the rows of both sides


def way(commits: Sequence[Commit], shard: Layout) -> str:
    """For a run after these newest ``commits``, oldest first.

    Between few changes and nearly all, what costs less depends on the query: to evaluate it a
    second time, or to write and read all its rows. Both are tried, then the faster one stays, until
    the log forgets the other.
    """
    changed = changed_last(commits, shard)
    if not shard.detectable or nearly_all(changed, shard.rows, shard):
        return ONCE
    if changed < Buckets.of(shard).nearly_all:
        return BUCKETS
    took = {
        commit.note.way: commit.note.seconds
        for commit in commits
        if commit.note.seconds is not None and commit.note.way in (HASHES, ONCE)
    }
    return next(
        (each for each in (HASHES, ONCE) if each not in took), min(took, key=took.__getitem__, default=HASHES)
    )


def nearly_all(changed: int, rows: int, shard: Layout) -> bool:
    """Whether ``changed`` is nearly all of the rows of both sides, the query's and the shard's."""
    return rows > 0 and changed >= NEARLY_ALL * (rows + shard.rows)


def changed_last(commits: Sequence[Commit], shard: Layout) -> int:
    """How many rows the last run inserted and deleted, as far as the log has it.

    Not if these are all rows: then it was the first load.
    """
    for commit in reversed(commits):
        note = commit.note
        if note.computed_through is not None:
            first = note.rows_deleted == 0 and note.rows_inserted >= shard.rows
            return 0 if first or note.mode == LOADED else note.rows_inserted + note.rows_deleted
    return 0
