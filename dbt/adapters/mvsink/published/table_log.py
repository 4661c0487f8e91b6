"""The log of a published Delta table, whose files are those of a shard.

The table's root is ``<shard>/table``, so that it names the batches below by relative paths, which
every reader accepts. Commits are written here, file by file: the `deltalake` package has no way to
commit a deletion vector.

    {"add": {"path": "<batch>/part-00000.parquet", ..., "deletionVector": {...}}}

Each commit carries three of Delta's application transactions: `mvsink.shard` and
`mvsink.generation` record which version and generation of the shard the table shows, and
`mvsink.table` records the number of this very commit. If the table has later versions than that,
another tool wrote them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.published import vectors
from dbt.adapters.mvsink.published.others_commits import OthersCommit, commit_of_others
from dbt.adapters.mvsink.published.protocol import TableDocs
from dbt.adapters.mvsink.published.table_store import TableStore
from dbt.adapters.mvsink.shard import StorageError
from dbt.adapters.mvsink.shard.commit_log import LOG, actions, commit_path
from dbt.adapters.mvsink.shard.damage import LAST_CHECKPOINT
from dbt.adapters.mvsink.shard.errors import message_of
from dbt.adapters.mvsink.shard.log_store import LogStore
from dbt.adapters.mvsink.shard.stored import Unreadable, parsed

SHARD, GENERATION, FILES, OWN = "mvsink.shard", "mvsink.generation", "mvsink.files", "mvsink.table"
SIDECAR = "sidecar"  # the action of a checkpoint that names a file with more of its actions
PROTOCOL = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["deletionVectors"],
    "writerFeatures": ["deletionVectors"],
}
CONFIGURATION = {
    "delta.enableDeletionVectors": "true",
    # VACUUM by another tool must not delete what older versions of the shard need
    "delta.deletedFileRetentionDuration": "interval 365000 days",
}
# Properties of a table that people may set: they do not decide what its files mean.
HARMLESS = frozenset(
    {
        "delta.autoOptimize.autoCompact",
        "delta.autoOptimize.optimizeWrite",
        "delta.dataSkippingNumIndexedCols",
        "delta.dataSkippingStatsColumns",
        "delta.logRetentionDuration",
        "delta.targetFileSize",
        "delta.tuneFileSizesForRewrites",
    }
)
Action = Mapping[str, Any]


@dataclass(frozen=True)
class PublishedVersion:
    """One version of a table as its log has it: the `add` actions of live files by path, the
    `metaData` and `protocol` actions, and the version that each application transaction recorded,
    by its name. ``others`` are the commits of other tools since the last one of ours.
    """

    version: int
    adds: Mapping[str, Action] = field(default_factory=dict)
    metadata: Action = field(default_factory=dict)
    transactions: Mapping[str, int] = field(default_factory=dict)
    protocol: Action = field(default_factory=dict)
    others: tuple[OthersCommit, ...] = ()

    @property
    def foreign(self) -> int:
        """How many versions other tools have written since the last one of ours."""
        return max(self.version - self.transactions.get(OWN, -1), 0)

    @property
    def of_shard(self) -> int | None:
        """The shard's version that it shows, or showed before other tools wrote it."""
        return self.transactions.get(SHARD)

    def shows(self, generation: int, files: int) -> bool:
        """See `LiveTable`."""
        known = self.transactions.get(GENERATION), self.transactions.get(FILES)
        return not self.foreign and known == (generation, files)


NOTHING = PublishedVersion(-1)


