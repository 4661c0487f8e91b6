"""A purge of a task's input, while the task has not read the input's newest generation."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.engine import Engine
from dbt.adapters.mvsink.inputs import HistoryGone
from dbt.adapters.mvsink.materialization.purged_model import PurgeAnswer, PurgedModel
from dbt.adapters.mvsink.sink.purging import PurgeRequest
from tests.functional.continual_task.driver import DAY, DELETES, Shard, Task

BOTH = f"on input db.i as (insert into db.t select key, val from db.i; insert into db.t select -key, val from {DELETES})"


def purge(shard: Shard, engine: Engine, *, task: bool = False, **request) -> PurgeAnswer:
    with shard.open() as handle:
        model = PurgedModel(engine, handle, shard.client, None, "db.i", None, None)
        return model.purge(PurgeRequest("db.i", 25, "ada", appends=not task, **request))


def started(tmp_path) -> Task:
    """A task that has processed its input up to 10."""
    task = Task(None, tmp_path, BOTH)
    task.input.write(10, [(1, 1, 1), (2, 2, 1)])
    task.run(10)
    assert task.output.contents() == [(1, 1), (2, 2)]
    return task


def recreated(task: Task) -> None:
    task.input.remake(20, [(2, 2, 1), (3, 3, 1)])


PURGES = {
    "by a condition": {"where": "key = 9"},
    "by age": {"before": 25},
}


@pytest.mark.parametrize("request_of", PURGES.values(), ids=PURGES)
def test_the_old_files_stay_for_a_task_that_has_not_read_the_new_generation(tmp_path, request_of):
    task = started(tmp_path)
    recreated(task)
    answer = purge(task.input, task.engine(), **request_of)
    [left] = answer.left
    assert left.files and list(left.holds) == [str(task.output.state().shard_id)] and not answer.deleted
    task.run(30)
    assert task.output.contents() == [(-1, 1), (1, 1), (2, 2), (3, 3)]
    assert purge(task.input, task.engine(), **request_of).left == ()


def test_nor_for_the_generation_that_a_purge_begins(tmp_path):
    """That of a task's output, which another task watches."""
    task = started(tmp_path)
    answer = purge(task.input, task.engine(), task=True, where="key = 1")
    [left] = answer.left
    assert answer.renewed and left.files and list(left.holds) == [str(task.output.state().shard_id)]
    assert task.input.contents() == [(2, 2)]
    task.input.write(30, [(4, 4, 1)])
    task.run(30)
    assert task.output.contents() == [(-1, 1), (1, 1), (2, 2), (4, 4)]
    assert purge(task.input, task.engine(), task=True, where="key = 1").left == ()


@pytest.mark.parametrize("task", [False, True], ids=["its time is free", "a task"])
def test_what_is_announced_is_done(tmp_path, task):
    shard, engine = started(tmp_path).input, Task(None, tmp_path, BOTH).engine()
    for upper, renewed in ((20, task), (40, True)):  # 40 is past the purge's time
        shard.advance(upper)
        with shard.open() as handle:
            model = PurgedModel(engine, handle, shard.client, None, "db.i", None, None)
            request = PurgeRequest("db.i", 25, "ada", where=f"key = {2 if renewed else 1}", appends=not task)
            assert model.forecast(request).renewed == model.purge(request).renewed == renewed
        if renewed:
            break


def test_now_deletes_them_and_the_task_is_refused(tmp_path):
    task = started(tmp_path)
    recreated(task)
    assert purge(task.input, task.engine(), where="key = 9", despite_readers=True).left == ()
    with pytest.raises(HistoryGone, match="files of generation 0 were removed"):
        task.run(30)


def test_a_purge_by_age_leaves_younger_earlier_generations(tmp_path):
    shard = Shard(str(tmp_path / "i"))
    engine = Task(None, tmp_path, BOTH).engine()
    shard.write(5, [(1, 1, 1)])
    shard.write(10, [(2, 2, 1)])
    with shard.open() as handle:
        handle.downgrade_since(handle.state().since.join(handle.state().upper.of(8)))
        batch = handle.batch(
            shard.table(20, [(3, 3, 1)]), handle.state().upper.of(20), handle.state().upper.of(21)
        )
        handle.replace(
            [batch], shard.schema, handle.state().upper.of(21), handle.state().upper.of(20), keeps=DAY
        )
        [kept] = handle.kept_generations(handle.state())
        assert (kept.last.since.stored(), kept.end) == (8, 20)
    answer = purge(shard, engine, before=8)
    assert (answer.generations, answer.left, answer.since) == (0, (), 20)
    with shard.open() as handle:
        assert handle.kept_generations(handle.state()) == (kept,)
    answer = purge(shard, engine, before=9)  # the generation has an older time
    assert answer.left[0].files
    answer = purge(shard, engine, before=20)
    assert (answer.generations, answer.left) == (1, ())
    with shard.open() as handle:
        assert handle.kept_generations(handle.state()) == ()
