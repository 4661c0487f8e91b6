"""The changes of queries: of blocks by their kind, and of set operators.

A block that groups or has windows gives *scoped* pairs: the block new less the block old, both over
those rows only whose keys are among `K`, the keys of whatever may differ. DISTINCT and the set
operators other than UNION ALL have whole rows as keys, which are compared behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.incremental.algebra import Block, Derived, Query, SetOp, every_query
from dbt.adapters.mvsink.incremental.compose import Clock, Marks, Side, Sides, Writer
from dbt.adapters.mvsink.incremental.equalities import Column, plain_column
from dbt.adapters.mvsink.incremental.keys import (
    Key,
    Kind,
    canonical,
    column_of,
    compares_rows,
    has_row_keys,
    key_names,
    keys_of,
    kind_of,
    merges,
    outputs,
    row_names,
)
from dbt.adapters.mvsink.incremental.repeatable import Repeatable
from dbt.adapters.mvsink.incremental.resolve import Names
from dbt.adapters.mvsink.incremental.terms import MINUS, NONE, NOTHING, PLUS, Terms
from dbt.adapters.mvsink.physical import DIFF

_SIDES = ((Side.NEW, PLUS), (Side.OLD, MINUS))


@dataclass(frozen=True)
class Scoped:
    """New rows for those of the shard that a scope holds: what to add is ``new`` less the shard's
    rows in scope.

    ``new`` gives the model's columns, under their names and with their types. ``keys`` is a query
    of `_mv_k0`, `_mv_k1`, ..., distinct, NULLs among them; a row is in scope if for one of its rows
    every `_mv_k<n>` <=> the row's ``columns[n]`` (names of the model's columns in lower case).
    ``new`` contains the text of ``keys`` once: another query of the same rows may take its place.
    Without ``columns`` every row is in scope, and ``keys`` is None.
    """

    new: str
    keys: str | None
    columns: tuple[str, ...]


@dataclass(frozen=True)
class _Scope:
    """The same with the columns' positions."""

    new: str
    keys: str | None
    columns: tuple[int, ...]


