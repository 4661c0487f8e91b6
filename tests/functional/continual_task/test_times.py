"""docs/design/tasks.md: which times run, what is committed, where the upper goes. On DuckDB: no
engine decides any of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from dbt.adapters.mvsink.shard_sql import NotRefreshed, OnError
from tests.functional.continual_task.driver import COPY, DELETES, UPSERT, Task

COUNT = "on input db.i as (insert into db.t select count(*), null from db.i)"
BOTH = f"on input db.i as (insert into db.t select key, val from db.i; insert into db.t select key, -val from {DELETES})"
DIVIDE = "on input db.i as (insert into db.t select key, 10 // val from db.i)"
FAILING = "on input db.i as (insert into db.t select key, cast(if(val = 0, 'x', '1') as bigint) from db.i)"
BOOM = "Conversion Error: Could not convert string 'x' to INT64 when casting from source column val"


@dataclass(frozen=True)
class Case:
    """What happens (`(time, updates)` of the input, `[time]` a run, a number an upper of the
    input), and what is there then.
    """

    text: str
    happens: list[Any]
    output: list[tuple[Any, ...]]  # (time, key, val, diff) or (time, message, diff)
    upper: int | None
    options: dict[str, Any] = field(default_factory=dict)
    times: list[tuple[int, ...]] | None = None  # what each run processed


FALSE = {"initial_snapshot": False}
ONE, TWO = [(1, 1, 1)], [(2, 2, 1)]
CASES = {
    # start and snapshot
    "the start is the newest time of the input": Case(COPY, [(10, ONE), [99]], [(10, 1, 1, 1)], 11),
    "the start is no later than the run": Case(COPY, [(10, ONE), 50, [20]], [(20, 1, 1, 1)], 50),
    "the snapshot is everything as of the start": Case(
        COPY, [(10, [(1, 1, 2)]), (20, [(1, 1, -1), (2, 2, 1)]), [20]], [(20, 1, 1, 1), (20, 2, 2, 1)], 21
    ),
    "and a later change of the input is not in it": Case(COPY, [(10, ONE), (20, TWO), [15]], [(15, 1, 1, 1)], 20),
    "without snapshot the output is empty at the start": Case(COPY, [(10, ONE), 50, [20]], [], 50, FALSE),
    "without snapshot a change exactly at the start is ignored": Case(COPY, [(10, ONE), [10], (20, TWO), [20]], [(20, 2, 2, 1)], 21, FALSE),
    "and changes after it are not": Case(COPY, [(10, ONE), (20, TWO), [10], [20]], [(20, 2, 2, 1)], 21, FALSE),
    "a snapshot of no rows runs no statement": Case(COUNT, [(10, ONE), (20, [(1, 1, -1)]), [20]], [], 21),
    "a later run does not read the snapshot again": Case(UPSERT, [(10, ONE), [10], (20, TWO), [20]], [(10, 1, 1, 1), (20, 2, 2, 1)], 21),
    "a run before the start does nothing": Case(COPY, [(10, ONE), [10], [5]], [(10, 1, 1, 1)], 11),
    # which times run
    "every time at which rows came, in order": Case(
        COPY, [(10, ONE), [10], (20, TWO), (30, ONE), [40]], [(10, 1, 1, 1), (20, 2, 2, 1), (30, 1, 1, 1)], 31, {}, [(10,), (20, 30)]
    ),
    "also if no statement reads the input": Case(
        "on input db.i as (insert into db.t values (7, 7))", [(10, ONE), [10], (20, TWO), [20]], [(10, 7, 7, 1), (20, 7, 7, 1)], 21
    ),
    "only up to the run's own time": Case(
        COPY, [(10, ONE), [10], (20, TWO), (30, ONE), [25]], [(10, 1, 1, 1), (20, 2, 2, 1)], 30, {}, [(10,), (20,)]
    ),
    "a run exactly at a change's time processes it": Case(COPY, [(10, ONE), [10], (20, TWO), 40, [20]], [(10, 1, 1, 1), (20, 2, 2, 1)], 40),
    "not a time at which rows only went": Case(
        COUNT, [(10, ONE), [10], (20, [(1, 1, -1)]), [20]], [(10, 1, None, 1)], 21, {}, [(10,), ()]
    ),
    "but for a task that reads the deletes": Case(
        BOTH, [(10, ONE), [10], (20, [(1, 1, -1)]), [20]], [(10, 1, 1, 1), (20, 1, -1, 1)], 21, {}, [(10,), (20,)]
    ),
    "nor a time whose updates cancel out": Case(
        COUNT, [(10, ONE), [10], (20, [(2, 2, 1), (2, 2, -1)]), [20]], [(10, 1, None, 1)], 21, {}, [(10,), ()]
    ),
    "the input is only what came, in net": Case(
        COPY, [(10, ONE), [10], (20, [(1, 1, -1), (1, 2, 3), (1, 2, -1)]), [20]], [(10, 1, 1, 1), (20, 1, 2, 2)], 21
    ),
    # the upper
    "the upper goes to the input's frontier where nothing is pending": Case(COPY, [(10, ONE), [10], 500, [20]], [(10, 1, 1, 1)], 500),
    "and past times without effects": Case(COPY, [(10, ONE), [10], (20, [(1, 1, -1)]), (30, TWO), [25]], [(10, 1, 1, 1)], 30),
    "an effect that is nothing moves it, too": Case(
        "on input db.i as (delete from db.t where key = 99)", [(10, ONE), [10], (20, TWO), [20]], [], 21, {}, [(10,), (20,)]
    ),
    "nothing is done when it is there already": Case(COPY, [(10, ONE), [10], [11], [12]], [(10, 1, 1, 1)], 11, {}, [(10,), (), ()]),
    "an input that finishes finishes the output": Case(COPY, [(10, ONE), [10], (20, TWO), None, [30]], [(10, 1, 1, 1), (20, 2, 2, 1)], None),
    "but not before the run has reached its last change": Case(COPY, [(10, ONE), [10], (20, TWO), None, [15]], [(10, 1, 1, 1)], 20),
    "a finished output is final": Case(COPY, [(10, ONE), None, [10], [20]], [(10, 1, 1, 1)], None, {}, [(10,), ()]),
    # errors of the input
    "its errors pass with their times, and heal": Case(
        COPY, [(10, ONE), [10], (20, [("bad", 1)]), (30, [("bad", -1)]), [40]], [(10, 1, 1, 1), (20, "bad", 1), (30, "bad", -1)], 31
    ),
    "no statement runs where only an error came": Case(COUNT, [(10, ONE), [10], (20, [("bad", 1)]), [20]], [(10, 1, None, 1), (20, "bad", 1)], 21),
    "nor where rows went with it": Case(
        COUNT, [(10, ONE), [10], (20, [("bad", 1), (1, 1, -1)]), [20]], [(10, 1, None, 1), (20, "bad", 1)], 21
    ),
    "with rows it passes beside their effects": Case(
        UPSERT, [(10, ONE), [10], (20, [("bad", 2), (1, 5, 1)]), [20]], [(10, 1, 1, 1), (20, "bad", 2), (20, 1, 1, -1), (20, 1, 5, 1)], 21
    ),
    "an error does not block what comes after it": Case(
        UPSERT, [(10, ONE), [10], (20, [("bad", 1)]), (30, TWO), [30]], [(10, 1, 1, 1), (20, "bad", 1), (30, 2, 2, 1)], 31
    ),
    "an error live at the start is in the snapshot": Case(
        COPY, [(10, [*ONE, ("bad", 1)]), [10], (20, [("bad", -1)]), [20]], [(10, 1, 1, 1), (10, "bad", 1), (20, "bad", -1)], 21
    ),
    "without snapshot it passes all the same": Case(
        COPY, [(10, [*ONE, ("bad", 1)]), [10], (20, [("bad", -1)]), [20]], [(10, "bad", 1), (20, "bad", -1)], 21, FALSE
    ),
    # a failing statement
    "on_error record: the error is there, no row, and the task goes on": Case(
        FAILING, [(10, ONE), [10], (20, [(2, 0, 1), (3, 3, 1)]), (30, TWO), [30]],
        [(10, 1, 1, 1), (20, BOOM, 1), (30, 2, 1, 1)], 31, {"on_error": OnError.RECORD},
    ),
    "and what the input's errors did then passes": Case(
        FAILING, [(10, ONE), [10], (20, [(2, 0, 1), ("bad", 1)]), (30, [("bad", -1)]), [30]],
        [(10, 1, 1, 1), (20, BOOM, 1), (20, "bad", 1), (30, "bad", -1)], 31, {"on_error": OnError.RECORD},
    ),
    "on_error record at the start": Case(
        FAILING, [(10, [(2, 0, 1)]), [10], (20, ONE), [20]], [(10, BOOM, 1), (20, 1, 1, 1)], 21, {"on_error": OnError.RECORD}
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("one_by_one", [False, True], ids=["together", "one by one"])
def test_rule(tmp_path, case, one_by_one):
    task = Task(None, tmp_path, case.text, options=case.options)
    times = happen(task, case.happens, one_by_one=one_by_one)
    output_rows = [
        (*update[:1], message(update[1]), *update[2:]) if len(update) == 3 else update
        for update in task.output.updates()
    ]
    assert output_rows == sorted(case.output, key=repr)
    assert task.output.upper == case.upper
    assert case.times is None or times == case.times


def message(error: str) -> str:
    return BOOM if error.startswith(BOOM[:40]) else error


def happen(task, happens, **options):
    """Write, advance and run; what each run processed."""
    times = []
    for event in happens:
        if isinstance(event, list):
            times.append(task.run(event[0], **options).times)
        elif isinstance(event, tuple):
            task.input.write(*event)
        else:
            task.input.advance(event)
    return times


def test_a_failing_statement_fails_at_its_time_and_what_was_before_stays(tmp_path):
    from dbt.adapters.mvsink.continual_task.errors import StatementFailed

    task = Task(None, tmp_path, FAILING)
    happen(task, [(10, ONE), [10], (20, TWO), (30, [(3, 0, 1)]), (40, ONE)])
    for _ in range(2):  # the next run starts again at 30
        with pytest.raises(StatementFailed, match=r"^db\.t: statement 0: Conversion Error"):
            task.run(50)
        assert (task.output.contents(), task.output.upper) == ([(1, 1), (2, 1)], 21)
    task.text = COPY  # fixed: it goes on where it was
    assert task.run(50).times == (30, 40)
    assert task.output.contents() == [(1, 1), (1, 1), (2, 1), (3, 0)]
    with task.output.open() as handle:
        assert {f.path for f in handle.state().files} == {
            f.path for f in handle.storage.list_files("table") if f.path.endswith(".parquet")
        } - set(handle.storage.removals().times)


TAKEN_BACK = {
    "at the first time that the upper passes": (35, [40], [(10, 1, 1, 1), (20, BOOM, 1), (21, BOOM, -1)], 35),
    "before the next change": (
        (30, TWO),
        [40],
        [(10, 1, 1, 1), (20, BOOM, 1), (21, BOOM, -1), (30, 2, 1, 1)],
        31,
    ),
    "not before an input that has not moved on": (21, [40], [(10, 1, 1, 1), (20, BOOM, 1)], 21),
}


@pytest.mark.parametrize(("moved", "run", "output", "upper"), TAKEN_BACK.values(), ids=TAKEN_BACK)
def test_recorded_errors_are_taken_back_on_request(tmp_path, moved, run, output, upper):
    task = Task(None, tmp_path, FAILING, options={"on_error": OnError.RECORD})
    happen(task, [(10, ONE), [10], (20, [(2, 0, 1)]), [20], moved])
    outcome = task.run(*run, skip_errors=True)
    output_rows = [
        (*update[:1], message(update[1]), *update[2:]) if len(update) == 3 else update
        for update in task.output.updates()
    ]
    assert (output_rows, task.output.upper) == (output, upper)
    assert any(
        "recorded errors stay, because the input has not advanced" in warning for warning in outcome.warnings
    ) == (upper == 21)
    again = task.run(*run, skip_errors=True)
    assert again.counts.nothing and task.output.upper == upper


def test_an_error_of_the_input_is_not_taken_back_and_goes_with_it(tmp_path):
    task = Task(None, tmp_path, FAILING, options={"on_error": OnError.RECORD})
    happen(task, [(10, [*ONE, ("bad", 1)]), [10], (20, [(2, 0, 1), ("worse", 1)]), [20], 30])
    task.run(30, skip_errors=True)
    assert {thing[0] for thing in task.output.contents() if len(thing) == 1} == {"bad", "worse"}
    happen(task, [(40, [("bad", -1), ("worse", -1)]), [40]])
    assert task.output.contents() == [(1, 1)]
    assert all(len(update) == 4 or update[2] in (1, -1) for update in task.output.updates())


def test_one_failure_among_many_times_is_tried_together_once(tmp_path):
    task = Task(None, tmp_path, FAILING, options={"on_error": OnError.RECORD})
    happen(task, [(10, ONE), [10], *((t, [(t, t % 5, 1)]) for t in range(20, 30))])
    engine = task.engine()
    assert task.run(50, engine=engine).times == tuple(range(20, 30))
    assert (
        sum("_mv_time, 1L _mv_diff from" in text for what, text in engine.ran if what == "statement 0") == 1
    )
    assert [u[0] for u in task.output.updates() if len(u) == 3] == [20, 25]


@pytest.mark.parametrize("upper", [None, 10], ids=["never advanced", "raised, without contents"])
def test_an_input_without_contents_is_not_refreshed_yet(tmp_path, upper):
    task = Task(None, tmp_path, COPY)
    with task.input.open() as handle:
        if upper is not None:
            from dbt.adapters.mvsink.shard import Antichain

            handle.compare_and_append_batch(
                [], Antichain.of(0), Antichain.of(upper), since=Antichain.of(upper)
            )
    with pytest.raises(NotRefreshed):
        task.run(20)
    assert task.output.upper == 0
    task.input.write(10, ONE)
    task.run(20)
    assert task.output.updates() == [(10, 1, 1, 1)]


def test_the_start_is_kept_and_progress_comes_with_the_effects(tmp_path):
    task = Task(None, tmp_path, COPY)
    happen(task, [(10, ONE), [10], (20, TWO), [20]])
    with task.output.open() as handle:
        history = [(c.kind, c.upper and c.upper.as_option()) for c in handle.history()]
        assert history == [("create", None), ("advance", 10), ("append", 11), ("append", 21)]
        assert (handle.state().creation, handle.progress("i"), handle.progress("i#generation")) == (10, 20, 0)
        note = [commit for commit in handle.history() if commit.kind == "append"][-1].note
    assert (note.rows_inserted, note.rows_deleted, note.computed_through, note.purpose) == (
        1,
        0,
        20,
        "task(db.t)",
    )


LINES = [
    "pending: db.t: shard {shard}, upper Antichain(11), input i before Antichain(41): 2 pending, from 20",
    "minted, several: db.t: minted [Antichain(11), Antichain(31)) for 2 times from 20 to 30, in one job",
    "minted, one: db.t: minted [Antichain(10), Antichain(11)) for 10",
    "wrote: db.t: wrote 2 updates",
    "appended: db.t: appended [Antichain(11), Antichain(31))",
    "advanced: db.t: advanced [Antichain(31), Antichain(41)), no data",
    "advanced lower: db.t: advanced lower to Antichain(10)",
]


def test_lines_at_debug(tmp_path, caplog):
    task = Task(None, tmp_path, COPY)
    with caplog.at_level("DEBUG"):
        happen(task, [(10, ONE), [10], (20, ONE), (30, TWO), (40, [(1, 1, -1)]), [50]])
    lines = [f"{record.getMessage()}" for record in caplog.records if record.name.startswith("mvsink")]
    shard = task.output.state().shard_id
    for line in LINES:
        text = line.split(": ", 1)[1].format(shard=shard)
        assert any(each.startswith(text) for each in lines), line
