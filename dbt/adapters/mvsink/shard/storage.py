"""Where a shard lives: a log of versions and a place for files. The protocol, and an in-memory one.

The log's only promise, on which everything rests: of all `commit` calls for one version at most one
takes effect, and a later `load` sees it.
"""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, TIME
from dbt.adapters.mvsink.shard.commit_log import Commit
from dbt.adapters.mvsink.shard.errors import NotAShard, StorageError, VersionTaken
from dbt.adapters.mvsink.shard.removals import Removals
from dbt.adapters.mvsink.shard.state import BATCHES, Change, CommitNote, DataFile, ShardState, apply

DEFAULT_TIMEOUT = 60.0  # seconds


@dataclass(frozen=True)
class StoredFile:
    """A file below the shard's directory, live or not. ``modified`` is ms."""

    path: str
    size: int
    modified: int


@dataclass(frozen=True)
class Footer:
    """A data file's footer: description, columns as Arrow reads them, and the writer's notes."""

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
        """Finish the file; its description."""
        ...


class Storage(Protocol):
    """A shard's storage; paths relative to ``uri``, transient failures retried ``timeout`` s."""

    uri: str
    timeout: float

    @property
    def is_local(self) -> bool:
        """Whether the files are on this machine, or mounted."""
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
        """The token of that commit; None if there is no such version."""
        ...

    def progress(self, input_id: str) -> int | None:
        """The newest progress on that input that a commit recorded; None if none did."""
        ...

    def history(self, newest: int | None = None) -> list[Commit]:
        """The commits still in the log, oldest first; only the ``newest`` so many if given."""
        ...

    def checkpoint(self) -> None:
        """Make the log fast to load."""
        ...

    def checkpointed(self) -> int:
        """The version of the newest checkpoint; 0 if there is none."""
        ...

    def write_part(self, path: str, schema: pa.Schema) -> PartWriter:
        """Begin a new file."""
        ...

    def read(self, file: DataFile, schema: pa.Schema, rows: int | None = None) -> pa.Table:
        """A file's rows in ``schema``, missing columns NULL; only the first ``rows`` if given."""
        ...

    def find(self, file: DataFile, schema: pa.Schema, where: pc.Expression, rows: int) -> pa.Table:
        """Those rows that fulfil ``where``, at most ``rows`` of them."""
        ...

    def scan(self, file: DataFile, schema: pa.Schema, rows: int) -> Iterator[pa.Table]:
        """All rows in tables of at most ``rows`` rows, read one after the other."""
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

    def keep_removals(self, removals: Removals) -> None:
        """Store them, so that the commits they come from need not be read again."""
        ...

    def remove_empty_directories(self, directory: str, before: int) -> None:
        """Remove empty directories below ``directory`` that have not changed since ``before`` (ms).
        An object store has none.
        """
        ...


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


