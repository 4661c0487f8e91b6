"""A shard's files on a filesystem or an object store: Parquet parts, and small text files written
in one piece. Nothing outside the shard's directory is read, written or deleted, and every failure
of a filesystem or a store names the file.

This module does not know the log, nor which files are live: `delta` does.
"""

from __future__ import annotations

import errno
import hashlib
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, META, TIME
from dbt.adapters.mvsink.shard import spark_schema
from dbt.adapters.mvsink.shard.errors import NotPermitted, OutsideShard, StorageError, Unreachable, message_of
from dbt.adapters.mvsink.shard.state import DataFile
from dbt.adapters.mvsink.shard.storage import DEFAULT_TIMEOUT, Footer, PartWriter, StoredFile, with_schema
from dbt.adapters.mvsink.shard.stored import text_of

CHUNK = 2**20  # bytes per read of a whole file
BUFFER = 2**16  # bytes per read if only a part of a file is needed
CLOCK = "_mvsink/clock"  # VACUUM ignores names that begin with an underscore
REFUSALS = (errno.EACCES, errno.EPERM, errno.EROFS)
REFUSALS_IN_WORDS = ("AccessDenied", "403 Forbidden", "Permission denied")


def local_path(uri: str) -> str | None:
    """The path of a local shard; None for an object store."""
    if uri.startswith("file://"):
        return unquote(uri[len("file://") :])
    return None if "://" in uri else uri


def require_inside(uri: str, path: str, place: str, *, followed: bool = False) -> None:
    """Raises `OutsideShard` if `..` or a symbolic link on the way to ``place`` leaves the shard.
    With ``followed``, the last name must not be such a link either. An object store has no links.
    """
    root = local_path(uri)
    if root is None or _without_links(root, place, followed):
        return
    top = os.path.realpath(root)
    real = os.path.realpath(place if followed else os.path.dirname(place))
    if real != top and not real.startswith(f"{top.rstrip(os.sep)}{os.sep}"):
        raise OutsideShard(
            f"{path!r} of shard {uri} is in {real}, outside the shard's directory. It is neither read nor deleted: move its files into the "
            "shard's directory, or remove the link"
        )


def _without_links(root: str, place: str, followed: bool) -> bool:
    """Whether nothing from ``root`` to ``place`` is a link or `..`: that is known by a few looks,
    and true of nearly every place.
    """
    if not place.startswith(f"{root}/"):
        return place == root
    names = place[len(root) + 1 :].split("/")
    ways = [f"{root}/{'/'.join(names[:end])}" for end in range(1, len(names) + followed)]
    return ".." not in names and not any(map(os.path.islink, ways))


