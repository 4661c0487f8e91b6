"""Ordinary readers of a published table: what each shows of it, as a multiset of rows."""

from __future__ import annotations

import importlib.util
from collections import Counter
from functools import cache
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from tests.support.duckdb_process import DuckDBProcess
from tests.support.package_edges import ROOT


def by_deltalake(place: Path | str, options=None) -> Counter:
    """`select *` by DataFusion, in the `deltalake` package."""
    table = DeltaTable(str(place), storage_options=options)
    batches = QueryBuilder().register("t", table).execute("select * from t").read_all()
    return rows_of(pa.table(batches))


def by_polars(place: Path | str) -> Counter:
    """`scan_delta` of Polars."""
    import polars as pl

    return rows_of(pl.scan_delta(str(place)).collect().to_arrow())


@cache
def duckdb_delta():
    """The example project's module that reads tables with DuckDB."""
    spec = importlib.util.spec_from_file_location("duckdb_delta", ROOT / "example_project/duckdb_delta.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_duckdb = DuckDBProcess(lambda: duckdb_delta().start())


def by_duckdb(place: Path | str) -> Counter:
    """`delta_scan` of DuckDB."""
    return rows_of(_duckdb.read(place))


READERS = {"deltalake": by_deltalake, "polars": by_polars}
if duckdb_delta().PACKAGES.exists():  # tests/unit/published/test_readers.py fails in CI if it does not
    READERS["duckdb"] = by_duckdb


def rows_of(table: pa.Table) -> Counter:
    """The rows as tuples of Python's values, hashable ones."""
    return Counter(tuple(map(hashable, row)) for row in zip(*(each.to_pylist() for each in table.columns)))


def hashable(value):
    """A value, of which equal ones are the same to every reader: a map is a list of pairs, which
    some read as structs; zeros and NaN are texts.
    """
    if isinstance(value, dict) and [*value] == ["key", "value"]:
        return tuple(map(hashable, value.values()))
    if isinstance(value, dict):
        return tuple((key, hashable(inner)) for key, inner in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(hashable, value))
    return repr(value) if isinstance(value, float) and (value == 0 or value != value) else value
