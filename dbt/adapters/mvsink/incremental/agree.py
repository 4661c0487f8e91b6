"""sqlglot's second opinion on a query that was read by its tokens.

Both readings must have the same blocks, items, leaves, joins, conditions and clauses in the same
order, and every expression must mean the same by itself as in its place. Then the spans are what
they seem. Otherwise the query is refused: `two parsers read the text differently`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from sqlglot import exp
from sqlglot.errors import SqlglotError

from dbt.adapters.mvsink.incremental.algebra import (
    Block,
    Constant,
    Derived,
    Fragment,
    Join,
    LateralView,
    Named,
    Nest,
    Query,
    Relation,
    SetOp,
    Source,
)
from dbt.adapters.mvsink.incremental.refuse import Refused
from dbt.adapters.mvsink.user_sql.words import parsed

_KINDS = {  # a join's (side, kind) in sqlglot's words
    ("", ""): "inner", ("", "INNER"): "inner", ("", "CROSS"): "cross", ("LEFT", ""): "left", ("RIGHT", ""): "right",
    ("FULL", ""): "full", ("LEFT", "OUTER"): "left", ("RIGHT", "OUTER"): "right", ("FULL", "OUTER"): "full",
    ("", "SEMI"): "semi", ("LEFT", "SEMI"): "semi", ("", "ANTI"): "anti", ("LEFT", "ANTI"): "anti",
}  # fmt: skip
_ORDERS = ("order", "sort", "cluster", "distribute")
_LIMITS = ("limit", "offset", "fetch")
_CLAUSES = {"group": "GROUP", "having": "HAVING", "windows": "WINDOW", "distinct": "DISTINCT"}
_READ = {"expressions", "from", "joins", "laterals", "where", "hint", "with", *_CLAUSES, *_ORDERS, *_LIMITS}

Nodes: TypeAlias = "dict[Fragment, exp.Expr]"


def agree(text: str, query: Query) -> Nodes:
    """The tree of every expression of ``query``, by its fragment. Raises `Refused`."""
    try:
        tree = parsed(text)
    except SqlglotError:
        raise Refused("sqlglot cannot read the text") from None
    opinion = _Opinion(text)
    opinion.query(query, tree)
    return opinion.nodes


def _arg(node: exp.Expr, name: str) -> object:
    """An argument whose name ends with an underscore in newer versions of sqlglot."""
    return node.args.get(name) or node.args.get(f"{name}_")


def _list(node: exp.Expr, name: str) -> list[exp.Expr]:
    value = node.args.get(name) or []
    return value if isinstance(value, list) else [value]


class _Opinion:
    def __init__(self, text: str):
        self.text = text
        self.nodes: Nodes = {}

    def _same(self, agreed: bool, part: Fragment) -> None:
        if not agreed:
            raise Refused("two parsers read the text differently", part.start)

    def query(self, query: Query, tree: exp.Expr) -> None:
        """Both sides without parentheses, whose clauses count as the query's."""
        ordered, limited, ctes = query.ordered, query.limited is not None, list(query.ctes)
        body = query.body
        while isinstance(body, Query):
            ordered, limited, ctes = (
                ordered or body.ordered,
                limited or body.limited is not None,
                ctes + list(body.ctes),
            )
            body = body.body
        levels = [tree]
        while isinstance(levels[-1], exp.Subquery):
            levels.append(levels[-1].this)
        theirs = [
            cte
            for level in levels
            if isinstance(with_ := _arg(level, "with"), exp.With)
            for cte in with_.expressions
        ]
        self._same(ordered == any(level.args.get(name) for level in levels for name in _ORDERS), query)
        self._same(limited == any(level.args.get(name) for level in levels for name in _LIMITS), query)
        self._same(len(ctes) == len(theirs), query)
        for cte, node in zip(ctes, theirs, strict=True):
            self._alias(cte, node, cte.name, cte.columns)
            self.query(cte.query, node.this)
        if isinstance(body, SetOp):
            self._set_operator(body, levels[-1])
        else:
            self._block(body, levels[-1])

    def _set_operator(self, body: SetOp, node: exp.Expr) -> None:
        kinds = {"UNION": exp.Union, "INTERSECT": exp.Intersect}
        self._same(type(node) is kinds.get(body.operator, exp.Except), body)
        self._same(body.all != bool(node.args.get("distinct")), body)
        self.query(body.left, node.args["this"])
        self.query(body.right, node.args["expression"])

    def _block(self, block: Block, node: exp.Expr) -> None:
        self._same(isinstance(node, exp.Select), block)
        self._same({name.rstrip("_") for name, value in node.args.items() if value} <= _READ, block)
        self._same({_CLAUSES[name] for name in _CLAUSES if node.args.get(name)} == block.more.keys(), block)
        self._same((block.hint is None) == (not node.args.get("hint")), block)
        self._same(len(block.items) == len(node.expressions), block)
        for item, expression in zip(block.items, node.expressions, strict=True):
            self._same((item.star is not None) == expression.is_star, item)
            self._fragment(item, expression)
        self._from(block, node)
        laterals = _list(node, "laterals")
        self._same(len(laterals) == len(block.laterals), block)
        for view, lateral in zip(block.laterals, laterals, strict=True):
            self._lateral(view, lateral)
        where = node.args.get("where")
        conditions = conjuncts(where.this) if where else []
        self._same(len(conditions) == len(block.where), block)
        for conjunct, condition in zip(block.where, conditions, strict=True):
            self._fragment(conjunct, condition)
        having = node.args.get("having")
        holders = [*node.expressions, *conditions, *([having.this] if having else [])]
        theirs = [query for holder in holders for query in _queries(holder)]
        self._same(len(theirs) == len(block.subqueries), block)
        for subquery, query in zip(block.subqueries, theirs, strict=True):
            self.query(subquery.query, query)

        if "HAVING" in block.more:
            self._fragment(block.more["HAVING"], having.this if having else exp.null())
        self._keys(block, node)
        self._windows(block, node)

    def _keys(self, block: Block, node: exp.Expr) -> None:
        """GROUP BY, and the items without their aliases, which it may name."""
        group = node.args.get("group")
        if not isinstance(group, exp.Group):
            return
        known = {"all"} if not block.keys else {"expressions"}
        self._same({name for name, value in group.args.items() if value} == known, block.more["GROUP"])
        self._same(len(group.expressions) == len(block.keys), block.more["GROUP"])
        for key, expression in zip(block.keys, group.expressions, strict=True):
            self._fragment(key, expression)
        for item, expression in zip(block.items, node.expressions, strict=True):
            if isinstance(expression, exp.Alias) and item.bare is not None:
                self._fragment(item.bare, expression.this)

    def _windows(self, block: Block, node: exp.Expr) -> None:
        """The partitions and orders of windows, in the order of the text."""
        inside = [
            each
            for item in node.expressions
            for each in item.walk(bfs=False, prune=lambda part: isinstance(part, exp.Query))
            if isinstance(each, exp.Window)
        ]
        theirs = [each for each in inside if not each.args.get("alias")] + _list(node, "windows")
        self._same(len(theirs) == len(block.windows), block)
        for window, each in zip(block.windows, theirs, strict=True):
            order = each.args.get("order")
            sides = (
                (window.partition, _list(each, "partition_by")),
                (window.order, [entry.this for entry in order.expressions] if order else []),
            )
            for ours, nodes in sides:
                self._same(len(ours) == len(nodes), window)
                for part, expression in zip(ours, nodes, strict=True):
                    self._fragment(part, expression)

    def _from(self, block: Block, node: exp.Expr) -> None:
        clause = _arg(node, "from")
        self._same((clause is None) == (block.source is None), block)
        if block.source is not None and isinstance(clause, exp.From):
            self._tree(block.source, clause.this, _list(node, "joins"))

    def _tree(self, source: Source, first: exp.Expr, joined: Sequence[exp.Expr]) -> None:
        flat = _flat(source)
        joined = [*_list(first, "joins"), *joined]
        self._same(len(flat) == len(joined) + 1, source)
        self._primary(flat[0][1], first)
        for (join, primary), node in zip(flat[1:], joined, strict=True):
            self._join(join, node)
            self._primary(primary, node.this)

    def _join(self, join: Join | None, node: exp.Expr) -> None:
        assert join is not None and isinstance(node, exp.Join)
        side, kind, method = (str(node.args.get(name) or "").upper() for name in ("side", "kind", "method"))
        known = _KINDS.get((side, kind))
        self._same(known == join.kind or (join.kind == "comma" and known in ("inner", "cross")), join)
        self._same(method == ("NATURAL" if join.natural else ""), join)
        using = tuple(each.name.lower() for each in _list(node, "using"))
        self._same(using == tuple(name.lower() for name in join.using), join)
        condition = node.args.get("on")
        if join.on is None:  # newer versions of sqlglot put a TRUE there
            self._same(condition is None or condition == exp.true(), join)
        else:
            self._fragment(join.on, condition or exp.null())

    def _primary(self, leaf: Source, node: exp.Expr) -> None:
        if isinstance(leaf, Nest):
            nested = isinstance(node, exp.Subquery) and not isinstance(
                node.this, (exp.Select, exp.SetOperation)
            )
            self._same(nested, leaf)
            self._tree(leaf.inner, node.this, [])
            return
        assert isinstance(leaf, Named)
        if isinstance(leaf, Derived) and leaf.reference is None:
            self._same(isinstance(node, exp.Subquery), leaf)
            self._alias(leaf, node, leaf.alias, leaf.columns)
            self.query(leaf.query, node.this)
        elif isinstance(leaf, Constant):
            self._alias(leaf, node, leaf.alias, leaf.columns)
            self._constant(leaf, node)
        else:
            parts = leaf.parts if isinstance(leaf, Relation) else (leaf.reference,)
            names = tuple(part.name.lower() for part in node.parts) if isinstance(node, exp.Table) else ()
            self._same(names == parts, leaf)
            # A CTE's own list of columns is also its references'.
            listed = leaf.columns if isinstance(leaf, Relation) or node.alias_column_names else ()
            self._alias(leaf, node, leaf.alias if node.alias else "", listed)

    def _alias(self, part: Fragment, node: exp.Expr, name: str | None, columns: tuple[str, ...]) -> None:
        self._same(node.alias.lower() == (name or "").lower(), part)
        theirs = tuple(column.lower() for column in node.alias_column_names)
        self._same(theirs == tuple(column.lower() for column in columns), part)

    def _lateral(self, view: LateralView, node: exp.Expr) -> None:
        self._same(bool(node.args.get("outer")) == view.outer, view)
        self._alias(view, node, view.alias, view.columns)
        self._fragment(view.call, node.this)

    def _constant(self, leaf: Constant, node: exp.Expr) -> None:
        piece = self.text[leaf.call.start : leaf.call.end]
        alone = _arg(_parsed(f"select 1 from {piece}", leaf), "from")
        self._same(isinstance(alone, exp.From) and _without_alias(alone.this) == _without_alias(node), leaf)
        self.nodes[leaf.call] = node

    def _fragment(self, part: Fragment, node: exp.Expr) -> None:
        """The text alone must be the tree that it is in its place."""
        alone = _parsed(f"select {self.text[part.start : part.end]}", part)
        expressions = alone.expressions
        self._same(
            len(expressions) == 1
            and expressions[0] == node
            and len([v for v in alone.args.values() if v]) == 1,
            part,
        )
        self.nodes[part] = node


def _parsed(text: str, part: Fragment) -> exp.Expr:
    try:
        return parsed(text)
    except SqlglotError:
        raise Refused("two parsers read the text differently", part.start) from None


def _queries(node: exp.Expr) -> list[exp.Expr]:
    """The queries inside an expression, without those inside them."""
    if isinstance(node, exp.Query):
        return [node]
    return [query for child in node.iter_expressions() for query in _queries(child)]


def _flat(source: Source) -> list[tuple[Join | None, Source]]:
    """A FROM tree as sqlglot has it: its first part, then each part with the join before it."""
    if not isinstance(source, Join):
        return [(None, source)]
    right = _flat(source.right)
    return [*_flat(source.left), (source, right[0][1]), *right[1:]]


def _without_alias(node: exp.Expr) -> exp.Expr:
    bare = node.copy()
    bare.set("alias", None)
    bare.set("joins", None)
    return bare


def conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """The operands of the ANDs that the expression is."""
    if isinstance(node, exp.And):
        return [*conjuncts(node.left), *conjuncts(node.right)]
    return [node]
