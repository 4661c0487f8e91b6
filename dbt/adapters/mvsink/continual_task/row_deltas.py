"""The deltas of DELETE, UPDATE and MERGE: the old rows negated, and the new ones. Also the assigned
values, for checking their types.

Each changed row first gets its new values as a struct `_mv_new`, in the scope that the user's
expressions expect. Then it is split into an old and a new side. A MERGE is up to three such
queries, one per kind of WHEN. The first clause of a kind whose condition is true applies; a NULL
condition is not true.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dbt.adapters.mvsink.continual_task.statements import (
    Action,
    Assignment,
    Delete,
    Merge,
    MergeClause,
    Update,
)
from dbt.adapters.mvsink.engine import Column, sql
from dbt.adapters.mvsink.engine.whole_rows import net
from dbt.adapters.mvsink.physical import DIFF
from dbt.adapters.mvsink.shard_sql.current_view import Apart
from dbt.adapters.mvsink.user_sql.words import words

Columns = Sequence[Column]
# As in Spark's own MERGE: an SQLSTATE of class 23 marks a failure caused by the data
# (`EngineError.caused_by_data`), and `raise_error` can have one only in its text: as its end, and
# a value in the text must not look like one.
SEVERAL_MATCH, ITS_STATE = "[MERGE_CARDINALITY_VIOLATION] MERGE: ", ". SQLSTATE: 23K01"
LONGEST_VALUE = 100  # characters of a value in a message
_TARGET = "_mv_target"


def target(contents: str, alias: str | None) -> str:
    """The output as a relation under the statement's alias for it."""
    return sql.subquery(contents, alias or "_mv_this")


def value_of(expression: str) -> str:
    """The assigned expression; the default of every column of the output is NULL."""
    return "null" if expression.strip().upper() == "DEFAULT" else f"\n{expression}\n"


def _where(statement: Delete | Update) -> str:
    return "" if statement.where is None else f" where (\n{statement.where}\n)"


def within_reach(statement: Delete | Update, columns: Columns, apart: Apart) -> str:
    """Contents, restricted to rows for which the statement's condition may be true: enough for its
    delta, without consolidating the base.

    These are the base's rows for which the condition is true and all other updates, consolidated;
    no row has a larger multiplicity than in the whole output. The condition is also evaluated for
    deleted base rows and may fail on one. Such a failure does not mean that the statement fails on
    the contents.
    """
    items = sql.columns(column.name for column in columns)
    base = f"select {items}, {DIFF} from {target(apart.base, statement.alias)}{_where(statement)}"
    return net(columns, [], sql.union_all([base, apart.rest]), "> 0")


def delete_delta(statement: Delete, columns: Columns, contents: str) -> str:
    """Minus the rows for which the condition is true."""
    items = sql.columns(column.name for column in columns)
    return f"select {items}, -{DIFF} {DIFF} from {target(contents, statement.alias)}{_where(statement)}"


def update_delta(statement: Update, columns: Columns, contents: str) -> str:
    """Minus the matching rows, plus the same with new values, evaluated over the old row."""
    alias = statement.alias or "_mv_this"
    new = _new(columns, statement.assignments, alias)
    items = sql.columns((c.name for c in columns), sql.identifier(alias))
    return _sides(
        f"select {items}, {DIFF}, {new} _mv_new from {target(contents, alias)}{_where(statement)}", columns
    )


def merge_delta(statement: Merge, columns: Columns, contents: str) -> str:
    """The changes of all clauses. The query fails if two source rows change the same row; if `WHEN
    MATCHED THEN DELETE` is the only clause, there can be no conflict.
    """
    alias, source_alias = statement.alias or "_mv_this", statement.source_alias or "_mv_source"
    ours, theirs = target(contents, alias), f"{statement.source} {sql.identifier(source_alias)}"
    on = f" on (\n{statement.on}\n)"
    items = (
        sql.columns((c.name for c in columns), sql.identifier(alias)) + f", {sql.identifier(alias)}.{DIFF}"
    )
    branches = []
    if statement.matched == (MergeClause(Action.DELETE),):
        negated = f"{sql.columns(c.name for c in columns)}, -{DIFF} {DIFF}"
        branches.append(f"select {negated} from {ours} left semi join {theirs}{on}")
    elif statement.matched:
        numbered = target(
            f"select *, monotonically_increasing_id() {_TARGET} from {sql.subquery(contents, '_mv_contents')}",
            alias,
        )
        new = _first(statement.matched, columns, alias, source_alias)
        pairs = f"select {items}, {_TARGET}, {new} _mv_new from {numbered} join {theirs}{on}"
        counted = f"select *, count(*) over (partition by {_TARGET}) _mv_matches from (\n{pairs}\n) where _mv_new is not null"
        branches.append(_sides(counted, columns, several=_several_match(statement.on, columns)))
    if statement.not_matched:
        new = _first(statement.not_matched, columns, None, source_alias)
        rows = f"select {new} _mv_new from {theirs} left anti join {ours}{on}"
        values = ", ".join(f"_mv_new.{sql.identifier(c.name)}" for c in columns)
        branches.append(f"select {values}, 1L {DIFF} from (\n{rows}\n) where _mv_new is not null")
    if statement.not_matched_by_source:
        new = _first(statement.not_matched_by_source, columns, alias, source_alias)
        rows = f"select {items}, {new} _mv_new from {ours} left anti join {theirs}{on}"
        branches.append(_sides(f"select * from (\n{rows}\n) where _mv_new is not null", columns))
    return sql.union_all(branches)


