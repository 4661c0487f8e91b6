"""The columns of an Iceberg table: types, and ids that stay."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.engine.types import ATOMS, Column, arrow_schema, parse_type
from dbt.adapters.mvsink.physical import META
from dbt.adapters.mvsink.published.iceberg_schema import (
    HIDDEN,
    NoIcebergType,
    iceberg_schema,
    ids_in,
    mapping_of,
    with_ids,
)

NESTED = pa.schema(
    [
        ("id", pa.int64()),
        ("tags", pa.list_(pa.struct([("a", pa.int8()), ("b", pa.map_(pa.string(), pa.date32()))]))),
    ]
)


def schema_of(columns, known=None, last=0):
    return iceberg_schema(columns, {}, with_ids(columns, known or {}, last))


@pytest.mark.parametrize(
    "spark, iceberg",
    {
        "boolean": "boolean",
        "tinyint": "int",
        "smallint": "int",
        "int": "int",
        "bigint": "long",
        "float": "float",
        "double": "double",
        "decimal(38,2)": "decimal(38, 2)",
        "string": "string",
        "binary": "binary",
        "date": "date",
        "timestamp": "timestamptz",
        "timestamp_ntz": "timestamp",
        "array<int>": "list<int>",
        "map<string,array<bigint>>": "map<string, list<long>>",
    }.items(),
)
def test_types(spark, iceberg):
    columns = arrow_schema((Column("x", parse_type(spark, "x")),))
    assert str(schema_of(columns).fields[0].field_type) == iceberg


def test_every_type_of_a_shard_has_one():
    schema_of(pa.schema([(name, kind) for name, kind in ATOMS.items()]))


@pytest.mark.parametrize(
    "kind, path",
    [
        (pa.duration("us"), "x"),
        (pa.month_day_nano_interval(), "x"),
        (pa.timestamp("ns"), "x"),
        (pa.list_(pa.struct([("at", pa.time64("us"))])), "x.element.at"),
        (pa.decimal128(5, -2), "x"),
        (pa.struct([]), "x"),
    ],
)
def test_other_types_are_refused_with_their_path(kind, path):
    with pytest.raises(
        NoIcebergType, match=f"column `{path}` cannot be in an Iceberg table\n  Got: .*\n  Expected: boolean"
    ):
        schema_of(pa.schema([("x", kind)]))


def test_every_name_is_mapped_and_the_shards_own_columns_have_ids_of_no_column():
    mapping = mapping_of(with_ids(NESTED, {}, 0))
    ids = ids_in(mapping)
    assert set(ids) - {(name,) for name in META} == {
        ("id",),
        ("tags",),
        ("tags", "element"),
        ("tags", "element", "a"),
        ("tags", "element", "b"),
        ("tags", "element", "b", "key"),
        ("tags", "element", "b", "value"),
    }
    assert len(set(ids.values())) == len(ids)
    assert all(ids[(name,)] >= HIDDEN for name in META)
    names = {name for field in json.loads(mapping) for name in field["names"]}
    assert names == {*NESTED.names, *META}


def test_ids_stay_and_none_is_given_twice():
    first = with_ids(NESTED, {}, 0)
    without = with_ids(pa.schema([("new", pa.int64()), ("tags", NESTED.field("tags").type)]), first, 12)
    assert {path: without[path] for path in first} == first  # also of `id`, which older files have
    assert without[("new",)] == 13  # another tool had taken those up to 12
    again = with_ids(NESTED, ids_in(mapping_of(without)), 13)
    assert again == without


@pytest.mark.parametrize("text", [None, "", "{", "{}", "[1]", '[{"names": 3}]'])
def test_a_mapping_that_cannot_be_read_gives_no_ids(text):
    assert ids_in(text) == {}
