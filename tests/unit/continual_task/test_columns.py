"""The output's columns, and what may be stored in them."""

from __future__ import annotations

import re

import pytest

from dbt.adapters.mvsink.continual_task import errors
from dbt.adapters.mvsink.continual_task.columns import check_assigned_types, output_columns, store_assignable
from dbt.adapters.mvsink.continual_task.parse import parse
from dbt.adapters.mvsink.engine import Column, ReservedColumn, UnsupportedType, parse_type


def columns(**types: str) -> tuple[Column, ...]:
    return tuple(Column(name, parse_type(kind, name)) for name, kind in types.items())


def checked(
    statements: str, declared: tuple[Column, ...] | None, *analysed: list[tuple[str, str]]
) -> tuple[Column, ...]:
    """``analysed``: the columns of each INSERT's query, in order."""
    program = parse(f"on input db.x as ({statements})", "db.t", "my_task")
    inserts = [s.number for s in program.statements if type(s).__name__ == "Insert"]
    return output_columns(program, declared, dict(zip(inserts, analysed, strict=True)))


INSERT = "insert into db.t select *"
DECLARED = columns(key="int", val="string")
INSERTED = [("a", "int"), ("b", "string")]


@pytest.mark.parametrize(
    "statements, declared, analysed, expected",
    [
        (INSERT, None, [INSERTED], columns(a="int", b="string")),
        (INSERT, DECLARED, [INSERTED], DECLARED),
        ("insert into db.t (x, y) select *", None, [INSERTED], columns(x="int", y="string")),
        (
            f"delete from db.t; {INSERT}; {INSERT}",
            None,
            [INSERTED, [("z", "int"), ("z", "int")]],
            columns(a="int", b="string"),
        ),
        ("delete from db.t", DECLARED, [], DECLARED),
    ],
)
def test_columns_are_the_declared_ones_else_the_first_inserts(statements, declared, analysed, expected):
    assert checked(statements, declared, *analysed) == expected


MERGE = "merge into db.t using db.x s on t.key = s.key"
BAD = [
    (INSERT, columns(key="boolean"), [[("a", "int")]], errors.TypeMismatch,
     'statement 0: column "key" is of type boolean but expression is of type int'),
    (f"{INSERT}; {INSERT}", None, [INSERTED, [*INSERTED, ("c", "int")]], errors.TooManyExpressions,
     "statement 1: INSERT has more expressions than target columns"),
    (INSERT, DECLARED, [INSERTED[:1]], errors.TooFewExpressions, "statement 0: INSERT has fewer expressions than target columns"),
    ("insert into db.t (val) select *", DECLARED, [INSERTED], errors.TooManyExpressions,
     "statement 0: INSERT has more expressions than target columns"),
    ("insert into db.t (key, val) select *", DECLARED, [INSERTED[:1]], errors.TooFewExpressions,
     "statement 0: INSERT has fewer expressions than target columns"),
    ("insert into db.t (a, b, c) select *", None, [INSERTED], errors.TooFewExpressions,
     "statement 0: INSERT has fewer expressions than target columns"),
    ("insert into db.t (val, key) select *", DECLARED, [[("a", "int"), ("b", "string")]], errors.TypeMismatch,
     'statement 0: column "key" is of type int but expression is of type string'),
    ("insert into db.t (key, other) select *", DECLARED, [INSERTED], errors.UnknownTargetColumn,
     'statement 0: column "other" is not a column of the output; expected one of: key, val'),
    ("insert into db.t (key, KEY) select *", DECLARED, [INSERTED], errors.RepeatedColumn,
     'statement 0: column "KEY" is given more than once'),
    (INSERT, None, [[("a", "int"), ("A", "int")]], errors.RepeatedColumn, 'statement 0: column "A" is given more than once'),
    ("update db.t set other = 1", DECLARED, [], errors.UnknownTargetColumn,
     'statement 0: column "other" is not a column of the output; expected one of: key, val'),
    ("update db.t set key = 1, Key = 2", DECLARED, [], errors.RepeatedColumn, 'statement 0: column "Key" is given more than once'),
    (f"{MERGE} when matched then update set other = 1", DECLARED, [], errors.UnknownTargetColumn,
     'statement 0: column "other" is not a column of the output; expected one of: key, val'),
    (f"{MERGE} when not matched then insert (key, other) values (1, 2)", DECLARED, [], errors.UnknownTargetColumn,
     'statement 0: column "other" is not a column of the output; expected one of: key, val'),
    (f"{MERGE} when matched then delete", None, [], errors.NoOutputColumns,
     "my_task: no INSERT to take the output's columns from; define them by column_types or an enforced contract"),
    (INSERT, None, [[("_mv_a", "int")]], ReservedColumn,
     "column `_mv_a`: names that start with `_mv_` are reserved; rename the column"),
    (INSERT, None, [[("a", "void")]], UnsupportedType, None),
]  # fmt: skip


