"""This machine's clock. All of the package reads it here, so that tests can move it.

It decides when a run began and the times that people read in a log. Deletions, and how long history
is kept, depend on the storage's clock instead (`shard.storage`), because machines disagree about
the time. Waits and durations use `time.monotonic`.
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
