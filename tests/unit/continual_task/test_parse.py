"""A task's text: what is read from it, and what is refused with which words, at which place."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.continual_task import errors
from dbt.adapters.mvsink.continual_task.parse import parse, refused_by_engine
from dbt.adapters.mvsink.continual_task.statements import (
    Action,
    Assignment,
    Delete,
    Form,
    InputRef,
    Insert,
    Merge,
    MergeClause,
    Program,
    Update,
)


def task(statements: str, head: str = "on input db.x as") -> Program:
    return parse(f"{head} (\n{statements}\n)", "db.t", "my_task")


def only(statement: str) -> Insert | Delete | Update | Merge:
    (read,) = task(statement).statements
    return read


@pytest.mark.parametrize(
    "head, expected",
    [
        ("on input db.x as", InputRef("db.x")),
        ("ON INPUT `db`.`my x` AS", InputRef("`db`.`my x`")),
        ("/* a comment */ on -- another\n input db.x as", InputRef("db.x")),
        ("on input (select * from db.x where false limit 0) as", InputRef("db.x", wrapped=True)),
        (
            "on input (select * from db.x where false limit 0) _dbt_limit_subq_x as",
            InputRef("db.x", wrapped=True),
        ),
    ],
)
def test_the_input(head, expected):
    assert task("insert into db.t select 1", head).input == expected


@pytest.mark.parametrize("dbts", ["limit 10", "where ts >= '2026-01-01' and f(ts)"])
def test_a_filter_on_the_input_is_dbts_in_a_sampled_run_only(dbts):
    """In any other run it would be the user's, and be lost."""
    text = f"on input (select * from db.x {dbts}) as (delete from db.t)"
    assert parse(text, "db.t", "m", sampled=True).input == InputRef("db.x", wrapped=True)
    with pytest.raises(errors.StatementSyntax, match="a continual task's input is one relation, not a query"):
        parse(text, "db.t", "m")


def test_statements_are_split_at_semicolons_that_are_syntax():
    program = task(
        "insert into db.t select ';', \"a;b\", `c;d`, case when a then ';' else (select 1) end from db.x; -- ; a comment\n"
        "/* ; */ delete from db.t where case when a then b end;;\n"
        "update db.t set a = case a when 1 then 2 end, b = f(';', (1));"
    )
    assert [(s.number, s.line, type(s).__name__) for s in program.statements] == [
        (0, 2, "Insert"),
        (1, 3, "Delete"),
        (2, 4, "Update"),
    ]
    assert program.statements[2].text == "update db.t set a = case a when 1 then 2 end, b = f(';', (1))"


INSERTS = [
    ("insert into db.t select 1", None, "select 1"),
    ("insert into table DB.`T` values (1, 2)", None, "values (1, 2)"),
    ("insert into db.t (a, `b c`) select 1, 2", ("a", "b c"), "select 1, 2"),
    ("insert into db.t (a) (select 1)", ("a",), "(select 1)"),
    ("insert into db.t (select 1) union all (select 2)", None, "(select 1) union all (select 2)"),
    ("insert into db.t with c as (select 1) select * from c", None, "with c as (select 1) select * from c"),
    ("insert into db.t from db.x select a", None, "from db.x select a"),
    ("insert into db.t table db.x", None, "table db.x"),
    (
        "insert into db.t select /* kept */ a -- kept\n from db.x -- not",
        None,
        "select /* kept */ a -- kept\n from db.x",
    ),
]


@pytest.mark.parametrize("statement, columns, query", INSERTS)
def test_insert(statement, columns, query):
    read = only(statement)
    assert isinstance(read, Insert) and (read.columns, read.query) == (columns, query)


def test_what_macros_leave_behind_the_last_word_is_kept():
    """Without it the input's lost rows would be its new ones, and the time that of the run."""
    program = task(
        "insert into db.t select * from db.x /* mv_deletes */; delete from db.t where ts < timestamp_millis(1L) /* mv_now */"
    )
    insert, delete = program.statements
    assert isinstance(insert, Insert) and insert.query == "select * from db.x /* mv_deletes */"
    assert isinstance(delete, Delete) and delete.where == "ts < timestamp_millis(1L) /* mv_now */"


DELETES = [
    ("delete from db.t", None, None),
    ("delete from db.t where a = 1", None, "a = 1"),
    (
        "delete from db.t as o where o.a in (select a from db.x where b)",
        "o",
        "o.a in (select a from db.x where b)",
    ),
    ("delete from db.t o", "o", None),
]


@pytest.mark.parametrize("statement, alias, where", DELETES)
def test_delete(statement, alias, where):
    read = only(statement)
    assert isinstance(read, Delete) and (read.alias, read.where) == (alias, where)


