"""A shard in memory, for tests and for shards that only one process needs."""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.shard.commit_log import Commit
from dbt.adapters.mvsink.shard.errors import StorageError, VersionTaken
from dbt.adapters.mvsink.shard.removals import Removals
from dbt.adapters.mvsink.shard.state import Change, CommitNote, DataFile, ShardState, apply
from dbt.adapters.mvsink.shard.storage import (
    DEFAULT_TIMEOUT,
    Footer,
    PartWriter,
    StoredFile,
    describe_table,
    with_schema,
)


@dataclass
class MemoryStorage:
    """A shard in this process's memory: the same contract, no disk. ``now`` is its clock, in ms."""

    uri: str = "memory:shard"
    timeout: float = DEFAULT_TIMEOUT
    now: int = 0
    states: list[ShardState] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    removed: dict[str, int] = field(default_factory=dict)
    removed_in: dict[str, int] = field(default_factory=dict)  # the version
    blobs: dict[str, pa.Table | str] = field(default_factory=dict)
    inputs: dict[str, int] = field(default_factory=dict)
    checkpoint_version: int = 0
    checkpoint_time: int | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    written: dict[str, int] = field(default_factory=dict)  # when each blob was, by ``now``
    is_local: bool = True

    @property
    def known_files(self) -> int:
        return len(self.states[-1].files) if self.states else 0

    def clock(self) -> int:
        return self.now

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
            gone = [file.path for file in before.files if file.path not in live]
            self.removed.update(dict.fromkeys(gone, self.now))
            self.removed_in.update(dict.fromkeys(gone, version))
            self.states.append(after)
            self.inputs.update(change.inputs)
            self.commits.append(
                Commit(
                    version,
                    self.now,
                    change.kind,
                    change.lower,
                    change.sets.get("upper"),
                    change.token,
                    change.writer_id,
                    "",
                    change.note,
                    change.sets.get("generation"),
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

    def checkpoint(self, *, clean: bool = True) -> None:
        with self.lock:
            self.checkpoint_version, self.checkpoint_time = len(self.states) - 1, self.now

    def checkpointed(self) -> int:
        return self.checkpoint_version

    def since_checkpoint(self, state: ShardState) -> int:
        begin = state.created if self.checkpoint_time is None else self.checkpoint_time
        return self.commits[state.version].timestamp - begin

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
        return [
            StoredFile(path, size, self.written.get(path, 0))
            for path, size in sizes.items()
            if path.startswith(within)
        ]

    def write_text(self, path: str, text: str) -> None:
        self.put(path, text)

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

    def published(self) -> frozenset[str]:
        return frozenset()

    def keep_removals(self, removals: Removals) -> None:
        with self.lock:
            later = {path: at for path, at in self.removed.items() if self._version(path) > removals.through}
            self.removed = {**removals.times, **later}

    def _version(self, path: str) -> int:
        return self.removed_in.get(path, -1)

    def remove_empty_directories(self, directory: str, before: int) -> None:
        """Memory has no directories."""

    def put(self, path: str, blob: pa.Table | str) -> None:
        """Store a blob, whole."""
        self.blobs[path], self.written[path] = blob, self.now

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
        self.storage.put(self.path, table)
        return describe_table(self.path, table.nbytes, table)
