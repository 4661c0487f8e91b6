"""What a run may compute from the changes of its inputs, and why it does not: plain values."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from dbt.adapters.mvsink.engine import Column
from dbt.adapters.mvsink.incremental import Analysed


class Incremental(enum.Enum):
    """`AUTO`: from the changes where that is right and costs less. `ALWAYS`: or the model fails.
    `NEVER`: every run evaluates the query.
    """

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True)
class InputSides:
    """A relation that the query reads, before and now. ``name``: as in `Analysed.relations`.

    ``new`` and ``old`` are queries of its ``columns``, all of them, in order; ``change`` gives
    these and `_mv_diff`, new less old, and is None if it did not change. ``rows``: of ``new``, or
    None if that is not known.
    """

    name: str
    columns: tuple[Column, ...]
    new: str
    old: str
    change: str | None = None
    rows: int | None = None


@dataclass(frozen=True)
class Increment:
    """A change of contents that follows from the changes of ``inputs``.

    ``inputs``: the relations that are read in another way than the text of the query has it.
    ``clock``: the times (ms) that `mv_now()` was and is; None if the query does not use it.
    ``small``: so little data is read that evaluating the query costs no more.
    """

    analysed: Analysed
    inputs: tuple[InputSides, ...]
    clock: tuple[int, int] | None = None
    small: bool = False


@dataclass(frozen=True)
class Full:
    """The query is evaluated, and all contents are compared. ``reason``: a clause; empty if there
    is nothing to say. ``expected``: also `Incremental.ALWAYS` allows it.
    """

    reason: str = ""
    expected: bool = False
