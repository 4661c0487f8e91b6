"""Python code in a process of its own."""

from __future__ import annotations

import socket
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path

LIMIT = 550  # seconds


def process(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``code``; `TimeoutExpired` after `LIMIT`, with the stack of every thread in its
    ``stderr``.
    """
    watched = f"import faulthandler\nfaulthandler.dump_traceback_later({LIMIT - 5})\n{textwrap.dedent(code)}"
    return subprocess.run(
        [sys.executable, "-c", watched, *arguments], capture_output=True, text=True, timeout=LIMIT
    )


def free_port() -> int:
    """A port of 127.0.0.1 that nothing uses."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def command_lines(parent: int) -> dict[int, str]:
    """The command lines of a process's descendants, by their ids."""
    lines: dict[int, str] = {}
    parents: dict[int, int] = {}
    for process_ in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            fields = (process_ / "stat").read_text().rpartition(")")[2].split()
            parents[int(process_.name)] = int(fields[1])
            lines[int(process_.name)] = (process_ / "cmdline").read_text().replace("\0", " ")
    family = {parent}
    while new := {child for child, above in parents.items() if above in family} - family:
        family |= new
    return {child: lines[child] for child in family - {parent} if child in lines}
