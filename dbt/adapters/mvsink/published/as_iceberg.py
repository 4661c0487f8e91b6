"""A published table in Iceberg's format, version 2. Its manifests name the data files, and
position-delete files name the rows of them that are hidden.

A data file has at most one position-delete file. A commit writes position-delete files for the data
files whose hidden rows changed, at most one manifest for data files and one for position-delete
files, the list of manifests, and the metadata file of the new version. The snapshot's summary
records which version and generation of the shard it shows. A snapshot without that is another
tool's.

The data files that a commit names are noted before it, in a file that the shard's garbage
collection reads (`shard.shown_files`), so that it keeps them.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property, partial

from pyiceberg import manifest as avro
from pyiceberg.exceptions import ValidationError
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import TableUpdate
from pyroaring import BitMap64

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.published import iceberg_bounds as bounds
from dbt.adapters.mvsink.published import iceberg_files as files_of
from dbt.adapters.mvsink.published import iceberg_schema as columns_of
from dbt.adapters.mvsink.published import iceberg_updates as updates_of
from dbt.adapters.mvsink.published.iceberg_files import NewSnapshot, StoredManifest, TableIO
from dbt.adapters.mvsink.published.iceberg_places import InACatalog, InTheTable, MetadataPlace, Recorded
from dbt.adapters.mvsink.published.iceberg_updates import FILES, GENERATION, MAX_SNAPSHOTS, SHARD, VERSION
from dbt.adapters.mvsink.published.protocol import Description, Difference, LiveFile
from dbt.adapters.mvsink.published.table_store import TableStore
from dbt.adapters.mvsink.shard import StorageError, shown_files
from dbt.adapters.mvsink.shard.state import TABLE
from dbt.adapters.mvsink.shard.stored import Unreadable

COMMENT = "comment"  # the property that has the table's comment
PROPERTIES = {
    "gc.enabled": "false",  # the shard needs files that no snapshot names
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": str(MAX_SNAPSHOTS),
}


class AsIceberg:
    """A `PublishedTable`. ``options`` are the `deltalake` package's; ``catalog`` has pyiceberg's
    properties, and ``identifier`` is the table's name in it.
    """

    def __init__(
        self,
        uri: str,
        options: Mapping[str, str] | None,
        catalog: Mapping[str, str] | None = None,
        identifier: tuple[str, ...] = (),
    ):
        self.store = TableStore(uri, options)
        self._files = TableIO(self.store)
        self._place: MetadataPlace = (
            InACatalog(self._files, catalog, identifier) if catalog is not None else InTheTable(self._files)
        )

    def load(self) -> LiveIceberg:
        try:
            newest = self._place.newest()
        except Unreadable:
            return LiveIceberg(self._files, self._place, None, None)
        snapshot = newest.metadata.current_snapshot() if newest else None
        try:
            manifests: tuple[StoredManifest, ...] | None = tuple(self._manifests(snapshot))
        except (Unreadable, StorageError, ValueError, ValidationError):  # its files are gone or damaged
            manifests = None
        return LiveIceberg(self._files, self._place, newest, manifests)

    def _manifests(self, snapshot: Snapshot | None) -> Iterator[StoredManifest]:
        named: set[str] = set()
        for file in files_of.manifests_of(self._files, snapshot.manifest_list) if snapshot else ():
            entries = file.fetch_manifest_entry(self._files, discard_deleted=True)
            locations = {entry.data_file.file_path for entry in entries}
            if named & locations or len(locations) < len(entries):
                raise Unreadable(f"{file.manifest_path} names a file a second time")
            named |= locations
            yield StoredManifest(file, entries)

    def keep_in_order(self, before: int) -> None:
        newest = self._place.newest()
        places = (files_of.METADATA, files_of.DELETES)
        old = [
            file.path for place in places for file in self.store.list_files(place) if file.modified < before
        ]
        if old and newest:
            named = self._named(newest)
            self.store.delete([path for path in old if path not in named])

    def _named(self, newest: Recorded) -> set[str]:
        """The files other than data files that the versions in ``newest`` still need."""
        metadata = newest.metadata
        locations = {newest.location, *(each.metadata_file for each in metadata.metadata_log)}
        manifests: dict[str, avro.ManifestFile] = {}
        for snapshot in metadata.snapshots:
            locations.add(snapshot.manifest_list)
            manifests |= {
                each.manifest_path: each
                for each in files_of.manifests_of(self._files, snapshot.manifest_list)
            }
        for path, manifest in manifests.items():
            locations.add(path)
            if manifest.content == avro.ManifestContent.DELETES:
                entries = manifest.fetch_manifest_entry(self._files, discard_deleted=True)
                locations |= {entry.data_file.file_path for entry in entries}
        return {self._files.path(location) for location in locations} | {"metadata/version-hint.text"}

    def forget_past(self) -> None:
        live = self.load()
        if live.version >= 0:
            live.forget_past()
        self.keep_in_order(sys.maxsize)

    def forget(self) -> None:
        self._place.forget()
        self.store.delete_directory(files_of.DELETES)
        self.store.delete([shown_files.NAME])


class LiveIceberg:
    """A `LiveTable`. ``manifests`` are those of the current snapshot; None if they cannot be read,
    in which case the next commit writes all of them again.
    """

    def __init__(
        self,
        files: TableIO,
        place: MetadataPlace,
        newest: Recorded | None,
        manifests: Sequence[StoredManifest] | None,
    ):
        self._io, self._place, self._newest = files, place, newest
        self._damaged, self._manifests = manifests is None, manifests or ()

    @property
    def version(self) -> int:
        return self._metadata.last_sequence_number if self._metadata else -1

    @property
    def foreign(self) -> int:
        count = 0
        known = {each.snapshot_id: each for each in self._metadata.snapshots} if self._metadata else {}
        snapshot = self._snapshot
        while snapshot is not None and not _is_ours(snapshot):
            count += 1
            snapshot = known.get(snapshot.parent_snapshot_id or 0)
        return count

    @property
    def of_shard(self) -> int | None:
        known = self._metadata.snapshots if self._metadata else []
        ours = max(filter(_is_ours, known), key=lambda each: each.sequence_number or 0, default=None)
        version = ours.summary[VERSION] if ours and ours.summary else None
        return int(version) if version and version.isdecimal() else None

    @property
    def _metadata(self) -> TableMetadataV2 | None:
        return self._newest.metadata if self._newest else None

    @property
    def _snapshot(self) -> Snapshot | None:
        return self._metadata.current_snapshot() if self._metadata else None

    @cached_property
    def _entries(self) -> dict[str, avro.ManifestEntry]:
        """The manifest entries of data files, by location."""
        return {
            entry.data_file.file_path: entry
            for each in self._manifests
            if not each.of_deletes
            for entry in each.entries
        }

    @cached_property
    def _deletes(self) -> dict[str, avro.DataFile]:
        """The position-delete files, by the location of their data file. One that is older than its
        data file hides nothing, so it is left out.
        """
        deletes: dict[str, avro.DataFile] = {}
        for entry in (entry for each in self._manifests if each.of_deletes for entry in each.entries):
            location = files_of.hides_rows_of(entry.data_file)
            data = self._entries.get(location or "")
            if location and data and (entry.sequence_number or 0) >= (data.sequence_number or 0):
                deletes[location] = entry.data_file
        return deletes

    @cached_property
    def files(self) -> Mapping[str, LiveFile]:
        return {path: self._file(location) for path, location in self._locations.items()}

    def _file(self, location: str) -> LiveFile:
        file, deletes = self._entries[location].data_file, self._deletes.get(location)
        hidden = deletes.record_count if deletes else 0
        return LiveFile(
            file.file_size_in_bytes, file.record_count, hidden, partial(_positions, self._io, deletes)
        )

    def _path(self, location: str) -> str:
        """The path below the table. A file of another tool may be elsewhere; then its location."""
        try:
            return self._io.path(location)
        except Unreadable:
            return location

    @property
    def beside(self) -> Collection[str]:
        return {self._io.path(file.file_path) for file in self._deletes.values()}

    def shows(self, generation: int, files: int) -> bool:
        snapshot = self._snapshot
        if self._damaged or snapshot is None or snapshot.summary is None or not _is_ours(snapshot):
            return False
        known = snapshot.summary[GENERATION], snapshot.summary[FILES]
        return known == (str(generation), str(files))

    def is_described(self, described: Description) -> bool:
        return self._metadata is not None and not self._description(described)[1]

    def undone(self, described: Description) -> int:
        return self.foreign  # properties and columns have no snapshot

    def _description(self, described: Description) -> tuple[Schema, list[TableUpdate]]:
        """The schema that the table should have, and the updates after which it is so described."""
        metadata = self._metadata
        known = columns_of.ids_in(metadata.properties.get(columns_of.MAPPING)) if metadata else {}
        ids = columns_of.with_ids(described.columns, known, metadata.last_column_id if metadata else 0)
        comments = _comments(metadata.schema()) if metadata else {}
        comments |= {name: text for name, text in described.docs.columns.items() if text}
        wanted = columns_of.iceberg_schema(described.columns, comments, ids)
        properties = {
            **_others(described.docs.properties),
            **({COMMENT: described.docs.comment} if described.docs.comment else {}),
            **PROPERTIES,
            columns_of.MAPPING: columns_of.mapping_of(ids),
            SHARD: str(described.shard_id),
        }
        if metadata is None:
            return wanted, updates_of.creation(wanted, self._io.root, properties)
        schemas = {each.schema_id: each for each in metadata.schemas}
        same = [number for number, each in schemas.items() if each == wanted]
        number = max(schemas) + 1 if not same else same[-1]
        if metadata.current_schema_id in same:
            number = metadata.current_schema_id
        wanted = columns_of.iceberg_schema(described.columns, comments, ids, number)
        return wanted, updates_of.description(metadata, wanted, properties)

    def commit(self, difference: Difference) -> int:
        schema, updates = self._description(difference.described)
        if self._damaged and self._newest is None:
            self._place.forget()
        snapshot = self._written(difference, schema)
        updates += updates_of.snapshot_updates(self._metadata, snapshot)
        names = {f"{TABLE}/{path}" for path in (*self.files, *difference.shown)}
        shown_files.note(self._io.store, names)
        self._place.record(self._newest, updates_of.requirements(self._metadata), updates)
        shown_files.note(self._io.store, names)  # again, for another run may have replaced the note
        return snapshot.sequence_number or 0

    def forget_past(self) -> None:
        """Commit a snapshot of the same files, with manifests that name nothing else, and remove
        all others. Raises `VersionTaken`, and `StorageError` if the newest cannot be read.
        """
        metadata, parent = self._metadata, self._snapshot
        if self._damaged or metadata is None or parent is None:
            raise StorageError(f"the newest snapshot of {self._io.root} cannot be read")
        new = NewSnapshot(self._io, _fresh_id(), None, self.version + 1, metadata.schema())
        manifests = [each for of_deletes in (False, True) for each in new.whole(self._manifests, of_deletes)]
        snapshot = updates_of.made(
            Snapshot,
            snapshot_id=new.id,
            sequence_number=new.sequence_number,
            timestamp_ms=max(wall_clock.now_ms(), metadata.last_updated_ms),
            manifest_list=new.list_of(manifests),
            summary=updates_of.same_files(parent),
            schema_id=metadata.current_schema_id,
        )
        updates = updates_of.only_snapshot(metadata, snapshot)
        self._place.record(self._newest, updates_of.requirements(metadata), updates)
        shown_files.replace(self._io.store, {f"{TABLE}/{path}" for path in self.files})

    def _written(self, difference: Difference, schema: Schema) -> Snapshot:
        """Write the files of the new snapshot; returns it."""
        parent = self._snapshot
        new = NewSnapshot(
            self._io, _fresh_id(), parent.snapshot_id if parent else None, max(self.version, 0) + 1, schema
        )
        data, deletes = self._data(difference, schema), self._hiding(difference)
        manifests = [
            *new.manifests(self._manifests, data.gone, data.added, of_deletes=False),
            *new.manifests(self._manifests, deletes.gone, deletes.added, of_deletes=True),
        ]
        return updates_of.made(
            Snapshot,
            snapshot_id=new.id,
            parent_snapshot_id=new.parent,
            sequence_number=new.sequence_number,
            timestamp_ms=max(wall_clock.now_ms(), self._metadata.last_updated_ms if self._metadata else 0),
            manifest_list=new.list_of(manifests),
            summary=updates_of.summary(difference, data, deletes),
            schema_id=schema.schema_id,
        )

    def _data(self, difference: Difference, schema: Schema) -> updates_of.Exchanged:
        gone = {
            location
            for location in self._entries
            if (path := self._path(location)) in difference.gone and path not in difference.shown
        }
        new = {path: shown.file for path, shown in difference.shown.items() if path not in self.files}
        added = [
            files_of.data_file(
                self._io.location(path), file.size, file.rows or 0, **bounds.figures(footer, schema)
            )
            for (path, file), footer in zip(new.items(), self._io.store.footers(list(new)))
        ]
        live = [entry.data_file for entry in self._entries.values()]
        return updates_of.Exchanged(live, gone, added)

    def _hiding(self, difference: Difference) -> updates_of.Exchanged:
        """The new position-delete files. Those of changed data files go, and other tools'."""
        stay = {
            file.file_path
            for location, file in self._deletes.items()
            if self._path(location) not in difference.gone
        }
        live = [entry.data_file for each in self._manifests if each.of_deletes for entry in each.entries]
        added = [
            files_of.written_deletes(
                self._io, self._locations.get(path, self._io.location(path)), shown.hidden
            )
            for path, shown in difference.shown.items()
            if len(shown.hidden)
        ]
        return updates_of.Exchanged(live, {file.file_path for file in live} - stay, added)

    @cached_property
    def _locations(self) -> Mapping[str, str]:
        """The locations of data files by path. A position-delete file must spell a location exactly
        as the manifest does.
        """
        return {self._path(location): location for location in self._entries}


def _comments(schema: Schema) -> dict[str, str]:
    return {field.name: field.doc for field in schema.fields if field.doc}


def _others(properties: Mapping[str, str]) -> dict[str, str]:
    """Without the marker by which Spark's relations show their shard: its URI may have secrets,
    and this table may be in a catalog that others read.
    """
    return {name: value for name, value in properties.items() if not name.startswith("mvsink.")}


def _is_ours(snapshot: Snapshot) -> bool:
    return snapshot.summary is not None and snapshot.summary[SHARD] is not None


def _fresh_id() -> int:
    return uuid.uuid4().int >> 65


def _positions(files: TableIO, deletes: avro.DataFile | None) -> BitMap64:
    try:
        return files_of.positions_in(files, deletes.file_path) if deletes else BitMap64()
    except (StorageError, Unreadable, KeyError):
        return BitMap64()
