"""docs/design/tasks.md: references that are late, inputs that are created again or whose history is
gone, and what others do to the output.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from dbt.adapters.mvsink.continual_task.errors import InputNotFollowed
from dbt.adapters.mvsink.engine import shard_columns
from dbt.adapters.mvsink.inputs import HistoryGone
from dbt.adapters.mvsink.shard import Antichain
from dbt.adapters.mvsink.shard_sql import NotRefreshed
from tests.functional.continual_task.driver import COPY, DAY, DELETES, UPSERT, Shard, Task

ONE, TWO = [(1, 1, 1)], [(2, 2, 1)]
LOOKUP = "on input db.i as (insert into db.t select i.key, r.val from db.i i left join db.r r using (key))"
WAIT = {"awaited": frozenset({"db.r"})}


def task_with(tmp_path, text=COPY, input=(), references=(), **options):
    """A task whose input has these ``(time, updates)``."""
    task = Task(None, tmp_path, text, references, options=options)
    for time, updates in input:
        task.input.write(time, updates)
    return task


# references

# the reference's (time, updates), its upper when the task runs at 50; what is read for 10, 20 and
# 30
AS_OF = {
    "in full, as of the time": (
        [(5, [(1, 5, 1)]), (20, [(1, 5, -1), (1, 20, 1)]), (40, [(1, 20, -1)])],
        [5, 20, 20],
        [],
    ),
    "not past the time: at its newest": (
        [(5, [(1, 5, 1)]), (15, [(1, 5, -1), (1, 15, 1)])],
        [5, 15, 15],
        [("db.r", 15, 16, False)],
    ),
    "exactly passed": ([(5, [(1, 5, 1)]), (30, [(1, 5, -1), (1, 30, 1)])], [5, 5, 30], []),
}


@pytest.mark.parametrize(("reference", "read", "late"), AS_OF.values(), ids=AS_OF)
def test_a_reference_is_read(tmp_path, reference, read, late):
    task = task_with(tmp_path, LOOKUP, references=("db.r",))
    for time, updates in reference:
        task.reference("db.r").write(time, updates)
    for time in (10, 20, 30):
        task.input.write(time, ONE)
        if time == 10:
            task.run(10)
    outcome = task.run(50)
    assert task.output.updates() == [(time, 1, val, 1) for time, val in zip((10, 20, 30), read)]
    assert [(x.name, x.time, x.upper, x.waits) for x in outcome.late] == late


def test_a_change_of_a_reference_triggers_nothing_and_revises_nothing(tmp_path):
    task = task_with(tmp_path, LOOKUP, [(10, ONE)], ("db.r",))
    task.reference("db.r").write(5, [(1, 5, 1)])
    task.run(10)
    task.reference("db.r").write(15, [(1, 5, -1), (1, 15, 1)])
    task.input.advance(50)
    assert task.run(50).times == ()
    assert (task.output.updates(), task.output.upper) == ([(10, 1, 5, 1)], 50)


def test_wait_a_time_stays_pending_until_the_reference_has_passed_it(tmp_path, caplog):
    task = task_with(tmp_path, LOOKUP, [(10, ONE)], ("db.r",), **WAIT)
    r = task.reference("db.r")
    r.write(12, [(1, 5, 1)])
    task.run(12)
    for time in (20, 30):
        task.input.write(time, ONE)
    r.advance(25)
    with caplog.at_level("DEBUG", "mvsink.task"):
        outcome = task.run(50)
    # the upper moved to the time that waits
    assert (outcome.times, outcome.waiting, task.output.upper) == ((20,), 1, 30)
    assert [(x.name, x.time, x.upper, x.waits) for x in outcome.late] == [("db.r", 30, 25, True)]
    assert "db.t: waiting for db.r (upper 25) to pass 30" in caplog.messages
    assert (task.run(60).waiting, task.output.upper) == (1, 30)
    r.write(28, [(1, 5, -1), (1, 28, 1)], upper=31)
    outcome = task.run(70)
    assert (outcome.times, outcome.waiting, outcome.late, task.output.upper) == ((30,), 0, (), 31)
    assert (
        task.output.updates()
        == [(10, 1, None, 1), (20, 1, 5, 1), (30, 1, 28, 1)][0 if task.output.state().creation == 10 else 1 :]
    )


def test_wait_also_for_the_start(tmp_path):
    task = task_with(tmp_path, LOOKUP, [(10, ONE)], ("db.r",), **WAIT)
    task.reference("db.r").write(5, [(1, 5, 1)])
    assert (task.run(10).waiting, task.output.upper, task.output.updates()) == (1, 10, [])
    task.reference("db.r").advance(11)
    assert task.run(20).times == (10,)
    assert task.output.updates() == [(10, 1, 5, 1)]


def test_a_reference_without_contents_is_not_refreshed_yet(tmp_path):
    task = task_with(tmp_path, LOOKUP, [(10, ONE)], ("db.r",))
    task.reference("db.r").open().expire()
    with pytest.raises(NotRefreshed):
        task.run(10)


def test_a_reference_is_held_as_the_input_is(tmp_path):
    task = task_with(tmp_path, LOOKUP, [(10, ONE)], ("db.r",))
    r = task.reference("db.r")
    r.write(5, [(1, 5, 1)])
    r.advance(11)
    task.run(10)
    r.write(20, [(1, 5, -1)], upper=100)
    with r.open() as handle:
        assert handle.downgrade_since(Antichain.of(90)) == Antichain.of(10)
    task.input.write(15, ONE)
    task.run(15)
    assert task.output.updates() == [(10, 1, 5, 1), (15, 1, 5, 1)]


# holds, and history that is gone


def holds(shard):
    return list(shard.state().holds.values())


def test_the_input_is_held_just_before_the_output_s_upper_and_released_in_the_end(tmp_path):
    task = task_with(tmp_path, COPY, [(10, ONE)])
    task.run(10)
    assert holds(task.input) == [10]
    task.input.write(20, TWO)
    with task.input.open() as handle:
        assert handle.downgrade_since(Antichain.of(20)) == Antichain.of(10)
    task.run(20)
    assert holds(task.input) == [20]
    task.input.advance(None)
    task.run(30)
    assert (task.output.upper, holds(task.input)) == (None, [])


GONE = r"^input i: history from 10 on is needed, and it begins at 20; its upper is 21\. To start again, reset the task$"


def test_history_that_is_gone_is_an_error_with_both_bounds_and_nothing_is_skipped(tmp_path):
    task = task_with(tmp_path, COPY, [(10, ONE)])
    task.run(10)
    task.input.write(20, TWO)
    with task.input.open() as handle:
        handle.release_hold(str(task.output.state().shard_id))
        handle.downgrade_since(Antichain.of(20))
    for _ in range(2):
        with pytest.raises(HistoryGone, match=GONE):
            task.run(30)
    assert task.output.upper == 11
    task.run(30, reset=True)  # the remedy
    assert task.output.updates() == [(20, 1, 1, 1), (20, 2, 2, 1)]


# an input of a new generation

# text, rows of the new generation, what is written at 30 to an output that began at 10 with (1, 1),
# (2, 2) twice
REMADE = {
    "what came": (COPY, [(1, 1, 1), (2, 2, 2), (3, 3, 2)], [(30, 3, 3, 2)]),
    "what went, too": (
        f"on input db.i as (insert into db.t select key, val from db.i; insert into db.t select key, -val from {DELETES})",
        [(1, 1, 1), (2, 2, 1), (3, 3, 1)],
        [(30, 2, -2, 1), (30, 3, 3, 1)],
    ),
    "only what went, to a task that does not look": (
        "on input db.i as (insert into db.t values (7, 7))",
        [(1, 1, 1)],
        [],
    ),
    "no difference": (COPY, [(1, 1, 1), (2, 2, 2)], []),
}


@pytest.mark.parametrize(("text", "rows", "written"), REMADE.values(), ids=REMADE)
def test_the_difference_to_the_old_input_is_the_change(tmp_path, text, rows, written):
    task = task_with(tmp_path, COPY, [(10, [(1, 1, 1), (2, 2, 2)])])
    task.run(10)
    task.text = text
    task.input.write(15, [(9, 9, 1)])  # not seen by the task, and gone in the new generation
    task.input.remake(30, rows)
    outcome = task.run(40)
    assert (outcome.times, task.output.upper) == ((30,), 31)
    assert task.output.updates() == sorted([(10, 1, 1, 1), (10, 2, 2, 2), *written], key=repr)
    task.input.write(50, [(4, 4, 1)])  # and then it goes on as ever
    assert task.run(50).times == (50,)
    assert holds(task.input) == [50]


def test_an_input_that_was_created_again_is_not_lost_while_the_task_waits(tmp_path):
    task = task_with(tmp_path, LOOKUP, [(10, ONE)], ("db.r",), **WAIT)
    task.reference("db.r").write(10, [(1, 5, 1), (2, 6, 1)])
    task.run(10)
    task.input.remake(30, [*ONE, *TWO])
    assert (task.run(40).waiting, task.output.upper) == (1, 11)
    task.reference("db.r").advance(31)
    assert task.run(50).times == (30,)
    assert task.output.updates() == [(10, 1, 5, 1), (30, 2, 6, 1)]


def test_an_error_that_was_live_in_the_old_input_is_taken_over(tmp_path):
    task = task_with(tmp_path, COPY, [(10, [*ONE, ("bad", 1)])])
    task.run(10)
    task.input.remake(30, ONE)
    task.run(40)
    assert task.output.updates() == [(10, "bad", 1), (10, 1, 1, 1), (30, "bad", -1)]


def test_an_input_that_was_created_again_in_the_past_waits_until_it_has_passed_the_output(tmp_path):
    task = task_with(tmp_path, COPY, [(10, ONE)])
    task.run(10)
    task.input.advance(50)
    task.run(50)
    task.input.remake(30, [*ONE, *TWO])
    assert (task.run(60).times, task.output.upper) == ((), 50)
    task.input.advance(61)
    assert (task.run(70).times, task.output.updates()) == ((60,), [(10, 1, 1, 1), (60, 2, 2, 1)])


# what others do to the output


def foreign_row(shard, time, key, val):
    """As another engine would add it: a file of its own in the table's root."""
    row = shard.table(time, [(key, val, 1)])
    row = row.append_column("_mv_error", pa.array([None], pa.string())).append_column(
        "_mv_hash", pa.array([None], pa.int64())
    )
    names = [field.name for field in DeltaTable(shard.uri).schema().fields]
    write_deltalake(shard.uri, row.select(names), mode="append")


