"""A table's columns in Iceberg's terms: their types, and the ids of their fields.

Iceberg identifies fields by ids, but our data files only have names. The property
`schema.name-mapping.default` maps every name to its id. A name keeps its id for good. Names that
the table no longer has stay in the mapping, because older files have them. So do the shard's own
columns, with ids that no column of the table has:

    id: 1, tags: 2, tags.element: 3, _mv_time: 2000000000
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyiceberg import types as ice
from pyiceberg.schema import Schema

from dbt.adapters.mvsink.physical import META
from dbt.adapters.mvsink.shard.errors import InvalidUsage
from dbt.adapters.mvsink.shard.stored import Unreadable, parsed

MAPPING = "schema.name-mapping.default"
HIDDEN = 2_000_000_000  # from here on, ids of no column; Iceberg reserves only higher ones
ELEMENT, KEY, VALUE = "element", "key", "value"
MAX_DIGITS = 38
Path = tuple[str, ...]
Ids = Mapping[Path, int]
ALLOWED = (
    "boolean, tinyint, smallint, int, bigint, float, double, decimal, string, binary, date, timestamp, timestamp_ntz, array, "
    "map and struct"
)
PRIMITIVES: dict[pa.DataType, Callable[[], ice.IcebergType]] = {
    pa.bool_(): ice.BooleanType,
    pa.int8(): ice.IntegerType,  # Parquet keeps it in 32 bits
    pa.int16(): ice.IntegerType,
    pa.int32(): ice.IntegerType,
    pa.int64(): ice.LongType,
    pa.float32(): ice.FloatType,
    pa.float64(): ice.DoubleType,
    pa.string(): ice.StringType,
    pa.binary(): ice.BinaryType,
    pa.date32(): ice.DateType,
    pa.timestamp("us"): ice.TimestampType,
    pa.timestamp("us", tz="UTC"): ice.TimestamptzType,
}


class NoIcebergType(InvalidUsage):
    """A column whose type an Iceberg table of format version 2 cannot have."""

    error_code = "MVS-251"

    def __init__(self, column: str, kind: pa.DataType):
        super().__init__(
            f"column `{column}` cannot be in an Iceberg table\n  Got: {kind}\n  Expected: {ALLOWED}, and arrays, maps and structs of them"
        )


def ids_in(mapping: str | None) -> dict[Path, int]:
    """The ids in a name mapping, by path. Empty if the mapping cannot be read.

    >>> ids_in('[{"field-id": 1, "names": ["s"], "fields": [{"field-id": 2, "names": ["a"]}]}]')
    {('s',): 1, ('s', 'a'): 2}
    """
    try:
        return dict(_mapped((), parsed(mapping or "[]")))
    except (Unreadable, AttributeError, KeyError, TypeError):
        return {}


def _mapped(above: Path, fields: Any) -> Iterator[tuple[Path, int]]:
    for field in fields:
        for name in field["names"]:
            path = (*above, str(name))
            if "field-id" in field:
                yield path, int(field["field-id"])
            yield from _mapped(path, field.get("fields") or ())


def mapping_of(ids: Ids) -> str:
    """The name mapping with these ids."""
    return json.dumps(_fields((), ids))


def _fields(above: Path, ids: Ids) -> list[dict[str, Any]]:
    fields = []
    for path, number in ids.items():
        if path[:-1] == above:
            field: dict[str, Any] = {"field-id": number, "names": [path[-1]]}
            if below := _fields(
                path, {other: each for other, each in ids.items() if other[: len(path)] == path}
            ):
                field["fields"] = below
            fields.append(field)
    return fields


def with_ids(columns: pa.Schema, known: Ids, last: int) -> dict[Path, int]:
    """The ``known`` ids, and new ones for the other paths of these columns, which begin after
    ``last``, the last id that the table has used.
    """
    paths = [path for field in columns for path in _paths((field.name,), field.type)]
    ids = _with_one_path({path: number for path, number in known.items() if path[0] not in META}, paths)
    following = max([last, *ids.values()]) + 1
    for path in paths:
        if path not in ids:
            ids[path], following = following, following + 1
    return {**ids, **{(name,): HIDDEN + number for number, name in enumerate(META)}}


def _with_one_path(ids: Ids, preferred: Collection[Path]) -> dict[Path, int]:
    """Each id with one of its paths. If another tool renames a column, the mapping's entry has both
    names; entries of their own with one id would be an error to readers.
    """
    kept: dict[int, Path] = {}
    for path in sorted(ids, key=lambda each: each not in preferred):
        kept.setdefault(ids[path], path)
    return {path: number for path, number in ids.items() if kept[number] == path}


def _paths(path: Path, kind: pa.DataType) -> Iterator[Path]:
    yield path
    for name, inner in _inner(kind):
        yield from _paths((*path, name), inner)


def _inner(kind: pa.DataType) -> list[tuple[str, pa.DataType]]:
    if pa.types.is_struct(kind):
        return [(field.name, field.type) for field in kind]
    if pa.types.is_map(kind):
        return [(KEY, kind.key_type), (VALUE, kind.item_type)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [(ELEMENT, kind.value_type)]
    return []


def iceberg_schema(columns: pa.Schema, comments: Mapping[str, str], ids: Ids, schema_id: int = 0) -> Schema:
    """These columns, all of them optional. Raises `NoIcebergType`."""
    fields = (
        ice.NestedField(
            ids[(field.name,)],
            field.name,
            _typed((field.name,), field.type, ids),
            required=False,
            doc=comments.get(field.name) or None,
        )
        for field in columns
    )
    return Schema(*fields, schema_id=schema_id)


def _typed(path: Path, kind: pa.DataType, ids: Ids) -> ice.IcebergType:
    parts = {name: _typed((*path, name), inner, ids) for name, inner in _inner(kind)}
    if pa.types.is_struct(kind) and parts:
        nested = (
            ice.NestedField(ids[(*path, name)], name, each, required=False) for name, each in parts.items()
        )
        return ice.StructType(*nested)
    if pa.types.is_map(kind):
        return ice.MapType(
            ids[(*path, KEY)], parts[KEY], ids[(*path, VALUE)], parts[VALUE], value_required=False
        )
    if ELEMENT in parts:
        return ice.ListType(ids[(*path, ELEMENT)], parts[ELEMENT], element_required=False)
    if pa.types.is_decimal128(kind) and 0 <= kind.scale <= kind.precision <= MAX_DIGITS:
        return ice.DecimalType(kind.precision, kind.scale)
    if kind not in PRIMITIVES:
        raise NoIcebergType(".".join(path), kind)
    return PRIMITIVES[kind]()
