"""Which queries map one table's rows to rows of their own, and the text that maps updates.

A view or an ephemeral model may be a task's input if it is only filter and projection over one
table: the rule that `carry_time` has for a task's own query. A WITH clause is read as a chain of
such queries. The user's text stays as it is; `inputs.mapped` is the input that results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import SqlglotError

from dbt.adapters.mvsink.continual_task.carry_time import carry_time
from dbt.adapters.mvsink.continual_task.statements import DELETES_MARK
from dbt.adapters.mvsink.engine import DataflowError, sql
from dbt.adapters.mvsink.user_sql.checks import without_end
from dbt.adapters.mvsink.user_sql.marks import NOW
from dbt.adapters.mvsink.user_sql.splice import TemporalReference, replace_relations
from dbt.adapters.mvsink.user_sql.words import UnreadableText, closing, parsed, parts, words


class NotRowByRow(DataflowError):
    """A query that is more than filter and projection over one table. ``reason`` says what it has,
    ``tables`` are those that it reads.
    """

    def __init__(self, reason: str, tables: tuple[str, ...] = ()):
        super().__init__(f"it has {reason}")
        self.reason = reason
        self.tables = tables


@dataclass(frozen=True)
class _Step:
    """One query over ``table``, its text with `_mv_time` carried through."""

    table: str
    text: str

    def carry(self, rows: str) -> str:
        return replace_relations(self.text, {self.table: rows})


@dataclass(frozen=True)
class RowByRow:
    """A query that maps the changes of ``table`` (as its text names it)."""

    table: str
    steps: tuple[_Step, ...]  # the outermost first

    def carry(self, rows: str) -> str:
        """See `inputs.mapped.RowMapping.carry`."""
        for step in reversed(self.steps):
            rows = step.carry(rows)
        return rows


def row_by_row(query: str, named: Mapping[str, str] | None = None) -> RowByRow:
    """The mapping that ``query`` is. ``named``: queries that it may name, by name in lower case.

    >>> mapping = row_by_row("with a as (select * from db.t where x > 0) select x + 1 as y from a")
    >>> mapping.table
    '`db`.`t`'
    >>> print(mapping.carry("CHANGES"))
    select x + 1 as y, `a`.`_mv_time` from (
    select * except (`_mv_time`), `t`.`_mv_time` from (
    CHANGES
    ) as `t` where x > 0
    ) as `a`

    Raises `NotRowByRow`.
    """
    try:
        own, body = _split_with(query)
        visible = {**(named or {}), **own}
        step = _step(body)
    except (UnreadableText, TemporalReference, SqlglotError) as error:
        raise NotRowByRow("syntax that cannot be analyzed") from error
    name = parts(step.table)
    if len(name) > 1 or name[0] not in visible:
        return RowByRow(step.table, (step,))
    inner = row_by_row(visible[name[0]], _visible_to(name[0], visible, own))
    return RowByRow(inner.table, (step, *inner.steps))


def _visible_to(name: str, visible: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The queries that ``name`` can read: those before it in its WITH clause, and outer ones."""
    order = list(own)
    later = set(order[order.index(name) :]) if name in own else {name}
    return {key: query for key, query in visible.items() if key not in later}


def _split_with(query: str) -> tuple[dict[str, str], str]:
    """The queries of the WITH clause that ``query`` starts with, by name, and the rest."""
    stream = words(query)
    if not stream:
        raise NotRowByRow("no text")
    if stream[0].upper != "WITH":
        return {}, query
    queries: dict[str, str] = {}
    at = 1
    while True:
        head = [word.upper for word in stream[at + 1 : at + 3]]
        if head != ["AS", "("]:
            raise NotRowByRow("a recursive WITH, or one with a list of columns")
        end = closing(stream, at + 2)
        if end + 1 >= len(stream):
            raise NotRowByRow("syntax that cannot be analyzed")
        queries[stream[at].text.lower()] = query[stream[at + 2].end : stream[end].start]
        at = end + 1
        if stream[at].upper != ",":
            return queries, query[stream[at].start :]
        at += 1


def _step(query: str) -> _Step:
    tree = parsed(query)
    tables = {parts(name): name for name in map(_name, tree.find_all(exp.Table))}
    reason = _more_than_rows(tree, len(tables))
    if reason or NOW.search(query):
        raise NotRowByRow(reason or "mv_now()", tuple(tables.values()))
    [table] = tables.values()
    carried = None if DELETES_MARK in query else carry_time(without_end(query), table)
    if carried is None:
        raise NotRowByRow("more than filter and projection", (table,))
    return _Step(table, carried)


def _name(table: exp.Table) -> str:
    return sql.qualified(part.name for part in table.parts)


def _more_than_rows(tree: exp.Expr, tables: int) -> str:
    """Why not every row comes from one row of one table, in words; empty if every one does."""
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
