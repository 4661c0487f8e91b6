"""Tables with versions: what a format of them has to implement, and what follows from that.

The rows of a `VersionedTable` at a version, and the change between two of them, are all that
`version_binding` needs to make it a task's `Input`, and `sides_of_table` to make it a view's. A
`VersionedFormat` says which tables are of the format, and which version each had at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from dbt.adapters.mvsink.engine import Column, DataflowError, Engine, EngineError
from dbt.adapters.mvsink.inputs.position import Position
from dbt.adapters.mvsink.inputs.protocol import Format, TableOptions
from dbt.adapters.mvsink.inputs.sides import InputSides, QueryRows
from dbt.adapters.mvsink.reasons import EvaluateFully, Why
from dbt.adapters.mvsink.shard import ShardError

EMPTY = -1  # the version of a table that has never been written to
UNKNOWN = "the times of its versions cannot be read"


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


class VersionSigns(NamedTuple):
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

    def signs(self, before: int | None, after: int) -> VersionSigns:
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


@dataclass(frozen=True)
class Pinned:
    """The ``version`` that is read; None: the table as it is. ``newer``: why that is not the one of
    the refresh, as a clause.
    """

    version: int | None
    newer: str = ""


class VersionedFormat(Format, Protocol):
    """A format whose tables have versions. Names of tables are as SQL has them."""

    def has(self, properties: Mapping[str, str]) -> bool:
        """Whether a table with these properties is of the format."""
        ...

    def newest(self, name: str, engine: Engine) -> int | None:
        """The newest version of the table, now; None if that cannot be known."""
        ...

    def at(self, name: str, time: int, newest: int, options: TableOptions) -> Pinned:
        """The version that the table had at ``time`` (ms); ``newest`` is the one that it has."""
        ...

    def sides(
        self, name: str, at: Position, before: int, version: int, options: TableOptions
    ) -> InputSides | EvaluateFully:
        """The table, whose position is ``at``, read at ``version`` after ``before``."""
        ...


def unreadable(engine: Engine, name: str, version: int) -> str:
    """Why Spark cannot read ``version``, as a clause; empty if it can, as far as its log shows."""
    try:
        engine.columns(rows_at(name, version))
    except EngineError:
        return f"its version {version} cannot be read any more"
    return ""


def sides_of_table(name: str, table: VersionedTable, before: int, now: int) -> InputSides | EvaluateFully:
    """A table at two of its versions."""
    try:
        columns = table.columns(now)
        if table.columns(before) != columns:
            return EvaluateFully(Why.COLUMNS, name)
        change, rows = table.changes(before, now, columns), table.rows(now)
    except (DataflowError, ShardError, OSError) as error:
        return EvaluateFully(Why.UNREADABLE, str(error))
    return InputSides(name, columns, at_version(name, now), at_version(name, before), change, rows=rows)


def at_version(name: str, version: int) -> QueryRows:
    """A table's rows at a version."""
    return QueryRows(rows_at(name, version))
