"""Another reader sees the same contents: DuckDB over deltalake's dataset, by the statement that
README.md gives.
"""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
from deltalake import DeltaTable

from dbt.adapters.mvsink.shard import CompactionPlan, ShardClient, compact_with_pyarrow
from tests.support.shards import SCHEMA, at, evolve, updates, widened

README = Path(__file__).resolve().parents[3] / "README.md"


def contents(uri):
    """By row, how often it comes."""
    statement = re.search(r"```sql\n(select .*?)\n```", README.read_text(), re.DOTALL)[1]
    shard = DeltaTable(uri).to_pyarrow_dataset()
    assert shard is not None  # DuckDB finds it by its name
    return dict(duckdb.sql(statement.replace("carrier, origin, dest", "x")).fetchall())


def test_duckdb_sees_the_collection(tmp_path):
    uri = str(tmp_path / "s")
    with ShardClient().open_writer(uri, SCHEMA) as handle:
        handle.compare_and_append(updates(("a", 1, 3), ("b", 1, 1)), at(0), at(2))
        handle.compare_and_append(updates(("a", 2, -1), ("b", 2, -1), ("c", 2, 1)), at(2), at(3))
        assert contents(uri) == {"a": 2, "c": 1}
        handle.downgrade_since(at(2))
        compact_with_pyarrow(handle, CompactionPlan(handle.state().files, at(2)))
        assert contents(uri) == {"a": 2, "c": 1}


def test_delta_readers_see_a_column_that_was_added(tmp_path):
    uri = str(tmp_path / "s")
    with ShardClient().open_writer(uri, SCHEMA) as handle:
        handle.compare_and_append(updates(("a", 1, 1), ("b", 1, 1)), at(0), at(2))
        assert evolve(handle, "y")
        handle.compare_and_append(widened(updates(("a", 2, -1), ("a", 2, 1)), y=[None, "new"]), at(2), at(3))
    table = DeltaTable(uri)
    assert [field.name for field in table.schema().fields][:2] == ["x", "y"]
    shard = table.to_pyarrow_dataset()
    assert shard is not None
    query = "select x, y from shard group by x, y having sum(_mv_diff) > 0 order by x"
    assert duckdb.sql(query).fetchall() == [("a", "new"), ("b", None)]
    # the past has the columns of its day
    assert DeltaTable(uri, version=table.version() - 2).schema() != table.schema()
