"""This machine's clock. All of the package reads it here, so that tests can move it.

It says when a run began, and what a person reads in a log. What is deleted, and which history is
kept, depends on the storage's clock instead (`shard.storage`): machines disagree about the time.
Waits and durations use `time.monotonic`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_source: Callable[[], int] | None = None


def install(source: Callable[[], int] | None) -> None:
    """Have ``source`` give the time in ms; None returns to the machine's clock."""
    global _source
    _source = source


def now_ms() -> int:
    """Now, in ms since the Unix epoch."""
    return time.time_ns() // 1_000_000 if _source is None else _source()
