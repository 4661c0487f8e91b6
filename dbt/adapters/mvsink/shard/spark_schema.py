"""The types of a file's columns as Spark writes them beside Parquet's own. Parquet has a type for
times without a zone, but a session of Spark can be set to read it as one with a zone
(`spark.sql.parquet.inferTimestampNTZ.enabled`), unless the file says more.

>>> '"type": "timestamp_ntz"' in row_metadata(pa.schema([("at", pa.timestamp("us"))]))
True
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

KEY = b"org.apache.spark.sql.parquet.row.metadata"
_PLAIN = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
}


class _NoType(Exception):
    """Spark has no type for it, or another reading of it."""


def described(schema: pa.Schema) -> pa.Schema:
    """``schema`` with this text in the file's metadata; as it is if a type is none of Spark's."""
    text = row_metadata(schema)
    return schema if text is None else schema.with_metadata({**(schema.metadata or {}), KEY: text.encode()})


def row_metadata(schema: pa.Schema) -> str | None:
    """The columns in Spark's form; None if a type is none of Spark's."""
    try:
        return json.dumps(_struct(list(schema)))
    except _NoType:
        return None


def _struct(fields: list[pa.Field]) -> dict[str, Any]:
    return {
        "type": "struct",
        "fields": [
            {"name": each.name, "type": _type(each.type), "nullable": True, "metadata": {}} for each in fields
        ],
    }


def _type(kind: pa.DataType) -> Any:
    if kind in _PLAIN:
        return _PLAIN[kind]
    if pa.types.is_timestamp(kind):
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_struct(kind):
        return _struct([kind.field(number) for number in range(kind.num_fields)])
    if pa.types.is_map(kind):
        value = {"valueType": _type(kind.item_type), "valueContainsNull": True}
        return {"type": "map", "keyType": _type(kind.key_type), **value}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return {"type": "array", "elementType": _type(kind.value_type), "containsNull": True}
    raise _NoType(kind)
