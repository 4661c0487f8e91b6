"""The query behind the published view: the collection at the newest time, as plain rows.

A shard whose batches only insert, such as a compacted one, reads as a plain Parquet scan. A small
one is added up by whole rows, in one scan:
for every scan that a text names, Spark lists files and runs a job to learn their columns, whenever
the view is created or read. A larger one with recent batches is still one scan of the base, thinned
by a broadcast join with the recent part's net retractions, plus the recent part's net additions.
Where some rows have no hash, base rows that share a hash with the rest are consolidated with it by
whole rows; the others still pass straight through. A shard that holds errors, or has lost files,
fails its readers with the smallest message (`_Guarded`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

from dbt.adapters.mvsink.engine import Column, sql
from dbt.adapters.mvsink.engine.whole_rows import net
from dbt.adapters.mvsink.limits import LOCAL_ROWS
from dbt.adapters.mvsink.local.rows import holds_float
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, META, TIME
from dbt.adapters.mvsink.shard import Directory
from dbt.adapters.mvsink.shard_sql.layout import Layout, broadcast, files_of

NOT_REFRESHED = "not refreshed yet"
LIVE = "_mv_live"


def view_query(
    layout: Layout, *, refreshed: bool = True, first_refresh: str = "", whole: bool = False
) -> str:
    """The SELECT of the view over ``layout``.

    ``refreshed`` is False for a shard that no run has written: it never reads as an empty
    collection. ``first_refresh`` says when a run will write it, if there is a schedule. ``whole``
    is for a text that is stored: readers then also fail if a directory no longer holds exactly its
    files. The text names directories, so otherwise a file that is gone would just be missing from
    the result.
    """
    if not refreshed:
        # Rows that are never given out, of NULLs that the optimizer cannot tell, and more than any
        # OFFSET: where it can prove that no row passes to a reader, it drops the guard with them.
        nothing = "get(cast(array() as array<{}>), cast(r.id as int)) {}"
        items = ", ".join(nothing.format(c.type.spelled, sql.identifier(c.name)) for c in layout.columns)
        message = f"{NOT_REFRESHED}; first refresh at {first_refresh}" if first_refresh else NOT_REFRESHED
        guard = _guard(f"(select min({sql.text(message)}) m from range(1))")
        return f"select {items} from range({2**32}) r where {guard}"
    failures = [query for query in (_live_error(layout), _lost_files(layout) if whole else "") if query]
    if not failures:
        return plain_rows(layout)
    live = failures[0] if len(failures) == 1 else f"select min(m) m from (\n{sql.union_all(failures)}\n)"
    return f"with {LIVE} as (\n{live}\n)\nselect * from (\n{plain_rows(_Guarded.around(layout))}\n)"


def _guard(failure: str) -> str:
    """A condition that is true, or fails the query that evaluates it.

    ``failure`` is a relation whose one row has the message ``m``, or NULL. The condition is a
    scalar subquery, which runs before the first row is read: the optimizer loses a projected or
    filtered `raise_error`.
    """
    return f"(select raise_error(m) from {failure} where m is not null) is null"


@dataclass(frozen=True)
class _Guarded(Layout):
    """A shard whose every scan fails while an error is live.

    A guard above a join or an aggregate is dropped when that turns out to be empty, even while the
    query runs (adaptive execution replaces an empty stage and everything above it). Here a scan has
    run, and failed, before anything can be known to be empty.
    """

    inner: Layout = field(kw_only=True)

    @classmethod
    def around(cls, layout: Layout) -> _Guarded:
        return cls(**{part.name: getattr(layout, part.name) for part in fields(Layout)}, inner=layout)

    def select(self, directories: Sequence[Directory], items: str, where: str = "") -> str:
        return self.inner.select(directories, items, self._guarded(where))

    def select_loose(self, items: str, where: str = "") -> list[str]:
        return self.inner.select_loose(items, self._guarded(where))

    @staticmethod
    def _guarded(where: str) -> str:
        return f"({where}) and {_guard(LIVE)}" if where else _guard(LIVE)


def plain_rows(layout: Layout) -> str:
    """The collection without the guard: errors are left out."""
    if layout.empty:
        items = ", ".join(f"cast(null as {c.type.spelled}) {sql.identifier(c.name)}" for c in layout.columns)
        return f"select {items} where false"
    if layout.only_inserts:
        in_one_task = f"{sql.IN_ONE_TASK} " if _is_small(layout) else ""
        where = f"{ERROR} is null" if layout.may_hold_errors else ""
        return layout.select(layout.directories, f"{in_one_task}{sql.columns(layout.names)}", where)
    if _in_one_scan(layout):
        items = f"{sql.IN_ONE_TASK} {sql.columns(layout.names)}, {DIFF}"
        rows = layout.select(layout.directories, items, f"{ERROR} is null")
        return _repeat(layout, net(layout.columns, [], rows, "> 0"), DIFF)
    if layout.unhashed or layout.loose:
        return _mixed(layout)
    parts = []
    if layout.base is not None:
        parts.append(_base(layout, layout.base))
    if layout.recent:
        parts.append(_repeat(layout, _net(layout, "> 0"), DIFF))
    return sql.union_all(parts)


def scans(layout: Layout) -> list[tuple[Directory, ...]]:
    """The directories that `plain_rows` reads together. A query of one row may read the first ones
    alone.
    """
    if layout.only_inserts or _in_one_scan(layout):
        return [layout.directories]
    groups = ((layout.base,) if layout.base else (), layout.recent, layout.unhashed)
    return [group for group in groups if group]


def with_several(layout: Layout) -> Layout:
    """The layout as it is with several recent batches, if it has any."""
    if not layout.recent:
        return layout
    nothing = replace(layout.recent[0].files[0], rows=0)
    return replace(layout, recent=(*layout.recent, Directory("0" * 32, (nothing,))))


def _in_one_scan(layout: Layout) -> bool:
    """Whether everything is added up at once. GROUP BY turns -0.0 into 0.0, so shards with floats
    are excluded: rows that did not change must keep their floats.
    """
    if layout.directories == (layout.base,):
        return False
    floats = any(holds_float(column.type) for column in layout.columns)
    return not (layout.loose or floats) and _is_small(layout)


def _is_small(layout: Layout) -> bool:
    """Whether one task reads all files as soon as several would."""
    rows = [file.rows for file in layout.files]
    return None not in rows and sum(count or 0 for count in rows) <= LOCAL_ROWS


@dataclass(frozen=True)
class Apart:
    """A collection as two queries of rows with columns and `_mv_diff`: the large ``base``, which
    only adds, and the ``rest``.
    """

    base: str
    rest: str


def updates_apart(layout: Layout) -> Apart | None:
    """The collection without the guard, not added up. None where one of the two has no files."""
    others = (*layout.recent, *layout.unhashed)
    if layout.base is None or layout.loose or not others:
        return None
    items, rows = sql.columns(layout.names), f"{ERROR} is null"
    count = "1L " if layout.base.max_diff == 1 else ""
    base = layout.select(
        [layout.base], f"{items}, {count}{DIFF}", rows if layout.base.may_hold_errors else ""
    )
    return Apart(base, layout.select(others, f"{items}, {DIFF}", rows))


def _base(layout: Layout, base: Directory) -> str:
    """The base, less what the recent part retracts."""
    where = f"{ERROR} is null" if base.may_hold_errors else ""
    single = base.max_diff == 1
    if not layout.recent:
        items = sql.columns(layout.names)
        if single:
            return layout.select([base], items, where)
        return _repeat(layout, layout.select([base], f"{items}, {DIFF}", where), DIFF)
    retracted = f"(\n{_retracted(layout)}\n) r"
    scan = layout.select([base], "*", where)
    hint = broadcast("r", files_of(layout.recent))
    if single:
        return f"select {hint}{sql.columns(layout.names, 'b')} from (\n{scan}\n) b left anti join {retracted} on b.{HASH} = r.h"
    left = (
        f"select {hint}{sql.columns(layout.names, 'b')}, "
        f"b.{DIFF} + coalesce(r.n, 0L) {DIFF} from (\n{scan}\n) b "
        f"left join {retracted} on b.{HASH} = r.h where b.{DIFF} + coalesce(r.n, 0L) > 0"
    )
    return _repeat(layout, left, DIFF)


def _retracted(layout: Layout) -> str:
    """Hashes `h` that the recent part retracts on balance, with how often, `n` < 0."""
    if _consolidated(layout.recent):
        return layout.select(layout.recent, f"{HASH} h, {DIFF} n", f"{ERROR} is null and {DIFF} < 0")
    sums = layout.select(layout.recent, f"{HASH} h, sum({DIFF}) n", f"{ERROR} is null")
    return f"{sums} group by {HASH} having sum({DIFF}) < 0"


def _consolidated(recent: Sequence[Directory]) -> bool:
    """Whether the recent part is one consolidated batch, so that nothing needs adding up."""
    return len(recent) == 1 and recent[0].consolidated


def _net(layout: Layout, having: str) -> str:
    """The recent part, consolidated: a hash is one row there, so columns just follow their hash."""
    items = sql.columns(layout.names)
    if _consolidated(layout.recent):
        return layout.select(layout.recent, f"{items}, {DIFF}", f"{ERROR} is null and {DIFF} {having}")
    rows = layout.select(layout.recent, f"{items}, {HASH}, {DIFF}", f"{ERROR} is null")
    return f"select {items}, {DIFF} from (\n{net(layout.columns, [HASH], rows, having)}\n)"


def _mixed(layout: Layout) -> str:
    """Rows without a hash exist: consolidate by whole rows what shares a hash with the tail.

    Each list of columns is written as few times as can be: the text of a view is limited.
    """
    items = sql.columns(layout.names)
    tail_items = f"{items}, coalesce({HASH}, {layout.hash_of()}) _mv_h, {DIFF}"
    tail = sql.union_all(layout.parts((*layout.recent, *layout.unhashed), tail_items, f"{ERROR} is null"))
    if layout.base is None:
        return _repeat(layout, net(layout.columns, ["_mv_h"], tail, "> 0"), DIFF)
    base = layout.select(
        [layout.base],
        f"{items}, {HASH} _mv_h, {DIFF}",
        f"{ERROR} is null" if layout.base.may_hold_errors else "",
    )
    hint = broadcast("h", (*files_of((*layout.recent, *layout.unhashed)), *layout.loose))
    hashes = f"select {hint}b.* from b left {{}} join h on b._mv_h = h._mv_h"
    netted = net(layout.columns, ["_mv_h"], sql.union_all([hashes.format("semi"), "select * from t"]), "> 0")
    parts = f"with b as (\n{base}\n), t as (\n{tail}\n), h as (select distinct _mv_h from t)"
    # then rows that nothing touches come once, and repeating them costs more than reading them
    if layout.base.max_diff == 1:
        netted = f"select n.* from (\n{netted}\n) n {_copies('n.' + DIFF)}"
        return f"{parts}\nselect {items} from (\n{sql.union_all([hashes.format('anti'), netted])}\n)"
    return f"{parts}\n{_repeat(layout, sql.union_all([hashes.format('anti'), f'select * from ({netted})']), DIFF)}"


def _repeat(layout: Layout, query: str, count: str) -> str:
    """Each row of ``query`` as often as its ``count`` says."""
    return f"select {sql.columns(layout.names)} from (\n{query}\n) {_copies(count)}"


def _copies(count: str) -> str:
    """The clause that gives each row as often as its ``count`` says."""
    return f"lateral view explode(sequence(1, cast({count} as int))) copies as _mv_copy"


def _live_error(layout: Layout) -> str:
    """The query of the smallest message ``m`` of live errors; empty if no file can hold one."""
    directories = [directory for directory in layout.directories if directory.may_hold_errors]
    queries = layout.parts(directories, f"{ERROR} m, {DIFF} d", f"{ERROR} is not null")
    if not queries:
        return ""
    live = f"select m from (\n{sql.union_all(queries)}\n) group by m having sum(d) > 0"
    return f"select min(m) m from (\n{live}\n)"


def _lost_files(layout: Layout) -> str:
    """A message ``m`` if the directories hold other files than were committed, else NULL.

    Files are counted and their sizes added up; none is opened.
    """
    files = [file for directory in layout.directories for file in directory.files]
    if not files:
        return ""
    message = f"data files of shard {layout.root} are gone or damaged; run the model to learn which"
    differs = f"count(*) <> {len(files)} or coalesce(sum(length), 0L) <> {sql.bigint(sum(file.size for file in files))}"
    listed = f"binaryFile.{sql.identifier(layout.glob(layout.directories))}"
    return f"select if({differs}, {sql.text(message)}, null) m from {listed}"


@dataclass(frozen=True)
class Widened(Layout):
    """A shard's parts with new columns, NULL in every row, and with wider types of others; hashes
    are of all columns, not NULL.
    """

    stored: tuple[Column, ...] = ()

    def select(self, directories: Sequence[Directory], items: str, where: str = "") -> str:
        names = sql.columns(self.names)
        kept = zip(self.stored, self.columns, strict=False)
        columns = [_as_type(stored, column) for stored, column in kept]
        columns += [
            f"cast(null as {c.type.spelled}) {sql.identifier(c.name)}"
            for c in self.columns[len(self.stored) :]
        ]
        rows = super().select(directories, ", ".join([*columns, TIME, DIFF, ERROR]))
        # The partition's number keeps the optimizer from seeing through the hash: see
        # `correction.Desired.hashed`.
        hashed = f"({self.hash_of()} | (spark_partition_id() & 0)) {HASH}"
        wide = f"select {names}, {TIME}, {DIFF}, {ERROR}, {hashed} from (\n{rows}\n)"
        return f"select {items} from (\n{wide}\n)" + (f" where {where}" if where else "")


@dataclass(frozen=True)
class Renamed(Layout):
    """A shard's parts with short names for its columns.

    Each scan spells the ``stored`` names once, so a query's text stays short.
    """

    stored: tuple[str, ...] = ()

    def select(self, directories: Sequence[Directory], items: str, where: str = "") -> str:
        if "`" not in items and "*" not in items:  # no column of the model
            return super().select(directories, items, where)
        pairs = zip(self.stored, self.names, strict=True)
        columns = ", ".join(f"{sql.identifier(stored)} {sql.identifier(name)}" for stored, name in pairs)
        rows = super().select(directories, f"{columns}, {', '.join(META)}")
        return f"select {items} from (\n{rows}\n)" + (f" where {where}" if where else "")

    def _in_files(self) -> tuple[str, ...]:
        return self.stored


def renamed(shard: Layout) -> Renamed:
    """``shard`` with its columns named `c0`, `c1`, ..."""
    columns = tuple(Column(f"c{number}", column.type) for number, column in enumerate(shard.columns))
    return Renamed(**{**vars(shard), "columns": columns}, stored=shard.names)


def _as_type(stored: Column, column: Column) -> str:
    """The ``stored`` column with the type that it gets."""
    name = sql.identifier(column.name)
    same = stored.type == column.type
    return name if same else f"cast({name} as {column.type.spelled}) {name}"


def widened(shard: Layout, evolved: Sequence[Column]) -> Layout:
    """``shard`` as it reads once the columns ``evolved`` have been added, or have these types."""
    types = {column.name: column for column in evolved}
    kept = tuple(types.pop(column.name, column) for column in shard.columns)
    return Widened(**{**vars(shard), "columns": (*kept, *types.values())}, stored=shard.columns)
