"""The condition that restricts an input to the keys of a change reaches its Parquet files."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dbt.adapters.mvsink.engine import Column, parse_type, predicates, sql
from dbt.adapters.mvsink.incremental.restrict import Keys
from dbt.adapters.mvsink.sink.restricted import RestrictedInputs
from dbt.adapters.mvsink.sink.staged import StagedChange

COLUMNS = tuple(Column(name, parse_type("bigint", name)) for name in ("a", "b", "k"))
KEYS = {
    "one": (Keys("k", "t", "k"),),
    "one or NULL": (Keys("k", "t", "k", nulls=True),),
    "two columns": (Keys("a", "t", "a"), Keys("b", "t", "b", nulls=True)),
    "two changes": (Keys("k", "t", "k"), Keys("k", "u", "a")),
}


@pytest.fixture(params=[predicates.MAX_LISTED, 2], ids=["listed", "many"])
def condition_of(request, tmp_path, monkeypatch):
    """The condition for keys of changes in which `a` has three values, `b` and `k` four."""
    monkeypatch.setattr(predicates, "MAX_LISTED", request.param)
    table = pa.table({"a": [5, 5, 7, 900], "b": [None, 1, 2, 3], "k": [100, 101, 102, 50_000]})
    changes = {}
    for name in ("t", "u"):
        directory = tmp_path / name
        directory.mkdir()
        pq.write_table(table, directory / "part-0.parquet")
        staged: Any = SimpleNamespace(uri=str(directory))
        changes[name] = StagedChange(SimpleNamespace(name=name, columns=COLUMNS), COLUMNS, staged, 4)
    write: Any = SimpleNamespace(
        handle=SimpleNamespace(read_staged=lambda staged, schema: table.select(schema.names))
    )
    inputs = RestrictedInputs(write, None, changes, {}, None)  # type: ignore[arg-type]

    def condition(keys):
        nulls = {key.column for key in keys if key.nulls}
        return inputs._condition(inputs._sources(keys), nulls, {column.name: column for column in COLUMNS})

    return condition


def chosen(row: dict, keys, of: pa.Table) -> bool:
    values = [of.column(key.changed_column).to_pylist() for key in keys]
    return any(
        (row[key.column] is None and key.nulls) or (row[key.column] is not None and row[key.column] in listed)
        for key, listed in zip(keys, values, strict=True)
    )


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_spark_reads_rows_with_a_key_from_ranges(spark, tmp_path, condition_of, keys):
    values = [None, 0, 1, 5, 6, 7, 100, 101, 900, 50_000]
    rows = [{"a": a, "b": b, "k": k} for a in values for b in (None, 1, 9) for k in values]
    files = tmp_path / "files"
    files.mkdir()
    pq.write_table(pa.Table.from_pylist(rows), files / "part-0.parquet")
    query = f"select a, b, k from {sql.parquet_in(str(files))} where {condition_of(keys)}"
    [[plan]] = spark.sql(f"explain formatted {query}").collect()
    [pushed] = [
        line for line in plan.splitlines() if line.startswith("PushedFilters") and "GreaterThan" in line
    ]
    assert all(f"GreaterThanOrEqual({key.column}," in pushed for key in keys)
    change = pa.table({"a": [5, 5, 7, 900], "b": [None, 1, 2, 3], "k": [100, 101, 102, 50_000]})
    wanted = [row for row in rows if chosen(row, keys, change)]
    read = [row.asDict() for row in spark.sql(query).collect()]
    assert sorted(map(str, read)) == sorted(map(str, wanted))
