"""A change feed: a shard's updates from a frontier on, step by step, in bounded memory.

```
frontier --Step [f0, f1)--Step [f1, f2)-- ... --> upper        again, as the upper moves
```

A step is the shortest interval that no file crosses, so with ordinary batches it is one run. Once
it is read, all updates before its upper are delivered. A step without files is an interval in which
nothing changed.

- A small step is consolidated and ordered by time.
- A large step is read file by file in tables of `CHUNK` rows. Equal updates may come several times,
  even with diffs that cancel; their sums are exact.

A step that has begun is complete even if the shard is compacted meanwhile: removed files are kept
for readers. Rows that another tool deletes from the shard's files are not updates and are not
delivered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.physical import ERROR, HASH, TIME
from dbt.adapters.mvsink.shard.errors import InvalidUsage
from dbt.adapters.mvsink.shard.frontier import Antichain
from dbt.adapters.mvsink.shard.read import ReadHandle, appended, is_first
from dbt.adapters.mvsink.shard.state import DataFile, ShardState
from dbt.adapters.mvsink.shard.updates import advance, between, consolidate, physical_schema

CHUNK = 20_000  # rows
SMALL_ROWS, SMALL_BYTES = 500_000, 64_000_000  # of a step that is consolidated in memory


class Compacted(InvalidUsage):
    """The updates from ``frontier`` on can no longer be distinguished: `since` is at or after
    it.
    """

    error_code = "MVS-214"

    def __init__(self, frontier: Antichain, since: Antichain, upper: Antichain):
        super().__init__(
            f"the changes from {frontier!r} on are compacted: complete from {since.step_forward()!r} to {upper!r}"
        )
        self.frontier, self.since, self.upper = frontier, since, upper


class Ahead(InvalidUsage):
    """Updates were delivered up to ``frontier``, but the shard ends before that, at ``upper``."""

    error_code = "MVS-215"

    def __init__(self, uri: str, frontier: Antichain, upper: Antichain):
        super().__init__(
            f"the position {frontier!r} is ahead of shard {uri}, whose upper is {upper!r}: its log was restored from a backup, or the position "
            "is not of this shard. Changes between the two would be skipped. Read the contents again, and the changes from there on"
        )
        self.frontier, self.upper = frontier, upper


class ErrorsRecorded(InvalidUsage):
    """A step has an error update: at ``time`` (ms) an error began or ended."""

    error_code = "MVS-216"

    def __init__(self, time: int, message: str):
        super().__init__(f"an error is recorded at {time}: {message}")
        self.time, self.message = time, message


@dataclass(frozen=True)
class Step:
    """The updates with ``lower <= time < upper``. With ``at``, all of them are moved to that time
    (ms), as a snapshot. ``schema`` has the data columns.
    """

    lower: Antichain
    upper: Antichain
    files: tuple[DataFile, ...]
    schema: pa.Schema
    at: int | None = None

    @property
    def small(self) -> bool:
        """Whether it is consolidated."""
        rows = [file.rows for file in self.files]
        return (
            None not in rows
            and sum(count or 0 for count in rows) <= SMALL_ROWS
            and sum(file.size for file in self.files) <= SMALL_BYTES
        )


def steps(state: ShardState, frontier: Antichain) -> list[Step]:
    """The steps from ``frontier`` to the upper of ``state``; none if the upper is not past it."""
    if not frontier.less_than(state.upper):
        return []
    first, end = frontier.stored(), state.upper.stored()
    spans = [(*_span(file, first, end), file) for file in state.files if _reaches(file, first, end)]
    cuts: list[tuple[int, list[DataFile]]] = []  # the last time of a step, its files
    for earliest, latest, file in sorted(spans, key=lambda span: (span[0], span[1], span[2].path)):
        if cuts and earliest <= cuts[-1][0]:
            cuts[-1] = (max(latest, cuts[-1][0]), [*cuts[-1][1], file])
        else:
            cuts.append((latest, [file]))
    result = []
    for number, (latest, files) in enumerate(cuts or [(end - 1, [])]):
        upper = end if number >= len(cuts) - 1 else latest + 1
        result.append(Step(Antichain.of(first), Antichain.of(upper), tuple(files), state.schema))
        first = upper
    return result


def snapshot_step(state: ShardState, as_of: int) -> Step:
    """The contents as of ``as_of`` (ms), as updates at that time."""
    early = [file for file in state.files if file.min_time is None or file.min_time <= as_of]
    files = tuple(sorted(early, key=lambda file: (file.min_time or 0, file.path)))  # rows before deletions
    upper = Antichain.of(as_of).step_forward()
    return Step(Antichain.of(0), upper, files, state.schema, as_of)


class Feed:
    """A reader's way through the updates of one generation of a shard."""

    def __init__(self, reader: ReadHandle):
        self.reader = reader

    def state(self, frontier: Antichain, *, snapshot: bool = False, delivered: bool = False) -> ShardState:
        """The newest version, from which updates from ``frontier`` on can be read, or for a
        ``snapshot`` the contents at that time.

        Raises `Compacted`, `ShardReplaced` for a new generation, and `Ahead` if everything before
        ``frontier`` was ``delivered`` but the upper is now before it.
        """
        # The lease first, so that no later commit releases what is needed.
        state = self.reader.keep(frontier.step_forward() if snapshot else frontier)
        since = self.reader.lease.since(state.since)
        if delivered and state.upper.less_than(frontier):
            raise Ahead(self.reader.uri, frontier, state.upper)
        exact = since.less_than(frontier) or is_first(state, since, frontier.stored())
        if not (exact or (snapshot and since == frontier)):
            raise Compacted(frontier, since, state.upper)
        return state

    def tables(self, state: ShardState, step: Step, *, errors: bool) -> Iterator[pa.Table]:
        """The updates of a step of ``state``: data columns, `_mv_time`, `_mv_diff`, `_mv_error`.

        If the step has error updates, raises `ErrorsRecorded` before the first table; with
        ``errors``, delivers them instead.
        """
        for file in step.files:
            self.reader.require_whole(file)
        if not errors:
            self._refuse_errors(state, step)
        if step.small:
            whole = pa.concat_tables(
                [physical_schema(step.schema).empty_table(), *self._read(state, step, errors)]
            )
            table = consolidate(whole).drop_columns([HASH]).sort_by(TIME)
            yield from (table.slice(start, CHUNK) for start in range(0, table.num_rows, CHUNK))
        else:
            for table in self._read(state, step, errors):
                yield table.drop_columns([HASH])

    def _read(
        self, state: ShardState, step: Step, errors: bool, schema: pa.Schema | None = None
    ) -> Iterator[pa.Table]:
        """The updates of the step, table by table; error updates only with ``errors``."""
        for file in step.files:
            self.reader.keep(step.lower if step.at is None else step.upper)
            for table in self.reader.storage.scan(file, schema or physical_schema(step.schema), CHUNK):
                rows = between(table.filter(appended(table, state)), step.lower, step.upper)
                rows = rows if errors else rows.filter(pc.is_null(rows.column(ERROR)))
                if rows.num_rows:
                    yield rows if step.at is None else advance(rows, step.at)

    def _refuse_errors(self, state: ShardState, step: Step) -> None:
        suspects = [file for file in step.files if file.errors != 0]
        if not suspects:
            return
        narrow = Step(step.lower, step.upper, tuple(suspects), step.schema, step.at)
        schema = physical_schema(pa.schema([]))
        tables = [
            table.filter(pc.is_valid(table.column(ERROR)))
            for table in self._read(state, narrow, True, schema)
        ]
        recorded = consolidate(pa.concat_tables([schema.empty_table(), *tables])).sort_by(TIME)
        for row in recorded.slice(0, 1).to_pylist():
            raise ErrorsRecorded(row[TIME], row[ERROR])


def _span(file: DataFile, first: int, end: int) -> tuple[int, int]:
    earliest = first if file.min_time is None else max(file.min_time, first)
    latest = end - 1 if file.max_time is None else min(file.max_time, end - 1)
    return earliest, latest


def _reaches(file: DataFile, first: int, end: int) -> bool:
    earliest, latest = file.min_time, file.max_time
    return (earliest is None or earliest < end) and (latest is None or latest >= first)
