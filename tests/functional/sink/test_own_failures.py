"""An error of our own statements is never taken for the query's: `on_error: record` records what
the query fails with by itself.
"""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.continual_task.errors import StatementFailed
from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.shard_sql import OnError
from dbt.adapters.mvsink.sink import Driver, RunHistory
from tests.functional.continual_task.driver import COPY, UPSERT, Task
from tests.support.session_engine import Model

OVERFLOW = "[ARITHMETIC_OVERFLOW] long overflow. SQLSTATE: 22003"
GROUPED = "select id % 5 k, max(id) + {n} v from range({rows}) group by 1"


def failing(engine, step):
    """``engine``, for which every statement of that step overflows."""
    execute, query = engine.execute, engine.query

    def check(what):
        if what == step:
            raise EngineError(OVERFLOW, "22003")

    def executed(statement, what):
        check(what)
        execute(statement, what)

    def queried(text, what):
        check(what)
        return query(text, what)

    engine.execute, engine.query = executed, queried
    return engine


@pytest.mark.parametrize("step", ["detect", "write", "agree", "evaluate", "compare"])
def test_a_view_fails_with_an_error_of_ours(session, tmp_path, monkeypatch, step):
    monkeypatch.setattr(limits, "COMPARED_WHOLE", 0)
    if step in ("evaluate", "compare"):
        monkeypatch.setattr(RunHistory, "comparison", lambda *_: "once")
    model = Model(session, tmp_path)
    model.run(GROUPED.format(n=0, rows=50))
    query = GROUPED.format(n=1, rows=60)
    with model.open(query) as handle:
        before = handle.state()
        with pytest.raises(EngineError, match="long overflow"):
            Driver(
                model.request(query, on_query_error=OnError.RECORD), handle, failing(model.engine(), step)
            ).run()
        assert handle.state() == before
    model.run(query)
    model.assert_holds(query)


@pytest.mark.parametrize("text", [COPY, UPSERT], ids=["an insert", "several statements"])
def test_a_task_fails_with_an_error_of_ours(tmp_path, text):
    task = Task(None, tmp_path, text)
    task.input.write(10, [(1, 1, 1)])
    task.run(10)
    task.input.write(20, [(2, 2, 1)])
    last = "statement 1" if text == UPSERT else "statement 0"
    with pytest.raises(EngineError, match="long overflow"):
        task.run(20, engine=failing(failing(task.engine(), last), "statement 0, 1"), on_error=OnError.RECORD)
    assert task.output.upper == 11
    task.run(20)
    assert task.output.contents() == [(1, 1), (2, 2)]


def test_a_statement_that_fails_by_itself_is_recorded_or_fails_the_task(tmp_path):
    task = Task(
        None,
        tmp_path,
        "on input db.i as (insert into db.t select key, cast(if(val = 0, 'x', '1') as bigint) from db.i)",
    )
    task.input.write(10, [(1, 0, 1)])
    with pytest.raises(StatementFailed):
        task.run(10)
    task.run(10, on_error=OnError.RECORD)
    [(time, message, diff)] = task.output.updates()
    assert (time, diff) == (10, 1) and "Conversion Error" in message
