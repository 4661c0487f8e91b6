"""Where the newest version of an Iceberg table is recorded: in a catalog, or in the table itself.

A table without a catalog has the layout of Hadoop tables, which readers know by path:

    metadata/v7.metadata.json       the seventh version
    metadata/version-hint.text      7, or an earlier version: readers look for later ones

A version is written as a new file, which must not exist yet. So if two writers write the same
version, one of them succeeds. Other tools may compress the file: `v7.gz.metadata.json`.
"""

from __future__ import annotations

import gzip
import re
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

from pyiceberg import exceptions as ice
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.schema import Schema
from pyiceberg.table import StagedTable
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, TableMetadataV1, TableMetadataV2
from pyiceberg.table.update import AssertCreate, TableRequirement, TableUpdate, update_table_metadata

from dbt.adapters.mvsink.published.iceberg_files import METADATA, TableIO
from dbt.adapters.mvsink.shard import StorageError
from dbt.adapters.mvsink.shard.errors import InvalidUsage, VersionTaken, message_of
from dbt.adapters.mvsink.shard.stored import Unreadable

HINT = f"{METADATA}/version-hint.text"
PLAIN, COMPRESSED = ".metadata.json", ".gz.metadata.json"
NAME = "name"  # the property that names the catalog; engines that share a database must agree on it
_VERSION = re.compile(rf"{METADATA}/v(\d+)(\.gz)?\.metadata\.json")
_catalogs = threading.local()  # by thread, because a catalog's connections must not be shared
_creating = threading.Lock()  # held by the thread that creates something in a catalog


class AnotherTable(InvalidUsage):
    """The catalog's entry is not this model's."""

    error_code = "MVS-250"

    def __init__(self, name: str, location: str, wanted: str):
        super().__init__(
            f"`{name}` in the Iceberg catalog is another table\n  Got: location {location}\n  Expected: no table of that name, or one at {wanted}; "
            "rename or drop it"
        )


@dataclass(frozen=True)
class Recorded:
    """A version of a table: its metadata, the location of that, and ``own``, which only the place
    that made this value uses.
    """

    metadata: TableMetadataV2
    location: str
    own: Any


class MetadataPlace(Protocol):
    """Where versions are recorded."""

    def newest(self) -> Recorded | None:
        """The newest version; None if there is no table. Raises `Unreadable`, `StorageError`."""
        ...

    def record(
        self,
        before: Recorded | None,
        requirements: Sequence[TableRequirement],
        updates: Sequence[TableUpdate],
    ) -> None:
        """Record the version after ``before``, which these updates make. Raises `VersionTaken`,
        `StorageError`.
        """
        ...

    def forget(self) -> None:
        """Delete the metadata, and the catalog's entry. Other files stay."""
        ...


class InTheTable:
    """A table without a catalog."""

    def __init__(self, files: TableIO):
        self._files, self._store = files, files.store

    def newest(self) -> Recorded | None:
        hint = (self._store.read_text(HINT) or "").strip()
        version = int(hint) if hint.isdecimal() and self._exists(int(hint)) else self._listed()
        while self._exists(version + 1):
            version += 1
        if not version:
            return None
        if hint != str(version):  # a run was killed, or another tool deleted files
            self._hint(version)
        path = self._written(version) or _path(version)
        try:
            metadata = TableMetadataUtil.parse_raw(self._text(path))
        except (ValueError, OSError, EOFError, zlib.error, ice.ValidationError) as error:
            raise Unreadable(f"{path} of {self._store.uri} cannot be read: {error}") from error
        if _place(metadata.location) != _place(self._files.root):
            raise Unreadable(f"the shard was moved from {metadata.location}, which its metadata names")
        return Recorded(_of_version_2(metadata), self._files.location(path), version)

    def _text(self, path: str) -> str:
        if path.endswith(COMPRESSED):
            return gzip.decompress(self._store.bytes_of(path)).decode()
        return self._store.read_text(path) or ""

    def _exists(self, version: int) -> bool:
        return self._written(version) is not None

    def _written(self, version: int) -> str | None:
        """The path of the version's metadata; None if there is none."""
        paths = _path(version), _path(version, COMPRESSED)
        return next((path for path in paths if self._store.stat(path) is not None), None)

    def _listed(self) -> int:
        """The newest version in a list of files; 0 if there is none."""
        matches = (_VERSION.fullmatch(file.path) for file in self._store.list_files(METADATA))
        return max((int(match[1]) for match in matches if match), default=0)

    def _hint(self, version: int) -> None:
        self._store.write_text(HINT, str(version))

    def record(
        self,
        before: Recorded | None,
        requirements: Sequence[TableRequirement],
        updates: Sequence[TableUpdate],
    ) -> None:
        metadata = update_table_metadata(
            _nothing() if before is None else before.metadata,
            tuple(updates),
            enforce_validation=before is None,
            metadata_location=None if before is None else before.location,
        )
        version = 1 if before is None else before.own + 1
        self._store.put(_path(version), metadata.model_dump_json(exclude_none=True).encode(), version)
        self._hint(version)

    def forget(self) -> None:
        self._store.delete_directory(METADATA)


