"""Subqueries in WHERE as joins: an equivalent query whose changes cost less.

Otherwise the effect of a subquery's change is known only by evaluating its conjunct for every row,
as it is and as it was. A semi or anti join has a rule of its own: only rows that match what changed
on its right side can differ, and keys restrict what is read.

| conjunct over rows of t | join that replaces it |
|---|---|
| `exists (.. from s where p and x = t.y)` | semi join with `x` of s where p, on `x = t.y` |
| `not exists (..)` | the same with an anti join |
| `t.y in (select x from s where p)` | semi join with `x` of s where p, on `t.y = x` |
| `t.z > (select avg(v) from s where x = t.y)` | semi join with the groups by x, on both |

The last rewriting holds only if the value is NULL over no rows, because a comparison with NULL
drops the row. A subquery that may not be equivalent to a join stays as it is: NOT IN, a subquery
below OR, one without a column of the block around it, a comparison that would convert types, and
`mv_now()` in a conjunct that would move into ON, where it has no rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from dbt.adapters.mvsink.incremental.compose import Rewriting, new_alias
from dbt.adapters.mvsink.incremental.keys import KeyKind, kind_of, owners_of
from dbt.adapters.mvsink.incremental.lineage import type_of
from dbt.adapters.mvsink.incremental.name_resolution import Names
from dbt.adapters.mvsink.user_sql.algebra import Block, Fragment, Query, Subquery, every_block, joins
from dbt.adapters.mvsink.user_sql.comments import without_lines
from dbt.adapters.mvsink.user_sql.functions import GENERATORS
from dbt.adapters.mvsink.user_sql.splice import Edit, spliced
from dbt.adapters.mvsink.user_sql.tokens import Tokens, chains

_COMPARISONS = (exp.EQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_NULL_OVER_NOTHING = (exp.Sum, exp.Avg, exp.Min, exp.Max)
_NULL_OF_NULL = (exp.Paren, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.Cast)
_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
TRUE = "1 = 1"
_BROUGHT = re.compile(r"u_+\d+[qw]?")


def brought(alias: str) -> bool:
    """Whether a relation with this alias may stand for a subquery."""
    return _BROUGHT.fullmatch(alias) is not None


def unnested(text: str, tree: Query, names: Names) -> list[Rewriting]:
    """The rewritings of conjuncts that can become joins, without conjuncts inside others. One, some
    or all may be applied. The names that they bring occur neither in the text nor in what it reads.
    """
    tokens = Tokens(text)
    stem = new_alias(tokens, names)
    known: list[Rewriting] = []
    for block in every_block(tree):
        for conjunct in block.where:
            rewriting = _Joining(tokens, names, block, conjunct, f"{stem}{len(known)}")
            if (done := rewriting.done()) is not None:
                known.append(done)
    return [each for each in known if not any(_around(each, other) for other in known)]


def _around(one: Rewriting, other: Rewriting) -> bool:
    return one is not other and one.start <= other.start and other.end <= one.end


@dataclass(frozen=True)
class _Condition:
    """A conjunct of a subquery that names columns of the block around it. ``text`` has the
    subquery's columns under their new names; ``equal`` are those that must equal something outside.
    """

    text: str
    equal: bool


@dataclass
class _Joining:
    """Turns one conjunct of ``block`` into a join with a relation called ``alias``."""

    tokens: Tokens
    names: Names
    block: Block
    conjunct: Fragment
    alias: str

    def __post_init__(self) -> None:
        self.text, self.marks = self.tokens.text, self.tokens.marks()
        self.columns: dict[str, str] = {}  # of the relation: text inside -> name

    def done(self) -> Rewriting | None:
        block, node = self.block, self.names.nodes[self.conjunct].unnest()
        inside = [*filter(self.conjunct.has, block.subqueries)]
        if len(inside) != 1 or block.source is None or block.laterals or self._binds_otherwise():
            return None
        if self.names.reaches_out(inside[0].query):
            return None
        kind, joined = "semi", None
        if isinstance(node, exp.Exists):
            joined = self._exists(inside[0])
        elif isinstance(node, exp.Not) and isinstance(node.this.unnest(), exp.Exists):
            kind, joined = "anti", self._exists(inside[0])
        elif isinstance(node, exp.In) and isinstance(node.args.get("query"), exp.Expr):
            joined = self._in(inside[0], node.this.unnest())
        elif isinstance(node, _COMPARISONS):
            joined = self._scalar(inside[0], node)
        if joined is None:
            return None
        relation, condition = joined
        join = f" left {kind} join {relation} on {condition}"
        true = TRUE + "\n" * self.text.count("\n", self.conjunct.start, self.conjunct.end)
        edits = [(block.source.end, block.source.end, join), (self.conjunct.start, self.conjunct.end, true)]
        edits += [
            (each.left.end, each.right.start, " cross join ")
            for each in joins(block.source)
            if each.kind == "comma"
        ]
        return Rewriting(self.conjunct.start, self.conjunct.end, tuple(edits))

    def _binds_otherwise(self) -> bool:
        """Whether FROM has a comma, which binds less tightly than a join, that cannot become a
        cross join.
        """
        every = list(joins(self.block.source))
        other = any(each.kind in ("right", "full") or each.using or each.natural for each in every)
        return other and any(each.kind == "comma" for each in every)

    def _exists(self, subquery: Subquery) -> tuple[str, str] | None:
        inner = self._plain(subquery.query)
        parts = None if inner is None else self._parts(inner)
        if inner is None or parts is None or not any(each.equal for each in parts[1]):
            return None
        own, conditions = parts
        return self._relation(inner, own), _all(conditions)

    def _in(self, subquery: Subquery, value: exp.Expr) -> tuple[str, str] | None:
        """IN, if the value and the column that it is compared with have one type."""
        body = subquery.query.body
        item = body.items[0] if isinstance(body, Block) and len(body.items) == 1 else None
        if not isinstance(body, Block) or item is None or item.star is not None:
            return None
        shown = self.names.nodes[item].unalias()
        if not self._same_type(value, body, shown):
            return None
        outside = self._text_before_in(subquery)
        inner = self._plain(subquery.query)
        parts = None if inner is None else self._parts(inner)
        if inner is None or parts is None or not parts[1]:  # it names no column of the block around it
            whole, name = self._cut(subquery.start, subquery.end), f"{self.alias}_0"
            return f"({whole}) as {self.alias}({name})", f"{outside} = {self.alias}.{name}"
        bare = item.bare if isinstance(self.names.nodes[item], exp.Alias) else item
        if bare is None:
            return None
        own, conditions = parts
        equal = f"{outside} = {self._column(bare.of(self.text))}"
        return self._relation(inner, own), f"{equal} and {_all(conditions)}"

    def _text_before_in(self, subquery: Subquery) -> str:
        """The text of the value on the left of IN, which must be a column."""
        before = [word for word in self.tokens.words if self.conjunct.start <= word.start < subquery.start]
        named = [word for word in before if (word.is_name and word.upper != "IN") or word.text == "."]
        return self.text[named[0].start : named[-1].end]

    def _scalar(self, subquery: Subquery, node: exp.Expr) -> tuple[str, str] | None:
        """A scalar subquery: one value for the equal columns, NULL if there are no rows."""
        body = subquery.query.body
        if (
            not isinstance(body, Block)
            or subquery.query.ctes
            or subquery.query.limited
            or len(body.items) != 1
        ):
            return None
        if kind_of(body) is not KeyKind.WHOLE or body.windows or "HAVING" in body.more or body.subqueries:
            return None
        shown = self.names.nodes[body.items[0]]
        item = body.items[0].bare if isinstance(shown, exp.Alias) else body.items[0]
        compared = [side.unnest() for side in (node.this, node.expression)]
        scalars = [isinstance(side, (exp.Subquery, exp.Select)) for side in compared]
        if item is None or scalars.count(True) != 1 or not _null_over_nothing(shown.unalias()):
            return None
        outside = Fragment(self.conjunct.start, subquery.start), Fragment(subquery.end, self.conjunct.end)
        if any(map(self._timed, (item, *outside))):
            return None
        if not all(self._own(body, column) for column in shown.find_all(exp.Column)):
            return None
        parts = self._parts(body)
        if parts is None or not parts[1] or not all(each.equal for each in parts[1]):
            return None
        own, conditions = parts
        if not all(self._keyed(body, part) for part in body.where if part not in own):
            return None
        keys = ", ".join(self.columns)
        value = self._column(item.of(self.text))
        opening = max(word.start for word in self.tokens.words if word.start < subquery.start)
        closing = min(word.end for word in self.tokens.words if word.start >= subquery.end)
        before, behind = self._cut(self.conjunct.start, opening), self._cut(closing, self.conjunct.end)
        comparison = " ".join(filter(None, (before, value, behind)))
        relation = self._relation(body, own, f" group by {keys}")
        return relation, f"{_all(conditions)} and {comparison}"

    def _keyed(self, inner: Block, part: Fragment) -> bool:
        """Whether the conjunct equates a column of ``inner`` with an outside column of the same
        type.
        """
        node = self.names.nodes[part].unnest()
        sides = [side.unnest() for side in (node.this, node.expression)]
        ours = [side for side in sides if isinstance(side, exp.Column) and self._own(inner, side)]
        others = [side for side in sides if side not in ours]
        return len(ours) == 1 and self._same_type(others[0], inner, ours[0])

    def _plain(self, query: Query) -> Block | None:
        """The query's block, if it has one row for each row of its source."""
        body = query.body
        if not isinstance(body, Block) or query.ctes or query.limited is not None or body.source is None:
            return None
        if kind_of(body) is not KeyKind.PLAIN or "HAVING" in body.more:
            return None
        if not all(any(part.has(each) for part in body.where) for each in body.subqueries):
            return None
        first, last = body.items[0], body.items[-1]
        listed = [word for word in self.tokens.words if first.start <= word.start < last.end]
        return None if any(word.text.lower() in GENERATORS for word in listed) else body

    def _parts(self, inner: Block) -> tuple[list[Fragment], list[_Condition]] | None:
        """The conjuncts of ``inner`` that name only its own columns, and the others; None if it is
        not certain whose columns are named.
        """
        if inner.source is None:
            return None
        own, conditions = [], []
        for part in inner.where:
            node = self.names.nodes[part]
            named = list(node.find_all(exp.Column))
            ours = [column for column in named if self._own(inner, column)]
            if len(ours) == len(named) and not node.find(exp.Query):
                own.append(part)
            elif node.find(exp.Query, exp.Lambda) or not all(
                self._own(inner, column) or self._outside(inner, column) for column in named
            ):
                return None
            else:
                condition = self._condition(inner, part, ours)
                if condition is None:
                    return None
                conditions.append(condition)
        return own, conditions

    def _condition(self, inner: Block, part: Fragment, ours: Sequence[exp.Column]) -> _Condition | None:
        """The conjunct as a condition of the join. ``ours`` are the columns of ``inner`` in it."""
        wanted = {_path(column) for column in ours}
        edits: list[Edit] = []
        inside = [word for word in self.tokens.words if part.has(word.start)]
        for chain in chains(inside):
            if tuple(word.text.lower() for word in chain) in wanted:
                start, end = chain[0].start, chain[-1].end
                edits.append((start, end, self._column(self.text[start:end])))
        if len(edits) != len(ours) or self._timed(part):  # a word is a column's name and something else
            return None
        return _Condition(self._conjunct(part, edits), self._equal(inner, part))

    def _conjunct(self, part: Fragment, edits: Iterable[Edit] = ()) -> str:
        """The conjunct, to be joined to others by AND."""
        text = self._cut(part.start, part.end, edits)
        return f"({text})" if isinstance(self.names.nodes[part], exp.Or) else text

    def _timed(self, part: Fragment) -> bool:
        """Whether `mv_now()` is in it."""
        return any(part.has(start) for start, _ in self.marks)

    def _equal(self, inner: Block, part: Fragment) -> bool:
        """Whether the conjunct says that a value of ``inner`` equals one outside."""
        node = self.names.nodes[part].unnest()
        if not isinstance(node, exp.EQ):
            return False
        sides = [list(side.find_all(exp.Column)) for side in (node.this, node.expression)]
        whose = [{self._own(inner, column) for column in side} for side in sides]
        return whose in ([{True}, {False}], [{False}, {True}])

    def _cut(self, start: int, end: int, edits: Iterable[Edit] = ()) -> str:
        """That text with ``edits`` and the comments right after it, which mark `mv_now()`. It is on
        one line unless that would change its meaning, and without `--` comments, which would
        swallow what follows.
        """
        stream = self.tokens.words
        until = min((word.start for word in stream if word.start >= end), default=len(self.text))
        inside = [(low - start, high - start, new) for low, high, new in edits]
        cut = without_lines(spliced(self.text[start:until], inside))
        lines = any(
            "\n" in self.text[word.start : word.end] for word in stream if start <= word.start < until
        )
        return cut if lines else " ".join(cut.splitlines()).strip()

    def _column(self, text: str) -> str:
        """The qualified name of the column that is ``text`` inside the relation."""
        return f"{self.alias}.{self.columns.setdefault(text, f'{self.alias}_{len(self.columns)}')}"

    def _relation(self, inner: Block, own: Sequence[Fragment], grouped: str = "") -> str:
        """The relation to join with: the rows of ``inner`` for which the conjuncts ``own`` hold, or
        groups of them.
        """
        assert inner.source is not None
        listed = ", ".join(f"{text} as {name}" for text, name in self.columns.items()) or "1"
        end = inner.laterals[-1].end if inner.laterals else inner.source.end
        where = " and ".join(map(self._conjunct, own))
        rows = self._cut(inner.source.start, end) + (f" where {where}" if where else "")
        return f"(select {listed} from {rows}{grouped}) as {self.alias}"

    def _own(self, inner: Block, column: exp.Column) -> bool:
        return bool(owners_of(inner, self.names, column))

    def _outside(self, inner: Block, column: exp.Column) -> bool:
        """Whether it is a column of the block around ``inner``, and nothing else."""
        first = column.parts[0].name.lower()
        hidden = len(column.parts) > 1 and first in self.names.columns(inner)  # a struct's field
        return not hidden and len(owners_of(self.block, self.names, column)) == 1

    def _same_type(self, value: exp.Expr, inner: Block, shown: exp.Expr) -> bool:
        """Whether ``value``, a column outside, and ``shown`` inside can be compared without a
        conversion.
        """
        if not isinstance(value.unnest(), exp.Column):
            return False
        one, other = type_of(self.block, self.names, value), type_of(inner, self.names, shown)
        return one is not None and (one == other or {one, other} <= _INTEGERS)


def _null_over_nothing(node: exp.Expr) -> bool:
    """Whether an item of aggregates is NULL if there are no rows."""
    if isinstance(node, _NULL_OVER_NOTHING):
        return True
    if not isinstance(node, _NULL_OF_NULL):
        return False
    operands = [each for each in node.iter_expressions() if not isinstance(each, exp.DataType)]
    others = [each for each in operands if not isinstance(each, exp.Literal)]
    return bool(others) and all(map(_null_over_nothing, others))


def _path(column: exp.Column) -> tuple[str, ...]:
    return tuple(part.name.lower() for part in column.parts)


def _all(conditions: Sequence[_Condition]) -> str:
    return " and ".join(each.text for each in conditions)
