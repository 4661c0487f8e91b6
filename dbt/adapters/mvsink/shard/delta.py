"""A shard as a Delta table: the log is the consensus, Parquet files under ``batches/`` are the
blobs.

This is the only module that commits to Delta. Every commit names its version (the loaded one + 1)
and forbids the library any retry, so that the library never decides a conflict for us.

| state | where |
|---|---|
| upper, since, generation, dropped, creation | application transactions `mvsink.upper`, ...; they survive checkpoints and clean-up |
| progress on inputs, holds of others | application transactions `mvsink.input:<id>`, `mvsink.hold:<id>` |
| shard id, format version, salt, creation, owner, definition | table configuration `mvsink.*` |
| who, when, why, and the append's token | commit metadata `mvsink`: needed by nothing but people, and by a writer that lost its reply |
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, RemoveAction

from dbt.adapters.mvsink.physical import DIFF, EMPTY_FRONTIER, ERROR, HASH, TIME
from dbt.adapters.mvsink.shard import removals as ledger
from dbt.adapters.mvsink.shard.app_transactions import Transactions
from dbt.adapters.mvsink.shard.commit_log import (
    LOG,
    Commit,
    actions,
    checked_path,
    commit_info,
    commit_of,
    commit_path,
    commit_version,
    metadata,
    own_metadata,
)
from dbt.adapters.mvsink.shard.damage import damage, first_line, garbage
from dbt.adapters.mvsink.shard.errors import (
    InvalidUsage,
    LogDamaged,
    NotAShard,
    StorageError,
    TransientError,
    UnknownOutcome,
    VersionTaken,
)
from dbt.adapters.mvsink.shard.files import FileStore
from dbt.adapters.mvsink.shard.frontier import Antichain
from dbt.adapters.mvsink.shard.removals import Removals
from dbt.adapters.mvsink.shard.state import FORMAT_VERSION, Change, DataFile, ShardState
from dbt.adapters.mvsink.shard.storage import StoredFile
from dbt.adapters.mvsink.shard.updates import META_SCHEMA, physical_schema

PREFIX = "mvsink."
FIXED = ("shard_id", "format_version", "salt", "created", "holders")
TOLD = (  # what of a live file is asked; the statistics of the model's columns are not
    "path",
    "size_bytes",
    "num_records",
    *(f"{kind}.{column}" for kind in ("min", "max") for column in (TIME, DIFF)),
    *(f"null_count.{column}" for column in (ERROR, HASH)),
)
# without it a log tells of a table's first 32 columns only, and ours come last
STATISTICS = "delta.dataSkippingStatsColumns"
NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


class DeltaStorage(FileStore):
    """See `Storage`. ``storage_options`` are the `deltalake` package's, for object stores.

    The table and its newest version are kept, so that a load reads only the commits since; a log
    that was replaced is noticed by the file of the version that is kept.
    """

    def __init__(self, uri: str, storage_options: Mapping[str, str] | None = None):
        super().__init__(uri, storage_options)
        self._kept: DeltaTable | None = None
        self._seen: StoredFile | None = None  # the kept version's file in the log
        self._state: ShardState | None = None
        self._transactions = Transactions(self._commit_text)

    def object_store(self) -> pafs.FileSystem:
        """See `FileStore`."""
        return pafs.PyFileSystem(DeltaStorageHandler(self.uri, self.options))

    # the log

    def create(self, schema: pa.Schema, shard_id: uuid.UUID, salt: int, created: int) -> None:
        configuration: dict[str, str | None] = {
            PREFIX + "shard_id": str(shard_id),
            PREFIX + "format_version": str(FORMAT_VERSION),
            PREFIX + "salt": str(salt),
            PREFIX + "created": str(created),
            "delta.enableDeletionVectors": "false",
            STATISTICS: _statistics(schema),
        }
        try:
            DeltaTable.create(
                self.uri,
                schema=Schema.from_arrow(physical_schema(schema)),
                configuration=configuration,
                storage_options=self.options,
                commit_properties=self._properties(Change(kind="create")),
                raise_if_key_not_exists=False,
            )
        except (DeltaError, OSError) as error:
            if self.load() is None:
                raise StorageError(f"cannot create shard {self.uri}: {error}") from error

    def load(self) -> ShardState | None:
        table = self._table()
        if table is None:
            return None
        if self._state is None or self._state.version != table.version():
            try:
                self._state = self._read_state(table, self._transactions)
            except (DeltaError, OSError) as error:
                raise self._failure(error) from error
        return self._state

    def load_at(self, version: int) -> ShardState | None:
        try:
            table = DeltaTable(self.uri, version=version, storage_options=self.options)
            return self._read_state(table, Transactions(self._commit_text))
        except (DeltaError, OSError):
            return None

    def _read_state(self, table: DeltaTable, transactions: Transactions) -> ShardState:
        configuration = table.metadata().configuration
        own = {key[len(PREFIX) :]: value for key, value in configuration.items() if key.startswith(PREFIX)}
        if "shard_id" not in own:
            raise NotAShard(f"the Delta table at {self.uri} is no shard: it has no mvsink.shard_id")
        version = int(own.get("format_version", "0"))
        if version > FORMAT_VERSION:
            raise InvalidUsage(
                f"shard {self.uri} has format version {version}; this release reads up to {FORMAT_VERSION}: upgrade it"
            )
        schema = _data_schema(table)
        told = self._sane(transactions.of(table.version(), table.transaction_version), table.version())
        return ShardState(
            version=table.version(),
            shard_id=uuid.UUID(own["shard_id"]),
            schema=schema,
            salt=int(own.get("salt", "0")),
            since=Antichain.of(told(PREFIX + "since") or 0),
            upper=Antichain.of(told(PREFIX + "upper") or 0),
            generation=told(PREFIX + "generation") or 0,
            format_version=version,
            created=int(own.get("created", "0")),
            dropped=told(PREFIX + "dropped") or None,
            creation=told(PREFIX + "creation"),
            files=tuple(self._live_files(table)),
            holds=_holds(told, own),
            properties={key: value for key, value in own.items() if key not in FIXED},
            statistics=configuration.get(STATISTICS) == _statistics(schema),
        )

    def _sane(self, told: Callable[[str], int | None], version: int) -> Callable[[str], int | None]:
        """``told``, which refuses what no writer of ours can have written: a time or a number below
        0.
        """

        def ask(name: str) -> int | None:
            value = told(name)
            if value is not None and value < 0:
                raise LogDamaged(
                    self.uri,
                    f"at version {version} the transaction {name} stands at {value}, and must be 0 or more: another tool wrote it. "
                    "Restore the table to a version before that with that tool, or move the shard's directory away and run with "
                    "--full-refresh",
                )
            return value

        return ask

    def _live_files(self, table: DeltaTable) -> list[DataFile]:
        """Raises `LogDamaged` if one lies outside the shard's directory."""
        files = _described(table)
        refused = next((file.path for file in files if checked_path(file.path) is None), None)
        if refused is not None:
            raise LogDamaged(
                self.uri,
                f"{self._naming(refused)} adds {refused!r}: a shard's files are named by a relative path below its directory. mvsink neither "
                "reads nor deletes anything else. Remove that file from the table with the tool that added it, or delete the "
                "commit if no version comes after it",
            )
        return [replace(file, path=unquote(file.path)) for file in files]

    def _naming(self, encoded: str) -> str:
        """The commit that adds the path, by its file; where it was cleaned up, the checkpoint that
        still has it.
        """
        for version in sorted(self._versions(), reverse=True):
            if any(
                (action.get("add") or {}).get("path") == encoded
                for action in actions(self._commit_text(version) or "")
            ):
                return f"commit {commit_path(version)}"
        return f"the checkpoint of version {self.checkpointed()}"

    def commit(self, version: int, change: Change) -> None:
        table = self._table()
        if table is None or table.version() != version - 1:
            raise VersionTaken(version)
        properties = self._properties(change)
        try:
            settings = {PREFIX + key: value for key, value in (change.properties or {}).items()}
            settings |= _new_holders(table, change)
            if change.statistics:
                settings[STATISTICS] = _statistics(_data_schema(table))
            if settings:  # changes of this kind carry no files
                table.alter.set_table_properties(
                    settings,
                    raise_if_not_exists=False,
                    commit_properties=properties,
                    post_commithook_properties=NO_HOOKS,
                )
                self._seen = self._log_file(table.version())
                return
            now = int(time.time() * 1000)
            actions: list[AddAction | RemoveAction] = [
                _add(file, now, change.data_change) for file in change.adds
            ]
            if not change.remove_all:
                actions += [RemoveAction(f.path, change.data_change, now, f.size, {}) for f in change.removes]
            table.create_write_transaction(
                actions,
                "overwrite" if change.remove_all else "append",
                table.schema()
                if change.schema is None
                else Schema.from_arrow(physical_schema(change.schema)),
                partition_by=[],
                commit_properties=properties,
                post_commithook_properties=NO_HOOKS,
            )
            self._seen = self._log_file(table.version())
        except CommitFailedError as error:
            raise VersionTaken(version) from error
        except (DeltaError, OSError) as error:
            raise UnknownOutcome(str(error)) from error

    def token_at(self, version: int) -> str | None:
        text = self._commit_text(version)
        return None if text is None else str(own_metadata(commit_info(text)).get("token") or "")

    def progress(self, input_id: str) -> int | None:
        table = self._table()
        if table is None:
            return None
        try:
            return self._transactions.of(table.version(), table.transaction_version)(
                f"{PREFIX}input:{input_id}"
            )
        except (DeltaError, OSError) as error:
            raise self._failure(error) from error

    def history(self, newest: int | None = None) -> list[Commit]:
        versions = sorted(self._versions())
        kept = versions if newest is None else versions[len(versions) - min(newest, len(versions)) :]
        return [self._commit_at(version) for version in kept]

    def _commit_at(self, version: int) -> Commit:
        text = self._commit_text(version) or ""
        found = garbage(version, text)
        # a checkpoint may stand for it: then the shard can be read all the same, only its history
        # cannot
        if found:
            raise LogDamaged(self.uri, f"{found} Restore the file from a backup")
        return commit_of(version, text)

    def checkpoint(self) -> None:
        table = self._table()
        if table is not None:
            table.create_checkpoint()
            # what is older than Delta's log retention, 30 days unless the table says otherwise
            table.cleanup_metadata()

    def checkpointed(self) -> int:
        try:
            hint = json.loads(self.read_text("_delta_log/_last_checkpoint") or "{}")
        except ValueError:  # nobody could follow it
            return 0
        return int(hint.get("version") or 0) if isinstance(hint, dict) else 0

    def removals(self) -> Removals:
        state = self.load() or _no_state(self.uri)
        known = ledger.read(self.read_text(ledger.PLACE), str(state.shard_id), state.version)
        return ledger.followed(
            known, state.version, self._commit_text, self._versions, int(time.time() * 1000), self.uri
        )

    def keep_removals(self, removals: Removals) -> None:
        state = self.load() or _no_state(self.uri)
        self.write_text(ledger.PLACE, removals.text(str(state.shard_id)))

    def _table(self) -> DeltaTable | None:
        """The table at its newest version; None if there is none."""
        try:
            if (
                self._kept is not None
                and self._seen is not None
                and self._seen == self._log_file(self._kept.version())
            ):
                if self._log_file(self._kept.version() + 1) is None:  # versions have no gaps
                    return self._kept
                self._kept.update_incremental()
            else:
                self._forget()
                self._kept = DeltaTable(self.uri, storage_options=self.options)
            self._seen = self._log_file(self._kept.version())
            return self._kept
        except TableNotFoundError:
            self._forget()
            return None
        except (DeltaError, OSError) as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> TransientError | LogDamaged:
        """Is the log out of reach, which may pass, or damaged, which will not?"""
        self._forget()
        damaged = damage(self)
        return (
            LogDamaged(self.uri, damaged)
            if damaged
            else TransientError(f"cannot read the log of shard {self.uri}: {first_line(error)}")
        )

    def _forget(self) -> None:
        self._kept = self._seen = self._state = None
        self._transactions.forget()

    def _versions(self) -> list[int]:
        """Those whose commit is still there, in no order."""
        return [
            version for file in self.list_files(LOG) if (version := commit_version(file.path)) is not None
        ]

    def _commit_text(self, version: int) -> str | None:
        return self.read_text(commit_path(version))

    def _log_file(self, version: int) -> StoredFile | None:
        """The commit's file; None if it is not there (cleaned up, or another table)."""
        return self.stat(commit_path(version))

    def _properties(self, change: Change) -> CommitProperties:
        settings = {"upper": change.upper, "since": change.since}
        transactions = {key: value.stored() for key, value in settings.items() if value is not None}
        numbers = {"generation": change.generation, "dropped": change.dropped, "creation": change.creation}
        transactions |= {key: value for key, value in numbers.items() if value is not None}
        transactions |= {f"input:{key}": value for key, value in change.inputs.items()}
        transactions |= {f"hold:{key}": value for key, value in change.holds.items()}
        return CommitProperties(
            custom_metadata={"mvsink": json.dumps(metadata(change))},
            max_commit_retries=0,
            app_transactions=[Transaction(PREFIX + key, value) for key, value in transactions.items()],
        )


