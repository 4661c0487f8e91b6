"""Binds a table with versions to times: which version it had at which time.

For an input that is not a shard, a companion shard records which version, or which files, were
bound to which time. One `advance` is one binding: the companion's upper moves past the run's time,
with new changes bound at times before it. The replica whose compare-and-append wins decides, so all
replicas see the same version or files at the same time; the losers reload and retry.

The collection of a table's companion at a time is one row: the version bound then. In a run at
``T``, ``k`` new versions take the times ``T-k+1 .. T``. Only times that are not before the
companion's upper are free; if they are too few, the oldest versions share one. The first binding
has only the newest version, at the run's time: the whole table is the change then.
"""

from __future__ import annotations

import bisect
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import pyarrow as pa

from dbt.adapters.mvsink.engine import Column, Engine, sql
from dbt.adapters.mvsink.inputs.described import check_zone, keep_zone
from dbt.adapters.mvsink.inputs.errors import TableReplaced, UnreadableVersion
from dbt.adapters.mvsink.inputs.protocol import PendingTime, Table, TableVersion, VersionedTable
from dbt.adapters.mvsink.inputs.shard import ShardInput
from dbt.adapters.mvsink.physical import DIFF, ERROR, TIME
from dbt.adapters.mvsink.shard import (
    Antichain,
    Batch,
    CommitNote,
    CompactionPlan,
    Maintenance,
    ShardClient,
    ShardState,
    UpperMismatch,
    WriteHandle,
    compact_with_pyarrow,
    perform_maintenance,
)
from dbt.adapters.mvsink.shard.updates import consolidate, physical_schema
from dbt.adapters.mvsink.shard_sql import as_of

VERSIONS = pa.schema([("version", pa.int64()), ("table_id", pa.string())])


@dataclass(frozen=True)
class Binding:
    """From ``time`` (ms) on, until the next one, the table is at ``version``."""

    time: int
    version: TableVersion


@dataclass(frozen=True)
class Bindings:
    """All bindings of a companion, in the order of their times."""

    bound: tuple[Binding, ...]

    @property
    def newest(self) -> TableVersion | None:
        return self.bound[-1].version if self.bound else None

    def at(self, time: int) -> TableVersion | None:
        """The version at ``time``; None before the first one."""
        index = bisect.bisect_right([binding.time for binding in self.bound], time)
        return self.bound[index - 1].version if index else None

    def between(self, lower: int, upper: int) -> list[tuple[int, int | None, int]]:
        """For each binding in ``[lower, upper)``: its time, the version before it, and its
        version.
        """
        numbers = [None, *(binding.version.version for binding in self.bound)]
        bound = zip(self.bound, numbers)
        return [(b.time, before, b.version.version) for b, before in bound if lower <= b.time < upper]


def assign_times(unseen: Sequence[int], upper: int, time: int) -> dict[int, int]:
    """The version to bind at each time. ``unseen`` are versions in order; times range from
    ``upper``, the first free one, to the run's ``time``.

    >>> assign_times([7, 8, 9], 100, 200)
    {198: 7, 199: 8, 200: 9}
    >>> assign_times([6, 7, 8, 9], 199, 200)
    {199: 8, 200: 9}
    """
    times: dict[int, int] = {}
    for position, version in enumerate(unseen):
        # where several share a time, the newest one remains
        times[max(upper, time - (len(unseen) - 1 - position))] = version
    return times


def bindable(versions: VersionedTable, engine: Engine) -> Table:
    """A table with versions as a `Table`, which binding turns into an input."""
    return Table(
        versions.id,
        lambda: versions.columns(versions.newest().version),
        lambda time, client, uri: bind_versions(versions, time, client, uri, engine),
    )


