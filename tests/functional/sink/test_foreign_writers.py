"""Other Delta writers on a shard: whatever they did, the next run repairs it, and readers see no
row that no append can have written.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from dbt.adapters.mvsink.shard_sql import Kind
from tests.support.seldom import often
from tests.support.session_engine import Model

pytestmark = pytest.mark.usefixtures("small_data")

QUERY = "select cast(id as int) id, concat('n', id % 5) name from range(40) union all select 7, 'twice' from range(2)"


def update(uri, spark):
    DeltaTable(uri).update(updates={"name": "'wrong'"}, predicate="id < 10")


def delete(uri, spark):
    DeltaTable(uri).delete("id >= 30")


def delete_everything(uri, spark):
    DeltaTable(uri).delete()


def merge(uri, spark):
    source = pa.table({"id": pa.array([3, 4], pa.int32())})
    DeltaTable(uri).merge(
        source, "s.id = t.id", source_alias="s", target_alias="t"
    ).when_matched_delete().execute()


def optimize(uri, spark):
    DeltaTable(uri).optimize.compact()


def insert_bare_columns(uri, spark):
    write_deltalake(
        uri,
        pa.table({"id": pa.array([99], pa.int32()), "name": ["bare"]}),
        mode="append",
        schema_mode="merge",
    )


def insert_impossible_rows(uri, spark):
    rows = {
        "id": pa.array([1, 2, 3], pa.int32()),
        "name": ["x"] * 3,
        "_mv_time": [2**62, 5, 5],
        "_mv_diff": [1, 0, None],
    }
    write_deltalake(uri, pa.table(rows), mode="append", schema_mode="merge")


def spark_update(uri, spark):
    spark.sql(f"update delta.`{uri}` set name = 'wrong' where id = 3")


def spark_delete(uri, spark):
    spark.sql(f"delete from delta.`{uri}` where id < 5")


def spark_optimize(uri, spark):
    spark.sql(f"optimize delta.`{uri}`")


DAMAGES = [update, delete, delete_everything, merge, optimize, insert_bare_columns, insert_impossible_rows,
           spark_update, spark_delete, spark_optimize]  # fmt: skip


@pytest.mark.parametrize("damage", often(DAMAGES, *DAMAGES[:6], spark_update), ids=lambda f: f.__name__)
def test_the_next_run_repairs(session, quick, tmp_path, damage):
    model = Model(
        quick if damage in (insert_bare_columns, spark_update, spark_delete, spark_optimize) else session,
        tmp_path,
    )
    model.run(QUERY.replace("n', id % 5", "old', id % 3"))
    model.run(QUERY)
    damage(model.uri, quick)
    drifted = len(model.rows())  # the view over the damaged shard can be read
    outcome = model.run(QUERY)
    model.assert_holds(QUERY)
    assert model.run(QUERY).kind is Kind.NONE
    if damage in (insert_bare_columns, insert_impossible_rows):
        assert drifted == 42 and outcome.drift == (1 if damage is insert_bare_columns else 3)
    if damage in (optimize, spark_optimize):
        assert outcome.counts.nothing
    with model.open(QUERY) as handle:
        assert sum(commit.note.drift for commit in handle.history()) == outcome.drift


def test_a_first_load_with_equal_rows_that_becomes_the_base_again_loses_none(session, tmp_path):
    """Larger than the first load, the second batch is the base, until another writer deletes it;
    corrections in between know of both.
    """
    few, many = (
        "select 'a' x union all select 'a' union all select 'b'",
        "select concat('n', id) x from range(100)",
    )
    model = Model(session, tmp_path)
    model.run(few)
    model.run(f"{few} union all {many}")
    fewer = f"select 'a' x union all select 'b' union all {many}"
    model.run(fewer)
    with model.open(few) as handle:
        table = DeltaTable(handle.uri)
    table.delete("x like 'n%'")
    assert model.rows() == [("a",), ("b",)]
    model.run(fewer)
    model.assert_holds(fewer)


def test_spark_reads_and_writes_a_shard_of_many_columns(spark, tmp_path):
    """Its log names the columns that have statistics: Spark takes that."""
    columns = ", ".join(f"id + {n} as c{n}" for n in range(40))
    query = f"select {columns}, named_struct('a', id, 'b', cast('x' as binary)) as s from range(9)"
    model = Model(spark, tmp_path)
    model.run(query)
    spark.sql(f"update delta.`{model.uri}` set c0 = -1 where c1 = 3")
    assert spark.sql(f"select * from delta.`{model.uri}` where c0 = -1").count() == 1
    assert model.run(query).kind is Kind.APPEND
    model.assert_holds(query)
    assert model.run(query).counts.nothing
