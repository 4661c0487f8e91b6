"""Named points at which tests may kill or fail a run. Outside tests `reach` does nothing.

The points, in a run's order: ``evolved`` (columns were added, the correction is still to come),
``staged`` (the batch is on storage, nothing committed), ``upper raised`` (a new shard is at its as-of,
the batch is not appended yet), ``appended`` (the commit is done, the caller does not know), ``view
published``. A task's run has ``looked`` (the output's state is read), ``held`` (its input is held,
the start not committed) and ``statement staged`` (of several) besides.
"""

from __future__ import annotations

from collections.abc import Callable

_hook: Callable[[str], None] | None = None


def install(hook: Callable[[str], None] | None) -> None:
    """Have ``hook`` called with each point's name; None removes it."""
    global _hook
    _hook = hook


def reach(point: str) -> None:
    """Called by the sink at each point."""
    if _hook is not None:
        _hook(point)
