"""How the live files of one log version fall into parts, and each part as SQL.

- ``base``: the compacted part. It is the largest complete directory in which every row has a hash,
  every diff is positive and all times are equal, as its files' statistics show; there is no mark.
  A hash that occurs more than once in it (equal rows of a first load, or two rows that collide)
  occurs in no recent part: there it is NULL.
- ``recent``: other complete directories whose rows all have a hash.
- ``unhashed``: complete directories in which some row has none (written through the Python handle,
  or after a hash collision).
- ``loose``: files that none of our commits staged where they are (another engine's UPDATE, MERGE,
  OPTIMIZE or INSERT), and the files that such a writer left in a directory. Their hashes are read
  as NULL; rows that cannot have been appended are left out.

What a negation cancels (`shard.directories`) is in none of these parts: it is ``past``, which only
reads of earlier times and of updates need. A negation that cancels nothing is unhashed.

Directories are named as a whole, by one glob per part, so that the text of a view stays short
however many files there are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from dbt.adapters.mvsink.engine import Column, shard_columns, sql
from dbt.adapters.mvsink.engine.whole_rows import row_hash
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, TIME
from dbt.adapters.mvsink.shard import (
    Batch,
    DataFile,
    Directory,
    ShardState,
    StorageError,
    base_of,
    cancelled_among,
    directories_of,
    is_negation,
)
from dbt.adapters.mvsink.shard_sql.errors import DamagedFiles

# Copies of rows: sums of their hashes' parts (`detection.PART_BITS`) stay below 62 bits.
MAX_DETECTABLE = 2**39
# Rows of a hash and a count that may be broadcast. In a hash table each takes about 64 bytes, so
# this is a quarter of a GB in the driver and in every executor. Spark itself fails at 2^29 rows or
# 8 GB.
MAX_BROADCAST = 2**22


class Files(Protocol):
    """The access to a shard's files that read and write handles offer."""

    @property
    def uri(self) -> str: ...

    def files_in(self, *directories: str) -> Mapping[str, int]: ...

    def column_names(self, file: DataFile) -> Sequence[str]: ...


FilesIn = Callable[[str], Mapping[str, int]]
FileColumns = Callable[[DataFile], Sequence[str]]


class Parts(NamedTuple):
    """Complete directories, sorted into the parts of a layout."""

    base: Directory | None
    recent: tuple[Directory, ...]
    unhashed: tuple[Directory, ...]


class Past(NamedTuple):
    """What a negation at ``time`` (ms) cancels from then on, and the negation itself."""

    time: int
    parts: Parts