def bind_versions(
    table: VersionedTable, time: int, client: ShardClient, uri: str, engine: Engine
) -> BoundVersions:
    """The table's changes at exact times. All versions up to now are bound at times up to ``time``
    (ms) in the companion at ``uri``.

    Raises `TableReplaced`, `UnreadableVersion`, `ZoneChanged` and what `VersionedTable.newest`
    raises; then nothing is bound.
    """
    handle = client.open_writer(uri, VERSIONS, f"input({table.id})")

    def stage(state: ShardState) -> list[Batch]:
        newest = table.newest()  # after the state was read, so it is no older than what is bound
        current = read_bindings(handle, state).newest
        times = assign_times(_unseen(table, current, newest), state.upper.stored(), time)
        if not times:
            return []
        if any(map(table.zoned, times.values())):
            keep_zone(handle, engine)
        rows: list[tuple[int, str, int, int]] = []
        for at, version in times.items():
            rows += [(current.version, current.table_id, at, -1)] if current else []
            current = TableVersion(version, newest.table_id)
            rows.append((version, newest.table_id, at, 1))
        names = [*VERSIONS.names, TIME, DIFF]
        updates = pa.table([pa.array(column) for column in zip(*rows)], names=names)
        return [handle.batch(updates, state.upper, Antichain.of(time).step_forward())]

    def still_zoned() -> bool:
        bound = read_bindings(handle, handle.state()).newest
        return bound is not None and _is_readable(table, bound.version) and table.zoned(bound.version)

    check_zone(handle, engine, table.id, still_zoned)
    advance(handle, time, stage, lambda plan: compact_with_pyarrow(handle, plan))
    return BoundVersions(table, handle, engine)


def _unseen(table: VersionedTable, bound: TableVersion | None, newest: TableVersion) -> list[int]:
    """The versions to bind. An unreadable version is skipped if a later one can be read; its
    changes are then part of that version's.
    """
    if bound is None:
        table.check(newest.version)
        return [newest.version]
    another = bound.table_id and newest.table_id and bound.table_id != newest.table_id
    if another and not table.continues(bound):
        raise TableReplaced(table.location, bound.version, newest.version)
    unseen = table.between(bound.version, newest.version)
    if unseen:
        table.check(newest.version)
    return [version for version in unseen if _is_readable(table, version)]


def _is_readable(table: VersionedTable, version: int) -> bool:
    try:
        table.check(version)
    except UnreadableVersion:
        return False
    return True


def read_bindings(handle: WriteHandle, state: ShardState) -> Bindings:
    """The bindings that the companion holds at ``state``: a few rows, read without the engine."""
    schema = physical_schema(state.schema)
    tables = [schema.empty_table(), *(handle.storage.read(file, schema) for file in state.files)]
    rows = consolidate(pa.concat_tables(tables)).to_pylist()
    bound = [
        Binding(row[TIME], TableVersion(row["version"], row["table_id"])) for row in rows if row[DIFF] > 0
    ]
    return Bindings(tuple(sorted(bound, key=lambda binding: binding.time)))


