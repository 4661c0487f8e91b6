"""Reading a shard: facts about its log and files, snapshots, updates, and a listener.

Reads are exact for ``since <= as_of < upper``. A reader has a lease on what it reads (`leases`).

    with client.open_reader(uri) as reader:
        rows = reader.snapshot(as_of)
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.physical import DIFF, HASH, TIME
from dbt.adapters.mvsink.shard import commit_loop
from dbt.adapters.mvsink.shard.commit_log import Commit
from dbt.adapters.mvsink.shard.errors import InvalidUsage
from dbt.adapters.mvsink.shard.frontier import Antichain, check_time
from dbt.adapters.mvsink.shard.generations import PastGeneration, readable_generations
from dbt.adapters.mvsink.shard.leases import Lease
from dbt.adapters.mvsink.shard.state import ROOTS, DataFile, ShardState, check_generation
from dbt.adapters.mvsink.shard.storage import Storage, is_part
from dbt.adapters.mvsink.shard.updates import advance, between, consolidate, physical_schema

POLL = 0.05  # seconds
FEW = 20  # commits; the newest run is nearly always among them


class Handle:
    """What readers and writers of a shard share."""

    storage: Storage

    @property
    def uri(self) -> str:
        """Where the shard is."""
        return self.storage.uri

    def progress(self, input_id: str) -> int | None:
        """The newest progress on an input that an append recorded; None if none did."""
        return self.storage.progress(input_id)

    def history(self, newest: int | None = None) -> list[Commit]:
        """The commits still in the log, oldest first; only the ``newest`` so many if given."""
        return self.storage.history(newest)

    def kept_generations(self, state: ShardState) -> tuple[PastGeneration, ...]:
        """The generations before ``state``'s that can still be read, oldest first; by this
        machine's clock, because a reader writes nothing, and to ask for the storage's takes a file.
        """
        return readable_generations(state, wall_clock.now_ms(), self.state_at)

    def last_of(self, generation: int) -> ShardState | None:
        """The newest version of a ``generation``, by binary search: their numbers only grow. None
        if the log no longer has it. Its files may be gone.
        """
        versions = [commit.version for commit in self.history()]
        newest: ShardState | None = None
        low, high = 0, len(versions)
        while low < high:
            middle = (low + high) // 2
            state = self.state_at(versions[middle])
            if state is None or state.generation <= generation:
                newest, low = state or newest, middle + 1
            else:
                high = middle
        return newest if newest is not None and newest.generation == generation else None

    def holds_before(self, state: ShardState) -> dict[str, int]:
        """The holds of those that may not have read ``state``'s generation yet, by holder (ms).
        They need the files of the one before it, to learn what the new one has changed.
        """
        last = self.last_of(state.generation - 1) if state.generation else None
        if last is None:  # the log no longer has it, and its files went long ago
            return {}
        return {name: time for name, time in state.holds.items() if Antichain.of(time).less_than(last.upper)}

    def newest_run(self) -> Commit | None:
        """The newest commit of a run, which moved the upper; None if the log no longer has one."""
        for newest in (FEW, None):
            commits = self.history(newest)
            run = next((commit for commit in reversed(commits) if commit.is_run), None)
            if run is not None or len(commits) < FEW:
                return run
        return None

    def state_at(self, version: int) -> ShardState | None:
        """An earlier version, of any generation; None if it was cleaned up. Its files may be
        gone.
        """
        return self.storage.load_at(version)

    def files_in(self, *directories: str) -> dict[str, int]:
        """The data files in these directories of batches (or in all), live or not, with sizes in
        bytes.
        """
        listed = [file for directory in directories or ROOTS for file in self.storage.list_files(directory)]
        return {file.path: file.size for file in listed if is_part(file.path)}

    def first_rows(self, file: DataFile, schema: pa.Schema, rows: int) -> pa.Table:
        """These columns of the first ``rows`` rows of a live file."""
        return self.storage.read(file, schema, rows)

    def columns_of(self, file: DataFile, schema: pa.Schema) -> pa.Table:
        """These columns of a live file, read into memory: they must be narrow or have few rows."""
        return self.storage.read(file, schema)

    def find(self, file: DataFile, schema: pa.Schema, where: pc.Expression, rows: int) -> pa.Table:
        """These columns of the rows of a live file that satisfy ``where``, at most ``rows``."""
        return self.storage.find(file, schema, where, rows)

    def column_names(self, file: DataFile) -> Sequence[str]:
        """The columns that a live file physically has."""
        return self.storage.column_names(file)


class ReadHandle(Handle):
    """A reader of one shard. Its first read takes a lease, which `expire` releases."""

    def __init__(self, storage: Storage, opened: ShardState):
        self.storage = storage
        self.shard_id = opened.shard_id
        self.lease = Lease(storage)
        self.schema = opened.schema
        self.generation = opened.generation
        self._state = opened

    @property
    def since(self) -> Antichain:
        """The read frontier this handle last saw; no I/O."""
        return self._state.since

    @property
    def upper(self) -> Antichain:
        """The write frontier this handle last saw; no I/O."""
        return self._state.upper

    def state(self) -> ShardState:
        """The newest version. Raises `ShardReplaced` if it is of another generation."""
        state = commit_loop.load(self.storage)
        check_generation(state, self.uri, self.generation)
        self._state = state
        return state

    def snapshot(self, as_of: int) -> pa.Table:
        """The collection at ``as_of`` (ms), consolidated: data columns, `_mv_error`, `_mv_diff`."""
        state = self._readable(as_of, as_of + 1)
        table = self._updates(state, Antichain.of(0), Antichain.of(as_of).step_forward())
        rows = consolidate(advance(table, as_of))
        return rows.drop_columns([TIME, HASH])

    def updates(self, lower: int, upper: int) -> pa.Table:
        """Consolidated updates with ``lower <= time < upper`` (ms): data columns, `_mv_time`,
        `_mv_diff`, `_mv_error`.

        `InvalidUsage` if ``lower`` is not after `since`: a compaction may have moved earlier
        updates there, depending on when it ran.
        """
        state = self._readable(lower, upper)
        check_exact(state, self.lease.since(state.since), lower)
        return consolidate(self._updates(state, Antichain.of(lower), Antichain.of(upper))).drop_columns(
            [HASH]
        )

    def listen(self, as_of: int) -> Iterator[tuple[pa.Table, Antichain]]:
        """Updates after ``as_of`` (ms), as the upper moves: tables, each with the frontier up to
        which the updates are complete. Ends when the shard's upper is empty.
        """
        frontier = Antichain.of(as_of).step_forward()
        self._readable(as_of, as_of + 1)
        while not frontier.is_empty():
            state = self.keep(frontier)
            since = self.lease.since(state.since)
            if frontier.less_equal(since):  # compaction may have moved older updates up to it
                raise InvalidUsage(
                    f"cannot listen from {frontier!r}: the readable times are [{since!r}, {state.upper!r})"
                )
            if state.upper.less_than(frontier):
                raise InvalidUsage(
                    f"cannot listen from {frontier!r}: the upper of {self.uri} was that and is {state.upper!r} now; its log was restored "
                    "from a backup. Read a snapshot, and listen from there on"
                )
            if frontier.less_than(state.upper):
                table = consolidate(self._updates(state, frontier, state.upper)).drop_columns([HASH])
                frontier = state.upper
                yield table, frontier
            else:
                time.sleep(POLL)

    def files(self, as_of: int | None = None) -> Sequence[DataFile]:
        """The live files, for an engine to read; `InvalidUsage` if ``as_of`` is not readable."""
        return (self.state() if as_of is None else self._readable(as_of, as_of + 1)).files

    def expire(self) -> None:
        """Release the lease."""
        self.lease.release()

    def __enter__(self) -> ReadHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.expire()

    def _readable(self, lower: int, upper: int) -> ShardState:
        check_time(lower)
        state = self._leased(Antichain.of(lower))
        since = self.lease.since(state.since)
        readable = since.stored() <= lower and (state.upper.is_empty() or upper <= state.upper.stored())
        if not readable or upper < lower:
            wanted = f"as of {lower}" if upper == lower + 1 else f"[{lower}, {upper})"
            raise InvalidUsage(f"cannot read {wanted}: the readable times are [{since!r}, {state.upper!r})")
        return state

    def _leased(self, frontier: Antichain) -> ShardState:
        """The newest version, read after this reader has a lease on history from ``frontier`` on.
        No lease is taken on history that is gone.
        """
        state = self.state()
        if self.lease.covers(frontier) or not self.lease.since(state.since).less_equal(frontier):
            return state
        self.lease.take(frontier)
        return self.state()

    def _updates(self, state: ShardState, lower: Antichain, upper: Antichain) -> pa.Table:
        """Updates of the live files. Like the view, it leaves out rows that cannot have been
        appended.
        """
        schema = physical_schema(state.schema)
        tables = [schema.empty_table()]
        for file in state.files:
            outside = file.min_time is not None and not upper.is_empty() and file.min_time >= upper.stored()
            if not outside:
                self.require_whole(file)
                table = self.storage.read(file, schema)
                tables.append(between(table.filter(appended(table, state)), lower, upper))
        return pa.concat_tables(tables)

    def require_whole(self, file: DataFile) -> None:
        """`InvalidUsage` for a file of which another engine has deleted rows in place."""
        if file.deletion_vector:
            raise InvalidUsage(
                f"another engine left a deletion vector on {file.path} of shard {self.uri}; its rows cannot be distinguished here"
            )

    def keep(self, frontier: Antichain) -> ShardState:
        """Take a lease on the history that updates at or after ``frontier`` need, if it is still
        there; returns the newest version, read after that.
        """
        return self._leased(Antichain.of(max(0, frontier.stored() - 1)))


def check_exact(state: ShardState, since: Antichain, lower: int) -> None:
    """`InvalidUsage` unless the updates from ``lower`` (ms) on are those that were appended."""
    if since.stored() < lower or is_first(state, since, lower):
        return
    raise InvalidUsage(
        f"cannot read the updates from {lower} on: since is {since!r}, and compaction may move earlier updates to it. Read a snapshot as of "
        f"{lower}, and the updates from {lower + 1} on"
    )


def is_first(state: ShardState, since: Antichain, lower: int) -> bool:
    """Whether `since` has never moved past ``lower``, so that nothing was merged there."""
    return since.stored() == lower and lower in (0, state.creation)


def appended(table: pa.Table, state: ShardState) -> pa.ChunkedArray:
    """Which rows an append can have written; others are not updates."""
    kept = pc.and_(pc.greater_equal(table.column(TIME), 0), pc.not_equal(table.column(DIFF), 0))
    if not state.upper.is_empty():
        kept = pc.and_(kept, pc.less(table.column(TIME), state.upper.stored()))
    return pc.fill_null(kept, False)
