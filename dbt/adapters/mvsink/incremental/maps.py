"""Maps in a query: which uses of them are the same for maps that are equal.

    select k, m, m['a'] as a from t where map_contains_key(m, 'b')    allowed
    select k, map_keys(m) as keys from t                              refused: their order
    select m, count(*) as n from t group by m                         refused: compares maps

Two maps are equal if they have equal entries, in any order: so the sink compares rows, and an
input's change has no row whose maps only changed their order. So a query may pass a map on as it
is, look up a key in it, and ask whether it is NULL. Any other expression could show the order, and
Spark itself compares no maps. The same holds for arrays and structs with maps in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from dbt.adapters.mvsink.engine import UnsupportedType, parse_type
from dbt.adapters.mvsink.engine.types import SparkType
from dbt.adapters.mvsink.incremental.keys import group_keys, merges
from dbt.adapters.mvsink.incremental.name_resolution import Names, item_columns, own_columns
from dbt.adapters.mvsink.user_sql.algebra import (
    Block,
    Derived,
    Fragment,
    Join,
    LateralView,
    Leaf,
    Query,
    Refused,
    Relation,
    SetOp,
    blocks,
    every_query,
    joins,
    leaves,
)

_EXISTS = re.compile(r"\bexists\s*\(\s*$", re.IGNORECASE)
Kinds = tuple[SparkType, ...]  # types with maps that a value may have; none if it has no map
Aliases = Mapping[str, Kinds]
_NO_ALIASES: Aliases = {}


@dataclass(frozen=True)
class Maps:
    """Refuses uses of maps that differ for equal maps. ``text`` is that of the whole query."""

    text: str
    names: Names
    _known: dict[tuple[int, str], Kinds] = field(default_factory=dict)

    def check(self, tree: Query) -> None:
        if not any(map(_kind, (kind for types in self.names.types.values() for kind in types))):
            return
        for query in every_query(tree):
            body = query.body
            if isinstance(body, SetOp) and body.compares_rows:
                self._check_shown(query, f"{body.operator} compares rows", body.start)
            if isinstance(body, Block):
                self._block(body)

    def _block(self, block: Block) -> None:
        aliases = self._items(block)
        if "DISTINCT" in block.more and any(self._shown(block)):
            raise Refused(f"DISTINCT compares rows{_COMPARED}", block.start)
        for part in (*block.where, *(part for view in block.laterals for part in view.parts)):
            self._part(block, part)
        if "GROUP" in block.more:
            for key in group_keys(block, self.names):
                self._refuse(block, key.node, key.part, _NO_ALIASES)
        if "HAVING" in block.more:
            self._part(block, block.more["HAVING"], aliases)
        for window in block.windows:
            for part in (*window.partition, *window.order):
                self._part(block, part, aliases)
        for join in joins(block.source):
            self._join(block, join)
        for subquery in block.subqueries:
            if not _EXISTS.search(self.text[: subquery.start]):
                self._check_shown(subquery.query, "a subquery gives a value", subquery.start)

    def _items(self, block: Block) -> Aliases:
        """Refuse items that do more than pass maps on; otherwise the maps that their aliases
        mean.
        """
        aliases: dict[str, Kinds] = {}
        for item in block.items:
            if item.star is None:
                node = self.names.nodes[item]
                self._refuse(block, node, item, aliases, node.unalias())
                _add(aliases, node.alias, self._passed(block, node, aliases))
        return aliases

    def _join(self, block: Block, join: Join) -> None:
        if join.on is not None:
            self._part(block, join.on)
        left, right = (set(self._with_maps(side)) for side in (join.left, join.right))
        merged = {name.lower() for name in join.using} & (left | right)
        if join.natural:
            every = [{name for leaf in leaves(side) for name in self.names.of_leaf(leaf)}
                     for side in (join.left, join.right)]  # fmt: skip
            merged |= {name for name in left | right if name in every[0] & every[1]}
        if merged:
            raise Refused(f"a join compares {', '.join(sorted(merged))}{_COMPARED}", join.right.start)

    def _with_maps(self, source: Join | Leaf | Fragment) -> Iterator[str]:
        for leaf in leaves(source):  # type: ignore[arg-type]
            yield from (name for name in self.names.of_leaf(leaf) if name and self._of(leaf, name))

    def _check_shown(self, query: Query, what: str, at: int) -> None:
        if any(any(self._shown(block)) for block in blocks(query)):
            raise Refused(f"{what}{_COMPARED}", at)

    def _part(self, block: Block, part: Fragment, aliases: Aliases = _NO_ALIASES) -> None:
        self._refuse(block, self.names.nodes[part], part, aliases)

    def _refuse(
        self, block: Block, node: exp.Expr, part: Fragment, aliases: Aliases, whole: exp.Expr | None = None
    ) -> None:
        """Refuse an expression in which a map is left, unless that is the ``whole`` of it."""
        for column, reached, _ in self._left(block, node, aliases):
            if whole is None or reached is not whole:
                name = ".".join(piece.name for piece in column.parts)
                raise Refused(
                    f"{name} is or contains a map, of which only a key may be read here, as in `{name}['key']`, "
                    "element_at, map_contains_key or IS NULL; a select list may also show the column itself",
                    part.start,
                )

    def _passed(self, block: Block, node: exp.Expr, aliases: Aliases) -> Kinds:
        """The types with maps that the item's value may have."""
        whole = node.unalias()
        return tuple(kind for _, reached, kind in self._left(block, node, aliases) if reached is whole)

    def _left(
        self, block: Block, node: exp.Expr, aliases: Aliases
    ) -> Iterator[tuple[exp.Column, exp.Expr | None, SparkType]]:
        """The columns with maps that the expression names; the largest expressions around them that
        only look keys up and still have maps, with the types of these.
        """
        for column in own_columns(node):
            for kind, path in self._meant(block, column, aliases):
                left = _looked_up(column, kind, path)
                if left is not None:
                    yield column, *left

    def _meant(
        self, block: Block, column: exp.Column, aliases: Aliases
    ) -> Iterator[tuple[SparkType, Sequence[str]]]:
        """The types with maps that a name may have, each with the fields that follow it."""
        path = [piece.name.lower() for piece in column.parts]
        yield from ((kind, path[1:]) for kind in aliases.get(path[0], ()))
        around: Block | None = block
        while around is not None:
            for owner, names in self.names.scope(around):
                for at, name in enumerate(path[:2]):
                    qualified = at == 0 or (owner.alias or "").lower() == path[0]
                    if qualified and name in names:
                        yield from ((kind, path[at + 1 :]) for kind in self._of(owner, name))
            around = self.names.outer.get(around)

    def _of(self, owner: Leaf | LateralView, name: str) -> Kinds:
        """The types with maps of a column."""
        key = id(owner), name
        if key not in self._known:
            self._known[key] = tuple(dict.fromkeys(self._kinds(owner, name)))
        return self._known[key]

    def _kinds(self, owner: Leaf | LateralView, name: str) -> Iterator[SparkType]:
        if not isinstance(owner, (Relation, Derived)):
            return
        names = self.names.of_leaf(owner)
        if isinstance(owner, Relation):
            types = self.names.types[owner.parts]
            yield from (kind for each, text in zip(names, types, strict=False) if each == name
                        if (kind := _kind(text)) is not None)  # fmt: skip
            return
        for block in blocks(owner.query):
            shown = self._shown(block)
            certain = len(shown) == len(names) and not merges(owner.query)
            for at, kinds in enumerate(shown):
                if not certain or names[at] == name:
                    yield from kinds

    def _shown(self, block: Block) -> list[Kinds]:
        """The types with maps of the block's columns."""
        shown: list[Kinds] = []
        aliases: dict[str, Kinds] = {}
        for item in block.items:
            if item.star is not None:
                shown += [self._of(owner, name or "") for owner, name in self.names.of_star(block, item)]
                continue
            node = self.names.nodes[item]
            passed = self._passed(block, node, aliases)
            shown += [passed] * len(item_columns(node))
            _add(aliases, node.alias, passed)
        return shown


