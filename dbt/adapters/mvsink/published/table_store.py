"""Access to a published table's own files. They are small, written whole, and never replaced."""

from __future__ import annotations

import os
import uuid
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import obstore
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from deltalake.fs import DeltaStorageHandler
from obstore.exceptions import AlreadyExistsError, BaseError

from dbt.adapters.mvsink.shard import StorageError
from dbt.adapters.mvsink.shard.errors import VersionTaken, message_of
from dbt.adapters.mvsink.shard.files import FileStore, local_path, storage_errors

PROVIDERS = ("aws_", "azure_", "google_")
CLIENT_OPTIONS = frozenset(
    {
        *("allow_http", "allow_invalid_certificates", "connect_timeout", "timeout", "user_agent"),
        *("http1_only", "http2_only", "pool_idle_timeout", "pool_max_idle_per_host"),
        *("proxy_url", "proxy_ca_certificate", "proxy_excludes"),
    }
)
READERS = 16  # files of an object store that are read at once
FEW = 8  # files that are looked up one by one; for more, their directories are listed
DELTALAKE = frozenset({"s3_allow_unsafe_rename", "s3_locking_provider", "copy_if_not_exists"})


class TableStore(FileStore):
    """The files of the table at ``uri``. ``options`` are `storage_options` of `deltalake`."""

    def object_store(self) -> pafs.FileSystem:
        """See `FileStore`."""
        return pafs.PyFileSystem(DeltaStorageHandler(self.uri, self.options))

    def has_all(self, paths: Collection[str]) -> bool:
        """Whether all of these files exist."""
        if len(paths) <= FEW:
            return all(self.stat(path) is not None for path in paths)
        listed: set[str] = set()
        for directory in {path.rsplit("/", 1)[0] for path in paths}:
            listed |= {file.path for file in self.list_files(directory)}
        return set(paths) <= listed

    def put(self, path: str, content: bytes, version: int) -> None:
        """Create a file with this content: readers see all of it or no file. Raises `VersionTaken`
        with ``version`` if the file exists.
        """
        if local_path(self.uri) is None:
            try:
                store: Any = _store(self.uri, self.options or {})
                obstore.put(store, path, content, mode="create", use_multipart=False)
            except AlreadyExistsError as error:
                raise VersionTaken(version) from error
            except BaseError as error:
                raise StorageError(f"cannot write {path} of {self.uri}: {message_of(error)}") from error
            return
        with storage_errors("write", path, self.uri):
            self._make_parent(path)
            place = self._inside(path)
            directory, _, name = place.rpartition("/")
            written = f"{directory}/.{name}.{uuid.uuid4().hex}"
            try:
                with open(written, "xb") as file:
                    file.write(content)
                os.link(written, place)  # unlike a rename, this replaces nothing
            except FileExistsError as error:
                raise VersionTaken(version) from error
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(written)

    def footers(self, paths: Sequence[str]) -> list[pq.FileMetaData]:
        """The footers of Parquet files."""
        if self.is_local:
            return [self._footer(path) for path in paths]
        _ = self.filesystem  # one for all threads
        with ThreadPoolExecutor(READERS) as pool:  # a request takes 10 to 100 ms
            return list(pool.map(self._footer, paths))

    def _footer(self, path: str) -> pq.FileMetaData:
        with self._parquet(path) as (parquet, _):
            return parquet.metadata

    def bytes_of(self, path: str) -> bytes:
        """A small file's content."""
        with (
            storage_errors("read", path, self.uri),
            self.filesystem.open_input_file(self._readable(path)) as file,
        ):
            return bytes(file.read())


def _store(uri: str, options: Mapping[str, str]) -> Any:
    """obstore's client for ``uri``: only it offers a put that fails if the file exists.

    ``options`` are the `deltalake` package's. obstore takes those of the HTTP client in an argument
    of their own. Those that only `deltalake` knows are left out.
    """
    client: dict[str, str | bool] = {}
    config: dict[str, str] = {}
    for name, value in ((name.lower(), value) for name, value in options.items()):
        key = name.split("_", 1)[1] if name.startswith(PROVIDERS) else name
        if key in CLIENT_OPTIONS:
            client[key] = value.lower() == "true" if value.lower() in ("true", "false") else value
        elif name.startswith(PROVIDERS) and key not in DELTALAKE:
            config[name] = value
    return obstore.store.from_url(uri, config=config, client_options=client)  # type: ignore[call-overload]
