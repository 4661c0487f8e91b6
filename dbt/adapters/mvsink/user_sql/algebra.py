"""A query as blocks, set operators and FROM trees. Every part knows its place in the text.

``text[part.start:part.end]`` is the part as the user wrote it; no part is ever rendered again.
Parts are compared by identity: a common table expression (CTE) that is referenced twice is one
`Query` under two leaves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal


class Refused(Exception):
    """A text, or a part of it, is not analyzed. ``reason``: a clause for users; ``at``: the
    position in the text, if there is one.
    """

    def __init__(self, reason: str, at: int | None = None):
        super().__init__(reason)
        self.reason, self.at = reason, at


JoinKind = Literal["comma", "cross", "inner", "left", "right", "full", "semi", "anti"]


@dataclass(frozen=True, eq=False)
class Fragment:
    """A part of the text: an expression, if it is no more than that."""

    start: int
    end: int

    def has(self, other: Fragment | int) -> bool:
        """Whether the position, or the other part's beginning, is in it."""
        return self.start <= (other if isinstance(other, int) else other.start) < self.end

    def of(self, text: str) -> str:
        """The part of ``text``."""
        return text[self.start : self.end]


@dataclass(frozen=True, eq=False)
class Named(Fragment):
    """A leaf: what one position of a FROM tree reads. The span includes the alias.

    ``alias`` is the name that qualifies its columns, None for a derived table without one.
    ``columns`` are the names that the alias gives to the columns, empty if it gives none.
    """

    alias: str | None
    columns: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Relation(Named):
    """A relation by its name, as written; ``parts`` of it in lower case."""

    name: str
    parts: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Derived(Named):
    """A derived table, or a reference to a CTE: then ``reference`` is its name."""

    query: Query
    reference: str | None = None


@dataclass(frozen=True, eq=False)
class Constant(Named):
    """A table function (``function`` is its name) or VALUES (empty): reads no relation."""

    call: Fragment
    function: str


Leaf = Relation | Derived | Constant


@dataclass(frozen=True, eq=False)
class Nest(Fragment):
    """A part of a FROM tree in parentheses."""

    inner: Source


@dataclass(frozen=True, eq=False)
class Join(Fragment):
    """Two parts of a FROM tree. `right` is a comma's whole right neighbour."""

    kind: JoinKind
    left: Source
    right: Source
    natural: bool = False
    on: Fragment | None = None
    using: tuple[str, ...] = ()


Source = Relation | Derived | Constant | Nest | Join


@dataclass(frozen=True, eq=False)
class LateralView(Fragment):
    """LATERAL VIEW [OUTER] ``call`` ``alias`` AS ``columns``.

    With a ``join``, it is LATERAL ``call`` AS ``alias(columns)`` and the comma or JOIN before it;
    ``outer``: that is a LEFT JOIN. ``on``: its condition.
    """

    call: Fragment
    function: str
    outer: bool
    alias: str | None
    columns: tuple[str, ...]
    join: JoinKind | None = None
    on: Fragment | None = None

    @property
    def parts(self) -> tuple[Fragment, ...]:
        """Its expressions."""
        return (self.call,) if self.on is None else (self.call, self.on)


@dataclass(frozen=True, eq=False)
class Item(Fragment):
    """One entry of a select list.

    ``star``: the qualifier of a star, empty for a plain one, None for an expression. A name can be
    excepted from a star at ``star_at``; ``excepts``: it has a list of such names already.
    ``bare``: what is before the alias, if the last word is one.
    """

    star: tuple[str, ...] | None = None
    star_at: int = 0
    excepts: bool = False
    bare: Fragment | None = None


@dataclass(frozen=True, eq=False)
class Window(Fragment):
    """What is in the parentheses of OVER, or of an entry of a WINDOW clause.

    ``order``: the expressions alone. ``by_row``: its frame counts rows.
    """

    partition: tuple[Fragment, ...]
    order: tuple[Fragment, ...]
    by_row: bool


@dataclass(frozen=True, eq=False)
class Call(Fragment):
    """A call of an aggregate or window function, up to its closing parenthesis."""

    name: str
    arguments: tuple[Fragment, ...]
    window: Window | None


@dataclass(frozen=True, eq=False)
class Subquery(Fragment):
    """A query inside an expression, without its parentheses."""

    query: Query


