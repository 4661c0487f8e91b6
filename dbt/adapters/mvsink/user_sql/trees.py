"""The trees of a query's expressions, as sqlglot reads each of them by itself.

    select a + 1 as n, max(b) over (partition by c) as m from t where a > 0 and b < 3 order by n

has the trees of `a + 1 as n`, `max(b) over (partition by c) as m`, `c`, `a > 0` and `b < 3`.

`reader` says where a part begins and ends, and Spark decides whether that is right, by the explicit
text (`explicit`). That text copies some things as they were written, so Spark could not notice
mistakes in them. They are checked here: that each part is exactly one expression, that no LIMIT
hides after ORDER BY, where subqueries and stars are, and what windows have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from sqlglot import exp
from sqlglot.errors import SqlglotError

from dbt.adapters.mvsink.user_sql.algebra import (
    Block,
    Constant,
    Fragment,
    Item,
    Query,
    Refused,
    Window,
    every_query,
    joins,
    leaves,
)
from dbt.adapters.mvsink.user_sql.comments import blanked
from dbt.adapters.mvsink.user_sql.words import parsed

_ORDERS = frozenset({"order", "sort", "cluster", "distribute"})

Nodes: TypeAlias = "dict[Fragment, exp.Expr]"


def trees(text: str, query: Query) -> Nodes:
    """The tree of every expression of ``query``, by its fragment. Raises `Refused`."""
    reader = _Trees(text)
    for each in every_query(query):
        reader.query(each)
    return reader.nodes


class _Trees:
    def __init__(self, text: str):
        self.text = text
        self.nodes: Nodes = {}

    def query(self, query: Query) -> None:
        if query.ordered:
            self._check_order(query)
        if isinstance(query.body, Block):
            self._block(query.body)

    def _check_order(self, query: Query) -> None:
        """Checks what comes after the body, without the parentheses around it."""
        behind = blanked(self.text)[query.body.end : query.end].lstrip(") \t\r\n")
        clauses = self._parsed(f"select 1 {behind}").args.items()
        limits = () if query.limited is None else ("limit", "offset")
        _same({name for name, value in clauses if value} <= {"expressions", *_ORDERS, *limits}, query)

    def _block(self, block: Block) -> None:
        for item in block.items:
            node = self._read(item)
            _same((item.star is not None) == node.is_star, item)
            if "GROUP" in block.more and item.bare is not None and isinstance(node, exp.Alias):
                _same(self._read(item.bare) == node.this, item)
        having = [block.more["HAVING"]] if "HAVING" in block.more else []
        on = (join.on for join in joins(block.source) if join.on is not None)
        views = (part for view in block.laterals for part in view.parts)
        windows = (part for window in block.windows for part in (*window.partition, *window.order))
        for part in (*on, *views, *block.where, *having, *block.keys, *windows):
            self._read(part)
        for leaf in leaves(block.source):
            if isinstance(leaf, Constant):
                self._constant(leaf)
        for part in (*block.items, *block.where, *having):
            inside = [*filter(part.has, block.subqueries)]
            _same(len(_queries(self.nodes[part])) == len(inside), part)
        if block.where:
            where = self._one(Fragment(block.where[0].start, block.where[-1].end))
            _same(conjuncts(where) == [self.nodes[part] for part in block.where], block)
        self._windows(block)

    def _windows(self, block: Block) -> None:
        """The partitions and orders of windows, in the order of the text."""
        inside = [each for item in block.items for each in _own_windows(self.nodes[item])]
        theirs = [each for each in inside if not each.args.get("alias")]
        if "WINDOW" in block.more:
            clause = block.more["WINDOW"]
            named = self._parsed(f"select 1 from t window {clause.of(self.text)}")
            theirs += named.args.get("windows") or []
        _same(len(theirs) == len(block.windows), block)
        for window, node in zip(block.windows, theirs, strict=True):
            self._window(window, node)

    def _window(self, window: Window, node: exp.Expr) -> None:
        order = node.args.get("order")
        _same(self._all(window.partition) == (node.args.get("partition_by") or []), window)
        _same(self._all(window.order) == [each.this for each in (order.expressions if order else [])], window)

    def _all(self, parts: Sequence[Fragment]) -> list[exp.Expr]:
        return [self.nodes[part] for part in parts]

    def _constant(self, leaf: Constant) -> None:
        alone = self._parsed(f"select 1 from {leaf.call.of(self.text)}")
        clause = alone.args.get("from") or alone.args.get("from_")
        if not isinstance(clause, exp.From) or len([each for each in alone.args.values() if each]) != 2:
            raise _differently(leaf)
        self.nodes[leaf.call] = clause.this

    def _read(self, part: Fragment) -> exp.Expr:
        self.nodes[part] = self._one(part)
        return self.nodes[part]

    def _one(self, part: Fragment) -> exp.Expr:
        """The part of the text, which must be one expression; only an item may have an alias."""
        alone = self._parsed(f"select {part.of(self.text)}")
        one = len(alone.expressions) == 1 and len([each for each in alone.args.values() if each]) == 1
        _same(one, part)
        node: exp.Expr = alone.expressions[0]
        _same(isinstance(part, Item) or not isinstance(node, (exp.Alias, exp.Aliases)), part)
        return node

    def _parsed(self, text: str) -> exp.Expr:
        try:
            return parsed(text)
        except SqlglotError:
            raise Refused("sqlglot cannot read the text") from None


def _same(agreed: bool, part: Fragment) -> None:
    if not agreed:
        raise _differently(part)


def _differently(part: Fragment) -> Refused:
    return Refused("two parsers read the text differently", part.start)


def _own_windows(node: exp.Expr) -> Iterator[exp.Expr]:
    """Those outside its subqueries."""
    every = node.walk(bfs=False, prune=lambda part: isinstance(part, exp.Query))
    return (each for each in every if isinstance(each, exp.Window))


def _queries(node: exp.Expr) -> list[exp.Expr]:
    """The queries inside an expression, without those inside them."""
    if isinstance(node, exp.Query):
        return [node]
    return [query for child in node.iter_expressions() for query in _queries(child)]


def conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """The operands of the ANDs that the expression is."""
    if isinstance(node, exp.And):
        return [*conjuncts(node.left), *conjuncts(node.right)]
    return [node]
