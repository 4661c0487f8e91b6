"""A task's text that is refused: the error's class, its message, and its place."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.continual_task import errors
from dbt.adapters.mvsink.continual_task.parse import parse, refused_by_engine
from dbt.adapters.mvsink.continual_task.statements import Program


def task(statements: str) -> Program:
    return parse(f"on input db.x as (\n{statements}\n)", "db.t", "my_task")


HEADS = (
    "my_task: a continual task is `on input {{ ref('...') }} as ( statements )`, `from transform {{ ref('...') }} using ( query )` or "
    "`from retain {{ ref('...') }} while ( predicate )`. A query alone is a model with materialized='self_correcting_mv'"
)
SEVERAL = "A continual task has one input, whose changes drive it; its statements may read any other relation as a reference"
NO_HEAD = [
    ("", errors.NoHead, f"{HEADS}\nline 1:\n  \n  ^"),
    ("select 1", errors.NoHead, f"{HEADS}\nline 1:\n  select 1\n  ^"),
    ("with a as (select 1)\nselect 2", errors.NoHead, f"{HEADS}\nline 2:\n  select 2\n  ^"),
    ("on inputs db.x as (delete from db.t)", errors.NoHead, f"{HEADS}\nline 1:\n  on inputs db.x as (delete from db.t)\n  ^"),
    ("on input db.x, db.y as (delete from db.t)", errors.SeveralInputs,
     f"my_task: several inputs are not supported: got db.x, db.y. {SEVERAL}\nline 1:\n"
     "  on input db.x, db.y as (delete from db.t)\n           ^"),
    ("from transform db.x and db.y using (select 1)", errors.SeveralInputs,
     f"my_task: several inputs are not supported: got db.x, db.y. {SEVERAL}\nline 1:\n"
     "  from transform db.x and db.y using (select 1)\n                 ^"),
    ("on input DB.`t` as (delete from db.t)", errors.OwnOutputAsInput,
     "my_task: a continual task cannot use its own output db.t as its input\nline 1:\n"
     "  on input DB.`t` as (delete from db.t)\n           ^"),
    ("on input (select a from db.x) as (delete from db.t)", errors.StatementSyntax,
     "my_task: a continual task's input is one relation, not a query\nline 1:\n"
     "  on input (select a from db.x) as (delete from db.t)\n           ^"),
    ("on input (select * from db.x join db.y) as (delete from db.t)", errors.StatementSyntax,
     "my_task: a continual task's input is one relation, not a query\nline 1:\n"
     "  on input (select * from db.x join db.y) as (delete from db.t)\n           ^"),
    ("on input 'x' as (delete from db.t)", errors.StatementSyntax,
     "my_task: expected the input's name, got 'x'\nline 1:\n  on input 'x' as (delete from db.t)\n           ^"),
    ("on input db.x (delete from db.t)", errors.StatementSyntax,
     "my_task: expected AS, got (\nline 1:\n  on input db.x (delete from db.t)\n                ^"),
    ("on input db.x as delete from db.t", errors.StatementSyntax,
     "my_task: expected (, got delete\nline 1:\n  on input db.x as delete from db.t\n                   ^"),
    ("on input db.x as (\n\tdelete from db.t", errors.StatementSyntax,
     "my_task: this parenthesis is not closed\nline 1:\n  on input db.x as (\n                   ^"),
    ("on input db.x as (delete from db.t)\n)", errors.TextAfterStatements,
     "my_task: nothing may follow the closing parenthesis of a continual task\nline 2:\n  )\n  ^"),
    ("on input db.x as (delete from db.t);\nselect 1", errors.TextAfterStatements,
     "my_task: nothing may follow the closing parenthesis of a continual task\nline 2:\n  select 1\n  ^"),
    ("on input db.x as ( -- nothing\n)", errors.StatementSyntax,
     "my_task: expected a statement, got nothing\nline 2:\n  )\n  ^"),
    ("on input db.x as ( ; )", errors.StatementSyntax,
     "my_task: expected a statement, got nothing\nline 1:\n  on input db.x as ( ; )\n                     ^"),
    ("on input db.x as repeat (delete from db.t)", errors.Fixpoint,
     "my_task: statements iterated to a fixpoint are not supported: got repeat. Every statement runs once for each time\nline 1:\n"
     "  on input db.x as repeat (delete from db.t)\n                   ^"),
    ("from transform db.x using (select 1; select 2)", errors.SeveralStatements,
     "my_task: `from transform` takes one, without a `;`. For several statements: on input ... as ( ... )\nline 1:\n"
     "  from transform db.x using (select 1; select 2)\n                                       ^"),
    ("from transform db.x using (insert into db.t select 1)", errors.StatementSyntax,
     "my_task: statement 0: expected a query, got insert\nline 1:\n"
     "  from transform db.x using (insert into db.t select 1)\n                             ^"),
    ("on input db.x as (insert into db.t select 'a)", errors.StatementSyntax,
     "my_task: a quote or a comment is not closed, somewhere in the model's text\nline 1:\n"
     "  on input db.x as (insert into db.t select 'a)\n  ^"),
]  # fmt: skip


@pytest.mark.parametrize("text, kind, message", NO_HEAD)
def test_errors_around_the_statements(text, kind, message):
    with pytest.raises(kind) as error:
        parse(text, "db.t", "my_task")
    assert type(error.value) is kind and str(error.value) == message


ONE_OUTPUT = (
    "several outputs are not supported: a continual task writes its own output only, {{ this }} (db.t)"
)
FOUR = "expected INSERT INTO, DELETE FROM, UPDATE or MERGE INTO {{ this }}"
# A statement, the kind of error, what is said, and the column of the caret.
BAD_STATEMENTS = [
    ("select 1", errors.UnknownStatement, f"got select, {FOUR}", 0),
    ("truncate table db.t", errors.UnknownStatement, f"got truncate, {FOUR}", 0),
    ("show tables", errors.UnknownStatement, f"got show, {FOUR}", 0),
    ("from db.x insert into db.t select a", errors.UnknownStatement, f"got from, {FOUR}", 0),
    ("with c as (select 1) select 1", errors.UnknownStatement, f"got select, {FOUR}", 21),
    ("while a do delete from db.t", errors.Fixpoint,
     "statements iterated to a fixpoint are not supported: got while a. Every statement runs once for each time", 0),
    ("with mutually recursive c as (select 1) insert into db.t select 1", errors.Fixpoint,
     "statements iterated to a fixpoint are not supported: got with mutually. Every statement runs once for each time", 0),
    ("insert into db.x select 1", errors.WrongTarget, f"writes db.x; {ONE_OUTPUT}", 12),
    ("delete from other.db.t", errors.WrongTarget, f"writes other.db.t; {ONE_OUTPUT}", 12),
    ("update t set a = 1", errors.WrongTarget, f"writes t; {ONE_OUTPUT}", 7),
    ("merge into db.x using db.t on a when matched then delete", errors.WrongTarget, f"writes db.x; {ONE_OUTPUT}", 11),
    ("delete form db.t", errors.StatementSyntax, "expected FROM, got form", 7),
    ("delete from db.t t when a", errors.StatementSyntax, "expected WHERE, got when", 19),
    ("delete from db.t where", errors.StatementSyntax, "expected a condition, got nothing", 22),
    ("delete from", errors.StatementSyntax, "expected {{ this }}, got nothing", 11),
    ("insert overwrite db.t select 1", errors.StatementSyntax, "expected INTO, got overwrite", 7),
    ("insert into db.t selct 1", errors.StatementSyntax, "expected a query, got selct", 17),
    ("insert into db.t", errors.StatementSyntax, "expected a query, got nothing", 16),
    ("insert into db.t (a b) select 1", errors.StatementSyntax, "expected a column's name, got b", 20),
    ("insert into db.t (a.b) select 1", errors.StatementSyntax, "expected a column's name, got a.b", 21),
    ("insert into db.t by name select 1", errors.StatementSyntax,
     "by is not supported: INSERT INTO {{ this }} [(columns)] query", 17),
    ("update db.t a = 1", errors.StatementSyntax, "expected SET, got =", 14),
    ("update db.t set", errors.StatementSyntax, "expected an assignment, got nothing", 15),
    ("update db.t set a 1", errors.StatementSyntax, "expected =, got 1", 18),
    ("update db.t set a = 1,", errors.StatementSyntax, "expected a column's name, got nothing", 22),
    ("update db.t set a = , b = 1", errors.StatementSyntax, "expected an expression, got nothing", 19),
    ("update db.t o set t.a = 1", errors.StatementSyntax,
     "t.a is not a column of the output; a field of a column is set by setting the whole column", 18),
    ("merge with schema evolution into db.t using db.x on a when matched then delete", errors.StatementSyntax,
     "WITH SCHEMA EVOLUTION is not supported: on_schema_change decides about the output's columns", 6),
    ("merge into db.t using db.x when matched then delete", errors.StatementSyntax, "expected ON, got when", 27),
    ("merge into db.t using db.x on a", errors.StatementSyntax, "expected WHEN, got nothing", 31),
    ("merge into db.t using db.x on a when found then delete", errors.StatementSyntax,
     "expected MATCHED or NOT MATCHED, got found", 37),
    ("merge into db.t using db.x on a when matched then insert *", errors.StatementSyntax,
     "expected UPDATE or DELETE, got insert", 50),
    ("merge into db.t using db.x on a when not matched then delete", errors.StatementSyntax, "expected INSERT, got delete", 54),
    ("merge into db.t using db.x on a when not matched by source then update set *", errors.StatementSyntax,
     "expected a column's name, got *", 75),
    ("merge into db.t using db.x on a when not matched then insert (a, b) values (1)", errors.StatementSyntax,
     "INSERT has 2 columns and 1 values", 75),
    ("merge into db.t using db.x on a when matched then delete when matched and b then delete", errors.StatementSyntax,
     "only the last clause of its kind may be without a condition", 62),
    ("insert into db.t select * from db.y /* mv_deletes */", errors.DeletesOfAnother,
     "mv_deletes are the rows that the input lost; its argument must be the input, db.x", 34),
    ("insert into db.t select * from db.y /* mv_contents */", errors.ContentsOfAnother,
     "mv_contents are all rows of the input; its argument must be the input, db.x. Any other relation is read in full by its name alone",
     34),
]  # fmt: skip


@pytest.mark.parametrize("statement, kind, message, column", BAD_STATEMENTS)
def test_an_error_in_a_statement_shows_its_line_with_a_caret(statement, kind, message, column):
    with pytest.raises(kind) as error:
        task(f"delete from db.t;\n  {statement}")
    where = f"line 3:\n    {statement}\n    {' ' * column}^"
    assert type(error.value) is kind and str(error.value) == f"my_task: statement 1: {message}\n{where}"


def test_the_caret_is_aligned_below_tabs():
    with pytest.raises(errors.StatementSyntax) as error:
        task("\tdelete\tform db.t")
    assert str(error.value).endswith("line 2:\n  \tdelete\tform db.t\n  \t      \t^")


def test_time_travel_of_the_input_is_refused():
    with pytest.raises(errors.StatementSyntax, match="db.x has a time travel clause"):
        task("insert into db.t select * from db.x version as of 3")


SPARK = "[PARSE_SYNTAX_ERROR] Syntax error at or near {near}. SQLSTATE: 42601"


@pytest.mark.parametrize(
    "details, line, shown",
    [
        (" (line 4, pos 9)\n\n== SQL ==\ndescribe query\nselect 1 from (\nselect a,\n    form db.x b\n----------^^^\n) x", 4, "db.x b"),
        (" (line 2, pos 4)\n\n  == SQL ==\n  select 1 from (\n      form db.x b\n  ---^^^\n  ) x", 4, "form db.x b"),
        (" (line 2, pos 0)\n\n== SQL ==\nselect 1\nmerged and changed form\n^^^", 4, "form db.x b"),
        ("", 3, "insert into db.t select a,"),
        (" (line 9, pos 0)\n\n== SQL ==\nselect 1", 3, "insert into db.t select a,"),
    ],
)  # fmt: skip
def test_an_error_of_the_engine_is_shown_in_the_tasks_text(details, line, shown):
    """Also if dbt has indented the engine's message, or the engine's line is not the user's."""
    program = task("delete from db.t;\ninsert into db.t select a,\n   form db.x b")
    message = SPARK.format(near="'form'")
    refused = refused_by_engine(program, 1, message + details)
    assert str(refused).startswith(f"my_task: statement 1: {message}\nline {line}:\n")
    text, caret = str(refused).split("\n")[-2:]
    assert text[caret.index("^") :] == shown
    assert str(refused_by_engine(program, 1, message, message + details)) == str(refused)
