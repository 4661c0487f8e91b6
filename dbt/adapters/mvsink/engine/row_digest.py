"""The row digest: a cryptographic hash of a row, independent of the row hash.

SHA-256 over a text in which different rows are different: numbers, as many in every row, then
texts, whose lengths are among the numbers. A number has one spelling, and a `|` behind it. Spelling
takes longer than hashing, so two values of up to 32 bits share a number. A nested value goes in by
its row hash; a decimal of up to 18 digits, a float and a double by the hash of their 4 or 8 bytes,
which is one to one. Rows that GROUP BY takes as equal have equal digests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.engine.row_hash import null_masks, value_hash
from dbt.adapters.mvsink.engine.types import Column

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
    """INT expressions, two in each BIGINT."""
    pairs = [small[at : at + 2] for at in range(0, len(small), 2)]
    return [
        f"shiftleft(cast({pair[0]} as bigint), 32) | (cast({pair[1]} as bigint) & {MASK}L)"
        if len(pair) == 2
        else pair[0]
        for pair in pairs
    ]
