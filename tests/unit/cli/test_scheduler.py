"""When `mvsink watch` runs which model, with a made-up world: no dbt, no Spark, no clock."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from dbt.adapters.mvsink.cli.dbt_runner import Model, RunResult
from dbt.adapters.mvsink.cli.scheduler import MAX_WAIT, Scheduler, WatchedModel, WatchRound
from dbt.adapters.mvsink.inputs.position import FILE_LIST, SHARD, Observation
from dbt.adapters.mvsink.inputs.probes import ProbedPlace, ProbedPlaces

SECOND = 1000
START = 1_000_000
FLIGHTS, PLANES = ProbedPlace(FILE_LIST, "/data/flights"), ProbedPlace(FILE_LIST, "/data/planes")


def shard(name):
    return ProbedPlace(SHARD, f"/shards/s/{name}")


@dataclass
class World:
    """Two chains: ``fct`` reads flights and ``dim``, which reads planes; ``agg`` reads ``fct``;
    the inputs of ``untrackable`` cannot be observed.
    """

    now: int = START
    places: dict = field(
        default_factory=lambda: {
            FLIGHTS: Observation("1", {"a": (1, 5)}),
            PLANES: Observation("1", {"b": (1, 5)}),
        }
    )
    intruders: set = field(default_factory=set)

    def __post_init__(self):
        upstream = {"dim": [], "fct": ["dim"], "agg": ["fct", "dim"], "untrackable": []}
        watched = [
            WatchedModel(Model(n, "self_correcting_mv", n), shard(n), frozenset(up))
            for n, up in upstream.items()
        ]
        self.scheduler = Scheduler(
            watched, lambda place, now: self.places.get(place), self.written_by_others, 10 * SECOND, START
        )
        self.reads = {"dim": {PLANES}, "fct": {FLIGHTS}, "agg": set(), "untrackable": set()}

    def written_by_others(self, place, before):
        return place in self.intruders

    def due(self, after=SECOND):
        """Who is due so much later."""
        self.now += after
        self.reasons, self.observations = self.scheduler.due(self.now)
        return set(self.reasons)

    def run(self, fail=(), skip=(), waits=()):
        """Run what is due; each run takes a second and writes the shard. ``waits`` has the models
        that a model waits for, by its name.
        """
        started, self.now = self.now, self.now + SECOND
        ran = []
        for name in self.reasons:
            status = "error" if name in fail else "skipped" if name in skip else "success"
            if status == "success":
                self.write(shard(name))
            response = {"waits_for": dict(waits)[name]} if name in dict(waits) else {}
            ran.append(RunResult(name, status, "", f"s.{name}", "", response))
        self.scheduler.done(ran, self.observations, started, self.now)
        for each in ran:
            if each.ok:
                inputs = ProbedPlaces(frozenset(self.reads[each.unique_id]), each.unique_id == "untrackable")
                self.scheduler.learned(each.unique_id, inputs, self.now)
        return WatchRound(tuple(ran), self.reasons, started, self.now)

    def write(self, place, files=None, **more):
        before = self.places.get(place)
        self.places[place] = Observation(str(int(before.signature) + 1 if before else 1), files or {}, **more)


@pytest.fixture
def world():
    """After the first round."""
    world = World()
    assert world.due() == {"dim", "fct", "agg", "untrackable"}
    world.run()
    return world


def test_nothing_changed_nothing_runs(world):
    assert world.due() == set()


CHANGES = {
    "a file": (FLIGHTS, {"fct", "agg"}),
    "what is upstream of everything": (PLANES, {"dim", "fct", "agg"}),
    "a shard that another run wrote": (shard("dim"), {"dim", "fct", "agg"}),
    "one at the end": (shard("agg"), {"agg"}),
    "something that no model reads": (ProbedPlace(FILE_LIST, "/data/other"), set()),
}


@pytest.mark.parametrize(("place", "due"), CHANGES.values(), ids=CHANGES)
def test_what_changed_and_what_is_downstream_of_it_runs_once(world, place, due):
    world.write(place)
    assert world.due() == due
    world.run()
    assert world.due() == set()


def test_a_model_with_untrackable_inputs_runs_every_interval(world):
    assert world.due(8 * SECOND) == set()
    assert world.due(2 * SECOND) == {"untrackable"}
    world.run()
    assert world.due(9 * SECOND) == {"untrackable"}  # counted from when it began


def test_what_a_task_waits_for_runs_at_once_and_then_every_interval_until_it_waits_no_more(world):
    """Here ``agg`` is the task."""
    world.write(FLIGHTS)
    assert world.due() == {"fct", "agg"}
    world.run(waits={"agg": ["dim", "not watched"]})
    assert world.due() == {"dim", "fct", "agg"}
    assert world.reasons["dim"].text == "a task waits for it"
    world.run(waits={"agg": ["dim"]})  # it is paused, perhaps
    assert world.due() == set()
    assert world.due(9 * SECOND) == {"dim", "fct", "agg", "untrackable"}
    world.run()
    assert world.due() == set()


def test_what_a_task_waits_for_runs_when_its_schedule_says(world):
    world.write(FLIGHTS)
    world.due()
    world.run(waits={"agg": ["dim"]})
    world.places[shard("dim")] = Observation("9", {}, scheduled=True, due=world.now + 3600 * SECOND)
    world.scheduler.watched["dim"].processed[shard("dim")] = world.places[shard("dim")]
    assert "dim" not in world.due()


def test_a_change_during_a_run_is_seen_by_the_next_round(world):
    world.write(FLIGHTS)
    world.due()
    world.write(FLIGHTS)
    world.run()
    assert world.due() == {"fct", "agg"}


def test_a_change_between_the_first_run_and_finding_out_what_it_read_is_not_lost():
    world = World()
    world.due()
    world.write(FLIGHTS, {"a": (1, 5), "new": (1, world.now + 1)})
    landed = world.now + 1
    world.run()
    assert world.due() == {"fct", "agg"} and world.reasons["fct"].since == landed
    world.run()
    assert world.due() == set()


def test_another_run_of_a_model_while_it_ran_makes_it_due_again(world):
    world.write(FLIGHTS)
    world.due()
    world.intruders = {shard("fct")}
    world.run()
    world.intruders = set()
    assert world.due() == {"fct", "agg"}
    world.run()
    assert world.due() == set()


def test_what_failed_waits_ever_longer_and_misses_nothing(world):
    world.write(FLIGHTS)
    for wait in (2, 4, 8, 16, 32, 60, 60):
        assert world.due() >= {"fct", "agg"}, wait
        world.run(fail={"fct"}, skip={"agg"})
        assert not world.due(wait * SECOND - SECOND) & {"fct", "agg"}, wait
    assert MAX_WAIT == 60 * SECOND
    assert world.due() >= {"fct", "agg"}
    world.run()
    assert not world.due() & {"fct", "agg"}


def test_when_dbt_itself_fails_all_of_them_wait(world):
    world.write(PLANES)
    world.scheduler.failed(world.due(), world.now)
    assert world.due() == set()
    assert world.due() == {"dim", "fct", "agg"}


def test_a_schedule_is_kept_whatever_changes(world):
    world.write(shard("fct"), scheduled=True, due=world.now + 5 * SECOND)
    world.scheduler.watched["fct"].processed[shard("fct")] = world.places[shard("fct")]
    world.write(PLANES)
    assert world.due() == {"dim", "agg"}
    world.run()
    assert world.due() == set()
    assert world.due(3 * SECOND) == {"fct", "agg"}
    assert world.reasons["fct"].text == "its schedule"


def test_how_fresh(world):
    landed = world.now + SECOND // 2
    world.write(FLIGHTS, {"a": (1, 5), "new": (1, landed)})
    world.due()
    assert {name: reason.since for name, reason in world.reasons.items()} == {"fct": landed, "agg": landed}
    assert world.run().delay == world.now - landed
    # copied with the time that it had: it was not there at the last look
    old = world.now - 3_600_000
    world.write(FLIGHTS, {"a": (1, 5), "new": (1, landed), "copied": (1, old)})
    world.due()
    assert world.reasons["fct"].since == world.now - 2 * SECOND


def test_a_shard_that_is_elsewhere_is_probed_there(world):
    moved = ProbedPlace(SHARD, "/elsewhere/fct")
    world.write(moved)
    world.scheduler.learned("fct", ProbedPlaces(frozenset({FLIGHTS})), world.now, moved)
    assert world.due() == set()
    world.write(shard("fct"))
    assert world.due() == set()
    world.write(moved)
    assert world.due() == {"fct", "agg"}
