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

from dbt.adapters.mvsink.shard import DataFile, ShardState, compaction_due
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
