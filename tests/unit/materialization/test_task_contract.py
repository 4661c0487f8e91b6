"""A task's enforced contract, and `column_types`: applied by name, as a view's contract is."""

from __future__ import annotations

import pytest
from dbt.exceptions import ContractError

from dbt.adapters.mvsink.continual_task import bind
from dbt.adapters.mvsink.continual_task.errors import NoOutputColumns
from dbt.adapters.mvsink.continual_task.parse import parse
from dbt.adapters.mvsink.engine import Column, parse_type
from dbt.adapters.mvsink.materialization.task_columns import analysed_columns, by_name
from tests.support.duck_engine import DuckEngine


def columns(**types: str) -> tuple[Column, ...]:
    return tuple(Column(name, parse_type(kind, name)) for name, kind in types.items())


INPUT = columns(email="string", name="string", age="int")
DECLARED = columns(name="string", email="string")
ON = "on input db.x as ({})"
CASES = {
    "another order": (ON.format("insert into db.t select email, name from db.x"), ("email", "name")),
    "the same order": (ON.format("insert into db.t select name, email from db.x"), ("name", "email")),
    "transform": ("from transform db.x using (select email, name from db.x)", ("email", "name")),
    "another case": (ON.format("insert into db.t select EMAIL, Name from db.x"), ("email", "name")),
    "by aliases": (ON.format("insert into db.t select name email, email name from db.x"), ("email", "name")),
    "a list": (ON.format("insert into db.t (name, email) select email, name from db.x"), ("name", "email")),
    "a later statement": (
        ON.format("delete from db.t; insert into db.t select email, name from db.x"),
        ("email", "name"),
    ),
    "a type that fits": (
        ON.format("insert into db.t select age as email, name from db.x"),
        ("email", "name"),
    ),
}


@pytest.mark.parametrize("contracted", [True, False], ids=["contract", "column_types"])
@pytest.mark.parametrize(("text", "listed"), CASES.values(), ids=CASES)
def test_row_g_an_insert_goes_by_the_names_of_its_query(text, listed, contracted):
    program = parse(text, "db.t", "dev.t")
    *_, insert = by_name(DuckEngine(), program, INPUT, DECLARED, contracted=contracted).statements
    assert insert.columns == listed
    values = dict(zip(insert.columns, ("e", "n") if listed[0] == "email" else ("n", "e"), strict=True))
    assert values == {"email": "e", "name": "n"} or "(name, email)" in text
    assert "cast(_mv_" in bind.insert_delta(insert, DECLARED)


BROKEN = {
    "other names": (
        "select email, name as nick from db.x",
        ("nick .* missing in contract", "name .* missing in definition"),
    ),
    "no name": ("select email, upper(name) from db.x", ("name .* missing in definition",)),
    "too few": ("select email from db.x", ("name .* missing in definition",)),
    "too many": ("select email, name, age from db.x", ("age .* missing in contract",)),
    "one name twice": ("select email, name, name from db.x", ("statement 0",)),
    "another type": ("select email, array(name) as name from db.x", ("name .* data type mismatch",)),
}


@pytest.mark.parametrize(("query", "shown"), BROKEN.values(), ids=BROKEN)
def test_row_g_other_columns_than_the_contracts_are_refused_with_dbts_table(query, shown):
    program = parse(ON.format(f"insert into db.t {query}"), "db.t", "dev.t")
    for part in (*shown, "enforced contract that failed", "columns of statement 0"):
        with pytest.raises(ContractError, match=part):
            by_name(DuckEngine(), program, INPUT, DECLARED, contracted=True)


def test_row_g_other_names_than_those_of_column_types_go_by_position():
    program = parse(ON.format("insert into db.t select email a, name b from db.x"), "db.t", "dev.t")
    assert by_name(DuckEngine(), program, INPUT, DECLARED, contracted=False) == program
    assert by_name(DuckEngine(), program, INPUT, (), contracted=False) == program


MERGE = "merge into db.t as o using {} on o.email = x.email when matched then update set name = x.name "
WITHOUT_INSERT = {
    "its values": (
        MERGE.format("db.x") + "when not matched then insert (email, years) values (x.email, x.age + 1)",
        "{'email': 'string', 'years': 'int'}",
    ),
    "all columns of its source": (
        MERGE.format("(select age, email from db.x) x") + "when not matched then insert *",
        "{'age': 'int', 'email': 'string'}",
    ),
    "a common table expression": (
        "with c as (select email, age old from db.x) "
        + MERGE.format("c x").replace("x.name", "'n'")
        + "when not matched then insert *",
        "{'email': 'string', 'old': 'int'}",
    ),
    "the second of two": (
        f"{MERGE.format('db.x')}; {MERGE.format('db.x')} when not matched then insert (name) values (x.name)",
        "{'name': 'string'}",
    ),
    "nothing to go by": (
        "delete from db.t where email in (select email from db.x)",
        "{'email': 'string', 'name': 'string', 'age': 'int'}",
    ),
}


@pytest.mark.parametrize(("statements", "wanted"), WITHOUT_INSERT.values(), ids=WITHOUT_INSERT)
def test_row_p_without_columns_the_error_has_the_lines_to_write(statements, wanted):
    program = parse(ON.format(statements), "db.t", "dev.t")
    with pytest.raises(NoOutputColumns) as error:
        analysed_columns(DuckEngine(), program, INPUT)
    line = f"{{{{ config(materialized='continual_task', column_types={wanted}) }}}}"
    assert line in str(error.value), error.value
