"""Named points at which tests may kill or fail a run. Outside tests `reach` does nothing.

In a run's order:

- ``imported``: a table's rows are the first contents.
- ``evolved``: columns were added, the correction comes next.
- ``changes staged``: what changed in the inputs is on storage.
- ``staged``: the batch is on storage, nothing is committed.
- ``upper raised``: a new shard is at its as-of, the batch is not appended yet.
- ``appended``: the commit is done, and not reported yet.
- ``to be published``: a table that was in the model's place has another name now.
- ``view published``.
- ``table to be committed`` and ``table committed``: of a model that is published as a table.
- ``entry dropped`` and ``table in the catalog``: its entry becomes a table.

A task's run also has ``looked`` (the output's state was read), ``held`` (its input is held, the
start is not committed) and ``statement staged`` (one of several).
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
