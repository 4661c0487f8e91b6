"""Groups in two steps: sums that are maintained from changes alone, and the model's columns from
them. After every run of a random history both are what the queries give. On DuckDB.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink.engine import arrow_schema
from dbt.adapters.mvsink.engine.timing import Stopwatch
from dbt.adapters.mvsink.incremental import NotIncremental, Sums, analyse, sums_of
from dbt.adapters.mvsink.inputs.reference import Reference, References
from dbt.adapters.mvsink.materialization.kept_sums import Keeper, KeptSums, OverSums
from dbt.adapters.mvsink.shard import Progress, ShardClient, files_number
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.sink import Driver, Increment, Outcome
from tests.property.test_increment_faults import POINTS, STAGED, change, killed
from tests.property.test_increments import World, unlimited
from tests.support.known_inputs import KnownInputs
from tests.support.seldom import often
from tests.support.session_engine import Model, open_shard
from tests.support.shards import SCHEMA

HISTORIES = int(os.environ.get("MVSINK_SUMS_HISTORIES", "1"))
RUNS = 6
COLUMNS = {"db.a": [("k", "int"), ("v", "string")], "db.b": [("k", "int"), ("v", "string")]}
QUERIES = (
    "select v, sum(k) s, avg(k) m, count(*) n from db.a group by v",
    "select v x, count(k) c, sum(k) s from db.a group by v having s > 4 and count(*) > 1",
    "select sum(k) s, count(*) n, avg(k) m from db.a where v <> 'x'",
    "select upper(v) u, count(case when k > 2 then 1 end) c, coalesce(sum(k), -1) s from db.a group by upper(v)",
    "select a.v, b.v w, sum(a.k * b.k) p, count(1) n from db.a a join db.b b on a.k = b.k group by 1, 2",
    "select a.k, sum(b.k) s, sum(b.k) * 2 t from db.a a left join db.b b on a.v = b.v group by a.k having a.k > 1",
    "with g as (select k, v from db.a union all select k, v from db.b) select v, sum(k) s from g group by all",
    "select v, sum(n) s, count(*) c from (select v, k, count(*) n from db.a group by v, k) d group by v",
    "select v, bool_and(k > 2) e, bool_or(k > 4) or v = 'x' s, count_if(k > 2) c from db.a group by v having bool_or(k < 5)",
)

_ = unlimited  # the fixture


def split(query: str) -> Sums:
    analysed = analyse(query, COLUMNS.get)
    assert not isinstance(analysed, NotIncremental), analysed.reason
    sums = sums_of(analysed)
    assert isinstance(sums, Sums), sums
    return sums


@pytest.mark.parametrize("query", often(QUERIES, QUERIES[1], *QUERIES[4:7], QUERIES[8]))
def test_the_sums_and_what_is_shown_of_them_are_those_of_the_query(query, tmp_path, unlimited):
    ran: Counter[bool] = Counter()
    sums = split(query)
    for seed in range(HISTORIES):
        world = World(seed, tmp_path / str(seed), sums.query)
        for run in range(RUNS):
            if run:
                world.change()
            ran[world.run()] += bool(run)
            stored = world.model.engine().query(_shown(world, sums), "shown")
            asked = References(world.known.references).read_at(query, world.time)
            assert Counter(stored) == Counter(world.engine.query(asked, "asked"))
    assert ran[True] >= HISTORIES


@pytest.mark.parametrize(
    ("number", "statements"), [(0, ["write"]), (4, ["keys", "write"])], ids=["a column", "an expression"]
)
def test_groups_whose_keys_the_changes_hold_are_added_up_by_one_statement(
    number, statements, tmp_path, unlimited
):
    world = World(1, tmp_path, split(QUERIES[number]).query)
    world.engine.cores = 1
    for step in range(3):
        world.time += 1000
        world.rows = {name: Counter({(k, "xyz"[k % 3]): 1 + step for k in range(6)}) for name in ("a", "b")}
        for name in world.rows:
            world.write(name)
        world.engine.ran.clear()
        assert world.ran().written.incremental is (step > 0)
        ran = [what for what, _ in world.engine.ran if what in ("keys", "write")]
        assert step == 0 or ran == statements


@dataclass(frozen=True)
class OfSums:
    """`Evidence` of a query over ``kept`` sums."""

    kept: KeptSums

    def unchanged(self, state, recorded, time) -> bool:
        return False

    def settled(self, state, recorded, time) -> bool:
        return False

    def progress(self, state, time) -> Progress:
        return Progress(plan=1, positions=self.kept.numbers(), files=files_number(state.files))

    def input_changes(self, state, recorded, time):
        return None

    def increment(self, state, recorded, time):
        return self.kept.increment(recorded)


def run_over(model: Model, kept: KeptSums, *, verify: bool = False) -> Outcome:
    """One run of the model after its sums."""
    references = OverSums(References(), kept.reference, kept.time)
    columns = model.columns(references.read_at(kept.query, kept.time))
    request = model.request(
        kept.query,
        columns=columns,
        time=kept.time,
        references=references,
        evidence=OfSums(kept),
        summed=True,
        verify=verify,
    )
    with open_shard(model.uri, arrow_schema(columns)) as handle:
        return Driver(request, handle, model.engine()).run()


def kept_of(world: World, shown: str) -> KeptSums:
    """The sums that ``world`` holds, and the query over them."""
    reader = ShardClient().open_reader(world.model.uri)
    state = reader.state()
    reference = Reference(
        "mvsink.sums",
        world.model.uri,
        state,
        Layout.of(reader, state),
        read=reader.columns_of,
        history=reader.history,
    )
    return KeptSums(reference, shown, world.time)


@pytest.fixture
def many(monkeypatch):
    """Of few sums, all are read; of many, those that changed."""
    monkeypatch.setattr("dbt.adapters.mvsink.materialization.kept_sums.LOCAL_ROWS", -1)


@pytest.mark.parametrize("query", often(QUERIES[:3], *QUERIES[1:3]))
@pytest.mark.parametrize("size", ["few", "many"])
def test_runs_that_end_between_the_two_commits(query, size, tmp_path, unlimited, request):
    """The sums are then ahead of the model, which follows from all that changed in them since."""
    if size == "many":
        request.getfixturevalue("many")
    ran: Counter[bool] = Counter()
    sums = split(query)
    shown = sums.shown("mvsink.sums", {})
    assert shown is not None
    for seed in range(HISTORIES):
        world = World(seed, tmp_path / str(seed), sums.query)
        model = Model(None, tmp_path / str(seed), "dev.shown")
        for run in range(RUNS):
            if run:
                world.change()
            world.run()
            if run and world.random.random() < 0.5:
                continue
            outcome = run_over(model, kept_of(world, shown))
            ran[outcome.written.incremental] += bool(run)
            asked = References(world.known.references).read_at(query, world.time)
            assert Counter(model.rows()) == Counter(world.engine.query(asked, "asked"))
    assert ran[True] > 0


def test_a_verification_of_a_model_of_few_sums_reports_drift_apart_from_change(tmp_path, unlimited):
    sums = split(QUERIES[0])
    shown = sums.shown("mvsink.sums", {})
    assert shown is not None
    world = World(5, tmp_path, sums.query)
    model = Model(None, tmp_path, "dev.shown")
    world.run()
    run_over(model, kept_of(world, shown))
    for lost in (False, True):
        if lost:
            world.time += 1000
            World.lose_a_row(SimpleNamespace(model=model), progress=True)  # type: ignore[arg-type]
        change(world)
        world.run()
        outcome = run_over(model, kept_of(world, shown), verify=True)
        assert outcome.written.drift is not None and outcome.written.drift.counts.nothing is not lost
        asked = References(world.known.references).read_at(QUERIES[0], world.time)
        assert Counter(model.rows()) == Counter(world.engine.query(asked, "asked"))


KILLED = {
    **{f"the sums, {point}": (point, True, "many") for point in (*POINTS, STAGED)},
    **{f"the model, {point}": (point, False, "many") for point in POINTS},
    **{f"the model of few sums, {point}": (point, False, "few") for point in ("staged", "appended")},
}


@pytest.mark.parametrize(
    "name",
    often(
        KILLED,
        "the sums, appended",
        f"the sums, {STAGED}",
        "the model, staged",
        "the model of few sums, appended",
    ),
)
def test_a_run_after_one_that_was_killed_holds_what_the_query_gives(name, tmp_path, unlimited, request):
    """Killed while it brought the sums to its time, or the model to the sums; the model's query
    over the sums has no keys.
    """
    point, of_sums, size = KILLED[name]
    if size == "many":
        request.getfixturevalue("many")
    sums = split(QUERIES[0])
    shown = sums.shown("mvsink.sums", {})
    assert shown is not None
    world = World(5, tmp_path, sums.query)
    model = Model(None, tmp_path, "dev.shown")

    def run() -> Outcome:
        world.run()
        return run_over(model, kept_of(world, shown))

    run()
    change(world)
    if of_sums:
        with killed(point):
            world.run()
    else:
        world.run()
        with killed(point):
            run_over(model, kept_of(world, shown))
    for again in (False, True):
        if again:
            change(world)
        outcome = run()
        assert outcome.written.incremental or outcome.counts.nothing
        asked = References(world.known.references).read_at(QUERIES[0], world.time)
        assert Counter(model.rows()) == Counter(world.engine.query(asked, "asked"))


def test_sums_of_which_nothing_changed_are_used_those_of_another_run_are_not(tmp_path, unlimited):
    query = QUERIES[0]
    world = World(5, tmp_path)
    analysed = analyse(query, COLUMNS.get)
    options, invocation = SimpleNamespace(retain_history=0), SimpleNamespace(id="", full_refresh=False)
    context = SimpleNamespace(
        model="m",
        client=ShardClient(),
        engine=world.engine,
        options=options,
        invocation=invocation,
        query=query,
        storage_options=None,
    )
    known = KnownInputs(split(query).query, world.known.uris, world.engine)

    def keep() -> KeptSums | None:
        with ExitStack() as resources, open_shard(world.model.uri, SCHEMA) as handle:
            opened = SimpleNamespace(context=context, handle=handle)
            references = References(known.look())
            keeper = Keeper(opened, references, lambda query: known, Stopwatch(), verify=False)
            kept = keeper.keep(analysed, world.time, resources)
            assert not isinstance(kept, NotIncremental)
            return kept

    kept = keep()
    assert kept is not None and keep() is None  # a second run at that time
    recorded = kept.numbers()
    world.time += 1000
    for name in world.rows:
        world.write(name)  # the same rows
    kept = keep()
    assert kept is not None and isinstance(kept.increment(recorded.get), Increment)


def _shown(world: World, sums: Sums) -> str:
    text = sums.shown(f"(\n{world.model.view()}\n) as sums", {})
    assert text is not None
    return text
