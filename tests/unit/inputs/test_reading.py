"""What the session decides about an input's rows: its time zone, and how it reads Parquet files."""

from __future__ import annotations

from datetime import datetime, timezone

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.schema import PrimitiveType

from dbt.adapters.mvsink.inputs import (
    DeltaInput,
    FilesInput,
    SessionReadsOtherwise,
    UnsupportedTable,
    ZoneChanged,
    bind_files,
    bind_versions,
)
from dbt.adapters.mvsink.inputs.delta_format import DeltaFormat
from dbt.adapters.mvsink.inputs.described import ZONE
from dbt.adapters.mvsink.inputs.protocol import CatalogTable, TableOptions
from tests.support.delta_tables import append
from tests.support.engines import NoEngine
from tests.support.shards import client


class Session(NoEngine):
    """A session's settings and zone."""

    def __init__(self, zone="UTC", **settings):
        self.zone, self.set = zone, settings

    def facts(self, query, what):
        return [(self.zone,)] if "current_timezone" in query else list(self.set.items())

    def columns(self, query):
        return [("id", "int"), ("at", "timestamp")]


def by_moments(root, *hours):
    """A commit of rows in partitions of moments, which `deltalake` writes without a zone."""
    moments = [datetime(2024, 7, 1, hour, tzinfo=timezone.utc) for hour in hours]
    rows = pa.table({"id": pa.array(hours, pa.int32()), "at": pa.array(moments, pa.timestamp("us", "UTC"))})
    write_deltalake(str(root), rows, mode="append", partition_by=["at"])


def test_row_40_1_partitions_by_moments_without_a_zone_are_read_in_one_zone_for_good(tmp_path):
    by_moments(tmp_path / "t", 10)
    opened, table = client("delta", tmp_path), DeltaInput(str(tmp_path / "t"), "raw.t")
    bound = bind_versions(table, 100, opened, "c", Session("Europe/Berlin"))
    assert bound.handle.state().properties[ZONE] == "Europe/Berlin"
    by_moments(tmp_path / "t", 11)
    with pytest.raises(ZoneChanged, match=r"input raw.t: .*read in\s+'Europe/Berlin' so far, and .* 'UTC'"):
        bind_versions(table, 200, opened, "c", Session("UTC"))
    bound = bind_versions(table, 300, opened, "c", Session("Europe/Berlin"))
    assert [pending.time for pending in bound.pending(101, 301)] == [300]


def test_row_40_1_a_table_that_no_longer_has_such_moments_is_read_in_any_zone(tmp_path):
    by_moments(tmp_path / "t", 10)
    opened, table = client("delta", tmp_path), DeltaInput(str(tmp_path / "t"), "raw.t")
    DeltaTable(tmp_path / "t").delete()
    bind_versions(table, 100, opened, "c", NoEngine())
    by_moments(tmp_path / "t", 11)
    bind_versions(table, 200, opened, "c", Session("UTC"))
    DeltaTable(tmp_path / "t").delete()
    bind_versions(table, 300, opened, "c", Session("UTC"))
    bind_versions(table, 400, opened, "c", Session("Asia/Kathmandu"))


def test_row_40_1_other_tables_ask_for_no_zone(tmp_path):
    append(tmp_path / "t", 1)
    bind_versions(DeltaInput(str(tmp_path / "t")), 100, client("delta", tmp_path), "c", NoEngine())


def test_row_40_1_texts_in_files_are_read_in_one_zone_for_good(tmp_path):
    (tmp_path / "t").mkdir()
    opened = client("delta", tmp_path)
    files = FilesInput("raw.t", "raw.t", str(tmp_path / "t"), zoned=True)
    bind_files(files, 100, opened, "c", Session("Europe/Berlin"))
    with pytest.raises(ZoneChanged, match=r"input raw.t: .*reset the task"):
        bind_files(files, 200, opened, "c", Session("UTC"))


SETTINGS = {
    "spark.sql.caseSensitive": "true",
    "spark.sql.parquet.binaryAsString": "true",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "false",
    "spark.sql.parquet.int96AsTimestamp": "false",
    "spark.sql.legacy.parquet.nanosAsLong": "true",
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_row_40_1_settings_with_which_spark_reads_files_otherwise_are_refused(tmp_path, setting):
    append(tmp_path / "t", 1)
    table = CatalogTable("raw.t", str(tmp_path / "t"))
    for value in (SETTINGS[setting], SETTINGS[setting].upper()):
        engine = Session(**{setting: value})
        with pytest.raises(SessionReadsOtherwise, match=rf"table raw.t: with {setting} = \w+ Spark reads"):
            DeltaFormat().open(table, TableOptions(engine))
    other = "false" if SETTINGS[setting] == "true" else "true"
    assert DeltaFormat().open(table, TableOptions(Session(**{setting: other}))).columns()


@pytest.mark.parametrize("declared", ["char(5)", "array<char(3)>", "struct<a:varchar(2),b:char(1)>"])
def test_row_40_1_columns_that_spark_pads_are_refused(tmp_path, declared):
    metadata = {"__CHAR_VARCHAR_TYPE_STRING": declared}
    schema = Schema([Field("c", PrimitiveType("string"), metadata=metadata)])
    DeltaTable.create(str(tmp_path / "t"), schema)
    with pytest.raises(UnsupportedTable, match=r"a column that Spark pads where it reads it \(c "):
        DeltaInput(str(tmp_path / "t")).newest()


def test_varchar_is_read(tmp_path):
    metadata = {"__CHAR_VARCHAR_TYPE_STRING": "varchar(5)"}
    DeltaTable.create(str(tmp_path / "t"), Schema([Field("c", PrimitiveType("string"), metadata=metadata)]))
    assert DeltaInput(str(tmp_path / "t")).newest().version == 0


PLACES = {  # a file's directories, the values of its partition: whether the path names them
    "as Hive writes it": ("/r/p=a%2Cb/q=__HIVE_DEFAULT_PARTITION__/f", ("a,b", None), True),
    "names in another case": ("/r/P=a/q=1/f", ("a", "1"), True),
    "renamed": ("/r/p=a/q=1/f", ("z", "1"), False),
    "elsewhere": ("/other/f", ("a", "1"), False),
    "NULL now": ("/r/p=a/q=1/f", (None, "1"), False),
}


@pytest.mark.parametrize(("path", "values", "named"), PLACES.values(), ids=PLACES)
def test_row_40_1_a_file_that_gets_into_another_partition_is_bound_as_another(path, values, named):
    class Lists(NoEngine):
        def query(self, query, what):
            return [(path.replace("%", "%25"), 1, 2, *values)]

    files = FilesInput("raw.t", "raw.t", "/r", lister=Lists(), partitions=("p", "q"))
    [file] = files.manifest().values()
    assert (file.path, file.partition == "") == (path, named)
    assert (file.bound_as == path) is named
