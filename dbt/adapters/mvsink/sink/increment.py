"""What a run may compute from the changes of its inputs, and why it does not: plain values."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.engine import Column
from dbt.adapters.mvsink.incremental import Analysed, Filter, Scoped, filters

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


class Rows(Protocol):
    """An input's rows at one position: queries of all its columns, in order."""

    def all(self) -> str:
        """Every row."""
        ...

    def where(self, names: Collection[str], condition: str) -> str:
        """Those rows, of which there are few, that fulfil a condition over the columns ``names``,
        in lower case. Other columns may be NULL.
        """
        ...


class Few(Protocol):
    """Reads the net change of an input into this process."""

    def __call__(self, columns: pa.Schema, where: pc.Expression | None = None) -> pa.Table | None:
        """These columns and `_mv_diff` of what changed; with a ``where``, an exact condition over
        columns of whole rows, of the rows that fulfil it. None if that is too much.
        """
        ...


class Find(Protocol):
    """Reads rows of an input into this process."""

    def __call__(self, columns: pa.Schema, where: pc.Expression) -> tuple[pa.Table, pa.Table] | None:
        """These columns of the rows that fulfil ``where``, an exact condition over columns of whole
        rows: as they are now, and as they were before. None if that is too much.
        """
        ...


@dataclass(frozen=True)
class InputSides:
    """A relation that the query reads, now and before. ``name``: as in `Analysed.relations`.

    ``change`` is a query of its ``columns``, all of them, in order, and `_mv_diff`: new less old;
    None if it did not change. ``few``: see `Few`. ``find``: see `Find`. ``rows``: about how many
    rows it has now, or None. ``updates``: how many rows ``change`` has at most, or None.
    """

    name: str
    columns: tuple[Column, ...]
    new: Rows
    old: Rows
    change: str | None = None
    few: Few | None = None
    find: Find | None = None
    rows: int | None = None
    updates: int | None = None


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


@dataclass(frozen=True)
class Full:
    """The query is evaluated, and all contents are compared. ``reason``: a clause; empty if there
    is nothing to say. ``expected``: also `Incremental.ALWAYS` allows it. ``usual``: so it is on
    most runs of the model, and dbt's line does not show it.
    """

    reason: str = ""
    expected: bool = False
    usual: bool = False


def all_may_differ(scoped: Scoped, rows: int) -> bool:
    """Whether all ``rows`` of the shard may differ, and are many."""
    return scoped.keys is None and rows > MANY_ROWS
