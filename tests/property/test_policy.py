"""The compaction policy, simulated: a year of hourly runs, a month of runs every minute, and
batches of any sizes.

No row cancels another, which is the worst that can happen to the sizes. What is checked is what the
policy's docstring promises.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbt.adapters.mvsink.shard import DataFile, ShardState, base_of, compaction_due, directories_of
from dbt.adapters.mvsink.shard.policy import MAX_RECENT_BATCHES, MAX_RECENT_SHARE, MIN_MERGED
from tests.support.shards import SCHEMA, at

YEAR, MONTH = 365 * 24, 30 * 24 * 60


@dataclass
class Simulated:
    """A shard of nothing but sizes: live batches as ``{id: {time: rows}}``. Each run appends a
    batch and does what is due.
    """

    base: int
    retained: int = 0  # runs
    appended: int = 0
    written: int = 0
    bases: int = 0
    most_recent: int = 0
    most_share: float = 0.0
    batches: dict[str, dict[int, int]] = field(default_factory=dict)
    files: dict[str, DataFile] = field(default_factory=dict)

    def __post_init__(self):
        self.names, self.time = iter(range(10**9)), 0
        self.put({0: self.base})

    def run(self, rows):
        self.time += 1
        self.put({self.time: rows})
        self.appended += rows
        since = max(0, self.time - self.retained)
        plan = compaction_due(
            ShardState(
                1,
                UUID(int=1),
                SCHEMA,
                0,
                since=at(since),
                upper=at(self.time + 1),
                files=tuple(self.files.values()),
            )
        )
        self.most_recent, before = max(self.most_recent, len(self.batches) - 1), len(self.batches)
        if plan is not None:
            self.compact([file.batch_id for file in plan.files], since)
            assert len(self.batches) <= before - (1 if plan.with_base else MIN_MERGED - 2)
            self.bases += plan.with_base
        sizes = sorted(file.rows for file in self.files.values() if file.max_time <= since)
        self.most_share = max(self.most_share, sum(sizes[:-1]) / sizes[-1])

    def compact(self, planned, since):
        settled, later = 0, {}
        for batch in planned:
            del self.files[batch]
            for time, rows in self.batches.pop(batch).items():
                if time <= since:
                    settled += rows
                else:
                    later[time] = later.get(time, 0) + rows
        for made in ({since: settled} if settled else {}, later):
            if made:
                self.put(made)

    def put(self, counts):
        batch, rows = f"{next(self.names):09}", sum(counts.values())
        self.batches[batch], self.written = counts, self.written + rows
        self.files[batch] = DataFile(f"batches/{batch}/p", 1, rows, min(counts), max(counts), 1, 1, 0, rows)

    @property
    def amplification(self):
        """Rows written for each that was appended."""
        return (self.written - self.base) / self.appended


def bound(base, smallest):
    """The docstring's."""
    ratio = max(MAX_RECENT_SHARE * base / smallest, 4)
    growth = 1 / (1 - (ratio / 3) ** (-1 / 13))
    return 1 + math.log(ratio) / math.log(growth) + 11


# the base's rows, runs, updates a run, and what of it is seen: amplification, bases written
SIMULATED = {
    "hourly for a year, a base of 10 billion": (10**10, YEAR, 1_000, 8, 0),
    "every minute for a month": (10**10, MONTH, 1_000, 8, 0),
    "hourly for a year, one row": (10**10, YEAR, 1, 8, 0),
    "hourly for a year, the base doubles": (9 * 10**6, YEAR, 1_000, 18, 7),
    "hourly for a year, from a small base": (1_000, YEAR, 1_000, 18, 10**6),
    "every run a hundredth": (100_000, 400, 1_000, 14, 20),
}


@pytest.mark.parametrize(
    ("base", "runs", "rows", "amplification", "bases"), SIMULATED.values(), ids=SIMULATED
)
def test_what_a_year_costs(base, runs, rows, amplification, bases):
    shard = Simulated(base)
    for _ in range(runs):
        shard.run(rows)
    assert shard.amplification < amplification < bound(base + shard.appended, rows)
    assert shard.bases <= bases
    assert shard.most_recent <= MAX_RECENT_BATCHES and shard.most_share <= MAX_RECENT_SHARE


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    base=st.integers(5, 10).map(lambda power: 10**power),
    sizes=st.lists(
        st.integers(0, 5).map(lambda power: 10**power) | st.integers(1, 10**5), min_size=50, max_size=300
    ),
)
def test_batches_of_any_sizes_stay_within_the_bounds(base, sizes):
    shard = Simulated(base)
    for rows in sizes * 4:
        shard.run(rows)
    assert shard.amplification <= bound(base + shard.appended, min(sizes))
    assert shard.most_recent <= MAX_RECENT_BATCHES and shard.most_share <= MAX_RECENT_SHARE


HISTORY = {"a day": (24, 10), "a week": (168, 12), "a month": (720, 16)}


@pytest.mark.parametrize(("retained", "amplification"), HISTORY.values(), ids=HISTORY)
def test_history_that_is_kept_is_bounded_too(retained, amplification):
    shard = Simulated(10**10, retained)
    for _ in range(YEAR):
        shard.run(1_000)
    assert (
        shard.amplification < amplification
        and shard.bases == 0
        and shard.most_recent <= MAX_RECENT_BATCHES + 1
    )


TIMES = st.sampled_from([(1, 1), (2, 2), (5, 5), (1, 5), (None, None)])
DIFFS = st.sampled_from([(1, 1), (1, 3), (-1, 1), (-1, -1), (None, None)])
FILES = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([1, 2, 5]), TIMES, DIFFS, st.booleans()), max_size=8
)
SINCE = 3


def live_files(drawn):
    return [
        DataFile(f"batches/{batch}/{number}", 1, rows, *times, *diffs, 0, rows if hashed else 0)
        for number, (batch, rows, times, diffs, hashed) in enumerate(drawn)
    ]


def of_readers(files):
    """By what a reader needs, said once more: hashes, one time, and rows that are only there."""
    batches = {file.batch_id: [each for each in files if each.batch_id == file.batch_id] for file in files}
    able = [
        (sum(file.rows for file in batch), -batch[0].min_time, name)
        for name, batch in batches.items()
        if all(file.hashes == file.rows and file.min_diff is not None and file.min_diff > 0 for file in batch)
        and len({time for file in batch for time in (file.min_time, file.max_time)} - {None}) == 1
        and all(file.min_time is not None for file in batch)
    ]
    return max(able, default=(0, 0, None))[2]


def of_compaction(files):
    """By what the bounds need: the largest batch of which no time can be distinguished."""
    batches = {file.batch_id: [each for each in files if each.batch_id == file.batch_id] for file in files}
    settled = [
        (sum(file.rows for file in batch), -min(file.min_time for file in batch), name)
        for name, batch in batches.items()
        if all(file.max_time is not None and file.max_time <= SINCE for file in batch)
    ]
    return max(settled, default=(0, 0, None))[2]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(FILES)
def test_the_base_of_readers_is_that_of_compaction_where_both_can_have_it(drawn):
    directories, _ = directories_of(live_files(drawn))
    readers = base_of(each for each in directories if each.compacted)
    compactions = base_of(each for each in directories if each.settled(SINCE))
    assert (readers and readers.batch_id) == of_readers(live_files(drawn))
    assert (compactions and compactions.batch_id) == of_compaction(live_files(drawn))
    if readers and compactions and readers.settled(SINCE) and compactions.compacted:
        assert readers == compactions
