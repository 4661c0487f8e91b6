"""Ordinary readers of a published Iceberg table: see `table_readers`."""

from __future__ import annotations

import warnings
from collections import Counter

from pyiceberg.table import StaticTable

from tests.support.table_readers import rows_of


def by_pyiceberg(table) -> Counter:
    """A scan by pyiceberg of its `Table`, or of the table at a place."""
    return rows_of(_iceberg(table).scan().to_arrow())


def by_polars_iceberg(table) -> Counter:
    """`scan_iceberg` of Polars."""
    import polars as pl

    with warnings.catch_warnings():  # of a package that would plan faster
        warnings.simplefilter("ignore", pl.exceptions.PerformanceWarning)
        return rows_of(pl.scan_iceberg(_iceberg(table)).collect().to_arrow())


def _iceberg(table):
    return table if hasattr(table, "scan") else StaticTable.from_metadata(str(table))


ICEBERG_READERS = {"pyiceberg": by_pyiceberg, "polars": by_polars_iceberg}
