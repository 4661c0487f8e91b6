"""Which Spark types a shard keeps, and which it refuses by name."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dbt.adapters.mvsink.engine import UnsupportedType, parse_type
from dbt.adapters.mvsink.engine.types import ATOMS, spark_type

NESTED = {
    "array<int>": pa.list_(pa.int32()),
    "array<array<string>>": pa.list_(pa.list_(pa.string())),
    "map<string,decimal(10,2)>": pa.map_(pa.string(), pa.decimal128(10, 2)),
    "struct<a:int,b:struct<c:map<int,array<double>>>>": pa.struct(
        [("a", pa.int32()), ("b", pa.struct([("c", pa.map_(pa.int32(), pa.list_(pa.float64())))]))]
    ),
    "decimal(38,18)": pa.decimal128(38, 18),
}
REFUSED = ["variant", "interval day", "void", "time(6)", "string collate UTF8_LCASE", "array<variant>", "map<int,void>",
           "struct<a:interval year>", "object", "geometry(4326)"]  # fmt: skip


@pytest.mark.parametrize("text", [*ATOMS, *NESTED])
def test_supported_types_round_trip_through_arrow(text):
    parsed = parse_type(text, "c")
    assert parsed.arrow() == {**ATOMS, **NESTED}[text]
    assert spark_type(parsed.arrow()).text == text


@pytest.mark.parametrize("text", ["char(3)", "varchar(10)"])
def test_character_types_are_strings(text):
    assert parse_type(text, "c").text == "string"


@pytest.mark.parametrize("text", REFUSED)
def test_other_types_are_refused_by_name(text):
    with pytest.raises(UnsupportedType) as error:
        parse_type(text, "payload")
    assert "`payload`" in str(error.value) and "cast it to one of: boolean" in str(error.value)
