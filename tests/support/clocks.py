"""A machine whose clock is wrong. For tests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from dbt.adapters.mvsink import wall_clock

DAY = 86_400_000  # ms


@contextmanager
def clock_ahead(by: int) -> Iterator[None]:
    """This process's clock is ``by`` ms ahead of the storage's, inside."""
    wall_clock.install(lambda: time.time_ns() // 1_000_000 + by)
    try:
        yield
    finally:
        wall_clock.install(None)
