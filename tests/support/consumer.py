"""A consumer of `mvsink subscribe --output ndjson` that keeps a copy, and the command in a process
that can be killed.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import Any


class Consumer:
    """Applies updates only at progress lines, as docs/commands.md says.

    ``progress``: all updates before it (ms) are in ``copy``, which counts rows by their values.
    """

    def __init__(self) -> None:
        self.copy: Counter[tuple[Any, ...]] = Counter()
        self.progress = -1
        self.pending: list[dict[str, Any]] = []

    def read(self, text: str) -> None:
        """Lines of the stream; the last may be incomplete, as nothing follows it."""
        for line in text.splitlines():
            try:
                value = json.loads(line)
            except ValueError:  # empty, or cut off when the process was killed
                continue
            self._take(value)

    def _take(self, value: dict[str, Any]) -> None:
        if "_mv_start" in value:
            self.pending = []
            if value["_mv_snapshot"]:
                self.copy, self.progress = Counter(), -1
            else:
                self.progress = max(self.progress, value["_mv_start"])
        elif "_mv_progress" in value:
            self._apply(value["_mv_progress"])
        else:
            self.pending.append(value)

    def _apply(self, frontier: int) -> None:
        for update in self.pending:
            if update["_mv_time"] >= self.progress:
                row = tuple(value for name, value in update.items() if not name.startswith("_mv_"))
                self.copy[row] += update["_mv_diff"]
        self.pending, self.progress = [], max(self.progress, frontier)

    def rows(self) -> dict[tuple[Any, ...], int]:
        """The copy, without rows that are gone."""
        return {row: count for row, count in self.copy.items() if count}


def run_command(directory: str, arguments: list[str], connection: Any, path: str) -> None:
    """`mvsink` with these arguments, in this process: to ``connection``, or the end of ``path``."""
    from dbt.adapters.mvsink.cli.main import cli

    os.chdir(directory)
    out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) if path else connection.fileno()
    os.dup2(out, 1)
    cli(arguments)