@dataclass(frozen=True)
class Layout:
    """The parts of a shard at one version.

    ``root`` is the shard's directory as the engine names it; ``upper`` is in its stored
    form; ``loose_columns`` are the physical columns of each loose file. ``past`` is in the order of
    its times.
    """

    root: str
    columns: tuple[Column, ...]
    salt: int
    upper: int
    base: Directory | None
    recent: tuple[Directory, ...]
    unhashed: tuple[Directory, ...]
    loose: tuple[DataFile, ...]
    loose_columns: tuple[tuple[str, ...], ...]
    past: tuple[Past, ...] = ()

    @classmethod
    def of(cls, handle: Files, state: ShardState) -> Layout:
        """The parts of ``state``'s live files. Raises `DamagedFiles`."""
        return layout_of(state, handle.uri, handle.files_in, handle.column_names)

    @property
    def directories(self) -> tuple[Directory, ...]:
        return (*((self.base,) if self.base else ()), *self.recent, *self.unhashed)

    @property
    def empty(self) -> bool:
        return not self.directories and not self.loose

    @property
    def only_inserts(self) -> bool:
        """Whether each update inserts one row: then the updates are the rows, and nothing has to be
        added up.
        """
        return not self.loose and all((each.min_diff, each.max_diff) == (1, 1) for each in self.directories)

    @property
    def may_hold_errors(self) -> bool:
        return bool(self.loose) or any(directory.may_hold_errors for directory in self.directories)

    def with_past(self, time: int = -1) -> Layout:
        """The layout with what negations after ``time`` (ms) cancel: updates up to that time need
        no more than this.

        Its base is the one that corrections before the first of these negations were compared with.
        """
        past = [parts for negated_at, parts in self.past if negated_at > time]
        if not past:
            return self
        groups = [*past, Parts(self.base, self.recent, self.unhashed)]
        bases = [parts.base for parts in groups[1:] if parts.base is not None]
        recent = [directory for parts in groups for directory in parts.recent]
        unhashed = [directory for parts in groups for directory in parts.unhashed]
        return replace(self, base=past[0].base, recent=(*bases, *recent), unhashed=tuple(unhashed), past=())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def rows(self) -> int:
        """The number of updates in its directories."""
        return sum(directory.rows for directory in self.directories)

    @property
    def live_rows(self) -> int:
        """About how many rows it holds. Batches that also delete are assumed to leave the number of
        rows as it was, if they have no more updates than the others; otherwise all updates are
        counted.
        """
        adding = sum(each.rows for each in self.directories if (each.min_diff or 0) > 0)
        return adding if 2 * adding >= self.rows else self.rows

    @property
    def detectable(self) -> bool:
        """Whether sums per bucket cannot overflow: statistics must bound the copies of rows."""
        copies = 0
        for file in self.files:
            if file.rows is None or file.min_diff is None or file.max_diff is None:
                return False
            copies += file.rows * max(abs(file.min_diff), abs(file.max_diff))
        return copies < MAX_DETECTABLE

    @property
    def files(self) -> tuple[DataFile, ...]:
        return (*(file for directory in self.directories for file in directory.files), *self.loose)

    def by_base(self) -> tuple[list[DataFile], list[DataFile]]:
        """The files of directories that may be the base, and of its other directories."""
        in_base = [each for each in self.directories if each.compacted]
        return files_of(in_base), files_of(each for each in self.directories if not each.compacted)

    def hash_of(self) -> str:
        return row_hash(self.columns, self.salt, ERROR)

    def believed_hash(self) -> str:
        """The hash of a row outside the base, computed if no trusted one is stored."""
        return f"coalesce({HASH}, {self.hash_of()})" if self.unhashed or self.loose else HASH

    def select(self, directories: Sequence[Directory], items: str, where: str = "") -> str:
        """``select items`` from whole directories, read through one glob."""
        return f"select {items} from {sql.parquet(self.glob(directories))}" + (
            f" where {where}" if where else ""
        )

    def glob(self, directories: Sequence[Directory]) -> str:
        """All files of these directories."""
        roots = _either(sorted({directory.root for directory in directories}))
        names = _either([directory.batch_id for directory in directories])
        return f"{sql.escape_glob(self.root)}/{roots}/{names}"

    def select_loose(self, items: str, where: str = "") -> list[str]:
        """The same from loose files, a query per set of physical columns. Their `HASH` is NULL."""
        groups: dict[tuple[str, ...], list[DataFile]] = defaultdict(list)
        for file, present in zip(self.loose, self.loose_columns, strict=True):
            groups[present].append(file)
        queries = []
        for present, files in groups.items():
            paths = [f"{sql.escape_glob(self.root)}/{sql.escape_glob(file.path)}" for file in files]
            pairs = zip(self._in_files(), self.columns, strict=True)
            inner = [
                self._loose_column(stored, column.type.text, present, column.name) for stored, column in pairs
            ]
            inner += [self._loose_column(name, "bigint", present, name) for name in (TIME, DIFF)]
            inner += [self._loose_column(ERROR, "string", present, ERROR), f"cast(null as bigint) as {HASH}"]
            read = sql.union_all(f"select {', '.join(inner)} from {sql.parquet(path)}" for path in paths)
            condition = f"{self._valid()} and ({where})" if where else self._valid()
            queries.append(f"select {items} from (\n{read}\n) where {condition}")
        return queries

    def updates(self, items: str, where: str = "") -> str:
        """All updates of the shard, ``items`` of each."""
        return sql.union_all(self.parts(self.directories, items, where))

    def parts(self, directories: Sequence[Directory], items: str, where: str = "") -> list[str]:
        """``items`` of these directories and of all loose files, one query per part."""
        whole = [self.select(directories, items, where)] if directories else []
        return whole + self.select_loose(items, where)

    def _valid(self) -> str:
        """Rows that an append can have written: see *drift* in docs/design/overview.md."""
        return f"{TIME} is not null and {TIME} >= 0 and {TIME} < {sql.bigint(self.upper)} and {DIFF} <> 0"

    def _in_files(self) -> tuple[str, ...]:
        """The names of the columns in the files."""
        return self.names

    @staticmethod
    def _loose_column(stored: str, type_text: str, present: tuple[str, ...], name: str) -> str:
        value = sql.identifier(stored) if stored in present else "null"
        return f"cast({value} as {type_text}) as {sql.identifier(name)}"


def with_batch(shard: Layout, batch: Batch) -> Layout:
    """``shard`` as it would be with a staged batch of at least one row."""
    staged = Directory(batch.directory.rsplit("/", 1)[-1], batch.files)
    if shard.empty and staged.compacted:
        return replace(shard, base=staged)
    if staged.trusted:
        return replace(shard, recent=(*shard.recent, staged))
    return replace(shard, unhashed=(*shard.unhashed, staged))


