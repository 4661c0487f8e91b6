"""Files with the extra copies of equal rows that a published table needs.

A shard keeps equal rows as one record with a count. A table shows a record once, so every further
copy needs a row of its own:

    shard          a +3, b +1
    table          a, b from the shard's file; a, a from a file of extra copies

A file of extra copies has the model's columns and each row's hash. When the number of copies
changes, surplus rows are hidden by the file's deletion vector, and missing rows go to a new file.
Once there are more than `MAX_FILES`, or more than half of their rows are hidden, all extra copies
are written again into one file.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from dbt.adapters.mvsink.physical import HASH
from dbt.adapters.mvsink.published.shown_rows import Copies, Scan
from dbt.adapters.mvsink.shard import DataFile

DIRECTORY = "copies-"  # the prefix of the directories of such files, below the table
MAX_FILES = 8  # each publication reads the hashes of all of them
AT_ONCE = 100_000  # rows in memory at once


# Extra copies to write, by the path of the shard's file that has the row, and its position there.
Missing = Mapping[str, Mapping[int, Copies]]


@dataclass(frozen=True)
class Extra:
    """Of the live files those that stay, with the positions hidden in each, and the copies that no
    live file has.
    """

    hidden: Mapping[str, BitMap64]
    missing: Missing


def is_extra(path: str) -> bool:
    """Whether this path below the table is that of a file of extra copies."""
    return path.startswith(DIRECTORY)


def fresh_path() -> str:
    """The path of a new file, below the table."""
    return f"{DIRECTORY}{uuid.uuid4().hex}/part-00000.parquet"


def compared(wanted: Missing, live: Mapping[str, tuple[DataFile, BitMap64]], scan: Scan) -> Extra:
    """How to get from the ``live`` files, each with the rows hidden in it now, to the ``wanted``
    copies: what to hide in each file, and which copies to write. Reads the live files' hashes.
    """
    hidden_rows = sum(len(vector) for _, vector in live.values())
    if len(live) > MAX_FILES or 2 * hidden_rows > sum(file.rows or 0 for file, _ in live.values()):
        return Extra({}, wanted)
    left: Counter[int] = Counter()
    for copies in wanted.values():
        for copy in copies.values():
            left[copy.hash] += copy.many
    hidden: dict[str, BitMap64] = {}
    for path, (file, vector) in live.items():
        more, position = BitMap64(vector), 0
        for table in scan(file, [HASH]):
            for hashed in table.column(HASH).to_pylist():  # a step per row, but only of extra copies
                if position not in vector and left[hashed] > 0:
                    left[hashed] -= 1
                else:
                    more.add(position)
                position += 1
        if len(more) < (file.rows or 0):
            hidden[path] = more
    return Extra(hidden, _missing(wanted, left))


def _missing(wanted: Missing, left: Counter[int]) -> Missing:
    missing: dict[str, dict[int, Copies]] = {}
    for path, places in wanted.items():
        for place, (many, hashed) in places.items():
            count = min(many, left[hashed])
            if count:
                left[hashed] -= count
                missing.setdefault(path, {})[place] = Copies(count, hashed)
    return missing


def rows(
    missing: Missing, names: Sequence[str], files: Mapping[str, DataFile], scan: Scan
) -> Iterator[pa.Table]:
    """The rows to write, at most `AT_ONCE` at a time. Reads each file of the shard that has such a
    row from beginning to end.
    """
    for path, places in missing.items():
        positions = np.sort(np.fromiter(places, np.int64, len(places)))
        begin = 0
        for table in scan(files[path], [*names, HASH]):
            first, last = np.searchsorted(positions, [begin, begin + len(table)])
            here = positions[first:last]
            ends = np.cumsum([places[place].many for place in here.tolist()], dtype=np.int64)
            for done in range(0, int(ends[-1]) if len(ends) else 0, AT_ONCE):
                copies = np.arange(done, min(done + AT_ONCE, int(ends[-1])))
                yield table.take(pa.array(here[np.searchsorted(ends, copies, side="right")] - begin))
            begin += len(table)
