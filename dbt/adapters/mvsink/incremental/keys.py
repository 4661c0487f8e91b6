"""The kind of a block, and its keys. Keys are expressions over the block's source that have one
value per output row, so that the output rows with some keys depend only on the source rows with
these keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from sqlglot import exp

from dbt.adapters.mvsink.incremental.name_resolution import Names, output_name
from dbt.adapters.mvsink.user_sql.algebra import (
    Block,
    Derived,
    Fragment,
    Query,
    Refused,
    SetOp,
    blocks,
    joins,
    leaves,
)


class KeyKind(Enum):
    PLAIN = "plain"  # a function of one row of the source
    DISTINCT = "distinct"  # around the block without DISTINCT
    WHOLE = "whole"  # aggregates without GROUP BY
    KEYED = "keyed"  # groups or windows


@dataclass(frozen=True)
class Key:
    """An expression over the source; ``part`` is its text."""

    part: Fragment
    node: exp.Expr


def kind_of(block: Block) -> KeyKind:
    if "DISTINCT" in block.more:
        return KeyKind.DISTINCT
    if "GROUP" in block.more:
        return KeyKind.KEYED
    if any(call.window is None for call in block.calls):
        return KeyKind.WHOLE
    return KeyKind.KEYED if block.windows else KeyKind.PLAIN


def keys_of(block: Block, names: Names) -> tuple[Key, ...]:
    """The keys of a block of kind KEYED; none if all of its rows may depend on each other."""
    if "GROUP" not in block.more:
        return _shared_by_windows(block, names)
    keys = group_keys(block, names)
    if not block.windows:
        return keys
    partitions = {canonical(block, names, key.node) for key in _shared_by_windows(block, names)}
    return tuple(key for key in keys if canonical(block, names, key.node) in partitions)


def group_keys(block: Block, names: Names) -> tuple[Key, ...]:
    """The expressions that GROUP BY means. Raises `Refused`."""
    if not block.keys:
        return tuple(_of_item(block, names, number) for number in ungrouped_items(block))
    return tuple(_of_entry(block, names, part) for part in block.keys)


def ungrouped_items(block: Block) -> Iterator[int]:
    """What GROUP BY ALL means, as the numbers of the items without aggregates."""
    keyed = False
    for number, item in enumerate(block.items):
        if item.star is not None:
            raise Refused("GROUP BY ALL together with a star", item.start)
        if not any(map(item.has, block.calls)):
            keyed = True
            yield number
    if not keyed:
        raise Refused("GROUP BY ALL without a key", block.start)


def _of_entry(block: Block, names: Names, part: Fragment) -> Key:
    node = names.nodes[part]
    if isinstance(node, exp.Literal) and not node.is_string:
        if any(item.star is not None for item in block.items):
            raise Refused("an ordinal together with a star", part.start)
        if not node.name.isdigit() or not 0 < int(node.name) <= len(block.items):
            raise Refused("GROUP BY a number beyond the items", part.start)
        return _of_item(block, names, int(node.name) - 1)
    if isinstance(node, exp.Column) and not node.table and node.name.lower() not in names.columns(block):
        aliased = [
            number
            for number, item in enumerate(block.items)
            if names.nodes[item].alias.lower() == node.name.lower()
        ]
        if len(aliased) == 1:
            return _of_item(block, names, aliased[0])
    if isinstance(node, (exp.Tuple, exp.Literal)):
        raise Refused("GROUP BY a literal or several columns in parentheses", part.start)
    names.check(block, part)
    return Key(part, node)


def _of_item(block: Block, names: Names, number: int) -> Key:
    item = block.items[number]
    part = item.bare if item.bare is not None and item.bare in names.nodes else item
    if part is item and isinstance(names.nodes[item], exp.Alias):
        raise Refused("GROUP BY an alias that cannot be resolved", item.start)
    if any(map(item.has, block.calls)):
        raise Refused("GROUP BY an aggregate", item.start)
    if any(map(item.has, block.subqueries)):
        raise Refused("GROUP BY a subquery", item.start)
    names.check(block, part)
    return Key(part, names.nodes[part])


def _shared_by_windows(block: Block, names: Names) -> tuple[Key, ...]:
    """The PARTITION BY expressions that all windows share, in the text of the first window."""
    trees = [
        {canonical(block, names, names.nodes[part]) for part in window.partition} for window in block.windows
    ]
    shared = tuple(
        Key(part, names.nodes[part])
        for part in block.windows[0].partition
        if all(canonical(block, names, names.nodes[part]) in each for each in trees)
    )
    if "GROUP" not in block.more:
        for key in shared:
            names.check(block, key.part)
    return shared


def canonical(block: Block, names: Names, node: exp.Expr) -> str:
    """A text that is the same for equal expressions: each column is named by its leaf's number."""
    tree = node.copy()
    while isinstance(tree, exp.Paren):
        tree = tree.this
    holder = exp.Paren(this=tree)
    for column in list(holder.find_all(exp.Column)):
        owners = owners_of(block, names, column)
        if len(owners) == 1:
            column.replace(exp.column(column.name.lower(), f"#{owners[0]}", quoted=True))
    return repr(holder.this)


def owners_of(block: Block, names: Names, column: exp.Column) -> list[int]:
    """The numbers, in `Names.scope`, of the sources that may have the column."""
    return [
        number
        for number, (owner, columns) in enumerate(names.scope(block))
        if len(column.parts) <= 2
        and column.name.lower() in columns
        and (not column.table or (owner.alias or "").lower() == column.table.lower())
    ]


def outputs(block: Block, names: Names) -> list[tuple[str | None, str | None]]:
    """The block's columns: each name in lower case, and the `canonical` of the expression that it
    shows.
    """
    numbers = {id(owner): number for number, (owner, _) in enumerate(names.scope(block))}
    return [
        (output_name(each), canonical(block, names, each.unalias()))
        if isinstance(each, exp.Expr)
        else (each[1], column_of(numbers[id(each[0])], each[1]))
        for each in names.shown(block)
    ]


def column_of(leaf: int, name: str | None) -> str | None:
    """The `canonical` of a column of the block's leaf of that number."""
    return None if name is None else repr(exp.column(name, f"#{leaf}", quoted=True))


def has_row_keys(body: Block | SetOp) -> bool:
    """Whether the body compares whole rows."""
    return body.compares_rows if isinstance(body, SetOp) else kind_of(body) is KeyKind.DISTINCT


def key_names(count: int) -> list[str]:
    return [f"_mv_k{number}" for number in range(count)]


def row_names(query: Query, names: Names) -> dict[str, str]:
    """The columns, by key name, of a query whose keys are whole rows.

    Raises `Refused` if their names do not identify them.
    """
    columns = [] if merges(query) else names.of_query(query)
    named = [name for name in columns if name is not None]
    if not named or len({*named}) < len(columns):
        raise Refused("whole rows are compared, but columns have no names or equal names", query.start)
    return dict(zip(key_names(len(named)), named, strict=True))


def merges(query: Query) -> bool:
    """Whether a star in it may stand for fewer columns than its leaves have."""
    return any(
        any(join.using or join.natural for join in joins(block.source))
        or any(isinstance(leaf, Derived) and merges(leaf.query) for leaf in leaves(block.source))
        for block in blocks(query)
        if any(item.star is not None for item in block.items)
    )
