"""Python code in a process of its own."""

from __future__ import annotations

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
