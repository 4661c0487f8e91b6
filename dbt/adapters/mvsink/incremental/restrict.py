"""Which rows of a relation can matter to a change: those that an equality connects to the change of
another relation.

Equalities are the conjuncts `x = y` of WHERE and of inner joins, and those conjuncts of other joins
that compare the two sides. Suppose that equalities connect a column of a row with a column of the
changed leaf. If the row's value is not in the change, the row joins with nothing that is kept, in
any term. If the row is on the side of an outer join that is filled with NULLs, the rows that get
these NULLs are omitted as well.

Such a side needs care. A chain of equalities that enters it by a join's condition must not leave it
by the same condition, because rows without a match are not equal. A chain that begins there, at a
change, must leave by the join's condition before it may reach other leaves of that side: whether a
row has a match depends on all rows of the side that it could match, not only on the changed rows
and those connected with them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlglot import exp

from dbt.adapters.mvsink.incremental.change_plan import Analysed
from dbt.adapters.mvsink.incremental.keys import KeyKind, kind_of
from dbt.adapters.mvsink.incremental.lineage import (
    Column,
    column_type,
    key_columns,
    origins,
    origins_in,
    own_name,
    plain_column,
)
from dbt.adapters.mvsink.incremental.name_resolution import Names
from dbt.adapters.mvsink.incremental.replaced import Replaced
from dbt.adapters.mvsink.incremental.terms import decides, deciding, nullable, scoping
from dbt.adapters.mvsink.user_sql.algebra import (
    Block,
    Derived,
    Fragment,
    Join,
    Leaf,
    Query,
    Relation,
    SetOp,
    blocks,
    core,
    every_block,
    joins,
    leaves,
)
from dbt.adapters.mvsink.user_sql.trees import conjuncts


@dataclass(frozen=True)
class Keys:
    """A condition on rows of a relation: ``column`` must be a value of ``changed_column`` in the
    change of the relation ``changed``, or, if ``nulls``, NULL. Names are as in
    `Analysed.relations`; columns are in lower case. If ``reached``, the values are not those in the
    change of ``changed`` but those in its rows, new or old, that satisfy one of its own keys (of
    those that are not ``reached``).
    """

    column: str
    changed: str
    changed_column: str
    nulls: bool = False
    reached: bool = False


class Changed(NamedTuple):
    """A relation and a column of its change, or of its rows that another relation's change
    reaches.
    """

    relation: tuple[str, ...]
    column: str
    reached: bool = False


_Edge = tuple[Column, Column, Join | None]  # the join whose sides it compares, if not inner


def followed(analysed: Analysed, clock: tuple[int, int] | None) -> bool:
    """Whether this module can say which rows of the query's relations matter."""
    return (clock is None or not analysed.marks) and not any(
        block.subqueries or any(join.kind == "full" for join in joins(block.source))
        for block in every_block(analysed.tree)
    )


