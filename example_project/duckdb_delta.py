"""Reads a Delta table with DuckDB:

    select * from delta_scan('/data/shards/analytics/revenue/table')

That needs DuckDB's extension `delta`, which DuckDB downloads. Where downloads are blocked, the
package `duckdb-extension-delta` has it, but each release of it works with one version of DuckDB
only, and there is none for 2.0 yet. So `make setup` installs a pair that fits into `.venv/duckdb`,
and the tables are read by that DuckDB, in a process of its own:

    echo /data/shards/analytics/revenue/table | python duckdb_delta.py

Each line of the process's input is the place of a table. It writes each table as a stream of Arrow.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa

PACKAGES = Path(sys.prefix) / "duckdb"
NO_EXTENSION = 3  # exit code


class NoExtension(Exception):
    """DuckDB's extension is not installed and cannot be downloaded."""


def read(place: Path | str) -> tuple[str, pa.Table]:
    """DuckDB's version, and the table's rows. Raises `NoExtension`."""
    process = start()
    stream, problem = process.communicate(f"{place}\n".encode())
    if process.returncode:
        raise (NoExtension if process.returncode == NO_EXTENSION else RuntimeError)(problem.decode().strip())
    rows = pa.ipc.open_stream(stream).read_all()
    return rows.schema.metadata[b"duckdb"].decode(), rows


def start() -> subprocess.Popen[bytes]:
    """The process that reads tables; with the DuckDB of `PACKAGES` if it is there."""
    paths = [str(PACKAGES), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        [sys.executable, __file__],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def connect() -> duckdb.DuckDBPyConnection:
    """DuckDB with the extension. Raises `duckdb.Error` if it cannot be downloaded."""
    connection = duckdb.connect()
    try:
        import duckdb_extension_delta
    except ImportError:
        connection.install_extension("delta")
        connection.load_extension("delta")
        return connection
    [extension] = Path(duckdb_extension_delta.__file__).parent.rglob("*.duckdb_extension")
    connection.load_extension(str(extension))
    return connection


def main() -> None:
    """Read tables until the input ends. An error ends the process."""
    try:
        connection = connect()
    except duckdb.Error as error:
        print(str(error).splitlines()[0], file=sys.stderr)
        sys.exit(NO_EXTENSION)
    for line in sys.stdin:
        rows = connection.sql("select * from delta_scan(?)", params=[line.rstrip("\n")]).to_arrow_table()
        schema = rows.schema.with_metadata({"duckdb": duckdb.__version__})
        with pa.ipc.new_stream(sys.stdout.buffer, schema) as stream:
            stream.write_table(rows)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