def layout_of(state: ShardState, root: str, files_in: FilesIn, columns_of: FileColumns) -> Layout:
    """`Layout.of` without a handle: the live files of ``state``, sorted into parts.

    ``files_in`` lists the Parquet files of a directory with their sizes in bytes, live or not;
    ``columns_of`` reads the column names of a loose file from its footer. Raises `DamagedFiles` if
    a live file is missing or is not as it was committed: every query over a shard is built from its
    layout, so a lost file is never read as missing rows.
    """
    directories_ = {file.directory for file in state.files if file.batch_id is not None}
    listed = {directory: files_in(directory) for directory in sorted(directories_)}
    damaged = damages(state, listed.__getitem__)
    if damaged:
        raise DamagedFiles(root, damaged)
    past: list[Past] = []
    cancelled: set[str] = set()
    for group in cancelled_among(state.files):
        directories, loose = _directories(group.files, listed)
        if not loose:
            past.append(Past(group.time, _parts(directories)))
            cancelled.update(file.path for file in group.files)
    directories, loose = _directories([file for file in state.files if file.path not in cancelled], listed)
    return Layout(
        root=root,
        columns=shard_columns(state.schema),
        salt=state.salt,
        upper=state.upper.stored(),
        **_parts(directories)._asdict(),
        loose=tuple(loose),
        loose_columns=tuple(_loose_columns(root, file, columns_of) for file in loose),
        past=tuple(past),
    )


def _parts(directories: Sequence[Directory]) -> Parts:
    base = base_of(directory for directory in directories if directory.compacted)
    rest = [directory for directory in directories if directory is not base]
    hashed = [directory for directory in rest if directory.trusted and not is_negation(directory.batch_id)]
    return Parts(base, tuple(hashed), tuple(directory for directory in rest if directory not in hashed))


def _directories(
    files: Iterable[DataFile], listed: Mapping[str, Mapping[str, int]]
) -> tuple[list[Directory], list[DataFile]]:
    """The complete directories, and all other live files."""
    batches, loose = directories_of(files)
    directories = []
    for batch in sorted(batches, key=lambda batch: batch.batch_id):
        # A plain Parquet reader still sees the rows that a deletion vector deletes.
        vectors = any(file.deletion_vector for file in batch.files)
        if len(listed[batch.files[0].directory]) == len(batch.files) and not vectors:
            directories.append(batch)
        else:
            loose.extend(batch.files)
    return directories, loose


def damages(state: ShardState, files_in: FilesIn) -> list[str]:
    """The live files of batches that are gone or differ in size from the log, in words.

    Directories are listed, no file is opened.
    """
    sizes: dict[str, int] = {}
    for directory in {file.directory for file in state.files if file.batch_id is not None}:
        sizes.update(files_in(directory))
    return [
        f"{file.path} "
        + (f"has {sizes[file.path]} of {file.size} bytes" if file.path in sizes else "is gone")
        for file in state.files
        if file.batch_id is not None and sizes.get(file.path) != file.size
    ]


def vacant(state: ShardState, root: str, columns: tuple[Column, ...]) -> Layout:
    """The empty layout from which a new generation with these ``columns`` begins. No I/O."""
    return Layout(root, columns, state.salt, state.upper.stored(), None, (), (), (), ())


def _loose_columns(root: str, file: DataFile, columns_of: FileColumns) -> tuple[str, ...]:
    try:
        return tuple(columns_of(file))
    except StorageError as error:
        raise DamagedFiles(root, [str(error)]) from error


def broadcast(alias: str, files: Iterable[DataFile]) -> str:
    """The hint to broadcast ``alias``, narrow rows of ``files``; empty unless statistics show that
    there are few.

    Without the hint Spark decides by statistics of all columns, and does not broadcast rows that
    are small enough.
    """
    rows = [file.rows for file in files]
    few = None not in rows and sum(count or 0 for count in rows) <= MAX_BROADCAST
    return f"/*+ BROADCAST({alias}) */ " if few else ""


def files_of(directories: Iterable[Directory]) -> list[DataFile]:
    """All files of ``directories``."""
    return [file for directory in directories for file in directory.files]


def _either(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else "{" + ",".join(names) + "}"


def row_count(shard: Layout) -> str:
    """A query for the number of rows at the newest time: it reads one narrow column."""
    if shard.empty:
        return "select 0L"
    return f"select coalesce(sum({DIFF}), 0L) from (\n{shard.updates(DIFF, f'{ERROR} is null')}\n)"


def live_errors(layout: Layout) -> str:
    """The query of their messages and counts, `(m, n)`, by message; empty if no file has any."""
    directories = [directory for directory in layout.directories if directory.may_hold_errors]
    parts = layout.parts(directories, f"{ERROR} m, {DIFF} d", f"{ERROR} is not null")
    return (
        f"select m, sum(d) n from (\n{sql.union_all(parts)}\n) group by m having sum(d) > 0 order by m"
        if parts
        else ""
    )


def in_order(names: Sequence[str], order: Sequence[str]) -> tuple[str, ...]:
    """The ``names`` of a shard's columns in the ``order`` of its query; unless that has just these,
    they stay as they are: columns that a query no longer has come before new ones.

    >>> in_order(["a", "b"], ["b", "a"]), in_order(["a", "old"], ["b", "a"])
    (('b', 'a'), ('a', 'old'))
    """
    return tuple(order if sorted(order) == sorted(names) else names)
