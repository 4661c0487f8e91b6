"""A table of files (Parquet, ORC, CSV, JSON) as a source of changes: which data files it has.

Rows of files that came, less the stored rows of files that vanished, are what changed. A file is
known by its path, its size and its modification time, so one that was written again is another
file. Spark computes the same number for each row's file from `_metadata`, so the files to read are
chosen by number, through the table itself: schema, options and partition columns are the table's
own, and files that are not chosen are not opened.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dbt.adapters.mvsink.engine import Column, Engine, parse_type, sql
from dbt.adapters.mvsink.inputs.errors import TooManyFiles
from dbt.adapters.mvsink.inputs.parquet_sql import spelled
from dbt.adapters.mvsink.shard.delta import DeltaStorage

MOST_FILES = 10_000  # numbers in one query: its text stays under 250,000 characters
DIGITS = 15  # hexadecimal digits of a file's number: 60 bits

FILE_NUMBER = (
    f"cast(conv(substring(md5(concat_ws('|', regexp_replace(_metadata.file_path, '^file:/+', '/'), "
    f"string(_metadata.file_size), string(unix_millis(_metadata.file_modification_time)))), 1, {DIGITS}), 16, 10) as bigint)"
)


@dataclass(frozen=True)
class TableFile:
    """A data file. ``path`` is relative to the table, ``modified`` is ms; ``uri`` is its place as
    Spark spells it.
    """

    path: str
    size: int
    modified: int
    uri: str

    @property
    def number(self) -> int:
        """What `FILE_NUMBER` is for the rows of this file."""
        text = f"{self.uri}|{self.size}|{self.modified}"
        return int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:DIGITS], 16)


class FilesInput:
    """The table that ``relation`` (a FROM item of Spark SQL with `_metadata`) names, its files
    below ``location``.

    ``append_only``: its files never vanish, so no copy of its rows is kept. ``refresh``: a
    statement that makes Spark forget the files it knew (`refresh table ...`), run before each read;
    before the first only unless it is ``fresh``, refreshed already.
    """

    def __init__(
        self,
        id: str,
        relation: str,
        location: str,
        *,
        append_only: bool = False,
        refresh: str = "",
        fresh: bool = False,
        storage_options: Mapping[str, str] | None = None,
    ):
        self.id = id
        self.relation = relation
        self.append_only = append_only
        self.refresh = refresh
        self.fresh = fresh
        self.storage = DeltaStorage(location, storage_options)

    def columns(self, engine: Engine) -> tuple[Column, ...]:
        """The table's columns. Raises `UnsupportedType` for one that a shard cannot keep."""
        return tuple(
            Column(name, parse_type(text, name))
            for name, text in engine.columns(f"select * from {self.relation}")
        )

    def manifest(self) -> dict[int, TableFile]:
        """The table's data files by number; what Spark's readers ignore is no data file."""
        root = spelled(self.storage.uri)
        files = (
            TableFile(file.path, file.size, file.modified, f"{root}/{spelled(file.path)}")
            for file in self.storage.list_files("")
            if file.size and _is_data(file.path)
        )
        return {file.number: file for file in files}

    def rows(self, items: str, chosen: Collection[int], others: Collection[int] | None = None) -> str:
        """``items`` of the rows of the ``chosen`` files, as SQL.

        ``others``: all other files that are known; then a file that has come meanwhile may be read
        too, which the caller has to notice.
        """
        where = which(FILE_NUMBER, chosen, others, self.id)
        return f"select {items} from {self.relation}" + (f" where {where}" if where else "")


def which(number: str, chosen: Collection[int], others: Collection[int] | None, table: str) -> str:
    """The condition that ``number`` is one of ``chosen``, or none of ``others`` where that is
    shorter; empty if there is nothing else.

    Raises `TooManyFiles`.
    """
    if others is not None and not others:
        return ""
    shorter, word = (others, "not in") if others is not None and len(others) < len(chosen) else (chosen, "in")
    if len(shorter) > MOST_FILES:
        raise TooManyFiles(table, len(shorter))
    return f"{number} {word} ({', '.join(map(sql.bigint, sorted(shorter)))})" if shorter else "false"


def _is_data(path: str) -> bool:
    """Directories and files that begin with ``_`` (but ``_column=value``) or ``.`` hold no data."""
    return not any(
        part.startswith(".") or (part.startswith("_") and "=" not in part) for part in path.split("/")
    )
