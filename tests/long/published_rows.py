"""The rows of `published_tables`: few columns, or many of all types with odd names and values."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from functools import cached_property
from random import Random
from typing import Any

import pyarrow as pa

from tests.support.table_readers import hashable

POOL = 40  # different rows, nearly all of which differ in most columns


def hash_of(row: Sequence) -> int:
    """A hash of a row as Spark's would be: the same for equal rows."""
    return hash(("salt", *map(hashable, row))) & (2**62 - 1)


class FewColumns:
    """Rows of three columns. A row's key is the tuple of its values."""

    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("tags", pa.list_(pa.string()))])
    deleted = "id < {}"  # what another tool deletes: given a number below 10

    def key(self, chance: Random) -> Hashable:
        few = chance.random() < 0.8
        number = chance.randrange(10 if few else 10_000)
        return number, chance.choice(["a", "b", None]), chance.choice([(), ("x",), None])

    def values(self, key: Any) -> tuple:
        return key


class ManyColumns:
    """Rows of 60 columns. A row's key is its number in a pool."""

    names = ("id", "a b", "größe (cm)", "x.y", "select", "semi;colon", "quo`te", "日本", "_hidden", "UPPER")
    types: tuple[tuple[pa.DataType, list], ...] = (
        (pa.string(), ["", "a", "ü\u0301 \U0001f600", "'\"\\\n\t", "x" * 300, "\ue000\uffff", None]),
        (pa.float64(), [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, 5e-324, None]),
        (pa.float32(), [0.0, -0.0, math.nan, 1.5, None]),
        (pa.decimal128(38, 18), [Decimal("0"), Decimal("12345678901234567890.123456789012345678"), None]),
        (pa.decimal128(9, 2), [Decimal("-0.01"), Decimal("9999999.99"), None]),
        (pa.timestamp("us", "UTC"), [datetime(2026, 3, 29, 1, 30, 0, 7, timezone.utc), datetime(1900, 1, 1, tzinfo=timezone.utc), None]),
        (pa.timestamp("us"), [datetime(2026, 3, 29, 2, 30, 0, 1), datetime(1969, 12, 31, 23, 59), None]),
        (pa.date32(), [date(1, 1, 1), date(2026, 11, 28), date(9999, 12, 31), None]),
        (pa.bool_(), [True, False, None]),
        (pa.int8(), [-128, 127, None]),
        (pa.int16(), [-32768, 5, None]),
        (pa.int32(), [-(2**31), 7, None]),
        (pa.int64(), [-(2**63), 2**63 - 1, None]),
        (pa.binary(), [b"", b"\x00\xff", None]),
        (pa.list_(pa.int64()), [[], [1, None], None]),
        (pa.list_(pa.list_(pa.string())), [[["a"], [], None], None]),
        (pa.map_(pa.string(), pa.int64()), [[], [("a", 1), ("b", None)], None]),
        (pa.struct([("x y", pa.int64()), ("in", pa.list_(pa.float64()))]), [{"x y": 1, "in": [-0.0, None]}, {"x y": None, "in": None}, None]),
    )  # fmt: skip
    deleted = "id < {}"
    nested_maps = True

    def __init__(self, chance: Random):
        self.chance = chance
        kinds = [(pa.int64(), [*range(10)]), *(self.types * 4)[:59]]
        names = [*self.names, *(f"c{n}" for n in range(len(self.names), 60))]
        self.schema = pa.schema([(name, kind) for name, (kind, _) in zip(names, kinds)])
        self.cells = [cells for _, cells in kinds]

    @cached_property
    def pool(self) -> list[tuple]:
        """As Arrow gives these values back."""
        columns = [[self.chance.choice(cells) for _ in range(POOL)] for cells in self.cells]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self.schema)]
        return [tuple(row.values()) for row in pa.table(arrays, schema=self.schema).to_pylist()]

    def key(self, chance: Random) -> Hashable:
        return chance.randrange(POOL)

    def values(self, key: Any) -> tuple:
        return self.pool[key]
