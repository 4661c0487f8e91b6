"""Spark's types: which ones a shard can store, and as which Arrow type.

The text comes from ``DESCRIBE QUERY``: ``int``, ``decimal(10,2)``,
``struct<a:int,b:array<string>>``. Field names are unquoted there, so a nested field name that
contains ``:,<>`` is ambiguous and refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.engine.errors import UnsupportedType

ATOMS: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
SUPPORTED = (*ATOMS, "decimal", "array", "map", "struct")
_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")
PADDED = re.compile(r"\bchar\(", re.IGNORECASE)  # CHAR(n), which Spark pads where it reads it
_CHARACTERS = re.compile(r"(?:var)?char\(\d+\)")


@dataclass(frozen=True)
class Field:
    """A field of a struct."""

    name: str
    type: SparkType


@dataclass(frozen=True)
class SparkType:
    """A type of kind ``name``. ``inner`` is the type of elements, or of keys and values; ``fields``
    are those of a struct.
    """

    text: str
    name: str
    inner: tuple[SparkType, ...] = ()
    fields: tuple[Field, ...] = ()

    @property
    def nested(self) -> bool:
        return self.name in ("array", "map", "struct")

    @property
    def spelled(self) -> str:
        """The type as a statement spells it, which means this type under every setting of a
        session.

        >>> parse_type("struct<at:timestamp,n:array<int>>", "s").spelled
        'struct<`at`:timestamp_ltz,`n`:array<int>>'
        """
        if self.name == "timestamp":  # what this name means depends on spark.sql.timestampType
            return "timestamp_ltz"
        if self.name == "struct":
            fields = (f"{sql.identifier(field.name)}:{field.type.spelled}" for field in self.fields)
            return f"struct<{','.join(fields)}>"
        inner = ",".join(part.spelled for part in self.inner)
        return f"{self.name}<{inner}>" if inner else self.text

    def arrow(self) -> pa.DataType:
        """The Arrow type of this column in the shard."""
        if self.name == "decimal":
            match = _DECIMAL.fullmatch(self.text)
            assert match is not None
            return pa.decimal128(int(match[1]), int(match[2]))
        if self.name == "array":
            return pa.list_(self.inner[0].arrow())
        if self.name == "map":
            return pa.map_(self.inner[0].arrow(), self.inner[1].arrow())
        if self.name == "struct":
            return pa.struct([pa.field(field.name, field.type.arrow()) for field in self.fields])
        return ATOMS[self.name]


@dataclass(frozen=True)
class Column:
    """A column of the model: its name as the query gives it, and its type."""

    name: str
    type: SparkType


def columns_evolved(added: tuple[Column, ...], widened: tuple[Column, ...]) -> str:
    """The columns that were added, and those that have a wider type, in words.

    >>> n = Column("n", parse_type("double", "n"))
    >>> columns_evolved((Column("c", parse_type("bigint", "c")),), (n,))
    'columns added: c bigint; columns widened: n double'
    """
    parts = (("added", added), ("widened", widened))
    return "; ".join(
        f"columns {what}: {', '.join(f'{column.name} {column.type.text}' for column in columns)}"
        for what, columns in parts
        if columns
    )


def parse_type(text: str, column: str) -> SparkType:
    """Read a type's text. Raises `UnsupportedType`, with column and type, if a shard cannot keep
    it.
    """
    text = text.strip()
    if text in ATOMS:
        return SparkType(text, text)
    if _CHARACTERS.fullmatch(text):
        return SparkType("string", "string")
    if _DECIMAL.fullmatch(text):
        return SparkType(text, "decimal")
    if text.startswith("array<") and text.endswith(">"):
        return SparkType(text, "array", (parse_type(text[6:-1], column),))
    if text.startswith("map<") and text.endswith(">"):
        parts = _split(text[4:-1])
        if len(parts) == 2:
            return SparkType(text, "map", (parse_type(parts[0], column), parse_type(parts[1], column)))
    if text.startswith("struct<") and text.endswith(">"):
        return SparkType(text, "struct", fields=tuple(_field(part, column) for part in _split(text[7:-1])))
    raise UnsupportedType(column, text, SUPPORTED)


def _field(part: str, column: str) -> Field:
    name, colon, type_text = part.partition(":")
    if not colon or not name:
        raise UnsupportedType(column, part, SUPPORTED)
    sql.check_name(name)
    return Field(name, parse_type(type_text, column))


def _split(text: str) -> list[str]:
    """Split at the commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        if character in "<(":
            depth += 1
        elif character in ">)":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    if text:
        parts.append(text[start:])
    return parts


def arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """The shard's schema for these columns; every column is nullable."""
    return pa.schema([pa.field(column.name, column.type.arrow()) for column in columns])


def spark_type(arrow: pa.DataType) -> SparkType:
    """The inverse of `SparkType.arrow`, for a shard that was opened without its query."""
    if pa.types.is_decimal(arrow):
        return SparkType(f"decimal({arrow.precision},{arrow.scale})", "decimal")
    if pa.types.is_map(arrow):
        key, value = spark_type(arrow.key_type), spark_type(arrow.item_type)
        return SparkType(f"map<{key.text},{value.text}>", "map", (key, value))
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        element = spark_type(arrow.value_type)
        return SparkType(f"array<{element.text}>", "array", (element,))
    if pa.types.is_struct(arrow):
        fields = tuple(Field(f.name, spark_type(f.type)) for f in arrow)
        return SparkType(
            f"struct<{','.join(f'{field.name}:{field.type.text}' for field in fields)}>",
            "struct",
            fields=fields,
        )
    if pa.types.is_large_string(arrow) or pa.types.is_string(arrow) or pa.types.is_string_view(arrow):
        return SparkType("string", "string")
    if pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow) or pa.types.is_binary_view(arrow):
        return SparkType("binary", "binary")
    for name, atom in ATOMS.items():
        if atom.equals(arrow):
            return SparkType(name, name)
    raise UnsupportedType("", str(arrow), SUPPORTED)


def shard_columns(schema: pa.Schema) -> tuple[Column, ...]:
    """The columns of a shard, in its order."""
    return tuple(Column(field.name, spark_type(field.type)) for field in schema)


def plain(value: object) -> Any:
    """A JSON value; values that JSON does not have (times, decimals, NaN) become texts, and bytes
    hexadecimal.

    >>> import datetime as dt
    >>> plain([1, None, dt.date(2026, 1, 2), b"a", float("nan")])
    [1, None, '2026-01-02', '61', 'nan']
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes | bytearray):
        return value.hex()
    named = getattr(value, "asDict", None)  # a Spark struct
    if named is not None:
        value = named()
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return str(value)
