"""Changes of blocks of joins and filters: one term for each position that changed.

The positions of a block are its leaves in the order of the text, then its conjuncts with `mv_now()`
or subqueries. The term of a position reads the positions before it *old* and those after it *new*,
so the terms add up to new less old, whatever else changed. A leaf whose rows pass through joins one
by one gives a *linear* term, the block over its change. A leaf whose rows decide whether others are
kept or filled with NULLs (the right side of a left, semi or anti join, the left side of a right
join) gives a *scoped* pair: new less old, over the preserved rows that match its change. Below a
full join, the pair is over the rows of both sides that have the keys of its change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.incremental.compose import Reading, Scope, Side, Writer
from dbt.adapters.mvsink.incremental.keys import key_names
from dbt.adapters.mvsink.incremental.lineage import Column, column_type, plain_column
from dbt.adapters.mvsink.incremental.name_resolution import Names, visible_leaves
from dbt.adapters.mvsink.physical import DIFF
from dbt.adapters.mvsink.user_sql.algebra import (
    Block,
    Fragment,
    Join,
    Leaf,
    Nest,
    Refused,
    Source,
    Subquery,
    joins,
    leaves,
)
from dbt.adapters.mvsink.user_sql.trees import conjuncts
from dbt.adapters.mvsink.user_sql.words import words

PLUS, MINUS, NONE = "1L", "-1L", "0L"
NOTHING = "1 = 0"  # Spark 4.1 refuses `false` over some joins in parentheses
# A comparison of these is NULL at one time only if it is at any: only their columns can be NULL.
_COMPARISONS = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.EQ, exp.NEQ, exp.Between)
_NULL_ONLY_BY_COLUMNS = (
    exp.Column, exp.Identifier, exp.Literal, exp.Paren, exp.Cast, exp.TryCast, exp.DataType, exp.Add, exp.Sub,
    exp.Interval, exp.Var, exp.DateAdd, exp.DateSub, exp.TsOrDsAdd, exp.TsOrDsToDate, exp.DateTrunc, exp.TimestampTrunc,
)  # fmt: skip


@dataclass(frozen=True)
class Terms:
    """The terms of blocks, without the clauses after WHERE."""

    writer: Writer
    names: Names

    def terms(self, block: Block) -> Iterator[str]:
        """The terms of a block; none if nothing that it reads changed."""
        for leaf in leaves(block.source):
            if self.writer.leaf_moves(leaf):
                yield from self._of_leaf(block, leaf)
        for conjunct in block.where:
            if self.writer.conjunct_moves(block, conjunct):
                yield from self._of_time(block, conjunct)
        if block.listed is None and self.writer.values_move(block):
            yield from self._of_values(block)

    def no_rows(self, block: Block) -> str:
        return self.writer.select(block, lambda leaf: Side.NEW, NONE, [*self.conjuncts(block), NOTHING], {})

    def conjuncts(self, block: Block) -> list[str]:
        """The WHERE of the terms of leaves. All conjuncts come after the leaves, so they are
        new.
        """
        return [self.writer.cut(conjunct, Side.NEW) for conjunct in block.where]

    def _of_leaf(self, block: Block, leaf: Leaf) -> Iterator[str]:
        assert block.source is not None
        outermost = scoping(block.source, leaf)
        conditions = self.conjuncts(block)
        if outermost is None:
            yield self.writer.select(block, telescope(block.source, leaf, Side.CHANGE), DIFF, conditions, {})
            return
        for scope in self._scopes(block, outermost, leaf):
            for side, diff in ((Side.NEW, PLUS), (Side.OLD, MINUS)):
                reading = telescope(block.source, leaf, side)
                yield self.writer.select(block, reading, diff, conditions, {outermost: scope})

    def _scopes(self, block: Block, join: Join, leaf: Leaf) -> Iterator[Scope]:
        """Disjoint scopes of ``join``: together they hold all preserved rows that may differ."""
        if join.kind == "full":
            yield self._of_full_join(block, join, leaf)
            return
        merged = self._merged(join) if join.natural else ""
        witnesses = [witness + merged for witness in self._witnesses(block, padded(join), leaf)]
        for number, witness in enumerate(witnesses):
            yield [*(("anti", before) for before in witnesses[:number]), ("semi", witness)]

    def _merged(self, join: Join) -> str:
        """A NATURAL join written with USING, because Spark has no natural semi join. Without a
        shared name every row matches.
        """
        shared = _shared(join, self.names)
        return f" using ({sql.columns(shared)})" if shared else " on 1 = 1"

    def _of_full_join(self, block: Block, join: Join, leaf: Leaf) -> Scope:
        """The scope of a full join: the rows of both sides with the keys of what may differ on the
        leaf's side.
        """
        keys, in_left = full_keys(join, block, self.names), leaf in leaves(join.left)
        names = key_names(len(keys))
        listed = ", ".join(f"{sides[not in_left]} as {name}" for sides, name in zip(keys, names, strict=True))
        rows = "\nunion all\n".join(
            f"select {listed} from {witness}"
            for witness in self._witnesses(block, join.left if in_left else join.right, leaf)
        )
        query = f"select distinct {', '.join(names)} from (\n{rows}\n) as _mv_k"
        equal = [
            " and ".join(f"_mv_k.{name} <=> {sides[at]}" for sides, name in zip(keys, names, strict=True))
            for at in (0, 1)
        ]
        return [("full", f"(\n{query}\n) as _mv_k on {each}") for each in equal]

    def _witnesses(self, block: Block, part: Source, leaf: Leaf) -> list[str]:
        """Relations that together hold every row of ``part`` that may differ."""
        assert block.source is not None
        inner = scoping(part, leaf)
        if inner is None:
            return [self.writer.primary(part, telescope(block.source, leaf, Side.CHANGE), {})]
        return [
            self.writer.primary(part, telescope(block.source, leaf, side), {inner: scope})
            for scope in self._scopes(block, inner, leaf)
            for side in (Side.NEW, Side.OLD)
        ]

    def _of_time(self, block: Block, conjunct: Fragment) -> Iterator[str]:
        """The rows that enter and leave because time passes, or because what a subquery reads has
        changed; the leaves are all old.
        """
        at = block.where.index(conjunct)
        now, before = (self.writer.cut(conjunct, side) for side in (Side.NEW, Side.OLD))
        others = [
            self.writer.cut(each, Side.OLD if number < at else Side.NEW)
            for number, each in enumerate(block.where)
            if number != at
        ]
        plain = _null_only_by_columns(self.names.nodes[conjunct])
        for holds, side, fails, diff in ((now, Side.OLD, before, PLUS), (before, Side.NEW, now, MINUS)):
            negated = f"not (\n{fails}\n)" if plain else f"not coalesce((\n{fails}\n), false)"
            negated = self._is_among(block, conjunct, side) or negated
            yield self.writer.select(block, lambda leaf: Side.OLD, diff, [*others, holds, negated], {})

    def _is_among(self, block: Block, conjunct: Fragment, side: Side) -> str | None:
        """For a conjunct `x not in (q)`, the condition that it is not true, written without NOT IN:
        Spark uses a hash table for IN, but for a negated IN compares every row with every other.
        None for another conjunct, or if ``q`` may name columns of the block.
        """
        node = self.names.nodes[conjunct].unnest()
        among = node.this if isinstance(node, exp.Not) else None
        if not isinstance(among, exp.In) or not isinstance(among.args.get("query"), exp.Expr):
            return None
        if not isinstance(among.this.unnest(), exp.Column):
            return None
        [subquery] = [*filter(conjunct.has, block.subqueries)]
        value = _before_not_in(self.writer.text, conjunct, subquery)
        if value is None or self.names.names_others(subquery.query, among.args["query"]):
            return None
        query = f"(\n{self.writer.cut(subquery, side)}\n)"
        x = self.writer.cut(value, side)
        return (
            f"{x} in {query} or {x} is null and exists (select 1 from {query} as _mv_q) "
            f"or exists (select 1 from {query} as _mv_q(_mv_c) where _mv_c is null)"
        )

    def _of_values(self, block: Block) -> Iterator[str]:
        """The term for a change in what subqueries of the select list read: all rows as they are
        shown now, less as they were shown. Leaves and conjuncts are all old.
        """
        conditions = [self.writer.cut(each, Side.OLD) for each in block.where]
        for side, diff in ((Side.NEW, PLUS), (Side.OLD, MINUS)):
            yield self.writer.select(block, lambda leaf: Side.OLD, diff, conditions, {}, side)


def telescope(source: Source, position: Leaf, side: Side) -> Reading:
    """Reads leaves before the position old, those after it new, and the position itself as
    ``side``.
    """
    order = {leaf: number for number, leaf in enumerate(leaves(source))}

    def reading(leaf: Leaf) -> Side:
        if leaf is position:
            return side
        return Side.OLD if order[leaf] < order[position] else Side.NEW

    return reading


def padded(join: Join) -> Source:
    """The side of the join whose rows decide what happens to the other side's rows."""
    return join.left if join.kind == "right" else join.right


