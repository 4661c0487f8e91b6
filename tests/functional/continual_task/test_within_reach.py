"""A later run reads of the output what its statements can change, and runs them together; what
comes of it is the same.
"""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.continual_task.errors import StatementFailed
from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.shard_sql import Counts, stager
from tests.functional.continual_task.driver import Task
from tests.support.seldom import often, often_rows
from tests.support.session_engine import SessionEngine

KEEP = "insert into db.t select key, val from db.i"


def begun(quick, tmp_path, statements: str) -> Task:
    """An output with a base of (1, 0), (2, 5), (3, 7), (3, 7) and, since 20, without (1, 0) and one
    (3, 7).
    """
    task = Task(quick, tmp_path, f"on input db.i as ({statements})")
    task.input.write(10, [(1, 0, 1), (2, 5, 1), (3, 7, 2)])
    task.run(10)
    task.input.advance(21)
    task.output.write(20, [(1, 0, -1), (3, 7, -1)])
    return task


def ran(engine: SessionEngine) -> list[str]:
    return [what for what, _ in engine.ran if what.startswith("statement")]


def test_a_first_run_does_not_ask_what_to_delete(quick, tmp_path):
    task = Task(
        quick, tmp_path, f"on input db.i as (delete from db.t where val > 0; {KEEP}; update db.t set val = 1)"
    )
    task.input.write(10, [(1, 0, 1)])
    engine = SessionEngine(quick)
    task.run(10, engine=engine)
    assert ran(engine) == ["statement 1", "statement 2"]
    assert task.output.contents() == [(1, 1)]


CHANGES = {
    "delete": ("delete from db.t where val > 6", [(2, 5), (9, 9)]),
    "delete by the input": ("delete from db.t where key + 6 in (select key from db.i)", [(2, 5), (9, 9)]),
    "update": ("update db.t set val = val + key where val > 4", [(2, 7), (3, 10), (9, 9)]),
    "a row that is gone stays so": ("update db.t set val = 3 where val = 0", [(2, 5), (3, 7), (9, 9)]),
}


@pytest.mark.parametrize(("statement", "wanted"), CHANGES.values(), ids=CHANGES)
def test_one_job_reads_the_base_once(quick, tmp_path, statement, wanted):
    task = begun(quick, tmp_path, f"{statement}; {KEEP}")
    [base] = {file.batch_id for file in task.output.state().files if file.trusted}
    task.input.write(30, [(9, 9, 1)])
    engine = SessionEngine(quick)
    task.run(30, engine=engine)
    assert sorted(task.output.contents()) == wanted
    assert ran(engine) == ["statement 0, 1"]
    assert [text.count(base) for what, text in engine.ran if what == "statement 0, 1"] == [1]


GONE = {
    "delete": (f"delete from db.t where 10 / val > 1.5; {KEEP}", [(3, 7), (9, 9)]),
    "update": (f"update db.t set val = 1 where 10 / val > 1.5; {KEEP}", [(2, 1), (3, 7), (9, 9)]),
    "insert": (
        f"insert into db.t select key, 1 from db.t where 10 / val > 1.5; {KEEP}",
        [(2, 1), (2, 5), (3, 7), (9, 9)],
    ),
    "merge": (
        "merge into db.t using db.i on 10 / t.val < 1.5 when matched then delete when not matched then insert *",
        [(2, 5)],
    ),
}


@pytest.mark.parametrize(("statements", "wanted"), **often_rows(GONE, "update", "merge"))
def test_a_row_that_is_gone_makes_no_statement_fail(quick, tmp_path, statements, wanted):
    task = begun(quick, tmp_path, statements)
    task.input.write(30, [(9, 9, 1)])
    task.run(30)
    assert sorted(task.output.contents()) == wanted


@pytest.mark.parametrize("later", often([False, True], True), ids=["at a first run", "at a later run"])
def test_nor_does_one_that_an_earlier_statement_took_away(quick, tmp_path, later):
    task = Task(
        quick,
        tmp_path,
        f"on input db.i as ({KEEP}; delete from db.t where val = 0; delete from db.t where 10 / val > 1.5)",
    )
    task.input.write(10, [(1, 0, 1), (3, 7, 1)])
    task.run(10)
    if later:
        task.input.write(20, [(4, 0, 1), (2, 5, 1)])
        task.run(20)
    assert task.output.contents() == [(3, 7)]


@pytest.mark.parametrize(
    ("statements", "number"),
    [
        (f"delete from db.t where 10 / (val - 5) > 1; {KEEP}", 0),
        (f"delete from db.t where key = 2; {KEEP} where 1 / (val - 9) < 0", 1),
    ],
)
def test_the_statement_that_fails_is_named(quick, tmp_path, statements, number):
    task = begun(quick, tmp_path, statements)
    task.input.write(30, [(9, 9, 1)])
    with pytest.raises(StatementFailed, match=f"^db.t: statement {number}: .*DIVIDE_BY_ZERO"):
        task.run(30)
    assert task.output.upper <= 30 and sorted(task.output.contents()) == [(2, 5), (3, 7)]
    assert {f"table/{path.name}" for path in (tmp_path / "t" / "table").iterdir()} == {
        file.path.rsplit("/", 1)[0] for file in task.output.state().files
    }


class Full(SessionEngine):
    """Every statement fails, and no data are the cause."""

    def execute(self, statement, what):
        self.ran.append((what, statement))
        raise EngineError("no space left on device", "58030")


def test_a_failure_that_the_data_did_not_cause_is_reported_at_once(quick, tmp_path):
    task = begun(quick, tmp_path, f"delete from db.t where val > 6; {KEEP}")
    task.input.write(30, [(9, 9, 1)])
    engine = Full(quick)
    with pytest.raises(StatementFailed, match="^db.t: statement 0, 1: no space left on device"):
        task.run(30, engine=engine)
    assert ran(engine) == ["statement 0, 1"] and task.output.upper <= 30


@pytest.mark.parametrize("few", [0, 10_000], ids=["by the engine", "from the files"])
def test_what_a_batch_does_is_counted(quick, tmp_path, monkeypatch, few):
    monkeypatch.setattr(stager, "COUNTED_LOCALLY", few)
    task = begun(quick, tmp_path, f"delete from db.t where key = 3; {KEEP}")
    task.input.write(30, [(9, 9, 3), ("broken", 1)])
    assert task.run(30).counts == Counts(3, 1, 1)
    task.input.write(40, [("broken", -1)])
    assert task.run(40).counts == Counts(errors_deleted=1)
