"""A Delta table as a `VersionedTable`: its log is read here, its data by Spark as Parquet files.

The changes from version v to w are the rows of the files that only w has, minus those of the files
that only v has, consolidated. That is exact for every operation (INSERT, UPDATE, DELETE, MERGE,
OPTIMIZE, RESTORE, CREATE OR REPLACE), without a change feed and without a Delta jar in Spark. A
file with a deletion vector has only the rows whose positions are not in the vector. Columns go by
their names, and what a version has in a narrower type is read in the wanted one.

These are refused, with the reason: column mapping (the files have other column names), CHAR(n)
(Spark pads what it reads), deletion vectors of very many rows, columns whose values might be others
in the wanted type, versions whose log was cleaned up, files that were vacuumed, and sessions with a
setting that makes Spark read Parquet files in another way. For the first three, `delta_by_spark`
lets Spark read whole versions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from dbt.adapters.mvsink.engine import Column, shard_columns, sql
from dbt.adapters.mvsink.engine.exact_casts import keeps_values
from dbt.adapters.mvsink.engine.types import PADDED
from dbt.adapters.mvsink.engine.whole_rows import net
from dbt.adapters.mvsink.inputs.described import has_times
from dbt.adapters.mvsink.inputs.errors import (
    ColumnsChanged,
    DeletionVectors,
    FilesGone,
    NoSuchTable,
    TableReplaced,
    TooManyFiles,
    UnsupportedTable,
    VersionsGone,
)
from dbt.adapters.mvsink.inputs.parquet_sql import (
    Piece,
    Shape,
    Values,
    literal,
    partition_values,
    select_pieces,
    unreadable,
)
from dbt.adapters.mvsink.inputs.protocol import TableVersion, VersionSigns
from dbt.adapters.mvsink.physical import DIFF
from dbt.adapters.mvsink.shard.commit_log import changes_no_data, commit_path
from dbt.adapters.mvsink.shard.delta import DeltaStorage
from dbt.adapters.mvsink.shard_sql.as_of import nulls

MAX_QUERY = 250_000  # characters; Spark's parser fails at 300,000
MAX_DELETED_RUNS = 5_000  # runs of deleted rows in one version that are written into a query
PARALLEL_REQUESTS = 16  # to storage
MAPPING = "delta.columnMapping.mode"
DECLARED = "__CHAR_VARCHAR_TYPE_STRING"  # of a column's metadata: its type, if it has CHAR or VARCHAR
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")
_LOG_FILE = re.compile(r"(\d{20})\.(json|checkpoint.*)")


@dataclass(frozen=True)
class FileChange:
    """The difference between two versions: pieces of files that were added and removed."""

    added: tuple[Piece, ...]
    removed: tuple[Piece, ...]

    @property
    def nothing(self) -> bool:
        return not self.added and not self.removed


@dataclass(frozen=True)
class _Snapshot:
    """A version's live files. ``deleted`` has the deleted rows of a file, as runs that include both
    ends.
    """

    version: int
    table_id: str
    columns: tuple[Column, ...]
    files: Mapping[str, tuple[tuple[str, str], ...]]  # partition values by path
    rows: int | None  # in these files, deleted ones included
    deleted: Mapping[str, tuple[tuple[int, int], ...]]
    zoned: bool  # whether the session's time zone decides about a partition's value


class DeltaInput:
    """The Delta table at ``location``. ``storage_options`` are those of the `deltalake` package."""

    def __init__(self, location: str, id: str = "", storage_options: Mapping[str, str] | None = None):
        self.location = location.rstrip("/")
        self.id = id or self.location
        self.options = dict(storage_options) if storage_options else None
        self.storage = DeltaStorage(self.location, storage_options)
        self._snapshots: dict[int, _Snapshot] = {}
        self._shapes: dict[str, Shape] = {}
        self._rearranged: dict[int, bool] = {}

    def newest(self, *, plain: bool = True) -> TableVersion:
        """The newest version. Raises `NoSuchTable`, and if it has to be ``plain``
        `UnsupportedTable` for features beyond Parquet.
        """
        try:
            table = DeltaTable(self.location, storage_options=self.options)
        except TableNotFoundError as error:
            raise NoSuchTable(self.location, str(error)) from error
        except DeltaError as error:
            raise UnsupportedTable(self.location, f"a log that cannot be read ({error})") from error
        if plain:
            self._check_features(table)
        return TableVersion(table.version(), str(table.metadata().id))

    def require_files(self, version: int) -> None:
        """Raises `FilesGone` if files of ``version`` are gone, `VersionsGone` if its log is."""
        self._require_present(self._whole(version), (version, version))

    def columns(self, version: int) -> tuple[Column, ...]:
        """The table's columns at ``version``."""
        return self._snapshot(version).columns

    def partitions(self, version: int) -> frozenset[str]:
        """The names of the partition columns at ``version``."""
        return frozenset(self._table(version).metadata().partition_columns)

    def rows(self, version: int) -> int | None:
        """The number of rows in the files of ``version``; None if the log does not say."""
        return self._snapshot(version).rows

    def check(self, version: int) -> None:
        """Raises `DeletionVectors`, which names a file, if ``version`` deletes too many rows."""
        snapshot = self._snapshot(version)
        if sum(map(len, snapshot.deleted.values())) > MAX_DELETED_RUNS:
            raise DeletionVectors(
                self.location, max(snapshot.deleted, key=lambda path: len(snapshot.deleted[path])), version
            )

    def zoned(self, version: int) -> bool:
        """See `VersionedTable`."""
        return self._snapshot(version).zoned

    def continues(self, bound: TableVersion) -> bool:
        """See `VersionedTable`. CREATE OR REPLACE gives the table another id, and goes on with its
        log. Raises `VersionsGone`.
        """
        if bound.version > self.newest(plain=False).version:
            return False
        return str(self._table(bound.version).metadata().id) == bound.table_id

    def between(self, before: int, after: int) -> Sequence[int]:
        """See `VersionedTable`."""
        if after < before:  # versions only go up
            raise TableReplaced(self.location, before, after)
        return range(before + 1, after + 1)

    def contents(self, version: int, columns: Sequence[Column], more: str = "") -> str:
        """See `VersionedTable`."""
        change = self._whole(version)
        self._check_types(version, columns)
        self._require_present(change, (version, version))
        queries = self._select(change.added, columns, more)
        nothing = ", ".join([nulls(columns), *([more] if more else [])])
        return self._bounded(sql.union_all(queries) or f"select {nothing} where false", len(change.added))

    def changes(self, before: int | None, after: int, columns: Sequence[Column]) -> str | None:
        """See `VersionedTable`."""
        change = self.change(before, after)
        if change.nothing:
            return None
        for version in (after,) if before is None else (before, after):
            self._check_types(version, columns)
        self._require_present(change, (after if before is None else before, after))
        queries = [
            *self._select(change.added, columns, f"1L {DIFF}"),
            *self._select(change.removed, columns, f"-1L {DIFF}"),
        ]
        query = net(columns, [], sql.union_all(queries), "<> 0")
        return self._bounded(query, len(change.added) + len(change.removed))

    def signs(self, before: int | None, after: int) -> VersionSigns:
        """See `VersionedTable`."""
        change = self.change(before, after)
        return VersionSigns(bool(change.added), bool(change.removed))

    def change(self, before: int | None, after: int) -> FileChange:
        """The pieces of files added and removed; rearranging rows (OPTIMIZE) changes nothing."""
        if before is None:
            return self._whole(after)
        if before == after or (
            self.columns(before) == self.columns(after) and self.only_rearranged(before, after)
        ):
            return FileChange((), ())
        old, new = self._snapshot(before), self._snapshot(after)
        added = [self._piece(new, path) for path in sorted(new.files.keys() - old.files.keys())]
        removed = [self._piece(old, path) for path in sorted(old.files.keys() - new.files.keys())]
        for path in sorted((old.deleted.keys() | new.deleted.keys()) & old.files.keys() & new.files.keys()):
            earlier, now = (
                set(_positions(old.deleted.get(path, ()))),
                set(_positions(new.deleted.get(path, ()))),
            )
            added += self._part(new, path, earlier - now)
            removed += self._part(new, path, now - earlier)
        return FileChange(tuple(added), tuple(removed))

    def _whole(self, version: int) -> FileChange:
        snapshot = self._snapshot(version)
        return FileChange(tuple(self._piece(snapshot, path) for path in sorted(snapshot.files)), ())

    def _piece(self, snapshot: _Snapshot, path: str) -> Piece:
        deleted = _condition(snapshot.deleted.get(path, ()))
        return Piece(self._absolute(path), snapshot.files[path], f"not ({deleted})" if deleted else "")

    def _part(self, snapshot: _Snapshot, path: str, positions: set[int]) -> list[Piece]:
        if not positions:
            return []
        return [Piece(self._absolute(path), snapshot.files[path], _condition(_runs(sorted(positions))))]

    def _select(self, pieces: Sequence[Piece], columns: Sequence[Column], more: str) -> list[str]:
        missing = [piece.path for piece in pieces if piece.path not in self._shapes]
        with ThreadPoolExecutor(PARALLEL_REQUESTS) as pool:
            shapes = pool.map(lambda path: Shape(*self.storage.shape_of(self._relative(path))), missing)
            self._shapes.update(zip(missing, shapes))
        return select_pieces(pieces, columns, more, self._shapes.__getitem__)

    def _bounded(self, query: str, files: int) -> str:
        if len(query) > MAX_QUERY:
            raise TooManyFiles(self.location, files)
        return query

    def _require_present(self, change: FileChange, versions: tuple[int, int]) -> None:
        """Raises `FilesGone`. Files of the newest version exist; those of others may have been
        vacuumed.
        """
        pieces = (*change.added, *change.removed)
        self._require([self._relative(piece.path) for piece in pieces], versions)

    def require_listed(self, version: int) -> None:
        """The same for all files that the log lists for ``version``, also if they cannot be read
        as they are; those outside the table's directory are left out.
        """
        self._require(
            [path for path in self._paths(version) if not _ABSOLUTE.match(path)], (version, version)
        )

    def _require(self, paths: Sequence[str], versions: tuple[int, int]) -> None:
        live = self._paths(self.newest(plain=False).version)
        old = [path for path in paths if path not in live]
        with ThreadPoolExecutor(PARALLEL_REQUESTS) as pool:
            gone = [path for path, stat in zip(old, pool.map(self.storage.stat, old)) if stat is None]
        if gone:
            raise FilesGone(self.location, gone[0], len(gone), versions)

    def _paths(self, version: int) -> frozenset[str]:
        """The paths of the files that are live at ``version``."""
        if version in self._snapshots:
            return frozenset(self._snapshots[version].files)
        listed = pa.table(self._table(version).get_add_actions(flatten=True)).column("path").to_pylist()
        return frozenset(map(unquote, listed))

    def _snapshot(self, version: int) -> _Snapshot:
        if version not in self._snapshots:
            table = self._table(version)
            self._check_features(table)
            with self._translated(version):
                self._snapshots[version] = _read(table, self.location, self.storage)
        return self._snapshots[version]

    def _table(self, version: int) -> DeltaTable:
        with self._translated(version):
            return DeltaTable(self.location, version=version, storage_options=self.options)

    @contextmanager
    def _translated(self, version: int) -> Iterator[None]:
        """Errors of the `deltalake` package about ``version`` leave this block as our own."""
        try:
            yield
        except (DeltaError, TableNotFoundError) as error:
            oldest, newest = self._readable()
            if oldest <= version <= newest:
                raise UnsupportedTable(
                    self.location, f"a version {version} that cannot be read ({error})"
                ) from error
            raise VersionsGone(self.location, version, oldest, newest) from error

    def _readable(self) -> tuple[int, int]:
        """The oldest and the newest version that the log still has."""
        versions: dict[str, list[int]] = {"json": [], "checkpoint": []}
        for file in self.storage.list_files("_delta_log"):
            match = _LOG_FILE.fullmatch(file.path.rsplit("/", 1)[-1])
            if match:
                versions["json" if match[2] == "json" else "checkpoint"].append(int(match[1]))
        oldest = 0 if 0 in versions["json"] else min(versions["checkpoint"], default=0)
        return oldest, max([*versions["json"], *versions["checkpoint"]], default=0)

    def only_rearranged(self, before: int, after: int) -> bool:
        """Whether no commit in between changes data; a commit that was cleaned up may have."""
        return before < after and all(self._rearranges(version) for version in range(before + 1, after + 1))

    def _rearranges(self, version: int) -> bool:
        if version not in self._rearranged:
            self._rearranged[version] = changes_no_data(self.storage.read_text(commit_path(version)) or "")
        return self._rearranged[version]

    def _check_types(self, version: int, columns: Sequence[Column]) -> None:
        check_types(self.id, version, self.columns(version), columns)

    def _check_features(self, table: DeltaTable) -> None:
        mode = table.metadata().configuration.get(MAPPING, "none")
        if mode != "none":
            raise UnsupportedTable(self.location, f"column mapping ({MAPPING} = {mode!r})")
        for column in table.schema().fields:
            declared = str(column.metadata.get(DECLARED, ""))
            if PADDED.search(declared):
                raise UnsupportedTable(
                    self.location,
                    f"a column that Spark pads where it reads it ({column.name} {declared.upper()})",
                )

    def _absolute(self, path: str) -> str:
        """A path in the log, as the engine names it."""
        return f"{self.location}/{path}"

    def _relative(self, path: str) -> str:
        return path[len(self.location) + 1 :]


