"""Errors of statements and of types."""

from __future__ import annotations

from collections.abc import Sequence


class DataflowError(Exception):
    """Root of the dataflow layer's errors."""


class EngineError(DataflowError):
    """The engine refused a statement, or the statement failed. `sqlstate` has five characters or is
    empty.
    """

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


class UnsupportedType(DataflowError):
    """A column's type cannot be stored or compared faithfully."""

    def __init__(self, column: str, type_: str, allowed: Sequence[str]):
        super().__init__(
            f"column `{column}` has type {type_}, which a shard cannot keep; cast it to one of: {', '.join(allowed)}"
        )


class SubstitutedName(DataflowError):
    """Spark would replace a variable in the name of a column or a field."""

    def __init__(self, name: str):
        super().__init__(
            f"the name `{name}` holds a variable, which Spark replaces in every statement (spark.sql.variable.substitute); rename "
            "the column or field"
        )


class SettingRefused(DataflowError):
    """The session has a setting that makes shard files inexact, and it cannot be changed."""

    def __init__(self, name: str, value: str, wanted: str, reason: str):
        super().__init__(
            f"the session's {name} is {value}, and staged files need {wanted}; it cannot be set: {reason}. Nothing was written. Have the "
            "server allow it, or set it there"
        )


class ReservedColumn(DataflowError):
    """A column's name starts with the reserved prefix."""

    def __init__(self, column: str):
        super().__init__(f"column `{column}`: names that start with `_mv_` are reserved; rename the column")
