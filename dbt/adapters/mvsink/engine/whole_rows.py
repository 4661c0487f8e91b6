"""Whole rows: added up, hashed and digested, and equal exactly where GROUP BY finds them equal.

**Adding up.** Spark can group by a map, but not faithfully: up to Spark 4.3 a NULL value of a
primitive type becomes 0. So a column that contains a map is grouped by a key made of its sorted
entries, and any one of the group's (equal) values is returned.

**The row hash** has 64 bits. `xxhash64` alone is not faithful: it skips NULLs (so ``(1, NULL)``
equals ``(NULL, 1)``) and, inside arrays, both NULLs and empty arrays; and it refuses maps. So NULL
positions go in as a bit mask, and a nested value goes in as a digest of its size and of its
elements' digests. `xxhash64` itself treats -0.0 and 0.0 as equal, and all NaNs, as GROUP BY does.
The shard's salt comes first, so that one bucket cannot be filled on purpose.

The rows that are *written* never depend on this hash (see `correction`). But a change that does not
change the hash is not detected; the probability of that is 2^-64. The salt does not protect against
someone who chooses the values: `xxhash64` has collisions of 32 bytes and more for every seed.

**The row digest** is a cryptographic hash of a row, independent of the row hash: SHA-256 over a
text that differs for different rows. The text has the same count of numbers for every row, then
texts, whose lengths are among the numbers. A number has one spelling, followed by `|`. Spelling
takes longer than hashing, so two values of up to 32 bits share a number. A nested value goes in by
its row hash; a decimal of up to 18 digits, a float and a double go in by the hash of their 4 or 8
bytes, which is one to one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

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
    """An expression that can be grouped by, compared and ordered, and is equal exactly where the
    original is.
    """
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
    """A digest, never NULL, of an element, a key or a value."""
    return f"xxhash64(if({expression} is null, 1, 0), {value_hash(expression, kind, depth)})"


# as integers: their texts depend on no session
SMALL = {"boolean": "int({})", "tinyint": "{}", "smallint": "{}", "int": "{}", "date": "unix_date({})"}
LONG = {"bigint": "{}", "timestamp": "unix_micros({})"}
MASK = 2**32 - 1
MAX_LONG_PRECISION = 18  # of a decimal that Spark keeps as a long


def row_digest(columns: Sequence[Column], error: str) -> str:
    """The digest of a row as 64 hexadecimal digits; ``error`` names the column of its error."""
    row = _Spelled()
    for column in columns:
        row.add(sql.identifier(column.name), column)
    row.add_text(error)
    masks = null_masks([*(sql.identifier(column.name) for column in columns), error])
    numbers = ", ".join(f"hex({number}), '|'" for number in (*masks, *row.long, *_paired(row.small)))
    return f"sha2(concat({numbers}, {', '.join(row.texts)}), 256)"


@dataclass
class _Spelled:
    """Expressions for the columns so far, never NULL: INT and BIGINT numbers, and texts."""

    small: list[str] = field(default_factory=list)
    long: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def add(self, name: str, column: Column) -> None:
        kind = column.type.name
        if column.type.nested:
            self._add_long(value_hash(name, column.type, depth=0))
        elif kind in SMALL:
            self.small.append(f"coalesce({SMALL[kind].format(name)}, 0)")
        elif kind in LONG:
            self._add_long(LONG[kind].format(name))
        elif kind in ("float", "double"):
            self._add_long(f"xxhash64({name} + cast(0 as {kind}))")  # -0.0 equals 0.0
        elif kind == "decimal" and column.type.arrow().precision <= MAX_LONG_PRECISION:
            self._add_long(f"xxhash64({name})")
        else:
            self.add_text(f"hex({name})" if kind == "binary" else f"string({name})")

    def add_text(self, text: str) -> None:
        self.texts.append(f"coalesce({text}, '')")
        self.small.append(f"coalesce(octet_length({text}), 0)")

    def _add_long(self, number: str) -> None:
        self.long.append(f"coalesce({number}, 0L)")


def _paired(small: Sequence[str]) -> list[str]:
    """The INT expressions, two in each BIGINT."""
    pairs = [small[at : at + 2] for at in range(0, len(small), 2)]
    return [
        f"shiftleft(cast({pair[0]} as bigint), 32) | (cast({pair[1]} as bigint) & {MASK}L)"
        if len(pair) == 2
        else pair[0]
        for pair in pairs
    ]
