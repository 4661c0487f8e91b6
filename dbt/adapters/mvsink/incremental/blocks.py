"""The changes of queries: of blocks by their kind, and of set operators.

A block that groups or has windows gives *scoped* pairs: the block new less the block old, both only
over rows whose keys are in `K`, the keys of what may differ. DISTINCT and the set operators other
than UNION ALL have whole rows as keys, which are compared with their results.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.incremental.compose import Clock, Marks, Side, Sides, Writer
from dbt.adapters.mvsink.incremental.keys import Key, KeyKind, key_names, kind_of, row_names
from dbt.adapters.mvsink.incremental.name_resolution import Names
from dbt.adapters.mvsink.incremental.replaced import Replaced, Replacing, keyed
from dbt.adapters.mvsink.incremental.terms import MINUS, NONE, NOTHING, PLUS, Terms
from dbt.adapters.mvsink.physical import DIFF
from dbt.adapters.mvsink.user_sql.algebra import Block, Derived, Query, SetOp, core, every_block

_SIDES = ((Side.NEW, PLUS), (Side.OLD, MINUS))


@dataclass(frozen=True)
class Scoped:
    """New rows for the shard's rows in a scope: what to add is ``new`` less the shard's rows in
    scope.

    ``new`` gives the model's columns, under their names and with their types. ``keys`` is a query
    of distinct `_mv_k0`, `_mv_k1`, ..., which may be NULL. A row of the shard is in scope if one of
    the query's rows has `_mv_k<n> <=> columns[n]` for every n (``columns`` are names of the model's
    columns in lower case). ``new`` contains the text of ``keys`` once, so that another query of the
    same rows can replace it. Without ``columns`` every row is in scope, and ``keys`` is None.
    """

    new: str
    keys: str | None
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Changes:
    """The changes of the queries in ``text``, of which ``tree`` is the outermost. `Writer` explains
    ``marks``, ``sides`` and ``clock``.
    """

    text: str
    tree: Query
    marks: Marks
    names: Names
    sides: Mapping[tuple[str, ...], Sides]
    clock: Clock | None

    @cached_property
    def writer(self) -> Writer:
        subqueries = (subquery for block in every_block(self.tree) for subquery in block.subqueries)
        return Writer(self.text, self.marks, self.sides, self.clock, self.change, tuple(subqueries))

    @cached_property
    def terms(self) -> Terms:
        return Terms(self.writer, self.names)

    def change(self, query: Query) -> str:
        """The query's columns and `_mv_diff`: new less old, not consolidated.

        A branch of UNION ALL that did not change gives a term without rows, because branches decide
        the columns' types, and the first one their names.
        """
        query, body = core(query)
        if isinstance(body, SetOp) and not body.compares_rows:
            return self._both(body)
        if isinstance(body, Block) and kind_of(body) is KeyKind.PLAIN:
            return "\nunion all\n".join(list(self.terms.terms(body)) or [self.terms.no_rows(body)])
        if not self.writer.moves(query):
            return f"select *, {NONE} as {DIFF} from (\n{self.writer.contents(query, Side.NEW)}\n) as _mv_o where {NOTHING}"
        return "\nunion all\n".join(self._pair(query, body))

    def count(self, query: Query) -> int:
        """The number of terms that can give rows."""
        query, body = core(query)
        if isinstance(body, SetOp) and not body.compares_rows:
            return self.count(body.left) + self.count(body.right)
        if isinstance(body, Block) and kind_of(body) is KeyKind.PLAIN:
            return len(list(self.terms.terms(body)))
        return len(_SIDES) if self.writer.moves(query) else 0

    def replaced(self, query: Query) -> Replaced | None:
        """Which rows a correction can replace, whether or not anything changed."""
        return Replacing(self.text, self.names, self.writer).rows(query)

    def scoped(self, query: Query, replaced: Replaced, keys: str | None = None) -> Scoped:
        """The new rows of ``replaced``. ``keys`` is the query of their keys, if it is known."""
        names = self.names.of_query(query)
        columns = tuple(names[at] or "" for at in replaced.columns)
        if not columns:
            return Scoped(self._new(query, replaced, ""), None, ())
        keys = keys or self._replaced_keys(replaced)
        return Scoped(self._new(query, replaced, keys), keys, columns)

    def _both(self, body: SetOp) -> str:
        return f"(\n{self.change(body.left)}\n)\nunion all\n(\n{self.change(body.right)}\n)"

    def _pair(self, query: Query, body: Block | SetOp) -> Iterator[str]:
        """The two queries of new less old, in scope."""
        if isinstance(body, SetOp) or kind_of(body) is KeyKind.DISTINCT:
            keys = self._row_keys(body, row_names(query, self.names))
            for side, diff in _SIDES:
                yield self._rows(query, side, diff, keys, row_names(query, self.names))
            return
        scope = []
        if block_keys := keyed(self.writer, body, self.names):
            scope = [self._in_scope(block_keys, self._keys(body, block_keys))]
        for side, diff in _SIDES:
            yield self._grouped(body, side, diff, scope)

    def _keys(self, block: Block, keys: Sequence[Key]) -> str:
        """The query of the keys of the source's rows that may differ."""
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
        """The query of the rows that may differ; only of the ``chosen`` columns, if there are
        any.
        """
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

    def _replaced_keys(self, replaced: Replaced) -> str:
        """The query of the keys of the replaced rows that may differ."""
        body = replaced.query.body
        if isinstance(body, Block) and replaced.keys:
            return self._keys(body, replaced.keys)
        assert not isinstance(body, Query)
        every = row_names(replaced.query, self.names)
        return self._row_keys(body, every, [[*every][at] for at in replaced.places])

    def _new(self, query: Query, replaced: Replaced, keys: str) -> str:
        """The query's new rows whose keys are among ``keys``."""
        query, body = core(query)
        if query is replaced.query:
            return self._new_in_scope(replaced, keys)
        assert isinstance(body, Block) and isinstance(body.source, Derived)
        conditions = [self.writer.cut(each, Side.NEW) for each in body.where]
        below = self.writer.aliased(body.source, self._new(body.source.query, replaced, keys))
        return self.writer.over(body, below, None, conditions)

    def _new_in_scope(self, replaced: Replaced, keys: str) -> str:
        body = replaced.query.body
        if isinstance(body, Block) and (replaced.keys or not replaced.columns):
            scope = [self._in_scope(replaced.keys, keys)] if replaced.keys else []
            return self._grouped(body, Side.NEW, None, scope)
        every = [*row_names(replaced.query, self.names).values()]
        chosen = [every[at] for at in replaced.places]
        renamed = dict(zip(key_names(len(chosen)), chosen, strict=True))
        return self._rows(replaced.query, Side.NEW, None, keys, renamed)
