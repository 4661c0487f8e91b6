"""Every statement of a task against the output's columns, by Spark's types, before any runs."""

from __future__ import annotations

import re

import pytest

from dbt.adapters.mvsink.continual_task.errors import StatementColumns, StatementSyntax
from dbt.adapters.mvsink.continual_task.parse import parse
from dbt.adapters.mvsink.engine import Column, parse_type
from dbt.adapters.mvsink.materialization.task_columns import analysed_columns
from tests.support.session_engine import SessionEngine

pytestmark = pytest.mark.usefixtures("small_data")


def columns(**types: str) -> tuple[Column, ...]:
    return tuple(Column(name, parse_type(kind, name)) for name, kind in types.items())


INPUT = columns(key="int", val="string", at="timestamp", s="struct<a:int,b:string>")
OUTPUT = columns(key="bigint", val="string", day="date", tags="array<int>", s="struct<a:bigint,b:string>")
ON = "merge into db.t t using db.i i on t.key = i.key"
KEY = 'column "key" is of type bigint but expression is of type'
CASES = [  # the statement, and what is wrong with it
    ("update db.t set key = key + 1, val = key, day = timestamp'2026-01-01 00:00:00', tags = null, s = null", None),
    ("update db.t set key = 1.5, val = default, tags = array(1, null)", None),
    ("update db.t set s = (select max(s) from db.i)", None),
    ("update db.t set key = '1'", f"{KEY} string"),
    ("update db.t x set x.key = (select max(val) from db.i)", f"{KEY} string"),
    ("update db.t set val = 'a', KEY = true where key = 1", f"{KEY} boolean"),
    ("update db.t set day = 5", 'column "day" is of type date but expression is of type int'),
    ("update db.t set val = tags", 'column "val" is of type string but expression is of type array<int>'),
    ("update db.t set tags = array('1')", 'column "tags" is of type array<int> but expression is of type array<string>'),
    ("update db.t set s = named_struct('a', 'x', 'b', 'y')",
     'column "s" is of type struct<a:bigint,b:string> but expression is of type struct<a:string,b:string>'),
    (f"{ON} when matched and i.val = 'x' then delete when matched then update set day = i.at when not matched then insert (key, val) "
     "values (i.key, i.at) when not matched by source and t.key > 1 then update set val = t.key", None),
    (f"{ON} when matched then delete", None),
    (f"{ON} when matched then update set key = i.val", f"{KEY} string"),
    (f"{ON} when matched and i.key > 1 then update set val = i.at when matched then update set key = i.at", f"{KEY} timestamp"),
    (f"{ON} when not matched then insert (val, key) values (i.key, i.val)", f"{KEY} string"),
    (f"{ON} when not matched by source then update set key = t.val", f"{KEY} string"),
    ("merge into db.t t using (select key, val, null as day, array() as tags, s from db.i) i on t.key = i.key when not matched then insert *",
     None),
    ("merge into db.t t using (select val as key, val, null as day, null as tags, s from db.i) i on false when matched then update set *",
     f"{KEY} string"),
    ("with c as (select val as k from db.i) merge into db.t t using c on false when not matched then insert (key) values (c.k)",
     f"{KEY} string"),
    ("delete from db.t where key = 'x'", None),  # a condition is Spark's to judge
]  # fmt: skip


@pytest.fixture(scope="module")
def engine(spark):
    return SessionEngine(spark)


@pytest.mark.parametrize("statement, message", CASES)
def test_what_a_statement_assigns_is_checked_as_spark_checks_what_is_stored(engine, statement, message):
    program = parse(
        f"on input db.i as (insert into db.t (key) select key from db.i; {statement})", "db.t", "my_task"
    )
    if message is None:
        assert analysed_columns(engine, program, INPUT, OUTPUT) == OUTPUT
    else:
        with pytest.raises(StatementColumns, match=f"^statement 1: {re.escape(message)}$"):
            analysed_columns(engine, program, INPUT, OUTPUT)


def test_an_expression_that_cannot_be_analysed_is_shown_in_the_tasks_text(engine):
    text = "on input db.i as (insert into db.t select key, val from db.i;\nupdate db.t set val = valu)"
    with pytest.raises(StatementSyntax, match=r"(?s)my_task: statement 1: .*`valu`.*line 2"):
        analysed_columns(engine, parse(text, "db.t", "my_task"), INPUT)
