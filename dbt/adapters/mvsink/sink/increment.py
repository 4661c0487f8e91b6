"""What a run may compute from the changes of its inputs, and why it does not: plain values."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from dbt.adapters.mvsink.engine.predicates import Filter
from dbt.adapters.mvsink.incremental import Analysed, Scoped, filters
from dbt.adapters.mvsink.inputs.sides import InputSides

# reasons to evaluate the query
SMALL = "its data is small"
ALL_ROWS = "all of its rows may differ"
MANY_KEYS = "more than 20% of its keys may differ"
CHANGED_BY = " changed by "  # behind the input's name, in front of the share
USUALLY_MANY_KEYS = "more than 20% of its keys changed in earlier runs"
USUALLY_MUCH = "much of an input may have changed, as it had in earlier runs"
QUICK = "evaluating the query takes less than 0.8 s"
SLOW = "its incremental runs took as long as evaluating the query"

MANY_ROWS = 100_000  # of a shard: as many are not compared because all may differ


class Incremental(enum.Enum):
    """`AUTO`: from the changes where that is right and costs less. `ALWAYS`: or the model fails.
    `NEVER`: every run evaluates the query.
    """

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class SumsPolicy(enum.Enum):
    """Whether a model whose query adds up keeps its sums. `AUTO`: where incremental runs without
    them take as long as evaluating the query.
    """

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


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


def all_may_differ(scoped: Scoped, rows: int) -> bool:
    """Whether all ``rows`` of the shard may differ, and are many."""
    return scoped.keys is None and rows > MANY_ROWS
