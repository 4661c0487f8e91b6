"""What a run may compute from the changes of its inputs: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from dbt.adapters.mvsink.engine.predicates import Filter
from dbt.adapters.mvsink.incremental import Analysed, filters
from dbt.adapters.mvsink.inputs.sides import InputSides


@dataclass(frozen=True)
class Increment:
    """A change of contents that follows from the changes of ``inputs``.

    ``inputs``: the relations that are read in another way than the text of the query has it.
    ``clock``: the times (ms) that `mv_now()` was and is; None if the query does not use it.
    ``small``: so little data is read that evaluating the query costs no more; of a query over the
    model's sums: there are few. ``reading``: a number for all that decides how it is read.
    """

    analysed: Analysed
    inputs: tuple[InputSides, ...]
    clock: tuple[int, int] | None = None
    small: bool = False
    reading: int = 0

    @cached_property
    def filters(self) -> Mapping[str, Filter]:
        """See `incremental.filters`."""
        return filters(self.analysed)
