"""A published table in Delta's format. Its log names the data files, and deletion vectors name the
rows of them that are hidden.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property, partial
from typing import Any

from pyroaring import BitMap64

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.published import table_log as log
from dbt.adapters.mvsink.published import vectors
from dbt.adapters.mvsink.published.delta_bounds import statistics
from dbt.adapters.mvsink.published.others_commits import taken_back
from dbt.adapters.mvsink.published.protocol import Description, Difference, LiveFile
from dbt.adapters.mvsink.published.table_log import NOTHING, PublishedVersion, TableLog
from dbt.adapters.mvsink.shard import StorageError
from dbt.adapters.mvsink.shard.stored import Unreadable, an_integer, member, parsed

ENGINE = "dbt-mvsink"


class AsDelta:
    """A `PublishedTable`. ``options`` are the `deltalake` package's."""

    def __init__(self, uri: str, options: Mapping[str, str] | None):
        self.store = TableLog(uri, options)

    def load(self) -> LiveDelta:
        try:
            return LiveDelta(self.store, self.store.load())
        except Unreadable:
            return LiveDelta(self.store, NOTHING, broken=True)

    def keep_in_order(self, before: int) -> None:
        self.store.checkpoint()
        named = self.load().beside
        left = [file for file in self.store.list_files(vectors.PREFIX) if file.modified < before]
        self.store.delete([file.path for file in left if file.path not in named])

    def forget_past(self) -> None:
        self.store.truncate()

    def forget(self) -> None:
        self.store.forget()
        self.store.delete_directory(vectors.PREFIX)


class LiveDelta:
    """A `LiveTable`. If its log is ``broken``, the next commit begins a new one."""

    def __init__(self, store: TableLog, live: PublishedVersion, *, broken: bool = False):
        self._store, self._live, self._broken = store, live, broken

    @property
    def version(self) -> int:
        return self._live.version

    @property
    def foreign(self) -> int:
        return self._live.foreign

    @property
    def of_shard(self) -> int | None:
        return self._live.of_shard

    @cached_property
    def files(self) -> Mapping[str, LiveFile]:
        return {path: _file(self._store, add) for path, add in self._live.adds.items()}

    @property
    def beside(self) -> Collection[str]:
        own = {vectors.file_of(add.get("deletionVector") or {}) for add in self._live.adds.values()}
        return {path for path in own if path is not None}

    def shows(self, generation: int, files: int) -> bool:
        return self._live.shows(generation, files)

    def is_described(self, described: Description) -> bool:
        """Another tool may also have turned on a feature of the protocol, which the commits here
        would not respect. It is turned off again.
        """
        same = log.same_description(self._metadata(described), self._live.metadata)
        return same and self._same_protocol(described)

    def undone(self, described: Description) -> int:
        live, same = self._live, self._same_protocol(described)
        return taken_back(live.others, self._metadata(described), live.metadata, same_protocol=same)

    def _same_protocol(self, described: Description) -> bool:
        return log.same_protocol(log.features(described.columns), self._live.protocol)

    def _metadata(self, described: Description) -> Mapping[str, Any]:
        return log.described(described.columns, described.docs, str(described.shard_id), self._live.metadata)

    def commit(self, difference: Difference) -> int:
        hidden = {path: shown.hidden for path, shown in difference.shown.items() if len(shown.hidden)}
        kept = vectors.written(hidden)
        if kept.path is not None:
            self._store.put(kept.path, kept.content, 0)
        if self._broken:
            self._store.forget()
        self._store.commit(self.version + 1, self._actions(difference, kept.descriptors))
        return self.version + 1

    def _actions(
        self, difference: Difference, descriptors: Mapping[str, Mapping[str, Any]]
    ) -> list[Mapping[str, Any]]:
        described = difference.described
        again = not self.is_described(described)
        metadata = {**self._metadata(described), "createdTime": wall_clock.now_ms()}
        bounds = self._bounds(difference)
        first: list[Mapping[str, Any]] = [
            {"protocol": log.features(described.columns)},
            {"metaData": metadata},
        ]
        return [
            _commit_info(difference),
            *(first if again else []),
            log.transaction(log.SHARD, difference.version),
            log.transaction(log.GENERATION, difference.generation),
            log.transaction(log.FILES, difference.files),
            log.transaction(log.OWN, self.version + 1),
            *(log.removed(self._live.adds[path]) for path in difference.gone),
            *(
                log.added(path, shown.file.size, shown.file.rows or 0, descriptors.get(path), bounds[path])
                for path, shown in difference.shown.items()
            ),
        ]

    def _bounds(self, difference: Difference) -> Mapping[str, Mapping[str, Any]]:
        """The bounds of the files to show, by path. Those of a file whose columns and rows stay are
        in the log.
        """
        same = log.same_description(self._metadata(difference.described), self._live.metadata)
        known = {
            path: bounds
            for path in difference.shown
            if same and path in self._live.adds and (bounds := _known_bounds(self._live.adds[path]))
        }
        new = [path for path in difference.shown if path not in known]
        columns = difference.described.columns
        footers = zip(new, self._store.footers(new), strict=True)
        return {**known, **{path: statistics(footer, columns) for path, footer in footers}}


def _file(store: TableLog, add: Mapping[str, Any]) -> LiveFile:
    descriptor = add.get("deletionVector") or {}
    rows = _rows(add)
    return LiveFile(add["size"], rows, descriptor.get("cardinality", 0), partial(_vector, store, descriptor))


def _rows(add: Mapping[str, Any]) -> int | None:
    """The file's number of rows. None if the log does not have it: another tool added the file, or
    wrote a checkpoint without statistics in JSON.
    """
    try:
        return an_integer(member(parsed(add["stats"]), "numRecords"))
    except (KeyError, Unreadable):
        return None


def _known_bounds(add: Mapping[str, Any]) -> Mapping[str, Any]:
    """The bounds in a live file's `add` action; none if the log does not have them: see `_rows`."""
    try:
        kept = parsed(add["stats"])
        return {name: member(kept, name) for name in ("minValues", "maxValues", "nullCount")}
    except (KeyError, Unreadable):
        return {}


def _vector(store: TableLog, descriptor: Mapping[str, Any]) -> BitMap64:
    try:
        return vectors.read(descriptor, store.bytes_of) if descriptor else BitMap64()
    except (vectors.UnknownVector, StorageError):
        return BitMap64()


def _commit_info(difference: Difference) -> Mapping[str, Any]:
    return {
        "commitInfo": {
            "timestamp": wall_clock.now_ms(),
            "operation": "WRITE",
            "operationParameters": {"mode": "Overwrite" if difference.gone else "Append"},
            "isBlindAppend": False,
            "engineInfo": ENGINE,
            "mvsink": {
                "shard": str(difference.described.shard_id),
                "version": difference.version,
                "generation": difference.generation,
            },
        }
    }
