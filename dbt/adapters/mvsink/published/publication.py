"""A shard's contents as a Delta table over the shard's own files.

    publish(handle, order, docs)    after each run, before the catalog shows the model

The table is derived from the shard: whatever it shows now, the next publication makes it show the
shard's newest version. A publication costs one commit, which lists the rows that are hidden; it
never copies a data file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from dbt.adapters.mvsink import failpoints, limits, wall_clock
from dbt.adapters.mvsink.local.rows import row_numbers
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH
from dbt.adapters.mvsink.published import extra_copies, vectors
from dbt.adapters.mvsink.published import table_log as log
from dbt.adapters.mvsink.published.shown_rows import (
    LiveErrors,
    NotLocated,
    Numbers,
    Scan,
    ShownRows,
    shown_rows,
)
from dbt.adapters.mvsink.published.table_log import NOTHING, PublishedVersion, TableDocs, TableLog
from dbt.adapters.mvsink.shard import (
    REMOVED_GRACE_MS,
    DataFile,
    Directory,
    ReadHandle,
    ShardState,
    StorageError,
    WriteHandle,
)
from dbt.adapters.mvsink.shard.errors import Conflict, VersionTaken
from dbt.adapters.mvsink.shard.state import TABLE
from dbt.adapters.mvsink.shard.stored import Unreadable, an_integer, member, parsed
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.shard_sql.published_view import Marker

# computes the hash of each row of these directories: an array per file, by its path
Hashes = Callable[[Layout, Sequence[Directory]], Mapping[str, Numbers]]
logger = logging.getLogger("mvsink.sink.append")
SCANNED = 500_000  # rows in memory at once
MAX_ROUNDS = 100  # commits lost to other writers before a publication gives up
ENGINE = "dbt-mvsink"
NO_DOCS = TableDocs()


@dataclass(frozen=True)
class Publication:
    """What a publication did: the table's ``version`` afterwards, whether it ``changed`` the table,
    and how many commits of other tools it has ``undone``.

    ``kept`` is empty, or the message of an error in the shard: because of it the table was left at
    an earlier version of the shard.
    """

    version: int
    changed: bool = False
    undone: int = 0
    kept: str = ""


@dataclass(frozen=True)
class Wanted:
    """The version of the shard that the table is to show, with the table's columns in order."""

    state: ShardState
    layout: Layout
    columns: pa.Schema
    hashes: Hashes | None


def publish(
    handle: WriteHandle,
    order: Sequence[str],
    docs: TableDocs = NO_DOCS,
    hashes: Hashes | None = None,
) -> Publication:
    """Make the table show the newest version of the shard.

    ``order`` names the table's columns in their order; if it is empty, they are in the shard's.
    ``docs`` are what the model says of it. ``hashes`` computes the hashes of directories in which
    some rows have none; without it, such a shard raises `NotLocated`. Raises `NotLocated`,
    `StorageError`.
    """
    target = _log_of(handle)
    marker = Marker(handle.uri, str(handle.shard_id), -1, "")
    marked = replace(docs, properties={**docs.properties, **marker.table_properties()})
    for _ in range(MAX_ROUNDS):
        live, broken = _loaded(target)
        # Read after the table's log, so that the table is never ahead of this state, unless an
        # older copy of the shard's log was restored.
        state = handle.state()
        if not state.readable:
            return Publication(live.version)
        schema = pa.schema([state.schema.field(name) for name in order or state.schema.names])
        wanted = Wanted(state, Layout.of(handle, state), schema, hashes)
        metadata = log.described(schema, marked, str(state.shard_id), live.metadata)
        current = live.shows(state.version, state.generation)
        if current and log.same_description(metadata, live.metadata) and _is_whole(target, live):
            return Publication(live.version)
        try:
            committed = _actions(handle, target, wanted, live, metadata)
        except LiveErrors as error:
            return Publication(live.version, kept=error.message)
        failpoints.reach("table to be committed")
        try:
            if broken:
                target.forget()
            target.commit(live.version + 1, committed)
        except VersionTaken:
            continue  # another run or tool was faster: load both logs and decide again
        failpoints.reach("table committed")
        version = live.version + 1
        if version and version % log.CHECKPOINT_EVERY == 0:
            _keep_in_order(handle, target)
        return Publication(version, changed=True, undone=live.foreign)
    raise Conflict(f"the table of {handle.uri} changed {MAX_ROUNDS} times while it was being published")