def deciding(block: Block, leaf: Leaf) -> Iterator[Join]:
    """The joins in which the leaf's rows decide what happens to the other side's rows."""
    kinds = ("left", "right", "semi", "anti")
    return (join for join in joins(block.source) if join.kind in kinds and decides(join, leaf))


def nullable(block: Block, leaf: Leaf) -> bool:
    """Whether the leaf's columns may be NULL because nothing matches."""
    return any(join.kind in ("left", "right") for join in deciding(block, leaf))


def decides(join: Join, leaf: Leaf) -> bool:
    """Whether ``join`` is one of them."""
    return leaf in leaves(padded(join))


def scoping(source: Source, leaf: Leaf) -> Join | None:
    """The outermost join in ``source`` that the leaf's rows do not pass through one by one."""
    if isinstance(source, Nest):
        return scoping(source.inner, leaf)
    if not isinstance(source, Join):
        return None
    in_left = leaf in leaves(source.left)
    if source.kind == "full":
        return source
    if source.kind == "right" if in_left else source.kind in ("left", "semi", "anti"):
        return source
    return scoping(source.left if in_left else source.right, leaf)


def full_keys(join: Join, block: Block, names: Names) -> list[tuple[str, str]]:
    """For each equality of a full join, the texts of its left and its right value: a column, or the
    first of several that is not NULL.

    A row joins only with rows that have the same keys. An equality between two types gives no keys:
    '1' = 1 and 1 = '01', but '1' <> '01'. Raises `Refused`.
    """
    keys = []
    for one, other in _compared(join, block, names):
        kinds = {column_type(names, *column) for column in (*one.columns, *other.columns)}
        if one.columns and other.columns and len(kinds) == 1 and None not in kinds:
            keys.append((one.text, other.text))
    if not keys:
        raise Refused(
            "a full join that compares no columns of one type by =, such as `a.k = b.k`, `coalesce(a.k, b.k) = c.k` or USING",
            join.right.start,
        )
    return keys


