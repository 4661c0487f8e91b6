"""The output's columns, and whether the written values fit them (Spark's ANSI store assignment)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dbt.adapters.mvsink.continual_task.errors import (
    NoOutputColumns,
    RepeatedColumn,
    TooFewExpressions,
    TooManyExpressions,
    TypeMismatch,
    UnknownTargetColumn,
)
from dbt.adapters.mvsink.continual_task.statements import AnyStatement, Delete, Insert, Merge, Program, Update
from dbt.adapters.mvsink.engine import Column, ReservedColumn, UnsupportedType, parse_type
from dbt.adapters.mvsink.engine.types import SparkType
from dbt.adapters.mvsink.shard import widens

_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint", "float", "double", "decimal"})
_DATETIMES = frozenset({"date", "timestamp", "timestamp_ntz"})
Analysed = Sequence[tuple[str, str]]


def wider_columns(stored: Sequence[Column], wanted: Sequence[Column]) -> tuple[Column, ...]:
    """Those of the ``wanted`` columns that the output has with a narrower type."""
    types = {column.name: column.type.arrow() for column in stored}
    return tuple(
        each for each in wanted if each.name in types and widens(types[each.name], each.type.arrow())
    )


def output_columns(
    program: Program, declared: Sequence[Column] | None, analysed: Mapping[int, Analysed]
) -> tuple[Column, ...]:
    """The output's columns, ``declared`` or else the first INSERT's; every statement is checked.

    ``analysed`` has the names and type texts of the columns of every INSERT's query, by the
    statement's number, as the engine reports them. Raises a `TaskError`, `UnsupportedType` or
    `ReservedColumn`.
    """
    columns = tuple(declared) if declared else _first(program, analysed)
    for column in columns:
        if column.name.lower().startswith("_mv_"):
            raise ReservedColumn(column.name)
    for statement in program.statements:
        if isinstance(statement, Insert):
            check_insert(statement, columns, analysed[statement.number])
        else:
            check_assigned(statement, columns)
    return columns


def _first(program: Program, analysed: Mapping[int, Analysed]) -> tuple[Column, ...]:
    for statement in program.statements:
        if isinstance(statement, Insert):
            inserted = analysed[statement.number]
            names = statement.columns or [name for name, _ in inserted]
            _count(statement.number, len(inserted), len(names))
            _known(statement.number, names, names)
            return tuple(
                Column(name, parse_type(kind, name)) for name, (_, kind) in zip(names, inserted, strict=True)
            )
    raise NoOutputColumns(program.model)


def check_insert(statement: Insert, columns: Sequence[Column], inserted: Analysed) -> None:
    """Check the columns ``inserted`` by the query against the output's ``columns``, by position."""
    known = {column.name.lower(): column for column in columns}
    if statement.columns is not None:
        _known(statement.number, statement.columns, [column.name for column in columns])
    targets = (
        [known[name.lower()] for name in statement.columns]
        if statement.columns is not None
        else list(columns)
    )
    _count(statement.number, len(inserted), len(targets))
    for column, (_, kind) in zip(targets, inserted, strict=True):
        _check_type(statement, column, kind)


def check_assigned(statement: AnyStatement, columns: Sequence[Column]) -> None:
    """Check that only output columns are set, each once; `check_assigned_types` checks their
    types.
    """
    names = [column.name for column in columns]
    if isinstance(statement, Update):
        _known(statement.number, [each.column for each in statement.assignments], names)
    elif isinstance(statement, Merge):
        for clause in (*statement.matched, *statement.not_matched, *statement.not_matched_by_source):
            _known(statement.number, [each.column for each in clause.assignments], names)
    else:
        assert isinstance(statement, (Delete, Insert))


def check_assigned_types(
    statement: AnyStatement, columns: Sequence[Column], names: Sequence[str], values: Analysed
) -> None:
    """Check the types of the ``values`` that are assigned to the columns ``names``, in order."""
    known = {column.name.lower(): column for column in columns}
    for name, (_, kind) in zip(names, values, strict=True):
        _check_type(statement, known[name.lower()], kind)


def assignable(kind: str, column: Column) -> bool:
    """Whether a value of the type ``kind``, as the engine spells it, can be stored in
    ``column``.
    """
    return store_assignable(_read(kind), column.type)


def _check_type(statement: AnyStatement, column: Column, kind: str) -> None:
    if not assignable(kind, column):
        raise TypeMismatch(statement.number, column.name, column.type.text, kind)


def _count(statement: int, actual: int, expected: int) -> None:
    if actual > expected:
        raise TooManyExpressions(statement)
    if actual < expected:
        raise TooFewExpressions(statement)


def _known(statement: int, names: Sequence[str], allowed: Sequence[str]) -> None:
    known, earlier = {name.lower() for name in allowed}, set()
    for name in names:
        if name.lower() not in known:
            raise UnknownTargetColumn(statement, name, allowed)
        if name.lower() in earlier:
            raise RepeatedColumn(statement, name)
        earlier.add(name.lower())


def _read(kind: str) -> SparkType:
    """The type that the engine reports, which shards need not support."""
    try:
        return parse_type(kind, "")
    except UnsupportedType:
        # NULL can be stored as any type; for a type with a NULL inside it the cast decides
        return SparkType(kind, "void" if re.search(r"\bvoid\b", kind) else kind.partition("<")[0])


def store_assignable(value: SparkType, to: SparkType) -> bool:
    """Whether ``value`` can be stored in a column of type ``to`` (`Cast.canANSIStoreAssign`)."""
    if value.text == to.text or value.name == "void":
        return True
    if value.name in _NUMBERS and to.name in _NUMBERS:
        return True
    if value.name in _DATETIMES and to.name in _DATETIMES:
        return True
    if to.name == "string":
        return value.name not in ("array", "map", "struct")
    if value.name != to.name or not value.nested:
        return False
    theirs = value.inner or tuple(field.type for field in value.fields)
    ours = to.inner or tuple(field.type for field in to.fields)
    return len(theirs) == len(ours) and all(map(store_assignable, theirs, ours))
