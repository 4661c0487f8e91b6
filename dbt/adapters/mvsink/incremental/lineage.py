"""Where the columns and expressions of a query come from: from which column of a relation, with
which type, and whether they are numbers whose sums are exact.

    select c.k, c.n from (select k, cast(v as int) as n from db.t) c

`k` originates from the column `k` of db.t and has its type; `n` from no column, and is an INT.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import Enum
from typing import TypeVar

from sqlglot import exp
from sqlglot.errors import SqlglotError

from dbt.adapters.mvsink.incremental.keys import (
    KeyKind,
    canonical,
    group_keys,
    keys_of,
    kind_of,
    merges,
    outputs,
    owners_of,
)
from dbt.adapters.mvsink.incremental.name_resolution import Names, Owned
from dbt.adapters.mvsink.user_sql.algebra import Block, Call, Derived, LateralView, Leaf, Relation, blocks
from dbt.adapters.mvsink.user_sql.words import parsed

Column = tuple[Leaf, str]
T = TypeVar("T")


class Exact(Enum):
    INT = "int"  # at most 32 bits: sums of millions are exact as doubles, too
    BIGINT = "bigint"
    DECIMAL = "decimal"


_TYPES = {
    **dict.fromkeys(("byte", "tinyint", "short", "smallint", "int", "integer"), Exact.INT),
    **dict.fromkeys(("long", "bigint"), Exact.BIGINT),
}
_SAME = (exp.Paren, exp.Alias, exp.Neg, exp.Abs, exp.Sum, exp.Min, exp.Max, exp.Window, exp.Filter)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.IntDiv, exp.Div)
_COUNTS = (exp.Count, exp.CountIf, exp.RowNumber)


def plain_column(block: Block, names: Names, node: exp.Expr) -> Column | None:
    """The leaf's column, if the expression is just that column, possibly in parentheses."""
    node = node.unnest()
    owners = owners_of(block, names, node) if isinstance(node, exp.Column) else []
    return _of_leaf((names.scope(block)[owners[0]][0], node.name.lower())) if len(owners) == 1 else None


def _of_leaf(owned: Owned) -> Column | None:
    owner, name = owned
    return None if isinstance(owner, LateralView) or name is None else (owner, name)


def own_name(names: Names, leaf: Relation, column: str) -> str:
    """The relation's own name of a column, which its alias may rename."""
    return names.relations[leaf.parts][names.of_leaf(leaf).index(column)]


def origins(names: Names, leaf: Derived, column: str) -> Iterator[tuple[Block, Column | None]]:
    """For each branch of the leaf's query, the column of an inner leaf that the column is a copy
    of, if there is one (see `origins_in`).
    """
    at = names.of_leaf(leaf).index(column)
    merged = merges(leaf.query)
    for block in blocks(leaf.query):
        yield block, None if merged else origins_in(names, block)[at]


def origins_in(names: Names, block: Block) -> list[Column | None]:
    """For each output, the column of a leaf that it is a copy of, if output rows with one value
    depend only on rows of the leaf with the same value; otherwise None.
    """
    shown = [
        plain_column(block, names, each.unalias()) if isinstance(each, exp.Expr) else _of_leaf(each)
        for each in names.shown(block)
    ]
    keys = key_columns(names, block)
    return [each if keys is None or each in keys else None for each in shown]


def key_columns(names: Names, block: Block) -> list[Column] | None:
    """The keys that are plain columns; None if every column is a key."""
    clauses = {name: part for name, part in block.more.items() if name != "DISTINCT"}
    inner = replace(block, more=clauses)
    if kind_of(inner) is KeyKind.PLAIN:
        return None
    keys = keys_of(inner, names) if kind_of(inner) is KeyKind.KEYED else ()
    columns = (plain_column(block, names, key.node) for key in keys)
    return [column for column in columns if column is not None]


def _traced(
    names: Names, column: Column, of_type: Callable[[str], T], of: Callable[[Block, Names, exp.Expr], T]
) -> T | None:
    """What ``of_type`` makes of the type of a leaf's column, or ``of`` of the inner expressions
    that it shows; None if the results differ.
    """
    leaf, name = column
    at = names.of_leaf(leaf).index(name)
    if isinstance(leaf, Relation):
        return of_type(names.types[leaf.parts][at])
    if not isinstance(leaf, Derived):
        return None
    kinds: set[T | None] = set()
    for block in blocks(leaf.query):
        shown = names.shown(block)
        each = shown[at] if at < len(shown) else None
        if isinstance(each, exp.Expr):
            kinds.add(of(block, names, each.unalias()))
        else:
            below = None if each is None else _of_leaf(each)
            kinds.add(None if below is None else _traced(names, below, of_type, of))
    return kinds.pop() if len(kinds) == 1 else None


