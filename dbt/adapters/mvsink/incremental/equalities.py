"""Columns that are compared by `=`, and their types; which equalities of a full join are keys."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.incremental.name_resolution import Names
from dbt.adapters.mvsink.user_sql.algebra import (
    Block,
    Derived,
    Join,
    LateralView,
    Leaf,
    Refused,
    Relation,
    Source,
    blocks,
    leaves,
)
from dbt.adapters.mvsink.user_sql.trees import conjuncts

Column = tuple[Leaf, str]


def full_keys(join: Join, block: Block, names: Names) -> list[tuple[str, str]]:
    """For each equality of a full join, the texts of its left and its right column.

    A row joins with rows of the same keys only. Equality between types has no keys: '1' = 1 and
    1 = '01'. Raises `Refused`.
    """
    keys = []
    for one, other in _compared(join, block, names):
        types = [column_type(names, *column) for column in (one, other)]
        if types[0] == types[1] is not None:
            keys.append((_text(one), _text(other)))
    if join.natural or not keys:
        raise Refused("a full join that compares no columns of one type by =", join.right.start)
    return keys


def _compared(join: Join, block: Block, names: Names) -> Iterator[tuple[Column, Column]]:
    for name in join.using:
        sides = [_owners(side, names, name.lower()) for side in (join.left, join.right)]
        if all(len(side) == 1 for side in sides):
            yield (sides[0][0], name.lower()), (sides[1][0], name.lower())
    for node in conjuncts(names.nodes[join.on]) if join.on is not None else ():
        if not isinstance(node, exp.EQ):
            continue
        columns = [plain_column(block, names, side) for side in (node.left, node.right)]
        for one, other in (columns, columns[::-1]):
            if (
                one is not None
                and other is not None
                and _within(join.left, one)
                and _within(join.right, other)
            ):
                yield one, other


def _owners(source: Source, names: Names, name: str) -> list[Leaf]:
    return [leaf for leaf in leaves(source) if name in names.of_leaf(leaf)]


def _within(source: Source, column: Column) -> bool:
    return any(leaf is column[0] for leaf in leaves(source))


def _text(column: Column) -> str:
    leaf, name = column
    return (
        sql.identifier(name) if leaf.alias is None else f"{sql.identifier(leaf.alias)}.{sql.identifier(name)}"
    )


def plain_column(block: Block, names: Names, node: exp.Expr) -> Column | None:
    """The leaf's column that an expression is, also in parentheses."""
    node = node.unnest()
    if not isinstance(node, exp.Column) or len(node.parts) > 2:
        return None
    name, table = node.name.lower(), node.table.lower()
    owners = [
        owner
        for owner, columns in names.scope(block)
        if name in columns and (not table or (owner.alias or "").lower() == table)
    ]
    if len(owners) != 1 or isinstance(owners[0], LateralView):
        return None
    return owners[0], name


def column_type(names: Names, leaf: Leaf, column: str) -> str | None:
    """The column's type as Spark writes it, None if it is not known."""
    at = names.of_leaf(leaf).index(column)
    if isinstance(leaf, Relation):
        return names.types[leaf.parts][at]
    if not isinstance(leaf, Derived):
        return None
    types = {_output_type(block, names, at) for block in blocks(leaf.query)}
    return types.pop() if len(types) == 1 else None


def _output_type(block: Block, names: Names, at: int) -> str | None:
    types: list[str | None] = []
    for item in block.items:
        if item.star is None:
            types.append(type_of(block, names, names.nodes[item].unalias()))
            continue
        for owner, name in names.of_star(block, item):
            types.append(
                None if name is None or isinstance(owner, LateralView) else column_type(names, owner, name)
            )
    return types[at] if at < len(types) else None


def type_of(block: Block, names: Names, node: exp.Expr) -> str | None:
    """The type of an expression over the block's source, None if it is not known."""
    if isinstance(node, (exp.Cast, exp.TryCast)):
        return node.to.sql("spark").lower()
    if isinstance(node, (exp.Min, exp.Max)):
        return type_of(block, names, node.this)
    column = plain_column(block, names, node)
    return None if column is None else column_type(names, *column)
