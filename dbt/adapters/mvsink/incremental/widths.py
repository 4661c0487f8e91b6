"""How many columns there are is for Spark to say: what our tables might count otherwise is refused.

A generator over a map has a column more than one over an array; `values struct(1, 2)` has two. If
such a part has a list of names, Spark refuses another number of names than it has columns.
"""

from __future__ import annotations

from sqlglot import exp

from dbt.adapters.mvsink.incremental.equalities import type_of
from dbt.adapters.mvsink.incremental.keys import merges
from dbt.adapters.mvsink.incremental.name_resolution import Names
from dbt.adapters.mvsink.user_sql.algebra import (
    Block,
    Constant,
    Fragment,
    Leaf,
    Query,
    Refused,
    Relation,
    SetOp,
    leaves,
)

_GENERATORS = (exp.Explode, exp.Posexplode, exp.Inline)  # and their `_outer`


def check_widths(query: Query, names: Names) -> None:
    """Refuse parts of the query's own body whose number of columns is not certain."""
    body = query.body
    if isinstance(body, SetOp) and not _aligned(body, names):
        raise Refused("a set operator over columns whose number is not certain", body.start)
    if not isinstance(body, Block):
        return
    for item in body.items:
        node = names.nodes[item]
        if isinstance(node, exp.Aliases) or not isinstance(node, exp.Alias):
            _check_generator(body, names, item, node.unalias())
    for view in body.laterals:
        if not view.columns:
            _check_generator(body, names, view, names.nodes[view.call])
    for leaf in leaves(body.source):
        _check_leaf(leaf, names)


def _check_generator(block: Block, names: Names, part: Fragment, node: exp.Expr) -> None:
    if isinstance(node, exp.Aliases):
        raise Refused("several names for one item", part.start)
    if isinstance(node, _GENERATORS):
        kind = "array<>" if isinstance(node.this, exp.Array) else type_of(block, names, node.this) or ""
        if isinstance(node, exp.Inline) or not kind.startswith("array<"):
            raise Refused("a generator whose columns have no names, over what may be a map", part.start)


def _check_leaf(leaf: Leaf, names: Names) -> None:
    if isinstance(leaf, Constant):
        if leaf.function:
            return
        rows = names.nodes[leaf.call].expressions
        if len({*map(_width, rows)}) != 1 or None in map(_width, rows):
            raise Refused("VALUES whose columns cannot be counted", leaf.start)
        return
    if not leaf.columns:
        return
    below: int | None = None
    if isinstance(leaf, Relation):
        below = len(names.relations[leaf.parts])
    elif not merges(leaf.query):
        below = len(names.of_query(leaf.query))
    if below != len(leaf.columns):
        raise Refused(f"a list of names for columns whose number is not certain: {leaf.alias}", leaf.start)


def _aligned(body: SetOp, names: Names) -> bool:
    sides = (body.left, body.right)
    return not any(map(merges, sides)) and len({len(names.of_query(side)) for side in sides}) == 1


def _width(row: exp.Expr) -> int | None:
    """Of a row of VALUES; None if it is not certain."""
    if not isinstance(row, exp.Tuple):
        return (
            1 if isinstance(row.unnest(), (exp.Literal, exp.Neg, exp.Null, exp.Boolean, exp.Cast)) else None
        )
    if any(isinstance(each.unnest(), (exp.Tuple, exp.Struct)) for each in row.expressions):
        return None
    return len(row.expressions)
