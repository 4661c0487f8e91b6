"""Reading a task's text.

It is read by tokens, not by a parser of another dialect. The structure of a task is checked here;
its queries and expressions are checked by Spark (`refused_by_engine` finds the place of Spark's
error in the task's text).

>>> text = "on input db.x as (delete from db.t where k < 3; insert into db.t select k from db.x)"
>>> task = parse(text, "db.t", "t")
>>> [statement.text for statement in task.statements]
['delete from db.t where k < 3', 'insert into db.t select k from db.x']
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from dbt.adapters.mvsink.continual_task import errors
from dbt.adapters.mvsink.continual_task.merge_syntax import Head, assignments, merge
from dbt.adapters.mvsink.continual_task.statements import (
    CONTENTS_MARK,
    DELETES_MARK,
    AnyStatement,
    Delete,
    Form,
    InputRef,
    Insert,
    Program,
    Update,
)
from dbt.adapters.mvsink.continual_task.token_cursor import Cursor
from dbt.adapters.mvsink.spark_words import SparkWords, place_in
from dbt.adapters.mvsink.user_sql.splice import TemporalReference, relations, with_ctes
from dbt.adapters.mvsink.user_sql.words import UnreadableText, last_part, parts, words

_LOOPS = frozenset({"RECURSIVE", "REPEAT", "LOOP", "ITERATE", "WHILE", "FIXPOINT", "MUTUALLY"})
_INPUT_ENDS = frozenset({",", "AND"})
_QUERY_IN_PARENTHESES = frozenset({"SELECT", "WITH", "VALUES", "FROM", "TABLE", "(", ")"})


def parse(text: str, this: str, model: str, ctes: Sequence[str] = (), *, sampled: bool = False) -> Program:
    """Read a task. ``this`` is its output as dbt renders it, ``model`` its name for messages.

    ``ctes`` are queries of ephemeral models that dbt has not put in front of the text:
    ``__dbt__cte__x as (...)``. If ``sampled``, dbt puts a filter around every relation in this run;
    in other runs an input with a filter is a query and is refused. Raises a `TaskError`.
    """
    try:
        stream = words(text)
    except UnreadableText as unreadable:
        raise errors.StatementSyntax(
            errors.Place(model, text, 0), f"{unreadable}, somewhere in the model's text"
        ) from None
    return _Parser(Cursor(model, text, stream, 0, len(stream)), this, tuple(ctes), sampled).program()


class _Parser:
    """One text and the cursor over it."""

    def __init__(self, cursor: Cursor, this: str, ctes: tuple[str, ...], sampled: bool):
        self.cursor, self.this, self.extra_ctes, self.sampled = cursor, this, ctes, sampled

    def program(self) -> Program:
        cursor = self.cursor
        own = cursor.ctes()
        ctes = _joined(self.extra_ctes, own)
        form = self._form()
        named = self._input()
        body = self._body(form)
        if form is Form.ON_INPUT:
            statements = self._statements(body)
        else:
            statements = self._short(form, named, body)
        try:
            deletes = self._used(DELETES_MARK, errors.DeletesOfAnother, named, statements)
            contents = self._used(CONTENTS_MARK, errors.ContentsOfAnother, named, statements)
            reads_this = any(not isinstance(statement, Insert) for statement in statements) or any(
                relations(read, self.this)
                for statement in statements
                for read in (ctes, statement.ctes, getattr(statement, "query", None))
                if read is not None
            )
        except TemporalReference as refused:
            raise errors.StatementSyntax(cursor.place(0), str(refused)) from None
        return Program(
            cursor.model,
            self.this,
            cursor.source,
            form,
            named,
            statements,
            deletes,
            reads_this,
            ctes,
            contents,
        )

    def _form(self) -> Form:
        if self.cursor.upper == "ON" and self.cursor.ahead(1) == "INPUTS":
            raise errors.NoHead(self.cursor.place())
        for form in Form:
            if self.cursor.take(*form.value.upper().split()):
                return form
        raise errors.NoHead(self.cursor.place())

    def _input(self) -> InputRef:
        cursor, start = self.cursor, self.cursor.at
        named = self._relation()
        if cursor.upper in _INPUT_ENDS:
            inputs = [named.name]
            while cursor.upper in _INPUT_ENDS:
                cursor.at += 1
                inputs.append(self._relation().name)
            raise errors.SeveralInputs(cursor.place(start), inputs)
        if parts(named.name) == parts(self.this):
            raise errors.OwnOutputAsInput(cursor.place(start), self.this)
        return named

    def _relation(self) -> InputRef:
        cursor, start = self.cursor, self.cursor.at
        if cursor.upper != "(":
            cursor.name("the input's name")
            return InputRef(cursor.text(start, cursor.at))
        inside = cursor.parenthesized()
        for keyword in ("SELECT", "*", "FROM"):
            if not inside.take(keyword):
                raise cursor.fail("a continual task's input is one relation, not a query", start)
        first = inside.at
        inside.name("the input's name")
        name = inside.text(first, inside.at)
        empty = inside.take("WHERE", "FALSE", "LIMIT", "0") and inside.done
        if not empty and not (self.sampled and inside.upper in ("WHERE", "LIMIT")):
            raise cursor.fail("a continual task's input is one relation, not a query", start)
        # dbt's own alias for a wrapped relation
        if not cursor.done and cursor.stream[cursor.at].text.startswith("_dbt_"):
            cursor.at += 1
        return InputRef(name, wrapped=True)

    def _body(self, form: Form) -> Cursor:
        cursor = self.cursor
        cursor.expect({Form.ON_INPUT: "AS", Form.TRANSFORM: "USING", Form.RETAIN: "WHILE"}[form])
        if cursor.upper in _LOOPS:
            raise errors.Fixpoint(cursor.place(), cursor.shown())
        body = cursor.parenthesized()
        cursor.take(";")
        if not cursor.done:
            raise errors.TextAfterStatements(cursor.place())
        if body.done:
            raise cursor.fail("expected a statement, got nothing", body.at)
        return body

    def _short(self, form: Form, named: InputRef, body: Cursor) -> tuple[AnyStatement, ...]:
        pieces = [piece for piece in body.pieces(";") if not piece.done]
        if not pieces or len(pieces) > 1:
            raise errors.SeveralStatements(body.place(pieces[1].at if pieces else body.at), form.value)
        only = pieces[0].part(pieces[0].at, pieces[0].end, 0)
        place, text = only.place(), only.text(only.at, only.end)
        insert, delete = (
            Head(number=n, line=place.line, start=place.offset, text=text, ctes=None) for n in range(2)
        )
        if form is Form.TRANSFORM:
            return (Insert(**insert, columns=None, query=only.query()),)
        kept = f"select * from {named.name} where (\n{text}\n)"
        return (
            Insert(**insert, columns=None, query=kept),
            Delete(**delete, where=f"not (\n{text}\n)"),
        )

    def _statements(self, body: Cursor) -> tuple[AnyStatement, ...]:
        pieces = [piece for piece in body.pieces(";") if not piece.done]
        if not pieces:
            raise body.fail("expected a statement, got nothing")
        return tuple(
            self._statement(piece.part(piece.at, piece.end, number)) for number, piece in enumerate(pieces)
        )

    def _statement(self, cursor: Cursor) -> AnyStatement:
        start = cursor.at
        if cursor.upper in _LOOPS or (cursor.upper == "WITH" and cursor.ahead(1) == "MUTUALLY"):
            raise errors.Fixpoint(cursor.place(), cursor.text(start, min(start + 2, cursor.end)))
        place, text = cursor.place(), cursor.text(start, cursor.end)
        head = Head(
            number=cursor.statement or 0, line=place.line, start=place.offset, text=text, ctes=cursor.ctes()
        )
        kinds: dict[str, Callable[[Cursor, Head], AnyStatement]] = {
            "INSERT": self._insert,
            "DELETE": self._delete,
            "UPDATE": self._update,
            "MERGE": self._merge,
        }
        if cursor.upper not in kinds:
            raise errors.UnknownStatement(cursor.place(), cursor.shown())
        kind = kinds[cursor.upper]
        cursor.at += 1
        return kind(cursor, head)

    def _target(self, cursor: Cursor) -> None:
        place, start = cursor.place(), cursor.at
        cursor.name("{{ this }}")
        name = cursor.text(start, cursor.at)
        if parts(name) != parts(self.this):
            raise errors.WrongTarget(place, name, self.this)

    def _insert(self, cursor: Cursor, head: Head) -> Insert:
        cursor.expect("INTO")
        cursor.take("TABLE")
        self._target(cursor)
        if cursor.upper in ("PARTITION", "BY", "REPLACE", "IF"):
            raise cursor.fail(
                f"{cursor.shown()} is not supported: INSERT INTO {{{{ this }}}} [(columns)] query"
            )
        columns: tuple[str, ...] | None = None
        if cursor.upper == "(" and cursor.ahead(1) not in _QUERY_IN_PARENTHESES:
            listed = cursor.parenthesized()
            columns = tuple(_one_name(piece) for piece in listed.pieces(","))
        return Insert(**head, columns=columns, query=cursor.query())

    def _delete(self, cursor: Cursor, head: Head) -> Delete:
        cursor.expect("FROM")
        self._target(cursor)
        alias = cursor.alias()
        return Delete(**head, alias=alias, where=_where(cursor))

    def _update(self, cursor: Cursor, head: Head) -> Update:
        self._target(cursor)
        alias = cursor.alias()
        cursor.expect("SET")
        new = assignments(cursor, self._qualifiers(alias), "WHERE")
        return Update(**head, alias=alias, assignments=new, where=_where(cursor))

    def _merge(self, cursor: Cursor, head: Head) -> AnyStatement:
        if cursor.upper == "WITH":
            raise cursor.fail(
                "WITH SCHEMA EVOLUTION is not supported: on_schema_change decides about the output's columns"
            )
        cursor.expect("INTO")
        self._target(cursor)
        alias = cursor.alias()
        return merge(cursor, head, alias, self._qualifiers(alias))

    def _qualifiers(self, alias: str | None) -> frozenset[tuple[str, ...]]:
        """The names that may qualify a column of the output."""
        if alias is not None:
            return frozenset({(alias.lower(),)})
        return frozenset({parts(self.this), (last_part(self.this).lower(),)})

    def _used(
        self,
        mark: str,
        of_another: Callable[[errors.Place, str], errors.TaskSyntax],
        named: InputRef,
        statements: Sequence[AnyStatement],
    ) -> bool:
        """Whether the macro that leaves ``mark`` is used; raises ``of_another`` if its argument is
        not the input.
        """
        source, stream = self.cursor.source, self.cursor.stream
        known = {
            span.end if span.wrapped is None else span.wrapped[1] for span in relations(source, named.name)
        }
        marked = [index for index, word in enumerate(stream) if source[word.end :].lstrip().startswith(mark)]
        for index in marked:
            if stream[index].end not in known:
                place = replace(
                    self.cursor.place(index), statement=_statement_at(statements, stream[index].start)
                )
                raise of_another(place, named.name)
        return bool(marked) or any(
            span.note(cte).startswith(mark) for cte in self.extra_ctes for span in relations(cte, named.name)
        )


def _statement_at(statements: Sequence[AnyStatement], offset: int) -> int | None:
    """The number of the statement around the position."""
    inside = (s.number for s in statements if s.start <= offset < s.start + len(s.text))
    return next(inside, None)


def _one_name(cursor: Cursor) -> str:
    name = cursor.name("a column's name")
    if len(name) > 1 or not cursor.done:
        raise cursor.fail(
            f"expected a column's name, got {'.'.join(name) if cursor.done else cursor.shown()}"
        )
    return name[0]


def _where(cursor: Cursor) -> str | None:
    if cursor.done:
        return None
    cursor.expect("WHERE")
    return cursor.expression("a condition")


def _joined(extra: tuple[str, ...], own: str | None) -> str | None:
    if not extra:
        return own
    front = "with " + ",\n".join(cte.strip() for cte in extra)
    return front if own is None else with_ctes(front, own)


def refused_by_engine(
    program: Program,
    number: int,
    message: str,
    details: str = "",
    *,
    code: str = "",
    words: SparkWords | None = None,
) -> errors.StatementSyntax:
    """The engine's error about a query from statement ``number``, with its place in the text.

    ``details`` is the engine's whole output, of which ``message`` may be a part: Spark quotes the
    query there and names a line of it. That line is the user's as written; if it cannot be found,
    the place is the statement. ``words`` are the error's `SparkWords`, if the engine is Spark, and
    ``code`` is its code.
    """
    statement = program.statements[number]
    place = None if words is None else place_in(statement.text, words)
    offset = statement.start + (
        _offset(statement.text, details or message)
        if place is None
        else sum(len(line) + 1 for line in statement.text.split("\n")[: place[0]]) + place[1]
    )
    reason = _PLACE.sub("", re.split(r"\s*== SQL ==", message, maxsplit=1)[0]).strip()
    refused = errors.StatementSyntax(errors.Place(program.model, program.text, offset, number), reason)
    if code:
        refused.error_code = code
    return refused


_PLACE = re.compile(r"\s*\(line (\d+), pos (\d+)\)")


def _offset(statement: str, details: str) -> int:
    """The offset in the statement's text of the error that Spark reports; 0 if unknown."""
    where, quote = _PLACE.search(details), re.search(r"^([ \t]*)== SQL ==\n", details, re.MULTILINE)
    if where is None or quote is None:
        return 0
    quoted = details[quote.end() :].split("\n")
    line, column = int(where[1]) - 1, int(where[2])
    if line >= len(quoted):
        return 0
    text = quoted[line].removeprefix(quote[1])  # dbt indents wrapped relations
    start = statement.find(text.strip()) if text.strip() else -1
    if start >= 0:
        return start + max(0, column - (len(text) - len(text.lstrip())))
    word = re.search(r"at or near '(\w[^']*)'", details)
    return max(0, statement.find(word[1])) if word else 0
