"""Which values differ when a query is evaluated twice over equal rows: sums of doubles, `first`,
`row_number` over ties.

If the shard is the old side (`Plan.scoped`), such values may simply be replaced: in the outermost
block that has keys or joins, and in blocks around it that read just one derived table. Elsewhere
the old contents are evaluated again. There such values may only become output values; no key,
filter or join may depend on them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from dbt.adapters.mvsink.incremental.keys import (
    KeyKind,
    canonical,
    column_of,
    group_keys,
    kind_of,
    outputs,
    owners_of,
)
from dbt.adapters.mvsink.incremental.lineage import Exact, exact_argument
from dbt.adapters.mvsink.incremental.name_resolution import Names, generator_of, item_columns
from dbt.adapters.mvsink.incremental.top_rows import limit_of
from dbt.adapters.mvsink.user_sql.algebra import (
    Block,
    Call,
    Derived,
    Fragment,
    Query,
    Refused,
    SetOp,
    Window,
    core,
    joins,
    leaves,
)
from dbt.adapters.mvsink.user_sql.functions import (
    AVERAGES,
    LISTS,
    PEER_WINDOWS,
    REPEATABLE_AGGREGATES,
    ROW_WINDOWS,
    SUMS,
    UNREPEATABLE_AGGREGATES,
)
from dbt.adapters.mvsink.user_sql.words import parsed

_BY = ("max_by", "min_by")
_SORTED = re.compile(r"\b(sort_array|array_sort)\s*\(\s*$", re.IGNORECASE)


@dataclass(frozen=True)
class Cause:
    """Why a value cannot be repeated; ``at`` is the place in the text."""

    reason: str
    at: int


Causes = list[Cause | None]  # of a query's columns


@dataclass(frozen=True)
class Repeatable:
    text: str
    names: Names

    def outermost(self, query: Query) -> Cause | None:
        """Why the change of the query needs the shard as the old side; None if it does not.

        Raises `Refused` if that would not help.
        """
        query, body = core(query)
        if isinstance(body, SetOp):
            cause = _first([*self._nested(body.left), *self._nested(body.right)])
            if not body.compares_rows:
                self._refuse(cause)
            return cause
        if kind_of(body) is not KeyKind.PLAIN:
            below = self._below(body, self._nested)
            self._refuse(_first(self._deciding(body, below)))
            return _first([*self._values(body, below), *self._having(body, below)])
        if isinstance(body.source, Derived) and not body.laterals:
            self._refuse(_first(self._deciding(body, {})))
            return self.outermost(body.source.query)
        below = self._below(body, self._nested)
        self._refuse(_first(self._deciding(body, below)))
        return _first(self._values(body, below))

    def kernel(self, query: Query) -> Causes:
        """The causes for the query's columns, traced through the blocks around the outermost block
        that has keys.
        """
        _, body = core(query)
        if isinstance(body, SetOp):
            return self._either(body)
        if isinstance(body.source, Derived) and kind_of(body) is KeyKind.PLAIN:
            return self._values(body, self._below(body, self.kernel))
        return self._values(body, self._below(body, self._nested))

    def unrepeatable_calls(self, block: Block) -> list[Call]:
        """The block's own calls that may give another value for equal rows."""
        return [call for call in block.calls if not self._call(block, call)]

    def _either(self, body: SetOp) -> Causes:
        sides = zip(self._nested(body.left), self._nested(body.right), strict=False)
        return [one or other for one, other in sides]

    def _nested(self, query: Query) -> Causes:
        """The causes for the query's columns. Raises `Refused` if the choice of its rows cannot be
        repeated.
        """
        _, body = core(query)
        if isinstance(body, SetOp):
            causes = self._either(body)
            if body.compares_rows:
                self._refuse(_first(causes))
            return causes
        below = self._below(body, self._nested)
        causes = self._values(body, below)
        self._refuse(_first([*self._deciding(body, below), *self._having(body, below)]))
        if kind_of(body) is KeyKind.DISTINCT:
            self._refuse(_first(causes))
        return causes

    def _refuse(self, cause: Cause | None) -> None:
        if cause is not None:
            raise Refused(
                f"{cause.reason} cannot be repeated, and decides more than an output value", cause.at
            )

    def _below(self, block: Block, of_query: Callable[[Query], Causes]) -> Mapping[tuple[int, str], Cause]:
        """The columns of leaves that cannot be repeated, by the leaf's number and the column's
        name.
        """
        return {
            (number, name): cause
            for number, leaf in enumerate(leaves(block.source))
            if isinstance(leaf, Derived)
            for name, cause in zip(self.names.of_leaf(leaf), of_query(leaf.query), strict=False)
            if cause is not None and name is not None
        }

    def _deciding(self, block: Block, below: Mapping[tuple[int, str], Cause]) -> Iterator[Cause | None]:
        """The causes in what decides the keys, and which rows there are before grouping and
        windows.
        """
        for subquery in block.subqueries:
            yield from self._nested(subquery.query)
        if not below:
            return
        conditions = [join.on for join in joins(block.source) if join.on is not None]
        partitions = [part for window in block.windows for part in window.partition]
        views = [part for view in block.laterals for part in view.parts]
        for part in (*block.where, *conditions, *views, *partitions):
            yield self._named(block, self.names.nodes[part], below)
        if "GROUP" in block.more:
            for key in group_keys(block, self.names):
                yield self._named(block, key.node, below)
        merged = {name.lower() for join in joins(block.source) for name in join.using}
        natural = any(join.natural for join in joins(block.source))
        for (_, name), cause in below.items():
            yield cause if natural or name in merged else None

    def _having(self, block: Block, below: Mapping[tuple[int, str], Cause]) -> Iterator[Cause | None]:
        if "HAVING" in block.more:
            part = block.more["HAVING"]
            yield self._named(block, self.names.nodes[part], below)
            yield from self._calls(block, part)
            items = zip(block.items, self._values(block, below), strict=False)
            aliases = {self.names.nodes[item].alias.lower(): cause for item, cause in items if cause}
            for column in self.names.nodes[part].find_all(exp.Column):
                yield aliases.get(column.name.lower())

    def _values(self, block: Block, below: Mapping[tuple[int, str], Cause]) -> Causes:
        """The causes for the block's columns."""
        causes: Causes = []
        aliases: dict[str, Cause] = {}  # items may name those before them
        for item in block.items:
            if item.star is not None:
                numbers = {id(owner): number for number, (owner, _) in enumerate(self.names.scope(block))}
                causes += [
                    below.get((numbers[id(owner)], name or ""))
                    for owner, name in self.names.of_star(block, item)
                ]
                continue
            node = self.names.nodes[item]
            named = (aliases.get(column.name.lower()) for column in node.find_all(exp.Column))
            cause = _first([self._named(block, node, below), *self._calls(block, item), *named])
            cause = cause or _first(self._ordered(block, item, below))
            causes += [cause] * len(item_columns(node))
            if cause is not None and node.alias:
                aliases[node.alias.lower()] = cause
        return causes

    def _named(self, block: Block, node: exp.Expr, below: Mapping[tuple[int, str], Cause]) -> Cause | None:
        """The cause for a column of a leaf that the expression names and that cannot be repeated,
        if there is one.
        """
        for column in node.find_all(exp.Column):
            pieces = {piece.name.lower() for piece in column.parts}
            owners = owners_of(block, self.names, column)
            for (number, name), cause in below.items():
                if name in pieces and (number in owners or len(owners) != 1):
                    return cause
        return None

    def _ordered(
        self, block: Block, part: Fragment, below: Mapping[tuple[int, str], Cause]
    ) -> Iterator[Cause | None]:
        """The causes in the ORDER BY of windows of calls in ``part``."""
        for call in block.calls:
            if call.window is not None and part.has(call):
                for each in call.window.order:
                    yield self._named(block, self.names.nodes[each], below)

    def _calls(self, block: Block, part: Fragment) -> Iterator[Cause | None]:
        for call in block.calls:
            if part.has(call) and not self._call(block, call):
                limit = limit_of(self.text, call)
                yield (
                    Cause(f"{call.name}()", call.start) if limit is None else Cause("LIMIT over ties", limit)
                )

    def _call(self, block: Block, call: Call) -> bool:
        """Whether the call gives the same value when it is evaluated again."""
        if call.window is not None and (
            call.window.by_row or call.name in UNREPEATABLE_AGGREGATES | ROW_WINDOWS
        ):
            unique = bool(call.window.order) and self._unique(block, call.window)
            return unique and (call.name not in SUMS or self._adds_up(block, call))
        if call.name in SUMS:
            return self._adds_up(block, call)
        if call.name in _BY and call.window is None:
            return self._decides(block, call)
        if call.name in UNREPEATABLE_AGGREGATES:
            sorted_after = (
                _SORTED.search(self.text[: call.start]) and self.text[call.end :].lstrip()[:1] == ")"
            )
            return call.name in LISTS and bool(sorted_after)
        return call.name in REPEATABLE_AGGREGATES | PEER_WINDOWS

    def _adds_up(self, block: Block, call: Call) -> bool:
        kind = exact_argument(self.text, block, self.names, call)
        return kind in (Exact.DECIMAL, Exact.INT) if call.name in AVERAGES else kind is not None

    def _decides(self, block: Block, call: Call) -> bool:
        """Whether rows of a group that are equal in the second argument, which may be a struct of
        several values, have the same first argument.
        """
        if len(call.arguments) != 2:
            return False
        value, by = (parsed(f"select {part.of(self.text)}").expressions[0] for part in call.arguments)
        members = [each.expression for each in by.expressions if isinstance(each, exp.PropertyEQ)]
        parts = members if isinstance(by, exp.Struct) else [by]
        compared = {canonical(block, self.names, part) for part in parts}
        if "GROUP" in block.more:
            compared |= {canonical(block, self.names, key.node) for key in group_keys(block, self.names)}
        if canonical(block, self.names, value) in compared or self._one_row(block, compared):
            return True
        columns = {canonical(block, self.names, column) for column in value.find_all(exp.Column)}
        return columns <= compared and value.find(exp.Query) is None

    def _unique(self, block: Block, window: Window) -> bool:
        """Whether rows that are equal in PARTITION BY and ORDER BY are one row, or equal in
        everything that the block shows.
        """
        parts = (self.names.nodes[part] for part in (*window.partition, *window.order))
        compared = {canonical(block, self.names, node) for node in parts}
        if "GROUP" in block.more:
            keys = {canonical(block, self.names, key.node) for key in group_keys(block, self.names)}
            return keys <= compared
        if self._one_row(block, compared):
            return True
        # rows that are equal in all that is shown may change places, but not in two windows each
        return len(block.windows) == 1 and self._shown(block) <= compared

    def _one_row(self, block: Block, compared: Collection[str]) -> bool:
        """Whether rows of the source that are equal in what is ``compared`` are one row."""
        one = block.source if isinstance(block.source, Derived) and not block.laterals else None
        if one is not None:
            names = self.names.of_leaf(one)
            keys = self._unique_in(one.query)
            return any({column_of(0, names[at]) for at in key} <= {*compared} for key in keys)
        return False

    def _shown(self, block: Block) -> set[str | None]:
        shown: set[str | None] = set()
        for item in block.items:
            if item.star is None:
                columns = self.names.nodes[item].find_all(exp.Column)
                shown |= {canonical(block, self.names, column) for column in columns}
        stars = replace(block, items=tuple(item for item in block.items if item.star is not None))
        return shown | {tree for _, tree in outputs(stars, self.names)}

    def _unique_in(self, query: Query) -> list[set[int]]:
        """Sets of columns, by position, in which no two of the query's rows are equal."""
        query, body = core(query)
        if isinstance(body, SetOp):
            return [] if body.all else [set(range(len(self.names.of_query(query))))]
        kind, columns = kind_of(body), outputs(body, self.names)
        if kind is KeyKind.DISTINCT:
            return [set(range(len(columns)))]
        if kind is KeyKind.WHOLE:
            return [set()]
        at = {tree: number for number, (_, tree) in enumerate(columns)}
        if "GROUP" in body.more:
            trees = [canonical(body, self.names, key.node) for key in group_keys(body, self.names)]
            return [{at[tree] for tree in trees}] if all(tree in at for tree in trees) else []
        if not isinstance(body.source, Derived) or body.laterals or self._generates(body):
            return []
        names = self.names.of_leaf(body.source)
        below = [[column_of(0, names[n]) for n in key] for key in self._unique_in(body.source.query)]
        return [{at[tree] for tree in key} for key in below if all(tree in at for tree in key)]

    def _generates(self, block: Block) -> bool:
        nodes = (self.names.nodes[item] for item in block.items)
        return any(generator_of(node) is not None for node in nodes)


def _first(causes: Iterable[Cause | None]) -> Cause | None:
    return next((cause for cause in causes if cause is not None), None)
