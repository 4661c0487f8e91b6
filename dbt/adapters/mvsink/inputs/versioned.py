"""Tables with numbered versions, and what binding them to times needs of them.

A table format with versions implements `VersionedTable`; `version_binding` makes it an `Input`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from dbt.adapters.mvsink.engine import Column


@dataclass(frozen=True)
class TableVersion:
    """A version of one table; a table created again in its place has another ``table_id``."""

    version: int
    table_id: str


class Signs(NamedTuple):
    """Whether a change may have added rows, and may have removed rows; exact unless both."""

    added: bool
    removed: bool


class VersionedTable(Protocol):
    """A table whose versions are numbered upwards and do not change."""

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

    def signs(self, before: int | None, after: int) -> Signs:
        """The kinds of changes from ``before`` to ``after``, from metadata alone."""
        ...

    def contents(self, version: int, columns: Sequence[Column], more: str = "") -> str:
        """``columns`` and the items ``more`` of the rows of ``version``, as SQL."""
        ...

    def changes(self, before: int | None, after: int, columns: Sequence[Column]) -> str | None:
        """``columns`` and `_mv_diff` of what changed from ``before`` (None: an empty table) to
        ``after``, consolidated, as SQL; None if nothing did.
        """
        ...