UPDATES = [
    ("update db.t set a = 1", None, [("a", "1")], None),
    ("update db.t set a = f(1, 2), `b c` = (select max(x) from db.x where y) where a > 0", None,
     [("a", "f(1, 2)"), ("b c", "(select max(x) from db.x where y)")], "a > 0"),
    ("update db.t o set o.a = o.a + 1, b = default where o.b = 'where'", "o", [("a", "o.a + 1"), ("b", "default")], "o.b = 'where'"),
    ("update db.t set db.t.a = 1, t.b == 2", None, [("a", "1"), ("b", "2")], None),
    ("update db.t set a = case when b = 1 then 2, 3 end", None, [("a", "case when b = 1 then 2, 3 end")], None),
]  # fmt: skip


@pytest.mark.parametrize("statement, alias, assigned, where", UPDATES)
def test_update(statement, alias, assigned, where):
    read = only(statement)
    assert isinstance(read, Update) and (read.alias, read.where) == (alias, where)
    assert [(given.column, given.expression) for given in read.assignments] == assigned


A1 = (Assignment("a", "1"),)
MERGES = [
    ("when matched then delete", "matched", [MergeClause(Action.DELETE)]),
    ("when matched and s.b then update set a = 1", "matched", [MergeClause(Action.UPDATE, "s.b", A1)]),
    ("when matched then update set *", "matched", [MergeClause(Action.UPDATE_ALL)]),
    ("when matched and case when p then q end then update set t.a = 1 when matched then delete", "matched",
     [MergeClause(Action.UPDATE, "case when p then q end", A1), MergeClause(Action.DELETE)]),
    ("when not matched then insert (a) values (1)", "not_matched", [MergeClause(Action.INSERT, None, A1)]),
    ("when not matched by target and s.b > 0 then insert *", "not_matched", [MergeClause(Action.INSERT_ALL, "s.b > 0")]),
    ("when not matched by source then delete", "not_matched_by_source", [MergeClause(Action.DELETE)]),
    ("when not matched by source and t.b then update set a = 1", "not_matched_by_source", [MergeClause(Action.UPDATE, "t.b", A1)]),
]  # fmt: skip


@pytest.mark.parametrize("clauses, group, expected", MERGES)
def test_merge_clauses(clauses, group, expected):
    read = only(f"merge into db.t using db.x s on t.k = s.k {clauses}")
    assert isinstance(read, Merge) and (read.on, list(getattr(read, group))) == ("t.k = s.k", expected)
    others = {"matched", "not_matched", "not_matched_by_source"} - {group}
    assert not any(getattr(read, other) for other in others)


@pytest.mark.parametrize(
    "written, alias, source, source_alias, on",
    [
        ("db.t using db.x on a", None, "db.x", None, "a"),
        ("db.t as o using db.x as s on o.a = s.a", "o", "db.x", "s", "o.a = s.a"),
        ("db.t o using (select * from db.x) s on (a)", "o", "(select * from db.x)", "s", "(a)"),
        (
            "db.t using (values (1)) on case when matched then 1 end",
            None,
            "(values (1))",
            None,
            "case when matched then 1 end",
        ),
    ],
)
def test_merge_relations(written, alias, source, source_alias, on):
    read = only(f"merge into {written} when matched then delete")
    assert isinstance(read, Merge)
    assert (read.alias, read.source, read.source_alias, read.on) == (alias, source, source_alias, on)


def test_transform_is_one_insert():
    program = task("select a, max(b) from db.x group by a;", "from transform db.x using")
    assert program.form is Form.TRANSFORM
    (insert,) = program.statements
    assert isinstance(insert, Insert) and (insert.columns, insert.query) == (
        None,
        "select a, max(b) from db.x group by a",
    )


def test_retain_is_an_insert_and_a_delete():
    program = task("ts > now() -- recent", "from retain db.x while")
    insert, delete = program.statements
    assert program.form is Form.RETAIN and (insert.number, delete.number) == (0, 1)
    assert isinstance(insert, Insert) and insert.query == "select * from db.x where (\nts > now()\n)"
    assert isinstance(delete, Delete) and (delete.where, delete.alias) == ("not (\nts > now()\n)", None)


def test_ephemeral_models_in_front_belong_to_every_statement():
    ephemeral = "with __dbt__cte__e as (\nselect ')' a from db.y -- )\n), __dbt__cte__f as (select 1)"
    program = task("insert into db.t select * from __dbt__cte__e", f"{ephemeral}on input db.x as")
    assert program.ctes == ephemeral
    assert program.with_ctes("with c as (q) select 1") == f"{ephemeral},\nc as (q) select 1"


