"""Conditions that say to Parquet which of a shard's rows have one of the keys."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.engine.timing import Stopwatch
from dbt.adapters.mvsink.shard import DataFile
from dbt.adapters.mvsink.shard.storage import Footer
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.sink.staged import StagedKeys
from tests.support.session_engine import Model


@dataclass
class Staged:
    """What an engine staged: one file."""

    table: pa.Table
    uri: str = "/staged"

    def footers(self) -> list[Footer]:
        return [Footer(DataFile("p", 0, rows=len(self.table)), self.table.schema, {})]


@pytest.fixture
def shard(tmp_path) -> Layout:
    """Of columns `K` and `amount`, both BIGINT, and `price`, a DOUBLE."""
    model = Model(None, tmp_path)
    model.run("select 1L K, 2L amount, 3D price from range(1)")
    with model.open("select 1L K, 2L amount, 3D price from range(1)") as handle:
        return Layout.of(handle, handle.state())


def in_scope(shard: Layout, columns: dict[str, str], **keys: pa.Array) -> str:
    def read_staged(staged: Any, schema: pa.Schema) -> pa.Table:
        assert staged.table.schema.field(schema.names[0]).type == schema.types[0]
        return staged.table.select(schema.names)

    write: Any = SimpleNamespace(handle=SimpleNamespace(read_staged=read_staged))
    staged: Any = Staged(pa.table(keys))
    return StagedKeys(write, staged).in_scope(shard, columns, sql.Shared()) or ""


def test_the_values_of_every_key_are_ranges(shard):
    text = in_scope(
        shard, {"k": "k", "amount": "amount"}, K=pa.array([7, 9, 800]), amount=pa.array([1, None, 5])
    )
    assert "`K` in (7,9,800)" in text and "`K` between cast('7' as bigint)" in text
    assert "`K` is null" not in text and "in (1,5)) or `amount` is null)" in text
    assert "_mv_k.`k` <=> _mv_s.`K` and _mv_k.`amount` <=> _mv_s.`amount`" in text


def test_null_alone(shard):
    assert "where (false or `K` is null)" in in_scope(shard, {"k": "k"}, k=pa.array([None], pa.int64()))


@pytest.mark.parametrize(
    ("column", "values"),
    [("k", pa.array([1, 2], pa.int32())), ("price", pa.array([1.0, float("nan")])), ("k", pa.array(["1"]))],
    ids=["narrower", "double", "text"],
)
def test_values_of_another_type_and_doubles_have_none(shard, column, values):
    text = in_scope(shard, {"_mv_k0": column}, _mv_k0=values)
    assert "where" not in text and "left semi join" in text


def test_many_keys_are_not_read(shard, monkeypatch):
    monkeypatch.setattr(limits, "LISTED_KEYS", 2)
    assert "where" not in in_scope(shard, {"_mv_k0": "k"}, _mv_k0=pa.array([1, 2, 3]))


def test_without_a_key_all_rows_are_in_scope(shard):
    text = in_scope(shard, {}, n=pa.array([1]))
    assert "join" not in text and "where" not in text and "`K`, `amount`" in text


ROWS = "select * from values (1L, 1L, 1D), (1L, 2L, 2D), (2L, 1L, 3D), (cast(null as bigint), 1L, 4D) t(K, amount, price)"


@pytest.fixture
def rows_in_scope(tmp_path):
    """Which prices the rows have that are read in this process; None if they are left to Spark."""
    model = Model(None, tmp_path)
    model.run(ROWS)
    with model.open(ROWS) as handle:

        def prices(columns: dict[str, str], *, cores: int = 1, **keys: pa.Array) -> list[float] | None:
            staged = handle.write_staged(pa.table(keys))
            engine = SimpleNamespace(cores_here=lambda: cores)
            write: Any = SimpleNamespace(handle=handle, engine=engine, model="m", watch=Stopwatch())
            scope = StagedKeys(write, staged).rows_in_scope(Layout.of(handle, handle.state()), columns)
            if scope is None:
                return None
            return sorted(
                [*scope.base.column("price").to_pylist(), *scope.others.column("price").to_pylist()]
            )

        yield prices


BIGINT = pa.int64()


def test_rows_that_have_a_key_are_read_here(rows_in_scope):
    assert rows_in_scope({"k": "k"}, k=pa.array([1, 7])) == [1, 2]
    assert rows_in_scope({"k": "k"}, k=pa.array([None], BIGINT)) == [4]
    both = {"_mv_k0": "k", "_mv_k1": "amount"}
    keys = {"_mv_k0": pa.array([1, 2, None]), "_mv_k1": pa.array([2, 1, 1])}
    assert rows_in_scope(both, **keys) == [2, 3, 4], "not every combination of the values"
    assert rows_in_scope({"k": "k"}, k=pa.array([], BIGINT)) == []


def test_rows_that_are_not_read_here(rows_in_scope, monkeypatch):
    assert rows_in_scope({}, n=pa.array([1])) is None
    assert rows_in_scope({"k": "k"}, k=pa.array([1]), cores=0) is None, "Spark is elsewhere"
    assert rows_in_scope({"k": "k"}, k=pa.array([1], pa.int32())) is None, "of another type"
    assert rows_in_scope({"k": "price"}, k=pa.array([1.0])) is None, "a double"
    both = {"_mv_k0": "k", "_mv_k1": "k"}
    assert rows_in_scope(both, _mv_k0=pa.array([1]), _mv_k1=pa.array([2])) is None, "two keys of one column"
    monkeypatch.setattr(limits, "LOCAL_ROWS", 1)
    assert rows_in_scope({"k": "k"}, k=pa.array([1])) is None, "two rows"
    assert rows_in_scope({"k": "k"}, k=pa.array([2])) == [3]
    assert rows_in_scope({"k": "k"}, k=pa.array([2, 3])) is None, "two keys"
