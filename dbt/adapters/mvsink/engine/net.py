"""Adding multiplicities up by whole rows.

Spark groups by a map, but not faithfully: up to 4.3 a NULL value of a primitive type becomes 0. So
a column that contains a map is grouped by a key made of its sorted entries, and any one of the
group's (equal) values is returned.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.engine.types import Column, SparkType
from dbt.adapters.mvsink.physical import DIFF


def net(
    columns: Sequence[Column], keys: Sequence[str], rows: str, having: str = "", sums: Sequence[str] = ()
) -> str:
    """``columns, keys, sum(_mv_diff)`` of ``rows``, by distinct row; ``having`` restricts the sum.

    ``keys`` are further columns to group by, as SQL; ``sums`` are further columns to add up.
    """
    added = [f"sum({name}) {name}" for name in (DIFF, *sums)]
    items = ", ".join([*(_item(column) for column in columns), *keys, *added])
    group = ", ".join([*(_group(column) for column in columns), *keys])
    return f"select {items} from (\n{rows}\n) group by {group}" + (
        f" having sum({DIFF}) {having}" if having else ""
    )


def comparable(expression: str, kind: SparkType) -> str:
    """A value that can be grouped by, compared and ordered, equal exactly where the original is."""
    return _key(expression, kind, 0)


def _item(column: Column) -> str:
    name = sql.identifier(column.name)
    return f"any_value({name}) {name}" if _holds_map(column.type) else name


def _group(column: Column) -> str:
    name = sql.identifier(column.name)
    return _key(name, column.type, 0) if _holds_map(column.type) else name


def _holds_map(kind: SparkType) -> bool:
    return (
        kind.name == "map"
        or any(map(_holds_map, kind.inner))
        or any(_holds_map(field.type) for field in kind.fields)
    )


def _key(expression: str, kind: SparkType, depth: int) -> str:
    """A value that can be grouped by and is equal exactly where the original is."""
    if not _holds_map(kind):
        return expression
    variable = f"y{depth}"
    if kind.name == "array":
        return f"transform({expression}, {variable} -> {_key(variable, kind.inner[0], depth + 1)})"
    if kind.name == "struct":
        fields = ", ".join(_key(f"{expression}.{sql.identifier(f.name)}", f.type, depth) for f in kind.fields)
        return f"if({expression} is null, null, struct({fields}))"
    value = _key(f"{variable}.value", kind.inner[1], depth + 1)
    return f"sort_array(transform(map_entries({expression}), {variable} -> struct({variable}.key, {value})))"
