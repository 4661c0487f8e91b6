"""The log holds the statistics of our columns however many columns a shard has: by them a file is
trusted or skipped.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from dbt.adapters.mvsink.shard import ShardClient, delta_encoding
from dbt.adapters.mvsink.shard.updates import physical_schema
from tests.support.shards import at

NESTED = pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string()), ("d", pa.binary())]))])
SCHEMAS = {
    "1 column": [("x", pa.int64())],
    **{f"{n} columns": [(f"c{i}", pa.int64()) for i in range(n)] for n in (28, 29, 40, 200)},
    "a struct of 40 fields": [
        ("s", pa.struct([(f"f{i}", pa.int64()) for i in range(40)])),
        ("x", pa.int64()),
    ],
    "nested structs": [(f"s{i}", NESTED) for i in range(15)],
    "structs with odd names": [(name, NESTED) for name in ("a b", "a`b", "a,b", "ü.x", "it's", "S")],
    "lists and maps of structs": [
        ("l", pa.list_(NESTED)),
        ("m", pa.map_(pa.string(), NESTED)),
        *((f"c{i}", pa.date32()) for i in range(40)),
    ],
}


def append(handle, time):
    """One row of NULLs with a hash, as an engine stages it."""
    row = {name: [None] for name in handle.schema.names} | {
        "_mv_time": [time],
        "_mv_diff": [1],
        "_mv_error": [None],
        "_mv_hash": [7],
    }
    directory = handle.stage()
    Path(directory.uri).mkdir(parents=True)
    pq.write_table(pa.table(row, schema=physical_schema(handle.schema)), f"{directory.uri}/part-0.parquet")
    handle.compare_and_append_batch([handle.adopt(directory, at(time), at(time + 1))], at(time), at(time + 1))


def opened(tmp_path, columns):
    return ShardClient().open_or_create(str(tmp_path / "s"), pa.schema(columns))


@pytest.fixture
def of_an_earlier_release(monkeypatch):
    """What is created in here has no word on statistics."""
    with monkeypatch.context() as patch:
        patch.setattr(delta_encoding, "STATISTICS", "mvsink.unused")
        yield patch


def assert_trusted(uri, count):
    """A new reader trusts all files, and other engines can read the table."""
    with ShardClient().open_reader(uri) as reader:
        files = reader.state().files
        assert len(files) == count and all(file.trusted for file in files)
        assert {(f.min_diff, f.max_diff, f.errors, f.max_time == f.min_time) for f in files} == {
            (1, 1, 0, True)
        }
        assert reader.snapshot(count - 1).num_rows == 1
    assert DeltaTable(uri).to_pyarrow_table().num_rows == count


@pytest.mark.parametrize("columns", SCHEMAS.values(), ids=SCHEMAS)
def test_every_file_is_trusted(tmp_path, columns):
    with opened(tmp_path, columns) as handle:
        append(handle, 0)
        append(handle, 1)
        assert_trusted(handle.uri, 2)
        handle.storage.checkpoint()
        assert_trusted(handle.uri, 2)


@pytest.mark.parametrize("columns", SCHEMAS.values(), ids=SCHEMAS)
@pytest.mark.parametrize("checkpointed", [False, True])
def test_files_of_an_earlier_release_are_trusted_after_one_commit_without_data(
    tmp_path, columns, checkpointed, of_an_earlier_release
):
    with opened(tmp_path, columns) as handle:
        append(handle, 0)
        append(handle, 1)
        if checkpointed:
            handle.storage.checkpoint()
    of_an_earlier_release.undo()
    with opened(tmp_path, columns) as handle:
        before = handle.state()
        assert not before.statistics
        handle.keep_statistics()
        assert (handle.state().version, handle.state().files != ()) == (before.version + 1, True)
        assert_trusted(handle.uri, 2)
        handle.keep_statistics()
        assert handle.state().version == before.version + 1
        append(handle, 2)
        assert_trusted(handle.uri, 3)


def test_columns_that_come_later_change_nothing(tmp_path):
    with opened(tmp_path, SCHEMAS["29 columns"]) as handle:
        append(handle, 0)
        wide = pa.schema([*handle.schema, ("late", NESTED)])
        files = handle.state().files
        handle.evolve([_rewritten(handle, wide)], wide, files)
        assert handle.state().statistics
        assert_trusted(handle.uri, 1)
        handle.replace(
            [_rewritten(handle, pa.schema([("t", NESTED)]))], pa.schema([("t", NESTED)]), at(1), at(0)
        )
        assert handle.state().statistics
        assert_trusted(handle.uri, 1)


def _rewritten(handle, schema):
    """A batch with one row of NULLs in another schema."""
    row = {name: [None] for name in schema.names} | {
        "_mv_time": [0],
        "_mv_diff": [1],
        "_mv_error": [None],
        "_mv_hash": [7],
    }
    directory = handle.stage()
    part = handle.storage.write_part(f"{directory.path}/part-0.parquet", physical_schema(schema))
    part.write(pa.table(row, schema=physical_schema(schema)))
    part.close()
    return handle.adopt(directory, at(0), at(1), schema)


def test_other_writers_go_on(tmp_path):
    with opened(tmp_path, [*SCHEMAS["40 columns"], ("s", NESTED)]) as handle:
        append(handle, 0)
        table = physical_schema(handle.schema).empty_table()
        write_deltalake(
            handle.uri,
            pa.table({**{n: pa.nulls(1, table.schema.field(n).type) for n in table.column_names}}),
            mode="append",
        )
        DeltaTable(handle.uri).delete("c1 is not null")
        DeltaTable(handle.uri).update(updates={"c0": "5"}, predicate="_mv_time = 0")
        assert handle.state().statistics and len(handle.state().files) == 2
