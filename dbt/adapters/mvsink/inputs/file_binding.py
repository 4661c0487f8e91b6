"""Binding a table of files to times: the files added and removed at each time, and their rows.

Once a file is removed it is too late to read its rows, so the companion stores the rows themselves
as updates: +1 for rows of added files, and for removed files the negation of the stored rows. Two
columns come before the table's own:

    mv_file BIGINT   the number of the row's file (`files.TableFile.number`)
    mv_path STRING   NULL for a row; one further row per file, the manifest, has the file's path,
                     and NULL in the table's columns

An append-only table's files are never removed, so its companion stores only the manifest, and rows
are read from the table.

Only a file with rows enters the manifest. So a later run reads a file that Spark did not see
(because its partition is not yet in the catalog, say), and no row is ever skipped.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from pathlib import Path

import pyarrow as pa

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.engine import Column, Engine, arrow_schema, parse_type, shard_columns, sql
from dbt.adapters.mvsink.engine.whole_rows import net
from dbt.adapters.mvsink.inputs import version_binding
from dbt.adapters.mvsink.inputs.described import check_zone, has_times, is_local, keep_zone, path_of, stable
from dbt.adapters.mvsink.inputs.errors import ColumnsChanged, FilesChanging, FileVanished, ModeChanged
from dbt.adapters.mvsink.inputs.file_tables import FILE_NUMBER, FilesInput, TableFile, partition_of, which
from dbt.adapters.mvsink.inputs.position import FILE_LIST, Observation, Position
from dbt.adapters.mvsink.inputs.protocol import CatalogTable, Table, TableOptions
from dbt.adapters.mvsink.inputs.shard import ShardInput
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, TIME
from dbt.adapters.mvsink.shard import (
    Antichain,
    Batch,
    CompactionPlan,
    ShardClient,
    ShardState,
    StagedDirectory,
    WriteHandle,
    number_of,
)
from dbt.adapters.mvsink.shard_sql import as_of
from dbt.adapters.mvsink.shard_sql.as_of import Projection
from dbt.adapters.mvsink.shard_sql.rewrite import compact
from dbt.adapters.mvsink.shard_sql.stager import Stager

MAX_TRIES = 3
RACY = 2_000  # ms: of files whose times are whole seconds, a younger one may change unseen
LATEST = 100  # files of a list that a message may name or count
BOOKS = ("mv_file", "mv_path")
BOOK_TYPES = ("bigint", "string")
APPEND_ONLY, COPIED = "append_only", "unset"


def bind_files(table: FilesInput, time: int, client: ShardClient, uri: str, engine: Engine) -> ShardInput:
    """The table's changes at exact times; present files are bound at ``time`` (ms).

    ``uri`` is the companion's location.

    Raises `FileVanished`, `ColumnsChanged`, `ModeChanged`, `FilesChanging`, `ZoneChanged`; then
    nothing is bound.
    """
    columns = table.columns(engine)
    binder = _FileBinder(table, _open(table, columns, client, uri), engine, time)
    if table.zoned:
        check_zone(binder.handle, engine, table.id, lambda: True)
        keep_zone(binder.handle, engine)
    version_binding.advance(binder.handle, time, binder.stage, binder.compact)
    if table.append_only:
        return BoundAppends(table, binder.handle, engine, columns)
    return binder.input


@dataclass(frozen=True)
class FilesFormat:
    """A format of files without versions; see `Format`. ``textual`` files hold values as texts."""

    provider: str
    textual: bool = False

    def open(self, table: CatalogTable, options: TableOptions) -> Table:
        """See `Format`. This run's other models see the same files."""
        engine = options.engine
        files = FilesInput(
            table.name,
            table.name,
            table.location,
            append_only=options.append_only,
            refresh="" if table.by_path else f"refresh table {table.name}",
            fresh=options.relist is not None,
            storage_options=options.storage_options,
            lister=engine if table.partitions else None,
            partitions=[name for name, _ in table.partitions],
            zoned=self._zoned(table, engine),
        )
        if options.relist is not None and not table.by_path:
            options.relist(table.name)
        return Table(
            files.id,
            lambda: files.columns(engine),
            lambda time, client, uri: bind_files(files, time, client, uri, engine),
        )

    def _zoned(self, table: CatalogTable, engine: Engine) -> bool:
        """Whether the table's rows depend on the session's time zone, because a time is a text in
        its files or in its partitions' names.
        """
        if not self.textual and not table.by_path:
            return any(has_times(kind) for _, kind in table.partitions)
        return any(has_times(kind) for _, kind in engine.columns(f"select * from {table.name}"))

    def position(self, table: CatalogTable, options: TableOptions, pinned: int | None) -> Position:
        """See `Format`."""
        name, location = table.name, table.location
        if table.description.get("partition_columns"):
            return _unknown(name, f"the partitions of {name} may be anywhere")
        if not options.local and is_local(location):
            return _unknown(name, f"{name} is on a disk of the machine that runs Spark")
        listed = FilesInput(name, name, path_of(location), storage_options=options.storage_options)
        files = listed.manifest()
        if not files:  # or this process looks at another place than Spark
            return _unknown(name, f"{name} has no files")
        coarse = all(file.modified % 1000 == 0 for file in files.values())
        if coarse and max(file.modified for file in files.values()) > wall_clock.now_ms() - RACY:
            return _unknown(name, f"{name} changed within the last two seconds")
        return Position(
            name,
            FILE_LIST,
            f"{self.provider} {location}",
            number_of(map(str, files)),
            definition=stable(table.description),
            size=sum(file.size for file in files.values()),
            count=len(files),
            latest=tuple(nlargest(LATEST, ((file.modified, file.path) for file in files.values()))),
        )

    def is_at(self, path: Path) -> bool:
        """See `ProbedFormat`: a place of no other format is a file, or a directory of files."""
        return True

    def observation(self, path: Path) -> Observation | None:
        """See `ProbedFormat`."""
        if not path.exists():
            return None
        files = {}
        for file in [path] if path.is_file() else _below(path):
            stat = file.stat()
            files[str(file)] = (stat.st_size, stat.st_mtime_ns // 1_000_000)
        return Observation(str(hash(frozenset(files.items()))), files)


def _below(path: Path) -> Iterator[Path]:
    """The files below a directory that Spark would read: not those that are hidden or being
    written.
    """
    for root, directories, names in os.walk(path):
        directories[:] = [name for name in directories if name[0] not in "._" or "=" in name]
        yield from (Path(root, name) for name in names if name[0] not in "._")


def _unknown(name: str, problem: str) -> Position:
    return Position(name, FILE_LIST, problem=problem)


class BoundAppends(ShardInput):
    """See `Input`: an append-only table, whose rows are read from the table. The shard has only the
    manifest.
    """

    def __init__(self, table: FilesInput, handle: WriteHandle, engine: Engine, columns: tuple[Column, ...]):
        super().__init__(handle, engine, table.id)
        self.table = table
        self._own = columns

    @property
    def columns(self) -> tuple[Column, ...]:
        return self._own

    def changes(self, lower: int, upper: int) -> str:
        bound: dict[int, dict[int, str]] = {}
        for number, path, time, *_ in self.engine.query(super().changes(lower, upper), "bound files"):
            bound.setdefault(int(str(time)), {})[int(str(number))] = str(path)
        items = sql.columns(column.name for column in self._own)
        queries = [
            self._rows(files, f"{items}, {sql.bigint(time)} {TIME}, 1L {DIFF}")
            for time, files in sorted(bound.items())
        ]
        if not queries:
            return as_of.no_updates(self._own)
        rows = net(self._own, [TIME], sql.union_all(queries))
        return f"select {items}, {TIME}, {DIFF}, cast(null as string) {ERROR} from (\n{rows}\n)"

    def contents(self, time: int) -> str:
        return self._at(time, sql.columns(column.name for column in self._own))

    def snapshot(self, time: int) -> str:
        items = sql.columns(column.name for column in self._own)
        return self._at(time, f"{items}, {sql.bigint(time)} {TIME}, 1L {DIFF}, cast(null as string) {ERROR}")

    def _at(self, time: int, items: str) -> str:
        rows = self.engine.query(super().contents(time), "bound files")
        return self._rows({int(str(number)): str(path) for number, path in rows}, items)

    def _rows(self, files: dict[int, str], items: str) -> str:
        removed = files.keys() - self.table.manifest().keys()
        if removed:
            raise FileVanished(self.table.id, [files[number] for number in removed])
        return self.table.rows(items, files)


@dataclass
class _FileBinder:
    """One binding at ``time``."""

    table: FilesInput
    handle: WriteHandle
    engine: Engine
    time: int

    def __post_init__(self) -> None:
        (self.file, self.path, *own) = shard_columns(self.handle.schema)
        self.own = tuple(own)
        rows = Projection(self.own, f"{sql.identifier(self.path.name)} is null")
        self.input = ShardInput(self.handle, self.engine, self.table.id, rows)

    def stage(self, state: ShardState) -> Sequence[Batch]:
        """The changes since ``state``, staged."""
        bound = self._bound(state)
        for attempt in range(MAX_TRIES):
            if self.table.refresh and (attempt or not self.table.fresh):
                self.engine.execute(self.table.refresh, "refresh")
            batches = self._staged(state, bound)
            if batches is not None:
                return batches
        raise FilesChanging(self.table.id, MAX_TRIES)

    def compact(self, plan: CompactionPlan) -> object:
        """Perform the maintenance that an append requires."""
        return compact(self.engine, self.handle, plan, self.input.layout(self.handle.state()))

    def _bound(self, state: ShardState) -> dict[int, str]:
        """The manifest: the paths of the bound files, by number."""
        shard = self.input.layout(state)
        if shard.empty:
            return {}
        items = sql.columns([self.file.name, self.path.name])
        rows = shard.updates(f"{items}, {DIFF}", f"{sql.identifier(self.path.name)} is not null")
        query = f"select {items} from (\n{rows}\n) group by {items} having sum({DIFF}) > 0"
        return {int(str(number)): str(path) for number, path in self.engine.query(query, "bound files")}

    def _staged(self, state: ShardState, bound: dict[int, str]) -> list[Batch] | None:
        """Batches of the rows and of the manifest; None if the table's files changed meanwhile."""
        listed = self.table.manifest()
        moved = {n for n in listed.keys() & bound.keys() if partition_of(bound[n]) != listed[n].partition}
        added, removed = listed.keys() - bound.keys() | moved, bound.keys() - listed.keys() | moved
        if self.table.append_only and removed:
            raise FileVanished(self.table.id, [bound[number] for number in removed])
        if not added and not removed:
            return []
        if self.table.append_only:
            rows, read = None, self._numbers(self.table.rows(f"{FILE_NUMBER} n", added))
        else:
            rows = self._stage_rows(state, added, removed, (bound.keys() & listed.keys()) - moved)
            number = sql.identifier(self.file.name)
            read = self._numbers(f"select {number} n from {sql.parquet_in(rows.uri)} where {DIFF} > 0")
        after = self.table.manifest()
        if not added <= after.keys() or not read <= after.keys() or _moved(listed, after):
            if rows is not None:
                rows.delete()
            return None
        return [
            *self._adopted(rows, state),
            *self._manifest([after[number] for number in sorted(read)], state),
        ]

    def _stage_rows(
        self, state: ShardState, added: set[int], removed: set[int], kept: set[int]
    ) -> StagedDirectory:
        own = sql.columns(column.name for column in self.own)
        file, path = sql.identifier(self.file.name), sql.identifier(self.path.name)
        more = f"{sql.bigint(self.time)} {TIME}, {{}} {DIFF}, cast(null as string) {ERROR}, cast(null as bigint) {HASH}"
        queries = []
        if added:
            typed = ", ".join(
                f"cast({sql.identifier(c.name)} as {c.type.spelled}) {sql.identifier(c.name)}"
                for c in self.own
            )
            queries.append(
                self.table.rows(
                    f"{FILE_NUMBER} {file}, cast(null as string) {path}, {typed}, {more.format('1L')}",
                    added,
                    kept,
                )
            )
        if removed:
            where = which(file, removed, kept, self.table.id)
            stored = self.input.layout(state).updates(f"{file}, {path}, {own}, {DIFF}", where)
            rows = net((self.file, self.path, *self.own), [], stored, "<> 0")
            queries.append(f"select {file}, {path}, {own}, {more.format(f'-{DIFF}')} from (\n{rows}\n)")
        return Stager(self.engine, self.handle, self.table.id).stage(sql.union_all(queries), "bind")

    def _numbers(self, query: str) -> set[int]:
        """The distinct numbers ``n`` of a query."""
        return {
            int(str(row[0])) for row in self.engine.query(f"select distinct n from (\n{query}\n)", "bind")
        }

    def _adopted(self, rows: StagedDirectory | None, state: ShardState) -> list[Batch]:
        return (
            []
            if rows is None
            else [self.handle.adopt(rows, state.upper, Antichain.of(self.time).step_forward())]
        )

    def _manifest(self, files: Sequence[TableFile], state: ShardState) -> list[Batch]:
        if not files:
            return []
        own = [pa.nulls(len(files), field.type) for field in self.handle.schema][len(BOOKS) :]
        times, diffs = ([value] * len(files) for value in (self.time, 1))
        columns = [[file.number for file in files], [file.bound_as for file in files], *own, times, diffs]
        updates = pa.table(
            [pa.array(column) for column in columns], names=[*self.handle.schema.names, TIME, DIFF]
        )
        return [self.handle.batch(updates, state.upper, Antichain.of(self.time).step_forward())]


def _moved(before: Mapping[int, TableFile], after: Mapping[int, TableFile]) -> bool:
    """Whether a file moved to another partition."""
    return any(after[n].partition != file.partition for n, file in before.items() if n in after)


def _open(table: FilesInput, columns: tuple[Column, ...], client: ShardClient, uri: str) -> WriteHandle:
    """The companion. Its columns are the table's at the first binding; later ones are ignored."""
    books = [Column(name, parse_type(text, name)) for name, text in zip(_free(BOOKS, columns), BOOK_TYPES)]
    own = () if table.append_only else columns
    handle = client.open_or_create(uri, arrow_schema((*books, *own)), f"input({table.id})")
    bound = shard_columns(handle.schema)[len(BOOKS) :]
    if bool(bound) == table.append_only:
        raise ModeChanged(table.id, *((APPEND_ONLY, COPIED) if table.append_only else (COPIED, APPEND_ONLY)))
    now = {column.name: column.type.text for column in columns}
    changed = [
        f"`{c.name}` was {c.type.text}, is {now.get(c.name, 'gone')}"
        for c in bound
        if now.get(c.name) != c.type.text
    ]
    if changed:
        raise ColumnsChanged(table.id, changed)
    return handle


def _free(names: Iterable[str], columns: tuple[Column, ...]) -> list[str]:
    """``names``, with underscores appended until they differ from the table's own names."""
    taken = {column.name.lower() for column in columns}
    return [
        next(name for n in range(len(taken) + 1) if (name := wanted + "_" * n) not in taken)
        for wanted in names
    ]
