"""Views read as of one time fit together, whatever ran meanwhile.

Four views: ``base`` holds a source that keeps changing, ``by_key`` and ``total`` count its rows,
``both`` reads the two and holds both sums side by side. Two writers run all of them, each at a time
of its own, in every mixed order; drivers, references and shards are the real ones, the query is
evaluated in Python over what the references say is read.
"""

from __future__ import annotations

import json
import os
import random
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.engine import shard_columns
from dbt.adapters.mvsink.inputs.reference import Reference, References
from dbt.adapters.mvsink.references.consistency import Ledger, Origins, origins_after, origins_read
from dbt.adapters.mvsink.shard import (
    MemoryStorage,
    ReadHandle,
    ShardClient,
    compact_with_pyarrow,
    compaction_due,
)
from dbt.adapters.mvsink.shard_sql import Counts, as_of
from dbt.adapters.mvsink.shard_sql.layout import layout_of
from dbt.adapters.mvsink.sink import Driver, Outcome, SinkRequest
from dbt.adapters.mvsink.sink.round import Written
from tests.support.engines import NoEngine

T0 = 1_800_000_000_000
INTERLEAVINGS = int(os.environ.get("MVSINK_INTERLEAVINGS", "24"))
FULL_REFRESHES = 12
SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])
READS = {"base": (), "by_key": ("base",), "total": ("base",), "both": ("by_key", "total")}
Rows = Counter[tuple[str, int]]


def by_key(base: Rows) -> Rows:
    counted: Counter[str] = Counter()
    for (key, _), copies in base.items():
        counted[key] += copies
    return Counter(counted.items())


def total(base: Rows) -> Rows:
    return Counter({("rows", sum(base.values())): 1})


def both(keys: Rows, rows: Rows) -> Rows:
    return Counter([("by key", sum(n for _, n in keys.elements())), *rows.elements()])


VIEWS = {"by_key": by_key, "total": total, "both": both}


class Read(References):
    """The real references; instead of SQL they give what is to be read. ``rows``: by name, what the
    shards hold at the time of the run that found them, which no later replacement takes away.
    """

    rows: dict[str, Rows]

    def read_at(self, query: str, time: int) -> str:
        times = self.points(time).times
        for name, at in times.items():
            as_of.check_readable(self.shards[name].state, at)
        contents = {name: sorted(rows.elements()) for name, rows in self.rows.items()}
        return json.dumps({"view": query, "rows": contents})


@dataclass
class World:
    """The source, and the shards by name."""

    source: Rows = field(default_factory=lambda: Counter({("a", 1): 1}))
    storages: dict[str, MemoryStorage] = field(default_factory=lambda: defaultdict(MemoryStorage))

    def __post_init__(self) -> None:
        self.client = ShardClient(locate=self.storages.__getitem__)
        for name in READS:
            self.client.open_writer(name, SCHEMA).expire()

    def rows(self, name: str, time: int) -> Rows:
        """What the shard holds as of ``time``."""
        with self.reader(name) as reader:
            table = reader.snapshot(time).to_pylist()
        return Counter({(row["k"], row["n"]): row["_mv_diff"] for row in table})

    def reader(self, name: str) -> ReadHandle:
        return self.client.open_reader(name)

    def references(self, name: str, time: int) -> Read:
        """The references of a run at ``time``, as they are when it begins."""
        references, rows = {}, {}
        for each in READS[name]:
            reader = self.reader(each)
            state = reader.state()
            parts = layout_of(state, each, reader.files_in, reader.column_names)
            references[each] = Reference(each, each, state, parts, history=reader.history)
            if state.since.less_equal_time(time):
                rows[each] = self.rows(each, references[each].time_for(time))
        read = Read(references)
        object.__setattr__(read, "rows", rows)
        return read

    def evaluate(self, query: str) -> Rows:
        described = json.loads(query)
        if described["view"] == "base":
            return Counter(self.source)
        rows = described["rows"]
        return VIEWS[described["view"]](
            *(Counter(map(tuple, rows[name])) for name in READS[described["view"]])
        )

    def compact(self, name: str) -> None:
        with self.client.open_writer(name, SCHEMA) as handle:
            plan = compaction_due(handle.state())
            if plan is not None:
                compact_with_pyarrow(handle, plan)


