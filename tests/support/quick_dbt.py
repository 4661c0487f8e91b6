"""dbt as tests want it: hundreds of invocations in one process, each of which builds a manifest and
throws it away.
"""

from __future__ import annotations

import gc


def install() -> None:
    """For this process: saves a quarter of dbt's own time, and changes nothing else."""
    # A manifest is half a million objects, all alive: looking through them every 700 allocations
    # finds nothing.
    gc.set_threshold(100_000, 50, 1000)
    _no_look_at_the_stack()


def _no_look_at_the_stack() -> None:
    """An adapter's behaviour flags say where they come from, for a warning; dbt reads the source of
    every frame of the stack for it.
    """
    from dbt_common.behavior_flags import BehaviorFlagRendered

    BehaviorFlagRendered._default_source = staticmethod(lambda: "dbt.adapters")