def test_foreign_rows_stay_and_count_as_this(tmp_path):
    task = task_with(
        tmp_path, "on input db.i as (insert into db.t select count(*), 0 from db.t)", [(10, ONE)]
    )
    task.run(10)
    foreign_row(task.output, 10, 7, 7)
    task.input.write(20, TWO)
    task.run(20)
    assert task.output.contents() == [(0, 0), (2, 0), (7, 7)]
    task.text = UPSERT
    task.input.write(30, [(7, 8, 1)])
    task.run(30)
    assert task.output.contents() == [(0, 0), (2, 0), (7, 8)]


def test_foreign_rows_that_no_append_can_have_written_are_dropped_and_counted(tmp_path):
    task = task_with(tmp_path, COPY, [(10, ONE)])
    task.run(10)
    foreign_row(task.output, 99, 7, 7)
    task.input.write(20, TWO)
    assert task.run(20).drift == 1
    assert task.output.contents() == [(1, 1), (2, 2)]


@pytest.mark.seldom
def test_compaction_of_the_output_in_between_changes_nothing(tmp_path):
    plain, compacted = (task_with(tmp_path / name, UPSERT) for name in ("plain", "compacted"))
    for time in range(10, 40):
        change = [(time % 5, time, 1), (time % 7, time, 2)]
        for task in (plain, compacted):
            task.input.write(time, change)
            if time % 3 == 0:
                task.run(time, retain_history=DAY if task is plain else 4)
    kinds = [commit.kind for commit in compacted.output.open().history()]
    assert kinds.count("compact") > 1 and compacted.output.state().since.as_option() == 36
    assert plain.output.contents() == compacted.output.contents()
    assert [u for u in plain.output.updates() if u[0] > 36] == [
        u for u in compacted.output.updates() if u[0] > 36
    ]


