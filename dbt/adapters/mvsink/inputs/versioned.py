"""Tables with versions, and the interface that binding them to times needs.

A table format with versions implements `VersionedTable`; `version_binding` makes it an `Input`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from dbt.adapters.mvsink.engine import Column

EMPTY = -1  # the version of a table that has never been written to


def rows_at(name: str, version: int, items: str = "*") -> str:
    """The query for the rows of the table ``name``, as SQL names it, at ``version``."""
    if version == EMPTY:
        return f"select {items} from {name} where false"
    return f"select {items} from {name} version as of {version}"


@dataclass(frozen=True)
class TableVersion:
    """A version of one table; a table created again in its place has another ``table_id``, which is
    empty if it cannot be known.
    """

    version: int
    table_id: str


class Signs(NamedTuple):
    """Whether a change may have added rows, and may have removed rows; exact unless both."""

    added: bool
    removed: bool


class VersionedTable(Protocol):
    """A table whose versions do not change and follow each other in an order of its own."""

    @property
    def id(self) -> str:
        """Names the table; the same in every run."""
        ...

    @property
    def location(self) -> str:
        """Its place, for messages."""
        ...

    def newest(self) -> TableVersion:
        """The newest version. Raises an `InputError` for a table that cannot be read."""
        ...

    def columns(self, version: int) -> tuple[Column, ...]:
        """The columns at ``version``, in order."""
        ...

    def check(self, version: int) -> None:
        """Raises `UnreadableVersion` if the rows of ``version`` cannot be read."""
        ...

    def between(self, before: int, after: int) -> Sequence[int]:
        """The versions after ``before`` up to ``after``, in order. Raises an `InputError` if
        ``after`` does not follow ``before``.
        """
        ...

    def rows(self, version: int) -> int | None:
        """The number of rows in the files of ``version``, deleted ones included; None: unknown."""
        ...

    def signs(self, before: int | None, after: int) -> Signs:
        """The kinds of changes from ``before`` to ``after``, from metadata alone."""
        ...

    def zoned(self, version: int) -> bool:
        """Whether the session's time zone decides about the rows of ``version``."""
        ...

    def contents(self, version: int, columns: Sequence[Column], more: str = "") -> str:
        """``columns`` and the items ``more`` of the rows of ``version``, as SQL."""
        ...

    def changes(self, before: int | None, after: int, columns: Sequence[Column]) -> str | None:
        """``columns`` and `_mv_diff` of what changed from ``before`` (None: an empty table) to
        ``after``, consolidated, as SQL; None if nothing did.
        """
        ...
