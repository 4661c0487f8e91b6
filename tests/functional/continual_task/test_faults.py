"""A task that dies at any step of any pending time, and two replicas that meet at any step: the
output is the serial run's, update by update.

On DuckDB: what is tried here is the order of commits. After each death, and in each meeting, the
input lets go of all history without a hold, as its own next run may.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.continual_task.task_input import TaskHolds, TaskInput
from dbt.adapters.mvsink.shard import Antichain, ShardClient
from dbt.adapters.mvsink.shard.storage import is_part
from dbt.adapters.mvsink.shard_sql import OnError
from tests.functional.continual_task.driver import COPY, DELETES, UPSERT, Task
from tests.support.clocks import collect_at
from tests.support.seldom import often
from tests.support.shards import client, live, staged

CASES = {  # text, options, and the options of the run that is hurt
    "upsert, two statements": (UPSERT, {}, {}),
    "a copy, all times in one job": (COPY, {}, {}),
    "a copy, one by one": (COPY, {}, {"one_by_one": True}),
    "deletes, without snapshot": (
        f"on input db.i as (delete from db.t where key in (select key from {DELETES}); insert into db.t select key, val from db.i)",
        {"initial_snapshot": False}, {},
    ),
    "errors are recorded": (
        "on input db.i as (insert into db.t select key, cast(if(val = 7, 'x', '1') as bigint) from db.i)", {"on_error": OnError.RECORD}, {},
    ),
    "a reset": (UPSERT, {}, {"reset": True}),
}  # fmt: skip
HISTORY = [
    (20, [(1, 5, 1)]), (30, [(2, 2, -1)]), (40, [(3, 7, 2), ("bad", 1)]), (50, [(1, 7, 1), ("bad", -1)]), (55, [(3, 7, -1)]), (60, [(1, 5, -1)]),
]  # fmt: skip
TIME = 58  # of the run that is hurt: the last change is not its business


class Killed(Exception):
    """As if the process had died here."""


def prepare(root: Path, case: str, *, begun: bool) -> Task:
    """The task, with all of its input there; ``begun``: it has run at 12."""
    text, options, _ = CASES[case]
    task = Task(None, root, text, options=options, client=client("delta", root))
    task.input.write(10, [(1, 1, 1), (2, 2, 2)])
    if begun:
        task.run(12)
    for time, updates in HISTORY:
        task.input.write(time, updates)
    task.client = ShardClient()  # so that the next run has nothing cached
    return task


def copy(task: Task, root: Path) -> Task:
    shutil.copytree(task.root, root)
    return Task(None, root, task.text, options=task.options)


def let_go(task: Task) -> None:
    """The input keeps no more than it has to."""
    with task.input.open() as handle:
        handle.downgrade_since(Antichain.of(handle.upper.stored() - 1))


def held_by(root: Path) -> tuple[list[tuple], int | None]:
    """The updates that the output holds, and its upper."""
    output = Task(None, root, "", client=client("delta", root)).output
    return output.updates(), output.upper


def points(task: Task, root: Path, **options) -> list[str]:
    """All that a serial run reaches, in order."""
    reached: list[str] = []
    failpoints.install(reached.append)
    copy(task, root).run(TIME, **options)
    failpoints.install(None)
    return reached


def at(number: int, act) -> None:
    """Have ``act`` called once, at the point of that number."""
    count = iter(range(10_000))

    def hook(_: str) -> None:
        if next(count) == number:
            failpoints.install(None)
            act()

    failpoints.install(hook)


@pytest.mark.parametrize("begun", often([False, True], True), ids=["first run", "later run"])
@pytest.mark.parametrize("case", often(CASES, "upsert, two statements", "a reset"))
def test_killed_anywhere(tmp_path, case, begun):
    task, options = prepare(tmp_path / "task", case, begun=begun), CASES[case][2]
    reached = points(task, tmp_path / "serial", **options)
    wanted = held_by(tmp_path / "serial")
    assert set(reached) <= {"looked", "held", "upper raised", "statement staged", "staged", "appended"}
    for number, point in enumerate(reached):
        again = copy(task, tmp_path / str(number))

        def die():
            raise Killed

        at(number, die)
        with pytest.raises(Killed):
            again.run(TIME, **options)
        let_go(again)
        again.run(
            TIME, **{**options, "reset": options.get("reset", False) and again.output.state().generation == 0}
        )
        assert held_by(again.root) == wanted, (number, point)


def test_a_reset_that_dies_before_its_commit_has_released_nothing(tmp_path):
    task = prepare(tmp_path / "task", "upsert, two statements", begun=True)
    serial = copy(task, tmp_path / "serial")
    serial.run(TIME)

    def die():
        raise Killed

    at(0, die)  # its input is held
    with pytest.raises(Killed):
        task.run(TIME, reset=True)
    let_go(task)
    task.run(TIME)
    assert (task.output.updates(), task.output.upper) == (serial.output.updates(), serial.output.upper)


@pytest.mark.parametrize("begun", often([False, True], True), ids=["first run", "later run"])
@pytest.mark.parametrize(
    "case",
    often([case for case in CASES if case != "a reset"], "upsert, two statements"),
)
def test_another_replica_runs_at_any_step(tmp_path, case, begun):
    task, options = prepare(tmp_path / "task", case, begun=begun), CASES[case][2]
    reached = points(task, tmp_path / "serial", **options)
    wanted, begun_at = (
        held_by(tmp_path / "serial"),
        Task(None, tmp_path / "serial", task.text).output.state().creation,
    )
    mismatches = 0
    for number, point in enumerate(reached):
        for other_time in (TIME, 45):  # the other one goes as far as this one, or not as far
            again = copy(task, tmp_path / f"{number}-{other_time}")

            def other(again=again, time=other_time):
                again.run(time)
                let_go(again)

            at(number, other)
            mismatches += again.run(TIME, **options).mismatches
            holds, creation = held_by(again.root), again.output.state().creation
            if creation == begun_at:
                assert holds == wanted, (number, point)
            else:  # it began first, and at its own time
                assert (point, creation) == ("held", 45)
                assert holds[1] == wanted[1]
    assert mismatches


def two_starts(tmp_path, *, reset=False):
    """A task that no run has started: replicas at 45 and at 58 would begin it at different times.
    ``reset``: begun, to be begun again.
    """
    task = Task(None, tmp_path, COPY)
    for time, key in ((10, 1), (50, 2), (60, 3)):
        if reset and time == 50:
            task.run(10)
        task.input.write(time, [(key, key, 1)])
    return task


@pytest.mark.parametrize("reset", [False, True], ids=["begun", "begun again"])
def test_a_replica_that_would_begin_later_releases_nothing_that_an_earlier_one_needs(tmp_path, reset):
    """They share one hold. The later one has taken it, and the input has released the history
    without a hold, when the earlier one wins.
    """
    task = two_starts(tmp_path, reset=reset)

    def die():
        raise Killed

    def other():
        at(0, die)  # its input is held
        with pytest.raises(Killed):
            task.run(58, reset=reset)
        let_go(task)
        assert task.input.state().since == Antichain.of(10 if reset else 45)

    at(0, other)  # as soon as the input is held
    task.run(45, reset=reset)
    assert (task.output.state().creation, task.output.updates()) == (45, [(45, 1, 1, 1)])
    assert task.run(60).times == (50, 60)


def test_a_hold_of_a_replica_that_died_before_it_began_moves_with_the_one_that_does(tmp_path):
    task = two_starts(tmp_path)

    def die():
        raise Killed

    at(0, die)
    with pytest.raises(Killed):
        task.run(45)
    assert list(task.input.state().holds.values()) == [45]
    task.run(58)
    # before its upper, as ever
    assert (task.output.state().creation, list(task.input.state().holds.values())) == (58, [59])


@pytest.mark.parametrize(
    ("owner", "point"),
    [(TaskInput, "start"), (TaskHolds, "take")],
    ids=["before it reads the input", "before it holds the input"],
)
def test_a_replica_that_would_begin_earlier_than_one_that_has_gone_on_follows_it(
    tmp_path, monkeypatch, owner, point
):
    """The history at its own start is released by then, which is not an error."""
    task = two_starts(tmp_path)
    original = getattr(owner, point)

    def another_first(self, *arguments, **options):
        monkeypatch.setattr(owner, point, original)
        task.run(58)
        let_go(task)
        return getattr(self, point)(*arguments, **options)

    monkeypatch.setattr(owner, point, another_first)
    assert task.run(45).times == ()
    assert (task.output.state().creation, task.output.updates()) == (58, [(58, 1, 1, 1), (58, 2, 2, 1)])


def test_a_replica_that_finishes_the_task_leaves_nothing_undone_for_the_others(tmp_path):
    """The hold goes with the commit that needs nothing more of the input; who is still at an
    earlier time finds all of it done.
    """
    task = prepare(tmp_path / "task", "a copy, all times in one job", begun=True)
    task.input.advance(None)
    reached = points(task, tmp_path / "serial")
    wanted = Task(None, tmp_path / "serial", task.text).output
    for number, point in enumerate(reached):
        again = copy(task, tmp_path / str(number))

        def other(again=again):
            again.run(99)
            with again.input.open() as handle:
                assert handle.state().holds == {}
                handle.downgrade_since(Antichain.of(90))

        at(number, other)
        again.run(TIME)
        again.run(99)
        assert again.output.upper is None, (number, point)
        assert [u for u in again.output.updates() if u[0] <= TIME] == wanted.updates(), (number, point)


def test_a_replica_whose_task_is_dropped_while_it_runs_takes_no_hold_again(tmp_path):
    task = prepare(tmp_path / "task", "a copy, all times in one job", begun=True)

    def drop():
        with task.output.open() as output, task.input.open() as source:
            output.mark_dropped(1)
            source.release_hold(str(output.shard_id))

    at(points(task, tmp_path / "serial").index("appended"), drop)
    task.run(TIME)
    assert task.input.state().holds == {}
    let_go(task)
    task.run(99)
    assert (task.output.state().generation, task.output.contents()) == (1, [(1, 1), (1, 7), (2, 2), (3, 7)])
    assert list(task.input.state().holds.values()) == [60]


def test_two_threads(tmp_path):
    task = prepare(tmp_path / "task", "upsert, two statements", begun=True)
    serial = copy(task, tmp_path / "serial")
    serial.run(99)
    for number in range(5):
        again = copy(task, tmp_path / str(number))
        failures: list[BaseException] = []

        def work(again=again, failures=failures):
            try:
                again.run(99)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert (again.output.updates(), again.output.upper) == (serial.output.updates(), serial.output.upper)


PROCESS = """
import os, sys
from pathlib import Path
from dbt.adapters.mvsink import failpoints
from tests.functional.continual_task.driver import UPSERT, Task

left = [int(sys.argv[2])]
def hook(point):
    left[0] -= 1
    if left[0] < 0:
        os._exit(9)
failpoints.install(hook)
Task(None, Path(sys.argv[1]), UPSERT).run(58)
"""


@pytest.mark.seldom
def test_a_process_that_is_killed_again_and_again_leaves_nothing_behind(tmp_path):
    """Every process lives longer than the one before; together they come to the end."""
    task = prepare(tmp_path / "task", "upsert, two statements", begun=True)
    serial = copy(task, tmp_path / "serial")
    serial.run(TIME)
    for steps in (0, 2, 99):
        done = subprocess.run(
            [sys.executable, "-c", PROCESS, str(task.root), str(steps)],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])},
            timeout=120,
        )
        assert done.returncode == (0 if steps == 99 else 9)
        let_go(task)
    assert (task.output.updates(), task.output.upper) == (serial.output.updates(), serial.output.upper)
    with task.output.open() as handle:
        assert len({path for path in staged(handle) if is_part(path)}) > len(live(handle))
        collect_at(handle, 4 * 10**12, staged_grace_ms=0)
        assert {path for path in staged(handle) if is_part(path)} == live(handle)
