"""A task's statements before they run: the output's columns, and whether each statement can run.

In SQL, INSERT without a list of columns goes by position. Columns that are declared outside the
text have an order that the text does not show, so for these an INSERT goes by the names in its
query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dbt.adapters.mvsink.continual_task import bind
from dbt.adapters.mvsink.continual_task.columns import assignable, check_assigned_types, output_columns
from dbt.adapters.mvsink.continual_task.errors import NoOutputColumns
from dbt.adapters.mvsink.continual_task.parse import refused_by_engine
from dbt.adapters.mvsink.continual_task.statements import AnyStatement, Insert, Merge, Program
from dbt.adapters.mvsink.engine import Column, Engine, EngineError, sql
from dbt.adapters.mvsink.materialization.contracts import statement_breaks_contract
from dbt.adapters.mvsink.physical import DIFF
from dbt.adapters.mvsink.shard_sql.as_of import nulls
from dbt.adapters.mvsink.user_sql.checks import selected_names


def by_name(
    engine: Engine,
    program: Program,
    inputs: Sequence[Column],
    declared: Sequence[Column],
    *,
    contracted: bool,
) -> Program:
    """The task with a list of columns in each INSERT whose query has the names of the ``declared``
    columns, in any order. If ``contracted``, these are an enforced contract's, so every INSERT
    without a list must have them.

    Raises dbt's `ContractError`, and `StatementSyntax` like `output_columns`.
    """
    nothing, this = f"select {nulls(inputs)} where false", f"select {nulls(declared)} where false"
    known = {column.name.lower(): column for column in declared}

    def named(statement: AnyStatement) -> AnyStatement:
        if not isinstance(statement, Insert) or statement.columns is not None:
            return statement
        bindings = bind.StatementBindings(nothing, this, nothing, contents=nothing)
        inserted = _analysed(engine, program, statement, bindings)
        names = [name.lower() for name, _ in inserted]
        same = sorted(names) == sorted(known)
        if contracted and not (
            same and all(assignable(kind, known[name.lower()]) for name, kind in inserted)
        ):
            raise statement_breaks_contract(statement.number, declared, _as_contracted(inserted, known))
        return replace(statement, columns=tuple(names)) if same else statement

    return replace(program, statements=tuple(map(named, program.statements))) if declared else program


def _as_contracted(inserted: Sequence[tuple[str, str]], known: Mapping[str, Column]) -> list[tuple[str, str]]:
    """Names and types: the contract's type where the value can be stored in its column, else the
    value's.
    """
    fitting = {name: known[name.lower()] for name, _ in inserted if name.lower() in known}
    return [
        (fitting[name].name, fitting[name].type.text if assignable(kind, fitting[name]) else kind)
        if name in fitting
        else (name, kind)
        for name, kind in inserted
    ]


def analysed_columns(
    engine: Engine, program: Program, inputs: Sequence[Column], declared: Sequence[Column] = ()
) -> tuple[Column, ...]:
    """The output's columns, once the engine has analysed all statements. ``inputs`` are the input's
    columns.

    Raises what `columns.output_columns` does, and `StatementSyntax` with the engine's error about a
    statement.
    """
    nothing = f"select {nulls(inputs)} where false"
    inserts = [statement for statement in program.statements if isinstance(statement, Insert)]
    columns = tuple(declared)
    if not columns and inserts:  # the others may read the output's columns, which are not known yet
        first = inserts[0]
        first_columns = _analysed(
            engine,
            program,
            first,
            bind.StatementBindings(nothing, _guessed(first, inputs), nothing, contents=nothing),
        )
        columns = output_columns(replace(program, statements=(first,)), None, {first.number: first_columns})
    if not columns:
        raise NoOutputColumns(program.model, _likely(engine, program, inputs))
    this = f"select {nulls(columns)} where false"
    bindings = bind.StatementBindings(nothing, this, nothing, contents=nothing)
    analysed = {statement.number: _analysed(engine, program, statement, bindings) for statement in inserts}
    columns = output_columns(program, columns or None, analysed)
    contents = f"select {nulls(columns)}, 1L {DIFF} where false"
    for statement in program.statements:
        assigned = bind.assigned(program, statement, columns, contents, bindings)
        # before the delta, whose casts the engine may refuse in other words
        if assigned is not None:
            types = _columns_of(engine, program, statement, assigned.query)
            check_assigned_types(statement, columns, assigned.columns, types)
        _columns_of(engine, program, statement, bind.delta(program, statement, columns, contents, bindings))
    return columns


def _likely(engine: Engine, program: Program, inputs: Sequence[Column]) -> Sequence[tuple[str, str]]:
    """Names and types that fit a task without an INSERT: those that its MERGE inserts, or the
    input's.
    """
    nothing = f"select {nulls(inputs)} where false"
    bindings = bind.StatementBindings(nothing, "select 1 where false", nothing, contents=nothing)
    for merge in (statement for statement in program.statements if isinstance(statement, Merge)):
        query = bind.inserted_by_merge(program, merge, bindings)
        try:
            columns = engine.columns(query) if query else []
        except EngineError:  # it is shown once there are columns
            continue
        if columns:
            return [(name, "string" if kind == "void" else kind) for name, kind in columns]
    return [(column.name, column.type.text) for column in inputs]


def everything_read(program: Program, inputs: Sequence[Column], columns: Sequence[Column]) -> str:
    """A query that reads the statements' references, all relations but the input and the output."""
    nothing, this = f"select {nulls(inputs)} where false", f"select {nulls(columns)} where false"
    bindings = bind.StatementBindings(nothing, this, nothing, contents=nothing)
    contents = f"select {nulls(columns)}, 1L {DIFF} where false"
    deltas = (bind.delta(program, statement, columns, contents, bindings) for statement in program.statements)
    return sql.union_all(f"select 1 from (\n{delta}\n)" for delta in deltas)


def _guessed(first: Insert, inputs: Sequence[Column]) -> str:
    """The output as its defining INSERT may read it: the inserted columns, of unknown types."""
    names = first.columns
    if names is None:
        names = selected_names(first.query)
    spread = [
        name for item in names for name in ([c.name for c in inputs] if item == "*" else [item]) if name
    ]
    return f"select {', '.join(f'null {sql.identifier(name)}' for name in dict.fromkeys(spread)) or '1'} where false"


def _analysed(
    engine: Engine, program: Program, statement: Insert, bindings: bind.StatementBindings
) -> list[tuple[str, str]]:
    return _columns_of(engine, program, statement, bind.analysed(program, statement, bindings))


def _columns_of(
    engine: Engine, program: Program, statement: AnyStatement, query: str
) -> list[tuple[str, str]]:
    """The columns of a query made of ``statement``."""
    try:
        return engine.columns(query)
    except EngineError as error:
        words = getattr(error.__cause__, "spark", None)
        raise refused_by_engine(
            program, statement.number, error.message, str(error.__cause__), code=error.error_code, words=words
        ) from error
