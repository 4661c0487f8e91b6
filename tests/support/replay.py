"""Random histories of rows ``(h, id, v)``, in plain Python and as a shard's files for DuckDB.

One shard has many histories side by side, distinguished by ``h``, so that one statement is checked
on all of them. Rows repeat, ids and values may be NULL, and what is at or before `since` may have
been compacted.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, TIME
from dbt.adapters.mvsink.shard import Antichain, DataFile, ShardState
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.shard_sql.layout import layout_of

Row = tuple[Any, ...]
SCHEMA = pa.schema([("h", pa.int32()), ("id", pa.int32()), ("v", pa.string())])
PHYSICAL = pa.schema([*SCHEMA, (TIME, pa.int64()), (DIFF, pa.int64()), (ERROR, pa.string()), (HASH, pa.int64())])  # fmt: skip
STEP = 1_000  # ms between two times
T0 = 1_800_000_000_000


def histories(usual: int) -> int:
    """How many random histories a property is tested on: the environment may ask for more."""
    return int(os.environ.get("MVSINK_HISTORIES", usual))


def time(n: int) -> int:
    """The ``n``-th time, in ms."""
    return T0 + n * STEP


@dataclass
class Replay:
    """Updates ``(row, time, diff)`` at the times `time(0)` to `time(last)`."""

    updates: list[tuple[Row, int, int]]
    last: int

    def at(self, moment: int) -> Counter[Row]:
        """The collection as of ``moment`` (ms)."""
        rows: Counter[Row] = Counter()
        for row, when, diff in self.updates:
            if when <= moment:
                rows[row] += diff
        return +rows

    def shard(self, root: Path, since: int, chance: random.Random) -> tuple[ShardState, Layout]:
        """The same as files below ``root``; what is not after ``since`` (ms) may be compacted."""
        batches: list[list[tuple[Row, int, int]]] = [[] for _ in range(self.last + 1)]
        for row, when, diff in self.updates:
            batches[(when - T0) // STEP].append((row, when, diff))
        settled = (since - T0) // STEP + 1
        if chance.random() < 0.7:
            base = [(row, since, copies) for row, copies in sorted(self.at(since).items(), key=repr)]
            batches = [base, *batches[settled:]]
        files = [_written(root, batch) for batch in batches if batch]
        upper = Antichain.of(time(self.last) + 1)
        state = ShardState(1, UUID(int=1), SCHEMA, 7, Antichain.of(since), upper, files=tuple(files))
        sizes = {file.directory: {file.path: file.size} for file in files}
        return state, layout_of(state, str(root), lambda place: sizes[place], lambda file: PHYSICAL.names)


def _written(root: Path, batch: list[tuple[Row, int, int]]) -> DataFile:
    path = f"batches/{uuid4().hex}/part-0.parquet"
    columns = [*zip(*(row for row, _, _ in batch)), *zip(*((when, diff) for _, when, diff in batch))]
    empty = [[None] * len(batch)] * 2
    (root / path).parent.mkdir(parents=True)
    arrays = [pa.array(c, field.type) for c, field in zip([*columns, *empty], PHYSICAL)]
    pq.write_table(pa.table(arrays, schema=PHYSICAL), root / path)
    times, diffs = zip(*((when, diff) for _, when, diff in batch))
    size = (root / path).stat().st_size
    return DataFile(
        path, size, len(batch), min(times), max(times), min(diffs), max(diffs), errors=0, hashes=0
    )


def random_replay(chance: random.Random, histories: int, last: int = 6, *, unique: bool = False) -> Replay:
    """``unique``: at no time two rows of one ``(h, id)``."""
    updates: Counter[tuple[Row, int]] = Counter()
    for h in range(histories):
        rows: Counter[Row] = Counter()
        for n in range(last + 1):
            for _ in range(chance.choice((0, 1, 1, 2, 3)) if n else 3):
                row = (h, chance.choice((None, 1, 2, 3)), chance.choice((None, "", "a", "b", "NULL")))
                gone = [other for other in rows if other[1] == row[1]]
                if unique or chance.random() < 0.5:
                    for other in gone if unique else gone[:1]:
                        updates[other, n] -= rows[other]
                        del rows[other]
                if chance.random() < 0.8:
                    copies = 1 if unique else chance.choice((1, 1, 2))
                    rows[row] += copies
                    updates[row, n] += copies
    return Replay([(row, time(n), diff) for (row, n), diff in updates.items() if diff], last)
