"""Which expressions are integers or decimals: their sums are the same in any order."""

from __future__ import annotations

import re
from enum import Enum

from sqlglot import exp
from sqlglot.errors import SqlglotError

from dbt.adapters.mvsink.incremental.keys import owners_of
from dbt.adapters.mvsink.incremental.name_resolution import Names
from dbt.adapters.mvsink.user_sql.algebra import Block, Call, Derived, Relation, blocks
from dbt.adapters.mvsink.user_sql.words import parsed


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


def exact(block: Block, names: Names, node: exp.Expr) -> Exact | None:
    """What exact number the expression over the block's source is; None: it may be none."""
    if isinstance(node, exp.Literal):
        return _literal(node)
    if isinstance(node, (exp.Cast, exp.TryCast)):
        return _type(node.to.sql("spark"))
    if isinstance(node, exp.Column):
        return _column(block, names, node)
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
    """What exact number the first argument of a call in ``text`` is; None: it may be none."""
    if not call.arguments:
        return None
    argument = call.arguments[0]
    try:
        tree = parsed(f"select {text[argument.start : argument.end]}")
    except SqlglotError:
        return None
    return exact(block, names, tree.expressions[0])


def _operands(node: exp.Expr) -> list[exp.Expr]:
    """The operands of which one is the value, or from which it is computed."""
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


def _column(block: Block, names: Names, column: exp.Column) -> Exact | None:
    owners = owners_of(block, names, column)
    if len(owners) != 1:
        return None
    owner = names.scope(block)[owners[0]][0]
    at = names.of_leaf(owner).index(column.name.lower()) if isinstance(owner, (Relation, Derived)) else 0
    if isinstance(owner, Relation):
        return _type(names.types[owner.parts][at])
    if not isinstance(owner, Derived):
        return None
    kinds = {_output(branch, names, at) for branch in blocks(owner.query)}
    return kinds.pop() if len(kinds) == 1 else None


def _output(block: Block, names: Names, at: int) -> Exact | None:
    """The block's column at a position."""
    columns: list[exp.Expr | None] = []
    for item in block.items:
        if item.star is None:
            columns.append(names.nodes[item].unalias())
            continue
        for owner, name in names.of_star(block, item):
            columns.append(None if name is None or owner.alias is None else exp.column(name, owner.alias))
    node = columns[at] if at < len(columns) else None
    return None if node is None else exact(block, names, node)
