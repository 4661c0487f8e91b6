"""Computes all pending times in one job, by carrying each row's time through the query.

    select u.*, d.name from (select k, a + 1 as b from db.x where a > 0) u join db.d using (k)

with input db.x becomes

    select u.* except (`_mv_time`), d.name, `u`.`_mv_time`
    from (select k, a + 1 as b, `x`.`_mv_time` from db.x where a > 0) u join db.d using (k)

That works where every output row comes from one row of the input. Only well-known shapes of queries
are accepted; in case of doubt the times run one by one, which is always right. The text is the
user's, with `_mv_time` added to the select lists at token positions. If the engine refuses the
carried query (because of an aggregate that is not known here, for example), the times run one by
one, too.

By the same rule a view or an ephemeral model may be a task's input if it only filters and projects
one table; its WITH clause may be a chain of such queries (`row_by_row`). The resulting input is in
`inputs.mapped`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import SqlglotError

from dbt.adapters.mvsink.continual_task.statements import CONTENTS_MARK, DELETES_MARK, Insert, Program
from dbt.adapters.mvsink.engine import DataflowError, sql
from dbt.adapters.mvsink.physical import TIME
from dbt.adapters.mvsink.user_sql.algebra import (
    Block,
    Constant,
    Derived,
    Join,
    Query,
    Refused,
    Relation,
    SetOp,
    Source,
    every_block,
    joins,
    leaves,
)
from dbt.adapters.mvsink.user_sql.checks import without_end
from dbt.adapters.mvsink.user_sql.marks import NOW
from dbt.adapters.mvsink.user_sql.reader import read
from dbt.adapters.mvsink.user_sql.splice import Edit, TemporalReference, relations, replace_relations, spliced
from dbt.adapters.mvsink.user_sql.tokens import Tokens
from dbt.adapters.mvsink.user_sql.trees import Nodes, trees
from dbt.adapters.mvsink.user_sql.words import UnreadableText, closing, parsed, parts, words

_TIME = sql.identifier(TIME)


@dataclass(frozen=True)
class Carried:
    """For each statement, an INSERT, its query with a last column `_mv_time`.

    The input's name in these queries is not bound yet. It must mean the rows inserted at any
    pending time, with that time (ms) in `_mv_time`.
    """

    queries: tuple[str, ...]


class _InDoubt(Exception):
    """The query does not have a shape that is known to carry the time through."""


def stateless(program: Program, shard_references: Iterable[str]) -> Carried | None:
    """The task's queries with the time carried through; None if its times must run one by one.

    ``shard_references`` are names of references whose contents depend on the time.
    """
    if program.deletes_used or program.contents_used or program.self_referencing or program.ctes is not None:
        return None
    references = tuple(shard_references)
    queries = []
    for statement in program.statements:
        if not isinstance(statement, Insert) or statement.ctes is not None:
            return None
        if any(relations(statement.query, name) for name in references):
            return None
        queries.append(carry_time(statement.query, program.input.name))
    carried = tuple(query for query in queries if query is not None)
    return Carried(carried) if len(carried) == len(queries) else None


def carry_time(query: str, table: str) -> str | None:
    """``query`` with the `_mv_time` of ``table``'s rows as its last column; None unless each of its
    rows comes from one row of ``table``.

    Raises `TemporalReference`, `Unreadable`.
    """
    spans = relations(query, table)
    try:
        tokens, tree = Tokens(query), read(query)
        carriers = _Carriers(parts(table), trees(query, tree))
        segments = [_Segment(block, leaf) for block, leaf in carriers.of_query(tree)]
        reached = sum(isinstance(each.leaf, Relation) for each in segments)
        if not len(spans) == carriers.places(tree) == reached or _has_pipes(tokens):
            return None
        edits = [edit for segment in segments for edit in segment.edits(parts(table))]
        return spliced(query, [*edits, *carriers.times(tokens, tree, segments)])
    except (_InDoubt, Refused):
        return None


def _has_pipes(tokens: Tokens) -> bool:
    return any(word.upper == "|>" for word in tokens.words)


@dataclass(frozen=True)
class _Carriers:
    """Finds the blocks that keep or drop each row of the input independently of the others.
    ``wanted`` is the input's name.
    """

    wanted: tuple[str, ...]
    nodes: Nodes

    def places(self, query: Query) -> int:
        """How many times the query reads the input, anywhere."""
        every = (leaf for block in every_block(query) for leaf in leaves(block.source))
        return sum(isinstance(leaf, Relation) and leaf.parts == self.wanted for leaf in every)

    def of_query(self, query: Query) -> Iterator[tuple[Block, Relation | Derived]]:
        """The blocks from the outermost to those that read the input, each with the leaf by which
        the input's rows reach it. Raises `_InDoubt`.
        """
        body = query.body
        if query.ctes or query.ordered or query.limited is not None or isinstance(body, Query):
            raise _InDoubt
        if isinstance(body, SetOp):
            if body.operator != "UNION" or not body.all:
                raise _InDoubt
            yield from self.of_query(body.left)
            yield from self.of_query(body.right)
            return
        leaf = self._of_block(body)
        yield body, leaf
        if isinstance(leaf, Derived):
            yield from self.of_query(leaf.query)

    def _of_block(self, block: Block) -> Relation | Derived:
        """The leaf by which the input's rows reach the block."""
        items = (self.nodes[item] for item in block.items)
        if block.more or any(node.find(exp.AggFunc, exp.Window, exp.QueryTransform) for node in items):
            raise _InDoubt
        carriers = [
            leaf for leaf in leaves(block.source) if not isinstance(leaf, Constant) and self._reads(leaf)
        ]
        if len(carriers) != 1 or carriers[0].columns:
            raise _InDoubt
        if any(join.kind == "full" or join.natural for join in joins(block.source)):
            raise _InDoubt
        source: Source | None = block.source
        while isinstance(source, Join):
            in_left = carriers[0] in leaves(source.left)
            if source.kind in (("right",) if in_left else ("left", "semi", "anti")):
                raise _InDoubt  # an outer join makes the input's rows NULL, a semi-join drops columns
            source = source.left if in_left else source.right
        if source is not carriers[0]:
            raise _InDoubt
        return carriers[0]

    def _reads(self, leaf: Relation | Derived) -> bool:
        return self.places(leaf.query) > 0 if isinstance(leaf, Derived) else leaf.parts == self.wanted

    def times(self, tokens: Tokens, tree: Query, segments: Sequence[_Segment]) -> Iterator[Edit]:
        """The edits that make `mv_now()` the time of the current row. Raises `_InDoubt` for one in
        a query below these blocks.
        """
        for start, end in tokens.marks():
            around = max((each for each in every_block(tree) if each.has(start)), key=lambda each: each.start)
            segment = next((each for each in segments if each.block is around), None)
            below = [join.on for join in joins(around.source) if join.on is not None]
            below += [part for view in around.laterals for part in view.parts]
            if segment is None or any(part.has(start) and self.nodes[part].find(exp.Query) for part in below):
                raise _InDoubt
            yield (start, end, f"timestamp_millis({segment.time})")


