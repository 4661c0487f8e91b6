"""The SQL text to run for a statement at one time.

A *delta* is a query with the output's columns and `_mv_diff BIGINT`: the statement's changes, not
consolidated. Two queries represent the output before the statement. ``contents`` has its columns
and `_mv_diff`, the multiplicity, at least 1; equal rows may be several records. `Bindings.this` has
plain rows, each as often as it occurs.

The user's text stays as it is except for the relations in it, which `bind` replaces: a task's name
for its input means the rows inserted at the time, not the relation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from dbt.adapters.mvsink.continual_task.row_deltas import (
    Assigned,
    Columns,
    delete_delta,
    merge_delta,
    merge_values,
    update_delta,
    update_values,
    value_of,
    within_reach,
)
from dbt.adapters.mvsink.continual_task.statements import (
    CONTENTS_MARK,
    DELETES_MARK,
    Action,
    AnyStatement,
    Assignment,
    Delete,
    Insert,
    Merge,
    MergeClause,
    Program,
    Update,
)
from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.physical import DIFF, TIME
from dbt.adapters.mvsink.shard_sql.current_view import Apart
from dbt.adapters.mvsink.user_sql.checks import nondeterministic_functions
from dbt.adapters.mvsink.user_sql.marks import query_at
from dbt.adapters.mvsink.user_sql.splice import Query, Span, relations, replace_relations, with_ctes
from dbt.adapters.mvsink.user_sql.words import last_part, parts, words


@dataclass(frozen=True)
class StatementBindings:
    """The relations that a task names at one time, as queries for plain rows.

    ``input`` has the inserted rows; ``deletes`` the deleted rows and ``contents`` all rows of the
    input, None for a task that does not use them; ``this`` the output so far. ``references`` are
    those that are replaced, by their names as dbt renders them. ``now`` is the time (ms),
    `mv_now()`.
    """

    input: str
    this: str
    deletes: str | None = None
    references: Mapping[str, str] = field(default_factory=dict)
    now: int | None = None
    contents: str | None = None


def bind(
    program: Program,
    text: str,
    bindings: StatementBindings,
    *,
    aliases: Mapping[str, str] | None = None,
    starts_with_relation: bool = False,
) -> str:
    """``text``, a part of the task, with its relations and `mv_now()` replaced."""
    if bindings.now is not None:
        text = query_at(text, bindings.now)

    def changes(span: Span) -> str:
        note = span.note(text)
        if note.startswith(CONTENTS_MARK):
            return _bound(program, bindings.contents, "whole contents")
        if note.startswith(DELETES_MARK):
            return _bound(program, bindings.deletes, "deleted rows")
        return bindings.input

    own = {parts(program.input.name), parts(program.this)}
    queries: dict[str, Query] = {
        name: query for name, query in bindings.references.items() if parts(name) not in own
    }
    queries |= {program.input.name: changes, program.this: bindings.this}
    return replace_relations(text, queries, aliases=aliases, starts_with_relation=starts_with_relation)


def _bound(program: Program, query: str | None, what: str) -> str:
    if query is None:
        raise ValueError(f"{program.model} reads the {what} of its input, but they are not bound")
    return query


def bound(program: Program, statement: AnyStatement, bindings: StatementBindings) -> AnyStatement:
    """The statement with every text in it bound, and with every alias. The output's own name means
    the current row.
    """
    ctes = None if statement.ctes is None else bind(program, statement.ctes, bindings)
    if isinstance(statement, Insert):
        return replace(statement, ctes=ctes, query=bind(program, statement.query, bindings))
    alias = statement.alias or last_part(program.this)
    aliases = {program.this: alias}
    if isinstance(statement, Merge):
        return _bound_merge(program, replace(statement, ctes=ctes, alias=alias), bindings, aliases)
    where = None if statement.where is None else bind(program, statement.where, bindings, aliases=aliases)
    if isinstance(statement, Delete):
        return replace(statement, ctes=ctes, alias=alias, where=where)
    assignments = _bound_assignments(program, statement.assignments, bindings, aliases)
    return replace(statement, ctes=ctes, alias=alias, where=where, assignments=assignments)


def _bound_merge(
    program: Program, merge: Merge, bindings: StatementBindings, aliases: Mapping[str, str]
) -> Merge:
    named = words(merge.source)[0].upper != "("
    alias = merge.source_alias or (last_part(merge.source) if named else "_mv_source")
    if named and merge.source_alias is None:
        aliases = {**aliases, merge.source: alias}
    suffix = f" as {sql.identifier(alias)}"  # so that `bind` adds none
    source = bind(program, merge.source + suffix, bindings, starts_with_relation=True)

    def clauses(unbound: tuple[MergeClause, ...]) -> tuple[MergeClause, ...]:
        return tuple(
            replace(
                clause,
                condition=None
                if clause.condition is None
                else bind(program, clause.condition, bindings, aliases=aliases),
                assignments=_bound_assignments(program, clause.assignments, bindings, aliases),
            )
            for clause in unbound
        )

    return replace(
        merge,
        source=source[: -len(suffix)],
        source_alias=alias,
        on=bind(program, merge.on, bindings, aliases=aliases),
        matched=clauses(merge.matched),
        not_matched=clauses(merge.not_matched),
        not_matched_by_source=clauses(merge.not_matched_by_source),
    )


def _bound_assignments(
    program: Program,
    assignments: tuple[Assignment, ...],
    bindings: StatementBindings,
    aliases: Mapping[str, str],
) -> tuple[Assignment, ...]:
    return tuple(
        replace(each, expression=bind(program, each.expression, bindings, aliases=aliases))
        for each in assignments
    )


def replaced_by_themselves(program: Program, references: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The task's queries as they are written, and with each relation replaced by itself in the way
    in which `bind` replaces it by a query. The conditions and values of an UPDATE, DELETE or MERGE
    become a query over the rows that they are evaluated for.
    """
    read = program.input.name
    itself = StatementBindings(read, program.this, read, {name: name for name in references}, contents=read)
    for statement in program.statements:
        ready = bound(program, statement, itself)
        for written, replaced in zip(_queries(program, statement), _queries(program, ready), strict=True):
            yield (
                program.with_ctes(with_ctes(statement.ctes, written)),
                _with_all_ctes(program, ready.ctes, replaced, itself),
            )


