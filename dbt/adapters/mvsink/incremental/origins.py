"""Which column of a relation an output of a query is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dbt.adapters.mvsink.incremental.equalities import Column, plain_column
from dbt.adapters.mvsink.incremental.keys import KeyKind, keys_of, kind_of, merges
from dbt.adapters.mvsink.incremental.name_resolution import Names
from dbt.adapters.mvsink.user_sql.algebra import Block, Derived, LateralView, Relation, blocks


def own_name(names: Names, leaf: Relation, column: str) -> str:
    """The relation's own name for a column that its alias may rename."""
    return names.relations[leaf.parts][names.of_leaf(leaf).index(column)]


def origins(names: Names, leaf: Derived, column: str) -> Iterator[tuple[Block, Column | None]]:
    """Per branch of the leaf's query the column of a leaf that the column is, if it is one: see
    `origins_in`.
    """
    at = names.of_leaf(leaf).index(column)
    merged = merges(leaf.query)
    for block in blocks(leaf.query):
        yield block, None if merged else origins_in(names, block)[at]


def origins_in(names: Names, block: Block) -> list[Column | None]:
    """For each output, the column of a leaf that it is, if rows of other values there have no part
    in the block's rows of one value.
    """
    keys = key_columns(names, block)
    return [each if keys is None or each in keys else None for each in _outputs(names, block)]


def key_columns(names: Names, block: Block) -> list[Column] | None:
    """The keys that are columns; None: every column is one."""
    clauses = {name: part for name, part in block.more.items() if name != "DISTINCT"}
    inner = replace(block, more=clauses)
    if kind_of(inner) is KeyKind.PLAIN:
        return None
    keys = keys_of(inner, names) if kind_of(inner) is KeyKind.KEYED else ()
    columns = (plain_column(block, names, key.node) for key in keys)
    return [column for column in columns if column is not None]


def _outputs(names: Names, block: Block) -> list[Column | None]:
    outputs: list[Column | None] = []
    for item in block.items:
        if item.star is None:
            outputs.append(plain_column(block, names, names.nodes[item].unalias()))
            continue
        for owner, name in names.of_star(block, item):
            outputs.append(None if isinstance(owner, LateralView) or name is None else (owner, name))
    return outputs
