"""What a query needs to know of one input: its rows now and before, and the change between them.

`db.t` was read at version 7 and is at version 9 now: ``new`` is a query of version 9, ``old`` one
of version 7, and ``change`` has the net rows of versions 8 and 9 with their `_mv_diff`. Where that
is not known, `EvaluateFully` says why.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.engine import Column


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


class ReadChange(Protocol):
    """Reads the net change of an input into this process."""

    def __call__(self, columns: pa.Schema, where: pc.Expression | None = None) -> pa.Table | None:
        """These columns and `_mv_diff` of what changed; with a ``where``, an exact condition over
        columns of whole rows, of the rows that fulfil it. None if that is too much.
        """
        ...


class ReadRows(Protocol):
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
    None if it did not change. ``read_change`` and ``read_rows`` read the change, or some rows, into
    this process. ``rows``: about how many rows it has now, or None. ``updates``: how many rows
    ``change`` has at most, or None.
    """

    name: str
    columns: tuple[Column, ...]
    new: Rows
    old: Rows
    change: str | None = None
    read_change: ReadChange | None = None
    read_rows: ReadRows | None = None
    rows: int | None = None
    updates: int | None = None


@dataclass(frozen=True)
class QueryRows:
    """See `Rows`: what a query gives."""

    query: str

    def all(self) -> str:
        """See `Rows`."""
        return self.query

    def where(self, names: Collection[str], condition: str) -> str:
        """See `Rows`."""
        return f"select * from (\n{self.query}\n) where {condition}"