def _path(version: int, ending: str = PLAIN) -> str:
    return f"{METADATA}/v{version}{ending}"


def _nothing() -> TableMetadata:
    """The empty metadata to which the updates that create a table are applied."""
    return TableMetadataV1.model_construct(location="", last_column_id=-1, schema=Schema())


class InACatalog:
    """A table of a catalog. ``properties`` are pyiceberg's, and ``name`` the catalog's name."""

    def __init__(self, files: TableIO, properties: Mapping[str, str], identifier: tuple[str, ...]):
        self._files, self._properties, self._identifier = files, properties, identifier
        self._name = ".".join(identifier)

    def newest(self) -> Recorded | None:
        with self._errors("read"):
            try:
                table = self._catalog().load_table(self._identifier)
            except (ice.NoSuchTableError, ice.NoSuchNamespaceError):
                return None
            except FileNotFoundError as error:
                raise Unreadable(f"the metadata of `{self._name}` is gone: {message_of(error)}") from error
        if _place(table.location()) != _place(self._files.root):
            raise AnotherTable(self._name, table.location(), self._files.root)
        return Recorded(_of_version_2(table.metadata), table.metadata_location, table)

    def record(
        self,
        before: Recorded | None,
        requirements: Sequence[TableRequirement],
        updates: Sequence[TableUpdate],
    ) -> None:
        with self._errors("commit to"):
            catalog = self._catalog()
            if before is None:
                _have_namespace(catalog, self._identifier[:-1])
                requirements = (AssertCreate(),)
            table = before.own if before else self._staged(catalog)
            try:
                catalog.commit_table(table, tuple(requirements), tuple(updates))
            except (
                ice.CommitFailedException,
                ice.CommitStateUnknownException,  # the next look at the table shows the outcome
                ice.TableAlreadyExistsError,
                ice.NoSuchTableError,
            ) as error:
                raise VersionTaken(0) from error

    def _staged(self, catalog: Catalog) -> StagedTable:
        return StagedTable(self._identifier, _nothing(), "", self._files, catalog)

    def forget(self) -> None:
        with self._errors("drop"), suppress(ice.NoSuchTableError, ice.NoSuchNamespaceError):
            self._catalog().drop_table(self._identifier)
        self._files.store.delete_directory(METADATA)

    def _catalog(self) -> Catalog:
        known: dict[tuple[tuple[str, str], ...], Catalog] = vars(_catalogs).setdefault("known", {})
        key = tuple(sorted(self._properties.items()))
        if key not in known:
            known[key] = _opened({NAME: "default", **self._properties})
        return known[key]

    @contextmanager
    def _errors(self, verb: str) -> Iterator[None]:
        """Raise errors of the catalog's client, which can be of any kind, as `StorageError`."""
        try:
            yield
        except (StorageError, VersionTaken, Unreadable):
            raise
        except Exception as error:
            raise StorageError(
                f"cannot {verb} `{self._name}` in the Iceberg catalog: {message_of(error)}"
            ) from error


def _opened(properties: Mapping[str, str]) -> Catalog:
    """The catalog. One in a database creates tables of its own at the first use, and fails if they
    appear meanwhile: then another process creates them, and the second attempt finds them.
    """
    with _creating:
        try:
            return load_catalog(**properties)
        except Exception:
            return load_catalog(**properties)


def _have_namespace(catalog: Catalog, namespace: tuple[str, ...]) -> None:
    """Create the namespace, unless it exists or another process creates it."""
    with _creating:
        try:
            catalog.create_namespace_if_not_exists(namespace)
        except Exception:
            if not catalog.namespace_exists(namespace):
                raise


def _of_version_2(metadata: TableMetadata) -> TableMetadataV2:
    """The metadata, if its format version is 2. Another tool may have upgraded the table; that
    raises `Unreadable`, and the table is created again.
    """
    if not isinstance(metadata, TableMetadataV2):
        raise Unreadable(f"a table of format version {metadata.format_version}")
    return metadata


def _place(location: str) -> str:
    """A location as it is compared with others: catalogs spell local ones in several ways."""
    return re.sub(
        r"^(file:/*|s3[an]?://)", lambda match: "/" if match[0].startswith("file") else "s3://", location
    ).rstrip("/")
