"""Staging: batches outside the log. Nothing here commits, so no reader sees any of it.

A handle owns its staged files until they are consumed, deleted or handed over; `expire` deletes the
rest. They are in the shard's directory, or in one elsewhere. The latter can be counted and read,
but never appended.

    staged = handle.stage()              an engine writes Parquet files to staged.uri
    batch = handle.adopt(staged, lower, upper)
    batch = handle.batch(updates, lower, upper)      the same for updates in this process
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pyarrow as pa

from dbt.adapters.mvsink.shard.batch import PART_BYTES, Batch, BatchState, check_files
from dbt.adapters.mvsink.shard.directories import negating_name
from dbt.adapters.mvsink.shard.errors import InvalidUsage, NothingStaged, SchemaMismatch, StorageError
from dbt.adapters.mvsink.shard.frontier import Antichain
from dbt.adapters.mvsink.shard.read import Handle
from dbt.adapters.mvsink.shard.state import DataFile, ShardState, check_bounds, root_of, schema_differences
from dbt.adapters.mvsink.shard.storage import (
    Footer,
    PartWriter,
    Storage,
    fresh_batch_id,
    only_parts,
    part_path,
)
from dbt.adapters.mvsink.shard.updates import (
    Updates,
    batches_of,
    canonical,
    check_times,
    consolidate,
    normalize,
    physical_schema,
)

FOOTERS_AT_ONCE = 16
LEGACY_CALENDAR = (
    # a footer's note: old dates are in the Julian calendar, which other readers do not know
    "org.apache.spark.legacyDateTime"
)


class StagedDirectory:
    """A new directory for an engine to write to: its full path or URL, and the data columns."""

    def __init__(self, storage: Storage, root: str, batch_id: str, schema: pa.Schema):
        self.storage = storage
        self.schema = schema
        self.batch_id = batch_id
        self.path = f"{root}/{batch_id}"
        self.uri = f"{storage.uri}/{self.path}"
        self.adopted = False  # True once the files belong to a batch

    def parts(self) -> list[str]:
        """The paths of its data files. Raises `NothingStaged` if there are none."""
        paths = sorted(only_parts(self.storage.list_files(self.path)))
        if not paths:
            raise NothingStaged(self.uri)
        return paths

    def footers(self) -> list[Footer]:
        """The footers of its data files, read in parallel: each takes an object store one or two
        requests.
        """
        paths = self.parts()
        if len(paths) == 1:
            return [self.storage.footer(paths[0])]
        with ThreadPoolExecutor(min(len(paths), FOOTERS_AT_ONCE)) as pool:
            return list(pool.map(self.storage.footer, paths))

    def rows(self) -> int:
        """The number of rows in its data files."""
        return sum(footer.file.rows or 0 for footer in self.footers())

    def delete(self) -> None:
        """Delete it with its contents, unless its files belong to a batch."""
        if not self.adopted:
            self.storage.delete_directory(self.path)


class StagingHandle(Handle):
    """The half of a write handle that stages. ``schema`` is that of the newest version it has seen,
    because columns may be added to a shard. ``elsewhere`` is where to stage instead of in the
    shard.
    """

    def __init__(self, storage: Storage, opened: ShardState, elsewhere: Storage | None = None):
        self.storage = storage
        self.staged_in = elsewhere or storage
        self.shard_id = opened.shard_id
        self.schema = opened.schema
        self.root = root_of(opened.format_version)
        self._staged: dict[str, StagedDirectory] = {}
        self._batches: weakref.WeakSet[Batch] = weakref.WeakSet()
        self._builders: list[BatchBuilder] = []
        self._expired = False

    def batch(self, updates: Updates, lower: Antichain, upper: Antichain) -> Batch:
        """Stage ``updates`` as a batch ``[lower, upper)``."""
        builder = self.builder(lower)
        builder.upper = upper
        try:
            builder.add(updates)
        except BaseException:
            builder.abandon()
            raise
        return builder.finish(upper)

    def builder(self, lower: Antichain, **sizes: int) -> BatchBuilder:
        """A builder of a batch that begins at ``lower``."""
        self.require_open()
        new = BatchBuilder(self, lower, **sizes)
        self._builders = [*(builder for builder in self._builders if not builder.finished), new]
        return new

    def stage(self, negates: Sequence[DataFile] = ()) -> StagedDirectory:
        """A directory for an engine to write to; `adopt` makes it a batch, `expire` deletes it.

        With ``negates``, the directory will be the negation of these live files (`directories`).
        """
        self.require_open()
        name = negating_name(fresh_batch_id(), negates) if negates else fresh_batch_id()
        staged = StagedDirectory(self.staged_in, self.root, name, self.schema)
        self._staged[staged.batch_id] = staged
        return staged

    def write_staged(self, table: pa.Table) -> StagedDirectory:
        """`stage`, and write ``table`` there as one file: updates in the physical schema, with
        hashes.
        """
        staged = self.stage()
        try:
            part = self.staged_in.write_part(part_path(staged.path, 0), table.schema)
            part.write(table)
            part.close()
        except BaseException:
            staged.delete()
            raise
        return staged

    def adopt(
        self, staged: StagedDirectory, lower: Antichain, upper: Antichain, schema: pa.Schema | None = None
    ) -> Batch:
        """The files that an engine wrote, as a batch; reads footers, never data. ``schema`` is the
        data columns that the shard will have, if they differ from the present ones.

        Raises `NothingStaged` if there are none (an engine writes one even for no rows),
        `StorageError` for a file that cannot be read, whose times are not exact, or whose columns
        and types are not the shard's: the engine reads many files by the types of one.
        """
        schema = staged.schema if schema is None else schema
        footers = staged.footers()
        for footer in footers:
            _check_times_kept(footer, self.uri)
            _check_types(footer, schema, self.uri)
        files = [footer.file for footer in footers]
        filled = tuple(file for file in files if file.rows)
        staged.storage.delete([file.path for file in files if not file.rows])
        batch = Batch(staged.storage, str(self.shard_id), filled, lower, upper, schema)
        try:
            check_bounds(lower, upper, empty=not filled)
            check_files(filled, lower, upper)
        except InvalidUsage:
            batch.delete()
            raise
        if not filled:
            staged.delete()
        staged.adopted = True
        self._staged.pop(staged.batch_id, None)
        return self.track(batch)

    def read_staged(self, staged: StagedDirectory, schema: pa.Schema) -> pa.Table:
        """These columns of the rows that an engine wrote there, which need not be updates. They are
        read into memory, so they must be few.
        """
        return pa.concat_tables(staged.storage.read(DataFile(path, 0), schema) for path in staged.parts())

    def read_updates(self, files: Sequence[DataFile]) -> pa.Table:
        """All updates in these files, with their hashes. They are read into memory, so they must be
        few.
        """
        schema = physical_schema(self.schema)
        return pa.concat_tables([schema.empty_table(), *(self.storage.read(file, schema) for file in files)])

    def track(self, batch: Batch) -> Batch:
        """Have `expire` delete ``batch`` if it is still staged."""
        self._batches.add(batch)
        return batch

    def __enter__(self) -> StagingHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.expire()

    def expire(self) -> None:
        """Close the handle and delete its staged files. Harmless the second time."""
        self._expired = True
        self.discard_staged()

    def discard_staged(self) -> None:
        """Delete all staged files; they can no longer be appended."""
        for batch in list(self._batches):
            if batch.state is BatchState.STAGED:
                batch.delete()
        for builder in self._builders:
            if not builder.finished:
                builder.abandon()
        for staged in list(self._staged.values()):
            staged.delete()
        self._staged.clear()

    def _require_usable(self, batches: Sequence[Batch]) -> None:
        """Raises unless each batch is staged here, listed once, and never appended."""
        checked: set[int] = set()
        for batch in batches:
            batch.require_staged()
            self.require_own(batch)
            if id(batch) in checked:
                raise InvalidUsage(f"the batch [{batch.lower!r}, {batch.upper!r}) is listed twice")
            checked.add(id(batch))

    def require_own(self, batch: Batch) -> None:
        """Raises `InvalidUsage` for a batch of another shard, or one that is elsewhere."""
        if batch.shard_id != str(self.shard_id):
            raise InvalidUsage(
                f"the batch belongs to shard {batch.shard_id}, this handle writes shard {self.shard_id}"
            )
        if batch.storage.uri != self.storage.uri:
            raise InvalidUsage(
                f"the batch was staged in {batch.storage.uri}, outside shard {self.storage.uri}"
            )

    def _require_columns(self, schema: pa.Schema, batches: Sequence[Batch]) -> None:
        """`SchemaMismatch` for a batch with other columns than ``schema``, also for one staged
        before columns were added: its hashes do not cover them.
        """
        for batch in batches:
            differences = (
                schema_differences(canonical(schema), canonical(batch.schema)) if batch.files else []
            )
            if differences:
                raise SchemaMismatch(self.storage.uri, differences)

    def require_open(self) -> None:
        """Raises `InvalidUsage` after `expire`."""
        if self._expired:
            raise InvalidUsage(f"this handle of {self.uri} has expired")


class BatchBuilder:
    """Takes record batches one by one and holds only one of them in memory."""

    def __init__(self, handle: StagingHandle, lower: Antichain, part_bytes: int = PART_BYTES):
        self.handle = handle
        self.schema = handle.schema
        self.lower = lower
        self.upper = Antichain.empty()  # unknown before `finish`, unless set
        self.part_bytes = part_bytes
        self.directory = f"{handle.root}/{fresh_batch_id()}"
        self.files: list[DataFile] = []
        self.part: PartWriter | None = None
        self.finished = False

    def add(self, updates: Updates) -> BatchBuilder:
        """Stage more updates. `InvalidUsage` for a time before ``lower``, naming it."""
        if self.finished:
            raise InvalidUsage("the builder was finished; it accepts no more updates")
        storage = self.handle.staged_in
        for records in batches_of(updates):
            table = consolidate(normalize(records, self.schema, storage.uri))
            if table.num_rows == 0:
                continue
            check_times(table, self.lower, self.upper)
            if self.part is None:
                path = part_path(self.directory, len(self.files))
                self.part = storage.write_part(path, physical_schema(self.schema))
            self.part.write(table)
            if self.part.size >= self.part_bytes:
                self._roll()
        return self

    def finish(self, upper: Antichain) -> Batch:
        """The batch ``[lower, upper)``.

        Raises `InvalidUsage` for a time at or beyond ``upper``; then nothing stays staged.
        """
        if self.finished:
            raise InvalidUsage("the builder was finished already")
        self._roll()
        self.finished = True
        batch = Batch(
            self.handle.staged_in,
            str(self.handle.shard_id),
            tuple(self.files),
            self.lower,
            upper,
            self.schema,
        )
        try:
            check_bounds(self.lower, upper, empty=not self.files)
            check_files(batch.files, self.lower, upper)
        except InvalidUsage:
            batch.delete()
            raise
        return self.handle.track(batch)

    def abandon(self) -> None:
        """Delete the parts staged so far."""
        self.finished = True
        if self.part is not None:
            with suppress(StorageError):  # the disk is full, or garbage collection took the file
                self.part.close()
        self.handle.staged_in.delete_directory(self.directory)

    def _roll(self) -> None:
        if self.part is not None:
            self.files.append(self.part.close())
            self.part = None


def require_whole(storage: Storage, files: Sequence[DataFile]) -> None:
    """Raises `StorageError` for a staged file that is gone or truncated. It only lists directories:
    footers were read when the files were staged.
    """
    directories = {file.path.rsplit("/", 1)[0] for file in files}
    sizes = {file.path: file.size for directory in directories for file in storage.list_files(directory)}
    for file in files:
        if sizes.get(file.path) != file.size:
            what = f"has {sizes[file.path]} of {file.size} bytes" if file.path in sizes else "is gone"
            raise StorageError(
                f"staged file {file.path} of shard {storage.uri} {what}; nothing was committed"
            )


def _check_times_kept(footer: Footer, uri: str) -> None:
    """Raises `StorageError` for a file in which the engine did not store its times exactly."""
    if LEGACY_CALENDAR in footer.notes:
        raise StorageError(
            f"{footer.file.path} of shard {uri} was staged with dates of the Julian calendar; nothing was committed"
        )
    for field in footer.schema:
        if any(kind.unit not in ("us", "ns") for kind in _timestamps(field.type)):
            raise StorageError(
                f"{footer.file.path} of shard {uri} was staged with `{field.name}` as {field.type}: a shard keeps microseconds, and these "
                "are lost there; nothing was committed"
            )


def _check_types(footer: Footer, schema: pa.Schema, uri: str) -> None:
    """Raises `StorageError` for a file with other columns or types than those of the shard."""
    wanted, staged = (
        {field.name: field.type for field in canonical(each)}
        for each in (physical_schema(schema), footer.schema)
    )
    differences = [
        f"with `{name}` as {kind}, and the shard keeps {wanted[name]}"
        if name in wanted
        else f"with `{name}`, which is not a column of it"
        for name, kind in staged.items()
        if wanted.get(name) != kind
    ]
    differences += [f"without `{name}`" for name in wanted if name not in staged]
    if len(footer.schema) != len(staged):
        differences.append("with a column twice")
    if differences:
        raise StorageError(
            f"{footer.file.path} of shard {uri} was staged {', '.join(differences)}; nothing was committed. This is a defect of the "
            "adapter: please report it with the model's query and configs"
        )


def _timestamps(kind: pa.DataType) -> Iterator[pa.TimestampType]:
    """The timestamp types in ``kind``, at any depth of nesting."""
    if pa.types.is_timestamp(kind):
        yield kind
    for inner in range(kind.num_fields):
        yield from _timestamps(kind.field(inner).type)
