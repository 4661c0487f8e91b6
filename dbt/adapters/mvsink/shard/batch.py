"""Batches: updates staged outside the log, with a description ``[lower, upper)``.

A batch is owned by one handle at a time. It ends consumed (appended), deleted, or handed over
(`to_transmittable`); any use after that is `InvalidUsage`. A handle that receives a batch claims it
in the log (`claims`), so that only one of several copies of its description is used.

From just before its commit is sent until the outcome is known, a batch is *in doubt*: the log may
name its files, so nothing deletes them. If the commit is interrupted (by a signal or an unexpected
failure), the batch stays in doubt, and garbage collection, which reads the log, decides.
"""

from __future__ import annotations

import base64
import enum
import logging
import warnings
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from dbt.adapters.mvsink.physical import DIFF, ERROR
from dbt.adapters.mvsink.shard.commit_log import checked_path
from dbt.adapters.mvsink.shard.errors import InvalidUsage
from dbt.adapters.mvsink.shard.frontier import Antichain
from dbt.adapters.mvsink.shard.state import FORMAT_VERSION, DataFile
from dbt.adapters.mvsink.shard.storage import Storage, fresh_batch_id, part_path
from dbt.adapters.mvsink.shard.stored import (
    Unreadable,
    a_text,
    a_truth,
    an_array,
    an_integer,
    an_object,
    member,
    optional,
)
from dbt.adapters.mvsink.shard.updates import META_SCHEMA, between, check_time_bounds, physical_schema

log = logging.getLogger("mvsink.shard")
COUNTED = ("rows", "min_time", "max_time", "min_diff", "max_diff", "errors", "hashes")
PART_BYTES = 128 * 2**20


class BatchState(enum.Enum):
    """The state of a batch."""

    STAGED = "staged"
    IN_DOUBT = "sent to the log, with an unknown outcome"
    CONSUMED = "consumed"
    DELETED = "deleted"
    SPENT = "handed over"


class Batch:
    """Staged updates. ``rows`` and ``bytes`` count what is on storage."""

    def __init__(
        self,
        storage: Storage,
        shard_id: str,
        files: tuple[DataFile, ...],
        lower: Antichain,
        upper: Antichain,
        schema: pa.Schema,
    ):
        self.storage = storage
        self.shard_id = shard_id
        self.files = files
        self.lower = lower
        self.upper = upper
        self.schema = schema  # the shard's data columns when the batch was staged
        self.state = BatchState.STAGED
        # The owner that pops it decides on the files: a pop is atomic across threads and signals.
        self._claim = [True]
        self._finalizer = self._warning()

    @property
    def rows(self) -> int:
        """How many updates are staged."""
        return sum(file.rows or 0 for file in self.files)

    @property
    def bytes(self) -> int:
        """How many bytes are staged."""
        return sum(file.size for file in self.files)

    @property
    def directory(self) -> str:
        """The directory of its files; a batch without files has none."""
        return self.files[0].path.rsplit("/", 1)[0]

    @property
    def uri(self) -> str:
        """The full path or URL of the directory."""
        return f"{self.storage.uri}/{self.directory}"

    def diffs(self) -> pa.Table:
        """`_mv_diff` and `_mv_error` of every staged update, read into memory: for few rows."""
        schema = pa.schema([field for field in META_SCHEMA if field.name in (DIFF, ERROR)])
        return pa.concat_tables(self.storage.read(file, schema) for file in self.files)

    def require_staged(self) -> None:
        """Raises `InvalidUsage` unless the batch can still be used."""
        if self.state is not BatchState.STAGED:
            raise InvalidUsage(
                f"the batch [{self.lower!r}, {self.upper!r}) was {self.state.value}; it can no longer be used"
            )

    def end(self, state: BatchState) -> None:
        """Give up ownership of the files without touching them."""
        self._claim.clear()
        self.state = state
        self._finalizer.detach()

    def doubt(self) -> None:
        """Put the batch in doubt before a commit of its files is sent: from now on nothing deletes
        them.
        """
        self.require_staged()
        if not self._claimed():
            raise InvalidUsage(
                f"the batch [{self.lower!r}, {self.upper!r}) is being appended or deleted elsewhere"
            )
        self.state = BatchState.IN_DOUBT
        self._finalizer.detach()  # its warning is about unused batches

    def settle(self) -> None:
        """The commit certainly did not happen: the batch can be used again."""
        if self.state is BatchState.IN_DOUBT:
            self._finalizer = self._warning()
            self.state = BatchState.STAGED
            self._claim.append(True)

    def _warning(self) -> weakref.finalize[[tuple[str, ...]], Batch]:
        """A finalizer that warns if the batch is forgotten."""
        finalizer = weakref.finalize(self, _abandoned, tuple(file.path for file in self.files))
        finalizer.atexit = False  # type: ignore[misc]  # a documented attribute, missing from the stubs
        if not self.files:
            finalizer.detach()
        return finalizer

    def _claimed(self) -> bool:
        try:
            return self._claim.pop()
        except IndexError:
            return False

    def delete(self) -> None:
        """Delete the staged files; harmless the second time. They stay while the batch is in doubt.

        Raises `InvalidUsage` if the batch was appended or handed over.
        """
        if self.state in (BatchState.DELETED, BatchState.IN_DOUBT):
            return
        self.require_staged()
        if not self._claimed():
            return
        self.end(BatchState.DELETED)
        for directory in {file.path.rsplit("/", 1)[0] for file in self.files}:
            self.storage.delete_directory(directory)

    def to_transmittable(self) -> dict[str, Any]:
        """A JSON-safe description for another process to make a batch from; this one is spent."""
        self.require_staged()
        self.end(BatchState.SPENT)
        return {
            "format_version": FORMAT_VERSION,
            "shard_id": self.shard_id,
            "schema": base64.b64encode(self.schema.serialize().to_pybytes()).decode(),
            "lower": self.lower.stored(),
            "upper": self.upper.stored(),
            "files": [asdict(file) for file in self.files],
        }


