"""Which rows of a relation can matter to a change: those that an equality connects to the change of
another.

Equalities are the conjuncts `x = y` of WHERE and of inner joins, and those of other joins that
compare the two sides. In every term, a row whose column is connected with one of the changed leaf,
and equals no key of that change, joins with nothing that is kept. Where it is on the side of an
outer join that is filled with NULLs, the rows that get them are left out as well. A chain that
enters such a side by a join's condition does not leave it by the same: what did not match is not
equal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from dbt.adapters.mvsink.incremental.agree import conjuncts
from dbt.adapters.mvsink.incremental.algebra import (
    Block,
    Derived,
    Fragment,
    Join,
    LateralView,
    Leaf,
    Query,
    Relation,
    blocks,
    every_query,
    joins,
    leaves,
)
from dbt.adapters.mvsink.incremental.equalities import column_type, plain_column
from dbt.adapters.mvsink.incremental.keys import Kind, has_row_keys, kind_of
from dbt.adapters.mvsink.incremental.plan import Analysed
from dbt.adapters.mvsink.incremental.resolve import Names
from dbt.adapters.mvsink.incremental.terms import padded, scoping
from dbt.adapters.mvsink.user_sql.words import parts


@dataclass(frozen=True)
class Keys:
    """``column`` (of the restricted relation) must be a value of ``changed_column`` in the change
    of the relation ``changed``. Names are as in `Analysed.relations`; columns in lower case.
    """

    column: str
    changed: str
    changed_column: str


_Column = tuple[Leaf, str]
_Edge = tuple[_Column, _Column, Join | None]  # the join whose sides it compares, if not inner
_Changed = tuple[tuple[str, ...], str]  # a relation and a column of its change


def restrictions(
    analysed: Analysed, changed: Collection[str], clock: tuple[int, int] | None = None
) -> dict[str, tuple[Keys, ...] | None]:
    """For each relation the alternatives, of which a row must satisfy one to matter to the change
    of the query, old or new. None: every row may matter. Empty: no row does, only its change.

    ``changed``: the relations that did. ``clock``: as for `delta`; rows that enter or leave because
    time passes have no key.
    """
    followed = all(
        _followed(query.body) if isinstance(query.body, Block) else not has_row_keys(query)
        for query in every_query(analysed.tree)
    )
    if (clock is not None and analysed.marks) or not followed:
        return dict.fromkeys(analysed.relations)
    needs = _Needs(analysed.names, {parts(name) for name in changed})
    needs.terms(analysed.tree)
    spelled = {parts(name): name for name in analysed.relations}
    return {
        name: None if key in needs.whole else tuple(
            Keys(column, spelled[by], key_column) for column, (by, key_column) in sorted(needs.keys.get(key, ()))
        )
        for key, name in spelled.items()
    }  # fmt: skip


@dataclass
class _Needs:
    names: Names
    changed: Collection[tuple[str, ...]]
    keys: dict[tuple[str, ...], set[tuple[str, _Changed]]] = field(default_factory=dict)
    whole: set[tuple[str, ...]] = field(default_factory=set)

    def terms(self, query: Query) -> None:
        """What the terms of the query's change read."""
        for block in blocks(query):
            for position in filter(self._moves, leaves(block.source)):
                if isinstance(position, Derived):
                    self.terms(position.query)
                linear = block.source is not None and scoping(block.source, position) is None
                for leaf in leaves(block.source):
                    if not (leaf is position and linear):
                        self._connected(block, leaf, position)

    def _moves(self, leaf: Leaf) -> bool:
        if isinstance(leaf, Derived):
            return any(self._moves(each) for block in blocks(leaf.query) for each in leaves(block.source))
        return isinstance(leaf, Relation) and leaf.parts in self.changed

    def _connected(self, block: Block, leaf: Leaf, position: Leaf) -> None:
        """The leaf's rows that equalities connect to the position's change; all if none does."""
        for start in dict.fromkeys(c for edge in self._edges(block) for c in edge[:2] if c[0] is position):
            column = self._equal(block, start).get(leaf)
            if column is not None and (keys := self._keys_of(position, start[1])) is not None:
                self._need(leaf, column, keys)
                return
        self._need_all(leaf)

    def _keys_of(self, leaf: Leaf, column: str) -> set[_Changed] | None:
        """Columns of changes that hold every value of ``column`` in the leaf's change."""
        if isinstance(leaf, Relation):
            return {(leaf.parts, self._own_name(leaf, column))}
        assert isinstance(leaf, Derived)
        keys: set[_Changed] = set()
        for block, origin in self._origins(leaf, column):
            equal = {} if origin is None else self._equal(block, origin)
            for position in filter(self._moves, leaves(block.source)):
                below = self._keys_of(position, equal[position]) if position in equal else None
                if below is None:
                    return None
                keys |= below
        return keys

    def _need(self, leaf: Leaf, column: str, keys: set[_Changed]) -> None:
        if isinstance(leaf, Relation):
            self.keys.setdefault(leaf.parts, set()).update(
                (self._own_name(leaf, column), key) for key in keys
            )
        elif isinstance(leaf, Derived):
            for block, origin in self._origins(leaf, column):
                equal = {} if origin is None else self._equal(block, origin)
                for each in leaves(block.source):
                    if each in equal:
                        self._need(each, equal[each], keys)
                    else:
                        self._need_all(each)

    def _need_all(self, leaf: Leaf) -> None:
        if isinstance(leaf, Relation):
            self.whole.add(leaf.parts)
        elif isinstance(leaf, Derived):
            for block in blocks(leaf.query):
                for each in leaves(block.source):
                    self._need_all(each)

    def _own_name(self, leaf: Relation, column: str) -> str:
        """The relation's own name for a column that its alias may rename."""
        return self.names.relations[leaf.parts][self.names.of_leaf(leaf).index(column)]

    def _origins(self, leaf: Derived, column: str) -> Iterator[tuple[Block, _Column | None]]:
        """Per branch of the leaf's query the column of a leaf that the column is, if it is one."""
        at = self.names.of_leaf(leaf).index(column)
        merged = any(
            item.star is not None and any(join.using or join.natural for join in joins(block.source))
            for block in blocks(leaf.query)
            for item in block.items
        )
        for block in blocks(leaf.query):
            yield block, None if merged else self._outputs(block)[at]

    def _outputs(self, block: Block) -> list[_Column | None]:
        outputs: list[_Column | None] = []
        for item in block.items:
            if item.star is None:
                outputs.append(plain_column(block, self.names, self.names.nodes[item].unalias()))
                continue
            for owner, name in self.names.of_star(block, item):
                outputs.append(None if isinstance(owner, LateralView) or name is None else (owner, name))
        return outputs

    def _equal(self, block: Block, start: _Column) -> dict[Leaf, str]:
        """A column of each leaf that is connected with ``start``."""
        edges = [*self._edges(block)]
        edges += [(other, one, join) for one, other, join in edges]
        reached, left = {start[0]: start[1]}, [(start, frozenset[Join]())]
        observed = set(left)
        while left:
            column, entered = left.pop()
            for one, other, join in edges:
                if one != column:
                    continue
                enters = join is not None and any(each is other[0] for each in leaves(padded(join)))
                if join is not None and not enters and join in entered:
                    continue
                state = other, entered | {join} if enters and join else entered
                if state not in observed:
                    observed.add(state)
                    left.append(state)
                    reached.setdefault(other[0], other[1])
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


def _followed(block: Block) -> bool:
    """Whether it is known here which of its leaves' rows matter."""
    full = any(join.kind == "full" for join in joins(block.source))
    return kind_of(block) is Kind.PLAIN and not full and not block.subqueries


def _crosses(join: Join, *sides: Leaf) -> bool:
    in_left = [any(each is leaf for each in leaves(join.left)) for leaf in sides]
    return sorted(in_left) == [False, True]