class BoundVersions(ShardInput):
    """See `Input`: a table with versions at the times that its companion binds. Frontier,
    generation and holds are the companion's.
    """

    def __init__(self, table: VersionedTable, handle: WriteHandle, engine: Engine):
        super().__init__(handle, engine, table.id)
        self.table = table
        self._writer_of_bindings = handle

    @property
    def columns(self) -> tuple[Column, ...]:
        return self._columns(self.handle.state())

    def pending(self, lower: int, upper: int) -> list[PendingTime]:
        state = self.require_changes(lower, upper)
        pending, uncertain = [], []
        for time, before, after in self._bindings(state).between(lower, upper):
            signs = self.table.signs(before, after)
            if all(signs):
                uncertain.append((time, before, after))
            elif any(signs):
                pending.append(PendingTime(time, inserts=signs.added, deletes=signs.removed))
        if uncertain:
            query = as_of.times_of(self._updates(uncertain, self._columns(state)))
            pending += PendingTime.of_rows(self.engine.query(query, "pending"))
        return sorted(pending, key=lambda each: each.time)

    def changes(self, lower: int, upper: int) -> str:
        state = self.require_changes(lower, upper)
        return self._updates(self._bindings(state).between(lower, upper), self._columns(state))

    def contents(self, time: int) -> str:
        return self._at(time)

    def snapshot(self, time: int) -> str:
        return self._at(time, f"{sql.bigint(time)} {TIME}, 1L {DIFF}, cast(null as string) {ERROR}")

    def _at(self, time: int, more: str = "") -> str:
        state = self.require_readable(time)
        version = self._bindings(state).at(time)
        assert version is not None  # the companion is readable from its first binding on
        return self.table.contents(version.version, self._columns(state), more)

    def _updates(self, bound: Sequence[tuple[int, int | None, int]], columns: tuple[Column, ...]) -> str:
        items = sql.columns(column.name for column in columns)
        queries = []
        for time, before, after in bound:
            query = self.table.changes(before, after, columns)
            if query is not None:
                update = f"{items}, {sql.bigint(time)} {TIME}, {DIFF}, cast(null as string) {ERROR}"
                queries.append(f"select {update} from (\n{query}\n)")
        return sql.union_all(queries) or as_of.no_updates(columns)

    def _bindings(self, state: ShardState) -> Bindings:
        return read_bindings(self._writer_of_bindings, state)

    def _columns(self, state: ShardState) -> tuple[Column, ...]:
        """The columns of the newest bound version."""
        newest = self._bindings(state).newest
        return () if newest is None else self.table.columns(newest.version)


log = logging.getLogger("mvsink.task")
INPUTS = "_inputs"

Stage = Callable[[ShardState], Sequence[Batch]]
Compact = Callable[[CompactionPlan], object]


def companions_key(generation: int) -> str:
    """The progress that records, for a generation of a task that goes on where the one before it
    was, the number of the generation in the names of its companions.
    """
    return f"companions@{generation}"


def companions_of(progress: Callable[[str], int | None], generation: int) -> int:
    """The generation in the names of a task's companions, in this one of its generations."""
    recorded = progress(companions_key(generation))
    return generation if recorded is None else recorded


def companion_uri(task_uri: str, input_id: str) -> str:
    """The companion's location, below the task's shard. (Readers disagree about a ``%`` in a
    path.)
    """
    return f"{task_uri.rstrip('/')}/{INPUTS}/{quote(input_id, safe='').replace('~', '%7E').replace('%', '~')}"


def advance(handle: WriteHandle, time: int, stage: Stage, compact: Compact) -> None:
    """Bind up to ``time`` (ms), unless another run already has.

    ``stage`` stages what is new since a state, as batches of updates from that state's upper up to
    ``time``. `since` follows the holds: before the first hold no history is released. After a
    failure nothing is left staged and the handle is expired.
    """
    try:
        _advanced(handle, time, stage, compact)
    except BaseException:
        handle.expire()
        raise


def _advanced(handle: WriteHandle, time: int, stage: Stage, compact: Compact) -> None:
    upper = Antichain.of(time).step_forward()
    handle.keep_statistics()
    while True:
        state = handle.state()
        if not state.upper.less_equal_time(time):
            return
        since = Antichain.of(time) if state.holds or not state.readable else None
        batches = stage(state)
        note = CommitNote(computed_through=time, purpose=handle.purpose)
        try:
            done = handle.compare_and_append_batch(batches, state.upper, upper, since=since, note=note)
        except UpperMismatch as mismatch:
            log.debug("%s: lower mismatch, bound up to %r by another run", handle.uri, mismatch.current)
            for batch in batches:
                batch.delete()
            continue
        _maintain(handle, done.maintenance, compact)
        return


def _maintain(handle: WriteHandle, maintenance: Maintenance, compact: Compact) -> None:
    """Performs the maintenance that the append requires. A failure is harmless: the next binding
    does it.
    """
    try:
        perform_maintenance(handle, maintenance, compact)
    except Exception as error:
        log.debug("%s: maintenance failed and is left to the next run: %s", handle.uri, error)