class Edited(Task):
    """The same task with another input."""

    @property
    def input(self):
        return Shard(str(self.root / "j"), client=self.client)


@pytest.mark.parametrize("before", ["a view", "a task of another input"])
def test_row_f_contents_that_are_not_of_the_input_whose_changes_since_then_are_gone(tmp_path, before):
    task = task_with(tmp_path, COPY, [(10, ONE)])
    task.run(10)
    if before != "a view":
        with task.output.open() as handle:
            handle.set_properties({"input": '{"deletes": false, "shard_uri": ""}'})
    task = Edited(**vars(task))
    task.input.write(50, TWO)
    with task.input.open() as handle:
        handle.downgrade_since(Antichain.of(50))
    words = (
        "it became a task: its contents are"
        if before == "a view"
        else "its input was edited: it has read another one"
    )
    with pytest.raises(
        InputNotFollowed, match=rf"^db\.t: {words}.*up to .*\(11\), and the changes of db\.i since"
    ) as raised:
        task.run(60)
    assert "--vars '{mvsink_reset: [t]}'" in str(raised.value) and "Antichain" not in str(raised.value)
    assert "To keep" in str(raised.value)
    task.run(60, reset=True)
    assert task.output.updates() == [(50, 2, 2, 1)]


def test_row_f_an_input_that_is_edited_goes_on_where_its_changes_are_known(tmp_path):
    task = task_with(tmp_path, COPY, [(10, ONE)])
    task.run(10)
    task = Edited(**vars(task))
    task.input.write(5, ONE)
    task.input.write(50, TWO)
    task.run(60)
    assert task.output.updates() == [(10, 1, 1, 1), (50, 2, 2, 1)]


