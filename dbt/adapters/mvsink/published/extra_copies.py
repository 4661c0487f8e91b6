"""Files of rows that a published table shows more often than the shard has records of them.

Such a file has the model's columns and the rows' hash. A change hides rows of it by a deletion
vector, as of other files, and writes a file with those that are missing. Once there are many files,
or half of their rows are hidden, all are written again.
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

DIRECTORY = "copies-"  # a directory below the table, whose name begins like this
MAX_FILES = 8
AT_ONCE = 100_000  # rows in memory


Missing = Mapping[str, Mapping[int, Copies]]  # by file of the shard, and position


@dataclass(frozen=True)
class Extra:
    """The live files that stay, with what is hidden in each, and what is missing beside them."""

    hidden: Mapping[str, BitMap64]
    missing: Missing


def is_extra(path: str) -> bool:
    """Whether a table's file is one of extra copies."""
    return path.startswith(DIRECTORY)


def fresh_path() -> str:
    """The path of a new file, below the table."""
    return f"{DIRECTORY}{uuid.uuid4().hex}/part-00000.parquet"


def compared(wanted: Missing, live: Mapping[str, tuple[DataFile, BitMap64]], scan: Scan) -> Extra:
    """What to hide in the ``live`` files, and what to write, so that they have what is ``wanted``.
    Reads the live files' hashes.
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
            for hashed in table.column(HASH).to_pylist():  # extra copies only
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
    """The missing copies, `AT_ONCE` at a time. Reads those files whole that have such rows."""
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
