"""Continuing after another run has replaced a shard: handles are of one generation, runs are not.

A run that gets `ShardReplaced` has lost a race, as with a conflict: it reloads and starts again.
Its staged files were meant for contents that are gone, so they are deleted, and can never be
appended to the new generation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from dbt.adapters.mvsink.shard.errors import ShardReplaced
from dbt.adapters.mvsink.shard.write import WriteHandle

MAX_ROUNDS = 10  # a run loses this often only if something replaces the shard in a loop

Result = TypeVar("Result")


def following(handles: Sequence[WriteHandle], act: Callable[[], Result]) -> Result:
    """The result of ``act``, repeated until no shard of ``handles`` is replaced while it runs.

    ``act`` has to read everything again on each call. Raises `ShardReplaced` after ten attempts.
    """
    for _ in range(MAX_ROUNDS - 1):
        try:
            return act()
        except ShardReplaced:
            for handle in handles:
                handle.follow()
    return act()
