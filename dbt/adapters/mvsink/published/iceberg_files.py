"""Reads and writes the files of an Iceberg table other than data files: manifests, lists of
manifests, and position-delete files. They are below the table's root:

    metadata/        manifests and their lists; the metadata files, which a place writes
    _deletes/        position-delete files, each for one data file
"""

from __future__ import annotations

import io
import struct
import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg import manifest as avro
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyroaring import BitMap64

from dbt.adapters.mvsink.masking import without_credentials
from dbt.adapters.mvsink.published.table_store import TableStore
from dbt.adapters.mvsink.shard.files import local_path
from dbt.adapters.mvsink.shard.stored import Unreadable

METADATA = "metadata"
DELETES = "_deletes"
CODEC: Final = "deflate"
MAX_MANIFESTS = 8  # of each kind; if there are more, all entries are written into one
PATH_ID, POSITION_ID = 2147483546, 2147483545  # fields of position-delete files, as Iceberg specifies
AT_ONCE = 1_000_000  # positions that are written at once


class TableIO(FileIO):
    """pyiceberg's access to files below a table's root, through the shard's own storage options.
    Each file is read and written as a whole, because all of them are small.
    """

    def __init__(self, store: TableStore):
        super().__init__()
        self.store = store
        local = local_path(store.uri)
        self.root = without_credentials(store.uri) if local is None else f"file://{local}"

    def location(self, path: str) -> str:
        """The location by which metadata names a file."""
        return f"{self.root}/{path}"

    def path(self, location: str) -> str:
        """A file's path below the root. Raises `Unreadable` for one that is elsewhere."""
        for root in (f"{self.root}/", f"{self.store.uri}/", f"file:{local_path(self.store.uri)}/"):
            if location.startswith(root):
                return location[len(root) :]
        raise Unreadable(f"{location} is not below {self.root}")

    def new_input(self, location: str) -> InputFile:
        return _Whole(self, location)

    def new_output(self, location: str) -> OutputFile:
        return _New(self, location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self.store.delete([self.path(location if isinstance(location, str) else location.location)])


class _Whole(InputFile):
    def __init__(self, files: TableIO, location: str):
        super().__init__(location)
        self._files = files

    def __len__(self) -> int:
        file = self._files.store.stat(self._files.path(self.location))
        return 0 if file is None else file.size

    def exists(self) -> bool:
        return self._files.store.stat(self._files.path(self.location)) is not None

    def open(self, seekable: bool = True) -> Any:
        return io.BytesIO(self._files.store.bytes_of(self._files.path(self.location)))


class _New(OutputFile):
    def __init__(self, files: TableIO, location: str):
        super().__init__(location)
        self._files, self._size = files, 0

    def __len__(self) -> int:
        return self._size

    def exists(self) -> bool:
        return self.to_input_file().exists()

    def to_input_file(self) -> InputFile:
        return _Whole(self._files, self.location)

    def create(self, overwrite: bool = False) -> Any:
        return _Buffer(self)

    def put(self, content: bytes) -> None:
        self._size = len(content)
        self._files.store.put(self._files.path(self.location), content, 0)


class _Buffer(io.BytesIO):
    """Collects a file's content, and writes the file when it is closed."""

    def __init__(self, target: _New):
        super().__init__()
        self._target = target

    def close(self) -> None:
        if not self.closed:
            self._target.put(self.getvalue())
        super().close()


@dataclass(frozen=True)
class StoredManifest:
    """A manifest with its live entries."""

    file: avro.ManifestFile
    entries: Sequence[avro.ManifestEntry]

    @property
    def of_deletes(self) -> bool:
        return self.file.content == avro.ManifestContent.DELETES


class _DeleteWriter(avro.ManifestWriterV2):
    def content(self) -> avro.ManifestContent:
        return avro.ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


@dataclass(frozen=True)
class NewSnapshot:
    """A snapshot that is about to be written. ``schema`` is the table's."""

    files: TableIO
    id: int
    parent: int | None
    sequence_number: int
    schema: Schema

    def manifests(
        self,
        live: Sequence[StoredManifest],
        gone: Collection[str],
        added: Sequence[avro.DataFile],
        *,
        of_deletes: bool,
    ) -> list[avro.ManifestFile]:
        """The snapshot's manifests of one kind. They have the entries of the ``live`` ones, except
        those of files in ``gone`` (locations), and entries of the ``added`` files. At most one new
        manifest is written; the others are live ones that did not change.
        """
        mine = [each for each in live if each.of_deletes == of_deletes]
        if len(mine) <= MAX_MANIFESTS:
            kept = [
                each for each in mine if not any(entry.data_file.file_path in gone for entry in each.entries)
            ]
        else:
            kept = []
        again = [
            entry
            for each in mine
            if each not in kept and each.file.partition_spec_id == UNPARTITIONED_PARTITION_SPEC.spec_id
            for entry in each.entries
        ]  # entries of partitions, which only other tools write, are dropped
        new = [self._manifest(again, gone, added, of_deletes)] if again or added else []
        return [*(each.file for each in kept), *new]

    def whole(self, live: Sequence[StoredManifest], of_deletes: bool) -> list[avro.ManifestFile]:
        """A new manifest with the entries of the ``live`` ones of one kind, if they have any."""
        entries = [entry for each in live if each.of_deletes == of_deletes for entry in each.entries]
        return [self._manifest(entries, (), (), of_deletes)] if entries else []

    def _manifest(
        self,
        again: Sequence[avro.ManifestEntry],
        gone: Collection[str],
        added: Sequence[avro.DataFile],
        of_deletes: bool,
    ) -> avro.ManifestFile:
        writer = _DeleteWriter if of_deletes else avro.ManifestWriterV2
        output = self.files.new_output(
            self.files.location(f"{METADATA}/{uuid.uuid4()}-m{int(of_deletes)}.avro")
        )
        with writer(UNPARTITIONED_PARTITION_SPEC, self.schema, output, self.id, CODEC) as manifest:
            for entry in again:
                if entry.data_file.file_path in gone:
                    manifest.delete(entry)
                else:
                    manifest.existing(entry)
            for file in added:
                manifest.add(avro.ManifestEntry.from_args(sequence_number=None, data_file=file))
        return manifest.to_manifest_file()

    def list_of(self, manifests: Sequence[avro.ManifestFile]) -> str:
        """Write the list of these manifests; returns its location."""
        location = self.files.location(f"{METADATA}/snap-{self.id}-{uuid.uuid4()}.avro")
        output = self.files.new_output(location)
        with avro.write_manifest_list(2, output, self.id, self.parent, self.sequence_number, CODEC) as listed:
            listed.add_manifests(list(manifests))
        return location


def manifests_of(files: TableIO, manifest_list: str) -> Iterator[avro.ManifestFile]:
    """The manifests in a list."""
    return avro.read_manifest_list(files.new_input(manifest_list))


def data_file(location: str, size: int, rows: int, **values: Any) -> avro.DataFile:
    """A file as manifest entries describe it. ``values`` are further fields, such as bounds."""
    empty = dict.fromkeys(("column_sizes", "value_counts", "null_value_counts", "nan_value_counts"))
    return avro.DataFile.from_args(
        **{
            **{name: {} for name in (*empty, "lower_bounds", "upper_bounds")},
            "content": avro.DataFileContent.DATA,
            "file_path": location,
            "file_format": avro.FileFormat.PARQUET,
            "partition": Record(),
            "record_count": rows,
            "file_size_in_bytes": size,
            "spec_id": UNPARTITIONED_PARTITION_SPEC.spec_id,
            **values,
        }
    )


def written_deletes(files: TableIO, location: str, positions: BitMap64) -> avro.DataFile:
    """Write the position-delete file that hides these rows of the data file at ``location``."""
    target = files.location(f"{DELETES}/{uuid.uuid4().hex}.parquet")
    schema = pa.schema(
        [
            _field("file_path", pa.dictionary(pa.int32(), pa.string()), PATH_ID),
            _field("pos", pa.int64(), POSITION_ID),
        ]
    )
    places = np.array(positions, dtype=np.int64)
    content = io.BytesIO()
    with pq.ParquetWriter(content, schema, store_schema=False) as writer:
        for begin in range(0, len(places), AT_ONCE):
            here = places[begin : begin + AT_ONCE]
            names = pa.DictionaryArray.from_arrays(
                pa.array(np.zeros(len(here), np.int32)), pa.array([location])
            )
            writer.write_table(pa.table([names, pa.array(here)], schema=schema))
    files.store.put(files.path(target), content.getvalue(), 0)
    low, high = (
        {PATH_ID: location.encode(), POSITION_ID: struct.pack("<q", int(each))}
        for each in (places[0], places[-1])
    )
    return data_file(
        target,
        len(content.getvalue()),
        len(places),
        content=avro.DataFileContent.POSITION_DELETES,
        lower_bounds=low,
        upper_bounds=high,
    )


def _field(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, nullable=False, metadata={b"PARQUET:field_id": str(number).encode()})


def hides_rows_of(file: avro.DataFile) -> str | None:
    """The location of the data file that a position-delete file of ours belongs to; None if another
    tool wrote it.
    """
    low, high = (dict(bounds or {}).get(PATH_ID) for bounds in (file.lower_bounds, file.upper_bounds))
    ours = file.content == avro.DataFileContent.POSITION_DELETES and f"/{DELETES}/" in file.file_path
    return low.decode() if ours and low is not None and low == high else None


def positions_in(files: TableIO, location: str) -> BitMap64:
    """The positions in a position-delete file of ours. Raises `StorageError`."""
    column = files.store.fields(files.path(location), ["pos"]).column("pos")
    return BitMap64(column.to_numpy())
