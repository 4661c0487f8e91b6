"""A task's text as values. For what is refused see `test_parse_errors`."""

from __future__ import annotations

import pytest

from dbt.adapters.mvsink.continual_task import errors
from dbt.adapters.mvsink.continual_task.parse import parse
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
    """In any other run it would be the user's own filter, and would be lost."""
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


def test_marks_of_macros_behind_the_last_word_are_kept():
    """Without them deleted rows would be read as inserted ones, and the time would be the run's."""
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
    assert [(each.column, each.expression) for each in read.assignments] == assigned


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


def test_ephemeral_models_may_be_passed_separately():
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
def test_whether_deleted_rows_of_the_input_are_read(statements, expected):
    assert task(statements).deletes_used is expected
    in_full = task(statements.replace("mv_deletes", "mv_contents"))
    assert (in_full.contents_used, in_full.deletes_used) == (expected, False)


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
