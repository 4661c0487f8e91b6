"""What a publication needs from a table of any format: which rows the table shows now, and a commit
of the difference to what it should show. `as_delta` and `as_iceberg` implement it.

Paths are relative to the table's root, which is ``<shard>/table``.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
from pyroaring import BitMap64

from dbt.adapters.mvsink.published.table_store import TableStore
from dbt.adapters.mvsink.shard import DataFile


@dataclass(frozen=True)
class LiveFile:
    """A data file that a table shows: its size in bytes, its number of rows, and how many of them
    are hidden. ``rows`` is None if the table's log does not have it. ``positions`` reads which rows
    are hidden; it returns none if that cannot be read, so that they differ from the wanted ones and
    are written again.
    """

    size: int
    rows: int | None
    hidden: int
    positions: Callable[[], BitMap64]


@dataclass(frozen=True)
class TableDocs:
    """The documentation of a table: its ``comment``, the comments of ``columns`` by name, and its
    ``properties``. If the comment is None, the model sets none, and the table's own is kept.
    """

    comment: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Description:
    """What readers see of a table besides its rows. A comment or property that a user set on the
    table is kept, unless ``docs`` set it too or it affects how the table is read.
    """

    columns: pa.Schema
    docs: TableDocs
    shard_id: uuid.UUID


@dataclass(frozen=True)
class ShownFile:
    """A data file that a table should show, and the positions of its hidden rows."""

    file: DataFile
    hidden: BitMap64


@dataclass(frozen=True)
class Difference:
    """What changes in a table so that it shows this version of the shard, whose live files have the
    number ``files``. The files in ``gone`` are removed and those in ``shown`` are added. A file
    whose hidden rows change is in both.
    """

    version: int
    generation: int
    files: int
    described: Description
    gone: Collection[str]
    shown: Mapping[str, ShownFile]


class LiveTable(Protocol):
    """The newest version of a table, and the commit that follows it.

    ``version`` is -1 if there is no table. ``foreign`` counts the versions that other tools have
    written since the last one of ours. ``of_shard`` is the version of the shard that the table
    showed before them. ``beside`` are the files that the table needs besides its data files.
    """

    @property
    def version(self) -> int: ...

    @property
    def foreign(self) -> int: ...

    @property
    def of_shard(self) -> int | None: ...

    @property
    def files(self) -> Mapping[str, LiveFile]: ...

    @property
    def beside(self) -> Collection[str]: ...

    def shows(self, generation: int, files: int) -> bool:
        """Whether it shows exactly these live files of the shard (`files_number`), and no other
        tool wrote to it. The shard may have later versions with the same files.
        """
        ...

    def is_described(self, described: Description) -> bool:
        """Whether its columns, comments and properties are those of ``described``."""
        ...

    def undone(self, described: Description) -> int:
        """How many of the `foreign` versions a commit with this description takes back, at least in
        part. A property or a comment that stays is not undone.
        """
        ...

    def commit(self, difference: Difference) -> int:
        """Commit the next version; returns its number. Raises `VersionTaken` if another writer was
        faster, in which case the table has not changed.
        """
        ...


class PublishedTable(Protocol):
    """A table in one format."""

    @property
    def store(self) -> TableStore: ...

    def load(self) -> LiveTable:
        """The newest version."""
        ...

    def keep_in_order(self, before: int) -> None:
        """Make the table fast to load, and delete files that no version needs any more, if they
        were written before that time (ms, by the storage's clock).
        """
        ...

    def forget_past(self) -> None:
        """Make the newest version the only one: delete the metadata of all others, with the bounds
        of values that it has. Readers of earlier versions fail. Raises `VersionTaken`,
        `StorageError`.
        """
        ...

    def forget(self) -> None:
        """Delete all files of the table but its data files. Afterwards there is no table."""
        ...