def test_row_s_columns_that_the_statements_give_in_a_wider_type_are_widened_in_place(tmp_path):
    """As those of a Delta table that the task watches, whose column was widened."""
    task = task_with(tmp_path, UPSERT, [(10, [(1, 1, 1), (2, 2, 1)])])
    task.schema = pa.schema([("key", pa.int64()), ("val", pa.int32())])
    task.run(10)
    task.input.write(20, [(2, 2**40, 1)])
    wide = pa.schema([("key", pa.int64()), ("val", pa.int64())])
    task.run(20, columns=shard_columns(wide))
    state, task.schema = task.output.state(), wide
    assert (state.generation, state.schema.field("val").type) == (0, pa.int64())
    assert task.output.updates() == [(10, 1, 1, 1), (10, 2, 2, 1), (20, 2, 2**40, 1), (20, 2, 2, -1)]
    assert [commit.kind for commit in task.output.open().history()].count("evolve") == 1
    task.input.write(30, [(1, 3, 1)])
    task.run(30)
    assert task.output.contents() == [(1, 3), (2, 2**40)]


# reset


@pytest.mark.parametrize("snapshot", [True, False])
def test_reset_starts_again_at_the_newest_time_of_the_input(tmp_path, snapshot):
    task = task_with(tmp_path, COPY, [(10, ONE)], initial_snapshot=snapshot)
    task.run(10)
    task.input.write(20, TWO)
    task.run(20)
    task.input.write(30, [(3, 3, 1)])
    outcome = task.run(35, reset=True)
    state = task.output.state()
    assert (state.generation, state.creation, outcome.times, outcome.state.upper.as_option()) == (
        1,
        30,
        (30,),
        31,
    )
    assert task.output.updates() == ([(30, 1, 1, 1), (30, 2, 2, 1), (30, 3, 3, 1)] if snapshot else [])
    assert holds(task.input) == [30]
    task.input.write(40, ONE)
    task.run(40)  # and no second time
    assert (task.output.state().generation, task.output.updates()[-1]) == (1, (40, 1, 1, 1))


def test_reset_goes_on_with_an_input_that_was_created_again(tmp_path):
    task = task_with(tmp_path, COPY, [(10, ONE)])
    task.run(10)
    task.input.remake(30, TWO)
    task.run(40, reset=True)
    assert task.output.updates() == [(30, 2, 2, 1)]


def test_an_output_that_was_dropped_starts_again(tmp_path):
    task = task_with(tmp_path, COPY, [(10, ONE)])
    task.run(10)
    with task.output.open() as handle:
        handle.mark_dropped(11)
    task.input.write(20, TWO)
    task.run(20)
    assert task.output.updates() == [(20, 1, 1, 1), (20, 2, 2, 1)]


def test_a_row_that_occurs_more_than_once_in_the_base_is_removed_once(tmp_path):
    """A first load writes equal rows as records of their own; what takes one away must leave the
    others.
    """
    task = task_with(tmp_path, COPY, [(10, [(n, n, 3) for n in range(20)])])
    task.run(10)
    task.text = "on input db.i as (merge into db.t using db.i i on false when not matched then insert *; delete from db.t where key < 5)"
    task.input.write(20, [(1, 1, 1), (6, 6, 2)])
    task.run(20)
    wanted = sorted([*((n, n) for n in range(5, 20) for _ in range(3)), (6, 6), (6, 6)], key=repr)
    assert task.output.contents() == wanted
    task.text = UPSERT
    task.input.write(30, [(6, 7, 1)])
    task.run(30)
    assert task.output.contents() == sorted([row for row in wanted if row[0] != 6] + [(6, 7)], key=repr)
