"""A task as values: `parse` reads them and `bind` turns them into queries.

Every expression is the user's own text, cut from the source. This package recognizes what dbt's
macros render:

- ``{{ ref('x') }}``: ``schema.x``, or in dbt's parentheses, ``(select * from schema.x where false
  limit 0)``
- ``{{ mv_deletes(ref('x')) }}``: the same, then a blank and `DELETES_MARK`: ``schema.x /*
  mv_deletes */``; with ``{{ mv_contents(ref('x')) }}`` it is `CONTENTS_MARK`
- ``{{ mv_now() }}``: ``timestamp_millis(1700000000000L) /* mv_now */`` (`marks.NOW`)
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from dbt.adapters.mvsink.user_sql.splice import with_ctes

DELETES_MARK = "/* mv_deletes */"
CONTENTS_MARK = "/* mv_contents */"


class Form(enum.Enum):
    """How a task is written; the value is its head."""

    ON_INPUT = "on input"
    TRANSFORM = "from transform"
    RETAIN = "from retain"


@dataclass(frozen=True)
class InputRef:
    """The relation that drives the task, as dbt rendered it; ``wrapped``: in dbt's parentheses."""

    name: str
    wrapped: bool = False


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A statement: its number from 0, first line from 1, first position, text, and WITH."""

    number: int
    line: int
    start: int
    text: str
    ctes: str | None = None


@dataclass(frozen=True, kw_only=True)
class Insert(Statement):
    """INSERT INTO this [(columns)] query."""

    columns: tuple[str, ...] | None
    query: str


@dataclass(frozen=True, kw_only=True)
class Delete(Statement):
    """DELETE FROM this [alias] [WHERE where]."""

    where: str | None
    alias: str | None = None


@dataclass(frozen=True)
class Assignment:
    """``column = expression``."""

    column: str
    expression: str


@dataclass(frozen=True, kw_only=True)
class Update(Statement):
    """UPDATE this [alias] SET assignments [WHERE where]."""

    assignments: tuple[Assignment, ...]
    where: str | None
    alias: str | None = None


class Action(enum.Enum):
    """The action of a clause of a MERGE; ``ALL`` is the form with a star."""

    UPDATE = "update"
    UPDATE_ALL = "update *"
    DELETE = "delete"
    INSERT = "insert"
    INSERT_ALL = "insert *"


@dataclass(frozen=True)
class MergeClause:
    """WHEN ... [AND condition] THEN action. An INSERT's assignments: its columns and values."""

    action: Action
    condition: str | None = None
    assignments: tuple[Assignment, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Merge(Statement):
    """MERGE INTO this [alias] USING source [source_alias] ON on, and its clauses in order."""

    alias: str | None
    source: str
    source_alias: str | None
    on: str
    matched: tuple[MergeClause, ...] = ()
    not_matched: tuple[MergeClause, ...] = ()
    not_matched_by_source: tuple[MergeClause, ...] = ()


AnyStatement = Insert | Delete | Update | Merge


@dataclass(frozen=True)
class Program:
    """A task. ``deletes_used`` means that a statement reads the rows that the input lost,
    ``contents_used`` that one reads the whole input.

    ``self_referencing`` means that a statement reads the output, as every statement except an
    INSERT does. ``ctes`` is a text ``with a as (...), ...`` that applies to every statement;
    ``text`` is the whole source.
    """

    model: str
    this: str
    text: str
    form: Form
    input: InputRef
    statements: tuple[AnyStatement, ...]
    deletes_used: bool = False
    self_referencing: bool = False
    ctes: str | None = None
    contents_used: bool = False

    def with_ctes(self, query: str) -> str:
        """``query`` with the task's CTEs in front of it."""
        return with_ctes(self.ctes, query)