def batch_from(storage: Storage, schema: pa.Schema, description: Mapping[str, Any]) -> Batch:
    """The inverse of `Batch.to_transmittable`. Refuses a newer format version, logs an older one.

    ``schema`` is used if the description has none.
    """
    version = description.get("format_version") if isinstance(description, dict) else None
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise InvalidUsage(
            f"the batch has format version {version!r}; this release accepts up to {FORMAT_VERSION}: upgrade it"
        )
    if version < FORMAT_VERSION:
        log.info(
            "a batch of the older format version %d is accepted (this release writes %d)",
            version,
            FORMAT_VERSION,
        )
    try:
        files = tuple(map(_described_file, an_array(member(description, "files"))))
        lower, upper = (Antichain.of(an_integer(member(description, name))) for name in ("lower", "upper"))
        shard_id = a_text(member(description, "shard_id"))
        if "schema" in description:
            kept = base64.b64decode(a_text(description["schema"]), validate=True)
            schema = pa.ipc.read_schema(pa.py_buffer(kept))
    except (ValueError, OSError, pa.ArrowException) as error:  # also `Unreadable`
        raise InvalidUsage(f"the description of a batch cannot be read: {error}") from error
    for file in files:
        if file.batch_id is None or checked_path(quote(file.path)) is None:
            raise InvalidUsage(f"the batch names {file.path!r}, which is not a file of a batch's directory")
    return Batch(storage, shard_id, files, lower, upper, schema)


def _described_file(kept: Any) -> DataFile:
    """The file that a description describes: ``kept`` has the fields of `DataFile`."""
    numbers = {name: optional(kept.get(name), an_integer) for name in COUNTED} if an_object(kept) else {}
    unknown = kept.keys() - {"path", "size", "deletion_vector", *COUNTED}
    if unknown:
        raise Unreadable(f"a file has {sorted(unknown)[0]!r}, which is unknown here")
    vector = a_truth(kept.get("deletion_vector", False))
    return DataFile(
        a_text(member(kept, "path")), an_integer(member(kept, "size")), deletion_vector=vector, **numbers
    )


def check_files(files: tuple[DataFile, ...], lower: Antichain, upper: Antichain) -> None:
    """Checks rule 1 on the files' statistics."""
    for file in files:
        check_time_bounds(file.min_time, file.max_time, lower, upper)


@dataclass(frozen=True)
class Cut:
    """The files of a batch narrowed to other bounds, and their directory."""

    directory: str
    files: tuple[DataFile, ...]


def cut(storage: Storage, batch: Batch, lower: Antichain, upper: Antichain) -> Cut | None:
    """The batch's updates with ``lower <= time < upper`` (rule 2); rewrites parts that cross a
    bound.

    None if every part is inside the bounds, so that the batch's own files can be used.
    """
    if all(_inside(file, lower, upper) for file in batch.files):
        return None
    root = batch.files[0].path.split("/")[0]
    directory = f"{root}/{fresh_batch_id()}"
    schema = physical_schema(batch.schema)
    files: list[DataFile] = []
    for file in batch.files:
        # Whole parts are copied too: a directory has exactly the files of its commit.
        table = between(storage.read(file, schema), lower, upper)
        if table.num_rows:
            part = storage.write_part(part_path(directory, len(files)), schema)
            part.write(table)
            files.append(part.close())
    return Cut(directory, tuple(files))


def _inside(file: DataFile, lower: Antichain, upper: Antichain) -> bool:
    least, greatest = file.min_time, file.max_time
    if least is None or greatest is None:
        return False
    return lower.less_equal_time(least) and (upper.is_empty() or greatest < upper.stored())


def _abandoned(paths: tuple[str, ...]) -> None:
    warnings.warn(
        f"a batch was never appended or deleted; {len(paths)} staged file(s) are left: {paths[0]}",
        ResourceWarning,
        stacklevel=2,
    )


def check_bounds_of(batches: Sequence[Batch], lower: Antichain, upper: Antichain) -> None:
    """Checks rules 2 and 4: the bounds are in order, and an append is never wider than its
    batch.
    """
    if upper.less_than(lower):
        raise InvalidUsage(f"new_upper {upper!r} is before expected_upper {lower!r}")
    for batch in batches:
        if batch.files and upper == lower:
            raise InvalidUsage(f"updates cannot be appended between {lower!r} and itself")
        # also without updates: that nothing happened is known within its bounds only
        if not (batch.lower.less_equal(lower) and upper.less_equal(batch.upper)):
            raise InvalidUsage(
                f"a batch described [{batch.lower!r}, {batch.upper!r}) cannot be appended as [{lower!r}, {upper!r}): that is wider"
            )
