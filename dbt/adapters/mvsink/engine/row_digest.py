"""The row digest: a cryptographic hash of a row, independent of the row hash.

SHA-256 over a text in which different rows are different: the NULL positions, then each value, one
of varying length after its length. A nested value goes in by its row hash, a decimal of up to 18
digits by the hash of its 8 bytes, which is one to one. Rows that GROUP BY takes as equal have equal
digests.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.engine.row_hash import null_masks, value_hash
from dbt.adapters.mvsink.engine.types import Column

# as numbers: their texts depend on no session
AS_NUMBERS = {"date": "unix_date({})", "timestamp": "unix_micros({})", "boolean": "int({})"}
INTEGERS = ("tinyint", "smallint", "int", "bigint")
MAX_LONG_PRECISION = 18  # of a decimal that Spark keeps as a long


def row_digest(columns: Sequence[Column], error: str) -> str:
    """The digest of a row as 64 hexadecimal digits; ``error`` names the column of its error."""
    names = [sql.identifier(column.name) for column in columns]
    parts = [f"string({mask})" for mask in null_masks([*names, error])]
    for name, column in zip(names, columns, strict=True):
        parts += _texts(name, column)
    parts += _varying(error)
    return f"sha2(concat_ws('|', {', '.join(parts)}), 256)"


def _texts(name: str, column: Column) -> list[str]:
    """Texts that are never NULL; only the last of several can have a `|`."""
    kind = column.type.name
    if column.type.nested:
        return [f"coalesce(string({value_hash(name, column.type, depth=0)}), '')"]
    if kind in AS_NUMBERS:
        return [f"coalesce(string({AS_NUMBERS[kind].format(name)}), '')"]
    if kind == "decimal" and column.type.arrow().precision <= MAX_LONG_PRECISION:
        # XXH64 maps the 8 bytes of a long one to one, and takes a fifth of the time of a text
        return [f"coalesce(hex(xxhash64({name})), '')"]
    if kind in INTEGERS or kind == "decimal":
        return [f"coalesce(string({name}), '')"]
    if kind in ("float", "double"):
        return [f"coalesce(string({name} + cast(0 as {kind})), '')"]  # -0.0 equals 0.0
    return [f"coalesce(hex({name}), '')"] if kind == "binary" else _varying(f"string({name})")


def _varying(text: str) -> list[str]:
    return [f"string(coalesce(length({text}), 0))", f"coalesce({text}, '')"]
