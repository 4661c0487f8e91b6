"""What a task reads besides its input: references with errors, and views over shards. On DuckDB."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.continual_task.errors import ReferenceFails
from dbt.adapters.mvsink.continual_task.parse import parse
from dbt.adapters.mvsink.continual_task.task_driver import TaskDriver
from dbt.adapters.mvsink.continual_task.task_request import TaskRequest
from dbt.adapters.mvsink.engine import shard_columns
from dbt.adapters.mvsink.shard_sql import OnError
from tests.functional.continual_task.driver import CONTENTS, DAY, Task

LOOKUP = "on input db.i as (insert into db.t select i.key, r.val from db.i i join db.r r using (key))"
HASHES = pa.schema([("_mv_hash", pa.int64())])
HOLDS = r"the reference db.r holds a recorded error as of 1970-01-01T00:00:00.020Z \(20\): bad"


def task_with_error(tmp_path, *, healed=True, **options):
    """The input changes at 10, 20 and 30; the reference holds an error from 15 on, until 25."""
    task = Task(None, tmp_path, LOOKUP, references=("db.r",), options=options)
    reference = task.reference("db.r")
    reference.write(5, [(key, 100, 1) for key in (1, 2, 3)])
    task.input.write(10, [(1, 0, 1)])
    reference.write(15, [("bad", 1)])
    if healed:
        reference.write(25, [("bad", -1)], upper=60)
    else:
        reference.advance(60)
    task.run(10)
    for time in (20, 30):
        task.input.write(time, [(time // 10, 0, 1)])
    task.input.advance(60)
    return task


@pytest.mark.parametrize("healed", [True, False])
def test_row_h_an_error_of_a_reference_is_said_with_its_time_and_the_way_out(tmp_path, healed):
    task = task_with_error(tmp_path, healed=healed)
    with pytest.raises(ReferenceFails, match=HOLDS) as raised:
        task.run(50)
    now = "It has healed since; every run" if healed else "It holds it at its newest time, too; every run"
    for part in (now, "on_error: record", "mvsink_skip_errors: [t]", "mvsink_reset: [t]", "db.t: "):
        assert part in str(raised.value)
    assert task.output.updates() == [(10, 1, 100, 1)] and task.output.upper == 11


def test_row_h_it_is_recorded_and_taken_back_as_the_errors_of_statements_are(tmp_path):
    task = task_with_error(tmp_path, on_error=OnError.RECORD)
    outcome = task.run(40)
    recorded = "the reference db.r holds a recorded error as of 1970-01-01T00:00:00.020Z (20): bad"
    assert task.output.updates() == [(10, 1, 100, 1), (20, recorded, 1), (30, 3, 100, 1)]
    assert outcome.counts.errors_inserted == 1
    assert any(recorded in warning and "no statement ran at" in warning for warning in outcome.warnings)
    task.input.advance(70)
    outcome = task.run(65, skip_errors=True)
    assert task.output.contents() == [(1, 100), (3, 100)]
    assert outcome.counts.errors_deleted == 1


@pytest.mark.parametrize("on_error", list(OnError))
def test_row_h_its_times_are_left_out_on_demand(tmp_path, on_error):
    task = task_with_error(tmp_path, on_error=on_error)
    [warning] = task.run(50, skip_errors=True).warnings
    assert "the effects of 1 times are left out for good, because the reference db.r holds" in warning
    assert task.output.updates() == [(10, 1, 100, 1), (30, 3, 100, 1)]
    assert not task.run(59).warnings


def test_row_h_the_errors_of_the_input_are_passed_on_all_the_same(tmp_path):
    task = Task(None, tmp_path, LOOKUP, references=("db.r",))
    task.reference("db.r").write(5, [("bad", 1)], upper=60)
    task.input.write(10, [(1, 0, 1), ("of the input", 1)], upper=60)
    task.run(50, skip_errors=True)
    assert task.output.updates() == [(50, "of the input", 1)]


def test_row_h_a_reference_that_is_read_at_its_newest_time_can_heal(tmp_path):
    task = Task(None, tmp_path, LOOKUP, references=("db.r",))
    reference = task.reference("db.r")
    reference.write(5, [(1, 100, 1), ("bad", 1)])
    task.input.write(10, [(1, 0, 1)], upper=60)
    with pytest.raises(ReferenceFails, match=r"as of .*\(5\).*\n.*once it has healed, the next run goes on"):
        task.run(50)
    reference.write(6, [("bad", -1)])
    task.run(51)
    assert task.output.updates() == [(50, 1, 100, 1)]


VIEW = "select key, max(val) as val from db.r group by key"


def run_over_view(task, time, text, query):
    """A run of a task whose statements read the view `db.v`."""
    engine = task.engine()
    with task.output.open() as handle:
        request = TaskRequest(
            "db.t", parse(text, "db.t", "db.t"), shard_columns(handle.schema), time, time, DAY
        )
        shards = {"db.r": task.shard(task.reference("db.r"), engine), "db.i": task.shard(task.input, engine)}
        driver = TaskDriver(request, handle, engine, task.shard(task.input, engine), shards, {"db.v": query})
        return driver.run()


OVER_VIEW = "on input db.i as (insert into db.t select i.key, v.val from db.i i join db.v v using (key))"
VIEWS = {
    "over a reference": (OVER_VIEW, VIEW, [(10, 1, 100, 1), (20, 1, 200, 1), (30, 1, 300, 1)]),
    "over the input, which is whole in it": (
        OVER_VIEW,
        "select key, count(*) as val from db.i group by key",
        [(10, 1, 1, 1), (20, 1, 2, 1), (30, 1, 3, 1)],
    ),
    "and the reference itself": (
        OVER_VIEW.replace("v.val", "v.val - (select max(val) from db.r)"),
        VIEW,
        [(10, 1, 0, 1), (20, 1, 0, 1), (30, 1, 0, 1)],
    ),
}


@pytest.mark.parametrize(("text", "query", "expected"), VIEWS.values(), ids=VIEWS)
def test_row_i_a_view_over_shards_is_read_as_of_each_pending_time(tmp_path, text, query, expected):
    task = Task(None, tmp_path, text)
    task.input.advance(1)
    for time, val in ((9, 100), (19, 200), (29, 300)):
        task.reference("db.r").write(time, [(1, val, 1)])
    task.reference("db.r").advance(60)
    task.input.write(10, [(1, 0, 1)])
    run_over_view(task, 10, text, query)
    for time in (20, 30):
        task.input.write(time, [(1, time, 1)])
    task.input.advance(60)
    run_over_view(task, 50, text, query)
    assert task.output.updates() == expected


def test_row_h_an_error_below_a_view_is_an_error_of_a_reference(tmp_path):
    task = Task(None, tmp_path, OVER_VIEW)
    task.reference("db.r").write(5, [("bad", 1)], upper=60)
    task.input.write(10, [(1, 0, 1)], upper=60)
    with pytest.raises(ReferenceFails, match="the reference db.r holds"):
        run_over_view(task, 50, OVER_VIEW, VIEW)


WHOLE = f"on input db.i as (insert into db.t select i.key, count(*) from db.i i cross join {CONTENTS} w group by i.key)"


def test_mv_contents_are_the_rows_of_the_input_as_of_each_pending_time(tmp_path):
    task = Task(None, tmp_path, WHOLE)
    task.input.write(10, [(1, 0, 2)])
    task.run(10)
    for time, updates in ((20, [(2, 0, 1)]), (30, [(3, 0, 1), (1, 0, -2)]), (40, [(9, 9, 5)])):
        task.input.write(time, updates)
    assert task.run(30).times == (20, 30)
    assert task.output.updates() == [(10, 1, 4, 1), (20, 2, 3, 1), (30, 3, 2, 1)]


def test_mv_contents_with_an_error_are_a_reference_with_an_error(tmp_path):
    """Unlike in the changes, what the error stands for is missing from all that is computed."""
    task = Task(None, tmp_path, WHOLE)
    task.input.write(10, [(1, 0, 1)])
    task.run(10)
    task.input.write(20, [(2, 0, 1), ("bad", 1)])
    task.input.write(30, [("bad", -1), (3, 0, 1)])
    with pytest.raises(
        ReferenceFails, match=r"the reference mv_contents\(db.i\) holds .*\(20\): bad\nIt has healed"
    ):
        task.run(50)
    assert "left out for good" in task.run(50, skip_errors=True).warnings[0]
    assert task.output.updates() == [(10, 1, 1, 1), (20, "bad", 1), (30, "bad", -1), (30, 3, 3, 1)]


def test_mv_contents_of_a_new_generation(tmp_path):
    task = Task(None, tmp_path, WHOLE)
    task.input.write(10, [(1, 0, 1)])
    task.run(10)
    task.input.remake(30, [(1, 0, 1), (2, 0, 1)])
    task.run(40)
    assert task.output.updates() == [(10, 1, 1, 1), (30, 2, 2, 1)]


def test_rows_have_one_hash_whatever_order_the_statements_give_the_columns(tmp_path):
    """Else a row that a new text inserts would not be the one that it was."""
    task = Task(None, tmp_path, "on input db.i as (insert into db.t select key, val from db.i)")
    task.input.write(10, [(1, 2, 1)])
    task.run(10)
    task.input.write(20, [(1, 2, 1)], upper=30)
    turned = tuple(reversed(shard_columns(task.schema)))
    task.text = "on input db.i as (insert into db.t (val, key) select val, key from db.i)"
    task.run(25, columns=turned)
    assert task.output.contents() == [(1, 2), (1, 2)]
    with task.output.open() as handle:
        stored = [handle.storage.read(file, HASHES) for file in handle.state().files]
    assert len({value for table in stored for value in table.column(0).to_pylist()}) == 1
