"""What is not incremental, and why. Internally `Refused` is raised; `NotIncremental` is the
outcome.

    select k, rand() as r      refused: line 1: rand() differs from run to run
    select k, max(v) over ()   allowed in an item of a block, refused in its WHERE

In case of doubt a query is refused: the full correction is always right. The text of an expression
is read by its tokens, so that nothing is missed that only Spark's parser knows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from dbt.adapters.mvsink.engine import UnsupportedType, parse_type
from dbt.adapters.mvsink.engine.errors import SubstitutedName
from dbt.adapters.mvsink.engine.sql import check_name
from dbt.adapters.mvsink.engine.types import PADDED
from dbt.adapters.mvsink.incremental.keys import KeyKind, has_row_keys, keys_of, kind_of, merges, row_names
from dbt.adapters.mvsink.incremental.lineage import type_of
from dbt.adapters.mvsink.incremental.name_resolution import Names, generator_of, own_columns
from dbt.adapters.mvsink.incremental.terms import full_keys
from dbt.adapters.mvsink.user_sql.algebra import (
    Block,
    Constant,
    Fragment,
    LateralView,
    Leaf,
    Query,
    Refused,
    Relation,
    SetOp,
    Window,
    every_query,
    joins,
    leaves,
)
from dbt.adapters.mvsink.user_sql.checks import dotted, moving_literal
from dbt.adapters.mvsink.user_sql.functions import (
    AGGREGATES,
    BARE,
    ELSEWHERE,
    GENERATORS,
    PEER_WINDOWS,
    REFUSED,
    ROW_BY_ROW,
    ROW_WINDOWS,
    TABLE_FUNCTIONS,
    WINDOWS,
    WITHOUT_ARGUMENTS,
)
from dbt.adapters.mvsink.user_sql.words import Word, keywords, words

# Words that may stand before a parenthesis without being a function's name.
_BEFORE_PARENTHESIS = keywords(
    "ALL AND ANY AS BETWEEN BY CASE DISTINCT ELSE ESCAPE EXCEPT EXISTS FOR FROM ILIKE IN INTERVAL IS LIKE NOT ON OR RLIKE REGEXP SOME THEN "
    "WHEN"
)
_MANY_FACES = re.compile(r"\b(?:float|double|variant|collate)\b", re.IGNORECASE)  # of one value
_COLLATED = re.compile(r"\bcollate\b", re.IGNORECASE)


@dataclass(frozen=True)
class NotIncremental:
    """The query, or this change of it, needs the full correction. ``reason`` is a clause for users:
    `line 14: rand() differs from run to run`.
    """

    reason: str


def outcome(refused: Refused, text: str) -> NotIncremental:
    """``refused`` as a `NotIncremental`, with the line in ``text``."""
    line = "" if refused.at is None else f"line {text.count(chr(10), 0, refused.at) + 1}: "
    return NotIncremental(line + refused.reason)


def check_text(text: str, stream: Sequence[Word]) -> None:
    """Refuse what is not allowed in any clause."""
    try:
        check_name(text)
    except SubstitutedName:
        raise Refused("${...} is replaced by Spark with a value of the session") from None
    for word in stream:
        if word.upper == "|>":
            raise Refused("pipe syntax (|>)", word.start)
        if word.is_name and word.text.lower().startswith("_mv_"):
            raise Refused(f"the name {word.text}: names with _mv_ are reserved", word.start)
        if word.is_name and word.text.lower() == "_metadata":
            raise Refused("a file's _metadata is not part of an input's rows", word.start)
        if word.upper in ("COLLATE", "TABLESAMPLE", "PIVOT", "UNPIVOT", "QUALIFY"):
            raise Refused(word.upper if word.upper != "COLLATE" else "a collation", word.start)


def check_expression(
    stream: Sequence[Word],
    allowed: Collection[str],
    generators: Collection[str] = (),
    grouped: Collection[str] = (),
) -> None:
    """Refuse an expression that is not a function of one row of the source.

    ``allowed`` are the lower-case names of the user's own functions that are declared
    deterministic. ``generators`` are functions that only the outermost call may also be, and
    ``grouped`` are the aggregates and window functions that the expression may call.
    """
    for index, word in enumerate(stream):
        before = stream[index - 1].upper if index else ""
        behind = [each.upper for each in stream[index + 1 : index + 3]]
        if word.upper in ("SELECT", "WITH") and before == "(":
            raise Refused("a subquery", word.start)
        if (
            word.upper == "OVER"
            and not grouped
            and behind[:1]
            and (behind[0] == "(" or stream[index + 1].is_name)
        ):
            raise Refused("a window function", word.start)
        counts = index > 1 and stream[index - 2].upper == "COUNT" and behind[:1] == [")"]
        if word.upper == "*" and before in ("(", ",", ".", "DISTINCT") and not (before == "(" and counts):
            raise Refused("a star inside a function call", word.start)
        if reason := moving_literal(word, before):
            raise Refused(reason, stream[index - 1].start)
        if word.is_name and not word.text[:1].isdigit():
            called = behind[:1] == ["("]
            name = dotted(stream, index) if called else word.text.lower()
            if called and not _is_syntax(word, before):
                _check_call(name, word.start, behind, [*allowed, *grouped, *(() if index else generators)])
            elif not called and before != "." and word.upper and name in BARE and before != "AS":
                raise Refused(f"{name} differs from run to run or from session to session", word.start)


def check_names(stream: Sequence[Word], relation: str, columns: Collection[str]) -> None:
    """Refuse names that Spark reads as functions in a subquery, where columns of the outer query
    come last: there `` `user` `` is the user of the session, not the column.
    """
    for word in stream:
        if word.quoted_name and word.text.lower() in BARE:
            raise Refused(f"{word.text} is also the name of a function without parentheses", word.start)
    for column in columns:
        if column in BARE:
            raise Refused(f"column {column} of {relation} has the name of a function without parentheses")


def _is_syntax(word: Word, before: str) -> bool:
    """Whether a word before a parenthesis is syntax and not a function's name; ANY and SOME may be
    either.
    """
    if word.upper in ("ANY", "SOME"):
        return before in ("LIKE", "ILIKE")
    if word.upper == "GROUP":
        return before == "WITHIN"
    if word.upper == "OVER":  # of a window function, which was judged before
        return True
    return word.upper in _BEFORE_PARENTHESIS and before != "."


def _check_call(name: str, at: int, behind: Sequence[str], allowed: Collection[str]) -> None:
    if name in allowed:
        return
    if name in ELSEWHERE or (name in WITHOUT_ARGUMENTS and list(behind) == ["(", ")"]):
        raise Refused(f"{name}() differs from run to run", at)
    for names, what in (
        (AGGREGATES, "an aggregate: {}()"),
        (WINDOWS, "a window: {}()"),
        (REFUSED, "{}() is not known to be reproducible"),
        (GENERATORS, "the generator {}() in an expression"),
    ):
        if name in names:
            raise Refused(what.format(name), at)
    if name not in ROW_BY_ROW:
        raise Refused(f"{name}() is not a known built-in function; deterministic_functions can allow it", at)


def check_types(relation: str, columns: Iterable[tuple[str, str]]) -> None:
    """Refuse columns whose equal values can differ, or that cannot be compared. What may be done
    with maps depends on the query (`maps`).
    """
    for name, kind in columns:
        if _COLLATED.search(kind):
            raise Refused(f"column {name} of {relation} has a collation")
        if PADDED.search(kind):
            raise Refused(f"column {name} of {relation} is of type {kind}, which Spark pads to compare it")
        try:
            parse_type(kind, name)
        except UnsupportedType:
            reason = f"column {name} of {relation} is of type {kind}, which cannot be compared"
            raise Refused(reason) from None


def check_widths(query: Query, names: Names) -> None:
    """Refuse parts of the query's own body whose number of columns only Spark knows: a generator
    over a map has one column more than a generator over an array, and `values struct(1, 2)` has
    two. A part with a list of column names is fine: Spark refuses a list of another length.
    """
    body = query.body
    if isinstance(body, SetOp) and not _aligned(body, names):
        raise Refused("a set operator over columns whose number is not certain", body.start)
    if not isinstance(body, Block):
        return
    for item in body.items:
        _check_generator(body, names, item, names.nodes[item])
    for view in body.laterals:
        if not view.columns:
            _check_generator(body, names, view, names.nodes[view.call])
    for leaf in leaves(body.source):
        _check_leaf(leaf, names)


def _check_generator(block: Block, names: Names, part: Fragment, node: exp.Expr) -> None:
    """Refuse a generator whose columns only Spark can name. A list of names has as many as there
    are columns, or Spark refuses it.
    """
    generator = None if isinstance(node, (exp.Alias, exp.Aliases)) else generator_of(node)
    if generator is None:
        return
    kind = ""
    if isinstance(generator, exp.Explode):
        is_array = isinstance(generator.this, exp.Array)
        kind = "array<>" if is_array else type_of(block, names, generator.this) or ""
    if not kind.startswith("array<"):
        raise Refused(
            "a generator whose columns have no names, and that is not certain to be over an array: name them, as in "
            "`posexplode(x) as (a, b)`",
            part.start,
        )


def _check_domain(block: Block, names: Names, view: LateralView) -> None:
    """Refuse a LATERAL join with ON over what may be equal and differ. Spark joins with the rows of
    distinct values, where -0.0 has become 0.0, unless it knows that they are distinct anyway.
    """
    for column in own_columns(names.nodes[view.call]):
        kind = type_of(block, names, column)
        if kind is None or _MANY_FACES.search(kind):
            raise Refused(
                f"LATERAL with ON over {column.name}, which is not certain to be of a type without -0.0: "
                "write the condition into WHERE, or use LATERAL VIEW [OUTER]",
                view.start,
            )


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
    """The number of columns of a row of VALUES; None if it is not certain."""
    if not isinstance(row, exp.Tuple):
        return (
            1 if isinstance(row.unnest(), (exp.Literal, exp.Neg, exp.Null, exp.Boolean, exp.Cast)) else None
        )
    if any(isinstance(each.unnest(), (exp.Tuple, exp.Struct)) for each in row.expressions):
        return None
    return len(row.expressions)


@dataclass(frozen=True)
class Checks:
    """Refuses expressions that are not functions of one row of their block's source."""

    text: str
    names: Names
    allowed: Collection[str]

    def every(self, tree: Query) -> None:
        stream = words(self.text)
        for query in every_query(tree):
            body = query.body
            if isinstance(body, Block):
                self._block(body, stream)
            if not isinstance(body, Query) and has_row_keys(body):
                row_names(query, self.names)
            check_widths(query, self.names)

    def _block(self, block: Block, stream: Sequence[Word]) -> None:
        plain = kind_of(block) is KeyKind.PLAIN
        grouped = frozenset() if plain else AGGREGATES | PEER_WINDOWS | ROW_WINDOWS
        many = block.calls or block.windows or "GROUP" in block.more
        generators = () if many else GENERATORS
        aliases: set[str] = set()
        for item in block.items:
            if item.star is None:
                self._expression(block, item, stream, generators, aliases, grouped)
                aliases.add(self.names.nodes[item].alias.lower())
        for part in (*block.where, *(join.on for join in joins(block.source) if join.on is not None)):
            self._expression(block, part, stream)
        if "HAVING" in block.more:
            self._expression(block, block.more["HAVING"], stream, (), aliases, AGGREGATES)
        for part in (*block.keys, *(part for window in block.windows for part in _parts(window))):
            self._expression(block, part, stream, (), aliases, AGGREGATES)
        if kind_of(block) is KeyKind.KEYED:
            keys_of(block, self.names)
        for join in joins(block.source):
            if join.kind == "full":
                full_keys(join, block, self.names)
        for view in block.laterals:
            self._expression(block, view.call, stream, GENERATORS)
            if view.on is not None:
                self._expression(block, view.on, stream)
                _check_domain(block, self.names, view)
        for leaf in leaves(block.source):
            if isinstance(leaf, Constant):
                self._constant(leaf, stream)

    def _expression(
        self,
        block: Block,
        part: Fragment,
        stream: Sequence[Word],
        generators: Collection[str] = (),
        aliases: Collection[str] = (),
        grouped: Collection[str] = (),
    ) -> None:
        allowed = part in block.where or part in block.items or part is block.more.get("HAVING")
        below = block.subqueries if allowed else ()
        inside = [
            word
            for word in stream
            if part.has(word.start) and not any(query.has(word.start) for query in below)
        ]
        check_expression(inside, self.allowed, generators, grouped)
        node = self.names.nodes[part]
        if not allowed and node.find(exp.Query):
            raise Refused("a subquery", part.start)
        if node.find(exp.Placeholder, exp.Parameter, exp.SessionParameter):
            raise Refused("a parameter", part.start)
        self.names.check(block, part, aliases)

    def _constant(self, leaf: Constant, stream: Sequence[Word]) -> None:
        inside = [word for word in stream if leaf.call.has(word.start)]
        check_expression(inside[1:] if not leaf.function else inside, self.allowed, TABLE_FUNCTIONS)
        if self.names.nodes[leaf.call].find(exp.Column):
            raise Refused("a table function of columns", leaf.start)


def _parts(window: Window) -> tuple[Fragment, ...]:
    return (*window.partition, *window.order)
