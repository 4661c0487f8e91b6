"""Random histories in which columns are added, widened, and change in ways that need a new
generation: every contents that is to be readable stays what it was, a subscriber who follows the
changes has the contents, and what would end more than a day of history is refused.

On DuckDB, by the real statements.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.limits import DAY
from dbt.adapters.mvsink.shard import as_of_generation, collect_garbage
from dbt.adapters.mvsink.shard_sql import Layout, as_of
from dbt.adapters.mvsink.sink import Gate, MaxChange, OnSchemaChange
from dbt.adapters.mvsink.sink.errors import HistoryWouldEnd, MaxChangeExceeded
from tests.support.session_engine import T0, Model, open_shard

HISTORIES, RUNS = 5, 13
RETAINED = 5 * DAY
# the types of x and y, each wider than the one before; then one that needs a new generation
X, Y = ("tinyint", "int", "bigint"), ("float", "double")
HOLDER = "subscriber"


@dataclass
class Followed:
    """A subscriber: the ``rows`` until ``frontier`` (ms), of a generation."""

    rows: Counter = field(default_factory=Counter)
    frontier: int | None = None
    generation: int = -1


@dataclass
class ShardHistory:
    """One shard, its contents by the times of its runs, and a subscriber."""

    model: Model
    chance: random.Random
    rows: Counter = field(default_factory=Counter)
    contents: dict[int, Counter] = field(default_factory=dict)
    began: int = 0  # the time of the first run that must be readable
    day: int = 0
    x: int = 0
    y: int = 0
    added: bool = False
    text: bool = False
    follower: Followed = field(default_factory=Followed)
    observed: Counter = field(default_factory=Counter)

    def query(self):
        kind = "string" if self.text else X[self.x]
        more = ", concat('z', cast(x as string)) z" if self.added else ""
        listed = ", ".join(f"({x}, {y})" for (x, y), n in sorted(self.rows.items()) for _ in range(n))
        values = f"values {listed or '(0, 0)'} t(x, y)"
        where = "" if listed else " where false"
        return f"select cast(x as {kind}) x, cast(y as {Y[self.y]}) y{more} from {values}{where}"

    def change(self):
        for _ in range(self.chance.randrange(4)):
            row = self.chance.randrange(20), self.chance.randrange(3)
            self.rows[row] = 0 if self.rows[row] else self.chance.randrange(1, 3)
        self.rows = +self.rows

    def step(self):
        self.change()
        before = (self.x, self.y, self.added, self.text)
        if self.contents:
            self.x = min(self.x + (self.chance.random() < 0.2), len(X) - 1)
            self.y = min(self.y + (self.chance.random() < 0.1), len(Y) - 1)
            self.added = self.added or self.chance.random() < 0.1
            self.text = self.text != (self.chance.random() < 0.2)
        replaces = bool(self.contents) and self.text != before[3]
        self.day += 1
        lets = self.chance.random() < 0.5
        policy = OnSchemaChange.NEW_GENERATION if lets else OnSchemaChange.SYNC_ALL_COLUMNS
        gate = Gate(MaxChange(rows=3)) if self.chance.random() < 0.5 else Gate()
        options = {"time": T0 + self.day * DAY, "on_schema_change": policy, "gate": gate}
        try:
            outcome = self.model.run(self.query(), **options)
        except (HistoryWouldEnd, MaxChangeExceeded) as error:
            refused = isinstance(error, HistoryWouldEnd)
            assert refused == (replaces and not lets and self.readable() > DAY), error
            self.observed["refused" if refused else "gated"] += 1
            self.x, self.y, self.added, self.text = before
            self.rows = Counter(list(self.contents.values())[-1]) if self.contents else Counter()
            return
        assert bool(outcome.generation) == replaces
        if replaces and not lets:
            self.began = outcome.time  # no more than a day of history ended, but is kept, too
        self.contents[outcome.time] = +self.rows
        self.observed["new generation"] += replaces
        self.observed["in place"] += bool(outcome.columns_added or outcome.columns_widened)

    def readable(self):
        with open_shard(self.model.uri, None) as handle:
            state = handle.state()
        return state.upper.stored() - state.since.stored() if state.readable else 0

    def check(self):
        if not self.contents:
            return
        engine = self.model.engine()
        with open_shard(self.model.uri, None) as handle:
            collect_garbage(handle, staged_grace_ms=-1, removed_grace_ms=-1)
            state = handle.state()
            kept = handle.kept_generations(state)
            newest = max(self.contents)
            for time, wanted in self.contents.items():
                version, at = as_of_generation(state, time, lambda: kept)
                if time < max(newest - RETAINED, self.began) or not version.since.less_equal_time(at):
                    assert time <= newest - RETAINED or time < self.began, time
                    continue
                query = as_of.collection_as_of(Layout.of(handle, version), at)
                assert self.counted(engine.query(query, "as of")) == wanted, time
                self.observed["read in an earlier generation"] += version is not state
            if self.chance.random() < 0.6:
                self.follow(handle, state)
        assert self.counted(engine.query(self.model.view(), "view")) == self.rows

    def follow(self, handle, state):
        """The subscriber catches up, and holds the history that it needs next."""
        engine, follower, shard = self.model.engine(), self.follower, Layout.of(handle, state)
        upper = state.upper.stored()
        if follower.generation != state.generation:
            contents = engine.query(as_of.collection_as_of(shard, upper - 1), "snapshot")
            follower.rows, follower.generation = self.counted(contents), state.generation
        else:
            as_of.check_changes(state, follower.frontier, upper)
            for row in engine.query(as_of.updates_between(shard, follower.frontier, upper), "updates"):
                follower.rows[self.plain(row)] += row[-2]
            self.observed["followed"] += 1
        follower.frontier = upper
        assert +follower.rows == self.rows
        assert not -follower.rows
        handle.hold(HOLDER, upper - 1)

    def counted(self, rows):
        return Counter(map(self.plain, rows))

    @staticmethod
    def plain(row):
        return int(row[0]), int(row[1])


def test_what_is_to_be_readable_stays_what_it_was(tmp_path):
    observed: Counter = Counter()
    for seed in range(HISTORIES):
        model = Model(None, tmp_path / str(seed), options={"retain_history": RETAINED})
        history = ShardHistory(model, random.Random(seed))
        for _ in range(RUNS):
            history.step()
            history.check()
        observed += history.observed
    wanted = ("refused", "gated", "new generation", "in place", "read in an earlier generation", "followed")
    assert all(observed[each] for each in wanted), observed


def test_a_generation_that_is_no_longer_kept_is_collected(tmp_path, monkeypatch):
    model = Model(None, tmp_path, options={"retain_history": DAY})
    first = model.run("select cast(1 as bigint) x")
    model.run("select 'a' x", on_schema_change=OnSchemaChange.NEW_GENERATION)
    with open_shard(model.uri, None) as handle:
        state = handle.state()
        old = {file.path for each in handle.kept_generations(state) for file in each.last.files}
        assert old and not set(collect_garbage(handle, removed_grace_ms=-1)) & old
        now = wall_clock.now_ms()
        monkeypatch.setattr(handle.storage, "clock", lambda: now + 2 * DAY)
        assert old <= set(collect_garbage(handle, removed_grace_ms=-1))
        monkeypatch.setattr(wall_clock, "now_ms", lambda: now + 2 * DAY)
        assert as_of_generation(state, first.time, lambda: handle.kept_generations(state))[0] is state


@pytest.mark.parametrize("mode", ["full_refresh", "dropped"])
def test_what_ends_everything_keeps_nothing(tmp_path, mode):
    model = Model(None, tmp_path, options={"retain_history": DAY})
    model.run("select cast(1 as bigint) x")
    model.run("select 'a' x", on_schema_change=OnSchemaChange.NEW_GENERATION)
    with open_shard(model.uri, None) as handle:
        if mode == "dropped":
            handle.mark_dropped()
        assert bool(handle.kept_generations(handle.state())) == (mode == "full_refresh")
    model.run("select 'a' x", full_refresh=True)
    with open_shard(model.uri, None) as handle:
        assert handle.kept_generations(handle.state()) == () and handle.state().kept == ()
