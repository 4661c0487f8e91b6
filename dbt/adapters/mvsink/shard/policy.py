"""When to compact, and what: pure decisions about one version of a shard.

Readers pay for every *recent* batch, that is, every batch that is not yet in the compacted *base*.
So recent batches stay few and small:

- There are fewer than `MAX_RECENT_BATCHES` (16) beside the base. When there are as many, they merge
  by *levels*: batches of similar size become one, which later merges with others of its size. The
  base is not involved.
- They have at most `MAX_RECENT_SHARE` (10 %) of the base's rows. Beyond that they are merged into
  the base.

- A base in which rows may be that are deleted by others is merged with them once it is
  `MAX_DELETED` (30 days) old, whatever its size. So a row that was deleted is in no live file for
  longer than that after readers can no longer distinguish it, which is a promise to people whose
  data it was (docs/privacy.md). A merge makes the base young again: it has one time, that of the
  merge.

Only *settled* updates, at times that readers can no longer distinguish (at or before `since`), are
merged into the base or consolidated. Batches with later times merge among themselves and keep their
times.

Bounds, for a shard whose batches are settled when they are appended (no `retain_history`):

- Live batches: between two appends at most 16 beside the base, after a merge at most 15. A merge
  takes `MIN_MERGED` (4) batches or more and leaves at most 3: rows with a hash, rows without one,
  and history.
- Write amplification, the rows written per appended row: at most ``1 + log_g(R) + 11``. ``1`` is
  the append. ``11`` is for the base: for every 0.1 of its rows that are appended, 1.1 times its
  rows are written. The logarithm is for the levels: ``R`` is how many times the smallest batch fits
  into 10 % of the base, and every merge moves a row to a batch at least ``g = 1 / (1 - (R / 3) **
  (-1 / 13))`` times as large. Proof: of 16 batches ordered by size, the merge takes the smallest
  ``p`` with the largest growth ``(s_1 + ... + s_p) / s_p``. If that were below ``g`` for all ``p``
  from 4 to 16, the sums would grow by more than ``(g / (g - 1)) ** 13 = R / 3`` from the third to
  the sixteenth, and exceed 10 % of the base.

A base of 10 billion rows with hourly runs of 1,000 updates has ``R`` = 10^6 and ``g`` = 1.6, hence
a bound of 41. Equal batches stay far below it: in a year each row is rewritten five times, and the
base never is, if they only insert; if they delete, the base is written once a month. Rows that
cancel out shrink the batches and only save work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from dbt.adapters.mvsink.shard.directories import (
    Directory,
    base_of,
    cancelled_among,
    directories_of,
    uncancelled,
)
from dbt.adapters.mvsink.shard.frontier import Antichain
from dbt.adapters.mvsink.shard.state import CompactionPlan, DataFile, ShardState

MAX_RECENT_BATCHES = 16
MAX_RECENT_SHARE = 0.10
MIN_MERGED = 4
MAX_DELETED = 30 * 24 * 3_600_000  # ms


def compaction_due(state: ShardState) -> CompactionPlan | None:
    """The files to compact so that reads stay close to a plain scan; None if none are due.

    What a negation cancels is left alone until `since` has reached its time; then it is dropped.
    """
    since = state.since.as_option()
    live, foreign = directories_of(uncancelled(state.files))
    if foreign or since is None:  # a foreign file has to be folded in first
        return None
    groups = cancelled_among(state.files)
    dropped = tuple(file for group in groups if group.time <= since for file in group.files)
    plan = _rewriting(live, since)
    if plan is None:
        return CompactionPlan((), state.since, cancelled=dropped) if dropped else None
    return replace(plan, cancelled=dropped)


def _rewriting(live: Sequence[Directory], since: int) -> CompactionPlan | None:
    """The batches to merge."""
    settled = [batch for batch in live if batch.settled(since)]
    base = base_of(settled)
    recent = [batch for batch in settled if batch is not base]
    if base is not None and sum(batch.foldable for batch in recent) > MAX_RECENT_SHARE * base.rows:
        return CompactionPlan(_files([base, *recent]), Antichain.of(since))
    if base is not None and since - base.first_time >= MAX_DELETED:
        begun = [batch for batch in live if batch is not base and batch.first_time <= since]
        if _delete([base, *begun]):
            return CompactionPlan(_files([base, *begun]), Antichain.of(since))
    history = [batch for batch in live if not batch.settled(since)]
    if len(recent) + len(history) < MAX_RECENT_BATCHES:
        return None
    _, merged = max(_merge(recent), _merge(history), key=lambda each: each[0])
    return CompactionPlan(_files(merged), Antichain.of(since), with_base=False)


def _delete(batches: Sequence[Directory]) -> bool:
    """Whether one of the batches may delete rows."""
    return any(batch.min_diff is None or batch.min_diff < 0 for batch in batches)


def _merge(batches: Sequence[Directory]) -> tuple[float, Sequence[Directory]]:
    """The smallest batches, at least `MIN_MERGED`, whose merge grows most, and its growth: their
    total size divided by the size of the largest. None and -1 if there are too few.
    """
    ordered = sorted(batches, key=lambda batch: (batch.rows, batch.batch_id))
    sums = accumulate(batch.rows for batch in ordered)
    growths = [
        (rows / max(1, batch.rows), count)
        for count, (rows, batch) in enumerate(zip(sums, ordered, strict=True), 1)
        if count >= MIN_MERGED
    ]
    growth, count = max(growths, default=(-1.0, 0))
    return growth, ordered[:count]


def _files(batches: Sequence[Directory]) -> tuple[DataFile, ...]:
    return tuple(file for batch in batches for file in batch.files)