@dataclass
class MemoryStorage:
    """A shard in this process's memory: the same contract, no disk. ``clock`` gives ms."""

    uri: str = "memory:shard"
    timeout: float = DEFAULT_TIMEOUT
    now: int = 0
    states: list[ShardState] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    removed: dict[str, int] = field(default_factory=dict)
    blobs: dict[str, pa.Table | str] = field(default_factory=dict)
    inputs: dict[str, int] = field(default_factory=dict)
    checkpoint_version: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_local: bool = True

    def create(self, schema: pa.Schema, shard_id: uuid.UUID, salt: int, created: int) -> None:
        with self.lock:
            if not self.states:
                self.states.append(ShardState(0, shard_id, schema, salt, created=created))
                self.commits.append(Commit(0, created, "create", None, None, "", "", "", CommitNote()))

    def load(self) -> ShardState | None:
        with self.lock:
            return self.states[-1] if self.states else None

    def load_at(self, version: int) -> ShardState | None:
        with self.lock:
            return self.states[version] if 0 <= version < len(self.states) else None

    def commit(self, version: int, change: Change) -> None:
        with self.lock:
            if version != len(self.states):
                raise VersionTaken(version)
            for file in change.adds:
                if file.path not in self.blobs:
                    raise StorageError(f"staged file {file.path} is gone")
            before = self.states[-1]
            after = apply(before, change)
            live = {file.path for file in after.files}
            self.removed.update({file.path: self.now for file in before.files if file.path not in live})
            self.states.append(after)
            self.inputs.update(change.inputs)
            self.commits.append(
                Commit(
                    version,
                    self.now,
                    change.kind,
                    change.lower,
                    change.upper,
                    change.token,
                    change.writer_id,
                    "",
                    change.note,
                    change.generation,
                )
            )

    def token_at(self, version: int) -> str | None:
        with self.lock:
            return self.commits[version].token if version < len(self.commits) else None

    def progress(self, input_id: str) -> int | None:
        with self.lock:
            return self.inputs.get(input_id)

    def history(self, newest: int | None = None) -> list[Commit]:
        return self.commits[0 if newest is None else max(0, len(self.commits) - newest) :]

    def checkpoint(self) -> None:
        with self.lock:
            self.checkpoint_version = len(self.states) - 1

    def checkpointed(self) -> int:
        return self.checkpoint_version

    def write_part(self, path: str, schema: pa.Schema) -> PartWriter:
        return _MemoryPart(self, path, schema)

    def read(self, file: DataFile, schema: pa.Schema, rows: int | None = None) -> pa.Table:
        return with_schema(self._table(file.path).slice(0, rows), schema)

    def find(self, file: DataFile, schema: pa.Schema, where: pc.Expression, rows: int) -> pa.Table:
        return with_schema(self._table(file.path).filter(where).slice(0, rows), schema)

    def scan(self, file: DataFile, schema: pa.Schema, rows: int) -> Iterator[pa.Table]:
        table = with_schema(self._table(file.path), schema)
        return (table.slice(start, rows) for start in range(0, table.num_rows, rows))

    def describe(self, path: str) -> DataFile:
        table = self._table(path)
        return describe_table(path, table.nbytes, table)

    def footer(self, path: str) -> Footer:
        return Footer(self.describe(path), self._table(path).schema, {})

    def column_names(self, file: DataFile) -> Sequence[str]:
        return list(self._table(file.path).column_names)

    def digest(self, path: str) -> str:
        return hashlib.sha256(repr(self._table(path).to_pydict()).encode()).hexdigest()

    def list_files(self, directory: str) -> list[StoredFile]:
        within = directory.rstrip("/") + "/"
        sizes = {
            path: len(blob) if isinstance(blob, str) else blob.nbytes
            for path, blob in list(self.blobs.items())
        }
        return [StoredFile(path, size, 0) for path, size in sizes.items() if path.startswith(within)]

    def write_text(self, path: str, text: str) -> None:
        self.blobs[path] = text

    def read_text(self, path: str) -> str | None:
        blob = self.blobs.get(path)
        return blob if isinstance(blob, str) else None

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.blobs.pop(path, None)

    def delete_directory(self, directory: str) -> None:
        self.delete([file.path for file in self.list_files(directory)])

    def removals(self) -> Removals:
        live = {file.path for file in self.states[-1].files}
        return Removals(
            len(self.states) - 1, {path: at for path, at in self.removed.items() if path not in live}
        )

    def keep_removals(self, removals: Removals) -> None:
        self.removed = dict(removals.times)

    def remove_empty_directories(self, directory: str, before: int) -> None:
        """Memory has no directories."""

    def _table(self, path: str) -> pa.Table:
        blob = self.blobs.get(path)
        if not isinstance(blob, pa.Table):
            raise StorageError(f"file {path} of shard {self.uri} is gone")
        return blob


class _MemoryPart:
    def __init__(self, storage: MemoryStorage, path: str, schema: pa.Schema):
        self.storage, self.path, self.schema = storage, path, schema
        self.tables: list[pa.Table] = []
        self.size = 0

    def write(self, batch: pa.Table) -> None:
        self.tables.append(batch)
        self.size += batch.nbytes

    def close(self) -> DataFile:
        table = pa.concat_tables(self.tables) if self.tables else self.schema.empty_table()
        self.storage.blobs[self.path] = table
        return describe_table(self.path, table.nbytes, table)


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
    """A new directory name under ``batches/``."""
    return uuid.uuid4().hex


def part_path(batch_id: str, number: int) -> str:
    """The path of a batch's part."""
    return f"{BATCHES}/{batch_id}/part-{number:05d}.parquet"


def require(state: ShardState | None, uri: str) -> ShardState:
    """``state``, or `NotAShard` if there is none."""
    if state is None:
        raise NotAShard(f"there is no shard at {uri}")
    return state


def only_parts(files: Sequence[StoredFile]) -> Iterator[str]:
    """The paths of data files, including empty files: these are never staged on purpose."""
    return (file.path for file in files if is_part(file.path))
