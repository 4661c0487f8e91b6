"""Which of a shard's files a table shows whose metadata this layer cannot read (Iceberg's).

Who commits to the table notes the names here before. Collection keeps what is noted: each file that
the newest version names, and for a day what earlier attempts named, of which one may still commit.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.shard.files import FileStore
from dbt.adapters.mvsink.shard.state import TABLE
from dbt.adapters.mvsink.shard.stored import Unreadable, an_integer, an_object, parsed

NAME = "_shown_files.json"  # below the table
KEPT_MS = 24 * 3_600_000


def note(table: FileStore, paths: Collection[str]) -> None:
    """Note the shard's files ``paths``. ``table`` is the store of the table."""
    now = wall_clock.now_ms()
    before = _read(table.read_text(NAME))
    recent = {path: at for path, at in before.items() if at > now - KEPT_MS}
    noted = {**recent, **dict.fromkeys(paths, now)}
    if noted.keys() != before.keys() or any(before[path] < now - KEPT_MS // 2 for path in paths):
        table.write_text(NAME, json.dumps(noted))


def replace(table: FileStore, paths: Collection[str]) -> None:
    """Note these files and no others: no version of the table is left that has others."""
    table.write_text(NAME, json.dumps(dict.fromkeys(paths, wall_clock.now_ms())))


def noted(shard: FileStore) -> frozenset[str]:
    """The files that are noted. Raises `StorageError`."""
    return frozenset(_read(shard.read_text(f"{TABLE}/{NAME}")))


def _read(text: str | None) -> dict[str, int]:
    """Nothing if it is damaged: the next publication notes them again."""
    try:
        return {path: an_integer(at) for path, at in an_object(parsed(text or "{}")).items()}
    except Unreadable:
        return {}
