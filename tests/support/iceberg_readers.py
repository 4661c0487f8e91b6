"""Ordinary readers of a published Iceberg table: see `table_readers`."""

from __future__ import annotations

import warnings
from collections import Counter

from pyiceberg.table import StaticTable

from tests.support.table_readers import rows_of


def by_pyiceberg(table, options=None) -> Counter:
    """A scan by pyiceberg of its `Table`, or of the table at a place. ``options``: those of the
    `deltalake` package for an object store.
    """
    return rows_of(_iceberg(table, options).scan().to_arrow())


def by_polars_iceberg(table) -> Counter:
    """`scan_iceberg` of Polars."""
    import polars as pl

    with warnings.catch_warnings():  # of a package that would plan faster
        warnings.simplefilter("ignore", pl.exceptions.PerformanceWarning)
        return rows_of(pl.scan_iceberg(_iceberg(table)).collect().to_arrow())


S3 = {
    "s3.endpoint": "AWS_ENDPOINT_URL",
    "s3.access-key-id": "AWS_ACCESS_KEY_ID",
    "s3.secret-access-key": "AWS_SECRET_ACCESS_KEY",
    "s3.region": "AWS_REGION",
}


def _iceberg(table, options=None):
    if hasattr(table, "scan"):
        return table
    properties = {name: options[ours] for name, ours in S3.items()} if options else {}
    return StaticTable.from_metadata(str(table), properties)


ICEBERG_READERS = {"pyiceberg": by_pyiceberg, "polars": by_polars_iceberg}
