"""Errors of inputs, one class per kind. No data is ever skipped in place of an error.

Messages name the input or the table, the request, and what can be read.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbt.adapters.mvsink.engine import DataflowError


class InputError(DataflowError):
    """Root of this layer's errors."""


class HistoryGone(InputError):
    """Needed history of a shard is gone or does not exist yet. ``problem`` names both bounds."""

    error_code = "MVS-401"

    def __init__(self, input_id: str, problem: str):
        super().__init__(f"input {input_id}: {problem}")


class UnreadableVersion(InputError):
    """A version of a table cannot be read; a later one may be readable."""


class VersionsGone(UnreadableVersion):
    """The log of a version was cleaned up."""

    error_code = "MVS-402"

    def __init__(self, table: str, asked: int, oldest: int, newest: int):
        super().__init__(
            f"table {table}: version {asked} cannot be read any more, its log was cleaned up; the readable times are [{oldest}, {newest}]. "
            "Keep its log longer (delta.logRetentionDuration) or run the task more often; to start again, reset the task"
        )


class FilesGone(InputError):
    """Data files that a version needs were removed from storage (VACUUM)."""

    error_code = "MVS-403"

    def __init__(self, table: str, path: str, number: int, versions: tuple[int, int]):
        super().__init__(
            f"table {table}: {number} data file(s) that versions [{versions[0]}, {versions[1]}] need are gone ({path}, ...), "
            "probably by a VACUUM. Keep removed files longer (delta.deletedFileRetentionDuration) or run the task more often; "
            "to start again, reset the task"
        )


class DeletionVectors(UnreadableVersion):
    """Files of a version have deletion vectors of more rows than fit a query."""

    error_code = "MVS-404"

    def __init__(self, table: str, path: str, version: int):
        super().__init__(
            f"table {table}: file {path} of version {version} has a deletion vector, which cannot be read here. "
            "Run ALTER TABLE ... SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false'), then REORG TABLE ... APPLY (PURGE)"
        )


class NoReader(UnreadableVersion):
    """Neither the files of a version can be read as they are, for the reason in ``problem``, nor
    can Spark read the version.
    """

    error_code = "MVS-419"

    def __init__(self, problem: InputError, version: int, reason: str):
        super().__init__(
            f"{problem}. Spark cannot read its version {version} either, for which the profile needs `formats: [delta]`: {reason}"
        )


class UnsupportedTable(InputError):
    """A table has a feature because of which its files cannot be read as plain Parquet."""

    error_code = "MVS-405"

    def __init__(self, table: str, feature: str):
        super().__init__(
            f"table {table}: it has {feature}, which is not supported for an input; use a table without it"
        )


class NoSuchTable(InputError):
    """There is no table where one was expected."""

    error_code = "MVS-406"

    def __init__(self, table: str, problem: str, format: str = "Delta"):
        super().__init__(f"there is no {format} table at {table}: {problem}")


class TableReplaced(InputError):
    """Another table has replaced the table that was bound."""

    error_code = "MVS-407"

    def __init__(self, table: str, bound: int, newest: int):
        super().__init__(
            f"table {table} was dropped and created again since it was last read (at version {bound}; now it is version {newest} of "
            "another table): its changes cannot be computed. To start again, reset the task"
        )


class SnapshotGone(UnreadableVersion):
    """A snapshot of an Iceberg table has expired."""

    error_code = "MVS-408"

    def __init__(self, table: str, asked: int):
        super().__init__(
            f"table {table}: its snapshot {asked} has expired, so what changed since then cannot be read. Keep snapshots longer "
            "(history.expire.max-snapshot-age-ms, expire_snapshots) or run the task more often; to start again, reset the task"
        )


class NotADescendant(InputError):
    """The present snapshot of an Iceberg table does not continue the one that was read last."""

    error_code = "MVS-409"

    def __init__(self, table: str, bound: int, newest: int):
        super().__init__(
            f"table {table}: its snapshot {newest} does not descend from snapshot {bound}, which was read last, because the table was "
            "rolled back, replaced, or set to another branch. Set it to a descendant of that one, or to start again, reset the task"
        )


class FileVanished(InputError):
    """A data file of an append-only input was removed or rewritten."""

    error_code = "MVS-410"

    def __init__(self, input_id: str, paths: Sequence[str]):
        super().__init__(
            f"input {input_id} is append-only (input_files: append_only), but {len(paths)} of its data files were removed or "
            f"rewritten: {', '.join(sorted(paths)[:3])}. Without input_files a copy is kept, and removed rows are deletes"
        )


class ColumnsChanged(InputError):
    """Columns that were bound were removed from the input, or have other types."""

    error_code = "MVS-411"

    def __init__(self, input_id: str, differences: Sequence[str]):
        super().__init__(
            f"input {input_id}: its columns have changed ({'; '.join(differences)}). To start again, reset the task"
        )


class ZoneChanged(InputError):
    """Times without a zone were read in another session's zone."""

    error_code = "MVS-412"

    def __init__(self, input_id: str, before: str, now: str):
        super().__init__(
            f"input {input_id}: it has times whose texts have no time zone, which Spark reads in the session's. They were read in "
            f"{before!r} so far, and spark.sql.session.timeZone is now {now!r}: what changed between the two cannot be computed. "
            f"Run with {before!r}, or to start again, reset the task"
        )


class SessionReadsOtherwise(InputError):
    """Because of a setting of the session, Spark reads files differently from their table."""

    error_code = "MVS-413"

    def __init__(self, table: str, setting: str):
        super().__init__(
            f"table {table}: with {setting} Spark reads its data files otherwise than the table itself, so its changes cannot be "
            "computed. Run without this setting"
        )


class FilesChanging(InputError):
    """A table's files kept changing while they were read."""

    error_code = "MVS-414"

    def __init__(self, input_id: str, tries: int):
        super().__init__(
            f"input {input_id}: its files changed each of {tries} times that they were read; another process is writing to it"
        )


class TooManyFiles(InputError):
    """The names of the files to read do not fit into a query."""

    error_code = "MVS-415"

    def __init__(self, table: str, number: int):
        super().__init__(
            f"table {table}: {number} files are too many to name in one query; combine them (OPTIMIZE)"
        )


class ModeChanged(InputError):
    """`input_files` differs from its value when the input was first bound."""

    error_code = "MVS-416"

    def __init__(self, input_id: str, configured: str, bound: str):
        super().__init__(
            f"input {input_id}: input_files is {configured!r}, but it was {bound!r} when the task began. "
            f"Allowed: {bound!r}, or reset the task"
        )


class NoInput(Exception):
    """A relation that cannot be a task's input. ``reason`` is a clause that says what to do."""

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason
