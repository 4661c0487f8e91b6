"""Random histories of shards that are published as tables, read by other engines after every step:
`python -m tests.long.published_tables --count 1000`.

A history draws appends, equal rows, errors and their end, compactions of some or all files, rows
without hashes, new generations, commits of other tools to the table, lost vectors, and publications
that are killed at each point or meet another one. What the table has to show is kept here as a
multiset. It can be stopped at any time, and the same command goes on (`kept`).
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.physical import HASH
from dbt.adapters.mvsink.published import TableDocs, publish, table_of, unpublish
from dbt.adapters.mvsink.published.shown_rows import Computed
from dbt.adapters.mvsink.shard import Antichain, CompactionPlan, ShardClient
from dbt.adapters.mvsink.shard.directories import uncancelled
from dbt.adapters.mvsink.shard.maintenance import compact_with_pyarrow
from dbt.adapters.mvsink.shard.updates import physical_schema
from tests.long.kept import arguments
from tests.long.published_rows import FewColumns, ManyColumns, hash_of
from tests.support.table_readers import READERS, by_deltalake, hashable

DEFECTS = ("wrong",)
POINTS = ("table to be committed", "table committed")
FEW = FewColumns()


class Killed(BaseException):
    """What a killed process does not get past."""


class History:
    """One shard at ``uri``, its table, and the ``rows`` that both must have. ``store``: the options
    of an object store, in which no other tool writes.
    """

    steps = 25
    keeps: Sequence[int] = (0, 0, 3)  # how far back the shard can be read

    def __init__(
        self,
        uri: str,
        chance: Random,
        store: dict[str, str] | None = None,
        content: FewColumns | ManyColumns = FEW,
    ):
        self.chance, self.uri, self.table, self.content = chance, uri, f"{uri}/table", content
        self.schema = content.schema
        self.handle = ShardClient(store).open_writer(uri, self.schema)
        self.format = table_of(self.handle)
        self.readers: dict[str, Callable[..., Counter]] = dict(READERS)
        if store is not None:
            self.readers = {"deltalake": partial(by_deltalake, options=store)}
        self.order = [*self.schema.names]
        chance.shuffle(self.order)
        self.rows: Counter = Counter()
        self.shown: Counter | None = None  # None: nothing yet; while an error is live, what was before
        self.last: Counter = Counter()
        self.failed, self.time = False, 0
        self.kinds: dict[Callable[[], object], float] = {
            self.append: 8,
            self.many: 1,
            self.without_hashes: 1,
            self.error: 1,
            self.healed: 2,
            self.compact_all: 1,
            self.compact_some: 1,
            self.generation: 1,
            self.thousands: 0.3,
            self.nothing: 1,
            self.undone: 1,
            **({} if store else self._others()),
            self.killed: 2,
            self.met: 1,
            self.unpublished: 1,
        }

    def _others(self) -> dict[Callable[[], object], float]:
        """What other tools do, and what is lost."""
        return {
            self.foreign_delete: 1,
            self.foreign_insert: 1,
            self.foreign_optimize: 1,
            self.foreign_vacuum: 1,
            self.vacuum_of_the_shard: 1,
            self.lost_vectors: 1,
        }

    def run(self) -> list[str]:
        """`wrong: ...`, or the steps that were right, in no order."""
        observed = set()
        for _ in range(self.steps):
            [step] = self.chance.choices(list(self.kinds), list(self.kinds.values()))
            done = step()
            self.publish()
            if problem := self.difference():
                return [f"wrong: after {step.__name__}, {problem}"]
            if isinstance(done, list):  # what exactly was done
                observed.update(done)
            else:
                observed.add(step.__name__ if done is not False else f"{step.__name__}, nothing to do")
        self._finish()
        self.publish()
        if problem := self.difference():
            return [f"wrong: after its end, {problem}"]
        self.handle.expire()
        return sorted(observed)

    def publish(self) -> None:
        publish(self.handle, self.order, TableDocs(columns={"id": "the key"}), self._hashes, self.format)

    def difference(self) -> str:
        """What a reader of the table sees that it must not; empty if all are right."""
        if self.handle.state().readable and not self.failed:
            self.shown = +self.rows
        if self.shown is None:
            return ""
        places = [self.schema.names.index(name) for name in self.order]
        wanted: Counter = Counter()
        for key, many in self.shown.items():
            values = self.content.values(key)
            wanted[tuple(hashable(values[place]) for place in places)] += many
        for name, read in self.readers.items():
            rows = read(self.table)
            if rows != wanted:
                return f"{name} lacks {wanted - rows} and has {rows - wanted}"
        return ""

    # what may happen

    def nothing(self) -> None:
        """An empty change: time passes."""
        self._append([])

    def thousands(self) -> None:
        """Copies of one row in one record, most of which go again."""
        key, more = self.content.key(self.chance), self.chance.randrange(1000, 5000)
        for diff in (more, 3 - more):
            self._append([(key, diff, None)])
            self.rows[key] += diff
            self.publish()

    def undone(self) -> bool:
        """The last change, backwards."""
        back = [(key, -diff, None) for key, diff in self.last.items() if diff]
        if any(self.rows[key] + diff < 0 for key, diff, _ in back):
            return False
        self._append(back)
        self.rows = +Counter({key: self.rows[key] - self.last[key] for key in {*self.rows, *self.last}})
        self.last = Counter()
        return True

    def foreign_insert(self) -> bool:
        """Rows that the table has already, in a file of the other tool's."""
        if self.shown is None or self.failed:
            return False
        key = self.content.key(self.chance)
        arrays = [
            pa.array([value], field.type) for value, field in zip(self.content.values(key), self.schema)
        ]
        rows = pa.table(arrays, schema=self.schema).select(self.order)
        write_deltalake(self.table, rows, mode="append")
        return True

    def foreign_vacuum(self) -> bool:
        """With its own defaults, which take nothing."""
        if self.shown is None or self.failed:
            return False
        table, place = DeltaTable(self.table), Path(self.table)
        before = {file for file in place.rglob("*.*") if "_delta_log" not in file.parts}
        table.vacuum(dry_run=False, full=self.chance.random() < 0.5)
        if lost := before - {*place.rglob("*.*")}:
            raise AssertionError(f"VACUUM took {lost}")
        return True

    def vacuum_of_the_shard(self) -> None:
        """A full one, without any retention: it takes the table's log and vectors, too."""
        shard = DeltaTable(self.uri)
        shard.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
        if self.failed:  # the table shows what was before the error, or nothing
            self.shown = None

    def append(self) -> None:
        self._change(self.chance.randrange(1, 8))

    def many(self) -> None:
        self._change(300)

    def without_hashes(self) -> None:
        self._change(self.chance.randrange(1, 5), hashed=False)

    def error(self) -> bool:
        if not self.failed:
            self._append([(None, 1, "boom")])
            self.failed = True
            return True
        return False

    def healed(self) -> bool:
        if self.failed:
            self._append([(None, -1, "boom")])
            self.failed = False
            return True
        return False

    def compact_all(self) -> bool:
        state = self.handle.state()
        if not state.readable or not state.files:
            return False
        return compact_with_pyarrow(self.handle, CompactionPlan(uncancelled(state.files), state.since))

    def compact_some(self) -> bool:
        state = self.handle.state()
        if not state.readable or len(state.files) < 4:
            return False
        some = tuple(self.chance.sample(list(state.files), 2))
        return compact_with_pyarrow(self.handle, CompactionPlan(some, state.since, False))

    def generation(self) -> bool:
        if self.chance.random() < 0.5:
            return False
        self.rows, self.failed = Counter(), False
        at = self.time = self.time + 1
        rows = Counter(self.content.key(self.chance) for _ in range(self.chance.randrange(0, 20)))
        batches = self._staged([(row, many, None) for row, many in rows.items()], at, Antichain.of(0))
        self.handle.replace(batches, self.schema, Antichain.of(at + 1), Antichain.of(at), creation=at)
        self.rows = rows
        return True

    def foreign_delete(self) -> bool:
        if self.shown is None or self.failed:  # which is undone once there is no error any more
            return False
        DeltaTable(self.table).delete(f"id < {self.chance.randrange(10)}")
        return True

    def foreign_optimize(self) -> bool:
        if self.shown is None or self.failed:  # which is undone once there is no error any more
            return False
        DeltaTable(self.table).optimize.compact()
        return True

    def lost_vectors(self) -> bool:
        if self.failed:
            return False
        table = Path(self.table)
        lost = [*(table / "_vectors").glob("*.bin"), *table.glob("copies-*/*.parquet")]
        for file in lost:
            file.unlink()
        return bool(lost)

    def killed(self) -> None:
        """A publication ends at a point; so does the next one, sometimes."""
        self.append()
        for _ in range(self.chance.choice([1, 1, 2])):
            point = self.chance.choice(POINTS)
            failpoints.install(lambda reached, point=point: _kill(reached == point))
            try:
                self.publish()
            except Killed:
                pass
            finally:
                failpoints.install(None)

    def met(self) -> None:
        """Another run publishes a later version while one is about to commit."""
        self.append()

        def other(reached: str) -> None:
            failpoints.install(None)
            self.append()
            self.publish()

        failpoints.install(other)
        try:
            self.publish()
        finally:
            failpoints.install(None)

    def unpublished(self) -> None:
        unpublish(self.handle, self.format)
        if self.failed:
            self.shown = None

    # how

    def _finish(self) -> None:
        """No more updates will come."""
        state = self.handle.state()
        self.handle.compare_and_append_batch([], state.upper, Antichain.empty())

    def _change(self, number: int, *, hashed: bool = True) -> None:
        delta: Counter = Counter()
        for _ in range(number):
            row = self.content.key(self.chance)
            left = self.rows[row] + delta[row]
            if left > 0 and self.chance.random() < 0.6:
                delta[row] -= self.chance.randint(1, left)
            else:
                delta[row] += self.chance.choice([1, 1, 1, 2, 3, 5])
        self._append([(row, diff, None) for row, diff in delta.items() if diff], hashed=hashed)
        self.rows.update(delta)
        self.rows, self.last = +self.rows, delta

    def _append(self, updates: list, *, hashed: bool = True) -> None:
        state = self.handle.state()
        first = self.time + 1
        at = self.time = first + self.chance.choice([0, 0, 2])
        upper, since = Antichain.of(at + 1), Antichain.of(max(0, at - self.chance.choice(self.keeps)))
        batches = self._staged(updates, at, state.upper, hashed=hashed, first=first)
        done = self.handle.compare_and_append_batch(batches, state.upper, upper, since=since)
        if done.maintenance.compact is not None and self.chance.random() < 0.7:
            compact_with_pyarrow(self.handle, done.maintenance.compact)

    def _staged(
        self, updates: list, at: int, lower: Antichain, *, hashed: bool = True, first: int | None = None
    ) -> list:
        """A batch at the times from ``first``; some rows come and go at times before the last. If
        it is not ``hashed``, about half of its updates have no hash.
        """
        if not updates:
            return []
        timed = [(key, at, diff, error) for key, diff, error in updates]
        for time in range(at if first is None else first, at):
            some = self.chance.choice(updates)
            if some[0] is not None:
                timed += [(some[0], time, 2, None), (some[0], time + 1, -2, None)]
        keys, times, diffs, errors = zip(*timed)
        nothing = (None,) * len(self.schema)
        rows = [nothing if key is None else self.content.values(key) for key in keys]
        columns = [*zip(*rows), times, diffs, errors]
        hashes = [hash_of(row) if hashed or self.chance.random() < 0.5 else None for row in rows]
        physical = physical_schema(self.schema)
        arrays = [pa.array(each, field.type) for each, field in zip([*columns, hashes], physical)]
        table = pa.table(arrays, schema=physical)
        return [self.handle.adopt(self.handle.write_staged(table), lower, Antichain.of(at + 1))]

    def _hashes(self, layout, directories) -> dict:
        """Of the rows that have none."""
        schema = pa.schema([*self.schema, (HASH, pa.int64())])
        lacking = {}
        for file in (file for each in directories for file in each.files):
            rows = [[*row.values()] for row in self.handle.columns_of(file, schema).to_pylist()]
            pairs = [(n, hash_of(row)) for n, (*row, stored) in enumerate(rows) if stored is None]
            arrays = np.array(pairs, np.int64).reshape(-1, 2)
            lacking[file.path] = Computed(arrays[:, 0], arrays[:, 1])
        return lacking


def _kill(here: bool) -> None:
    if here:
        raise Killed


def outcomes(seed: int) -> list[str]:
    """Of one history."""
    chance = Random(seed)
    content = ManyColumns(chance) if chance.random() < 0.25 else FEW
    with tempfile.TemporaryDirectory() as place:
        return History(f"{place}/shard", chance, content=content).run()


def main() -> int:
    kept, _ = arguments("published_tables", 1000)
    kept.run(outcomes, DEFECTS)
    return kept.conclude(DEFECTS)


if __name__ == "__main__":
    sys.exit(main())
