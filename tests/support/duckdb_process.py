"""A process with the DuckDB that reads tables: see example_project/duckdb_delta.py."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa


class DuckDBProcess:
    """One process for all tables, which ends with this one. Threads take turns: the answers to two
    questions would mix.
    """

    def __init__(self, start: Callable[[], subprocess.Popen[bytes]]) -> None:
        self._start, self._process, self._turn = start, None, threading.Lock()

    def read(self, place: Path | str) -> pa.Table:
        """The rows of the table there. Raises AssertionError with what DuckDB says."""
        with self._turn:
            process = self._process = self._process or self._start()
            process.stdin.write(f"{place}\n".encode())
            process.stdin.flush()
            try:
                return pa.ipc.open_stream(process.stdout).read_all()
            except pa.ArrowInvalid as error:
                self._process = None
                raise AssertionError(process.communicate()[1].decode()) from error
