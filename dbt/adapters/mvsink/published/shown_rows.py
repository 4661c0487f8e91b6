"""Which records of a shard's live files a published table shows.

A shard adds up updates; a table shows rows. So the table shows some records of the shard's files as
rows and hides the others. If a row has n copies, its n oldest records with a positive diff are
shown. Hidden are its other positive records, which later updates took back, and all negative
records and errors.

    updates                  base: a +1, b +1     then: a -1, c +1
    hidden in the table      base: a              then: a -1
    rows of the table        b, c

A record shown is one row, even if its diff is 3. If a row has more copies than records with a
positive diff, the rest are *extra copies*, which the table has in files of its own.

The live files alone decide this, never what the table showed before. So a table that another tool
wrote to, or whose run was killed, is right again after the next publication.

Records are matched by hash, without reading their other columns. That suffices: a hash that occurs
twice in the base (two equal rows, or two rows that collide) occurs in no recent directory, because
rows with such a hash are written there with NULL in its place (`shard_sql.layout`). For those
NULLs, the caller of `shown_rows` computes hashes and says how to compare whole rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH
from dbt.adapters.mvsink.shard import DataFile, Directory

Numbers = NDArray[np.int64]
# reads the named columns of a file: tables of any size, in the order of the file's rows
Scan = Callable[[DataFile, Sequence[str]], Iterator[pa.Table]]


class Computed(NamedTuple):
    """The hashes of the rows at these positions of a file, which has none for them, or none that
    is the row's alone.
    """

    positions: Numbers
    hashes: Numbers


NO_HASHES: Mapping[str, Computed] = MappingProxyType({})


class Copies(NamedTuple):
    """How many extra copies of a row there are, and its hash."""

    many: int
    hash: int


class NotLocated(Exception):
    """The shard's files cannot be shown as they are: two rows share a hash, too many rows have
    none, or a file is not below the table's root.
    """


class LiveErrors(Exception):
    """The shard holds an error, so it has no rows to show. ``message`` is the first of its messages
    in alphabetical order.
    """

    def __init__(self, message: str):
        super().__init__(message)
        self.message = message


@dataclass(frozen=True)
class ShownRows:
    """What a table shows: the ``files`` with at least one visible row, and by file's path the
    positions ``hidden`` in it and the extra ``copies`` that the row at a position needs.
    """

    files: tuple[DataFile, ...]
    hidden: Mapping[str, BitMap64]
    copies: Mapping[str, Mapping[int, Copies]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Records:
    """Records of some files as parallel arrays. ``file`` is an index into a list of files,
    ``position`` the number of the row in that file.
    """

    file: Numbers
    position: Numbers
    hash: Numbers
    diff: Numbers


def shown_rows(
    base: Directory | None,
    recent: Sequence[Directory],
    scan: Scan,
    hashes: Mapping[str, Computed] = NO_HASHES,
    same: Callable[[Sequence[tuple[DataFile, Numbers, Numbers]]], bool] | None = None,
) -> ShownRows:
    """What a table of these directories shows. Reads hashes and diffs of ``recent``, and the hashes
    of ``base``.

    ``hashes`` are computed ones, by file, for the rows that have none stored. Equality of those
    proves nothing, so ``same`` is called with the files, positions and hashes of all records that
    have one of them, and returns whether equal hashes among them mean equal rows.
    Raises `NotLocated` if they do not, and `LiveErrors`.
    """
    if base is not None and base.may_hold_errors:
        recent, base = (base, *recent), None
    old = list(base.files) if base else []
    newer = [file for each in sorted(recent, key=_age) for file in each.files]
    files = [*old, *newer]
    later, errors = _recent_records(newer, len(old), scan, hashes)
    touched, place = np.unique(later.hash, return_inverse=True)
    net = np.zeros(len(touched), np.int64)
    np.add.at(net, place, later.diff)
    early, repeated = _base_records(old, touched, scan)
    at = np.searchsorted(touched, early.hash)
    np.add.at(net, at, early.diff)

    if hashes and not (same and same(_doubtful(files, later, early, hashes))):
        raise NotLocated("two rows have one hash")

    positive = later.diff > 0
    records = _Records(
        *(np.concatenate([mine, theirs[positive]]) for mine, theirs in zip(_columns(early), _columns(later)))
    )
    group = np.concatenate([at, place[positive]])
    rank, order = _ranks(group)
    shown = rank < np.maximum(net, 0)[group]
    counted = np.bincount(group[shown], minlength=len(touched))
    left = np.maximum(net, 0) - counted

    hidden = _Positions()
    hidden.add(records.file[~shown], records.position[~shown])
    hidden.add(later.file[~positive], later.position[~positive])
    hidden.add(*errors)
    copies: dict[int, dict[int, Copies]] = {}
    first = order[rank[order] == 0]
    more = first[left[group[first]] > 0]
    _add(copies, records.file[more], records.position[more], left[group[more]], records.hash[more])
    _add(copies, repeated.file, repeated.position, repeated.diff - 1, repeated.hash)
    return _result(files, hidden, copies)


def _result(
    files: Sequence[DataFile], hidden: _Positions, copies: Mapping[int, Mapping[int, Copies]]
) -> ShownRows:
    bitmaps = {files[index].path: bitmap for index, bitmap in hidden.bitmaps().items()}
    shown = [file for file in files if len(bitmaps.get(file.path, ())) < (file.rows or 0)]
    paths = {file.path for file in shown}
    return ShownRows(
        tuple(shown),
        {path: bitmap for path, bitmap in bitmaps.items() if path in paths},
        {files[index].path: many for index, many in copies.items()},
    )


def _age(directory: Directory) -> tuple[int, str]:
    return directory.first_time, directory.batch_id


def _columns(records: _Records) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    return records.file, records.position, records.hash, records.diff


def _recent_records(
    files: Sequence[DataFile], first: int, scan: Scan, hashes: Mapping[str, Computed]
) -> tuple[_Records, tuple[Numbers, Numbers]]:
    """The records of rows, and the files and positions of the records of errors. ``first`` is the
    index of the first file. Raises `LiveErrors` if the diffs of an error add up to more than 0.
    """
    parts: list[tuple[Numbers, ...]] = []
    errors: list[tuple[Numbers, Numbers]] = []
    messages: dict[str, int] = {}
    for index, file in enumerate(files, first):
        begin = 0
        names = [HASH, DIFF, *([ERROR] if file.errors != 0 else [])]
        for table in scan(file, names):
            if file.path in hashes:
                table = _with_hashes(table, hashes[file.path], begin)
            position = np.arange(begin, begin + len(table), dtype=np.int64)
            begin += len(table)
            if ERROR in table.column_names and table.column(ERROR).null_count < len(table):
                wrong = pc.is_valid(table.column(ERROR))
                for message, diff in zip(
                    table.column(ERROR).filter(wrong).to_pylist(),
                    table.column(DIFF).filter(wrong).to_pylist(),
                ):  # a step per error, of which there are few: a run records one per message
                    messages[message] = messages.get(message, 0) + diff
                kept = ~_array(wrong)
                errors.append((np.full(int((~kept).sum()), index, np.int64), position[~kept]))
                table, position = table.filter(pa.array(kept)), position[kept]
            where = np.full(len(table), index, np.int64)
            parts.append((where, position, _array(table.column(HASH)), _array(table.column(DIFF))))
    live = min((message for message, count in messages.items() if count > 0), default=None)
    if live is not None:
        raise LiveErrors(live)
    return _records(parts), (_joined([each[0] for each in errors]), _joined([each[1] for each in errors]))


def _with_hashes(table: pa.Table, computed: Computed, begin: int) -> pa.Table:
    """``table``, the rows of a file from position ``begin`` on, with the computed hashes."""
    stored = np.array(_array(pc.fill_null(table.column(HASH), 0)))
    here = (computed.positions >= begin) & (computed.positions < begin + len(table))
    stored[computed.positions[here] - begin] = computed.hashes[here]
    return table.set_column(table.column_names.index(HASH), HASH, pa.array(stored))


def _doubtful(
    files: Sequence[DataFile], later: _Records, early: _Records, hashes: Mapping[str, Computed]
) -> list[tuple[DataFile, Numbers, Numbers]]:
    """The files, positions and hashes of all records whose hash is among ``hashes``."""
    doubtful = np.unique(np.concatenate([each.hashes for each in hashes.values()]))
    places = []
    for records in (later, early):
        chosen = np.isin(records.hash, doubtful)
        for index in np.unique(records.file[chosen]):
            here = chosen & (records.file == index)
            places.append((files[index], records.position[here], records.hash[here]))
    return places


def _base_records(files: Sequence[DataFile], touched: Numbers, scan: Scan) -> tuple[_Records, _Records]:
    """The base's records whose hash is among ``touched``, which updates beside the base have; and
    of the others those with a diff over 1, which need extra copies.
    """
    wanted = pa.array(touched)
    records: list[tuple[Numbers, ...]] = []
    repeated: list[tuple[Numbers, ...]] = []
    for index, file in enumerate(files):
        begin = 0
        single = file.max_diff == 1
        if single and not len(touched):
            continue
        for table in scan(file, [HASH] if single else [HASH, DIFF]):
            hashes = table.column(HASH)
            diffs = np.ones(len(table), np.int64) if single else _array(table.column(DIFF))
            chosen = _array(pc.is_in(hashes, value_set=wanted))
            for kept, mask in ((records, chosen), (repeated, ~chosen & (diffs > 1))):
                position = np.flatnonzero(mask)
                if len(position):
                    where = np.full(len(position), index, np.int64)
                    taken = _array(hashes.take(pa.array(position)))
                    kept.append((where, position + begin, taken, diffs[position]))
            begin += len(table)
    return _records(records), _records(repeated)


def _records(parts: Sequence[tuple[Numbers, ...]]) -> _Records:
    return _Records(*(_joined([part[n] for part in parts]) for n in range(4)))


def _ranks(group: Numbers) -> tuple[Numbers, Numbers]:
    """For each record, how many records of its group come before it; and the records' indexes,
    sorted by group.
    """
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=-1))
    sizes = np.diff(begins, append=len(ordered))
    rank = np.empty(len(group), np.int64)
    rank[order] = np.arange(len(ordered)) - np.repeat(begins, sizes)
    return rank, order


def _joined(arrays: Sequence[Numbers]) -> Numbers:
    return np.concatenate([np.empty(0, np.int64), *arrays])


def _array(column: pa.ChunkedArray | pa.Array) -> NDArray[np.int64]:
    chunk = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.asarray(chunk.to_numpy(zero_copy_only=False))


class _Positions:
    def __init__(self) -> None:
        self.parts: list[tuple[Numbers, Numbers]] = []

    def add(self, file: Numbers, position: Numbers) -> None:
        self.parts.append((file, position))

    def bitmaps(self) -> dict[int, BitMap64]:
        file, position = (_joined([part[n] for part in self.parts]) for n in range(2))
        return {int(index): BitMap64(position[file == index]) for index in np.unique(file)}


def _add(copies: dict[int, dict[int, Copies]], *columns: Numbers) -> None:
    """Put them into ``copies``. A step per row, but only of rows that need extra copies."""
    for file, position, count, hashed in zip(*(column.tolist() for column in columns), strict=True):
        copies.setdefault(file, {})[position] = Copies(count, hashed)
