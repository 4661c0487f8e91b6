"""Which queries let a change of one table through row by row, and their texts made to do it.

A view or an ephemeral model may be a task's input if it is only filter and projection over one
table: what `stateless` decides for a task's own query decides it here too, for the same reason, so
this stands beside it. A WITH clause is read as a chain of such queries. The user's text stays what
it is; see `inputs.through` for what becomes of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dbt.adapters.mvsink.continual_task import bind as plan
from dbt.adapters.mvsink.continual_task.errors import TaskError
from dbt.adapters.mvsink.continual_task.parse import parse
from dbt.adapters.mvsink.continual_task.statements import Program
from dbt.adapters.mvsink.engine import NOW, DataflowError, sql
from dbt.adapters.mvsink.user_sql.words import Unreadable, closing, parts, words

NO_OUTPUT = "`_mv_none`"


class NotRowByRow(DataflowError):
    """A query that is more than filter and projection over one table. ``reason`` is what it has,
    ``tables`` what it reads.
    """

    def __init__(self, reason: str, tables: tuple[str, ...] = ()):
        super().__init__(f"it has {reason}")
        self.reason = reason
        self.tables = tables


@dataclass(frozen=True)
class _Step:
    """One query over one relation, and its text with `_mv_time` carried through."""

    program: Program
    text: str

    def carry(self, rows: str) -> str:
        return plan.bind(self.program, self.text, plan.Bindings(rows, ""))


@dataclass(frozen=True)
class RowByRow:
    """A query that lets changes of ``table`` (as its text names it) through."""

    table: str
    steps: tuple[_Step, ...]  # the outermost first

    def carry(self, rows: str) -> str:
        """See `inputs.through.Through.carry`."""
        for step in reversed(self.steps):
            rows = step.carry(rows)
        return rows


def row_by_row(query: str, named: Mapping[str, str] | None = None) -> RowByRow:
    """The query as a way from one table to its rows. ``named`` are queries that it may name, by
    name in lower case.

    >>> found = row_by_row("with a as (select * from db.t where x > 0) select x + 1 as y from a")
    >>> found.table
    '`db`.`t`'
    >>> print(" ".join(found.carry("CHANGES").split()))
    select x + 1 as y, `a`.`_mv_time` from ( select * except (`_mv_time`), `t`.`_mv_time` from ( CHANGES ) as `t` where x > 0 ) as `a`

    Raises `NotRowByRow`.
    """
    try:
        own, body = _apart(query)
        known = {**(named or {}), **own}
        step = _step(body)
    except (Unreadable, SqlglotError, TaskError) as error:
        raise NotRowByRow("a text that cannot be followed") from error
    name = parts(step.program.input.name)
    if len(name) > 1 or name[0] not in known:
        return RowByRow(step.program.input.name, (step,))
    inner = row_by_row(known[name[0]], _before(name[0], known, own))
    return RowByRow(inner.table, (step, *inner.steps))


def _before(name: str, known: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The queries that the one called ``name`` can read: those of its WITH clause in front of it,
    and those from outside.
    """
    order = list(own)
    later = set(order[order.index(name) :]) if name in own else {name}
    return {key: query for key, query in known.items() if key not in later}


def _apart(query: str) -> tuple[dict[str, str], str]:
    """The queries of the WITH clause that ``query`` starts with, by name, and what follows."""
    stream = words(query)
    if not stream:
        raise NotRowByRow("no text")
    if stream[0].upper != "WITH":
        return {}, query
    found: dict[str, str] = {}
    at = 1
    while True:
        head = [word.upper for word in stream[at + 1 : at + 3]]
        if head != ["AS", "("]:
            raise NotRowByRow("a recursive WITH, or one with a list of columns")
        end = closing(stream, at + 2)
        if end + 1 >= len(stream):
            raise NotRowByRow("a text that cannot be followed")
        found[stream[at].text.lower()] = query[stream[at + 2].end : stream[end].start]
        at = end + 1
        if stream[at].upper != ",":
            return found, query[stream[at].start :]
        at += 1


def _step(query: str) -> _Step:
    tree = sqlglot.parse_one(query, read="spark")
    tables = {parts(name): name for name in map(_name, tree.find_all(exp.Table))}
    reason = _more_than_rows(tree, len(tables))
    if reason or NOW.search(query):
        raise NotRowByRow(reason or "mv_now()", tuple(tables.values()))
    [table] = tables.values()
    program = parse(f"from transform {table} using (\n{query}\n)", NO_OUTPUT, "input")
    carried = plan.stateless(program, ())
    if carried is None:
        raise NotRowByRow("more than filter and projection", (table,))
    return _Step(program, carried.queries[0])


def _name(table: exp.Table) -> str:
    return ".".join(sql.identifier(part.name) for part in table.parts)


def _more_than_rows(tree: exp.Expr, tables: int) -> str:
    """What in the query keeps its rows from coming each from one row of one table, in words; empty
    if nothing is known to.
    """
    known = {
        "a join": exp.Join,
        "an aggregation": (exp.Group, exp.AggFunc),
        "DISTINCT": exp.Distinct,
        "a window function": exp.Window,
        "a LIMIT": (exp.Limit, exp.Offset, exp.Fetch),
    }
    for what, kinds in known.items():
        if tree.find(*(kinds if isinstance(kinds, tuple) else (kinds,))):
            return what
    return "" if tables == 1 else "several tables" if tables else "no table"
