"""What can go wrong in the dataflow layer, one class a kind.

Messages name what was given and what is allowed; the dbt layer adds the model's name.
"""

from __future__ import annotations

from collections.abc import Sequence

SHOWN_FILES = 5  # in a message


class SinkError(Exception):
    """Root of the dataflow layer's errors."""


class EngineError(SinkError):
    """The engine refused or failed a statement. `sqlstate` is its five-character code, empty if it gave none."""

    def __init__(self, message: str, sqlstate: str = ""):
        super().__init__(message)
        self.message = message
        self.sqlstate = sqlstate

    @property
    def caused_by_data(self) -> bool:
        """Overflow, division by zero, an invalid cast, a violated constraint: SQLSTATE classes 22 and 23.

        Analysis, memory, I/O and connection errors have other classes, or none.
        """
        return self.sqlstate[:2] in ("22", "23")


class UnsupportedType(SinkError):
    """A column's type cannot be stored or compared faithfully."""

    def __init__(self, column: str, given: str, allowed: Sequence[str]):
        super().__init__(
            f"column `{column}` has type {given}, which a shard cannot keep; cast it to one of: {', '.join(allowed)}"
        )


class ReservedColumn(SinkError):
    """A column's name starts with the reserved prefix."""

    def __init__(self, column: str):
        super().__init__(f"column `{column}`: names that start with `_mv_` are reserved; rename the column")


class SubstitutedName(SinkError):
    """Spark would replace a variable in the name of a column or a field."""

    def __init__(self, name: str):
        super().__init__(
            f"the name `{name}` holds a variable, which Spark replaces in every statement (spark.sql.variable.substitute); rename "
            "the column or field"
        )


class SchemaChanged(SinkError):
    """The query's columns differ from the shard's and `on_schema_change` is `fail`."""

    def __init__(self, changes: Sequence[str]):
        super().__init__(
            "the columns of the query differ from the shard's, and on_schema_change is 'fail': "
            + "; ".join(changes)
            + ". Allowed: 'sync_all_columns', 'append_new_columns', or --full-refresh"
        )


class NeverRefreshed(SinkError):
    """A shard would be created, but all refreshes of its schedule are past. ``last`` and ``now`` are ms."""

    def __init__(self, last: int | None, now: int):
        super().__init__(f"the specified refreshes would never happen: the last one is at {last}, now is {now}")
        self.last = last
        self.now = now


class UnknownColumn(SinkError):
    """A config names a column that the query does not have."""

    def __init__(self, option: str, given: str, allowed: Sequence[str]):
        super().__init__(f"{option}: got {given!r}, expected columns of the query: {', '.join(allowed)}")


class NondeterministicQuery(SinkError):
    """Both evaluations of the query differ although it was read from one staged copy: the storage is broken."""


class SettingRefused(SinkError):
    """The session has a setting under which a shard's files would not be exact, and does not let it be changed."""

    def __init__(self, name: str, given: str, wanted: str, reason: str):
        super().__init__(
            f"the session's {name} is {given}, and staged files need {wanted}; it cannot be set: {reason}. Nothing was written. Have the "
            "server allow it, or set it there"
        )


class DifferentPlaces(SinkError):
    """What the engine writes below a shard root is not, or not all, found from this process."""

    def __init__(self, root: str, written: str, looked: str, found: int, wrote: int):
        part = "nothing of it is there" if not found else f"only {found} of {wrote} files are there"
        super().__init__(
            f"Spark and this Python process see different places under shard_root {root}: Spark reports that it wrote {written}; "
            f"Python looked at {looked}, and {part}. Nothing was written to a shard. shard_root must be a place that every executor "
            "of Spark and this machine share: a common filesystem or an object store, spelled as both read it"
        )


class DamagedFiles(SinkError):
    """Live data files of a shard are gone, or are not as they were committed. ``damages``: the files and what is wrong with them, in words."""

    def __init__(self, uri: str, damages: Sequence[str]):
        shown = "; ".join(damages[:SHOWN_FILES]) + (f"; and {len(damages) - SHOWN_FILES} more" if damages[SHOWN_FILES:] else "")
        super().__init__(
            f"shard {uri} has lost data: {shown}. Nothing was written. Put the files back as they were, or give up what they held: "
            "--full-refresh computes a view again from its query (for a task: also --vars '{mvsink_reset: [the task's name]}')"
        )


class ForeignDeletionVectors(SinkError):
    """Another engine deleted rows of a live file by a deletion vector."""

    def __init__(self, uri: str, paths: Sequence[str]):
        super().__init__(
            f"another engine left deletion vectors on {len(paths)} file(s) of shard {uri} ({paths[0]}, ...); plain "
            "Parquet readers cannot see them. Run REORG TABLE ... APPLY (PURGE) with that engine, or --full-refresh"
        )


class GateFailed(SinkError):
    """Would-be contents that may not be published: nothing was written."""


class MaxChangeExceeded(GateFailed):
    """A correction changes more than `max_change` allows."""

    def __init__(self, model: str, change: str, broken: str):
        name = model.rsplit(".", 1)[-1]
        super().__init__(
            f"{model} would change by {change}: {broken}. Nothing was written; --vars '{{mvsink_accept: [{name}]}}' lets it through"
        )


class AuditFailed(GateFailed):
    """Audits that the would-be contents fail, each with some of the rows it found."""

    def __init__(self, failures: Sequence[str]):
        listed = "".join(f"\n  {failure}" for failure in failures)
        super().__init__(f"the would-be contents fail their audit, and nothing was written{listed}")


class NotRefreshed(SinkError):
    """A shard without contents was read: it never reads as an empty collection. ``first_refresh`` is text."""

    def __init__(self, shard: str = "", first_refresh: str = "") -> None:
        message = f"not refreshed yet; first refresh at {first_refresh}" if first_refresh else "not refreshed yet"
        super().__init__(f"{shard}: {message}" if shard else message)


class NotReadable(SinkError):
    """A read outside the history that a shard keeps. ``readable`` is ``[since, upper)``."""

    def __init__(self, asked: str, since: str, upper: str):
        super().__init__(f"cannot read {asked}: readable is [{since}, {upper})")
