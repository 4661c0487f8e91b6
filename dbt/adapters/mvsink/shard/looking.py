"""What every handle can tell about a shard's files without reading data: an engine that reads them itself asks this."""

from __future__ import annotations

from collections.abc import Sequence

from dbt.adapters.mvsink.shard.state import BATCHES, DataFile
from dbt.adapters.mvsink.shard.storage import Commit, Storage, is_part


class Looking:
    """Mixed into both handles."""

    storage: Storage

    @property
    def uri(self) -> str:
        """Where the shard is."""
        return self.storage.uri

    def history(self) -> list[Commit]:
        """The commits that the log still tells, oldest first."""
        return self.storage.history()

    def files_in(self, batch_id: str) -> int:
        """How many data files the batch's directory holds, live or not."""
        return sum(is_part(file.path) for file in self.storage.list_files(f"{BATCHES}/{batch_id}"))

    def column_names(self, file: DataFile) -> Sequence[str]:
        """The columns that a live file physically has."""
        return self.storage.column_names(file)