def column_type(names: Names, leaf: Leaf, column: str) -> str | None:
    """The column's type as Spark writes it, None if it is not known."""
    return _traced(names, (leaf, column), str, type_of)


def can_be_compared(names: Names, column: Column) -> bool:
    """Whether values of the column can certainly be keys: by their type, or because they are keys
    of groups already.
    """
    kind = column_type(names, *column)
    if kind is not None:
        return "map<" not in kind and "variant" not in kind
    leaf, name = column
    if not isinstance(leaf, Derived):
        return False
    at = names.of_leaf(leaf).index(name)
    return all(_is_group_key(names, block, at) for block in blocks(leaf.query))


def _is_group_key(names: Names, block: Block, at: int) -> bool:
    if "GROUP" not in block.more or any(item.star is not None for item in block.items):
        return False
    shown = outputs(block, names)
    trees = {canonical(block, names, key.node) for key in group_keys(block, names)}
    return at < len(shown) and shown[at][1] in trees


def type_of(block: Block, names: Names, node: exp.Expr) -> str | None:
    """The type of an expression over the block's source, None if it is not known."""
    if isinstance(node, (exp.Cast, exp.TryCast)):
        return node.to.sql("spark").lower()
    if isinstance(node, (exp.Min, exp.Max)):
        return type_of(block, names, node.this)
    column = plain_column(block, names, node)
    return None if column is None else column_type(names, *column)


def exact(block: Block, names: Names, node: exp.Expr) -> Exact | None:
    """The kind of exact number that the expression over the block's source is; None if it may not
    be exact.
    """
    if isinstance(node, exp.Literal):
        return _literal(node)
    if isinstance(node, (exp.Cast, exp.TryCast)):
        return _type(node.to.sql("spark"))
    if isinstance(node, exp.Column):
        column = plain_column(block, names, node)
        return None if column is None else _traced(names, column, _type, exact)
    if isinstance(node, _COUNTS):
        return Exact.BIGINT
    if isinstance(node, _SAME):
        return exact(block, names, node.this)
    operands = _operands(node)
    kinds = [exact(block, names, each) for each in operands if not isinstance(each, exp.Null)]
    if not kinds or None in kinds:
        return None
    if isinstance(node, exp.Div) and Exact.DECIMAL not in kinds:  # of integers: a double
        return None
    return max((each for each in kinds if each is not None), key=[*Exact].index)


def exact_argument(text: str, block: Block, names: Names, call: Call) -> Exact | None:
    """The kind of exact number that the first argument of a call in ``text`` is; None if it may not
    be exact.
    """
    if not call.arguments:
        return None
    try:
        tree = parsed(f"select {call.arguments[0].of(text)}")
    except SqlglotError:
        return None
    return exact(block, names, tree.expressions[0])


def _operands(node: exp.Expr) -> list[exp.Expr]:
    """The operands that the value is computed from, or of which one is the value."""
    if isinstance(node, _ARITHMETIC):
        return [node.left, node.right]
    if isinstance(node, exp.Distinct):
        return list(node.expressions)
    if isinstance(node, exp.Coalesce):
        return [node.this, *node.expressions]
    if isinstance(node, exp.If):
        return [node.args["true"], node.args.get("false") or exp.null()]
    if isinstance(node, exp.Case):
        values = [branch.args["true"] for branch in node.args["ifs"]]
        return [*values, node.args.get("default") or exp.null()]
    return []


def _literal(node: exp.Literal) -> Exact | None:
    if node.is_string or not re.fullmatch(r"\d+(\.\d*)?", node.name):
        return None
    if "." in node.name:
        return Exact.DECIMAL
    return Exact.INT if len(node.name) < 10 else Exact.BIGINT


def _type(kind: str) -> Exact | None:
    name = kind.lower()
    return Exact.DECIMAL if name.startswith(("decimal", "dec(", "numeric")) else _TYPES.get(name)
