"""Errors of statements and of types."""

from __future__ import annotations

from collections.abc import Sequence

from dbt.adapters.mvsink.spark_words import UNREADABLE


class DataflowError(Exception):
    """Root of the dataflow layer's errors."""


class EngineError(DataflowError):
    """The engine refused a statement, or the statement failed. `sqlstate` has five characters or is
    empty.
    """

    error_code = "MVS-600"

    def __init__(self, message: str, sqlstate: str = ""):
        super().__init__(message)
        self.message = message
        self.sqlstate = sqlstate

    @property
    def caused_by_data(self) -> bool:
        """Whether values are at fault: overflow, zero division, cast, constraint (SQLSTATE 22, 23).

        Analysis, memory, I/O and connection errors have other classes, or none.
        """
        return self.sqlstate[:2] in ("22", "23")

    @property
    def missing_relation(self) -> bool:
        """Whether the statement names a table or view that does not exist."""
        return self.sqlstate == "42P01"


class UnreadableSql(EngineError):
    """The engine's parser does not take the statement."""

    error_code = "MVS-601"


class UnknownInSql(EngineError):
    """The statement names a table, column, function or schema that does not exist."""

    error_code = "MVS-602"


class SqlRefused(EngineError):
    """The statement has a meaning, but types, groups or columns in it do not fit."""

    error_code = "MVS-603"


class ValueRefused(EngineError):
    """A value for which an expression has no result: in ANSI mode an overflow, a cast, an index."""

    error_code = "MVS-604"


class UnreadableFiles(EngineError):
    """The files of a relation that the statement reads cannot be read."""

    error_code = "MVS-605"


_UNKNOWN = ("42P01", "42703", "42704", "42883", "42S02")  # SQLSTATEs of names that mean nothing


def kind_of(message: str, sqlstate: str) -> type[EngineError]:
    """The class of an error of the engine, by its text and its SQLSTATE.

    >>> kind_of("[UNRESOLVED_COLUMN] ...", "42703").__name__
    'UnknownInSql'
    """
    if UNREADABLE.search(message):
        return UnreadableFiles
    if sqlstate == "42601":
        return UnreadableSql
    if sqlstate in _UNKNOWN:
        return UnknownInSql
    if sqlstate[:2] in ("21", "22", "23"):
        return ValueRefused
    return SqlRefused if sqlstate[:2] in ("42", "0A") else EngineError


class UnsupportedType(DataflowError):
    """A column's type cannot be stored or compared faithfully."""

    error_code = "MVS-620"

    def __init__(self, column: str, type_: str, allowed: Sequence[str]):
        super().__init__(
            f"column `{column}` has type {type_}, which a shard cannot keep; cast it to one of: {', '.join(allowed)}"
        )


class SubstitutedName(DataflowError):
    """Spark would replace a variable in the name of a column or a field."""

    error_code = "MVS-621"

    def __init__(self, name: str):
        super().__init__(
            f"the name `{name}` holds a variable, which Spark replaces in every statement (spark.sql.variable.substitute); rename "
            "the column or field"
        )


class SettingRefused(DataflowError):
    """The session has a setting that makes shard files inexact, and it cannot be changed."""

    error_code = "MVS-622"

    def __init__(self, name: str, value: str, wanted: str, reason: str):
        super().__init__(
            f"the session's {name} is {value}, and staged files need {wanted}; it cannot be set: {reason}. Nothing was written. Have the "
            "server allow it, or set it there"
        )


class ReservedColumn(DataflowError):
    """A column's name starts with the reserved prefix."""

    error_code = "MVS-623"

    def __init__(self, column: str):
        super().__init__(f"column `{column}`: names that start with `_mv_` are reserved; rename the column")
