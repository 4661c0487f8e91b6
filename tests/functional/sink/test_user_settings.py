"""Settings of a user's session that change how Spark writes and reads files: what a shard holds is
exact all the same.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable

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
SETTINGS = {
    "none": {},
    "milliseconds": {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS"},
    "INT96": {
        "spark.sql.parquet.outputTimestampType": "INT96",
        "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
    },
    "the old calendar": {"spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY"},
    "no days before 1582": {"spark.sql.parquet.datetimeRebaseModeInWrite": "EXCEPTION"},
    "the old format": {"spark.sql.parquet.writeLegacyFormat": "true"},
    "timestamps without a zone": {"spark.sql.timestampType": "TIMESTAMP_NTZ"},
    "another zone": {"spark.sql.session.timeZone": "Asia/Kolkata"},
    "reading": {
        "spark.sql.parquet.binaryAsString": "true",
        "spark.sql.parquet.int96AsTimestamp": "false",
        "spark.sql.parquet.inferTimestampNTZ.enabled": "false",
        "spark.sql.parquet.mergeSchema": "true",
        "spark.sql.parquet.filterPushdown": "false",
        "spark.sql.parquet.enableVectorizedReader": "false",
        "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
    },
}


@pytest.fixture(params=SETTINGS.values(), ids=SETTINGS)
def given(request, spark):
    before = {name: spark.conf.get(name) for name in request.param}
    for name, value in request.param.items():
        spark.conf.set(name, value)
    yield request.param
    for name, value in before.items():
        spark.conf.set(name, value)


def test_contents_are_exact_and_a_change_of_a_microsecond_is_seen(spark, tmp_path, given):
    model = Model(spark, tmp_path)
    query, changed = (text.replace("timestamp '", "timestamp_ltz '") for text in (QUERY, CHANGED))
    assert model.run(query).counts.inserted == 3
    assert {name: spark.conf.get(name) for name in given} == given
    model.assert_holds(query)
    assert model.run(query).counts.nothing
    outcome = model.run(changed)
    assert (outcome.counts.inserted, outcome.counts.deleted) == (1, 1)
    model.assert_holds(changed)
    for batch in outcome.state.files:
        assert batch.trusted
    held = DeltaTable(model.uri).to_pyarrow_dataset().to_table()
    assert held.schema.field("at").type == pa.timestamp("us", tz="UTC")
    assert held.num_rows == 5 and {str(day) for day in held.column("day").to_pylist()} == {
        day for _, day in ROWS
    }
