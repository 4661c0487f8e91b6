"""Cuts pieces out of the user's text, with leaves and times replaced; nothing is rendered again.

A *reading* says what each leaf reads: the old contents, the new ones, or the change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.incremental.keys import ungrouped_items
from dbt.adapters.mvsink.incremental.name_resolution import Names
from dbt.adapters.mvsink.physical import DIFF
from dbt.adapters.mvsink.user_sql.algebra import (
    Block,
    Constant,
    Derived,
    Fragment,
    Join,
    Leaf,
    Nest,
    Query,
    Relation,
    SetOp,
    Source,
    Subquery,
    blocks,
    leaves,
)
from dbt.adapters.mvsink.user_sql.splice import Edit, spliced
from dbt.adapters.mvsink.user_sql.tokens import Tokens


class Side(Enum):
    OLD = "old"
    NEW = "new"
    CHANGE = "change"


@dataclass(frozen=True)
class Sides:
    """What a relation is read as: the texts of SELECTs.

    ``new`` and ``old`` give all of the relation's columns, in its order and with its types.
    ``change`` gives these and then `_mv_diff` (BIGINT): new less old, consolidated or not. A column
    that the query does not use may hold anything. Without ``change`` the relation did not change:
    ``new`` and ``old`` hold the same rows.
    """

    new: str
    old: str
    change: str | None = None

    def at(self, side: Side) -> str:
        text = {Side.NEW: self.new, Side.OLD: self.old, Side.CHANGE: self.change}[side]
        assert text is not None
        return text


@dataclass(frozen=True)
class Rewriting:
    """``edits`` of a text that give an equivalent query, which has a rule for the part at ``[start,
    end)``. Lines keep their numbers unless there are comments.
    """

    start: int
    end: int
    edits: tuple[Edit, ...]


def new_alias(tokens: Tokens, names: Names) -> str:
    """A prefix for aliases that occurs neither in a text nor in the columns that it reads."""
    taken = {word.text.lower() for word in tokens.words if word.is_name}
    taken |= {column for columns in names.relations.values() for column in columns}
    stem = "u_"
    while any(name.startswith(stem) for name in taken):
        stem += "_"
    return stem


@dataclass(frozen=True)
class Clock:
    """The times (ms) that `mv_now()` was (``old``) and is (``new``)."""

    old: int
    new: int

    def at(self, side: Side) -> int:
        return self.old if side is Side.OLD else self.new


Marks = tuple[tuple[int, int], ...]
Reading = Callable[[Leaf], Side]
# (semi or anti, relation), in order; of a full join (full, relation and ON) for its left and right;
# of a NATURAL one the relation and USING
Scope = list[tuple[Literal["semi", "anti", "full"], str]]
Scopes = Mapping[Join, Scope]


@dataclass(frozen=True)
class Writer:
    """Writes the text of a query's parts.

    ``marks`` are the places of `mv_now()`. ``sides`` are by `Relation.parts`. ``clock`` is None if
    `mv_now()` stays as it is. ``change_of`` gives the text of a query's change. ``subqueries`` are
    all subqueries in expressions.
    """

    text: str
    marks: Marks
    sides: Mapping[tuple[str, ...], Sides]
    clock: Clock | None
    change_of: Callable[[Query], str]
    subqueries: tuple[Subquery, ...] = ()

    def cut(self, part: Fragment, time: Side, edits: Iterable[Edit] = ()) -> str:
        """The part's text with ``edits`` (at positions of the whole text), and with `mv_now()` and
        what its subqueries read as of the side ``time``.
        """
        edits = [*edits]
        for subquery in self.subqueries:
            replaced = any(low <= subquery.start < high for low, high, _ in edits)
            if part.has(subquery) and not replaced:
                edits += self._without_with(subquery.query) + self._leaf_edits(subquery.query, time)
        edits += self._times(part, time, edits)
        inside = [(start - part.start, end - part.start, new) for start, end, new in edits]
        return spliced(part.of(self.text), inside)

    def _times(self, part: Fragment, time: Side, edits: Iterable[Edit]) -> Iterable[Edit]:
        if self.clock is None:
            return
        for start, end in self.marks:
            replaced = any(low <= start < high for low, high, _ in edits)
            if part.start <= start and end <= part.end and not replaced:
                yield start, end, f"timestamp_millis({self.clock.at(time)}L)"

    def timed(self, part: Fragment) -> bool:
        """Whether the part's value changes with time."""
        return self.clock is not None and any(part.has(start) for start, _ in self.marks)

    def moves(self, query: Query) -> bool:
        """Whether the query may return other rows than before."""
        return any(
            self.timed(block)
            or any(map(self.leaf_moves, leaves(block.source)))
            or any(self.moves(subquery.query) for subquery in block.subqueries)
            for block in blocks(query)
        )

    def conjunct_moves(self, block: Block, conjunct: Fragment) -> bool:
        """Whether the conjunct may have another value than before for the same row."""
        return self.timed(conjunct) or any(
            conjunct.has(subquery) and self.moves(subquery.query) for subquery in block.subqueries
        )

    def values_move(self, block: Block) -> bool:
        """Whether a subquery of the select list or HAVING may have another result than before."""
        return any(
            self.moves(subquery.query)
            for subquery in block.subqueries
            if not any(conjunct.has(subquery) for conjunct in block.where)
        )

    def leaf_moves(self, leaf: Leaf) -> bool:
        if isinstance(leaf, Derived):
            return self.moves(leaf.query)
        return (
            isinstance(leaf, Relation)
            and leaf.parts in self.sides
            and self.sides[leaf.parts].change is not None
        )

    def contents(self, query: Query, side: Side) -> str:
        """The query as of a side, OLD or NEW, without its WITH: references to CTEs are inlined."""
        edits = self._leaf_edits(query, side)
        return self.cut(query.body, side, edits)

    def _leaf_edits(self, query: Query, side: Side) -> list[Edit]:
        body = query.body
        if isinstance(body, Query):
            return [*self._without_with(body), *self._leaf_edits(body, side)]
        if isinstance(body, SetOp):
            return [*self._leaf_edits(body.left, side), *self._leaf_edits(body.right, side)]
        return [(leaf.start, leaf.end, self.leaf(leaf, side)) for leaf in leaves(body.source)]

    def _without_with(self, query: Query) -> list[Edit]:
        return [(query.start, query.body_start, "")] if query.ctes else []

    def leaf(self, leaf: Leaf, side: Side) -> str:
        """The leaf as of a side; with `CHANGE` it has the column `_mv_diff`."""
        if isinstance(leaf, Derived):
            query = self.change_of(leaf.query) if side is Side.CHANGE else self.contents(leaf.query, side)
        elif isinstance(leaf, Relation) and leaf.parts in self.sides:
            query = self.sides[leaf.parts].at(side)
        elif isinstance(leaf, Constant) and not leaf.function:  # not every parser reads `(VALUES ... JOIN`
            query = f"select * from {self.cut(leaf, side)}"
        else:
            return self.cut(leaf, side)
        return self.aliased(leaf, query, side is Side.CHANGE)

    def aliased(self, leaf: Leaf, query: str, change: bool = False) -> str:
        """The leaf with ``query`` in its place, which has its columns and, if it is a ``change``,
        `_mv_diff`.
        """
        alias = "" if leaf.alias is None else f" as {sql.identifier(leaf.alias)}"
        columns = [*leaf.columns, DIFF] if change and leaf.columns else [*leaf.columns]
        return f"(\n{query}\n){alias}" + (f"({sql.columns(columns)})" if columns else "")

    def primary(self, source: Source, reading: Reading, scopes: Scopes) -> str:
        """`source`, written as one relation of another FROM tree."""
        text = self.source(source, reading, scopes, nested=True)
        return f"({text})" if isinstance(source, Join) else text

    def source(self, source: Source, reading: Reading, scopes: Scopes, *, nested: bool = False) -> str:
        """The text of a FROM tree. ``scopes`` restrict the preserved side of an outer, semi or anti
        join, and both sides of a full one. ``nested`` means inside parentheses, where Spark does
        not accept a comma.
        """
        if isinstance(source, Nest):
            return f"({self.source(source.inner, reading, scopes, nested=True)})"
        if not isinstance(source, Join):
            return self.leaf(source, reading(source))
        left, right = (
            self.source(side, reading, scopes, nested=nested) for side in (source.left, source.right)
        )
        joined = self.text[source.left.end : source.right.start]
        if source.kind == "comma" and nested:
            joined = "\ncross join "
        criteria = self.cut(Fragment(source.right.end, source.end), Side.NEW)
        if source.kind == "full" and source in scopes:
            (_, of_left), (_, of_right) = scopes[source]
            right = f"({right}\nleft semi join {of_right}\n)"
            return f"{left}\nleft semi join {of_left}\n{joined}{right}{criteria}"
        scope = "".join(
            f"\nleft {kind} join {relation}{criteria}\n" for kind, relation in scopes.get(source, ())
        )
        if scope and source.kind == "right":
            return f"{left}{joined}({right}{scope}){criteria}"
        return f"{left}{scope}{joined}{right}{criteria}"

    def select(
        self,
        block: Block,
        reading: Reading,
        diff: str | None,
        conditions: Iterable[str],
        scopes: Scopes,
        listed: Side = Side.NEW,
    ) -> str:
        """The block with ``diff`` as its last column and ``conditions`` as its WHERE, but without
        the clauses after WHERE. ``listed`` is the side of subqueries in the select list.
        """
        source = None if block.source is None else self.source(block.source, reading, scopes)
        changing = {leaf for leaf in leaves(block.source) if reading(leaf) is Side.CHANGE}
        return self.over(block, source, diff, conditions, changing, listed)

    def over(
        self,
        block: Block,
        source: str | None,
        diff: str | None,
        conditions: Iterable[str],
        changing: Collection[Leaf] = (),
        listed: Side = Side.NEW,
    ) -> str:
        """The same over the FROM tree with the text ``source``."""
        hint = "" if block.hint is None else f" {block.hint.of(self.text)}"
        text = f"select{hint} {block.listed or self._items(block, changing, listed)}"
        if diff is not None and (block.listed is None or block.signed):
            text += f",\n{diff} as {DIFF}"
        text += "" if source is None else f"\nfrom {source}"
        text += "".join(f"\n{self.cut(view, Side.NEW)}" for view in block.laterals)
        where = "\nand ".join(f"(\n{condition}\n)" for condition in conditions)
        return text + (f"\nwhere {where}" if where else "")

    def behind_where(self, block: Block, side: Side) -> str:
        """GROUP BY, HAVING and WINDOW."""
        clauses = sorted(
            (part.start, name) for name, part in block.more.items() if name in ("GROUP", "HAVING", "WINDOW")
        )
        texts = {name: self.cut(block.more[name], side) for _, name in clauses}
        if "GROUP" in texts and not block.keys:  # ALL would be by `_mv_diff` too
            texts["GROUP"] = f"by {', '.join(str(number + 1) for number in ungrouped_items(block))}"
        return "".join(f"\n{name.lower()} {text}" for name, text in texts.items())

    def _items(self, block: Block, changing: Collection[Leaf], side: Side) -> str:
        """The select list; a star leaves out the `_mv_diff` of the one leaf that has it."""
        first, last = block.items[0], block.items[-1]
        names = {leaf.alias.lower() for leaf in changing if leaf.alias is not None}
        edits = []
        for item in block.items:
            if item.star is not None and changing and (not item.star or item.star[-1] in names):
                edits.append(
                    (item.star_at, item.star_at, f", {DIFF}" if item.excepts else f" except ({DIFF})")
                )
        return self.cut(Fragment(first.start, last.end), side, edits)
