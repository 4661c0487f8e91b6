"""The log as files: which commits there are, what is in them, and whether they are whole.

`delta` reads the log with the library, which silently takes less from a commit that was not written
whole. Commits are checked here.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from dbt.adapters.mvsink.shard.commit_log import (
    LOG,
    Commit,
    commit_info,
    commit_of,
    commit_path,
    commit_version,
    fault_of,
    own_metadata,
)
from dbt.adapters.mvsink.shard.damage import damage, garbage, hinted_version
from dbt.adapters.mvsink.shard.errors import LogDamaged
from dbt.adapters.mvsink.shard.files import FileStore
from dbt.adapters.mvsink.shard.storage import StoredFile
from dbt.adapters.mvsink.shard.stored import Unreadable, a_text

READERS = 16  # commits of a remote log that are read at once


class LogStore(FileStore):
    """The part of `Storage` that reads the log's files."""

    def token_at(self, version: int) -> str | None:
        text = self._commit_text(version)
        if text is None or garbage(version, text):
            return None
        try:
            return a_text(own_metadata(commit_info(text)).get("token", ""))
        except Unreadable:
            return None

    def _commits_at(self, versions: Sequence[int]) -> list[Commit]:
        if self.is_local:
            return [self._commit_at(version) for version in versions]
        _ = self.filesystem  # one for all threads
        with ThreadPoolExecutor(READERS) as pool:  # a request takes 10 to 100 ms
            return list(pool.map(self._commit_at, versions))

    def _commit_at(self, version: int) -> Commit:
        text = self._commit_text(version)
        fault = "" if text is None else garbage(version, text)  # None: cleaned up meanwhile
        try:
            if not fault:
                return commit_of(version, text or "")
        except Unreadable as error:
            fault = f"commit {commit_path(version)} cannot be read: {error}."
        # The shard itself may still be readable, through a later checkpoint; its history is not.
        raise LogDamaged(self.uri, f"{fault} Restore the file from a backup")

    def checkpointed(self) -> int:
        return hinted_version(self) or 0

    def _require_whole_log(self) -> None:
        fault = damage(self)
        if fault:
            raise LogDamaged(self.uri, fault)

    def _versions(self) -> list[int]:
        """The versions whose commit file still exists, in no order."""
        return list(self._written())

    def _written(self) -> dict[int, int]:
        """The versions whose commit file still exists, with the times (ms) of these files."""
        return {
            version: file.modified
            for file in self.list_files(LOG)
            if (version := commit_version(file.path)) is not None
        }

    def _commit_text(self, version: int) -> str | None:
        return self.read_text(commit_path(version))

    def _whole_commit_text(self, version: int) -> str | None:
        """Raises `LogDamaged` for a commit of which the library would silently read nothing, or not
        all. What it cannot read it refuses itself.
        """
        text = self._commit_text(version)
        if text is not None and fault_of(version, text):
            self._require_whole_log()
            return self._commit_text(version)  # another process was writing it
        return text

    def _log_file(self, version: int) -> StoredFile | None:
        """The commit's file; None if it was cleaned up or belongs to another table."""
        return self.stat(commit_path(version))
