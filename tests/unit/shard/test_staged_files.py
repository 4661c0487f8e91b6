"""What an engine staged: it is there, whole, exact, and read once; and whatever Arrow has against a
file names the file.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dbt.adapters.mvsink.shard import InvalidUsage, ShardClient, StorageError, staged_elsewhere
from dbt.adapters.mvsink.shard.errors import NothingStaged
from dbt.adapters.mvsink.shard.updates import physical_schema
from tests.support.shards import SCHEMA, at, updates

FAR = [
    dt.datetime(1, 1, 1),
    dt.datetime(1582, 10, 1),
    dt.datetime(2026, 1, 2, 3, 4, 5, 678901),
    dt.datetime(9999, 12, 31, 23, 59, 59),
]
WHEN = pa.schema([("at", pa.timestamp("us", tz="UTC"))])


@pytest.fixture
def writer(tmp_path):
    with ShardClient().open_writer(str(tmp_path / "s"), SCHEMA) as handle:
        yield handle


@pytest.fixture
def dated(tmp_path):
    with ShardClient().open_writer(str(tmp_path / "dated"), WHEN) as handle:
        yield handle


def staged(handle, table, name="part-0.parquet", **options):
    """A directory in which another writer left a file."""
    directory = handle.stage()
    Path(directory.uri).mkdir(parents=True)
    pq.write_table(table, f"{directory.uri}/{name}", **options)
    return directory


def rows(column, kind):
    """Updates with one column, as an engine stages them."""
    n = len(column)
    meta = [pa.array([1] * n), pa.array([1] * n), pa.nulls(n, pa.string()), pa.array(range(n))]
    return pa.table(
        [pa.array(column, kind), *meta], names=["at", "_mv_time", "_mv_diff", "_mv_error", "_mv_hash"]
    )


@pytest.mark.parametrize("left", [None, "_SUCCESS", ".part-0.parquet.crc"])
def test_a_directory_without_data_files_is_no_empty_result(writer, left):
    directory = writer.stage()
    if left:
        Path(directory.uri).mkdir(parents=True)
        (Path(directory.uri) / left).write_text("")
    with pytest.raises(NothingStaged, match=f"{directory.uri}.*see different places"):
        writer.adopt(directory, at(0), at(2))
    with pytest.raises(NothingStaged):
        writer.read_staged(directory, SCHEMA)


def test_a_data_file_without_rows_is_an_empty_result(writer):
    directory = staged(writer, physical_schema(SCHEMA).empty_table())
    assert writer.adopt(directory, at(0), at(2)).rows == 0


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no Parquet at all"])
def test_a_file_that_cannot_be_read_is_a_storage_error_that_names_it(writer, content):
    directory = writer.stage()
    Path(directory.uri).mkdir(parents=True)
    path = f"{directory.path}/part-0.parquet"
    (Path(directory.uri) / "part-0.parquet").write_bytes(content)
    storage = writer.storage
    for ask in (
        storage.describe,
        storage.footer,
        storage.schema_of,
        lambda _: writer.adopt(directory, at(0), at(2)),
    ):
        with pytest.raises(StorageError, match=f"cannot read {path}"):
            ask(path)


def test_old_timestamps_are_read_whatever_the_year(dated):
    directory = staged(dated, rows(FAR, pa.timestamp("us")), use_deprecated_int96_timestamps=True)
    batch = dated.adopt(directory, at(0), at(2))
    assert pq.read_metadata(f"{directory.uri}/part-0.parquet").schema.column(0).physical_type == "INT96"
    dated.compare_and_append_batch([batch], at(0), at(2))
    with ShardClient().open_reader(dated.uri) as reader:
        assert [value.replace(tzinfo=None) for value in reader.snapshot(1).column("at").to_pylist()] == FAR
    [file] = dated.state().files
    assert dated.first_rows(file, WHEN, 1).num_rows == 1


INEXACT = {
    "milliseconds": (pa.timestamp("ms", tz="UTC"), {}, r"`at` as timestamp\[ms"),
    "seconds of a struct's field": (pa.struct([("t", pa.timestamp("ms"))]), {}, "`at` as struct"),
    "a list of milliseconds": (pa.list_(pa.timestamp("ms")), {}, "`at` as list"),
    "the Julian calendar": (pa.timestamp("us", tz="UTC"), {"org.apache.spark.legacyDateTime": ""}, "Julian"),
}


@pytest.mark.parametrize(("kind", "notes", "message"), INEXACT.values(), ids=INEXACT)
def test_times_that_are_not_exact_are_refused_before_anything_is_committed(dated, kind, notes, message):
    directory = staged(dated, rows([None], kind).replace_schema_metadata(notes))
    with pytest.raises(StorageError, match=message):
        dated.adopt(directory, at(0), at(2))
    assert dated.state().version == 0


AT = pa.timestamp("us", tz="UTC")
OTHER_TYPES = {
    "an error of another kind": (
        {"_mv_error": pa.bool_()},
        "with `_mv_error` as bool, and the shard keeps string",
    ),
    "a diff of 32 bits": ({"_mv_diff": pa.int32()}, "with `_mv_diff` as int32, and the shard keeps int64"),
    "a hash of text": ({"_mv_hash": pa.string()}, "with `_mv_hash` as string"),
    "a time that is a double": ({"_mv_time": pa.float64()}, "with `_mv_time` as double"),
    "a column of another type": ({"at": pa.string()}, "with `at` as string"),
    "a time without a zone": ({"at": pa.timestamp("us")}, r"with `at` as timestamp\[us\], and"),
    "a column that is missing": ({"at": None}, "without `at`"),
    "a column too many": ({"more": pa.int64()}, "with `more`, which is not a column of it"),
    "another case": ({"at": None, "AT": AT}, "with `AT`.*without `at`"),
}


@pytest.mark.parametrize(("changed", "message"), OTHER_TYPES.values(), ids=OTHER_TYPES)
def test_row_f_a_file_with_other_types_than_the_shard_is_refused(dated, changed, message):
    types = {field.name: field.type for field in physical_schema(WHEN)} | changed
    schema = pa.schema([(name, kind) for name, kind in types.items() if kind is not None])
    directory = staged(dated, schema.empty_table())
    with pytest.raises(
        StorageError, match=f"part-0.parquet of shard {dated.uri} was staged {message}.*nothing was"
    ):
        dated.adopt(directory, at(0), at(2))
    assert dated.state().version == 0


SAME_TYPES = {
    "large text and views of lists": pa.struct([("a", pa.large_string()), ("b", pa.large_list(pa.int8()))]),
    "fields that are never NULL": pa.struct(
        [
            pa.field("a", pa.string(), nullable=False),
            ("b", pa.list_(pa.field("element", pa.int8(), nullable=False))),
        ]
    ),
    "a dictionary": pa.struct([("a", pa.dictionary(pa.int32(), pa.string())), ("b", pa.list_(pa.int8()))]),
}


@pytest.mark.parametrize("kind", SAME_TYPES.values(), ids=SAME_TYPES)
def test_row_f_other_spellings_of_the_same_types_are_accepted(tmp_path, kind):
    schema = pa.schema([("at", pa.struct([("a", pa.string()), ("b", pa.list_(pa.int8()))]))])
    with ShardClient().open_writer(str(tmp_path / "nested"), schema) as handle:
        directory = staged(handle, rows([{"a": "x", "b": [1]}], kind))
        assert handle.adopt(directory, at(0), at(2)).rows == 1


def test_row_f_old_timestamps_in_nested_values_have_a_zone(tmp_path):
    kinds = [("n", pa.timestamp("us")), ("t", pa.list_(pa.timestamp("us")))]
    zoned = pa.struct([("n", pa.timestamp("us", tz="UTC")), ("t", pa.list_(pa.timestamp("us", tz="UTC")))])
    with ShardClient().open_writer(str(tmp_path / "nested"), pa.schema([("at", zoned)])) as handle:
        directory = staged(handle, rows([None], pa.struct(kinds)), use_deprecated_int96_timestamps=True)
        assert handle.adopt(directory, at(0), at(2)).rows == 1


def test_each_footer_is_read_once_from_staging_to_commit(writer, monkeypatch):
    directory = writer.stage()
    for number in range(5):
        part = writer.storage.write_part(f"{directory.path}/part-{number}.parquet", physical_schema(SCHEMA))
        part.write(physical_schema(SCHEMA).empty_table() if number == 4 else _physical(number))
        part.close()
    read: Counter[str] = Counter()
    opened = writer.storage._parquet
    monkeypatch.setattr(
        writer.storage, "_parquet", lambda path, *more: read.update([path]) or opened(path, *more)
    )
    batch = writer.adopt(directory, at(0), at(2))
    writer.compare_and_append_batch([batch], at(0), at(2))
    assert set(read.values()) == {1} and len(read) == 5
    assert len(writer.state().files) == 4


def _physical(number):
    values = {"x": [str(number)], "_mv_time": [1], "_mv_diff": [1], "_mv_error": [None], "_mv_hash": [number]}
    return pa.table(values, schema=physical_schema(SCHEMA))


@pytest.mark.parametrize("damage", ["gone", "truncated"])
def test_a_staged_file_that_is_damaged_is_noticed_before_the_commit(writer, damage):
    batch = writer.batch(updates(("a", 1, 1)), at(0), at(2))
    path = Path(writer.uri) / batch.files[0].path
    path.unlink() if damage == "gone" else path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(StorageError, match=f"staged file {batch.files[0].path}.*nothing was committed"):
        writer.compare_and_append_batch([batch], at(0), at(2))
    assert writer.state().version == 0
    batch.delete()


def test_what_is_staged_elsewhere_can_be_read_and_never_appended(writer, tmp_path):
    before = writer.files_in()
    other = tmp_path / "other place"
    with staged_elsewhere(writer.storage, writer.state(), str(other)) as handle:
        directory = handle.write_staged(physical_schema(SCHEMA).empty_table())
        assert handle.read_staged(directory, SCHEMA).num_rows == 0
        assert directory.uri.startswith(str(other))
        batch = handle.batch(updates(("a", 0, 1)), at(0), at(2))
        assert (batch.rows, writer.files_in()) == (1, before)
        with pytest.raises(InvalidUsage, match="was staged in .*other place, outside shard"):
            writer.compare_and_append_batch([batch], at(0), at(2))
        batch.delete()
    assert writer.state().upper == at(0)
    assert not list(other.rglob("*.parquet"))