class TableLog(TableStore, LogStore):
    """The log of the table at ``uri``. ``options`` are `storage_options` of `deltalake`."""

    def load(self) -> PublishedVersion:
        """The newest version; `NOTHING` if there is none. Raises `Unreadable` if a commit or the
        checkpoint is missing or cannot be read.

        Other tools write checkpoints of other forms, too, which are not read even if all commits
        are there: Spark does not read a log with a checkpoint of version 2 once the protocol lacks
        that feature, which the next publication turns off.
        """
        versions = sorted(self._versions())
        begin = self.checkpointed()
        if not versions and not begin:
            return NOTHING
        replay = _Replay()
        if begin or versions[0] > 0:
            replay.take(self._checkpoint(begin))
            replay.others = self._others_before(begin, replay)
            versions = [version for version in versions if version > begin]
        expected = range(begin + 1 if begin else 0, versions[-1] + 1 if versions else 0)
        if versions and list(expected) != versions:
            raise Unreadable(f"the log of {self.uri} has gaps")
        for version in versions:
            text = self._commit_text(version)
            if not text:
                raise Unreadable(f"commit {commit_path(version)} of {self.uri} is empty or gone")
            replay.take_commit(version, list(actions(text)))
        return replay.table(versions[-1] if versions else begin)

    def _others_before(self, version: int, replay: _Replay) -> list[OthersCommit]:
        """The commits of other tools up to a checkpoint, which does not have them one by one."""
        commits: list[OthersCommit] = []
        before: Action | None = None
        for number in range(replay.transactions.get(OWN, version) + 1, version + 1):
            text = self._commit_text(number)
            # one that was cleaned up may have been anything
            commit = commit_of_others(actions(text), before) if text else OthersCommit(files=True)
            commits.append(commit)
            before = commit.after or before
        return commits

    def _checkpoint(self, version: int) -> list[Action]:
        path = f"{LOG}/{version:020d}.checkpoint.parquet"
        names = ["txn", "add", "metaData", "protocol", SIDECAR]
        try:
            rows = self.fields(path, names).to_pylist()  # a step per live file, not per row
        except StorageError as error:
            raise Unreadable(f"checkpoint {path} of {self.uri} cannot be read: {error}") from error
        if any(row.get(SIDECAR) for row in rows):
            raise Unreadable(f"checkpoint {path} of {self.uri} has its live files in other files")
        return [{name: _plain(value) for name, value in row.items() if value is not None} for row in rows]

    def commit(self, version: int, committed: Sequence[Action]) -> None:
        """Write these actions as exactly this version. Raises `VersionTaken` if it exists."""
        text = "\n".join(json.dumps(action, separators=(",", ":")) for action in committed) + "\n"
        self.put(commit_path(version), text.encode(), version)

    def forget(self) -> None:
        """Delete the log. The next commit is then version 0 of a new table."""
        self.delete_directory(LOG)

    def checkpoint(self) -> None:
        """Write a checkpoint, so that readers load one file in place of many commits, and delete
        the commits that Delta's log retention no longer keeps. Raises `StorageError`.
        """
        try:
            table = DeltaTable(self.uri, storage_options=self.options)
            table.create_checkpoint()
            table.cleanup_metadata()
        except (DeltaError, OSError) as error:
            raise StorageError(f"cannot write a checkpoint of {self.uri}: {message_of(error)}") from error

    def truncate(self) -> None:
        """Write a checkpoint, and delete everything in the log that is older: commits have bounds
        of the values in files that are long gone. Raises `StorageError`.
        """
        self.checkpoint()
        newest = self.checkpointed()
        files = [file.path for file in self.list_files(LOG)]
        self.delete([path for path in files if _before(path, newest)])


def _before(path: str, newest: int) -> bool:
    """Whether a file of the log has nothing that version ``newest`` and later ones need. A commit
    that is being written (`TableStore.put`) stays, unless another one has its version.
    """
    version, unfinished = version_of(path), path.removeprefix(f"{LOG}/").startswith(".")
    return version is None or version < newest + unfinished


def version_of(path: str) -> int | None:
    """The version that a file of the log belongs to. None for a file that is part of a checkpoint
    of another form. That of the hint is beyond all versions.

    >>> version_of("_delta_log/00000000000000000007.json")
    7
    >>> version_of("_delta_log/.00000000000000000008.json.5f2c")
    8
    >>> version_of("_delta_log/_sidecars/a.parquet")
    """
    name = path.removeprefix(f"{LOG}/")
    if name == LAST_CHECKPOINT.rpartition("/")[2]:
        return sys.maxsize
    digits = name.removeprefix(".").partition(".")[0]
    return int(digits) if digits.isdecimal() else None


class _Replay:
    def __init__(self) -> None:
        self.adds: dict[str, Action] = {}
        self.metadata: Action = {}
        self.protocol: Action = {}
        self.transactions: dict[str, int] = {}
        self.others: list[OthersCommit] = []

    def take_commit(self, version: int, replayed: Sequence[Action]) -> None:
        before = self.metadata
        self.take(replayed)
        if self.transactions.get(OWN) == version:
            self.others = []
        else:
            self.others.append(commit_of_others(replayed, before))

    def take(self, replayed: Iterable[Action]) -> None:
        for action in replayed:
            if add := action.get("add"):
                self.adds[unquote(add["path"])] = add
            if remove := action.get("remove"):
                self._remove(remove)
            if transaction := action.get("txn"):
                self.transactions[transaction["appId"]] = transaction["version"]
            self.metadata = action.get("metaData") or self.metadata
            self.protocol = action.get("protocol") or self.protocol

    def _remove(self, remove: Action) -> None:
        """When a file's vector changes, one commit removes the file with the old vector and adds it
        with the new one, in any order. So only a removal with the live vector counts.
        """
        path = unquote(remove["path"])
        live = self.adds.get(path)
        if live is not None and _vector(live) == _vector(remove):
            del self.adds[path]

    def table(self, version: int) -> PublishedVersion:
        return PublishedVersion(
            version, self.adds, self.metadata, self.transactions, self.protocol, tuple(self.others)
        )