@dataclass(frozen=True)
class Changes:
    """The changes of the queries in ``text``, of which ``tree`` is the outermost. ``marks``,
    ``sides``, ``clock``: see `Writer`. ``known``: for a block the column that is the one key by
    which it is to be scoped, and the query of its values; without it, by all keys that it shows.
    """

    text: str
    tree: Query
    marks: Marks
    names: Names
    sides: Mapping[tuple[str, ...], Sides]
    clock: Clock | None
    known: Callable[[Block], tuple[Column, str] | None] | None = None

    @cached_property
    def writer(self) -> Writer:
        subqueries = (
            subquery
            for query in every_query(self.tree)
            if isinstance(query.body, Block)
            for subquery in query.body.subqueries
        )
        return Writer(self.text, self.marks, self.sides, self.clock, self.change, tuple(subqueries))

    @cached_property
    def terms(self) -> Terms:
        return Terms(self.writer, self.names)

    def change(self, query: Query) -> str:
        """The query's columns and `_mv_diff`: new less old, not consolidated.

        A branch of UNION ALL that did not change gives a term without rows: it decides the columns'
        types, and the first one their names.
        """
        body = query.body
        if isinstance(body, Query):
            return self.change(body)
        if isinstance(body, SetOp) and not compares_rows(body):
            return self._both(body)
        if isinstance(body, Block) and kind_of(body) is Kind.PLAIN:
            return "\nunion all\n".join(list(self.terms.terms(body)) or [self.terms.no_rows(body)])
        if not self.writer.moves(query):
            return f"select *, {NONE} as {DIFF} from (\n{self.writer.contents(query, Side.NEW)}\n) as _mv_o where {NOTHING}"
        return "\nunion all\n".join(self._pair(query, body))

    def count(self, query: Query) -> int:
        """The terms that can give rows."""
        body = query.body
        if isinstance(body, Query):
            return self.count(body)
        if isinstance(body, SetOp) and not compares_rows(body):
            return self.count(body.left) + self.count(body.right)
        if isinstance(body, Block) and kind_of(body) is Kind.PLAIN:
            return len(list(self.terms.terms(body)))
        return len(_SIDES) if self.writer.moves(query) else 0

    def scoped(self, query: Query) -> Scoped | None:
        """The scoped form, if the outermost block has one; a block of one derived table has its."""
        return self.scope_of(query) if self.writer.moves(query) else None

    def scope_of(self, query: Query) -> Scoped | None:
        """The same, whether anything changed or not."""
        names = self.names.of_query(query)
        if merges(query):
            return None
        unique = [at for at, name in enumerate(names) if name is not None and names.count(name) == 1]
        scope = self._scope(query, unique)
        if scope is None:
            return None
        return Scoped(scope.new, scope.keys, tuple(names[at] or "" for at in scope.columns))

    def _both(self, body: SetOp) -> str:
        return f"(\n{self.change(body.left)}\n)\nunion all\n(\n{self.change(body.right)}\n)"

    def _pair(self, query: Query, body: Block | SetOp) -> Iterator[str]:
        """New less old, in scope."""
        if isinstance(body, SetOp) or kind_of(body) is Kind.DISTINCT:
            keys = self._row_keys(body, row_names(query, self.names))
            for side, diff in _SIDES:
                yield self._rows(query, side, diff, keys, row_names(query, self.names))
            return
        scope = []
        if keyed := self._keyed(body):
            scope = [self._in_scope(keyed, self._keys(body, keyed))]
        for side, diff in _SIDES:
            yield self._grouped(body, side, diff, scope)

    def _keyed(self, block: Block) -> tuple[Key, ...]:
        """The keys of the rows that may differ; none where every row may."""
        if kind_of(block) is not Kind.KEYED or self.writer.values_move(block):
            return ()
        return keys_of(block, self.names)

    def _keys(self, block: Block, keys: Sequence[Key]) -> str:
        """The keys of the source's rows that may differ."""
        listed = ", ".join(
            f"({self.writer.cut(key.part, Side.NEW)}) as {name}"
            for key, name in zip(keys, key_names(len(keys)), strict=True)
        )
        terms = "\nunion all\n".join(self.terms.terms(replace(block, listed=listed)))
        return f"select distinct {', '.join(key_names(len(keys)))} from (\n{terms}\n) as _mv_k"

    def _in_scope(self, keys: Sequence[Key], query: str) -> str:
        equal = " and ".join(
            f"_mv_k.{name} <=> ({self.writer.cut(key.part, Side.NEW)})"
            for key, name in zip(keys, key_names(len(keys)), strict=True)
        )
        return f"exists (select 1 from (\n{query}\n) as _mv_k where {equal})"

    def _grouped(self, block: Block, side: Side, diff: str | None, scope: Collection[str]) -> str:
        conditions = [*(self.writer.cut(each, side) for each in block.where), *scope]
        selected = self.writer.select(block, lambda leaf: side, diff, conditions, {}, side)
        return selected + self.writer.behind_where(block, side)

    def _row_keys(self, body: Block | SetOp, names: Mapping[str, str], chosen: Collection[str] = ()) -> str:
        """The rows that may differ; of some of their columns, if any are chosen."""
        if isinstance(body, SetOp):
            changes = self._both(body)
        else:
            clauses = {name: part for name, part in body.more.items() if name != "DISTINCT"}
            inner = replace(body, more=clauses)
            changes = self.change(Query(body.start, body.end, (), body.start, inner, False, None))
        listed = [
            name if name == new else f"{name} as {new}"
            for name, new in zip(chosen or names, key_names(len(chosen or names)), strict=True)
        ]
        return (
            f"select distinct {', '.join(listed)} from (\n{changes}\n) as _mv_k({', '.join([*names, DIFF])})"
        )

    def _rows(self, query: Query, side: Side, diff: str | None, keys: str, names: Mapping[str, str]) -> str:
        more = "" if diff is None else f", {diff} as {DIFF}"
        equal = " and ".join(f"_mv_k.{key} <=> _mv_o.{sql.identifier(name)}" for key, name in names.items())
        return (
            f"select _mv_o.*{more} from (\n{self.writer.contents(query, side)}\n) as _mv_o\n"
            f"left semi join (\n{keys}\n) as _mv_k on {equal}"
        )

    def _scope(self, query: Query, usable: Collection[int]) -> _Scope | None:
        """``usable``: the columns that may carry keys."""
        body = query.body
        if isinstance(body, Query):
            return self._scope(body, usable)
        if isinstance(body, SetOp) or kind_of(body) is Kind.DISTINCT:
            has_keys = self.known is None and has_row_keys(query)
            return self._scope_of_rows(query, body, usable) if has_keys else None
        kind = kind_of(body)
        if kind is not Kind.PLAIN and not self._keyed(body):
            every = _Scope(self._grouped(body, Side.NEW, None, []), None, ())
            return every if self.known is None else None
        return self._scope_of_keys(body, usable) if kind is Kind.KEYED else self._scope_below(body, usable)

    def _scope_of_rows(self, query: Query, body: Block | SetOp, usable: Collection[int]) -> _Scope | None:
        every = row_names(query, self.names)
        causes = Repeatable(self.text, self.names).kernel(query)
        chosen = {
            key: (at, name)
            for at, (key, name) in enumerate(every.items())
            if at in usable and causes[at] is None
        }
        if not chosen:
            return None
        keys = self._row_keys(body, every, chosen)
        positions, names = zip(*chosen.values(), strict=True)
        renamed = dict(zip(key_names(len(names)), names, strict=True))
        return _Scope(self._rows(query, Side.NEW, None, keys, renamed), keys, positions)

    def _scope_of_keys(self, block: Block, usable: Collection[int]) -> _Scope | None:
        """Under those of the keys that are columns of the block."""
        columns = [tree for _, tree in outputs(block, self.names)]
        at_of = {tree: at for at, tree in enumerate(columns) if at in usable}
        keys = {
            key: at_of[tree]
            for key in keys_of(block, self.names)
            if (tree := canonical(block, self.names, key.node)) in at_of
        }
        query = None
        if self.known is not None:
            column, query = self.known(block) or (None, None)
            own = {plain_column(block, self.names, key.node): key for key in keys}
            keys = {own[column]: keys[own[column]]} if query is not None and column in own else {}
        if not keys:
            return None
        query = query or self._keys(block, [*keys])
        scope = self._in_scope([*keys], query)
        return _Scope(self._grouped(block, Side.NEW, None, [scope]), query, tuple(keys.values()))

    def _scope_below(self, block: Block, usable: Collection[int]) -> _Scope | None:
        """That of the one derived table that the block reads, as the block shows it."""
        leaf = block.source
        moves = self.writer.values_move(block) or any(
            self.writer.conjunct_moves(block, conjunct) for conjunct in block.where
        )
        if not isinstance(leaf, Derived) or block.laterals or moves:
            return None
        shown = {tree: at for at, (_, tree) in enumerate(outputs(block, self.names)) if at in usable}
        below = [column_of(0, name) for name in self.names.of_leaf(leaf)]
        places = {at: shown[tree] for at, tree in enumerate(below) if tree in shown}
        scope = self._scope(leaf.query, places.keys()) if not merges(leaf.query) else None
        if scope is None:
            return None
        conditions = [self.writer.cut(each, Side.NEW) for each in block.where]
        new = self.writer.over(block, self.writer.aliased(leaf, scope.new), None, conditions)
        return _Scope(new, scope.keys, tuple(places[at] for at in scope.columns))