@contextmanager
def storage_errors(verb: str, path: str, uri: str) -> Iterator[None]:
    """Turns a failure of the filesystem or of Arrow into an `Unreachable` that names the file."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        kind = NotPermitted if _is_refusal(error) else Unreachable
        raise kind(f"cannot {verb} {path or 'the directory'} of shard {uri}: {message_of(error)}") from error


def _is_refusal(error: BaseException) -> bool:
    """Whether the storage refuses access to this process: a disk says so by a number, an object
    store in words.
    """
    if getattr(error, "errno", None) in REFUSALS:
        return True
    return any(words in str(error) for words in REFUSALS_IN_WORDS)


class FileStore:
    """The half of `Storage` that is about files. Paths are relative to ``uri``."""

    def __init__(self, uri: str, storage_options: Mapping[str, str] | None = None):
        self.uri = uri.rstrip("/")
        self.timeout = DEFAULT_TIMEOUT
        self.options = dict(storage_options) if storage_options else None
        self._filesystem: pafs.FileSystem | None = None

    def clock(self) -> int:
        """The time at which the storage wrote a file just now. If another process writes that file
        at the same moment, the time is that of its write, a little later.
        """
        self.write_text(CLOCK, "the storage's clock")
        written = self.stat(CLOCK)
        if written is None:
            raise StorageError(f"{CLOCK} of shard {self.uri} was written, and is not there")
        return written.modified

    def write_part(self, path: str, schema: pa.Schema) -> PartWriter:
        return _ParquetPart(self, path, schema)

    def read(self, file: DataFile, schema: pa.Schema, rows: int | None = None) -> pa.Table:
        with self._parquet(file.path, 0 if rows is None else BUFFER) as (parquet, _):
            names = [name for name in schema.names if name in parquet.schema_arrow.names]
            if rows is None:
                return with_schema(parquet.read(columns=names), schema)
            first = next(parquet.iter_batches(rows, columns=names), None)
            return schema.empty_table() if first is None else with_schema(pa.table(first), schema)

    def find(self, file: DataFile, schema: pa.Schema, where: pc.Expression, rows: int) -> pa.Table:
        """Skips row groups whose statistics exclude ``where``, and columns whose only value the log
        shows.
        """
        with storage_errors("read", file.path, self.uri):
            import pyarrow.dataset as ds  # which imports pandas: commands that read logs do without

            options = ds.ParquetReadOptions(coerce_int96_timestamp_unit="us")
            place = self._readable(file.path)
            fragment = ds.ParquetFileFormat(options).make_fragment(place, self.filesystem)
            present = fragment.physical_schema.names
            known = _known(file)
            names = [name for name in schema.names if name in present and name not in known]
            # what is read ahead must not be much of the memory, however wide the rows are
            table = fragment.head(rows, columns=names, filter=where, batch_readahead=4)
            for name in known.keys() & set(schema.names):
                table = table.append_column(name, pa.repeat(known[name], table.num_rows))
            return with_schema(table, schema)

    def scan(self, file: DataFile, schema: pa.Schema, rows: int) -> Iterator[pa.Table]:
        with self._parquet(file.path, BUFFER) as (parquet, _):
            names = [name for name in schema.names if name in parquet.schema_arrow.names]
            for batch in parquet.iter_batches(rows, columns=names):
                yield with_schema(pa.Table.from_batches([batch]), schema)

    def footer(self, path: str) -> Footer:
        with self._parquet(path) as (parquet, size):
            notes = {
                key.decode(errors="replace"): value.decode(errors="replace")
                for key, value in (parquet.metadata.metadata or {}).items()
            }
            return Footer(_from_footer(path, size, parquet.metadata), _zoned(parquet), notes)

    def describe(self, path: str) -> DataFile:
        return self.footer(path).file

    def column(self, path: str, name: str) -> pa.ChunkedArray:
        """One column of a Parquet file; `KeyError` if it has none of that name."""
        with self._parquet(path, BUFFER) as (parquet, _):
            return parquet.read(columns=[name]).column(name)

    def fields(self, path: str, names: Sequence[str]) -> pa.Table:
        """Those of the named columns, or fields of columns, that a Parquet file has."""
        with self._parquet(path, BUFFER) as (parquet, _):
            return parquet.read(columns=list(names))

    def column_names(self, file: DataFile) -> Sequence[str]:
        return list(self.schema_of(file.path).names)

    def digest(self, path: str) -> str:
        hashed = hashlib.sha256()
        with (
            storage_errors("read", path, self.uri),
            self.filesystem.open_input_stream(self._readable(path)) as source,
        ):
            while chunk := source.read_buffer(CHUNK):
                hashed.update(chunk)
        return hashed.hexdigest()

    def schema_of(self, path: str) -> pa.Schema:
        """The columns that a Parquet file physically has, with their types."""
        with self._parquet(path) as (parquet, _):
            return parquet.schema_arrow

    def shape_of(self, path: str) -> tuple[pa.Schema, int]:
        """`schema_of`, and the number of rows."""
        with self._parquet(path) as (parquet, _):
            return parquet.schema_arrow, parquet.metadata.num_rows

    @contextmanager
    def _parquet(self, path: str, buffer: int = 0) -> Iterator[tuple[pq.ParquetFile, int]]:
        """The open file, and its size in bytes.

        INT96 is Spark's old form of a timestamp. Arrow reads it as nanoseconds by default, whose
        range ends in 2262.
        """
        with (
            storage_errors("read", path, self.uri),
            self.filesystem.open_input_file(self._readable(path)) as source,
        ):
            file = pq.ParquetFile(source, buffer_size=buffer, coerce_int96_timestamp_unit="us")
            yield file, source.size()

    def list_files(self, directory: str) -> list[StoredFile]:
        selector = pafs.FileSelector(self._readable(directory), allow_not_found=True, recursive=True)
        root = self._at("")
        with storage_errors("list", directory, self.uri):
            listed = self.filesystem.get_file_info(selector)
        return [
            StoredFile(
                info.path[len(root) :].lstrip("/"),
                info.size or 0,
                (info.mtime_ns or 0) // 1_000_000,
            )
            for info in listed
            if info.type == pafs.FileType.File
        ]

    def directories(self, path: str = "") -> list[str]:
        """The sorted names of the directories directly in ``path``; none if it does not exist."""
        selector = pafs.FileSelector(self._at(path), allow_not_found=True)
        with storage_errors("list", path, self.uri):
            infos = self.filesystem.get_file_info(selector)
        return sorted(info.base_name for info in infos if info.type == pafs.FileType.Directory)

    def stat(self, path: str) -> StoredFile | None:
        """The file's size and time; None if it does not exist."""
        place = self._readable(path)
        with storage_errors("read", path, self.uri):
            info = self.filesystem.get_file_info(place)
        return (
            None
            if info.type != pafs.FileType.File
            else StoredFile(path, info.size or 0, (info.mtime_ns or 0) // 1_000_000)
        )

    def write_text(self, path: str, text: str) -> None:
        """Atomic: an object store writes files whole, and on a disk a rename replaces the old."""
        local = local_path(self.uri) is not None
        directory, _, name = path.rpartition("/")
        target = f"{directory}/.{name}.{uuid.uuid4().hex}" if local else path
        self._inside(path)
        with storage_errors("write", path, self.uri):
            self._make_parent(path)
            with self._output(target) as sink:
                sink.write(text.encode())
            if local:
                self.filesystem.move(self._at(target), self._at(path))

    def read_text(self, path: str) -> str | None:
        place = self._readable(path)
        with storage_errors("read", path, self.uri):
            try:
                with self.filesystem.open_input_file(place) as source:
                    return text_of(bytes(source.read()))
            except FileNotFoundError:
                return None
            except OSError:
                if self.filesystem.get_file_info(place).type == pafs.FileType.NotFound:
                    return None
                raise

    def delete(self, paths: Sequence[str]) -> None:
        """Ignores files that are gone. If one is outside the shard, raises `OutsideShard` and
        deletes none.
        """
        places = [(path, self._inside(path)) for path in paths]
        for path, place in places:
            with storage_errors("delete", path, self.uri):
                if self.filesystem.get_file_info(place).type == pafs.FileType.File:
                    self._delete_file(place)

    def delete_directory(self, directory: str) -> None:
        """Removes a symbolic link itself, never what it leads to."""
        place = self._inside(directory) if directory else self._at("")
        with storage_errors("delete", directory, self.uri):
            if local_path(self.uri) is not None and os.path.islink(place):
                os.unlink(place)
                return
            is_directory = self.filesystem.get_file_info(place).type == pafs.FileType.Directory
            if is_directory:
                self.filesystem.delete_dir(place)
        if not is_directory:  # an object store has no directories
            self.delete([file.path for file in self.list_files(directory)])

    def _delete_file(self, place: str) -> None:
        """Another process may delete it first."""
        try:
            self.filesystem.delete_file(place)
        except OSError:
            if self.filesystem.get_file_info(place).type != pafs.FileType.NotFound:
                raise

    def remove_empty_directories(self, directory: str, before: int) -> None:
        """Bottom up, on a disk only. A directory that just lost its last entry counts as changed
        now.
        """
        if local_path(self.uri) is None:
            return
        top = self._inside(directory)
        for place, _, _ in os.walk(top, topdown=False):
            with suppress(OSError):  # not empty, or already gone
                if place != top and os.stat(place).st_mtime_ns // 1_000_000 < before:
                    os.rmdir(place)

    @property
    def filesystem(self) -> pafs.FileSystem:
        """Arrow's own filesystem for local paths. Otherwise the log's store, so that both use the
        same options.
        """
        if self._filesystem is None:
            self._filesystem = (
                pafs.LocalFileSystem() if local_path(self.uri) is not None else self.object_store()
            )
        return self._filesystem

    @property
    def is_local(self) -> bool:
        """Whether the files are on this machine, or mounted."""
        return local_path(self.uri) is not None

    def object_store(self) -> pafs.FileSystem:
        """The store that the log is in; its root is ``uri``."""
        raise StorageError(f"{self.uri} is not a local path")

    def _output(self, path: str) -> pa.NativeFile:
        """A new file, written through a buffer: the log's store accepts only Python bytes, which
        Arrow does not pass on from a single `write`.
        """
        sink = self.filesystem.open_output_stream(self._at(path))
        return sink if local_path(self.uri) is not None else pa.BufferedOutputStream(sink, BUFFER)

    def _at(self, path: str) -> str:
        root = local_path(self.uri)
        return path if root is None else f"{root}/{path}".rstrip("/")

    def _inside(self, path: str) -> str:
        """The full path of ``path``; `OutsideShard` if `..` or a symbolic link leaves the shard."""
        place = self._at(path)
        require_inside(self.uri, path, place)
        return place

    def _readable(self, path: str) -> str:
        """The same, and ``path`` itself must not be a link that leaves the shard: no file is read
        through one.
        """
        place = self._at(path)
        if path:
            require_inside(self.uri, path, place, followed=True)
        return place

    def _make_parent(self, path: str) -> None:
        if local_path(self.uri) is not None:
            self.filesystem.create_dir(self._at(path).rsplit("/", 1)[0], recursive=True)


class _ParquetPart:
    def __init__(self, storage: FileStore, path: str, schema: pa.Schema):
        self.storage, self.path = storage, path
        storage._inside(path)
        with self._writing():
            storage._make_parent(path)
            self.sink = storage._output(path)
            self.writer = pq.ParquetWriter(self.sink, spark_schema.described(schema), compression="snappy")

    @property
    def size(self) -> int:
        return int(self.sink.tell())

    def write(self, batch: pa.Table) -> None:
        with self._writing():
            self.writer.write_table(batch)

    def close(self) -> DataFile:
        with self._writing():
            self.writer.close()
            self.sink.close()
        return self.storage.describe(self.path)

    def _writing(self) -> AbstractContextManager[None]:
        return storage_errors("write", self.path, self.storage.uri)


def _known(file: DataFile) -> dict[str, pa.Scalar]:
    """The columns that have one value in all rows of a file that a batch staged, with that
    value.
    """
    bounds = {TIME: (file.min_time, file.max_time), DIFF: (file.min_diff, file.max_diff)}
    return {
        name: pa.scalar(low, pa.int64())
        for name, (low, high) in bounds.items()
        if file.batch_id is not None and low is not None and low == high
    }


def _from_footer(path: str, size: int, metadata: pq.FileMetaData) -> DataFile:
    """A file's description, from its footer. A count or bound that a row group lacks is None."""
    names = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    nulls: dict[str, int | None] = {}
    bounds: dict[str, tuple[int | None, int | None]] = {}
    groups = range(metadata.num_row_groups)
    for name in META:
        statistics = (
            [metadata.row_group(g).column(names.index(name)).statistics for g in groups]
            if name in names
            else []
        )
        counted = [s for s in statistics if s is not None and s.has_null_count]
        all_counted = len(counted) == len(statistics)
        nulls[name] = sum(s.null_count for s in counted) if name in names and all_counted else None
        values = [s for s in statistics if s is not None and s.has_min_max]
        complete = bool(values) and name in (TIME, DIFF) and all_counted
        bounds[name] = (min(s.min for s in values), max(s.max for s in values)) if complete else (None, None)
    rows = metadata.num_rows
    return DataFile(
        path=path,
        size=size,
        rows=rows,
        min_time=bounds[TIME][0],
        max_time=bounds[TIME][1],
        min_diff=bounds[DIFF][0],
        max_diff=bounds[DIFF][1],
        errors=None if nulls[ERROR] is None else rows - (nulls[ERROR] or 0),
        hashes=None if nulls[HASH] is None else rows - (nulls[HASH] or 0),
    )


def _zoned(parquet: pq.ParquetFile) -> pa.Schema:
    """A file's columns as Arrow reads them, except that INT96 is a time in UTC, which Arrow does
    not know.
    """
    columns = parquet.schema
    old = iter([columns.column(n).physical_type == "INT96" for n in range(len(columns))])

    def zoned(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_struct(kind):
            return pa.struct([field.with_type(zoned(field.type)) for field in kind])
        if pa.types.is_map(kind):
            return pa.map_(zoned(kind.key_type), zoned(kind.item_type))
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            return pa.list_(zoned(kind.value_type))
        return pa.timestamp(kind.unit, tz="UTC") if next(old) else kind

    return pa.schema([field.with_type(zoned(field.type)) for field in parquet.schema_arrow])