def _keep_in_order(handle: WriteHandle, target: TableLog) -> None:
    """Write a checkpoint and delete what is no longer needed.

    The table is committed already, so a failure here is logged and a later run tries again.
    """
    try:
        target.checkpoint()
        collect(target, target.load(), handle.storage.clock() - REMOVED_GRACE_MS)
    except (StorageError, Unreadable) as error:
        logger.warning("table %s: left to a later run: %s", target.uri, error)


def _is_whole(target: TableLog, live: PublishedVersion) -> bool:
    """Whether the table's own files exist: vectors and extra copies. The shard's log does not name
    them, so another tool's VACUUM of the shard may have deleted them.
    """
    own = {vectors.file_of(add.get("deletionVector") or {}) for add in live.adds.values()}
    own |= {path for path in live.adds if extra_copies.is_extra(path)}
    return all(target.stat(path) is not None for path in own if path is not None)


def _loaded(target: TableLog) -> tuple[PublishedVersion, bool]:
    """The table's newest version, and whether its log cannot be read and has to begin again."""
    try:
        return target.load(), False
    except Unreadable:
        return NOTHING, True


def _actions(
    handle: WriteHandle, target: TableLog, wanted: Wanted, live: PublishedVersion, metadata: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """The actions of the commit that takes the table from ``live`` to ``wanted``. The files that
    the commit will name, of vectors and of extra copies, are written here.
    """
    shown = _shown(handle, wanted)
    files = {_below(file): file for file in shown.files}
    hidden = {path: shown.hidden.get(file.path) or BitMap64() for path, file in files.items()}
    extra_files, extra_hidden = _extra(handle, target, wanted, shown, live)
    files |= extra_files
    hidden |= extra_hidden

    changed = {
        path: vector for path, vector in hidden.items() if not _is_shown(target, live.adds.get(path), vector)
    }
    kept = vectors.written({path: vector for path, vector in changed.items() if len(vector)})
    if kept.path is not None:
        target.put(kept.path, kept.content, 0)
    gone = [add for path, add in live.adds.items() if path not in files or path in changed]
    adds = [
        log.added(path, files[path].size, files[path].rows or 0, kept.descriptors.get(path))
        for path in changed
    ]
    description = log.same_description(metadata, live.metadata)
    new = live.version < 0
    return [
        _commit_info(wanted.state, bool(gone)),
        *([{"protocol": log.features(wanted.columns)}] if not description else []),
        *([{"metaData": {**metadata, "createdTime": wall_clock.now_ms()}}] if new or not description else []),
        log.transaction(log.SHARD, wanted.state.version),
        log.transaction(log.GENERATION, wanted.state.generation),
        log.transaction(log.OWN, live.version + 1),
        *map(log.removed, gone),
        *adds,
    ]


def _shown(handle: WriteHandle, wanted: Wanted) -> ShownRows:
    layout = wanted.layout
    outside = [file.path for file in layout.files if not file.path.startswith(f"{TABLE}/")]
    if outside or layout.loose:
        raise NotLocated(f"{outside[0] if outside else layout.loose[0].path} is not below {TABLE}/")
    if not layout.unhashed:
        return shown_rows(layout.base, layout.recent, _scan(handle))
    if wanted.hashes is None:
        raise NotLocated("some rows have no hash")
    known = wanted.hashes(layout, layout.unhashed)
    names = layout.names

    def same(places: Sequence[tuple[DataFile, Numbers, Numbers]]) -> bool:
        return _one_row_each(places, names, _scan(handle))

    return shown_rows(layout.base, (*layout.recent, *layout.unhashed), _scan(handle), known, same)


def _one_row_each(
    places: Sequence[tuple[DataFile, Numbers, Numbers]], names: Sequence[str], scan: Scan
) -> bool:
    """Whether records with the same hash are always the same row, compared column by column. Raises
    `NotLocated` if there are too many records to compare in this process.
    """
    if sum(len(positions) for _, positions, _ in places) > limits.LOCAL_ROWS:
        raise NotLocated("too many rows have no hash")
    parts: list[pa.Table] = []
    for file, positions, hashed in places:
        begin = 0
        for table in scan(file, names):
            here = (positions >= begin) & (positions < begin + len(table))
            rows = table.take(pa.array(positions[here] - begin))
            parts.append(rows.append_column(HASH, pa.array(hashed[here])))
            begin += len(table)
    rows = pa.concat_tables(parts)
    numbers = row_numbers(rows.drop_columns([HASH]))
    pairs = pa.table({"hash": rows.column(HASH), "row": numbers})
    distinct: int = pc.count_distinct(pairs.column("hash")).as_py()
    return len(pairs.group_by(["hash", "row"]).aggregate([])) == distinct


def is_published(handle: WriteHandle) -> bool:
    """Whether the shard has a table."""
    return _loaded(_log_of(handle))[0].version >= 0


def published_version(reader: ReadHandle) -> PublishedVersion | None:
    """The newest version of the shard's table; None if it has none, or none that can be read."""
    live, _ = _loaded(_log_of(reader))
    return None if live.version < 0 else live


def collect(target: TableLog, live: PublishedVersion, before: int) -> None:
    """Delete the vectors and extra copies that the ``live`` version, the newest, does not name, if
    they were written before that time (ms, by the storage's clock).
    """
    named = {vectors.file_of(add.get("deletionVector") or {}) for add in live.adds.values()} | set(live.adds)
    for name in (vectors.PREFIX, *filter(extra_copies.is_extra, target.directories())):
        left = [file for file in target.list_files(name) if file.modified < before and file.path not in named]
        target.delete([file.path for file in left])


def unpublish(handle: WriteHandle) -> None:
    """Delete the table's log, its vectors and extra copies. The shard's files stay."""
    target = _log_of(handle)
    target.forget()
    target.delete_directory(vectors.PREFIX)
    for name in target.directories():
        if extra_copies.is_extra(name):
            target.delete_directory(name)


def _log_of(handle: ReadHandle | WriteHandle) -> TableLog:
    return TableLog(f"{handle.uri}/{TABLE}", getattr(handle.storage, "options", None))


def _scan(handle: WriteHandle) -> Scan:
    types = {field.name: field.type for field in handle.state().schema}

    def scan(file: DataFile, names: Sequence[str]) -> Iterator[pa.Table]:
        schema = pa.schema([(name, types.get(name, OWN_TYPES.get(name))) for name in names])
        return handle.storage.scan(file, schema, SCANNED)

    return scan


OWN_TYPES = {HASH: pa.int64(), DIFF: pa.int64(), ERROR: pa.string()}


def _extra(
    handle: WriteHandle, target: TableLog, wanted: Wanted, shown: ShownRows, live: PublishedVersion
) -> tuple[dict[str, DataFile], dict[str, BitMap64]]:
    """The files of extra copies that the table needs, and the positions hidden in each. Writes the
    missing copies.
    """
    have = {
        path: (_extra_file(path, add), _vector(target, add))
        for path, add in live.adds.items()
        if extra_copies.is_extra(path) and target.stat(path) is not None
    }
    scan = _scan(handle)
    extra = extra_copies.compared(shown.copies, have, scan)
    files = {path: have[path][0] for path in extra.hidden}
    hidden = dict(extra.hidden)
    if extra.missing:
        path = extra_copies.fresh_path()
        schema = pa.schema([*wanted.columns, pa.field(HASH, pa.int64())])
        by_path = {file.path: file for file in shown.files}
        part = handle.storage.write_part(f"{TABLE}/{path}", schema)
        for table in extra_copies.rows(extra.missing, wanted.columns.names, by_path, scan):
            part.write(table.cast(schema))
        files[path] = part.close()
        hidden[path] = BitMap64()
    return files, hidden


def _extra_file(path: str, add: Mapping[str, Any]) -> DataFile:
    return DataFile(f"{TABLE}/{path}", add["size"], an_integer(member(parsed(add["stats"]), "numRecords")))


def _is_shown(target: TableLog, add: Mapping[str, Any] | None, vector: BitMap64) -> bool:
    """Whether the table already shows this file with exactly these rows hidden. ``add`` is the
    file's action in the log; None if the table does not show it.
    """
    if add is None:
        return False
    descriptor = add.get("deletionVector")
    if not descriptor:
        return not len(vector)
    return descriptor.get("cardinality") == len(vector) and _vector(target, add) == vector


def _vector(target: TableLog, add: Mapping[str, Any]) -> BitMap64:
    """The positions hidden in a live file. A vector that cannot be read counts as empty: then it
    differs from what is wanted, and is written again.
    """
    descriptor = add.get("deletionVector")
    try:
        return vectors.read(descriptor, target.bytes_of) if descriptor else BitMap64()
    except (vectors.UnknownVector, StorageError):
        return BitMap64()


def _below(file: DataFile) -> str:
    return file.path.removeprefix(f"{TABLE}/")


def _commit_info(state: ShardState, removes: bool) -> Mapping[str, Any]:
    return {
        "commitInfo": {
            "timestamp": wall_clock.now_ms(),
            "operation": "WRITE",
            "operationParameters": {"mode": "Overwrite" if removes else "Append"},
            "isBlindAppend": False,
            "engineInfo": ENGINE,
            "mvsink": {
                "shard": str(state.shard_id),
                "version": state.version,
                "generation": state.generation,
            },
        }
    }
