"""The application transactions of a Delta table: `mvsink.upper` and the like."""

from __future__ import annotations

import json
from collections.abc import Callable

from dbt.adapters.mvsink.shard.errors import StorageError

MOST_COMMITS = 20  # so many are read one by one
FILES = ('{"add"', '{"remove"')  # of which there may be many


class Transactions:
    """What they stand at in one version of a table.

    To look one up takes reading the log since its last checkpoint. So what was looked up once is
    followed to a later version by the text of the commits between, which ``commit_text`` gives
    (None: it is not there any more), as long as they are few.
    """

    def __init__(self, commit_text: Callable[[int], str | None]):
        self._commit_text = commit_text
        self._version = -1
        self._known: dict[str, int | None] = {}

    def of(self, version: int, look_up: Callable[[str], int | None]) -> Callable[[str], int | None]:
        """How they are asked for at ``version``: by name; None if there never was one. ``look_up``
        reads the log of that version.
        """
        if self._known and not self._follow(version):
            self._known.clear()
        self._version = version

        def ask(name: str) -> int | None:
            if name not in self._known:
                self._known[name] = look_up(name)
            return self._known[name]

        return ask

    def forget(self) -> None:
        """It is another table, or may be."""
        self._known.clear()

    def _follow(self, version: int) -> bool:
        """False if that cannot be done: then all is looked up anew."""
        if not 0 <= version - self._version <= MOST_COMMITS:
            return False
        told: dict[str, int | None] = {}
        try:
            for later in range(self._version + 1, version + 1):
                text = self._commit_text(later)
                if not text:  # not there any more
                    return False
                for line in text.splitlines():
                    transaction = None if line.startswith(FILES) else json.loads(line).get("txn")
                    if transaction is not None:
                        told[transaction["appId"]] = transaction["version"]
        except (StorageError, ValueError):  # out of reach, or torn
            return False
        self._known |= told
        return True
