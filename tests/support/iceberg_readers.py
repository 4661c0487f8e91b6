"""Ordinary readers of a published Iceberg table: see `table_readers`."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections import Counter

from pyiceberg.table import StaticTable

from tests.support.duckdb_process import DuckDBProcess
from tests.support.package_edges import ROOT
from tests.support.table_readers import duckdb_delta, rows_of

PACKAGES = duckdb_delta().PACKAGES


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


def _start() -> subprocess.Popen[bytes]:
    paths = [str(PACKAGES), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.duckdb_iceberg"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


_duckdb = DuckDBProcess(_start)


def by_duckdb_iceberg(table) -> Counter:
    """`iceberg_scan` of DuckDB."""
    return rows_of(_duckdb.read(getattr(table, "metadata_location", table)))


ICEBERG_READERS = {"pyiceberg": by_pyiceberg, "polars": by_polars_iceberg}
if (PACKAGES / "duckdb_extension_iceberg").exists():  # see test_duckdb_is_one_of_the_readers
    ICEBERG_READERS["duckdb"] = by_duckdb_iceberg