def check_types(name: str, version: int, own: Sequence[Column], columns: Sequence[Column]) -> None:
    """Raises `ColumnsChanged` if values of the table ``name``, whose columns were ``own`` at
    ``version``, might be others as values of ``columns``.
    """
    stored = {column.name.lower(): column.type for column in own}
    changed = [
        f"`{column.name}` was {stored[column.name.lower()].text} at version {version}, is {column.type.text}"
        for column in columns
        if column.name.lower() in stored and not keeps_values(stored[column.name.lower()], column.type)
    ]
    if changed:
        raise ColumnsChanged(name, changed)


def _read(table: DeltaTable, location: str, storage: DeltaStorage) -> _Snapshot:
    partitions = table.metadata().partition_columns
    actions = pa.table(table.get_add_actions(flatten=True))
    paths = list(map(unquote, actions.column("path").to_pylist()))
    schema = pa.schema(table.schema().to_arrow())
    values: Mapping[str, Values] = {path: {} for path in paths}
    if partitions:
        values = partition_values(storage, table.version(), paths)
    if unknown := next((path for path in paths if path not in values), None):
        raise UnsupportedTable(location, f"a log that does not show the partition of {unknown}")
    files = {path: tuple((name, literal(values[path].get(name))) for name in partitions) for path in paths}
    outside = [path for path in files if _ABSOLUTE.match(path)]
    if outside:
        raise UnsupportedTable(
            location, f"files outside its own directory, as a shallow clone has ({outside[0]})"
        )
    if odd := unreadable(files):
        raise UnsupportedTable(location, f"a data file whose name Spark's readers ignore or refuse ({odd})")
    columns = shard_columns(schema)
    counts = actions.column("num_records").to_pylist() if "num_records" in actions.column_names else [None]
    return _Snapshot(
        table.version(),
        str(table.metadata().id),
        columns,
        files,
        None if None in counts else sum(counts),
        dict(_deleted(table, files)),
        _has_zoned(columns, partitions, values.values()),
    )


