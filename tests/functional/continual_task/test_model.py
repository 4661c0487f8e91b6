"""Random tasks over random histories, update by update against an evaluator in plain Python
(`tests.support.task_model`).

Most run on DuckDB; some on Spark too, and then what both wrote must be the same.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from tests.functional.continual_task.driver import CONTENTS, DELETES, NOW, Task
from tests.support.shards import client
from tests.support.task_model import Collection, ModelTask, Step, Updates, random_history, random_steps

PROGRAMS = int(os.environ.get("MVSINK_TASK_PROGRAMS", "25"))
BLOCK = 25
ON_SPARK = 4


@dataclass
class Trial:
    """A task, its input's and its reference's history, and when it runs: at each run, what is known
    by then of both.
    """

    seed: int
    steps: list[Step] = field(default_factory=list)
    # time of the run, the input's upper then
    runs: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = random.Random(self.seed)
        self.steps = random_steps(rng)
        times = sorted(rng.sample(range(10, 60), rng.randint(1, 7)))
        # with an error in it, the whole input is not read
        errors = rng.random() < 0.3 and not any(step.uses_whole for step in self.steps)
        self.history: Updates = random_history(rng, times, errors=errors)
        self.reference: Updates = random_history(
            rng, [9, *sorted(rng.sample(range(12, 60), 2))], errors=False
        )
        self.snapshot = rng.random() < 0.7
        self.retain = rng.choice([86_400_000, 86_400_000, 1, 10])
        self.one_by_one = rng.random() < 0.2
        uppers = sorted(rng.sample(range(12, 70), rng.randint(1, 3)))
        self.runs = [(rng.choice([upper - 1, upper + 5, max(11, upper - 8)]), upper) for upper in uppers]

    def text(self) -> str:
        names = {
            "i": "db.i",
            "d": DELETES,
            "t": "db.t",
            "r": "db.r",
            "w": CONTENTS,
            "now": f"unix_millis({NOW})",
        }
        return f"on input db.i as ({'; '.join(step.text.format(**names) for step in self.steps)})"

    def __str__(self) -> str:
        options = f"snapshot {self.snapshot}, retain {self.retain}, runs (time, input's upper) {self.runs}"
        return (
            f"\nseed {self.seed}: {self.text()}\ninput {self.history}\nreference {self.reference}\n{options}"
        )

    def run(self, session, root) -> tuple[Task, ModelTask]:
        root.mkdir()
        references = ("db.r",) if any(step.uses_reference for step in self.steps) else ()
        # as of one process
        task = Task(session, root, self.text(), references, client=client("delta", root))
        model = ModelTask(self.steps, self.snapshot)
        engine = task.engine()
        known, r = Collection(), Collection()
        for time, upper in self.runs:
            for shard, collection, history in (
                (task.input, known, self.history),
                (task.reference("db.r"), r, self.reference),
            ):
                self._write(shard, collection, history, upper if collection is known else max(10, upper - 10))
            task.run(
                time,
                engine=engine,
                initial_snapshot=self.snapshot,
                retain_history=self.retain,
                one_by_one=self.one_by_one,
            )
            model.run(time, known, r)
            self.check(task, model)
        self.ran = engine.ran
        return task, model

    @staticmethod
    def _write(shard, collection: Collection, history: Updates, upper: int) -> None:
        for time in sorted(history):
            if collection.upper <= time < upper:
                updates = [
                    (*thing, n) if isinstance(thing, tuple) else (thing, n)
                    for thing, n in history[time].items()
                ]
                shard.write(time, updates)
                collection.updates[time] = history[time]
        if shard.open().upper.as_option() < upper:
            shard.advance(upper)
        collection.upper = upper

    def check(self, task: Task, model: ModelTask) -> None:
        state = task.output.state()
        assert state.upper.as_option() == model.output.upper, self
        since = state.since.as_option()
        wanted: Counter[tuple] = Counter()
        for time, updates in model.output.updates.items():
            for thing, diff in updates.items():
                row = thing if isinstance(thing, tuple) else (thing,)
                wanted[(max(time, since), *row)] += diff
        stored = Counter({tuple(update[:-1]): update[-1] for update in task.output.updates()})
        assert stored == Counter({update: diff for update, diff in wanted.items() if diff}), self


TOGETHER: list[int] = []  # the seeds whose pending times went in one job


@pytest.mark.parametrize("first", range(0, PROGRAMS, BLOCK))
def test_random_tasks(tmp_path, first):
    for seed in range(first, first + BLOCK):
        trial = Trial(seed)
        trial.run(None, tmp_path / str(seed))
        if not trial.one_by_one and any("_mv_time, 1L _mv_diff from" in text for _, text in trial.ran):
            TOGETHER.append(seed)


def test_some_of_them_were_computed_several_times_at_once():
    assert TOGETHER


def test_random_tasks_on_spark(quick, tmp_path):
    for seed in range(1000, 1000 + ON_SPARK):
        Trial(seed).run(quick, tmp_path / str(seed))