@pytest.mark.parametrize("statements, declared, analysed, kind, message", BAD)
def test_statements_that_do_not_fit_are_refused_by_number(statements, declared, analysed, kind, message):
    with pytest.raises(kind, match=None if message is None else f"^{re.escape(message)}$"):
        checked(statements, declared, *analysed)


ASSIGNABLE = [
    ("int", "int"), ("bigint", "tinyint"), ("double", "int"), ("int", "decimal(10,2)"), ("decimal(38,0)", "float"),
    ("int", "string"), ("boolean", "string"), ("binary", "string"), ("timestamp", "string"), ("interval day", "string"),
    ("date", "timestamp"), ("timestamp", "date"), ("timestamp_ntz", "timestamp"),
    ("void", "int"), ("void", "array<int>"), ("array<void>", "array<int>"),
    ("array<int>", "array<string>"), ("map<int,date>", "map<string,timestamp>"),
    ("struct<a:int,b:int>", "struct<x:bigint,y:string>"), ("array<struct<a:array<int>>>", "array<struct<a:array<bigint>>>"),
]  # fmt: skip
REFUSED = [
    ("string", "int"), ("string", "date"), ("string", "boolean"), ("string", "binary"), ("boolean", "int"), ("int", "boolean"),
    ("int", "date"), ("date", "int"), ("timestamp", "bigint"), ("int", "binary"), ("int", "array<int>"), ("array<int>", "string"),
    ("array<string>", "array<int>"), ("map<string,int>", "map<int,int>"), ("map<int,string>", "map<int,int>"),
    ("struct<a:int>", "struct<a:int,b:int>"), ("struct<a:string>", "struct<a:int>"), ("array<int>", "map<int,int>"),
    ("interval day", "bigint"),
]  # fmt: skip


@pytest.mark.parametrize("value, to", ASSIGNABLE)
def test_types_that_can_be_stored(value, to):
    assert checked("insert into db.t select *", columns(c=to), [("a", value)]) == columns(c=to)


@pytest.mark.parametrize("value, to", REFUSED)
def test_types_that_cannot_be_stored(value, to):
    with pytest.raises(
        errors.TypeMismatch, match=re.escape(f'column "c" is of type {to} but expression is of type {value}')
    ):
        checked("insert into db.t select *", columns(c=to), [("a", value)])


def test_the_rules_hold_for_types_of_a_shard():
    assert store_assignable(parse_type("int", ""), parse_type("bigint", ""))
    assert not store_assignable(parse_type("string", ""), parse_type("bigint", ""))


TYPES = columns(key="int", val="string", tags="array<int>")
# the columns that an UPDATE or a MERGE assigns, the types of their values, and what is wrong
ASSIGNED = [
    (["key"], ["bigint"], None),
    (["VAL", "key"], ["timestamp", "void"], None),
    (["key", "key"], ["int", "decimal(10,2)"], None),  # of two clauses
    (["key"], ["string"], 'statement 0: column "key" is of type int but expression is of type string'),
    (
        ["val", "Key"],
        ["string", "boolean"],
        'statement 0: column "key" is of type int but expression is of type boolean',
    ),
    (
        ["tags"],
        ["array<string>"],
        'statement 0: column "tags" is of type array<int> but expression is of type array<string>',
    ),
    (
        ["val"],
        ["array<int>"],
        'statement 0: column "val" is of type string but expression is of type array<int>',
    ),
]


@pytest.mark.parametrize("names, kinds, message", ASSIGNED)
def test_types_that_an_update_or_a_merge_may_assign(names, kinds, message):
    [statement] = parse("on input db.x as (update db.t set key = 1)", "db.t", "my_task").statements
    values = [(f"_mv_{n}", kind) for n, kind in enumerate(kinds)]
    if message is None:
        check_assigned_types(statement, TYPES, names, values)
    else:
        with pytest.raises(errors.TypeMismatch, match=f"^{re.escape(message)}$"):
            check_assigned_types(statement, TYPES, names, values)