def test_ephemeral_models_may_be_given_apart():
    program = parse(
        "on input db.x as (delete from db.t)",
        "db.t",
        "m",
        [" __dbt__cte__e as (\nselect 1\n)", "f as (select 2)"],
    )
    assert program.ctes == "with __dbt__cte__e as (\nselect 1\n),\nf as (select 2)"
    assert parse("on input db.x as (delete from db.t)", "db.t", "m").ctes is None


def test_a_statement_may_have_ctes_of_its_own():
    statement = only("with c as (select 1) insert into db.t select * from c")
    assert isinstance(statement, Insert) and (statement.ctes, statement.query) == (
        "with c as (select 1)",
        "select * from c",
    )


@pytest.mark.parametrize(
    "statements, expected",
    [
        ("insert into db.t select * from db.x", False),
        ("insert into db.t select * from db.x /* mv_deletes */", True),
        ("insert into db.t select * from DB.`X` /* mv_deletes */ d", True),
        (
            "delete from db.t where a in (select a from (select * from db.x where false limit 0) /* mv_deletes */ d)",
            True,
        ),
        ("insert into db.t select '/* mv_deletes */' from db.x", False),
    ],
)
def test_whether_the_rows_that_the_input_lost_are_read(statements, expected):
    assert task(statements).deletes_used is expected


@pytest.mark.parametrize(
    "statements, expected",
    [
        ("insert into db.t select * from db.x", False),
        ("insert into db.t select 'from db.t' from db.x", False),
        ("insert into db.t select * from db.x where a not in (select a from db.t)", True),
        ("with c as (select * from db.t) insert into db.t select * from c", True),
        ("delete from db.t", True),
    ],
)
def test_whether_the_output_is_read(statements, expected):
    assert task(statements).self_referencing is expected


HEADS = (
    "my_task: a continual task is `on input {{ ref('...') }} as ( statements )`, `from transform {{ ref('...') }} using ( query )` or "
    "`from retain {{ ref('...') }} while ( predicate )`"
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
def test_what_is_wrong_around_the_statements(text, kind, message):
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
     "WITH SCHEMA EVOLUTION is not supported: on_schema_change says what happens to the output's columns", 6),
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
     "mv_deletes gives the rows that the input lost; its argument must be the input, db.x", 34),
]  # fmt: skip


@pytest.mark.parametrize("statement, kind, said, column", BAD_STATEMENTS)
def test_what_is_wrong_in_a_statement_names_it_with_line_and_caret(statement, kind, said, column):
    with pytest.raises(kind) as error:
        task(f"delete from db.t;\n  {statement}")
    where = f"line 3:\n    {statement}\n    {' ' * column}^"
    assert type(error.value) is kind and str(error.value) == f"my_task: statement 1: {said}\n{where}"


def test_the_caret_stands_right_below_tabs():
    with pytest.raises(errors.StatementSyntax) as error:
        task("\tdelete\tform db.t")
    assert str(error.value).endswith("line 2:\n  \tdelete\tform db.t\n  \t      \t^")


def test_time_travel_of_the_input_is_refused():
    with pytest.raises(errors.StatementSyntax, match="db.x has a time travel clause"):
        task("insert into db.t select * from db.x version as of 3")


SPARK = "[PARSE_SYNTAX_ERROR] Syntax error at or near {near}. SQLSTATE: 42601"


@pytest.mark.parametrize(
    "details, line, meant",
    [
        (" (line 4, pos 9)\n\n== SQL ==\ndescribe query\nselect 1 from (\nselect a,\n    form db.x b\n----------^^^\n) x", 4, "db.x b"),
        (" (line 2, pos 4)\n\n  == SQL ==\n  select 1 from (\n      form db.x b\n  ---^^^\n  ) x", 4, "form db.x b"),
        (" (line 2, pos 0)\n\n== SQL ==\nselect 1\nmerged and changed form\n^^^", 4, "form db.x b"),
        ("", 3, "insert into db.t select a,"),
        (" (line 9, pos 0)\n\n== SQL ==\nselect 1", 3, "insert into db.t select a,"),
    ],
)  # fmt: skip
def test_what_the_engine_refuses_is_shown_in_the_tasks_text(details, line, meant):
    """Also where dbt has indented the engine's words, and where the engine's line is not the
    user's.
    """
    program = task("delete from db.t;\ninsert into db.t select a,\n   form db.x b")
    said = SPARK.format(near="'form'")
    refused = refused_by_engine(program, 1, said + details)
    assert str(refused).startswith(f"my_task: statement 1: {said}\nline {line}:\n")
    shown, caret = str(refused).split("\n")[-2:]
    assert shown[caret.index("^") :] == meant
    assert str(refused_by_engine(program, 1, said, said + details)) == str(refused)