@dataclass(frozen=True)
class Assigned:
    """The values that a statement assigns, as columns of ``query``, and the columns that they go
    to.
    """

    columns: tuple[str, ...]
    query: str


def update_values(statement: Update, contents: str) -> Assigned:
    """The values of an UPDATE, evaluated over the old rows."""
    return _assigned([(statement.assignments, target(contents, statement.alias))])


def merge_values(statement: Merge, columns: Columns, contents: str) -> Assigned | None:
    """The values of a MERGE, each in its scope; None if it only deletes."""
    alias, source_alias = statement.alias or "_mv_this", statement.source_alias or "_mv_source"
    ours, theirs = target(contents, alias), f"{statement.source} {sql.identifier(source_alias)}"
    places = (
        (statement.matched, f"{ours} join {theirs} on (\n{statement.on}\n)"),
        (statement.not_matched, theirs),
        (statement.not_matched_by_source, ours),
    )
    scoped = [
        (_assignments(clause, columns, source_alias), place)
        for clauses, place in places
        for clause in clauses
    ]
    nonempty = [(assignments, place) for assignments, place in scoped if assignments]
    return _assigned(nonempty) if nonempty else None


def _assigned(scoped: Sequence[tuple[Sequence[Assignment], str]]) -> Assigned:
    parts = []
    for number, (assignments, place) in enumerate(scoped):
        values = ", ".join(f"{value_of(a.expression)} _mv_{n}" for n, a in enumerate(assignments))
        parts.append(f"{sql.subquery(f'select {values} from {place}', f'_mv_part_{number}')}")
    columns = tuple(a.column for assignments, _ in scoped for a in assignments)
    return Assigned(columns, f"select * from {' cross join '.join(parts)}")


def _assignments(clause: MergeClause, columns: Columns, source_alias: str) -> Sequence[Assignment]:
    """The assignments of a clause; a star is every column by its name."""
    if clause.action not in (Action.UPDATE_ALL, Action.INSERT_ALL):
        return clause.assignments
    source = sql.identifier(source_alias)
    return tuple(Assignment(c.name, f"{source}.{sql.identifier(c.name)}") for c in columns)


def _first(clauses: Sequence[MergeClause], columns: Columns, alias: str | None, source_alias: str) -> str:
    """`_mv_new` by the first clause that applies, NULL if none does."""
    branches = []
    for clause in clauses:
        assignments = _assignments(clause, columns, source_alias)
        kept = clause.action is not Action.DELETE
        new = _new(columns, assignments, alias if kept else None, kept=kept)
        branches.append(f"when {_condition(clause)} then {new}")
    return f"case {' '.join(branches)} end"


def _condition(clause: MergeClause) -> str:
    return "true" if clause.condition is None else f"(\n{clause.condition}\n)"


def _new(columns: Columns, assignments: Sequence[Assignment], alias: str | None, *, kept: bool = True) -> str:
    """The row with the assigned values, and else the values of ``alias`` or NULL. There is no new
    row unless ``kept``.
    """
    values: Mapping[str, str] = {a.column.lower(): value_of(a.expression) for a in assignments}
    fields = [f"'_mv_kept', {'true' if kept else 'false'}"]
    for column in columns:
        old = "null" if alias is None else f"{sql.identifier(alias)}.{sql.identifier(column.name)}"
        value = values.get(column.name.lower(), old)
        fields.append(f"{sql.text(column.name)}, cast({value} as {column.type.spelled})")
    return f"named_struct({', '.join(fields)})"


def _several_match(on: str, columns: Columns) -> str:
    """The message, as an expression, for a row that several source rows change. It shows the row by
    those of its columns that ``on`` names, or by all of them if it names none.
    """
    named = {word.text.lower() for word in words(on) if word.is_name}
    keys = [column for column in columns if column.name.lower() in named] or columns
    values = [
        f"{sql.text(f'{column.name} = ')}, {_shown_value(sql.identifier(column.name))}" for column in keys
    ]
    items = [
        sql.text(SEVERAL_MATCH),
        "_mv_matches",
        sql.text(" source rows match one row of the target: "),
        ", ', ', ".join(values),
        sql.text(ITS_STATE),
    ]
    return f"concat({', '.join(items)})"


def _shown_value(value: str) -> str:
    text = f"left(cast({value} as string), {LONGEST_VALUE})"
    one_line = f"translate({text}, {sql.text(chr(10) + chr(13))}, '  ')"
    return f"coalesce(replace({one_line}, 'SQLSTATE', 'sqlstate'), 'NULL')"


def _sides(changed: str, columns: Columns, *, several: str = "") -> str:
    """The delta of ``changed``, old rows with `_mv_diff` and `_mv_new`: their old and new sides.

    A row that is not kept has no new side. A row that occurs more than once by `_mv_matches` fails
    the query with the message ``several``, an expression.
    """
    names = [sql.identifier(column.name) for column in columns]
    items = ", ".join(f"if(_mv_side, _mv_new.{name}, {name}) {name}" for name in names)
    diff = f"if(_mv_side, {DIFF}, -{DIFF})"
    if several:
        diff = f"case when _mv_matches > 1 then raise_error({several}) else {diff} end"
    sides = "explode(if(_mv_new._mv_kept, array(false, true), array(false)))"
    return f"select {items}, {diff} {DIFF} from {sql.subquery(changed, '_mv_changed')} lateral view {sides} _mv_sides as _mv_side"