def _has_zoned(columns: Sequence[Column], partitions: Collection[str], values: Iterable[Values]) -> bool:
    """Whether a timestamp among the ``partitions``' values has no zone of its own."""
    moments = [c.name for c in columns if c.name in partitions and has_times(c.type.text)]
    texts = (each.get(name) for each in values for name in moments) if moments else ()
    return any(text is not None and not text.endswith("Z") for text in texts)


def _deleted(table: DeltaTable, files: Collection[str]) -> Iterable[tuple[str, tuple[tuple[int, int], ...]]]:
    """The runs of deleted rows of each file that has a deletion vector."""
    if "deletionVectors" not in (table.protocol().reader_features or []):
        return
    listed = pa.table(table.deletion_vectors())
    for uri, kept in zip(listed.column("filepath").to_pylist(), listed.column("selection_vector")):
        # files of several partitions may have one name, as in tables converted from Parquet
        path = unquote(uri.removeprefix(table.table_uri))
        if path not in files:
            raise UnsupportedTable(table.table_uri, f"a deletion vector of a file that it has not ({uri})")
        positions = pc.indices_nonzero(pc.invert(kept.values))
        yield path, _runs(positions.to_pylist())


def _runs(positions: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Ascending positions as runs: ``1, 2, 3, 7`` as ``(1, 3), (7, 7)``."""
    runs: list[tuple[int, int]] = []
    for position in positions:
        if runs and runs[-1][1] == position - 1:
            runs[-1] = runs[-1][0], position
        else:
            runs.append((position, position))
    return tuple(runs)


def _positions(runs: Iterable[tuple[int, int]]) -> Iterable[int]:
    return (position for first, last in runs for position in range(first, last + 1))


def _condition(runs: Sequence[tuple[int, int]]) -> str:
    """The condition that a row's position is in one of the runs; empty if there are none."""
    single = [str(first) for first, last in runs if first == last]
    spans = [f"_metadata.row_index between {first} and {last}" for first, last in runs if first != last]
    listed = [f"_metadata.row_index in ({', '.join(single)})"] if single else []
    return " or ".join([*listed, *spans])
