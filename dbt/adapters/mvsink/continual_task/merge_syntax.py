"""Reading MERGE, and the assignments it has in common with UPDATE."""

from __future__ import annotations

from typing import TypedDict

from dbt.adapters.mvsink.continual_task.statements import Action, Assignment, Merge, MergeClause
from dbt.adapters.mvsink.continual_task.token_cursor import Cursor

Qualifiers = frozenset[tuple[str, ...]]
_CLAUSES = {
    ("MATCHED",): "matched",
    ("NOT", "MATCHED", "BY", "SOURCE"): "not_matched_by_source",
    ("NOT", "MATCHED", "BY", "TARGET"): "not_matched",
    ("NOT", "MATCHED"): "not_matched",
}


class Head(TypedDict):
    """What every statement starts with."""

    number: int
    line: int
    start: int
    text: str
    ctes: str | None


def merge(cursor: Cursor, head: Head, alias: str | None, qualifiers: Qualifiers) -> Merge:
    """The MERGE whose target and ``alias`` have been read."""
    cursor.expect("USING")
    start = cursor.at
    if cursor.upper == "(":
        cursor.parenthesized()
    else:
        cursor.name("a relation or a query in parentheses")
    source = cursor.text(start, cursor.at)
    source_alias = cursor.alias()
    cursor.expect("ON")
    on = cursor.expression("a condition", "WHEN")
    groups: dict[str, list[MergeClause]] = {"matched": [], "not_matched": [], "not_matched_by_source": []}
    if cursor.done:
        raise cursor.fail("expected WHEN, got nothing")
    while not cursor.done:
        cursor.expect("WHEN")
        place = cursor.at
        group = next((name for keywords, name in _CLAUSES.items() if cursor.take(*keywords)), None)
        if group is None:
            raise cursor.fail(f"expected MATCHED or NOT MATCHED, got {cursor.shown()}")
        if groups[group] and groups[group][-1].condition is None:
            raise cursor.fail("only the last clause of its kind may be without a condition", place)
        groups[group].append(_clause(cursor, group, qualifiers))
    return Merge(
        **head,
        alias=alias,
        source=source,
        source_alias=source_alias,
        on=on,
        matched=tuple(groups["matched"]),
        not_matched=tuple(groups["not_matched"]),
        not_matched_by_source=tuple(groups["not_matched_by_source"]),
    )


def _clause(cursor: Cursor, group: str, qualifiers: Qualifiers) -> MergeClause:
    condition = cursor.expression("a condition", "THEN") if cursor.take("AND") else None
    cursor.expect("THEN")
    if group == "not_matched":
        cursor.expect("INSERT")
        if cursor.take("*"):
            return MergeClause(Action.INSERT_ALL, condition)
        return MergeClause(Action.INSERT, condition, _values(cursor))
    if cursor.take("DELETE"):
        return MergeClause(Action.DELETE, condition)
    if cursor.upper != "UPDATE":
        raise cursor.fail(f"expected UPDATE or DELETE, got {cursor.shown()}")
    cursor.expect("UPDATE", "SET")
    if group == "matched" and cursor.take("*"):
        return MergeClause(Action.UPDATE_ALL, condition)
    return MergeClause(Action.UPDATE, condition, assignments(cursor, qualifiers, "WHEN"))


def _values(cursor: Cursor) -> tuple[Assignment, ...]:
    listed = cursor.parenthesized()
    columns = [".".join(piece.name("a column's name")) for piece in listed.pieces(",")]
    cursor.expect("VALUES")
    place = cursor.at
    values = [piece.expression("an expression") for piece in cursor.parenthesized().pieces(",")]
    if len(values) != len(columns):
        raise cursor.fail(f"INSERT has {len(columns)} columns and {len(values)} values", place)
    return tuple(map(Assignment, columns, values))


def assignments(cursor: Cursor, qualifiers: Qualifiers, end: str) -> tuple[Assignment, ...]:
    """``a = 1, b = 2`` up to the keyword ``end``."""
    start = cursor.at
    cursor.expression("an assignment", end)
    return tuple(_assignment(piece, qualifiers) for piece in cursor.part(start, cursor.at).pieces(","))


def _assignment(cursor: Cursor, qualifiers: Qualifiers) -> Assignment:
    start = cursor.at
    *qualifier, column = cursor.name("a column's name")
    if qualifier and tuple(part.lower() for part in qualifier) not in qualifiers:
        name = cursor.text(start, cursor.at)
        raise cursor.fail(
            f"{name} is not a column of the output; a field of a column is set by setting the whole column",
            start,
        )
    if not cursor.take("=="):
        cursor.expect("=")
    return Assignment(column, cursor.expression("an expression"))
