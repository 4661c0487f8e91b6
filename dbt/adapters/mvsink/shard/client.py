"""Opening shards, and continuing with one that another run has replaced.

handle = ShardClient().open_writer(uri, pa.schema([("id", pa.int64())]))
"""

from __future__ import annotations

import secrets
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import pyarrow as pa

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.shard import commit_loop
from dbt.adapters.mvsink.shard.delta import DeltaStorage
from dbt.adapters.mvsink.shard.errors import SchemaMismatch, ShardReplaced
from dbt.adapters.mvsink.shard.read import ReadHandle
from dbt.adapters.mvsink.shard.staging import StagingHandle
from dbt.adapters.mvsink.shard.state import ShardState, schema_differences
from dbt.adapters.mvsink.shard.storage import DEFAULT_TIMEOUT, Storage
from dbt.adapters.mvsink.shard.updates import canonical, check_data_schema
from dbt.adapters.mvsink.shard.write_handle import WriteHandle

Locate = Callable[[str], Storage]
MAX_ROUNDS = 10  # a run loses this often only if something replaces the shard in a loop

Result = TypeVar("Result")


class OpenShards:
    """Storages that clients share: one reads a shard's log once, and later only what is new in it.
    Any number of threads may use it, of clients with the same ``storage_options``. The last used
    are kept: at most so many ``shards``, with so many live ``files`` together.
    """

    def __init__(self, shards: int = 500, files: int = 50_000):
        self._most_shards, self._most_files = shards, files
        self._storages: OrderedDict[str, Storage] = OrderedDict()
        self._lock = threading.Lock()

    def at(self, uri: str, locate: Locate) -> Storage:
        """The storage of the shard at ``uri``, from ``locate`` if there is none yet."""
        with self._lock:
            if uri not in self._storages:
                self._make_room()
                self._storages[uri] = locate(uri)
            self._storages.move_to_end(uri)
            return self._storages[uri]

    def _make_room(self) -> None:
        files = sum(storage.known_files for storage in self._storages.values())
        while self._storages and (len(self._storages) >= self._most_shards or files > self._most_files):
            files -= self._storages.popitem(last=False)[1].known_files


class ShardClient:
    """Opens shards.

    ``storage_options`` are those of the `deltalake` package; ``locate`` gives another storage
    (tests). While the log cannot be reached, the handles' methods retry for ``timeout`` seconds
    before they raise `StorageError`. A second handle of a shard that is among ``opened`` reads only
    what is new in its log.
    """

    def __init__(
        self,
        storage_options: Mapping[str, str] | None = None,
        locate: Locate | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        opened: OpenShards | None = None,
    ):
        self._storage_at = locate or (lambda uri: DeltaStorage(uri, storage_options))
        self._timeout = timeout
        self._opened = opened

    def _locate(self, uri: str) -> Storage:
        return self._new(uri) if self._opened is None else self._opened.at(uri, self._new)

    def _new(self, uri: str) -> Storage:
        storage = self._storage_at(uri)
        storage.timeout = self._timeout
        return storage

    def exists(self, uri: str) -> bool:
        """Whether there is a shard at ``uri``."""
        return commit_loop.find(self._locate(uri)) is not None

    def text_at(self, root: str, path: str) -> str | None:
        """A small file below ``root``, which need be no shard; None if there is none."""
        return self._storage_at(root).read_text(path)

    def clock(self, root: str) -> int:
        """Now (ms) by the clock of the storage that ``root`` is in; leaves no file there."""
        storage = self._storage_at(f"{root}/.clock-{uuid.uuid4().hex}")  # others ask at the same time
        try:
            return storage.clock()
        finally:
            storage.delete_directory("")

    def open_writer(self, uri: str, schema: pa.Schema, purpose: str = "") -> WriteHandle:
        """A writer; creates the shard if needed. Two processes that create it at once get the same
        one.

        Raises `SchemaMismatch` if the shard's data columns are not those of ``schema``,
        `InvalidUsage` for a reserved name.
        """
        check_data_schema(schema)
        handle = self.open_or_create(uri, schema, purpose)
        differences = schema_differences(handle.schema, canonical(schema))
        if differences:
            raise SchemaMismatch(uri, differences)
        return handle

    def open_or_create(self, uri: str, schema: pa.Schema, purpose: str = "") -> WriteHandle:
        """A writer, whatever columns the shard has. Without a shard, one is created with
        ``schema``.

        Raises `InvalidUsage` for a reserved name.
        """
        storage = self._locate(uri)
        state = commit_loop.find(storage)
        if state is None:
            check_data_schema(schema)
            # The salt keeps hashes unpredictable; 62 bits fit every engine's BIGINT literal.
            storage.create(canonical(schema), uuid.uuid4(), secrets.randbits(62), wall_clock.now_ms())
            state = commit_loop.load(storage)
        return WriteHandle(storage, state, purpose)

    def open_reader(self, uri: str) -> ReadHandle:
        """A reader; `NotAShard` if there is none."""
        storage = self._locate(uri)
        return ReadHandle(storage, commit_loop.load(storage))


def staged_elsewhere(storage: Storage, state: ShardState, directory: str) -> StagingHandle:
    """A handle for previews. It stages for the shard in ``state``, but below a local ``directory``,
    so the shard's own directory stays as it is. What it stages can never be appended.
    """
    return StagingHandle(storage, state, DeltaStorage(directory))


def retry_on_replacement(handles: Sequence[WriteHandle], act: Callable[[], Result]) -> Result:
    """The result of ``act``, repeated until no shard of ``handles`` is replaced while it runs.

    A handle belongs to one generation; a run does not. A run that gets `ShardReplaced` has lost a
    race, as in a conflict: it reloads and starts again. Its staged files were meant for contents
    that are gone, so they are deleted and never reach the new generation.

    ``act`` has to read everything again on each call. Raises `ShardReplaced` after ten attempts.
    """
    for _ in range(MAX_ROUNDS - 1):
        try:
            return act()
        except ShardReplaced:
            for handle in handles:
                handle.follow()
    return act()
