"""Clocks that tests move: this machine's, and the storage's."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.shard import collect_garbage, delete_dropped

DAY = 86_400_000  # ms


@contextmanager
def clock_ahead(by: int) -> Iterator[None]:
    """This process's clock is ``by`` ms ahead of the storage's, inside."""
    wall_clock.install(lambda: time.time_ns() // 1_000_000 + by)
    try:
        yield
    finally:
        wall_clock.install(None)


@contextmanager
def storage_clock(storage: Any, now: int) -> Iterator[None]:
    """It is ``now`` (ms) by the clock of ``storage``, inside; files keep their own times."""
    storage.clock = lambda: now
    try:
        yield
    finally:
        del storage.clock


def collect_at(handle: Any, now_ms: int, **grace: int) -> list[str]:
    """Collect garbage at ``now_ms`` by the storage's clock."""
    with storage_clock(handle.storage, now_ms):
        return collect_garbage(handle, **grace)


def delete_dropped_at(handle: Any, now_ms: int) -> list[str]:
    """`delete_dropped` at ``now_ms`` by the storage's clock."""
    with storage_clock(handle.storage, now_ms):
        return delete_dropped(handle)