def _queries(program: Program, statement: AnyStatement) -> Iterator[str]:
    if isinstance(statement, Insert):
        yield statement.query
        return
    alias = "" if statement.alias is None else f" as {sql.identifier(statement.alias)}"
    ours = f"{program.this}{alias}"
    if not isinstance(statement, Merge):
        assignments = statement.assignments if isinstance(statement, Update) else ()
        yield _read_from(ours, statement.where, assignments)
        return
    theirs = statement.source
    if statement.source_alias is not None:
        theirs += f" as {sql.identifier(statement.source_alias)}"
    yield f"select 1 from {ours} join {theirs} on (\n{statement.on}\n)"
    places = (
        (statement.matched, f"{ours} join {theirs}"),
        (statement.not_matched, theirs),
        (statement.not_matched_by_source, ours),
    )
    for clauses, place in places:
        for clause in clauses:
            yield _read_from(place, clause.condition, clause.assignments)


def _read_from(place: str, condition: str | None, assignments: tuple[Assignment, ...]) -> str:
    values = "".join(f", {value_of(each.expression)}" for each in assignments)
    return f"select 1{values} from {place}" + ("" if condition is None else f" where (\n{condition}\n)")


def delta(
    program: Program,
    statement: AnyStatement,
    columns: Columns,
    contents: str,
    bindings: StatementBindings,
    apart: Apart | None = None,
) -> str:
    """The statement's delta, ready to run. ``columns`` are the output's. ``apart`` is the same
    output in parts, which may be read instead of ``contents``.
    """
    ready = bound(program, statement, bindings)
    if apart is not None and _narrowable(ready):
        assert isinstance(ready, (Delete, Update))
        contents = within_reach(ready, columns, apart)
    if isinstance(ready, Insert):
        query = insert_delta(ready, columns)
    elif isinstance(ready, Delete):
        query = delete_delta(ready, columns, contents)
    elif isinstance(ready, Update):
        query = update_delta(ready, columns, contents)
    else:
        query = merge_delta(ready, columns, contents)
    return _with_all_ctes(program, ready.ctes, query, bindings)


