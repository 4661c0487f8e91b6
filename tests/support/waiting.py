"""Waiting for what other processes and threads do."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any


def wait_for(done: Callable[[], object], what: str, *processes: subprocess.Popen[Any]) -> None:
    """Returns once ``done()`` is true. `AssertionError` if one of ``processes`` fails, or all end,
    before it is.

    There is no limit: a busy machine is no failure, and pytest ends a test that hangs, with the
    stack of every thread and what was printed.
    """
    print(f"waiting for {what}")
    while not done():
        codes = [process.poll() for process in processes]
        if codes and (None not in codes or any(codes)):
            assert done(), f"ended with {codes} before there was {what}"
        time.sleep(0.02)
