"""Which of a model's rows a correction replaces. This is decided once, before anything is read.
Both what is written (`blocks`: new rows for some keys) and what is read for it (`restrict`: the
rows of one of these keys) follow from it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlglot import exp

from dbt.adapters.mvsink.incremental.compose import Writer
from dbt.adapters.mvsink.incremental.keys import (
    Key,
    KeyKind,
    canonical,
    column_of,
    has_row_keys,
    keys_of,
    kind_of,
    merges,
    outputs,
    row_names,
)
from dbt.adapters.mvsink.incremental.lineage import can_be_compared, plain_column
from dbt.adapters.mvsink.incremental.name_resolution import Names, item_columns
from dbt.adapters.mvsink.incremental.repeatable import Repeatable
from dbt.adapters.mvsink.user_sql.algebra import Block, Derived, Query, SetOp, core


@dataclass(frozen=True)
class Replaced:
    """The rows that share keys with rows that may differ. ``query`` is the query with the keys: the
    model's query, or a derived table that all blocks around it just read.

    For each key, ``columns`` has its position among the model's columns and ``places`` its position
    among the columns of ``query``. ``keys`` has its expression, if ``query`` is a block that
    groups, has windows or joins. Without keys every row is replaced.
    """

    query: Query
    columns: tuple[int, ...] = ()
    places: tuple[int, ...] = ()
    keys: tuple[Key, ...] = ()

    def only(self, key: Key) -> Replaced:
        """A larger set of rows: all that share this one key."""
        at = self.keys.index(key)
        return Replaced(self.query, self.columns[at : at + 1], self.places[at : at + 1], (key,))


def keyed(writer: Writer, block: Block, names: Names) -> tuple[Key, ...]:
    """The keys of the block's rows that may differ; none if every row may."""
    if kind_of(block) is not KeyKind.KEYED or writer.values_move(block):
        return ()
    return keys_of(block, names)


@dataclass(frozen=True)
class Replacing:
    """Finds the replaced rows. ``text`` is that of the whole query; ``writer`` knows what
    changed.
    """

    text: str
    names: Names
    writer: Writer

    def rows(self, query: Query) -> Replaced | None:
        """The rows that a correction of ``query`` replaces; None if the model shows no key of what
        changed.
        """
        if merges(query):
            return None
        names = self.names.of_query(query)
        unique = [at for at, name in enumerate(names) if name is not None and names.count(name) == 1]
        return self._of(query, {at: at for at in unique})

    def _of(self, query: Query, shown: dict[int, int]) -> Replaced | None:
        """The same for an inner query. ``shown`` maps the positions in ``query`` of columns that
        may be keys to their positions in the model.
        """
        query, body = core(query)
        if has_row_keys(body):
            return self._of_rows(query, shown)
        if isinstance(body, SetOp):
            return None
        kind = kind_of(body)
        if kind is KeyKind.PLAIN and isinstance(body.source, Derived) and not body.laterals:
            return self._below(body, shown)
        if kind is KeyKind.PLAIN:
            return self._of_join(query, body, shown)
        if not (keys := keyed(self.writer, body, self.names)):
            return Replaced(query)
        columns = [tree for _, tree in outputs(body, self.names)]
        at_of = {tree: at for at, tree in enumerate(columns) if at in shown}
        trees = [(key, canonical(body, self.names, key.node)) for key in keys]
        places = {key: at_of[tree] for key, tree in trees if tree in at_of}
        return _replaced(query, shown, [*places.values()], tuple(places))

    def _of_rows(self, query: Query, shown: dict[int, int]) -> Replaced | None:
        causes = Repeatable(self.text, self.names).kernel(query)
        every = range(len(row_names(query, self.names)))
        return _replaced(query, shown, [at for at in every if at in shown and causes[at] is None])

    def _of_join(self, query: Query, block: Block, shown: dict[int, int]) -> Replaced | None:
        """The rows of a join of which some values cannot be repeated: those that are equal in the
        other columns that the model shows. Other joins are maintained row by row.
        """
        causes = Repeatable(self.text, self.names).kernel(query)
        if not any(causes) or self.writer.values_move(block):
            return None
        keys: list[Key] = []
        places: list[int] = []
        at = 0
        for item in block.items:
            node = self.names.nodes[item]
            part = item.bare if isinstance(node, exp.Alias) else item
            if item.star is not None:
                at += len(self.names.of_star(block, item))
                continue
            column = plain_column(block, self.names, node.unalias())
            compared = column is not None and can_be_compared(self.names, column)
            if compared and at in shown and causes[at] is None and part is not None:
                keys.append(Key(part, node.unalias()))
                places.append(at)
            at += len(item_columns(node))
        return _replaced(query, shown, places, tuple(keys))

    def _below(self, block: Block, shown: dict[int, int]) -> Replaced | None:
        """The same for the one derived table that the block reads, if the block just shows it."""
        leaf = block.source
        moves = self.writer.values_move(block) or any(
            self.writer.conjunct_moves(block, conjunct) for conjunct in block.where
        )
        if not isinstance(leaf, Derived) or moves or merges(leaf.query):
            return None
        above = {tree: shown[at] for at, (_, tree) in enumerate(outputs(block, self.names)) if at in shown}
        below = [column_of(0, name) for name in self.names.of_leaf(leaf)]
        return self._of(leaf.query, {at: above[tree] for at, tree in enumerate(below) if tree in above})


def _replaced(
    query: Query, shown: dict[int, int], places: Collection[int], keys: tuple[Key, ...] = ()
) -> Replaced | None:
    """None without a key: then the shard's rows do not show which of them are meant."""
    columns = tuple(shown[at] for at in places)
    return Replaced(query, columns, tuple(places), keys) if columns else None
