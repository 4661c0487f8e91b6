"""What a publication asks of a table, whichever format it has: what it shows, and one commit of the
difference. `as_delta` and `as_iceberg` are the formats.

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
    """A data file of a table: its size in bytes, its rows, how many of them it hides, and a
    function that reads which: nothing if that cannot be read, so that it is written again.
    """

    size: int
    rows: int
    hidden: int
    positions: Callable[[], BitMap64]


@dataclass(frozen=True)
class TableDocs:
    """What a model says of its table: the ``comment``, None for none of its own, those of
    ``columns`` by name, and the table's ``properties``.
    """

    comment: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Description:
    """What readers see of a table beside its rows. What people wrote there stays, as far as
    ``docs`` say nothing else and it does not decide how the table is read.
    """

    columns: pa.Schema
    docs: TableDocs
    shard_id: uuid.UUID


@dataclass(frozen=True)
class ShownFile:
    """A data file that a table is to have, and which of its rows are hidden."""

    file: DataFile
    hidden: BitMap64


@dataclass(frozen=True)
class Difference:
    """What takes a table to a version of the shard: live files that are ``gone``, and files that
    are ``shown`` from now on. A file whose hidden rows change is both.
    """

    version: int
    generation: int
    described: Description
    gone: Collection[str]
    shown: Mapping[str, ShownFile]


class LiveTable(Protocol):
    """The newest version of a table, and the commit that follows it. ``version`` is -1 if there is
    none, ``foreign`` counts the newest versions that are other tools', and ``beside`` are the files
    that it needs besides data files. ``of_shard`` is the shard's version that it shows, or showed
    before other tools wrote it.
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

    def shows(self, version: int, generation: int) -> bool:
        """Whether it shows exactly this version of the shard, and no other tool wrote it."""
        ...

    def is_described(self, described: Description) -> bool:
        """Whether readers see it described like this."""
        ...

    def commit(self, difference: Difference) -> int:
        """Returns the new version. Raises `VersionTaken` if another writer was faster: then nothing
        happened.
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
        """Make the table fast to load, and delete what only versions from before that time (ms, by
        the storage's clock) needed.
        """
        ...

    def forget(self) -> None:
        """Delete all that the table has beside data files: then there is none."""
        ...
