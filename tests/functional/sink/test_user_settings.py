"""A shard's contents are exact whatever a user's session sets for writing and reading files."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from dbt.adapters.mvsink.shard.delta import DeltaStorage
from tests.support.session_engine import Model

pytestmark = pytest.mark.usefixtures("small_data")

COLUMNS = """timestamp '{0}' as at, timestamp_ntz '{0}' as local, date '{1}' as day, array(timestamp '{0}') as times,
    cast(1.25 as decimal(9, 2)) as price, cast('x' as binary) as bytes"""
ROWS = [
    ("2026-01-02 03:04:05.678901", "2026-01-02"),
    ("9999-12-31 23:59:59.999999", "9999-12-31"),
    ("1001-01-01 00:00:00.000001", "1001-01-01"),
]
QUERY = " union all ".join("select " + COLUMNS.format(*row) for row in ROWS)
CHANGED = QUERY.replace("678901", "678902")  # a microsecond
SETTINGS = {  # each changes what Spark would write or read by itself; a group has one value of each
    "none": {},
    "milliseconds, the old calendar and format, another zone": {
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
        "spark.sql.parquet.writeLegacyFormat": "true",
        "spark.sql.session.timeZone": "Asia/Kolkata",
    },
    "INT96, no days before 1582, timestamps without a zone, reading": {
        "spark.sql.parquet.outputTimestampType": "INT96",
        "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "EXCEPTION",
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.parquet.binaryAsString": "true",
        "spark.sql.parquet.int96AsTimestamp": "false",
        "spark.sql.parquet.inferTimestampNTZ.enabled": "false",
        "spark.sql.parquet.mergeSchema": "true",
        "spark.sql.parquet.filterPushdown": "false",
        "spark.sql.parquet.enableVectorizedReader": "false",
        "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
    },
    "times without a zone read with one": {
        "spark.sql.parquet.inferTimestampNTZ.enabled": "false",
        "spark.sql.session.timeZone": "Asia/Kolkata",
    },
}


@pytest.fixture(params=SETTINGS.values(), ids=SETTINGS)
def settings(request, spark):
    before = {name: spark.conf.get(name) for name in request.param}
    for name, value in request.param.items():
        spark.conf.set(name, value)
    yield request.param
    for name, value in before.items():
        spark.conf.set(name, value)


def test_contents_are_exact_and_a_change_of_a_microsecond_is_detected(spark, tmp_path, settings):
    model = Model(spark, tmp_path)
    query, changed = (text.replace("timestamp '", "timestamp_ltz '") for text in (QUERY, CHANGED))
    assert model.run(query).counts.inserted == 3
    assert {name: spark.conf.get(name) for name in settings} == settings
    model.assert_holds(query)
    assert model.run(query).counts.nothing
    outcome = model.run(changed)
    assert (outcome.counts.inserted, outcome.counts.deleted) == (1, 1)
    model.assert_holds(changed)
    written_here = [file for file in outcome.state.files if file.path.endswith("/part-00000.parquet")]
    assert written_here  # by this process, not by Spark, which must read it like its own
    for batch in outcome.state.files:
        assert batch.trusted
    stored = DeltaTable(model.uri).to_pyarrow_dataset().to_table()
    assert stored.schema.field("at").type == pa.timestamp("us", tz="UTC")
    assert stored.num_rows == 5 and {str(day) for day in stored.column("day").to_pylist()} == {
        day for _, day in ROWS
    }


SCHEMA = pa.schema(
    [
        *(pa.field(f"c{number}", kind) for number, kind in enumerate([
            pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(),
            pa.binary(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.decimal128(38, 7),
            pa.list_(pa.timestamp("us")), pa.map_(pa.string(), pa.timestamp("us")),
            pa.struct([("a b", pa.timestamp("us")), ("c", pa.list_(pa.decimal128(5, 2)))]),
        ])),
    ]
)  # fmt: skip
TYPES = [
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "string",
    "binary",
    "date",
    "timestamp_ntz",
    "timestamp",
    "decimal(38,7)",
    "array<timestamp_ntz>",
    "map<string,timestamp_ntz>",
]


def test_spark_reads_the_types_of_files_that_are_written_here(spark, tmp_path):
    part = DeltaStorage(str(tmp_path)).write_part("part.parquet", SCHEMA)
    part.write(SCHEMA.empty_table())
    part.close()
    before = spark.conf.get("spark.sql.parquet.inferTimestampNTZ.enabled")
    try:
        spark.conf.set("spark.sql.parquet.inferTimestampNTZ.enabled", "false")
        read = spark.read.parquet(str(tmp_path / "part.parquet")).schema
    finally:
        spark.conf.set("spark.sql.parquet.inferTimestampNTZ.enabled", before)
    assert [each.dataType.simpleString() for each in read] == [
        *TYPES,
        "struct<a b:timestamp_ntz,c:array<decimal(5,2)>>",
    ]
