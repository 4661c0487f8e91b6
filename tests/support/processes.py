"""Python code in a process of its own."""

from __future__ import annotations

import socket
import subprocess
import sys
import textwrap

LIMIT = 300  # seconds


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
