"""The log as files: which commits exist, what they contain, and whether they are whole. Also the
application transactions in them, such as `mvsink.upper`.

`delta` reads the log with the library, which silently skips parts of a commit that was not written
whole. So commits are checked here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dbt.adapters.mvsink.shard.commit_log import (
    LOG,
    Commit,
    commit_info,
    commit_of,
    commit_path,
    commit_version,
    fault_of,
    is_long,
    lines,
    own_metadata,
)
from dbt.adapters.mvsink.shard.damage import damage, garbage, hinted_version
from dbt.adapters.mvsink.shard.errors import LogDamaged, StorageError
from dbt.adapters.mvsink.shard.files import FileStore
from dbt.adapters.mvsink.shard.storage import StoredFile
from dbt.adapters.mvsink.shard.stored import Unreadable, a_text, an_integer, an_object, member, parsed

READERS = 16  # commits of a remote log that are read at once
MAX_COMMITS = 100  # that are read one by one
THREADS = 8
FILES = ('{"add"', '{"remove"')  # actions that may be many, and are skipped unparsed


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
        """The versions whose commit file still exists, unordered."""
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
        """Raises `LogDamaged` for a commit of which the library would silently read nothing or only
        a part. The library itself refuses what it cannot read.
        """
        text = self._commit_text(version)
        if text is not None and fault_of(version, text):
            self._require_whole_log()
            return self._commit_text(version)  # another process was writing it
        return text

    def _log_file(self, version: int) -> StoredFile | None:
        """The commit's file; None if it was cleaned up or belongs to another table."""
        return self.stat(commit_path(version))


class Transactions:
    """The values of application transactions in one version of a table.

    The library reads the log since its last checkpoint for each one. Here that part of the log is
    read once for all of them, and known values are carried to later versions.

    ``commit_text`` gives the text of a commit, None if it was cleaned up; it raises `LogDamaged` if
    the library would skip a part of it. If commits are ``far`` away, several are asked for at once.
    ``checkpoint`` gives the version of the newest checkpoint
    with all values in it: -1 and no values if there is no checkpoint, None if it cannot be read.
    """

    def __init__(
        self,
        commit_text: Callable[[int], str | None],
        checkpoint: Callable[[], tuple[int, Mapping[str, int]] | None],
        *,
        far: bool,
    ):
        self._commit_text = commit_text
        self._far = far
        self._checkpoint = checkpoint
        self._version = -1
        self._known: dict[str, int | None] = {}
        self._complete = False  # a name that is not among the known was never set

    def of(self, version: int, look_up: Callable[[str], int | None]) -> Callable[[str], int | None]:
        """A function that gives the values at ``version`` by name, None for one that was never set.
        For a log that cannot be read here, ``look_up`` reads it.
        """
        carried = (self._known or self._complete) and self._follow(version)
        if not carried:
            self.forget()
            checkpoint = self._checkpoint()
            if checkpoint is not None:
                self._version, self._known = checkpoint[0], dict(checkpoint[1])
                self._complete = self._follow(version)
                if not self._complete:
                    self.forget()
        self._version = version

        def value_of(name: str) -> int | None:
            if name not in self._known and not self._complete:
                self._known[name] = look_up(name)
            return self._known.get(name)

        return value_of

    def forget(self) -> None:
        """Forget all values: the table may be another one."""
        self._known.clear()
        self._complete = False

    def _follow(self, version: int) -> bool:
        """Carry known values to ``version``; False if that is impossible."""
        if not 0 <= version - self._version <= MAX_COMMITS:
            return False
        updated: dict[str, int | None] = {}
        try:
            for text in self._texts(range(self._version + 1, version + 1)):
                if text is None:  # cleaned up
                    return False
                for line in lines(text):
                    skipped = line.startswith(FILES) or not line.strip() or is_long(line)
                    transaction = None if skipped else _transaction(line)
                    if transaction is not None:
                        updated[a_text(member(transaction, "appId"))] = an_integer(
                            member(transaction, "version")
                        )
        except LogDamaged:
            raise
        except (StorageError, Unreadable):  # out of reach, or half-written
            return False
        self._known |= updated
        return True

    def _texts(self, versions: range) -> Iterable[str | None]:
        if not self._far or len(versions) < 2:
            return map(self._commit_text, versions)
        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(self._commit_text, versions))


def _transaction(line: str) -> Any:
    """The transaction in a line of a commit; None if the line is another action."""
    return an_object(parsed(line)).get("txn")
