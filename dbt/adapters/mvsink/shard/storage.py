"""Where a shard lives: a log of versions and a place for files. `memory_storage` keeps one in
memory.

The log's only promise, on which everything rests: of all `commit` calls for one version at most one
takes effect, and a later `load` sees it.

The storage's own clock (`Storage.clock`) decides what is deleted and how long a reader keeps
history, because the machines that use a shard disagree about the time.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, TIME
from dbt.adapters.mvsink.shard.commit_log import Commit
from dbt.adapters.mvsink.shard.errors import NotAShard
from dbt.adapters.mvsink.shard.removals import Removals
from dbt.adapters.mvsink.shard.state import Change, DataFile, ShardState

DEFAULT_TIMEOUT = 60.0  # seconds
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{32}")


@dataclass(frozen=True)
class StoredFile:
    """A file below the shard's directory, live or not. ``modified`` is ms."""

    path: str
    size: int
    modified: int


@dataclass(frozen=True)
class Footer:
    """A data file's footer: its description, its columns as Arrow reads them, and the writer's
    notes.
    """

    file: DataFile
    schema: pa.Schema
    notes: Mapping[str, str]


class PartWriter(Protocol):
    """Writes one file."""

    @property
    def size(self) -> int:
        """Bytes written so far."""
        ...

    def write(self, batch: pa.Table) -> None:
        """Add updates in the physical schema."""
        ...

    def close(self) -> DataFile:
        """Finish the file; returns its description."""
        ...


class Storage(Protocol):
    """A shard's storage. Paths are relative to ``uri``; transient failures are retried for
    ``timeout`` seconds.
    """

    uri: str
    timeout: float

    @property
    def is_local(self) -> bool:
        """Whether the files are on this machine, or mounted."""
        ...

    @property
    def known_files(self) -> int:
        """The number of live files that it keeps in memory, of the version that it read last."""
        ...

    def clock(self) -> int:
        """Now, in ms, by the clock that also gives files their `StoredFile.modified`."""
        ...

    def create(self, schema: pa.Schema, shard_id: uuid.UUID, salt: int, created: int) -> None:
        """Create the shard; harmless if another writer just did."""
        ...

    def load(self) -> ShardState | None:
        """The newest version; None if there is no shard."""
        ...

    def load_at(self, version: int) -> ShardState | None:
        """An earlier version; None if it was cleaned up."""
        ...

    def commit(self, version: int, change: Change) -> None:
        """Commit ``change`` as exactly ``version``.

        Raises `VersionTaken` (definite), `TransientError` or `StorageError` (nothing happened), or
        `UnknownOutcome`.
        """
        ...

    def token_at(self, version: int) -> str | None:
        """The token of that commit; empty if another tool made it, None if it is missing or
        damaged.
        """
        ...

    def progress(self, input_id: str) -> int | None:
        """The newest progress on that input that a commit recorded; None if none did."""
        ...

    def history(self, newest: int | None = None) -> list[Commit]:
        """The commits still in the log, oldest first; only the ``newest`` so many if given."""
        ...

    def checkpoint(self, *, clean: bool = True) -> None:
        """Make the log fast to load; with ``clean``, also delete commits that are old."""
        ...

    def checkpointed(self) -> int:
        """The version of the newest checkpoint; 0 if there is none."""
        ...

    def since_checkpoint(self, state: ShardState) -> int:
        """The time (ms) from the newest checkpoint, or the shard's creation, to the commit that
        made ``state``; 0 if it is not known without asking the storage.
        """
        ...

    def write_part(self, path: str, schema: pa.Schema) -> PartWriter:
        """Begin a new file."""
        ...

    def read(self, file: DataFile, schema: pa.Schema, rows: int | None = None) -> pa.Table:
        """A file's rows in ``schema``, missing columns NULL; only the first ``rows`` if given."""
        ...

    def find(self, file: DataFile, schema: pa.Schema, where: pc.Expression, rows: int) -> pa.Table:
        """The rows that satisfy ``where``, at most ``rows`` of them."""
        ...

    def scan(self, file: DataFile, schema: pa.Schema, rows: int) -> Iterator[pa.Table]:
        """All rows, in tables of at most ``rows`` rows that are read one after the other."""
        ...

    def describe(self, path: str) -> DataFile:
        """The description of a staged file, from its footer."""
        ...

    def footer(self, path: str) -> Footer:
        """A staged file's footer, with that description."""
        ...

    def column_names(self, file: DataFile) -> Sequence[str]:
        """The columns that a file physically has."""
        ...

    def digest(self, path: str) -> str:
        """The SHA-256 of a file's bytes, in hexadecimal digits."""
        ...

    def list_files(self, directory: str) -> list[StoredFile]:
        """All files below ``directory``; none if it does not exist."""
        ...

    def write_text(self, path: str, text: str) -> None:
        """Write a small file, whole."""
        ...

    def read_text(self, path: str) -> str | None:
        """The text of a small file; None if it does not exist."""
        ...

    def delete(self, paths: Sequence[str]) -> None:
        """Delete files; those that are gone already are ignored."""
        ...

    def delete_directory(self, directory: str) -> None:
        """Delete a directory with its contents, if it exists."""
        ...

    def removals(self) -> Removals:
        """The files that the log removed and that are not deleted yet, at the newest version."""
        ...

    def published(self) -> frozenset[str]:
        """The shard's files that the newest version of a table over them names (`published`)."""
        ...

    def keep_removals(self, removals: Removals) -> None:
        """Store them, so that the commits they come from need not be read again."""
        ...

    def remove_empty_directories(self, directory: str, before: int) -> None:
        """Remove empty directories below ``directory`` that have not changed since ``before`` (ms).
        An object store has none.
        """
        ...


def is_unfinished(path: str) -> bool:
    """Whether this is a small file that was still being written; `FileStore.write_text` renames it
    at the end.
    """
    return _UNFINISHED.fullmatch(path.rsplit("/", 1)[-1]) is not None


def is_part(path: str) -> bool:
    """Whether this is a data file, not a marker, a checksum or a half-written file."""
    name = path.rsplit("/", 1)[-1]
    return name.endswith(".parquet") and not name.startswith(("_", ".")) and "/_temporary/" not in path


def describe_table(path: str, size: int, table: pa.Table) -> DataFile:
    """The description of a file with these rows."""
    times, diffs = (pc.min_max(table.column(name)).as_py() for name in (TIME, DIFF))
    return DataFile(
        path=path,
        size=size,
        rows=table.num_rows,
        min_time=times["min"],
        max_time=times["max"],
        min_diff=diffs["min"],
        max_diff=diffs["max"],
        errors=table.num_rows - table.column(ERROR).null_count,
        hashes=table.num_rows - table.column(HASH).null_count,
    )


def with_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """``table`` in ``schema``: columns by name, missing ones NULL."""
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def fresh_batch_id() -> str:
    """A new name for a batch's directory."""
    return uuid.uuid4().hex


def part_path(directory: str, number: int) -> str:
    """The path of a part of the batch in that directory."""
    return f"{directory}/part-{number:05d}.parquet"


def require(state: ShardState | None, uri: str) -> ShardState:
    """``state``, or `NotAShard` if there is none."""
    if state is None:
        raise NotAShard(f"there is no shard at {uri}")
    return state


def only_parts(files: Sequence[StoredFile]) -> Iterator[str]:
    """The paths of data files, including empty ones, which are never staged on purpose."""
    return (file.path for file in files if is_part(file.path))
