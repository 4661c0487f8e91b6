"""The base class of both handles: facts about a shard's log and files, for engines that read
data."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.shard.commit_log import Commit
from dbt.adapters.mvsink.shard.state import BATCHES, DataFile, ShardState
from dbt.adapters.mvsink.shard.storage import Storage, is_part


class Handle:
    """What readers and writers of a shard share."""

    storage: Storage

    @property
    def uri(self) -> str:
        """Where the shard is."""
        return self.storage.uri

    def progress(self, input_id: str) -> int | None:
        """The newest progress on an input that an append recorded; None if none did."""
        return self.storage.progress(input_id)

    def history(self, newest: int | None = None) -> list[Commit]:
        """The commits still in the log, oldest first; only the ``newest`` so many if given."""
        return self.storage.history(newest)

    def state_at(self, version: int) -> ShardState | None:
        """An earlier version, of any generation; None if it was cleaned up. Files may be gone."""
        return self.storage.load_at(version)

    def files_in(self, batch_id: str = "") -> dict[str, int]:
        """The data files in the batch's directory (or in all), live or not, with sizes in bytes."""
        return {
            file.path: file.size
            for file in self.storage.list_files(f"{BATCHES}/{batch_id}".rstrip("/"))
            if is_part(file.path)
        }

    def first_rows(self, file: DataFile, schema: pa.Schema, rows: int) -> pa.Table:
        """These columns of the first ``rows`` rows of a live file."""
        return self.storage.read(file, schema, rows)

    def columns_of(self, file: DataFile, schema: pa.Schema) -> pa.Table:
        """These columns of a live file. They are read into memory: they are narrow, or few."""
        return self.storage.read(file, schema)

    def find(self, file: DataFile, schema: pa.Schema, where: pc.Expression, rows: int) -> pa.Table:
        """These columns of those rows of a live file that fulfil ``where``, at most ``rows``."""
        return self.storage.find(file, schema, where, rows)

    def column_names(self, file: DataFile) -> Sequence[str]:
        """The columns that a live file physically has."""
        return self.storage.column_names(file)