@dataclass(frozen=True)
class _Segment:
    """A block on the way from the input, and the leaf by which the input's rows reach it."""

    block: Block
    leaf: Relation | Derived

    @property
    def time(self) -> str:
        return _TIME if self.leaf.alias is None else f"{sql.identifier(self.leaf.alias)}.{_TIME}"

    def edits(self, wanted: tuple[str, ...]) -> Iterator[Edit]:
        """The edits that add the time as one more column, only once: a star over the leaf that has
        it excludes it.
        """
        alias = (self.leaf.alias or "").lower()
        named = isinstance(self.leaf, Relation) and len(self.leaf.name) == self.leaf.end - self.leaf.start
        whole = wanted if named else (alias,)  # with an alias, `db.x.*` is a struct
        for item in self.block.items:
            if item.star is None:
                continue
            if item.excepts:
                raise _InDoubt
            if item.star in ((), (alias,), whole):
                yield (item.star_at, item.star_at, f" except ({_TIME})")
        last = self.block.items[-1].end
        yield (last, last, f", {self.time}")


class NotRowByRow(DataflowError):
    """A query that does more than filter and project one table. ``reason`` says what; ``tables``
    are those that it reads.
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


@dataclass(frozen=True)
class RowByRow:
    """A query that maps the changes of ``table`` (as its text names it)."""

    table: str
    steps: tuple[_Step, ...]  # the outermost first

    def carry(self, rows: str) -> str:
        """See `inputs.mapped.RowMapping.carry`."""
        for step in reversed(self.steps):
            rows = replace_relations(step.text, {step.table: rows})
        return rows


def row_by_row(query: str, named: Mapping[str, str] | None = None) -> RowByRow:
    """``query`` as a mapping of rows. ``named`` are queries that it may name, by name in lower
    case.

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
    """The queries, by name, of the WITH clause that ``query`` starts with, and the rest of the
    text.
    """
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
    marked = DELETES_MARK in query or CONTENTS_MARK in query
    carried = None if marked else carry_time(without_end(query), table)
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
