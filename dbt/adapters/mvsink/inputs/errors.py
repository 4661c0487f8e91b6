"""What can go wrong with an input, one class a kind. Nothing is ever skipped instead.

Messages name the input or the table, what was asked, and what there is.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbt.adapters.mvsink.engine import DataflowError


class InputError(DataflowError):
    """Root of this layer's errors."""


class HistoryGone(InputError):
    """History of a shard that is needed was released, or is not there yet. ``problem`` names both
    bounds.
    """

    def __init__(self, input_id: str, problem: str):
        super().__init__(f"input {input_id}: {problem}")


class VersionsGone(InputError):
    """A version of a table cannot be read any more: its log was cleaned up."""

    def __init__(self, table: str, asked: int, oldest: int, newest: int):
        super().__init__(
            f"table {table}: version {asked} cannot be read any more, its log was cleaned up; readable is [{oldest}, {newest}]. "
            "Keep its log longer (delta.logRetentionDuration) or run the task more often; to start again, reset the task"
        )


class FilesGone(InputError):
    """Data files that a version needs were removed from storage (VACUUM)."""

    def __init__(self, table: str, path: str, number: int, versions: tuple[int, int]):
        super().__init__(
            f"table {table}: {number} data file(s) that versions [{versions[0]}, {versions[1]}] need are gone ({path}, ...), "
            "by a VACUUM probably. Keep removed files longer (delta.deletedFileRetentionDuration) or run the task more often; "
            "to start again, reset the task"
        )


class DeletionVectors(InputError):
    """A version's file carries a deletion vector, which a reader of plain Parquet cannot see."""

    def __init__(self, table: str, path: str, version: int):
        super().__init__(
            f"table {table}: file {path} of version {version} has a deletion vector, which cannot be read here. "
            "Run ALTER TABLE ... SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false'), then REORG TABLE ... APPLY (PURGE)"
        )


class UnsupportedTable(InputError):
    """A table has a feature whose files cannot be read as plain Parquet."""

    def __init__(self, table: str, feature: str):
        super().__init__(
            f"table {table}: it has {feature}, which an input cannot have; allowed are Delta tables without it"
        )


class NoSuchTable(InputError):
    """There is no table where one was expected."""

    def __init__(self, table: str, problem: str):
        super().__init__(f"there is no Delta table at {table}: {problem}")


class TableReplaced(InputError):
    """Another table has taken the place of the one that was bound."""

    def __init__(self, table: str, bound: int, newest: int):
        super().__init__(
            f"table {table} was dropped and made anew since it was read last (at version {bound}; it is at version {newest} of "
            "another table now): what changed cannot be told. To start again, reset the task"
        )


class FileVanished(InputError):
    """A data file of an append-only input is gone, or was written again."""

    def __init__(self, input_id: str, paths: Sequence[str]):
        super().__init__(
            f"input {input_id} is append-only (input_files: append_only), but {len(paths)} of its data files vanished or were "
            f"written again: {', '.join(sorted(paths)[:3])}. Without input_files a copy is kept, and vanished rows are deletes"
        )


class ColumnsChanged(InputError):
    """An input has lost columns that were bound, or has them with other types."""

    def __init__(self, input_id: str, differences: Sequence[str]):
        super().__init__(
            f"input {input_id}: its columns have changed ({'; '.join(differences)}). To start again, reset the task"
        )


class FilesChanging(InputError):
    """A table's files kept changing while they were read."""

    def __init__(self, input_id: str, tries: int):
        super().__init__(
            f"input {input_id}: its files changed each of {tries} times that they were read; somebody is writing it"
        )


class TooManyFiles(InputError):
    """The names of the files to read do not fit a query."""

    def __init__(self, table: str, number: int):
        super().__init__(
            f"table {table}: {number} files are too many to name in one query; make them fewer (OPTIMIZE)"
        )


class ModeChanged(InputError):
    """`input_files` is not what it was when the input was bound first."""

    def __init__(self, input_id: str, given: str, bound: str):
        super().__init__(
            f"input {input_id}: input_files is {given!r}, but it was {bound!r} when the task began. "
            f"Allowed: {bound!r}, or reset the task"
        )
