"""Incremental runs that are killed, and runs that race: contents are right, and every change is
counted once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.shard import Batch, Progress, StagedDirectory, files_number
from dbt.adapters.mvsink.shard_sql.stager import Stager
from dbt.adapters.mvsink.sink import Outcome
from dbt.adapters.mvsink.sink.staged import StagedKeys
from tests.property.test_increments import QUERIES, World, unlimited  # noqa: F401
from tests.support.known_inputs import KnownInputs
from tests.support.seldom import often
from tests.support.session_engine import open_shard

CHOSEN = (QUERIES[1], QUERIES[5], QUERIES[8])
POINTS = ("changes staged", "staged", "appended")
STAGED = "keys staged"  # where the query groups; not one of `failpoints`


class Killed(BaseException):
    pass


@contextmanager
def at(point: str, do: Callable[[], object]) -> Iterator[None]:
    """``do`` when the next run reaches ``point``, once."""
    stage, of = Stager.stage, StagedKeys.of

    def hook(reached: str) -> None:
        if reached == point:
            failpoints.install(None)
            do()

    def staged(self: Stager, query: str, what: str, *rest: Any) -> StagedDirectory:
        directory = stage(self, query, what, *rest)
        if what == "keys":
            failpoints.reach(STAGED)
        return directory

    def known(*arguments: Any, **more: Any) -> StagedKeys:
        keys = of(*arguments, **more)
        failpoints.reach(STAGED)
        return keys

    failpoints.install(hook)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Stager, "stage", staged)
            patch.setattr(StagedKeys, "of", known)
            yield
    finally:
        failpoints.install(None)


@contextmanager
def killed(point: str) -> Iterator[None]:
    """The run inside ends at ``point`` and leaves what it has staged."""
    with pytest.MonkeyPatch.context() as patch:
        for owner in (StagedDirectory, Batch):
            patch.setattr(owner, "delete", lambda self: None)
        with at(point, die), pytest.raises(Killed):
            yield


def die() -> None:
    raise Killed


@pytest.fixture
def world(request: Any, tmp_path: Any, unlimited: None, monkeypatch: Any) -> World:  # noqa: F811
    """With a change that the model has yet to see."""
    monkeypatch.setattr("dbt.adapters.mvsink.sink.decide._in_vain", lambda _: None)
    world = World(5, tmp_path, request.param)
    world.run()
    change(world)
    return world


def change(world: World) -> None:
    """Of both inputs, in a row that every query shows."""
    world.time += 1000
    for name, rows in world.rows.items():
        row = (5, f"new{world.time}")
        rows[row] += 1
        world.write(name)


def counted(world: World) -> int:
    """The rows that commits of contents say that they changed."""
    with open_shard(world.model.uri, None) as handle:
        return sum(commit.note.rows_inserted + commit.note.rows_deleted for commit in handle.history())


KILLED = [*itertools.product(CHOSEN, POINTS), *((query, STAGED) for query in CHOSEN[1:])]


@pytest.mark.parametrize(
    "never", [False, pytest.param(True, marks=pytest.mark.seldom)], ids=["incremental", "full"]
)
@pytest.mark.parametrize(("world", "point"), KILLED, indirect=["world"])
def test_a_run_after_one_that_was_killed_holds_what_the_query_gives(world, point, never):
    with killed(point):
        world.ran()
    world.known.never = never
    outcome = world.ran()
    assert outcome.counts.nothing is (point == "appended")
    assert outcome.written.incremental is (not never and point != "appended")
    world.known.never = False
    change(world)
    assert world.ran().written.incremental


@pytest.mark.parametrize("ways", [(False, False), (False, True), (True, False)], ids=str)
@pytest.mark.parametrize("world", often(CHOSEN, *CHOSEN[1:]), indirect=True)
def test_of_two_runs_that_race_one_counts_the_change(world, ways):
    """``ways``: whether the first and the second evaluate the query. The second commits while the
    first has its correction staged.
    """
    before, raced = counted(world), []

    def overtake() -> None:
        world.known.never = ways[1]
        raced.append(world.ran())
        world.known.never = ways[0]

    world.known.never = ways[0]
    with at("staged", overtake):
        loser: Outcome = world.ran()
    [winner] = raced
    assert (winner.written.incremental, loser.mismatches) == (not ways[1], 1)
    assert loser.counts.nothing and not winner.counts.nothing
    assert counted(world) - before == winner.counts.inserted + winner.counts.deleted
    world.known.never = False
    change(world)
    assert world.ran().written.incremental


class OwnInputs(KnownInputs):
    """Of one of several runs: what the shard's contents were computed from is known by the number
    that is committed with them, as it is to runs in processes of their own.
    """

    numbers = itertools.count(10)
    computed_from: dict[int, tuple[int | None, dict[str, tuple[int, int]]]] = {}

    def progress(self, state: Any, time: int) -> Progress:
        super().progress(state, time)
        number = next(self.numbers)
        self.computed_from[number] = (self.contents, dict(self.read))
        return Progress(plan=number, files=files_number(state.files))

    def settled(self, state: Any, recorded: Any, time: int) -> bool:
        self._recall(state)
        return super().settled(state, recorded, time)

    def increment(self, state: Any, recorded: Any, time: int) -> Any:
        self._recall(state)
        return super().increment(state, recorded, time)

    def _recall(self, state: Any) -> None:
        self.contents, self.read = self.computed_from.get(state.plan, (None, {}))


@pytest.mark.parametrize("earlier", [True, False], ids=["winner earlier", "winner later"])
@pytest.mark.parametrize("world", CHOSEN[:2], indirect=True)
def test_of_two_runs_at_different_times_that_race_one_counts_the_change(world, earlier):
    def run(time: int) -> Outcome:
        world.known = OwnInputs(world.query, world.known.uris, world.engine)
        world.time = time
        return world.ran()

    run(world.time)
    change(world)
    now, raced = world.time, []
    times = (now, now + 500) if earlier else (now + 500, now)
    before = counted(world)
    with at("staged", lambda: raced.append(run(times[0]))):
        loser = run(times[1])
    [winner] = raced
    assert (winner.written.incremental, loser.mismatches, loser.counts.nothing) == (True, 1, True)
    assert counted(world) - before == winner.counts.inserted + winner.counts.deleted > 0
    world.time = now + 2000
    change(world)
    assert run(world.time).written.incremental