def _data_schema(table: DeltaTable) -> pa.Schema:
    return pa.schema(
        [field for field in pa.schema(table.schema().to_arrow()) if field.name not in META_SCHEMA.names]
    )


def _statistics(schema: pa.Schema) -> str:
    """The columns whose statistics the log is to tell: ours.

    And every struct among the columns of ``schema``: where the fields of one are left out,
    `deltalake` finds no statistics at all. None are written for them.
    """
    structs = [f"`{field.name.replace('`', '``')}`" for field in schema if pa.types.is_struct(field.type)]
    return ",".join([*META_SCHEMA.names, *structs])


def _add(file: DataFile, now: int, data_change: bool) -> AddAction:
    rows = file.rows or 0
    stats = {
        "numRecords": rows,
        "minValues": {TIME: file.min_time, DIFF: file.min_diff},
        "maxValues": {TIME: file.max_time, DIFF: file.max_diff},
        "nullCount": {TIME: 0, DIFF: 0, ERROR: rows - (file.errors or 0), HASH: rows - (file.hashes or 0)},
    }
    return AddAction(file.path, file.size, {}, now, data_change, json.dumps(stats))


def _described(table: DeltaTable) -> list[DataFile]:
    """The live files, their paths as the log spells them."""
    vectors: set[str] = set()
    if "deletionVectors" in (table.protocol().reader_features or []):
        listed = pa.table(table.deletion_vectors()).column("filepath").to_pylist()
        vectors = {unquote(str(path)).rsplit("/", 1)[-1] for path in listed}
    files = []
    actions = pa.table(table.get_add_actions(flatten=True))
    for row in actions.select([name for name in TOLD if name in actions.column_names]).to_pylist():
        path = row["path"]
        rows, errors, hashes = (
            row.get("num_records"),
            row.get(f"null_count.{ERROR}"),
            row.get(f"null_count.{HASH}"),
        )
        files.append(
            DataFile(
                path=path,
                size=row["size_bytes"],
                rows=rows,
                min_time=row.get(f"min.{TIME}"),
                max_time=row.get(f"max.{TIME}"),
                min_diff=row.get(f"min.{DIFF}"),
                max_diff=row.get(f"max.{DIFF}"),
                errors=None if errors is None or rows is None else rows - errors,
                hashes=None if hashes is None or rows is None else rows - hashes,
                deletion_vector=unquote(path).rsplit("/", 1)[-1] in vectors,
            )
        )
    return sorted(files, key=lambda file: file.path)


def _new_holders(table: DeltaTable, change: Change) -> dict[str, str]:
    """Transactions cannot be listed, so the table's configuration names the holders there have
    been.
    """
    key = PREFIX + "holders"
    known = [name for name in table.metadata().configuration.get(key, "").split(",") if name]
    new = [holder for holder in change.holds if holder not in known]
    return {key: ",".join([*known, *new])} if new else {}


def _holds(told: Callable[[str], int | None], own: Mapping[str, str]) -> dict[str, int]:
    """Holds by holder; a hold that was dropped stands at 2^63-1 and holds nothing."""
    holders = [holder for holder in own.get("holders", "").split(",") if holder]
    found = {holder: told(f"{PREFIX}hold:{holder}") for holder in holders}
    return {holder: time for holder, time in found.items() if time is not None and time < EMPTY_FRONTIER}


def _no_state(uri: str) -> ShardState:
    raise StorageError(f"shard {uri} is gone")
