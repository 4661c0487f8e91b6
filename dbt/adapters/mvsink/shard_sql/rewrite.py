"""Rewrites a shard's contents, in Spark: folding foreign files in, compaction, new columns. A run
does this before its append, or as maintenance after it (`Upkeep`).

The collection at every readable time is the same before and after (NULL in columns that were
added), no upper and no since moves, and a lost race costs only the work. The first two are
maintenance: their commits are marked as not changing data.

Compactions keep the order of the base (`stored_order`). A query's rows mostly come sorted by one
column: the one by which its largest input's files are sorted, or the key of its last join. Then the
statistics of row groups show which of them a condition on that column can match, and few are read.
The rows that a compaction writes again come in the order of Spark's shuffle. They are up to a tenth
of the base each time, so without sorting little of the order would be left after some compactions.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.engine import Column, Engine, arrow_schema, sql
from dbt.adapters.mvsink.engine.timing import Stopwatch
from dbt.adapters.mvsink.engine.whole_rows import net
from dbt.adapters.mvsink.local.copies import compact_locally
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, TIME
from dbt.adapters.mvsink.shard import (
    Antichain,
    Batch,
    CommitNote,
    CompactionPlan,
    Directory,
    Maintenance,
    ShardReplaced,
    ShardState,
    WriteHandle,
    perform_maintenance,
)
from dbt.adapters.mvsink.shard_sql.current_view import widened
from dbt.adapters.mvsink.shard_sql.errors import DamagedFiles, ForeignDeletionVectors
from dbt.adapters.mvsink.shard_sql.layout import Layout, broadcast, damages, files_of
from dbt.adapters.mvsink.shard_sql.stager import Stager

log = logging.getLogger("mvsink.shard")


@dataclass(frozen=True)
class Folded:
    """`drift`: rows no append can have written, dropped by the fold. `applied`: race not lost."""

    applied: bool
    drift: int


def fold_foreign_files(
    engine: Engine, handle: WriteHandle, state: ShardState, shard: Layout, note: CommitNote
) -> Folded:
    """Move the rows of loose files under ``batches/``, with hashes, leaving out those that no
    append can have written; ``note`` goes with them.

    Raises `ForeignDeletionVectors` if a file carries one: a Parquet reader cannot tell its
    deleted rows.
    """
    vectors = [file.path for file in shard.loose if file.deletion_vector]
    if vectors:
        raise ForeignDeletionVectors(handle.uri, vectors)
    items = sql.columns(shard.names)
    hashed = shard.hash_of()
    rows = sql.union_all(shard.select_loose(f"{items}, {TIME}, {DIFF}, {ERROR}, {hashed} {HASH}"))
    batch = stage(engine, handle, _consolidated(shard, rows), Antichain.of(0), state.upper, "fold")
    kept = sql.union_all(shard.select_loose("1 as one"))
    [row] = engine.query(f"select count(*) from (\n{kept}\n)", "fold")
    drift = sum(file.rows or 0 for file in shard.loose) - int(str(row[0]))
    result = handle.compact([] if batch is None else [batch], list(shard.loose), replace(note, drift=drift))
    log.debug("folded %d foreign files of %s: drift %d", len(shard.loose), handle.uri, drift)
    return Folded(result.applied, drift)


def compact(engine: Engine, handle: WriteHandle, plan: CompactionPlan, shard: Layout) -> bool:
    """Rewrite the plan's files at ``plan.since``, as base or recent directory. False if another
    commit came first.

    At most two more directories hold what has no place there: errors and rows without a hash
    (negative counts too, beside a base), and later updates with their times.
    """
    planned = {file.path for file in plan.files}
    directories = [d for d in shard.directories if all(file.path in planned for file in d.files)]
    since = plan.since.as_option()
    if since is None or not directories:
        return bool(plan.cancelled) and handle.compact([], plan.cancelled).applied
    items = sql.columns(shard.names)
    # A hash that is NULL because the base repeats it (`layout`) stays so, unless the base is
    # consolidated with it.
    hashed = (
        HASH
        if shard.base is not None and shard.base not in directories
        else f"coalesce({HASH}, {shard.hash_of()}) {HASH}"
    )
    order = stored_order(handle, shard)
    read = shard.select(directories, f"{items}, {TIME}, {DIFF}, {ERROR}, {hashed}")
    old = f"select * from (\n{read}\n) where {TIME} <= {sql.bigint(since)}"
    settled = _settled(shard, directories, items, old, since, order)
    later = _consolidated(shard, f"select * from (\n{read}\n) where {TIME} > {sql.bigint(since)}")
    history = _in_order(later, order)
    plain = f"{ERROR} is null and {HASH} is not null" + (f" and {DIFF} > 0" if plan.with_base else "")
    parts = [
        ("compact", f"select * from (\n{settled}\n) where {plain}", Antichain.of(since + 1)),
        ("compact", f"select * from (\n{settled}\n) where not ({plain})", Antichain.of(since + 1)),
        ("compact", history, shard_upper(shard)),
    ]
    batches: list[Batch] = []
    for what, query, upper in parts:
        batch = stage(engine, handle, query, Antichain.of(0), upper, what)
        if batch is not None:
            batches.append(batch)
    return handle.compact(batches, [*files_of(directories), *plan.cancelled]).applied


def evolve(
    engine: Engine,
    handle: WriteHandle,
    state: ShardState,
    shard: Layout,
    evolved: Sequence[Column],
    note: CommitNote,
) -> bool:
    """Add the columns ``evolved``, NULL in all updates, or give them these wider types; ``shard``
    is ``state``'s, no loose files. False: lost race.

    The row hash is of all columns, so every update is written again: the base as it is, all the
    rest as one directory, also what negations cancel.
    """
    live = shard.with_past()
    others = tuple(directory for directory in live.directories if directory is not shard.base)
    wide = widened(replace(live, base=shard.base, recent=others, unhashed=()), evolved)
    items = f"{sql.columns(wide.names)}, {TIME}, {DIFF}, {ERROR}, {HASH}"
    queries = [wide.select([wide.base], items)] if wide.base is not None else []
    queries += [_evolved(wide, wide.select(others, items))] if others else []
    types = {field.name: field for field in arrow_schema(tuple(evolved))}
    kept = [field.with_type(types.pop(field.name, field).type) for field in state.schema]
    schema = pa.schema([*kept, *types.values()])
    batches: list[Batch] = []
    try:
        for query in queries:
            batch = stage(engine, handle, query, Antichain.of(0), shard_upper(shard), "evolve", schema)
            batches += [] if batch is None else [batch]
    except BaseException:
        for batch in batches:
            batch.delete()
        raise
    return handle.evolve(batches, schema, live.files, note).applied


def _evolved(wide: Layout, rows: str) -> str:
    """``rows``, all that is outside the base, with their times kept; without a hash where that is
    another row's too, or the base repeats it.
    """
    items = sql.columns(wide.names)
    sums = net(wide.columns, [TIME, ERROR, HASH], rows, "<> 0")
    parts = [f"select {items}, {ERROR}, {HASH}, 0L {DIFF}, 0L _mv_base from (\n{sums}\n)"]
    others = files_of((*wide.recent, *wide.unhashed))
    if wide.base is not None:
        touched = f"select distinct {HASH} _mv_h from (\n{rows}\n)"
        parts.append(
            f"select {broadcast('t', others)}{items}, {ERROR}, {HASH}, 0L {DIFF}, 1L _mv_base from (\n{wide.select([wide.base], '*')}\n) b "
            f"left semi join (\n{touched}\n) t on b.{HASH} = t._mv_h"
        )
    owners = net(wide.columns, [ERROR, HASH], sql.union_all(parts), sums=["_mv_base"])
    shared = (
        f"select {HASH} _mv_h from (\n{owners}\n) group by {HASH} having count(*) > 1 or sum(_mv_base) > 1"
    )
    hashed = f"if(s._mv_h is null, {HASH}, cast(null as bigint)) {HASH}"
    return (
        f"select {broadcast('s', others)}{items}, {TIME}, {DIFF}, {ERROR}, {hashed} from (\n{sums}\n) r "
        f"left join (\n{shared}\n) s on r.{HASH} = s._mv_h"
    )


def shard_upper(shard: Layout) -> Antichain:
    """The upper of the version that ``shard`` describes."""
    return Antichain.of(shard.upper)


def _settled(
    shard: Layout, directories: list[Directory], items: str, old: str, since: int, order: Column | None
) -> str:
    """The consolidated collection at ``since``. Base rows with nothing recent are not shuffled, and
    stay in their order; the others are in ``order``.
    """
    keys = f"{items}, {ERROR}, {HASH}"
    time = f"{sql.bigint(since)} {TIME}"
    base_settled = shard.base is not None and all((file.max_time or 0) <= since for file in shard.base.files)
    if shard.base is None or not base_settled or shard.base not in directories or shard.unhashed:
        return _in_order(one_owner(shard, old, time, items), order)
    recent = [directory for directory in directories if directory is not shard.base]
    if not recent:
        return f"select {items}, {time}, {DIFF}, {ERROR}, {HASH} from (\n{old}\n)"
    before = f"{TIME} <= {sql.bigint(since)}"
    touched = shard.select(recent, f"distinct {HASH} _mv_h", before)
    base = shard.select([shard.base], "*")
    hint = broadcast("t", files_of(recent))
    untouched = (
        f"select {hint}{items}, {time}, {DIFF}, {ERROR}, {HASH} from (\n{base}\n) b "
        f"left anti join (\n{touched}\n) t on b.{HASH} = t._mv_h"
    )
    again = sql.union_all(
        [
            f"select {hint}{keys}, {DIFF} from (\n{base}\n) b left semi join (\n{touched}\n) t on b.{HASH} = t._mv_h",
            shard.select(recent, f"{keys}, {DIFF}", before),
        ]
    )
    return sql.union_all([untouched, _in_order(one_owner(shard, again, time, items), order)])


def _in_order(rows: str, order: Column | None) -> str:
    """``rows`` with those of each task sorted, so that row groups have ranges of their own."""
    if order is None:
        return rows
    # in parentheses: behind the last part of a UNION it would sort all of them
    return f"select * from (\nselect * from (\n{rows}\n) sort by {sql.identifier(order.name)}\n)"


def one_owner(shard: Layout, rows: str, time: str, items: str) -> str:
    """Consolidated by whole rows; a hash that two rows share is dropped from both."""
    sums = net(shard.columns, [ERROR, HASH], rows, "<> 0")
    owners = f"select *, count(*) over (partition by {HASH}) _mv_owners from (\n{sums}\n)"
    hashed = f"if(_mv_owners = 1, {HASH}, cast(null as bigint)) {HASH}"
    return f"select {items}, {time}, {DIFF}, {ERROR}, {hashed} from (\n{owners}\n)"


def _consolidated(shard: Layout, rows: str) -> str:
    """Updates with times kept: sums of equal ``(row, time)``, no zeros; shared hashes dropped."""
    items = sql.columns(shard.names)
    sums = net(shard.columns, [TIME, ERROR, HASH], rows, "<> 0")
    ranked = f"select *, dense_rank() over (partition by {HASH} order by {_row_key(items)}) _mv_rank from (\n{sums}\n)"
    owners = f"select *, max(_mv_rank) over (partition by {HASH}) _mv_owners from (\n{ranked}\n)"
    hashed = f"if(_mv_owners = 1, {HASH}, cast(null as bigint)) {HASH}"
    return f"select {items}, {TIME}, {DIFF}, {ERROR}, {hashed} from (\n{owners}\n)"


def _row_key(items: str) -> str:
    """Distinguishes rows of one hash, and can be ordered whatever the types (maps cannot)."""
    return f"to_json(struct({items}, {ERROR}), map('ignoreNullFields', 'false'))"


def stage(
    engine: Engine,
    handle: WriteHandle,
    query: str,
    lower: Antichain,
    upper: Antichain,
    what: str,
    schema: pa.Schema | None = None,
) -> Batch | None:
    """``schema``: see `StagingHandle.adopt`."""
    batch = handle.adopt(Stager(engine, handle, what).stage(query, what), lower, upper, schema)
    if batch.rows == 0:
        batch.delete()
        return None
    return batch


@dataclass
class Upkeep:
    """What the run ``invocation_id`` rewrites in one shard.

    ``drift`` counts the rows dropped so far that no append can have written; the commits that
    dropped them record this too.
    """

    engine: Engine
    handle: WriteHandle
    watch: Stopwatch
    invocation_id: str = ""
    drift: int = 0
    warnings: list[str] = field(default_factory=list)

    def require_whole(self, state: ShardState) -> None:
        """Raises `DamagedFiles` if a live file is gone, for a run that reads none of them."""
        damaged = damages(state, self.handle.files_in)
        if damaged:
            raise DamagedFiles(self.handle.uri, damaged)

    def folded(self, state: ShardState) -> tuple[ShardState, Layout]:
        """The newest version without loose files. It may have another upper than ``state``."""
        shard = Layout.of(self.handle, state)
        while shard.loose:
            with self.watch("fold"):
                note = CommitNote(purpose=f"fold({self.handle.purpose})", invocation_id=self.invocation_id)
                done = fold_foreign_files(self.engine, self.handle, state, shard, note)
            self.drift += done.drift if done.applied else 0
            state = self.handle.state()
            shard = Layout.of(self.handle, state)
        return state, shard

    def evolve(self, state: ShardState, evolved: Sequence[Column], note: CommitNote) -> bool:
        """Add columns to ``state``, or widen them. False if another writer was faster, or foreign
        files had to be folded in first: the caller reloads.
        """
        shard = Layout.of(self.handle, state)
        if shard.loose:
            self.folded(state)
            return False
        with self.watch("evolve"):
            done = evolve(self.engine, self.handle, state, shard, evolved, note)
        if done:
            failpoints.reach("evolved")
        return done

    def maintain(self, maintenance: Maintenance) -> None:
        """Perform what an append left to do. It never fails a run: the next run finds the same
        work.
        """
        try:
            with self.watch("maintain"):
                perform_maintenance(self.handle, maintenance, self._compact)
        except ShardReplaced:  # there is nothing to keep in order any more
            return
        except Exception as error:
            self.warnings.append(f"maintenance failed and is left to the next run: {error}")

    def _compact(self, plan: CompactionPlan) -> None:
        shard = Layout.of(self.handle, self.handle.state())
        trusted = {file.path for each in shard.directories if each.trusted for file in each.files}
        if compact_locally(self.handle, plan, trusted, shard.columns) is None:
            compact(self.engine, self.handle, plan, shard)


ORDERED = ("tinyint", "smallint", "int", "bigint", "string", "date", "timestamp", "timestamp_ntz", "decimal")
SAMPLED = 10_000  # rows
MIN_RISING = 0.99  # of neighbouring rows; where files were written one behind the other, some fall


def stored_order(handle: WriteHandle, shard: Layout) -> Column | None:
    """The column whose values rise through the base; of several, the one with the most values. None
    if there is none.
    """
    candidates = tuple(column for column in shard.columns if column.type.name in ORDERED)
    if shard.base is None or not candidates:
        return None
    largest = max(shard.base.files, key=lambda file: file.rows or 0)
    sample = handle.first_rows(largest, arrow_schema(candidates), SAMPLED)
    rising = [column for column in candidates if _rises(sample.column(column.name))]
    return max(rising, key=lambda column: pc.count_distinct(sample.column(column.name)).as_py(), default=None)


def _rises(values: pa.ChunkedArray) -> bool:
    present = values.drop_null().combine_chunks()
    if len(present) < 2 or len(present.unique()) < 2:
        return False
    return bool(pc.mean(pc.less_equal(present[:-1], present[1:])).as_py() >= MIN_RISING)