@dataclass
class Evaluated:
    """`Write` whose query is evaluated in Python."""

    world: World
    name: str
    handle: object

    def stage(self, at, *_):
        state = self.handle.state()
        before = self.world.rows(self.name, state.upper.stored() - 1) if state.readable else Counter()
        return self.difference(before, at)

    def first_load(self, at):
        return self.difference(Counter(), at)

    def difference(self, before, at):
        after = self.world.evaluate(at.desired.query)
        diffs = {row: after[row] - before[row] for row in after | before if after[row] != before[row]}
        table = pa.table(
            {
                "k": [k for k, _ in diffs],
                "n": pa.array([n for _, n in diffs], pa.int64()),
                "_mv_time": pa.array([at.time] * len(diffs), pa.int64()),
                "_mv_diff": pa.array(diffs.values(), pa.int64()),
            }
        )
        counts = Counts(sum(d for d in diffs.values() if d > 0), -sum(d for d in diffs.values() if d < 0))
        return Written(
            self.handle.batch(table, at.description.lower, at.description.upper) if diffs else None, counts
        )


def run(
    world: World, name: str, time: int, references: Read, ledger: Ledger, *, full_refresh: bool = False
) -> Outcome:
    """One view's run, with the references that it found before, as the dbt layer has it."""
    with world.client.open_writer(name, SCHEMA) as handle:
        read = origins_read(references.shards.values(), time, ledger)
        request = SinkRequest(
            name,
            name,
            shard_columns(SCHEMA),
            time,
            time,
            retain_history=1000,
            references=references,
            superseded=read.superseded(time),
            full_refresh=full_refresh,
        )
        driver = Driver(request, handle, NoEngine())
        driver.write = Evaluated(world, name, handle)
        outcome = driver.run()
        ledger.origins[name] = origins_after(name, outcome, handle.history, read, time)
        return outcome


@dataclass
class Writer:
    """A run of all views at one time, step by step: find the references of a view, then run it."""

    world: World
    time: int
    wrote: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)
    ledger: Ledger = field(default_factory=Ledger)
    base: Rows | None = None  # as of its time, if it wrote it

    def steps(self):
        for name in READS:
            references = self.world.references(name, self.time)
            yield
            outcome = run(self.world, name, self.time, references, self.ledger)
            if outcome.superseded:
                self.left.add(name)
            elif not outcome.up_to_date:
                self.wrote.add(name)
                if name == "base":
                    self.base = self.world.rows(name, self.time)
            yield

    def whole(self) -> None:
        for _ in self.steps():
            pass


def assert_consistent(world: World, writer: Writer) -> None:
    """All views that a run wrote hold what the queries make of one `base`, that of the run's time:
    they fit together, each with all.
    """
    base = world.rows("base", writer.time) if writer.base is None else writer.base
    fitting = {"base": base, "by_key": by_key(base), "total": total(base)}
    fitting["both"] = both(fitting["by_key"], fitting["total"])
    for name in writer.wrote:
        assert world.rows(name, writer.time) == fitting[name], (name, writer.time)


def changed(world: World, chance: random.Random) -> None:
    """The source gains or loses a row."""
    if len(world.source) > 2 and chance.random() < 0.4:
        del world.source[chance.choice(sorted(world.source))]
    else:
        world.source[chance.choice("abc"), chance.randrange(4)] += 1


def interleaved(seed: int, at_once: int) -> list[Writer]:
    """One whole run, then twice so many ``at_once``. The order of steps and of times is by chance;
    often the earliest begins and waits while the latest supersedes it."""
    chance = random.Random(seed)
    world = World()
    writers = [Writer(world, T0)]
    writers[0].whole()
    for begin in (T0 + 1, T0 + 5):
        several = [Writer(world, time) for time in sorted(chance.sample(range(begin, begin + 8), at_once))]
        writers += several
        going = [writer.steps() for writer in several]
        first, last = going[0], going[-1]
        turns = (
            [first] * chance.randint(1, 7) + [last] * chance.randint(1, 8) + [first] * 8
            if chance.random() < 0.5
            else []
        )
        while going:
            step = turns.pop(0) if turns else chance.choice(going)
            if next(step, "done") == "done" and step in going:
                going.remove(step)
            if chance.random() < 0.3:
                changed(world, chance)
            if chance.random() < 0.1:
                world.compact(chance.choice(list(READS)))
    return writers


