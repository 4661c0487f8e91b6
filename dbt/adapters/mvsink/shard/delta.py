"""A shard as a Delta table: its log orders the commits, Parquet files under ``batches/`` hold the
rows.

This is the only module that commits to Delta; `delta_encoding` says where each part of the state is
kept. Every commit names its version (the loaded one + 1) and forbids the library to retry, so the
library never resolves a conflict for us.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, RemoveAction

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.physical import META
from dbt.adapters.mvsink.shard import delta_encoding as encoding
from dbt.adapters.mvsink.shard import removals as ledger
from dbt.adapters.mvsink.shard import shown_files
from dbt.adapters.mvsink.shard.commit_log import LOG, Commit, actions, checked_path, commit_path, metadata
from dbt.adapters.mvsink.shard.damage import LAST_CHECKPOINT, damage
from dbt.adapters.mvsink.shard.errors import (
    LogDamaged,
    StorageError,
    TransientError,
    UnknownOutcome,
    Unreachable,
    UnresolvedCommit,
    VersionTaken,
    message_of,
)
from dbt.adapters.mvsink.shard.log_store import LogStore, Transactions
from dbt.adapters.mvsink.shard.removals import Removals
from dbt.adapters.mvsink.shard.state import TABLE, Change, DataFile, ShardState
from dbt.adapters.mvsink.shard.storage import StoredFile
from dbt.adapters.mvsink.shard.stored import Unreadable, a_text, an_integer
from dbt.adapters.mvsink.shard.updates import physical_schema

NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


class DeltaStorage(LogStore):
    """See `Storage`. ``storage_options`` are those of the `deltalake` package, for object stores.

    The table, its newest version and the newest commits are cached, so only later commits are read.
    A log that was replaced is noticed by the commit file of the cached version. Threads may share a
    storage: what uses the cache takes turns.
    """

    def __init__(self, uri: str, storage_options: Mapping[str, str] | None = None):
        super().__init__(uri, storage_options)
        self._turn = threading.RLock()
        self._cached: DeltaTable | None = None
        self._cached_file: StoredFile | None = None  # the commit file of the cached version
        self._hint: StoredFile | None = None  # `_last_checkpoint`, before the cached version was read
        self._state: ShardState | None = None
        self._newest: dict[int, Commit] = {}  # as far as the last `history` went
        self._transactions = self._new_transactions()

    def object_store(self) -> pafs.FileSystem:
        """See `FileStore`."""
        return pafs.PyFileSystem(DeltaStorageHandler(self.uri, self.options))

    @property
    def known_files(self) -> int:
        state = self._state
        return 0 if state is None else len(state.files)

    # versions

    def create(self, schema: pa.Schema, shard_id: uuid.UUID, salt: int, created: int) -> None:
        try:
            DeltaTable.create(
                self.uri,
                schema=Schema.from_arrow(physical_schema(schema)),
                configuration=encoding.new_configuration(schema, shard_id, salt, created),
                storage_options=self.options,
                commit_properties=_commit_properties(Change(kind="create")),
                raise_if_key_not_exists=False,
            )
        except (DeltaError, OSError) as error:
            with suppress(TransientError):  # whether another writer was faster
                if self.load() is not None:
                    return
            raise StorageError(f"cannot create shard {self.uri}: {message_of(error)}") from error

    def load(self) -> ShardState | None:
        with self._turn:
            table = self._table()
            if table is None:
                return None
            if self._state is None or self._state.version != table.version():
                with self._reading_log():
                    self._state = self._read_state(table, self._transactions)
            return self._state

    def load_at(self, version: int) -> ShardState | None:
        try:
            table = DeltaTable(self.uri, version=version, storage_options=self.options)
            return self._read_state(table, self._new_transactions())
        except (DeltaError, OSError):
            return None

    def _read_state(self, table: DeltaTable, transactions: Transactions) -> ShardState:
        version = table.version()
        return encoding.decode_state(
            self.uri,
            version,
            table.metadata().configuration,
            _data_schema(table),
            transactions.of(version, self._look_up(table)),
            lambda: self._live_files(table),
        )

    def _live_files(self, table: DeltaTable) -> list[DataFile]:
        """Raises `LogDamaged` if one lies outside the shard's directory."""
        files = _encoded_files(table)
        refused = next((file.path for file in files if checked_path(file.path) is None), None)
        if refused is not None:
            raise LogDamaged(
                self.uri,
                f"{self._source_of(refused)} adds {refused!r}: a shard's files are named by a relative path below its directory. mvsink neither "
                "reads nor deletes anything else. Remove that file from the table with the tool that added it, or delete the "
                "commit if no version comes after it",
            )
        return [replace(file, path=unquote(file.path)) for file in files]

    def _source_of(self, encoded: str) -> str:
        """The commit that adds the path, or, if that was cleaned up, the checkpoint that still has
        it.
        """
        for version in sorted(self._versions(), reverse=True):
            text = self._commit_text(version) or ""
            adds = [action["add"] for action in actions(text) if isinstance(action.get("add"), dict)]
            if any(add.get("path") == encoded for add in adds):
                return f"commit {commit_path(version)}"
        return f"the checkpoint of version {self.checkpointed()}"

    # committing

    def commit(self, version: int, change: Change) -> None:
        with self._turn:
            self._commit(version, change)

    def _commit(self, version: int, change: Change) -> None:
        table = self._cached  # as `load` has just read it
        if table is None or table.version() != version - 1:
            table = self._table()
        if table is None or table.version() != version - 1:
            raise VersionTaken(version)
        try:
            settings = encoding.changed_configuration(
                table.metadata().configuration, change, _data_schema(table)
            )
            if settings:
                if change.adds or change.removes or change.remove_all:  # the library would lose them
                    raise ValueError(f"a change of settings ({', '.join(settings)}) cannot have files")
                table.alter.set_table_properties(
                    settings,
                    raise_if_not_exists=False,
                    commit_properties=_commit_properties(change),
                    post_commithook_properties=NO_HOOKS,
                )
            else:
                self._commit_files(table, change)
            self._cached_file = self._log_file(table.version())
            unseen = self.stat(LAST_CHECKPOINT) != self._hint
        except CommitFailedError as error:
            raise VersionTaken(version) from error
        except (DeltaError, OSError, Unreachable) as error:
            raise UnknownOutcome(message_of(error)) from error

        if unseen:
            self._require_after_checkpoint(version, change)

    def _require_after_checkpoint(self, version: int, change: Change) -> None:
        """Handles a checkpoint that was written since the table was read. If others committed
        ``version`` before and cleaned it up, its file could be written again, and no reader would
        see it.
        """
        try:
            self._forget()
            state = self.load() if self.checkpointed() >= version else None
        except (TransientError, StorageError) as error:
            raise UnresolvedCommit(f"whether version {version} was committed is unknown: {error}") from error
        live = {file.path for file in state.files} if state else set()
        if state is not None and not any(file.path in live for file in change.adds):
            raise UnresolvedCommit(
                f"whether version {version} of shard {self.uri} was committed is unknown: a checkpoint of version {self.checkpointed()} was "
                "written meanwhile. Nothing that was staged is deleted. Read the shard, and append again what is missing"
            )

    @staticmethod
    def _commit_files(table: DeltaTable, change: Change) -> None:
        """Every removal is marked as a change of data, also in a compaction: `deltalake` checks
        only these when it commits a compaction of its own, and would otherwise add the removed rows
        again. The added files are marked the same way, so that Delta's change feed adds up to
        nothing.
        """
        now = wall_clock.now_ms()
        actions: list[AddAction | RemoveAction] = [
            AddAction(file.path, file.size, {}, now, True, encoding.encode_statistics(file))
            for file in change.adds
        ]
        if not change.remove_all:
            actions += [RemoveAction(f.path, True, now, f.size, {}) for f in change.removes]
        table.create_write_transaction(
            actions,
            "overwrite" if change.remove_all else "append",
            Schema.from_arrow(physical_schema(change.sets["schema"]))
            if "schema" in change.sets
            else table.schema(),
            partition_by=[],
            commit_properties=_commit_properties(change),
            post_commithook_properties=NO_HOOKS,
        )

    # the log's other contents

    def progress(self, input_id: str) -> int | None:
        with self._turn:
            table = self._table()
            if table is None:
                return None
            with self._reading_log():
                lookup = self._transactions.of(table.version(), self._look_up(table))
                return lookup(f"{encoding.NAMESPACE}input:{input_id}")

    def history(self, newest: int | None = None) -> list[Commit]:
        versions = sorted(self._versions())
        if newest is None:
            return self._commits_at(versions)
        kept = versions[len(versions) - min(newest, len(versions)) :]
        with self._turn:
            if self._newest:
                self._table()  # forgets a log that was replaced
            known = self._newest
            unknown = [version for version in kept if version not in known]
            known = {**known, **dict(zip(unknown, self._commits_at(unknown), strict=True))}
            self._newest = {version: known[version] for version in kept}
            return list(self._newest.values())

    def checkpoint(self, *, clean: bool = True) -> None:
        with self._turn:
            table = self._table()
            if table is None:
                return
            try:
                table.create_checkpoint()
                if clean:  # commits older than the log retention: 30 days, unless the table sets it
                    table.cleanup_metadata()
            except (DeltaError, OSError) as error:
                raise StorageError(
                    f"cannot write a checkpoint of shard {self.uri}: {message_of(error)}"
                ) from error

    def since_checkpoint(self, state: ShardState) -> int:
        """Both times are those of files that it has read, by the storage's clock."""
        file, hint = self._cached_file, self._hint
        if file is None or file.path != commit_path(state.version):
            return 0
        return file.modified - (state.created if hint is None else hint.modified)

    def _new_transactions(self) -> Transactions:
        return Transactions(self._whole_commit_text, self._checkpoint_transactions, far=not self.is_local)

    def _checkpoint_transactions(self) -> tuple[int, Mapping[str, int]] | None:
        """See `Transactions`. Checkpoints of several files are left to the library."""
        try:
            version = self.checkpointed()
            if version == 0:
                return -1, {}
            stored = self.column(f"{LOG}/{version:020d}.checkpoint.parquet", "txn").to_pylist()
            return version, {a_text(each["appId"]): an_integer(each["version"]) for each in stored if each}
        except (StorageError, KeyError, TypeError, Unreadable):
            return None

    def removals(self) -> Removals:
        state = self._required_state()
        known = ledger.read(self.read_text(ledger.PLACE), str(state.shard_id), state.version)
        return ledger.followed(known, state.version, self._commit_text, self._written, self.uri)

    def published(self) -> frozenset[str]:
        noted = shown_files.noted(self)
        if not self.list_files(f"{TABLE}/{LOG}"):
            return noted
        try:
            table = DeltaTable(f"{self.uri}/{TABLE}", storage_options=self.options)
            paths = _arrow(table.get_add_actions()).column("path").to_pylist()
        except (DeltaError, OSError) as error:
            raise StorageError(
                f"cannot read the table that is published over shard {self.uri}: {message_of(error)}"
            ) from error
        return noted | {f"{TABLE}/{unquote(path)}" for path in paths}

    def keep_removals(self, removals: Removals) -> None:
        self.write_text(ledger.PLACE, removals.text(str(self._required_state().shard_id)))

    def _required_state(self) -> ShardState:
        state = self.load()
        if state is None:
            raise StorageError(f"shard {self.uri} is gone")
        return state

    def _table(self) -> DeltaTable | None:
        """The table at its newest version; None if there is none."""
        with self._reading_log():
            try:
                return self._current_table()
            except TableNotFoundError:
                self._forget()
                return None

    def _current_table(self) -> DeltaTable:
        table, file = self._cached, self._cached_file
        hint = self.stat(LAST_CHECKPOINT)
        if table is None or file is None or file != self._log_file(table.version()):
            self._forget()
            table = DeltaTable(self.uri, storage_options=self.options)
        elif self._log_file(table.version() + 1) is None:  # versions have no gaps
            if hint == self._hint:
                return table
            # The next commit may have been cleaned up, and not this one yet.
            self._forget()
            table = DeltaTable(self.uri, storage_options=self.options)
        else:
            table.update_incremental()
        self._cached, self._cached_file, self._hint = table, self._log_file(table.version()), hint
        return table

    @contextmanager
    def _reading_log(self) -> Iterator[None]:
        """Turns a failure to read the log into `TransientError`, or `LogDamaged` if waiting cannot
        help.
        """
        try:
            yield
        except (DeltaError, OSError, Unreachable) as error:
            self._forget()
            fault = damage(self)
            if fault:
                raise LogDamaged(self.uri, fault) from error
            raise TransientError(f"cannot read the log of shard {self.uri}: {message_of(error)}") from error

    def _forget(self) -> None:
        self._cached = self._cached_file = self._state = None
        self._newest = {}
        self._transactions.forget()

    def _look_up(self, table: DeltaTable) -> Callable[[str], int | None]:
        """The library's way to read transactions, for a log that `Transactions` cannot follow. The
        library skips an empty commit, so the commits are checked first.
        """
        checked: list[bool] = []

        def value_of(name: str) -> int | None:
            if not checked:
                self._require_whole_log()
                checked.append(True)
            return table.transaction_version(name)

        return value_of


def _commit_properties(change: Change) -> CommitProperties:
    return CommitProperties(
        custom_metadata={"mvsink": json.dumps(metadata(change))},
        max_commit_retries=0,
        app_transactions=[
            Transaction(name, version) for name, version in encoding.transactions(change).items()
        ],
    )


def _data_schema(table: DeltaTable) -> pa.Schema:
    return pa.schema([field for field in pa.schema(table.schema().to_arrow()) if field.name not in META])


def _arrow(rows: Any) -> pa.Table:
    """PyArrow's `table`, which imports pandas to learn whether ``rows`` are a data frame."""
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(rows).read_all()
    return pa.table(rows)


def _encoded_files(table: DeltaTable) -> list[DataFile]:
    """The live files, their paths encoded as in the log."""
    vectors: list[str] = []
    if "deletionVectors" in (table.protocol().reader_features or []):
        vectors = [str(path) for path in _arrow(table.deletion_vectors()).column("filepath").to_pylist()]
    return encoding.decode_files(_arrow(table.get_add_actions(flatten=True)), vectors)
