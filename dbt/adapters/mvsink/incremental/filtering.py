"""Which rows of a relation the query's own conditions keep.

A comparison of a column with constants drops rows if it is in WHERE, or in a join's condition that
a row of this side must satisfy. No row of the result comes from a dropped row, and the NULLs that
an outer join puts in place of a missing row do not satisfy the comparison either. So without these
rows the query gives the same result, before and after a change, and the same change. A comparison
of a column of a CTE or derived table is traced down to the relation that the column comes from, by
the rule of `lineage.origins`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date

from sqlglot import exp

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.engine.predicates import Comparison, Filter, Value
from dbt.adapters.mvsink.incremental.change_plan import Analysed
from dbt.adapters.mvsink.incremental.lineage import Column, column_type, origins, own_name, plain_column
from dbt.adapters.mvsink.incremental.name_resolution import Names
from dbt.adapters.mvsink.user_sql.algebra import (
    Block,
    Derived,
    Fragment,
    Join,
    Leaf,
    Query,
    Relation,
    blocks,
    every_block,
    joins,
    leaves,
)
from dbt.adapters.mvsink.user_sql.trees import conjuncts
from dbt.adapters.mvsink.user_sql.words import parts

_OPERATORS: dict[type, str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_KEPT_BY = {"inner": "both", "left": "right", "semi": "right", "anti": "right", "right": "left"}
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def filters(analysed: Analysed) -> dict[str, Filter]:
    """For each relation, by its name in `Analysed.relations`, the condition that its rows must
    satisfy to matter to the query. A relation is left out if every row may matter.
    """
    collected = _Filters(analysed.text, analysed.names)
    collected.query(analysed.tree, {})
    for block in every_block(analysed.tree):  # no query of an expression is a leaf
        for subquery in block.subqueries:
            collected.query(subquery.query, {})
    spelled = {parts(name): name for name in analysed.relations}
    return {
        spelled[key]: Filter(tuple(dict.fromkeys(alternatives)))
        for key, alternatives in collected.alternatives.items()
        if all(alternatives) and len(alternatives) <= limits.FILTERED_PLACES
    }


@dataclass
class _Filters:
    """``alternatives`` has, by the parts of a relation's name, the comparisons that a row must
    satisfy in each place where the relation is read.
    """

    text: str
    names: Names
    alternatives: dict[tuple[str, ...], list[tuple[Comparison, ...]]] = field(default_factory=dict)
    entered: Counter[Query] = field(default_factory=Counter)
    whole: set[Query] = field(default_factory=set)  # entered without conditions: no other place adds rows

    def query(self, query: Query, wanted: Mapping[Block, Mapping[Column, list[Comparison]]]) -> None:
        """Collect the filters in ``query``. ``wanted`` has, by block, comparisons of its leaves'
        columns that come from outside the query.
        """
        if query in self.whole:
            return
        self.entered[query] += 1
        if not wanted or self.entered[query] > limits.FILTERED_PLACES:
            wanted = {}
            self.whole.add(query)
        for block in blocks(query):
            compared: dict[Column, list[Comparison]] = {
                column: [*listed] for column, listed in wanted.get(block, {}).items()
            }
            for column, comparison in self._compared(block):
                compared.setdefault(column, []).append(comparison)
            for leaf in leaves(block.source):
                self._leaf(leaf, {name: each for (owner, name), each in compared.items() if owner is leaf})

    def _leaf(self, leaf: Leaf, compared: dict[str, list[Comparison]]) -> None:
        if isinstance(leaf, Relation):
            fulfilled = tuple(
                Comparison(own_name(self.names, leaf, name), each.operator, each.values)
                for name, listed in compared.items()
                for each in listed
            )
            self.alternatives.setdefault(leaf.parts, []).append(fulfilled)
        elif isinstance(leaf, Derived):
            below: dict[Block, dict[Column, list[Comparison]]] = {}
            for name, listed in compared.items():
                for block, origin in origins(self.names, leaf, name):
                    if origin is not None and column_type(self.names, *origin) == column_type(
                        self.names, leaf, name
                    ):
                        below.setdefault(block, {}).setdefault(origin, []).extend(listed)
            self.query(leaf.query, below)

    def _compared(self, block: Block) -> Iterator[tuple[Column, Comparison]]:
        """The comparisons that the block's rows satisfy, with the columns of its leaves that are
        compared.
        """
        for conjunct in block.where:
            yield from self._in(block, conjunct, None)
        for join in joins(block.source):
            if join.on is not None:
                yield from self._in(block, join.on, join)

    def _in(
        self, block: Block, condition: Fragment, join: Join | None
    ) -> Iterator[tuple[Column, Comparison]]:
        text = condition.of(self.text)
        plain = '"' not in text and "\\" not in text  # what else such a text means depends on settings
        for node in conjuncts(self.names.nodes[condition]):
            for column, operator, values in self._comparisons(block, node):
                kind = column_type(self.names, *column)
                read = [_value(value, kind) for value in values] if plain else [None]
                constants = tuple(value for value in read if value is not None)
                if len(constants) == len(read) <= limits.FILTERED_VALUES and (
                    join is None or _must(join, column[0])
                ):
                    yield column, Comparison(column[1], operator, constants)

    def _comparisons(self, block: Block, node: exp.Expr) -> Iterator[tuple[Column, str, list[exp.Expr]]]:
        node = node.unnest()
        if isinstance(node, (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)):
            operator = _OPERATORS[type(node)]
            for one, other, way in (
                (node.left, node.right, operator),
                (node.right, node.left, _TURNED.get(operator, operator)),
            ):
                if (column := plain_column(block, self.names, one)) is not None:
                    yield column, way, [other]
        elif isinstance(node, exp.Between) and not node.args.get("symmetric"):
            if (column := plain_column(block, self.names, node.this)) is not None:
                yield column, ">=", [node.args["low"]]
                yield column, "<=", [node.args["high"]]
        elif isinstance(node, exp.In) and node.expressions:
            if (column := plain_column(block, self.names, node.this)) is not None:
                yield column, "in", node.expressions
        else:
            negated = isinstance(node, exp.Not)
            inner = node.this if negated else node
            column = plain_column(block, self.names, inner)
            if column is not None and column_type(self.names, *column) == "boolean":
                yield column, "=", [exp.false() if negated else exp.true()]


def _must(join: Join, leaf: Leaf) -> bool:
    """Whether a row of the leaf matters only if it satisfies the join's condition."""
    sides = {"both": join, "left": join.left, "right": join.right}
    return join.kind in _KEPT_BY and leaf in leaves(sides[_KEPT_BY[join.kind]])


def _value(node: exp.Expr, kind: str | None) -> Value | None:
    """The constant, if it has the column's type."""
    node = node.unnest()
    if kind in _BITS:
        return _integer(node, _BITS[kind])
    if kind == "boolean":
        return bool(node.this) if isinstance(node, exp.Boolean) else None
    if kind == "date":
        cast = isinstance(node, (exp.Cast, exp.TryCast)) and node.to.this == exp.DataType.Type.DATE
        return _date(node.this if cast else node)
    if kind == "string" and isinstance(node, exp.Literal) and node.is_string:
        return str(node.this)
    return None


def _integer(node: exp.Expr, bits: int) -> int | None:
    negated = isinstance(node, exp.Neg)
    literal = node.this.unnest() if negated else node
    if not isinstance(literal, exp.Literal) or literal.is_string or not str(literal.this).isdecimal():
        return None
    value = -int(literal.this) if negated else int(literal.this)
    return value if -(2 ** (bits - 1)) <= value < 2 ** (bits - 1) else None


def _date(node: exp.Expr) -> date | None:
    if not isinstance(node, exp.Literal) or not node.is_string or not _DATE.fullmatch(node.this):
        return None
    try:
        return date.fromisoformat(node.this)
    except ValueError:
        return None