def check_interleavings(interleavings: int, at_once: int) -> Counter[str]:
    """How many runs wrote all views, some, and left some."""
    outcomes: Counter[str] = Counter()
    for seed in range(interleavings):
        writers = interleaved(seed, at_once)
        for writer in writers:
            assert_consistent(writer.world, writer)
            outcomes["whole"] += writer.wrote == set(READS)
            outcomes["late"] += 0 < len(writer.wrote) < len(READS)
            outcomes["left"] += bool(writer.left)
        latest = max(writers, key=lambda writer: writer.time)
        assert latest.wrote == set(READS), "no run supersedes the latest: what others left is written"
    return outcomes


@pytest.mark.parametrize(("at_once", "interleavings"), [(2, INTERLEAVINGS), (3, INTERLEAVINGS // 2)])
def test_all_that_a_run_wrote_fits_together_whatever_ran_meanwhile(at_once, interleavings):
    outcomes = check_interleavings(interleavings, at_once)
    # every kind of run did happen
    assert (
        outcomes["whole"] > 2 * interleavings
        and outcomes["late"] > interleavings / 4
        and outcomes["left"] > interleavings / 10
    )


def test_without_leaving_what_was_superseded_it_would_not_fit(monkeypatch):
    """The property can fail: it does where a run writes whatever is due."""
    monkeypatch.setattr(Origins, "superseded", lambda self, time: None)
    with pytest.raises(AssertionError):
        check_interleavings(INTERLEAVINGS, 2)


def test_reading_references_at_their_newest_would_not_be_consistent(monkeypatch):
    """The property can fail: it does where references are read as they stand."""
    monkeypatch.setattr(Reference, "time_for", lambda self, wanted: self.state.upper.stored() - 1)
    with pytest.raises(AssertionError):
        check_interleavings(INTERLEAVINGS, 2)


def test_writers_in_threads_are_consistent_too():
    for seed in range(20):
        world = World()
        Writer(world, T0).whole()
        changed(world, random.Random(seed))
        writers = [Writer(world, T0 + 1), Writer(world, T0 + 2)]
        threads = [threading.Thread(target=writer.whole) for writer in writers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert "base" in writers[1].wrote or "base" in writers[0].wrote
        for writer in writers:
            assert_consistent(world, writer)


def with_full_refreshes(seed: int) -> tuple[World, list[Writer], Counter[str]]:
    """One whole run, then one that a later run's `run --select m --full-refresh` meets at a step by
    chance: sometimes several models, each by a run of its own. Then a run of all views.
    """
    chance = random.Random(seed)
    world, outcomes = World(), Counter()
    Writer(world, T0).whole()
    changed(world, chance)
    earlier = Writer(world, T0 + 1)
    refreshed = dict(zip(chance.sample(list(READS), chance.randint(1, 3)), range(T0 + 2, T0 + 5)))
    turns = sorted(refreshed, key=list(READS).index)
    for _ in earlier.steps():
        while turns and chance.random() < 0.4:
            name = turns.pop(0)
            time = refreshed[name]
            run(world, name, time, world.references(name, time), Ledger(), full_refresh=True)
            changed(world, chance)
            outcomes["beside"] += 1
    latest = Writer(world, T0 + 9)
    latest.whole()
    outcomes["left"] += bool(earlier.left)
    replaced = refreshed.keys() - set(turns)
    earlier.wrote -= replaced  # no longer readable as of its time
    earlier.base = Counter() if earlier.base is None and "base" in replaced else earlier.base
    return world, [earlier, latest], outcomes


def test_row_j_a_run_beside_full_refreshes_by_later_runs_succeeds():
    """What a later run replaced has no contents as of the earlier run's time: what reads it is
    left, also where it read what the earlier run had written.
    """
    outcomes: Counter[str] = Counter()
    for seed in range(FULL_REFRESHES):
        world, writers, happened = with_full_refreshes(seed)
        for writer in writers:
            assert_consistent(world, writer)
        assert writers[-1].wrote == set(READS)
        outcomes += happened
    assert outcomes["beside"] > FULL_REFRESHES and outcomes["left"] > FULL_REFRESHES / 4
