"""The row hash: 64 bits that agree exactly as rows compare in GROUP BY.

`xxhash64` alone is not faithful: it skips NULLs (so ``(1, NULL)`` equals ``(NULL, 1)``) and, inside
arrays, both NULLs and empty arrays; and it refuses maps. So NULL positions go in as a bit mask, and
a nested value goes in as a digest of its size and of its elements' digests. -0.0 against 0.0 and
the NaNs are equal for `xxhash64` itself, as they are for GROUP BY. The shard's salt comes first, so
that one bucket cannot be filled on purpose.

The rows that are *written* never depend on this hash: see `correction`. But a change that does not
change the hash is not detected: by chance, one in 2^64. The salt does not protect against someone
who chooses the values: `xxhash64` has collisions of 32 bytes and more for every seed.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.engine.types import Column, SparkType

MASK_WIDTH = 62  # bits of NULL positions in one BIGINT literal sum, clear of the sign


def row_hash(columns: Sequence[Column], salt: int, error: str | None = None) -> str:
    """The hash of a row as a BIGINT expression over its columns.

    ``error`` names the column that holds an error update's message; where it is NULL (a normal row)
    it changes nothing, because `xxhash64` skips it.
    """
    expressions = [sql.identifier(column.name) for column in columns]
    parts = [sql.bigint(salt), *null_masks(expressions)]
    parts += [
        value_hash(name, column.type, depth=0) for name, column in zip(expressions, columns, strict=True)
    ]
    if error is not None:
        parts.append(error)
    return f"xxhash64({', '.join(parts)})"


def null_masks(expressions: Sequence[str]) -> list[str]:
    """NULL positions as BIGINT sums of bits, one for every 62 columns."""
    masks = []
    for start in range(0, len(expressions), MASK_WIDTH):
        bits = [
            f"if({expression} is null, {2**offset}L, 0L)"
            for offset, expression in enumerate(expressions[start : start + MASK_WIDTH])
        ]
        masks.append(" + ".join(bits))
    return masks


def value_hash(expression: str, kind: SparkType, depth: int) -> str:
    """An expression that `xxhash64` hashes faithfully for a non-NULL value (NULL stays NULL)."""
    if not kind.nested:
        return expression
    if kind.name == "struct":
        fields = [f"{expression}.{sql.identifier(field.name)}" for field in kind.fields]
        digests = [
            value_hash(name, field.type, depth) for name, field in zip(fields, kind.fields, strict=True)
        ]
        return f"if({expression} is null, null, xxhash64({', '.join([*null_masks(fields), *digests])}))"
    variable = f"x{depth}"
    if kind.name == "array":
        element = _whole(variable, kind.inner[0], depth + 1)
        return f"if({expression} is null, null, xxhash64(size({expression}), transform({expression}, {variable} -> {element})))"
    key = _whole(f"{variable}.key", kind.inner[0], depth + 1)
    value = _whole(f"{variable}.value", kind.inner[1], depth + 1)
    entries = f"transform(map_entries({expression}), {variable} -> xxhash64({key}, {value}))"
    # A map has no order, so its entries' digests are sorted.
    return f"if({expression} is null, null, xxhash64(size({expression}), sort_array({entries})))"


def _whole(expression: str, kind: SparkType, depth: int) -> str:
    """A digest that is never NULL: of an element, a key or a value."""
    return f"xxhash64(if({expression} is null, 1, 0), {value_hash(expression, kind, depth)})"
