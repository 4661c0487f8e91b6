"""Whatever way a correction is computed, and whatever came before: the contents are the query's,
and every readable time and every range of updates stays what it was.

Random histories on DuckDB, of the real statements. Each run takes a way of its own; what changes is
nothing, some rows, or nearly all, and then the new rows take the place of the old ones, which are
negated. In between another tool deletes rows, a program appends some without hashes, a column is
added, and compaction does what is due.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.engine import Column, parse_type, sql
from dbt.adapters.mvsink.shard import Antichain
from dbt.adapters.mvsink.shard_sql import Layout, as_of, layout
from dbt.adapters.mvsink.sink import correction, run_history
from tests.support.duck_engine import DuckEngine
from tests.support.seldom import often
from tests.support.session_engine import Model, open_shard

HISTORIES, RUNS = 3, 14
WAYS = ("whole rows", "buckets", "hashes", "once", "once", "once")
RETAINED = 4_000  # ms; runs are 1,000 apart
X, Y, Z = (
    Column(name, parse_type(kind, name)) for name, kind in (("x", "int"), ("y", "string"), ("z", "int"))
)

TIMES = (pa.field("_mv_time", pa.int64()), pa.field("_mv_diff", pa.int64()))


class Quick(Model):
    added = 0

    def columns(self, query):
        return (X, Y, Z)[: 2 + self.added]


def query(rows, added):
    listed = ", ".join(f"({x}, {y!r})" for (x, y), n in sorted(rows.items()) for _ in range(n))
    values = f"values {listed or '(0, null)'} t(x, y)"
    more = ", cast(null as int) z" if added else ""
    return f"select cast(x as int) x, cast(y as string) y{more} from {values}" + (
        "" if listed else " where false"
    )


@dataclass
class History:
    """One shard, what it contents after each run, and what happened in all."""

    model: Quick
    chance: random.Random
    rows: Counter = field(default_factory=Counter)
    contents: dict[int, Counter] = field(default_factory=dict)
    observed: Counter = field(default_factory=Counter)
    negations: int = 0

    def change(self, only_grow_or_shrink):
        kind = self.chance.choice(("nothing", "few", "nearly all", "nearly all", "nearly all", "all go"))
        kind = "few" if kind == "all go" and self.chance.random() < 0.7 else kind
        if kind == "all go" or (kind == "nearly all" and not only_grow_or_shrink):
            self.rows.clear()
        share = {"nothing": 0, "few": 0.1, "nearly all": 0.9, "all go": 0}[kind]
        grows = self.chance.random() < 0.6
        for x in range(30):
            if self.chance.random() < share:
                row, other = ((x, self.chance.choice("abcdefghij")) for _ in range(2))
                if only_grow_or_shrink:
                    self.rows[row] = self.rows[row] + self.chance.randrange(1, 3) if grows else 0
                else:
                    self.rows[row], self.rows[other] = self.chance.randrange(1, 3), self.chance.randrange(2)
        self.rows = +self.rows

    def run(self, way, monkeypatch):
        monkeypatch.setattr(limits, "COMPARED_WHOLE", 10**9 if way == "whole rows" else 0)
        monkeypatch.setattr(run_history.RunHistory, "comparison", lambda *_: way)
        monkeypatch.setattr(DuckEngine, "cores", self.chance.randrange(3))
        outcome = self.model.run(query(self.rows, self.model.added))
        self.contents[outcome.time] = +self.rows
        before = Counter(list(self.contents.values())[-2]) if len(self.contents) > 1 else Counter()
        return outcome, before

    def check(self):
        """Everything that is readable."""
        engine = self.model.engine()
        with open_shard(self.model.uri, None) as handle:
            state = handle.state()
            shard = Layout.of(handle, state)
        self.observed["negated"] += bool(shard.past)
        self.observed["negated twice"] += len(shard.past) > 1
        self.observed["dropped"] += len(shard.past) < self.negations
        self.negations = len(shard.past)
        since, upper = state.since.stored(), state.upper.stored()
        assert self.counted(engine.query(self.model.view(), "view")) == self.rows
        readable = [time for time in self.contents if since <= time]
        for time in readable:
            wanted = self.contents[time]
            assert self.counted(engine.query(as_of.collection_as_of(shard, time), "as of")) == wanted, time
            assert self.signed(engine.query(as_of.snapshot_as_of(shard, time), "as of")) == wanted, time
        for lower in (time + 1 for time in readable):
            as_of.check_changes(state, lower, upper)
            wanted = Counter(self.rows)
            wanted.subtract(self.contents[lower - 1])
            changed = self.signed(engine.query(as_of.updates_between(shard, lower), "updates"))
            assert changed == without_zeros(wanted), lower
            signs = as_of.known_times(shard, lower)
            times = {row[0] for row in engine.query(as_of.times_between(shard, lower), "times")}
            assert signs is None or times <= set(signs)
        # as every other tool reads it
        plain = sql.union_all(
            f"select x, y, _mv_time t, _mv_diff n from {sql.parquet(f'{self.model.uri}/{file.path}')}"
            for file in state.files
        )
        sums = (
            engine.query(f"select x, y, sum(n) from ({plain}) group by x, y having sum(n) <> 0", "plain")
            if state.files
            else []
        )
        assert {(x, y): n for x, y, n in sums} == self.rows

    @staticmethod
    def counted(rows):
        return Counter((row[0], row[1]) for row in rows)

    def signed(self, rows):
        """Of updates: columns, time, diff, error."""
        sums: Counter = Counter()
        for row in rows:
            sums[row[0], row[1]] += row[-2]
        return without_zeros(sums)

    def tamper(self):
        """Another tool deletes rows, in all files that have them; that changes the past too."""
        with open_shard(self.model.uri, None) as handle:
            if not handle.state().files:
                return
        DeltaTable(self.model.uri).delete(f"x % 7 = {self.chance.randrange(7)}")
        self.contents.clear()

    def append_by_hand(self):
        """An update of the Python handle, which has no hash."""
        with open_shard(self.model.uri, None) as handle:
            state = handle.state()
            time = state.upper.as_option()
            row = {"x": 1, "y": "a", "_mv_time": time, "_mv_diff": 1}
            update = pa.Table.from_pylist([row], pa.schema([*state.schema, *TIMES]))
            handle.compare_and_append(update, state.upper, Antichain.of(time + 1))
        self.contents.clear()


def without_zeros(counts):
    return Counter({row: n for row, n in counts.items() if n})


def weak(columns, salt, error=None):
    """Of several rows each."""
    return f"xxhash64({salt}L, `x` % 5{'' if error is None else f', {error}'})"


@pytest.mark.parametrize(
    "hashes", often(["", "weak"], ""), ids=["rows have hashes of their own", "rows share hashes"]
)
def test_contents_history_and_updates_are_right_after_every_run(tmp_path, monkeypatch, hashes):
    if hashes:
        for module in (correction, layout):
            monkeypatch.setattr(module, "row_hash", weak)
        monkeypatch.setattr(limits, "NEARLY_ALL", 0.05)  # there are few hashes
    observed: Counter = Counter()
    for seed in range(HISTORIES):
        history = History(
            Quick(None, tmp_path / str(seed), options={"retain_history": RETAINED}), random.Random(seed)
        )
        for _ in range(RUNS):
            one_run(history, monkeypatch, only_grow_or_shrink=bool(hashes))
        observed += history.observed
    assert observed["negated"] > 10 and observed["dropped"] > 2, observed
    assert hashes or observed["negated twice"] > 3, observed


def one_run(history, monkeypatch, *, only_grow_or_shrink):
    """The rows change, then the run; with hashes that rows share, no change hides another."""
    chance, model = history.chance, history.model
    history.change(only_grow_or_shrink)
    act = chance.random()
    if history.contents and not only_grow_or_shrink:
        if act < 0.08:
            history.tamper()
        elif act < 0.12:
            history.append_by_hand()
        elif act < 0.16 and not model.added:
            model.added = 1
    way = chance.choice(WAYS)
    outcome, before = history.run(way, monkeypatch)
    if len(history.contents) > 1 and not outcome.columns_added:
        gained, lost = +(history.rows - before), +(before - history.rows)
        assert (outcome.counts.inserted, outcome.counts.deleted) == (gained.total(), lost.total()), way
    history.check()
