"""A table of files (Parquet, ORC, CSV, JSON) as a source of changes, by its list of data files.

The changes are the rows of files that were added, minus the stored rows of files that were removed.
A file is identified by its path, size and modification time, so a rewritten file is a different
one. Spark computes the same number for each row's file from `_metadata`, so files are selected by
number, and the table itself is read: schema, options and partition columns are its own, and other
files are not opened.

The files are those below the table's location. Only for a table whose partitions are in the
catalog, Spark has to list them: a partition may be anywhere, and the files of a dropped partition
may stay where they are. If such a file's path does not name the values of its partition, they are
part of its identity, because a partition that is renamed keeps its files.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from dbt.adapters.mvsink.engine import Column, Engine, parse_type, sql
from dbt.adapters.mvsink.inputs.errors import TooManyFiles
from dbt.adapters.mvsink.inputs.parquet_sql import spelled
from dbt.adapters.mvsink.shard.delta import DeltaStorage

MAX_FILES = 10_000  # numbers in one query: its text stays under 250,000 characters
DIGITS = 15  # hexadecimal digits of a file's number: 60 bits

_PARTITION = re.compile(r" \((\{.*\})\)\Z", re.DOTALL)
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
FILE_PATH = "regexp_replace(_metadata.file_path, '^file:/+', '/')"
FILE_NUMBER = (
    f"cast(conv(substring(md5(concat_ws('|', {FILE_PATH}, "
    f"string(_metadata.file_size), string(unix_millis(_metadata.file_modification_time)))), 1, {DIGITS}), 16, 10) as bigint)"
)


@dataclass(frozen=True)
class TableFile:
    """A data file: ``path`` in the table, ``modified`` in ms, ``uri`` as Spark spells the path.
    ``partition`` has the values of its partition if its path does not name them.
    """

    path: str
    size: int
    modified: int
    uri: str
    partition: str = ""

    @property
    def bound_as(self) -> str:
        """The text that is stored for it. It has the partition, because a file that moves to
        another partition has other rows.
        """
        return f"{self.path} ({self.partition})" if self.partition else self.path

    @property
    def number(self) -> int:
        """The value of `FILE_NUMBER` in the rows of this file."""
        text = f"{self.uri}|{self.size}|{self.modified}"
        return int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:DIGITS], 16)


class FilesInput:
    """The table ``relation`` (a FROM item in Spark SQL with `_metadata`), files below ``location``.

    If ``append_only``, its files are never removed, so no copy of its rows is kept. ``refresh`` is
    a statement that makes Spark list the files again (`refresh table ...`). It runs before each
    read, except the first one if the list is ``fresh``. If the table's partitions, by the columns
    ``partitions``, are in the catalog, ``lister`` is a scan that lists the table's files. If
    ``zoned``, the rows depend on the session's time zone.
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
        lister: Engine | None = None,
        partitions: Sequence[str] = (),
        zoned: bool = False,
    ):
        self.id = id
        self.relation = relation
        self.append_only = append_only
        self.refresh = refresh
        self.fresh = fresh
        self.lister = lister
        self.partitions = partitions
        self.zoned = zoned
        self.storage = DeltaStorage(location, storage_options)

    def columns(self, engine: Engine) -> tuple[Column, ...]:
        """The table's columns. Raises `UnsupportedType` for one that a shard cannot keep."""
        return tuple(
            Column(name, parse_type(text, name))
            for name, text in engine.columns(f"select * from {self.relation}")
        )

    def manifest(self) -> dict[int, TableFile]:
        """The table's data files by number, without those that readers ignore; if Spark lists them,
        also without those that have no rows.
        """
        if self.lister is not None:
            return self._listed(self.lister)
        root = spelled(self.storage.uri)
        files = (
            TableFile(file.path, file.size, file.modified, f"{root}/{spelled(file.path)}")
            for file in self.storage.list_files("")
            if file.size and _is_data(file.path)
        )
        return {file.number: file for file in files}

    def _listed(self, engine: Engine) -> dict[int, TableFile]:
        values = "".join(f", string({sql.identifier(name)})" for name in self.partitions)
        query = (
            f"select distinct {FILE_PATH}, _metadata.file_size, unix_millis(_metadata.file_modification_time){values} "
            f"from {self.relation}"
        )
        files = (
            TableFile(
                path := unquote(str(uri)),
                int(str(size)),
                int(str(modified)),
                str(uri),
                _not_in_path(path, self.partitions, values),
            )
            for uri, size, modified, *values in engine.query(query, "bound files")
        )
        return {file.number: file for file in files}

    def rows(self, items: str, selected: Collection[int], others: Collection[int] | None = None) -> str:
        """``items`` of the rows of the ``selected`` files, as SQL.

        ``others`` are all other known files. With them, a file that was added meanwhile may be read
        too, which the caller has to detect.
        """
        where = which(FILE_NUMBER, selected, others, self.id)
        return f"select {items} from {self.relation}" + (f" where {where}" if where else "")


def which(number: str, selected: Collection[int], others: Collection[int] | None, table: str) -> str:
    """The condition that ``number`` is one of ``selected`` or, if that is shorter, none of
    ``others``; empty if there are no others.

    Raises `TooManyFiles`.
    """
    if others is not None and not others:
        return ""
    excludes = others is not None and len(others) < len(selected)
    shorter, word = (others or (), "not in") if excludes else (selected, "in")
    if len(shorter) > MAX_FILES:
        raise TooManyFiles(table, len(shorter))
    return f"{number} {word} ({', '.join(map(sql.bigint, sorted(shorter)))})" if shorter else "false"


def partition_of(bound_as: str) -> str:
    """The partition of a file that was bound, as `TableFile.partition`.

    >>> partition_of(TableFile("t/p=a/x.parquet", 1, 2, "", '{"p": "b"}').bound_as)
    '{"p": "b"}'
    >>> partition_of("t/p=a/x.parquet")
    ''
    """
    named = _PARTITION.search(bound_as)
    return named[1] if named else ""


def _not_in_path(path: str, names: Sequence[str], values: Sequence[object]) -> str:
    """A partition's values as a text; empty where the directories name them, as Hive does."""
    if not names:
        return ""
    parts = (part.partition("=") for part in path.split("/")[-1 - len(names) : -1])
    shown = [(unquote(name).lower(), unquote(value)) for name, _, value in parts]
    if shown == [(n.lower(), HIVE_NULL if value is None else value) for n, value in zip(names, values)]:
        return ""
    return json.dumps(dict(zip(names, values)), ensure_ascii=False, default=str)


def _is_data(path: str) -> bool:
    """Whether no part of the path begins with ``.`` or ``_`` (other than ``_column=value``)."""
    return not any(
        part.startswith(".") or (part.startswith("_") and "=" not in part) for part in path.split("/")
    )