def _narrowable(statement: AnyStatement) -> bool:
    """Whether it only needs the output's rows for which a deterministic condition is true."""
    if not isinstance(statement, (Delete, Update)) or statement.where is None:
        return False
    return not nondeterministic_functions(statement.where)


def groups(program: Program) -> list[list[AnyStatement]]:
    """Groups of statements: only the first reads the output, so none needs another's effects."""
    grouped: list[list[AnyStatement]] = []
    for statement in program.statements:
        if grouped and not _reads_output(program, statement):
            grouped[-1].append(statement)
        else:
            grouped.append([statement])
    return grouped


def _reads_output(program: Program, statement: AnyStatement) -> bool:
    if not isinstance(statement, Insert):
        return True
    texts = (program.ctes, statement.ctes, statement.query)
    return any(relations(text, program.this) for text in texts if text is not None)


def analysed(program: Program, statement: Insert, bindings: StatementBindings) -> str:
    """Only the INSERT's query, bound, for the engine to analyse (`columns.output_columns`)."""
    query = bind(program, statement.query, bindings)
    ctes = None if statement.ctes is None else bind(program, statement.ctes, bindings)
    return _with_all_ctes(program, ctes, query, bindings)


def assigned(
    program: Program, statement: AnyStatement, columns: Columns, contents: str, bindings: StatementBindings
) -> Assigned | None:
    """The bound values that an UPDATE or a MERGE assigns, to analyse; None for other statements."""
    if not isinstance(statement, (Update, Merge)):
        return None
    ready = bound(program, statement, bindings)
    values = update_values(ready, contents) if isinstance(ready, Update) else None
    if isinstance(ready, Merge):
        values = merge_values(ready, columns, contents)
    return values and replace(values, query=_with_all_ctes(program, ready.ctes, values.query, bindings))


def inserted_by_merge(program: Program, merge: Merge, bindings: StatementBindings) -> str:
    """The rows that the first INSERT of a MERGE would insert if every source row had none, bound,
    for the engine to analyse; empty if it has no INSERT.
    """
    ready = bound(program, merge, bindings)
    assert isinstance(ready, Merge)
    for clause in ready.not_matched:
        named = (f"{each.expression} as {sql.identifier(each.column)}" for each in clause.assignments)
        items = "*" if clause.action is Action.INSERT_ALL else ", ".join(named)
        source = f"{ready.source} {sql.identifier(ready.source_alias or '_mv_source')}"
        return _with_all_ctes(program, ready.ctes, f"select {items} from {source}", bindings)
    return ""


def _with_all_ctes(program: Program, own: str | None, query: str, bindings: StatementBindings) -> str:
    shared = None if program.ctes is None else bind(program, program.ctes, bindings)
    return with_ctes(shared, with_ctes(own, query))


def insert_delta(statement: Insert, columns: Columns) -> str:
    """The query's rows, cast to the output's columns: NULL if missing in an explicit list."""
    return f"select {_inserted(statement, columns)}, 1L {DIFF} from {_as_inserted(statement.query, statement, columns)}"


def carried_delta(statement: Insert, carried: str, columns: Columns) -> str:
    """`insert_delta` of a query whose last column is `_mv_time` (`stateless`), which stays before
    `_mv_diff`.
    """
    source = _as_inserted(carried, statement, columns, (TIME,))
    return f"select {_inserted(statement, columns)}, {TIME}, 1L {DIFF} from {source}"


def _inserted(statement: Insert, columns: Columns) -> str:
    listed = statement.columns or tuple(column.name for column in columns)
    position = {name.lower(): index for index, name in enumerate(listed)}

    def item(name: str) -> str:
        return f"_mv_{position[name]}" if name in position else "null"

    return ", ".join(
        f"cast({item(c.name.lower())} as {c.type.spelled}) {sql.identifier(c.name)}" for c in columns
    )


def _as_inserted(query: str, statement: Insert, columns: Columns, more: tuple[str, ...] = ()) -> str:
    names = ", ".join([*(f"_mv_{index}" for index in range(len(statement.columns or columns))), *more])
    return f"{sql.subquery(query, '_mv_insert')}({names})"
