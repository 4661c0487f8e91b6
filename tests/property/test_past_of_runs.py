"""Diff and versions over shards that real runs have written: with negated, folded and compacted
files, and an added column. What they say is what the runs' contents say.
"""

from __future__ import annotations

import random
from collections import Counter

from dbt.adapters.mvsink.history.row_versions import RowVersions, history_query
from dbt.adapters.mvsink.history.shard_diff import Columns, DiffSide, ShardComparison, compare
from dbt.adapters.mvsink.shard_sql import Layout
from tests.property.test_ways import RETAINED, History, Quick, one_run
from tests.support.session_engine import open_shard

SEEDS, RUNS = (0, 3), 7


class Past(History):
    """The history's own checks are in `test_ways`."""

    def check(self):
        with open_shard(self.model.uri, None) as handle:
            state = handle.state()
            shard = Layout.of(handle, state)
        readable = [time for time in self.contents if state.since.stored() <= time]
        if not readable:
            return
        self.observed["negated"] += bool(shard.past)
        self.check_diff(shard, *(self.chance.choice(readable) for _ in range(2)))
        self.check_versions(state, shard, self.chance.choice(readable))

    def check_diff(self, shard, a, b):
        columns = Columns.of(shard.columns, shard.columns)
        comparison = ShardComparison(DiffSide(shard, a), DiffSide(shard, b), columns)
        result = compare(self.model.engine().query, comparison, 10**6)
        sample = [Counter(), Counter()]
        for change in result.sample:
            row = change.a or change.b
            sample[change.a is None][row["x"], row["y"]] += change.copies
        rows = self.contents[a], self.contents[b]
        assert sample == [rows[0] - rows[1], rows[1] - rows[0]]
        assert (result.rows_a, result.rows_b) == tuple(each.total() for each in rows)

    def check_versions(self, state, shard, time):
        query = history_query(RowVersions.of(shard, state), ("x", "y"), (), "m", keyless=True)
        at = f"timestamp_millis({time}L)"
        standing = f"valid_from <= {at} and (valid_to is null or valid_to > {at})"
        rows = self.model.engine().query(
            f"select x, y, sum(copies) from (\n{query}\n) where {standing} group by x, y", "versions"
        )
        assert {(x, y): n for x, y, n in rows} == self.contents[time]


def test_the_past_of_runs(tmp_path, monkeypatch):
    negated = 0
    for seed in SEEDS:
        model = Quick(None, tmp_path / str(seed), options={"retain_history": RETAINED})
        history = Past(model, random.Random(seed))
        for _ in range(RUNS):
            one_run(history, monkeypatch, only_grow_or_shrink=False)
        negated += history.observed["negated"]
    assert negated > 2
