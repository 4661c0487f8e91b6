"""Makes a shard's table show the shard's newest version.

    publish(handle, order, docs)    after each run, before the catalog shows the model

The table is derived from the shard: whatever it shows now, the next publication makes it show the
shard's newest version. A publication costs one commit, which lists the rows that are hidden; it
never copies a data file.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from dbt.adapters.mvsink import failpoints, limits
from dbt.adapters.mvsink.local.rows import row_numbers
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH
from dbt.adapters.mvsink.published import extra_copies
from dbt.adapters.mvsink.published.formats import ICEBERG, NoCatalog, TableFormat, recorded_tables, table_of
from dbt.adapters.mvsink.published.protocol import (
    Description,
    Difference,
    LiveFile,
    LiveTable,
    PublishedTable,
    ShownFile,
    TableDocs,
)
from dbt.adapters.mvsink.published.shown_rows import (
    Computed,
    LiveErrors,
    NotLocated,
    Numbers,
    Scan,
    ShownRows,
    shown_rows,
)
from dbt.adapters.mvsink.published.table_store import TableStore
from dbt.adapters.mvsink.shard import (
    REMOVED_GRACE_MS,
    DataFile,
    Directory,
    ReadHandle,
    ShardState,
    StorageError,
    WriteHandle,
    files_number,
)
from dbt.adapters.mvsink.shard.errors import KeepsChanging, VersionTaken
from dbt.adapters.mvsink.shard.state import TABLE
from dbt.adapters.mvsink.shard.stored import Unreadable
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.shard_sql.layout import in_order
from dbt.adapters.mvsink.shard_sql.published_view import Marker

# computes the hashes that these directories' rows lack, by the path of the file
Hashes = Callable[[Layout, Sequence[Directory]], Mapping[str, Computed]]
logger = logging.getLogger("mvsink.sink.append")
SCANNED = 500_000  # rows in memory at once
MAX_ROUNDS = 100  # commits lost to other writers before a publication gives up
KEEP_EVERY = 20  # versions of the table between two clean-ups, as in a shard
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
    """The version of the shard that the table should show, and how it should be described."""

    state: ShardState
    layout: Layout
    described: Description
    hashes: Hashes | None


def publish(
    handle: WriteHandle,
    order: Sequence[str],
    docs: TableDocs = NO_DOCS,
    hashes: Hashes | None = None,
    table: PublishedTable | None = None,
) -> Publication:
    """Make the table show the newest version of the shard. By default it is the Delta table.

    ``order`` names the table's columns in their order, as in the view (`in_order`).
    ``docs`` are its comments and properties. ``hashes`` computes the hashes of the rows that have
    none; without it, such a shard raises `NotLocated`. Raises `NotLocated`,
    `StorageError`.
    """
    marker = Marker(handle.uri, str(handle.shard_id), -1, "")
    marked = replace(docs, properties={**docs.properties, **marker.table_properties()})
    table = table or table_of(handle)
    for _ in range(MAX_ROUNDS):
        live = table.load()
        # Read after the table's log, so that the table is never ahead of this state, unless an
        # older copy of the shard's log was restored.
        state = handle.state()
        if not state.readable:
            return Publication(live.version)
        schema = pa.schema([state.schema.field(name) for name in in_order(state.schema.names, order)])
        described = Description(schema, marked, state.shard_id)
        shown = live.shows(state.generation, files_number(state.files))
        if shown and live.is_described(described) and _is_whole(table, live):
            return Publication(live.version)
        try:
            wanted = Wanted(state, Layout.of(handle, state), described, hashes)
            difference = _difference(handle, table.store, wanted, live)
        except LiveErrors as error:
            return Publication(live.version, kept=error.message)
        failpoints.reach("table to be committed")
        try:
            version = live.commit(difference)
        except VersionTaken:
            continue  # another run or tool was faster: load both logs and decide again
        failpoints.reach("table committed")
        if version and version % KEEP_EVERY == 0:
            _keep_in_order(handle, table)
        return Publication(version, changed=True, undone=live.undone(described))
    raise KeepsChanging(f"the table of {handle.uri} changed {MAX_ROUNDS} times while it was being published")


def _keep_in_order(handle: WriteHandle, table: PublishedTable) -> None:
    """Make the table fast to load, and delete files that it no longer needs.

    The table is committed already, so a failure here is logged and a later run tries again.
    """
    before = handle.storage.clock() - REMOVED_GRACE_MS
    try:
        table.keep_in_order(before)
        _collect_copies(table.store, table.load(), before)
    except (StorageError, Unreadable) as error:
        logger.warning("table %s: left to a later run: %s", table.store.uri, error)


def forget_past(handle: WriteHandle, table: PublishedTable | None = None) -> None:
    """Make the table's newest version its only one, and delete the files that only others needed:
    what hides rows, and extra copies. Data files are the shard's, which collects them. Raises
    `KeepsChanging`, `StorageError`.
    """
    table = table or table_of(handle)
    for _ in range(MAX_ROUNDS):
        try:
            table.forget_past()
        except VersionTaken:
            continue
        table.keep_in_order(sys.maxsize)
        _collect_copies(table.store, table.load(), sys.maxsize)
        return
    raise KeepsChanging(f"the table of {handle.uri} changed {MAX_ROUNDS} times while its past was deleted")


def _is_whole(table: PublishedTable, live: LiveTable) -> bool:
    """Whether the files exist that hide rows, and those of extra copies. The shard's log does not
    name them, so another tool's VACUUM of the shard may have deleted them.
    """
    own = {*live.beside, *(path for path in live.files if extra_copies.is_extra(path))}
    return table.store.has_all(own)


def _difference(handle: WriteHandle, store: TableStore, wanted: Wanted, live: LiveTable) -> Difference:
    """The difference between the table as it is (``live``) and as ``wanted``. Extra copies that are
    missing are written here.
    """
    contents = _shown(handle, wanted)
    files = {
        _below(file): ShownFile(file, contents.hidden.get(file.path) or BitMap64()) for file in contents.files
    }
    files |= _extra(handle, store, wanted, contents, live)
    changed = {
        path: shown for path, shown in files.items() if not _is_shown(live.files.get(path), shown.hidden)
    }
    gone = {path for path in live.files if path not in files or path in changed}
    state = wanted.state
    number = files_number(state.files)
    return Difference(state.version, state.generation, number, wanted.described, gone, changed)


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


def is_published(table: PublishedTable) -> bool:
    """Whether the shard has this table."""
    return table.load().version >= 0


def published_version(
    reader: ReadHandle, published: TableFormat | None = None, catalog: Mapping[str, str] | None = None
) -> LiveTable | None:
    """The newest version of the shard's table; None if it has none, or none that can be read. By
    default it is the Delta table.
    """
    live = table_of(reader, published, catalog).load()
    return None if live.version < 0 else live


def _collect_copies(store: TableStore, live: LiveTable, before: int) -> None:
    for name in filter(extra_copies.is_extra, store.directories()):
        left = [file.path for file in store.list_files(name) if file.modified < before]
        store.delete([path for path in left if path not in live.files])


def unpublish(handle: WriteHandle, table: PublishedTable | None = None) -> None:
    """Delete a table with its metadata and extra copies; by default the Delta table. The shard's
    files stay.
    """
    table = table or table_of(handle)
    table.forget()
    for name in filter(extra_copies.is_extra, table.store.directories()):
        table.store.delete_directory(name)


def retire(
    handle: WriteHandle, catalog: Mapping[str, str] | None, *, but: TableFormat | None = None
) -> tuple[list[TableFormat], list[str]]:
    """Unpublish all tables that the shard records, except ``but``. If that is given, extra copies
    are kept, because it may need them.

    Returns the tables, and for each whose entry in a catalog had to be left there, the reason.
    """
    kept: list[str] = []
    formats = [each for each in recorded_tables(handle.state().properties) if each != but]
    for each in formats:
        try:
            table = table_of(handle, each, catalog)
        except NoCatalog as error:
            table = table_of(handle, TableFormat(ICEBERG))
            kept.append(str(error))
        if but is None:
            unpublish(handle, table)
        else:
            table.forget()
    return formats, kept


def _scan(handle: WriteHandle) -> Scan:
    types = {field.name: field.type for field in handle.state().schema}

    def scan(file: DataFile, names: Sequence[str]) -> Iterator[pa.Table]:
        schema = pa.schema([(name, types.get(name, OWN_TYPES.get(name))) for name in names])
        return handle.storage.scan(file, schema, SCANNED)

    return scan


OWN_TYPES = {HASH: pa.int64(), DIFF: pa.int64(), ERROR: pa.string()}


def _extra(
    handle: WriteHandle, store: TableStore, wanted: Wanted, shown: ShownRows, live: LiveTable
) -> dict[str, ShownFile]:
    """The files of extra copies that the table needs. Writes the missing copies."""
    have = {
        path: (DataFile(f"{TABLE}/{path}", file.size, _rows(store, path, file)), file.positions())
        for path, file in live.files.items()
        if extra_copies.is_extra(path) and store.stat(path) is not None
    }
    scan = _scan(handle)
    extra = extra_copies.compared(shown.copies, have, scan)
    files = {path: ShownFile(have[path][0], hidden) for path, hidden in extra.hidden.items()}
    if extra.missing:
        path = extra_copies.fresh_path()
        columns = wanted.described.columns
        schema = pa.schema([*columns, pa.field(HASH, pa.int64())])
        by_path = {file.path: file for file in shown.files}
        part = handle.storage.write_part(f"{TABLE}/{path}", schema)
        for table in extra_copies.rows(extra.missing, columns.names, by_path, scan):
            part.write(table.cast(schema))
        files[path] = ShownFile(part.close(), BitMap64())
    return files


def _rows(store: TableStore, path: str, file: LiveFile) -> int:
    return store.footers([path])[0].num_rows if file.rows is None else file.rows


def _is_shown(file: LiveFile | None, hidden: BitMap64) -> bool:
    """Whether a live file hides exactly these rows."""
    if file is None or file.hidden != len(hidden):
        return False
    return not len(hidden) or file.positions() == hidden


def _below(file: DataFile) -> str:
    return file.path.removeprefix(f"{TABLE}/")
