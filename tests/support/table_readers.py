"""Ordinary readers of a published table: what each shows of it, as a multiset of rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder


def by_deltalake(place: Path | str, options=None) -> Counter:
    """`select *` by DataFusion, in the `deltalake` package."""
    table = DeltaTable(str(place), storage_options=options)
    batches = QueryBuilder().register("t", table).execute("select * from t").read_all()
    return rows_of(pa.table(batches))


def by_polars(place: Path | str) -> Counter:
    """`scan_delta` of Polars."""
    import polars as pl

    return rows_of(pl.scan_delta(str(place)).collect().to_arrow())


READERS = {"deltalake": by_deltalake, "polars": by_polars}


def rows_of(table: pa.Table) -> Counter:
    """The rows as tuples of Python's values, hashable ones."""
    return Counter(tuple(map(_hashable, row.values())) for row in table.to_pylist())


def _hashable(value):
    if isinstance(value, dict):
        return tuple((key, _hashable(inner)) for key, inner in value.items())
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    return repr(value) if isinstance(value, float) and value != value else value
