"""The application transactions of a Delta table: `mvsink.upper` and the like."""

from __future__ import annotations

import json
from collections.abc import Callable

from dbt.adapters.mvsink.shard.errors import StorageError

MAX_COMMITS = 20  # that are read one by one
FILES = ('{"add"', '{"remove"')  # actions that may be many, and are skipped unparsed


class Transactions:
    """Their values in one version of a table.

    Looking one up means reading the log since its last checkpoint. So known values are carried to a
    later version by the text of the commits between, as long as these are few. ``commit_text``
    gives that text, None if the commit was cleaned up.
    """

    def __init__(self, commit_text: Callable[[int], str | None]):
        self._commit_text = commit_text
        self._version = -1
        self._known: dict[str, int | None] = {}

    def of(self, version: int, look_up: Callable[[str], int | None]) -> Callable[[str], int | None]:
        """A function that gives their values at ``version`` by name, None for one never set.
        ``look_up`` reads the log of that version.
        """
        if self._known and not self._follow(version):
            self._known.clear()
        self._version = version

        def value_of(name: str) -> int | None:
            if name not in self._known:
                self._known[name] = look_up(name)
            return self._known[name]

        return value_of

    def forget(self) -> None:
        """Forget all values: the table may be another one."""
        self._known.clear()

    def _follow(self, version: int) -> bool:
        """Carry known values to ``version``; False if that is impossible."""
        if not 0 <= version - self._version <= MAX_COMMITS:
            return False
        updated: dict[str, int | None] = {}
        try:
            for later in range(self._version + 1, version + 1):
                text = self._commit_text(later)
                if not text:  # cleaned up
                    return False
                for line in text.splitlines():
                    transaction = None if line.startswith(FILES) else json.loads(line).get("txn")
                    if transaction is not None:
                        updated[transaction["appId"]] = transaction["version"]
        except (StorageError, ValueError):  # out of reach, or half-written
            return False
        self._known |= updated
        return True