@dataclass(frozen=True)
class _First:
    """The first of the columns that is not NULL, as ``text``."""

    columns: tuple[Column, ...]
    text: str


def _compared(join: Join, block: Block, names: Names) -> Iterator[tuple[_First, _First]]:
    for name in _shared(join, names) if join.natural else map(str.lower, join.using):
        yield _merged_from(join.left, names, name), _merged_from(join.right, names, name)
    for node in conjuncts(names.nodes[join.on]) if join.on is not None else ():
        if not isinstance(node, exp.EQ):
            continue
        values = [_first_of(block, names, side) for side in (node.left, node.right)]
        for one, other in (values, values[::-1]):
            if one is not None and other is not None and _is_of(one, join.left) and _is_of(other, join.right):
                yield one, other


def _merged_from(source: Source, names: Names, name: str) -> _First:
    """What USING compares of one side: the name means one column, or those that joins below have
    merged.
    """
    owners = [(leaf, name) for leaf in visible_leaves(source) if name in names.of_leaf(leaf)]
    return _First(tuple(owners), _text(owners[0]) if len(owners) == 1 else sql.identifier(name))


def _first_of(block: Block, names: Names, node: exp.Expr) -> _First | None:
    node = node.unnest()
    merged = isinstance(node, exp.Coalesce)
    listed = [node.this, *node.expressions] if merged else [node]
    columns = [plain_column(block, names, each) for each in listed]
    known = tuple(column for column in columns if column is not None)
    texts = ", ".join(map(_text, known))
    return _First(known, f"coalesce({texts})" if merged else texts) if len(known) == len(columns) else None


def _is_of(value: _First, source: Source) -> bool:
    return {leaf for leaf, _ in value.columns} <= {*leaves(source)}


def _shared(join: Join, names: Names) -> list[str]:
    """The columns by which a NATURAL join compares its sides."""
    left, right = (
        [name for leaf in visible_leaves(side) for name in names.of_leaf(leaf)]
        for side in (join.left, join.right)
    )
    return list(dict.fromkeys(name for name in left if name is not None and name in right))


def _text(column: Column) -> str:
    leaf, name = column
    return (
        sql.identifier(name) if leaf.alias is None else f"{sql.identifier(leaf.alias)}.{sql.identifier(name)}"
    )


def _null_only_by_columns(node: exp.Expr) -> bool:
    """Whether the conjunct, if it is true at one time, cannot be NULL at another."""
    while isinstance(node, exp.Paren):
        node = node.this
    return isinstance(node, _COMPARISONS) and all(
        isinstance(each, _NULL_ONLY_BY_COLUMNS) or _is_mark(each)
        for operand in node.iter_expressions()
        for each in operand.walk()
    )


def _before_not_in(text: str, conjunct: Fragment, subquery: Subquery) -> Fragment | None:
    """The left side of NOT IN; None if the conjunct has another form."""
    before = [word for word in words(text) if conjunct.start <= word.start < subquery.start]
    written = [word.upper for word in before[-3:]] == ["NOT", "IN", "("] and len(before) > 3
    return Fragment(conjunct.start, before[-4].end) if written else None


def _is_mark(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() == "timestamp_millis"