_COMPARED = ", and maps cannot be compared: show keys of the map instead, as in `m['key'] as key`"


def _add(aliases: dict[str, Kinds], alias: str, kinds: Kinds) -> None:
    if alias and kinds:
        aliases[alias.lower()] = (*aliases.get(alias.lower(), ()), *kinds)


def _kind(text: str) -> SparkType | None:
    """The type, if it is or contains a map. Columns of unknown types are refused by `refuse`."""
    if "map<" not in text.lower():
        return None
    try:
        return parse_type(text, "")
    except UnsupportedType:
        return None


def _holds_map(kind: SparkType) -> bool:
    return kind.name == "map" or any(map(_holds_map, (*kind.inner, *(each.type for each in kind.fields))))


def _looked_up(
    column: exp.Column, kind: SparkType, path: Sequence[str]
) -> tuple[exp.Expr | None, SparkType] | None:
    """The largest expression around the column that only looks up keys, elements and fields, and
    its type; None if no map is left. No expression if it does not have a certain type.
    """
    for name in path:
        inside = _member(kind, name)
        if inside is None:
            return None, kind
        kind = inside
    node: exp.Expr = column
    while _holds_map(kind):
        around = node.parent
        if isinstance(around, exp.Is) and around.this is node and isinstance(around.expression, exp.Null):
            return None
        if isinstance(around, exp.MapContainsKey) and around.this is node and kind.name == "map":
            return None
        if isinstance(around, exp.Bracket) and around.this is node and kind.name in ("map", "array"):
            kind = kind.inner[-1]
        elif isinstance(around, exp.Dot) and around.this is node:
            inside = _member(kind, around.expression.name.lower())
            if inside is None:
                return None, kind
            kind = inside
        elif not isinstance(around, exp.Paren):
            return node, kind
        node = around
    return None


def _member(kind: SparkType, name: str) -> SparkType | None:
    """The type of what `.name` reads from a struct or a map; None if it reads something else."""
    if kind.name == "map":
        return kind.inner[1]
    return next((each.type for each in kind.fields if each.name.lower() == name), None)
