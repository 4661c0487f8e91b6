"""Going on where another run has replaced a shard meanwhile: a handle belongs to one generation, a
run to none.

A run that meets `ShardReplaced` has lost a race, as one that meets a conflict has: it starts again
from what is there now. What it had staged was meant for contents that are gone, so it is deleted
and can never be appended to the new generation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from dbt.adapters.mvsink.shard.errors import ShardReplaced
from dbt.adapters.mvsink.shard.write import WriteHandle

MOST_ROUNDS = 10  # no run is overtaken so often unless something replaces the shard in a loop

Result = TypeVar("Result")


def following(handles: Sequence[WriteHandle], act: Callable[[], Result]) -> Result:
    """What ``act`` gives, once no shard of ``handles`` is replaced while it runs. It has to read
    everything again on each call.

    Raises `ShardReplaced` when that has happened ten times.
    """
    for _ in range(MOST_ROUNDS - 1):
        try:
            return act()
        except ShardReplaced:
            for handle in handles:
                handle.follow()
    return act()