@dataclass(frozen=True, eq=False)
class Block(Fragment):
    """One SELECT. ``hint``: the text between SELECT and its items.

    ``more`` are clauses beyond FROM and WHERE, by their first keyword; ``keys`` the expressions of
    GROUP BY, none for GROUP BY ALL; ``windows`` those in OVER, then those of WINDOW; ``calls`` the
    aggregates and window functions of items and HAVING; ``subqueries`` those of items, WHERE and
    HAVING, in this order, without those inside them. ``listed``: a text to select instead of the
    items, without a diff unless ``signed``.
    """

    hint: Fragment | None
    items: tuple[Item, ...]
    source: Source | None
    laterals: tuple[LateralView, ...]
    where: tuple[Fragment, ...]
    more: dict[str, Fragment]
    keys: tuple[Fragment, ...] = ()
    windows: tuple[Window, ...] = ()
    calls: tuple[Call, ...] = ()
    subqueries: tuple[Subquery, ...] = ()
    listed: str | None = None
    signed: bool = False


@dataclass(frozen=True, eq=False)
class SetOp(Fragment):
    """Two queries under UNION, EXCEPT (MINUS) or INTERSECT."""

    operator: str
    all: bool
    left: Query
    right: Query

    @property
    def compares_rows(self) -> bool:
        """Whether it is another set operator than UNION ALL."""
        return not (self.operator == "UNION" and self.all)


@dataclass(frozen=True, eq=False)
class Cte(Fragment):
    """An entry of a WITH clause."""

    name: str
    columns: tuple[str, ...]
    query: Query


@dataclass(frozen=True, eq=False)
class Query(Fragment):
    """WITH, a body, ORDER BY (``ordered``) and LIMIT or OFFSET (``limited``).

    The body is a `Query` where it is in parentheses; ``body_start`` is the first of these.
    """

    ctes: tuple[Cte, ...]
    body_start: int
    body: Block | SetOp | Query
    ordered: bool
    limited: Fragment | None


def leaves(source: Source | None) -> Iterator[Leaf]:
    """The leaves of a FROM tree, in the order of the text."""
    if isinstance(source, Join):
        yield from leaves(source.left)
        yield from leaves(source.right)
    elif isinstance(source, Nest):
        yield from leaves(source.inner)
    elif source is not None:
        yield source


def joins(source: Source | None) -> Iterator[Join]:
    """The joins of a FROM tree, the outermost first."""
    if isinstance(source, Join):
        yield source
        yield from joins(source.left)
        yield from joins(source.right)
    elif isinstance(source, Nest):
        yield from joins(source.inner)


def core(query: Query) -> tuple[Query, Block | SetOp]:
    """The query without parentheses around it, and its body."""
    while isinstance(query.body, Query):
        query = query.body
    return query, query.body


def bodies(query: Query) -> Iterator[Block | SetOp]:
    """The query's set operators, and the blocks that are their branches or the query itself."""
    _, body = core(query)
    yield body
    if isinstance(body, SetOp):
        yield from bodies(body.left)
        yield from bodies(body.right)


def blocks(query: Query) -> Iterator[Block]:
    """The blocks whose rows are the query's."""
    return (body for body in bodies(query) if isinstance(body, Block))


def every_query(query: Query) -> Iterator[Query]:
    """The query, its CTEs, derived tables and subqueries, each once."""
    yield query
    for below in _written_in(query):
        yield from every_query(below)


def _written_in(query: Query) -> Iterator[Query]:
    yield from (cte.query for cte in query.ctes)
    if isinstance(query.body, Query):
        yield query.body
    elif isinstance(query.body, SetOp):
        yield from (query.body.left, query.body.right)
    else:
        yield from (
            leaf.query
            for leaf in leaves(query.body.source)
            if isinstance(leaf, Derived) and leaf.reference is None
        )
        yield from (subquery.query for subquery in query.body.subqueries)


def every_block(query: Query) -> Iterator[Block]:
    """The blocks of `every_query`."""
    return (each.body for each in every_query(query) if isinstance(each.body, Block))


def places(query: Query) -> int:
    """In how many places it reads relations, those of a CTE once for each reference to it."""
    known: dict[Query, int] = {}

    def count(each: Query) -> int:
        if each not in known:
            known[each] = sum(
                sum(map(of_leaf, leaves(block.source)))
                + sum(count(below.query) for below in block.subqueries)
                for block in blocks(each)
            )
        return known[each]

    def of_leaf(leaf: Leaf) -> int:
        return count(leaf.query) if isinstance(leaf, Derived) else 1

    return count(query)