@dataclass
class Needs:
    """What the terms of a change read. ``changed`` are the relations that changed. ``replaced`` are
    the rows of the model that are evaluated again; None if only rows that differ are.
    """

    names: Names
    changed: Collection[tuple[str, ...]]
    replaced: Replaced | None
    keys: dict[tuple[str, ...], dict[tuple[str, Changed], bool]] = field(default_factory=dict)
    whole: set[tuple[str, ...]] = field(default_factory=set)

    def of(
        self, relation: tuple[str, ...], spelled: Mapping[tuple[str, ...], str], nulls: bool
    ) -> tuple[Keys, ...] | None:
        keys = self.keys.get(relation, {})
        if relation in self.whole or (any(keys.values()) and not nulls):
            return None
        return tuple(
            Keys(column, spelled[by.relation], by.column, keys[column, by], by.reached)
            for column, by in sorted(keys)
        )

    def terms(self, query: Query, *, added: bool = False) -> None:
        """Note what the terms of the query's change read."""
        query, body = core(query)
        if isinstance(body, SetOp):
            self.terms(body.left)
            self.terms(body.right)
            if body.compares_rows and any(map(self.moving, blocks(query))):
                self._in_rows(query)
        else:
            self._of_source(body)
            if not added and self._is_evaluated(body) and self.moving(body):
                self._in_keys(body)

    def _is_evaluated(self, block: Block) -> bool:
        """Whether the block is evaluated over its keys: one of rows only if these are replaced."""
        replaced = self.replaced is not None and self.replaced.query.body is block
        return kind_of(block) is not KeyKind.PLAIN or replaced

    def _of_source(self, block: Block) -> None:
        """Note what the terms of the block's source read."""
        for position in self.moving(block):
            if isinstance(position, Derived):
                self.terms(position.query)
            linear = block.source is not None and scoping(block.source, position) is None
            for leaf in leaves(block.source):
                if leaf is position and linear:
                    continue
                column, keys = self._connected(block, leaf, position)
                if not keys and linear:
                    column, keys = self._beside(block, leaf, position)
                if keys:
                    self._need(leaf, column, keys, nulls=False)
                else:
                    self._need_all(leaf)

    def _in_keys(self, block: Block) -> None:
        """The block is evaluated over the rows of its keys; one known key is enough to restrict
        it.
        """
        column, values = self.known_key(block) or (None, set())
        self._restrict(block, column, values, nulls=True)

    def known_key(self, block: Block) -> tuple[Column, set[Changed]] | None:
        """The first key whose values, except NULL, are known for all rows of the source that may
        differ, and the columns of changes that hold these values.
        """
        for key in self._keys(block):
            if key is not None and self._has_values(block, key):
                values = self._values(block, key)
                if values is not None:
                    return key, values
        return None

    def _keys(self, block: Block) -> list[Column | None]:
        """The columns that are keys of the block; if its rows are the replaced ones, only keys of
        these.
        """
        chosen = None if self.replaced is None or self.replaced.query.body is not block else self.replaced
        if kind_of(block) is KeyKind.DISTINCT:
            shown = origins_in(self.names, block)
            return shown if chosen is None else [shown[at] for at in chosen.places]
        if chosen is None:
            return [*(key_columns(self.names, block) or [])]
        return [plain_column(block, self.names, key.node) for key in chosen.keys]

    def _has_values(self, block: Block, column: Column) -> bool:
        """Whether the column has only values of its leaf (no NULLs from an outer join) and a known
        type.
        """
        return not nullable(block, column[0]) and column_type(self.names, *column) is not None

    def _in_rows(self, query: Query) -> None:
        """A set operator is evaluated over whole rows; one known column is enough to restrict
        it.
        """
        branches = [(block, origins_in(self.names, block)) for block in blocks(query)]
        every: Iterable[int] = range(min(len(outputs) for _, outputs in branches))
        if self.replaced is not None and self.replaced.query is query:
            every = self.replaced.places
        for at in every:
            values = self._values_at(at, branches)
            if values is not None:
                for block, outputs in branches:
                    self._restrict(block, outputs[at], values, nulls=True)
                return
        for block, _ in branches:
            self._restrict(block, None, set(), nulls=True)

    def _values_at(
        self, at: int, branches: Sequence[tuple[Block, list[Column | None]]]
    ) -> set[Changed] | None:
        values: set[Changed] = set()
        types = set()
        for block, outputs in branches:
            origin = outputs[at]
            if origin is None or not self._has_values(block, origin):
                return None
            types.add(column_type(self.names, *origin))
            more = self._values(block, origin)
            if more is None or len(types) > 1:
                return None
            values |= more
        return values

    def moving(self, block: Block) -> list[Leaf]:
        """The leaves whose rows may differ."""
        return [*filter(self._moves, leaves(block.source))]

    def _moves(self, leaf: Leaf) -> bool:
        if isinstance(leaf, Derived):
            return any(map(self.moving, blocks(leaf.query)))
        return isinstance(leaf, Relation) and leaf.parts in self.changed

    def _connected(self, block: Block, leaf: Leaf, position: Leaf) -> tuple[str, set[Changed]]:
        """A column of the leaf that equalities connect to the position's change, and its keys
        there; no keys if there is no such column.
        """
        for start in dict.fromkeys(c for edge in self._edges(block) for c in edge[:2] if c[0] is position):
            column = self._equal(block, start, changed=True).get(leaf)
            if column is not None and (keys := self._keys_of(position, start[1])) is not None:
                return column, keys
        return "", set()

    def _beside(self, block: Block, leaf: Leaf, position: Leaf) -> tuple[str, set[Changed]]:
        """The same, by way of the rows of a relation between the two. Every row of the joined
        source has a row of that relation, and the leaf's rows only decide whether there is a match.
        So in a linear term, the leaf's other rows make no difference.
        """
        edges = [*self._edges(block)]
        edges += [(other, one, join) for one, other, join in edges]
        # a relation that changes is one of facts, and few of its rows are reached
        for one, other, join in sorted(edges, key=lambda edge: not self._moves(edge[0][0])):
            between = one[0]
            if (
                other[0] is leaf
                and isinstance(between, Relation)
                and between is not position
                and not [*deciding(block, between)]
                and [*deciding(block, leaf)] == ([] if join is None else [join])
                and self._connected(block, between, position)[1]
            ):
                return other[1], {Changed(between.parts, own_name(self.names, between, one[1]), reached=True)}
        return "", set()

    def _keys_of(self, leaf: Leaf, column: str) -> set[Changed] | None:
        """Columns of changes that hold every value of ``column`` in the leaf's change."""
        if isinstance(leaf, Relation):
            return {Changed(leaf.parts, own_name(self.names, leaf, column))}
        assert isinstance(leaf, Derived)
        keys: set[Changed] = set()
        for block, origin in origins(self.names, leaf, column):
            below = self._values(block, origin)
            if below is None:
                return None
            keys |= below
        return keys

    def _values(self, block: Block, column: Column | None) -> set[Changed] | None:
        """Columns of changes that hold the column's values, except NULL, in the block's change."""
        equal = {} if column is None else self._equal(block, column)
        keys: set[Changed] = set()
        for position in self.moving(block):
            below = self._keys_of(position, equal[position]) if position in equal else None
            if below is None:
                return None
            keys |= below
        return keys

    def _need(self, leaf: Leaf, column: str, keys: set[Changed], nulls: bool) -> None:
        if isinstance(leaf, Relation):
            needs = self.keys.setdefault(leaf.parts, {})
            for key in keys:
                each = (own_name(self.names, leaf, column), key)
                needs[each] = nulls or needs.get(each, False)
        elif isinstance(leaf, Derived):
            for block, origin in origins(self.names, leaf, column):
                self._restrict(block, origin, keys, nulls)

    def _restrict(self, block: Block, column: Column | None, keys: set[Changed], nulls: bool) -> None:
        """Note that only the block's rows with these keys are read. NULLs may also come from an
        outer join.
        """
        followed = column is not None and not (nulls and nullable(block, column[0]))
        equal = self._equal(block, column) if column is not None and followed else {}
        for leaf in leaves(block.source):
            if leaf in equal:
                self._need(leaf, equal[leaf], keys, nulls)
            else:
                self._need_all(leaf)

    def _need_all(self, leaf: Leaf) -> None:
        if isinstance(leaf, Relation):
            self.whole.add(leaf.parts)
        elif isinstance(leaf, Derived):
            for block in blocks(leaf.query):
                for each in leaves(block.source):
                    self._need_all(each)

    def _equal(self, block: Block, start: Column, *, changed: bool = False) -> dict[Leaf, str]:
        """A column of each leaf that is connected with ``start``; with ``changed``, with its
        change.
        """
        edges = [*self._edges(block)]
        edges += [(other, one, join) for one, other, join in edges]
        reached: dict[Leaf, str] = {}
        within: frozenset[Join | None] = frozenset(deciding(block, start[0]) if changed else ())
        left = [(start, frozenset[Join](), within)]
        observed = set(left)
        while left:
            column, entered, within = left.pop()
            if within.isdisjoint(deciding(block, column[0])):
                reached.setdefault(*column)
            for one, other, join in edges:
                if one != column:
                    continue
                enters = join is not None and decides(join, other[0])
                if join is not None and not enters and join in entered:
                    continue
                state = (
                    other,
                    entered | {join} if enters and join else entered,
                    within if enters else within - {join},
                )
                if state not in observed:
                    observed.add(state)
                    left.append(state)
        return reached

    def _edges(self, block: Block) -> Iterator[_Edge]:
        for conjunct in block.where:
            yield from self._equalities(block, conjunct, None)
        for join in joins(block.source):
            if join.on is not None:
                yield from self._equalities(block, join.on, None if join.kind == "inner" else join)

    def _equalities(self, block: Block, condition: Fragment, join: Join | None) -> Iterator[_Edge]:
        for node in conjuncts(self.names.nodes[condition]):
            if isinstance(node, exp.EQ):
                one, other = (plain_column(block, self.names, side) for side in (node.left, node.right))
                crosses = one and other and (join is None or _crosses(join, one[0], other[0]))
                if (
                    one
                    and other
                    and crosses
                    and column_type(self.names, *one) == column_type(self.names, *other) is not None
                ):
                    yield one, other, join


def _crosses(join: Join, *sides: Leaf) -> bool:
    in_left = [leaf in leaves(join.left) for leaf in sides]
    return sorted(in_left) == [False, True]
