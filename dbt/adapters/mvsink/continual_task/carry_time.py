"""Computing all pending times in one job, by carrying each row's time through the query.

    select u.*, d.name from (select k, a + 1 as b from db.x where a > 0) u join db.d using (k)

with input db.x becomes

    select u.* except (`_mv_time`), d.name, `u`.`_mv_time`
    from (select k, a + 1 as b, `x`.`_mv_time` from db.x where a > 0) u join db.d using (k)

That works where every output row comes from one row of the input. Only well-known shapes are
accepted; in doubt the times run one by one, which is always right. The text is the user's, with
`_mv_time` added to the select lists at token positions. If the engine refuses the carried query
(because of an aggregate that is not known here, for example), the times run one by one, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from dbt.adapters.mvsink.continual_task.statements import Insert, Program
from dbt.adapters.mvsink.engine import sql
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
from dbt.adapters.mvsink.user_sql.reader import read
from dbt.adapters.mvsink.user_sql.splice import Edit, relations, spliced
from dbt.adapters.mvsink.user_sql.tokens import Tokens
from dbt.adapters.mvsink.user_sql.trees import Nodes, trees
from dbt.adapters.mvsink.user_sql.words import parts

_TIME = sql.identifier(TIME)


@dataclass(frozen=True)
class Carried:
    """For each statement, an INSERT, its query with a last column `_mv_time`.

    The input's name in them, not bound yet, must mean the rows inserted at any pending time, with
    that time (ms) in `_mv_time`.
    """

    queries: tuple[str, ...]


class _InDoubt(Exception):
    """The query is not of a shape that is known to carry the time through."""


def stateless(program: Program, shard_references: Iterable[str]) -> Carried | None:
    """The task's queries with the time carried through; None if its times must run one by one.

    ``shard_references`` are names of references whose contents depend on the time.
    """
    if program.deletes_used or program.self_referencing or program.ctes is not None:
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
    """The blocks that keep or drop each row of the input independently of the others. ``wanted``:
    the input's name.
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
        """`mv_now()` as the time of the current row. Raises `_InDoubt` in a query below these."""
        for start, end in tokens.marks():
            around = max((each for each in every_block(tree) if each.has(start)), key=lambda each: each.start)
            segment = next((each for each in segments if each.block is around), None)
            ons = (join.on for join in joins(around.source) if join.on is not None)
            if segment is None or any(on.has(start) and self.nodes[on].find(exp.Query) for on in ons):
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
        """The time as one more column, only once: a star that includes the carrier excludes it."""
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