def _vector(action: Action) -> str:
    return vectors.unique_id(action.get("deletionVector"))


def _plain(value: Any) -> Any:
    """A checkpoint's value as a commit would have it: in Parquet, maps are read as lists of pairs,
    and fields that an action does not have as NULL.
    """
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value):
        return dict(value) if value else value
    return value


def added(path: str, size: int, rows: int, vector: Action | None, bounds: Action) -> Action:
    """The action that adds a file with its deletion vector, if it has one. ``bounds`` are those of
    `delta_bounds`.
    """
    statistics = {"numRecords": rows, **bounds, "tightBounds": vector is None}
    add = {
        "path": quote(path),
        "partitionValues": {},
        "size": size,
        "modificationTime": wall_clock.now_ms(),
        "dataChange": True,
        "stats": json.dumps(statistics),
    }
    return {"add": {**add, "deletionVector": dict(vector)} if vector else add}


def removed(add: Action) -> Action:
    """The action that removes a live file, made from the ``add`` that added it."""
    kept = {name: add[name] for name in ("path", "size") if name in add}
    remove = {
        **kept,
        "deletionTimestamp": wall_clock.now_ms(),
        "dataChange": True,
        "extendedFileMetadata": True,
        "partitionValues": dict(add.get("partitionValues") or {}),
    }
    vector = add.get("deletionVector")
    return {"remove": {**remove, "deletionVector": vector} if vector else remove}


def described(columns: pa.Schema, docs: TableDocs, shard_id: str, live: Action) -> Action:
    """The description of a table with these columns; see `same_description`. ``live`` is the
    description so far: what people wrote there stays, as far as ``docs`` say nothing else and it
    does not decide how the table is read.
    """
    fields = dict(parsed(Schema.from_arrow(columns).to_json()))
    comments = {**_comments(live), **{name: text for name, text in docs.columns.items() if text}}
    for each in fields["fields"]:
        each["nullable"] = True
        if comment := comments.get(each["name"]):
            each["metadata"] = {**each["metadata"], "comment": comment}
    kept = {
        name: value
        for name, value in (live.get("configuration") or {}).items()
        if name in HARMLESS or not name.startswith(("delta.", "mvsink."))
    }
    comment = live.get("description") if docs.comment is None else docs.comment
    return {
        "id": shard_id,
        **({"description": comment} if comment else {}),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(fields),
        "partitionColumns": [],
        "configuration": {**kept, **CONFIGURATION, **docs.properties},
    }


def same_description(one: Action, other: Action) -> bool:
    """Whether two descriptions differ in nothing that readers see."""
    names = ("schemaString", "configuration", "description")
    return all(_described(one, name) == _described(other, name) for name in names)


def _described(metadata: Action, name: str) -> Any:
    value = metadata.get(name) or ""
    return parsed(value) if isinstance(value, str) and name == "schemaString" and value else value


def _comments(metadata: Action) -> dict[str, str]:
    """The comments of the columns, by name."""
    fields = _described(metadata, "schemaString") or {"fields": []}
    comments = {each["name"]: (each.get("metadata") or {}).get("comment") for each in fields["fields"]}
    return {name: str(comment) for name, comment in comments.items() if comment}


def transaction(name: str, version: int) -> Action:
    """The application transaction that records ``version`` under this name."""
    return {"txn": {"appId": name, "version": version, "lastUpdated": wall_clock.now_ms()}}


def features(columns: pa.Schema) -> Action:
    """The `protocol` action of a table with these columns."""
    if any(_zoneless(each.type) for each in columns):
        return {
            name: [*value, "timestampNtz"] if isinstance(value, list) else value
            for name, value in PROTOCOL.items()
        }
    return PROTOCOL


def same_protocol(one: Action, other: Action) -> bool:
    """Whether two `protocol` actions ask the same of readers and writers."""
    return {name: _features(one.get(name)) for name in PROTOCOL} == {
        name: _features(other.get(name)) for name in PROTOCOL
    }


def _features(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) else value


def _zoneless(kind: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind):
        return kind.tz is None
    return any(_zoneless(kind.field(n).type) for n in range(kind.num_fields))
