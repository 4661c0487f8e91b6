"""Reads Iceberg tables with DuckDB, in a process of its own: each line of its input is the place of
a table, and it writes each table as a stream of Arrow. See example_project/duckdb_delta.py.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import duckdb
import pyarrow as pa

EXTENSIONS = ("avro", "iceberg")


def connect() -> duckdb.DuckDBPyConnection:
    """DuckDB with the extensions of the packages that `make setup` installs."""
    connection = duckdb.connect()
    for name in EXTENSIONS:
        package = importlib.import_module(f"duckdb_extension_{name}")
        [extension] = Path(package.__file__).parent.rglob("*.duckdb_extension")
        connection.load_extension(str(extension))
    return connection


def main() -> None:
    """Read tables until the input ends. An error ends the process."""
    connection = connect()
    for line in sys.stdin:
        rows = connection.sql("select * from iceberg_scan(?)", params=[line.rstrip("\n")]).to_arrow_table()
        with pa.ipc.new_stream(sys.stdout.buffer, rows.schema) as stream:
            stream.write_table(rows)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
