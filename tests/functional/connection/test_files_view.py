"""Temporary views over a shard's files are what the files are, by their path, for Spark."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dbt.adapters.mvsink.connection import cursor
from dbt.adapters.mvsink.engine import sql

pytestmark = pytest.mark.embedded("the views are made in Java")

TYPES = """
    1Y a, 2S b, 3 c, 4L d, 1.5F e, 2.5D f, 1.20BD g, cast(1 as decimal(38, 9)) h, 'x' i, X'01' j, true k,
    date'2026-01-01' l, timestamp'2026-01-01' m, timestamp_ntz'2026-01-01' n, array(1, null) o,
    map('k', 1.5D) p, named_struct('x y', 1, 'z', array(named_struct('q', 'r'))) `odd name`,
    cast(null as string) _mv_error, 1L _mv_diff, 5L _mv_hash, interval '1' day r, cast('v' as varchar(3)) s
"""


@pytest.fixture
def batch(spark, tmp_path):
    """Below a directory of an odd name, what Spark writes for every type."""
    directory = tmp_path / "odd {na,me}" / "batches" / uuid.uuid4().hex
    spark.sql(sql.overwrite_directory(str(directory), f"select {TYPES} from range(3)"))
    return directory


def by_path(spark, path: str):
    return spark.sql(f"select * from {sql.parquet(path)}")


def same(spark, path: str) -> bool:
    [name] = cursor.make_views(spark, [path]).values()
    view, files = spark.table(name), by_path(spark, path)
    assert view.schema == files.schema
    equal = view.drop("p").exceptAll(files.drop("p")).isEmpty() and view.count() == files.count()
    cursor.drop_views(spark, [name])
    assert not spark.catalog.tableExists(name)
    return equal


def test_what_spark_has_written(spark, batch):
    assert same(spark, sql.escape_glob(str(batch)))


def test_what_this_process_has_written_in_two_batches(spark, tmp_path):
    table = pa.table(
        {
            "n": pa.array([1, None], pa.int32()),
            "at": pa.array([0, 1], pa.timestamp("us", tz="UTC")),
            "local": pa.array([0, 1], pa.timestamp("us")),
            "price": pa.array([1, 2]).cast(pa.decimal128(19, 0)).cast(pa.decimal128(20, 1)),
            "many": pa.array([["a"], None], pa.list_(pa.string())),
        }
    )
    ids = [uuid.uuid4().hex, f"{uuid.uuid4().hex}-negates-0a"]
    for each in ids:
        (tmp_path / "batches" / each).mkdir(parents=True)
        pq.write_table(table, tmp_path / "batches" / each / "part-00000.parquet")
    assert same(spark, f"{sql.escape_glob(str(tmp_path))}/batches/{{{','.join(ids)}}}")


def test_other_files_are_for_spark_to_look_at(spark, batch, tmp_path):
    other = tmp_path / "table"
    by_path(spark, sql.escape_glob(str(batch))).write.parquet(str(other))
    missing = tmp_path / "batches" / uuid.uuid4().hex
    paths = [str(other), f"s3a://bucket/batches/{uuid.uuid4().hex}", str(missing)]
    assert cursor.make_views(spark, paths) == {}
    known = sql.escape_glob(str(batch))
    names = cursor.make_views(spark, [*paths, known])
    assert list(names) == [known]
    cursor.drop_views(spark, names.values())


def test_what_is_wrong_with_a_file_is_said_by_the_statement(spark, batch):
    for file in batch.glob("*.parquet"):
        file.write_bytes(b"PAR1 no more")
    assert cursor.make_views(spark, [sql.escape_glob(str(batch))]) == {}


@pytest.mark.parametrize("few", [True, False])
def test_few_rows_are_joined_and_grouped_without_a_shuffle(spark, tmp_path, few):
    files = sql.Shared(lambda paths: cursor.make_views(spark, paths))
    sides = []
    for _ in range(2):
        path = str(tmp_path / "batches" / uuid.uuid4().hex)
        spark.sql(sql.overwrite_directory(path, "select id % 3 k, id v from range(10)"))
        sides.append(files.of(f"select k, v from {sql.parquet(path)}", few=few))
    left, right = sides
    rows = f"select l.k, l.v + r.v v from ({left}) l join ({right}) r on l.k = r.k and l.v = r.v"
    query = files.around(f"select k, sum(v) from ({sql.union_all([rows, left])}) group by k")
    [[plan]] = spark.sql(f"explain {query}").collect()
    assert ("Exchange hashpartitioning" in plan) == (not few)
    assert sorted(map(tuple, spark.sql(query).collect())) == [(0, 54), (1, 36), (2, 45)]
