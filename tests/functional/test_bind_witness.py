"""Spark as the witness of what replaces the relations of a task: see `splice_witness`."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dbt.adapters.mvsink.continual_task import bind
from dbt.adapters.mvsink.continual_task.bind import replaced_by_themselves
from dbt.adapters.mvsink.continual_task.parse import parse
from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.engine.plan_text import same_text
from dbt.adapters.mvsink.exceptions import ReadOtherwise
from dbt.adapters.mvsink.materialization.splice_witness import BOUND, check_bindings
from dbt.adapters.mvsink.user_sql import splice
from tests.functional.continual_task.test_statements import CASES
from tests.support.session_engine import SessionEngine

pytestmark = pytest.mark.embedded("it asks the session for the plan of a query")
SCHEMA = "bindings"
MORE = (
    "delete from db.t where db.t.key in (select db.t.val from db.i join db.t on db.i.key = db.t.key)",
    "update db.t set val = (select max(val) from db.i where db.i.key = db.t.key), key = default",
    "update db.t `odd t` set val = `odd t`.val + 1 where not exists (select 1 from db.r as t where t.key = `odd t`.key)",
    "merge into db.t using db.i on db.t.key = db.i.key and db.t.val in (select db.r.val from db.r) "
    "when matched and db.i.val > db.t.val then update set db.t.val = db.i.val + db.t.val "
    "when not matched then insert (key, val) values (db.i.key, (select min(db.r.val) from db.r where db.r.key = db.i.key)) "
    "when not matched by source and db.t.key = 1 then update set val = db.t.key",
    "insert into db.t select key, db.r.val from db.i natural join db.r where val = /* db.t */ 1 -- ; \\\n goes on\n",
)
STATEMENTS = [*(statements for statements, _ in CASES.values()), *MORE]


@pytest.fixture(scope="module")
def engine(quick):
    quick.sql(f"create schema {SCHEMA}")
    for table in "itr":
        quick.sql(f"create table {SCHEMA}.{table} (key int, val int)")
    yield SessionEngine(quick)
    quick.sql(f"drop schema {SCHEMA} cascade")


def program(statements):
    text = f"on input db.i as ({statements})".replace("db.", f"{SCHEMA}.")
    return parse(text, f"{SCHEMA}.t", "my_task")


def check(engine, statements, properties=(), readable=True):
    state = SimpleNamespace(properties=dict(properties), readable=readable)
    return check_bindings(engine, program(statements), [f"{SCHEMA}.r"], state)


@pytest.mark.parametrize("statements", STATEMENTS)
def test_no_statement_that_is_read_rightly_is_refused(engine, statements, monkeypatch):
    compared = []
    same = type(engine).same_plan
    monkeypatch.setattr(type(engine), "same_plan", lambda *args: compared.append(same(*args)) or compared[-1])
    kept = check(engine, statements)
    assert compared and all(compared) and set(kept) == {BOUND}
    compared.clear()
    assert check(engine, statements, kept) == kept and not compared  # once
    assert check(engine, statements + "; delete from db.t", kept) != kept
    assert check(engine, statements, readable=False) == {}  # what reads the output is asked again


def test_nor_is_one_over_servers_where_texts_of_plans_are_compared(engine, monkeypatch):
    compared = []
    monkeypatch.setattr(
        type(engine), "same_plan", lambda *args: compared.append(same_text(*args)) or compared[-1]
    )
    for statements in STATEMENTS:
        check(engine, statements)
    assert len(compared) > len(STATEMENTS) and all(compared)


UNREADABLE = (
    "insert into db.t select nothing, val from db.i",
    "insert into db.t select * from db.none",
    "insert into db.t select key, (select max(val) from db.none where db.none.key = db.i.key) from db.i",
    "insert into db.t select db.i.key from db.i group by db.i.val",
    "delete from db.t where db.t.key in (select db.none.val from db.none)",
    "update db.t set val = nofun(db.t.val)",
)


@pytest.mark.parametrize("texts", [False, True])
@pytest.mark.parametrize("statement", UNREADABLE)
def test_what_spark_cannot_read_is_left_to_the_run(engine, monkeypatch, statement, texts):
    if texts:
        monkeypatch.setattr(type(engine), "same_plan", lambda *args: same_text(*args))
    assert set(check(engine, statement)) == {BOUND}


def test_a_query_that_spark_cannot_read_has_no_text_of_its_plan(engine):
    with pytest.raises(EngineError, match="TABLE_OR_VIEW_NOT_FOUND"):
        same_text(engine, "select * from db.none", "select * from db.none", {})


def other_input(monkeypatch):
    """The reference's rows in the place of the input's."""
    replace = bind.replace_relations

    def swapped(text, queries, **options):
        names = {name: f"{SCHEMA}.r" if name == f"{SCHEMA}.i" else query for name, query in queries.items()}
        return replace(text, names, **options)

    monkeypatch.setattr(bind, "replace_relations", swapped)


def one_qualifier(monkeypatch):
    """Columns of every relation are taken for the first one's."""
    every = splice.qualifiers

    def first(text, aliases, **options):
        return every(text, dict.fromkeys(aliases, [*aliases.values(), None][0]), **options)

    monkeypatch.setattr(splice, "qualifiers", first)


def lost_condition(monkeypatch):
    whole = bind.bound

    def lost(program, statement, bindings):
        ready = whole(program, statement, bindings)
        return bind.replace(ready, where="true") if getattr(ready, "where", None) else ready

    monkeypatch.setattr(bind, "bound", lost)


@pytest.mark.parametrize(
    ("wrong", "statement"),
    [
        (other_input, "insert into db.t select key, val from db.i"),
        (other_input, MORE[0]),
        (one_qualifier, MORE[1]),
        (one_qualifier, MORE[3]),
        (lost_condition, MORE[2]),
    ],
)
def test_another_meaning_is_an_error(engine, monkeypatch, wrong, statement):
    wrong(monkeypatch)
    with pytest.raises(ReadOtherwise, match=rf"my_task: this adapter cannot replace {SCHEMA}\.i"):
        check(engine, statement)


def test_a_statement_without_relations_is_compared_too():
    assert [*replaced_by_themselves(program("delete from db.t"), [])]
