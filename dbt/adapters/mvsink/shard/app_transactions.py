"""The application transactions of a Delta table, such as `mvsink.upper`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dbt.adapters.mvsink.shard.commit_log import is_long, lines
from dbt.adapters.mvsink.shard.errors import LogDamaged, StorageError
from dbt.adapters.mvsink.shard.stored import Unreadable, a_text, an_integer, an_object, member, parsed

MAX_COMMITS = 100  # that are read one by one
THREADS = 8
FILES = ('{"add"', '{"remove"')  # actions that may be many, and are skipped unparsed


class Transactions:
    """Their values in one version of a table.

    The library looks each one up by reading the log since its last checkpoint. So that part of the
    log is read here, once for all of them, and known values are carried to later versions.

    ``commit_text`` gives the text of a commit, None if it was cleaned up; it raises `LogDamaged` if
    the library would take less from the commit than was written. ``checkpoint`` gives the
    version of the newest checkpoint with all values in it; -1 and none if there is no checkpoint;
    None if it cannot be read.
    """

    def __init__(
        self,
        commit_text: Callable[[int], str | None],
        checkpoint: Callable[[], tuple[int, Mapping[str, int]] | None],
    ):
        self._commit_text = commit_text
        self._checkpoint = checkpoint
        self._version = -1
        self._known: dict[str, int | None] = {}
        self._complete = False  # a name that is not among the known was never set

    def of(self, version: int, look_up: Callable[[str], int | None]) -> Callable[[str], int | None]:
        """A function that gives their values at ``version`` by name, None for one never set.
        ``look_up`` reads the log of that version, for a log that cannot be read here.
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

    def _texts(self, versions: range) -> list[str | None]:
        if len(versions) < 2:
            return [self._commit_text(version) for version in versions]
        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(self._commit_text, versions))


def _transaction(line: str) -> Any:
    """The transaction in a line of a commit; None in another action."""
    return an_object(parsed(line)).get("txn")
