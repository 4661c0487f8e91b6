"""A shard's past, as SQL: the collection at a time, and the updates between two times.

Reads are exact within the shard's readable history ``[since, upper)``: `check_readable` and
`check_changes` refuse the rest. Files that statistics rule out are not named in the SQL, so they
are not opened: a read costs only what can matter to it.

- A file whose times are all later than the requested one holds nothing of that collection.
- The base has only one time, so it is in the collection as a whole, and passes through unshuffled,
  or not at all. No other directory takes its place, because each correction looked for repeated
  hashes only in the base of its time.
- Files that may hold both earlier and later times are filtered by `_mv_time`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from dbt.adapters.mvsink.engine import Column, sql
from dbt.adapters.mvsink.engine.whole_rows import net
from dbt.adapters.mvsink.physical import DIFF, ERROR, TIME
from dbt.adapters.mvsink.shard import DataFile, Directory, ShardState
from dbt.adapters.mvsink.shard_sql.current_view import plain_rows, view_query
from dbt.adapters.mvsink.shard_sql.errors import NotReadable, NotRefreshed
from dbt.adapters.mvsink.shard_sql.layout import Layout, live_errors, row_count

UPDATE = (TIME, DIFF, ERROR)  # what an update has besides its columns
# characters of file names; beyond it a directory is named whole and its rows are filtered
LONGEST_NAMES = 4_000


@dataclass(frozen=True)
class Projection:
    """Some columns of those rows of a shard that satisfy ``where``, and all of its errors."""

    columns: tuple[Column, ...]
    where: str = ""

    @property
    def updates(self) -> str:
        """``where`` for updates: it does not apply to errors, of which no filter may drop one."""
        return f"({ERROR} is not null or ({self.where}))" if self.where else ""


def check_readable(state: ShardState, time: int) -> None:
    """`NotRefreshed` for a shard without contents, `NotReadable` outside ``[since, upper)``."""
    _check(state, f"as of {time}", state.since.stored() <= time < state.upper.stored())


def check_changes(state: ShardState, lower: int, upper: int) -> None:
    """The same for the updates with ``lower <= time < upper``.

    They are exact only past ``since``: compaction may have moved older updates up to it. Before 0
    there are none.
    """
    if lower < upper:
        exact = state.since.stored() < lower or state.since.stored() == 0
        _check(state, f"the changes of [{lower}, {upper})", exact and upper <= state.upper.stored())


def _check(state: ShardState, asked: str, readable: bool) -> None:
    if not state.readable:
        raise NotRefreshed()
    if not readable:
        raise NotReadable(asked, str(state.since.stored()), str(state.upper.as_option() or "no end"))


def collection_as_of(shard: Layout, time: int) -> str:
    """Plain rows as of ``time`` (ms), duplicates repeated; reading fails if an error is live."""
    return view_query(_up_to(shard, time))


def few_rows_as_of(shard: Layout, time: int, columns: Sequence[Column], condition: str) -> str:
    """``columns`` of the rows as of ``time`` (ms) that satisfy ``condition``, duplicates repeated.

    They may have to be added up, so they must be few; then each file is named once and read once.
    Live errors do not fail it.
    """
    early = _up_to(shard, time)
    if early.empty:
        return f"select {nulls(columns)} where false"
    items = sql.columns(column.name for column in columns)
    if early.only_inserts:
        return early.select(early.directories, items, f"{ERROR} is null and ({condition})")
    updates = early.updates(f"{items}, {DIFF}", f"{ERROR} is null and ({condition})")
    rows = net(columns, [], updates, "> 0")
    copies = f"lateral view explode(sequence(1, cast({DIFF} as int))) copies as _mv_copy"
    return f"select {items} from (\n{rows}\n) {copies}"


def files_as_of(shard: Layout, time: int) -> tuple[DataFile, ...]:
    """The files that may hold updates up to ``time`` (ms)."""
    return _up_to(shard, time).files


def live_errors_as_of(shard: Layout, time: int) -> str:
    """`live_errors` as of ``time`` (ms)."""
    return live_errors(_up_to(shard, time))


def row_count_as_of(shard: Layout, time: int) -> str:
    """A query for the number of rows as of ``time`` (ms): it reads one narrow column."""
    return row_count(_up_to(shard, time))


def updates_up_to(shard: Layout, time: int, columns: Sequence[Column], since: int | None = None) -> str:
    """``columns``, `_mv_time`, `_mv_diff`, `_mv_error` of updates up to ``time`` (ms), as stored.

    They add up to the collection at ``time``; with ``since`` (ms), at every time from it on.
    """
    early = _up_to(shard if since is None else shard.with_past(since), time)
    return no_updates(columns) if early.empty else early.updates(_items(columns))


def snapshot_as_of(shard: Layout, time: int) -> str:
    """The same as updates at ``time``, errors included: columns, `_mv_time`, `_mv_diff`,
    `_mv_error`. Never fails its readers.

    A row that occurs n times comes as n updates of one: nothing is shuffled that `collection_as_of`
    would not shuffle.
    """
    early = _up_to(shard, time)
    items, at = sql.columns(shard.names), f"{sql.bigint(time)} {TIME}"
    rows = f"select {items}, {at}, 1L {DIFF}, cast(null as string) {ERROR} from (\n{plain_rows(early)}\n)"
    directories = [directory for directory in early.directories if directory.may_hold_errors]
    errors = early.parts(directories, f"{ERROR}, {DIFF}", f"{ERROR} is not null")
    if not errors:
        return rows
    live = f"select {ERROR}, sum({DIFF}) {DIFF} from (\n{sql.union_all(errors)}\n) group by {ERROR} having sum({DIFF}) <> 0"
    return sql.union_all([rows, f"select {nulls(shard.columns)}, {at}, {DIFF}, {ERROR} from (\n{live}\n)"])


def updates_between(
    shard: Layout, lower: int, upper: int | None = None, projection: Projection | None = None
) -> str:
    """Net updates, ``lower <= _mv_time < upper``: columns, `_mv_time`, `_mv_diff`, `_mv_error`.

    With a ``projection`` they are consolidated over its columns; errors pass.
    """
    part = projection or Projection(shard.columns)
    rows = _updates(shard, lower, upper, part)
    if not rows:
        return no_updates(part.columns)
    return f"select {_items(part.columns)} from (\n{net(part.columns, [TIME, ERROR], sql.union_all(rows), '<> 0')}\n)"


def times_between(
    shard: Layout, lower: int, upper: int | None = None, projection: Projection | None = None
) -> str:
    """Each `_mv_time` of `updates_between`; whether rows were inserted, deleted, errors changed."""
    return times_of(updates_between(shard, lower, upper, projection))


def times_of(updates: str) -> str:
    """The same of any updates."""
    flags = [f"{ERROR} is null and {DIFF} > 0", f"{ERROR} is null and {DIFF} < 0", f"{ERROR} is not null"]
    return f"select {TIME}, {', '.join(f'bool_or({flag})' for flag in flags)} from (\n{updates}\n) group by {TIME}"


def changes_between(
    shard: Layout, lower: int, upper: int | None = None, projection: Projection | None = None
) -> str:
    """`updates_between`, but equal rows may come as several updates. Nothing is added up where file
    statistics tell that nothing cancels.
    """
    if projection is not None or not known_times(shard, lower, upper):
        return updates_between(shard, lower, upper, projection)
    return sql.union_all(_updates(shard, lower, upper, Projection(shard.columns)))


def _updates(shard: Layout, lower: int, upper: int | None, part: Projection) -> list[str]:
    """The updates with ``lower <= _mv_time < upper``, one query per part that may hold some."""
    bounds = f"{TIME} >= {sql.bigint(lower)}" + (
        "" if upper is None else f" and {TIME} < {sql.bigint(upper)}"
    )
    return _between(shard.with_past(), lower, upper).select(
        _items(part.columns), f"{bounds} and {part.updates}" if part.where else bounds
    )


def _items(columns: Sequence[Column]) -> str:
    return f"{sql.columns(column.name for column in columns)}, {TIME}, {DIFF}, {ERROR}"


class Signs(NamedTuple):
    """Whether the updates at one time insert rows, and whether they delete rows."""

    inserts: bool
    deletes: bool


def known_times(shard: Layout, lower: int, upper: int | None = None) -> dict[int, Signs] | None:
    """The times of `updates_between` with signs, from file statistics. No error changed then.

    None if only a query can tell; empty if no file holds such a time.
    """
    parts: dict[int, list[Directory]] = defaultdict(list)
    late = _restricted(shard.with_past(), lambda file: _may_hold(file, lower, upper))
    if late.loose:
        return None
    for directory in late.directories:
        files = tuple(file for file in directory.files if _may_hold(file, lower, upper))
        part = replace(directory, files=files)
        one_time = all(file.min_time is not None and file.min_time == file.max_time for file in files)
        signs_known = _only_inserts(part) or (
            directory.consolidated and None not in (part.min_diff, part.max_diff)
        )
        if part.may_hold_errors or not one_time or not signs_known:
            return None
        for time in {file.min_time or 0 for file in files}:
            parts[time].append(part)
    if any(len(same_time) > 1 and not all(map(_only_inserts, same_time)) for same_time in parts.values()):
        return None
    return {
        time: Signs(
            any((part.max_diff or 1) > 0 for part in same_time), not all(map(_only_inserts, same_time))
        )
        for time, same_time in sorted(parts.items())
    }


def _only_inserts(part: Directory) -> bool:
    return (part.min_diff or 0) >= 1


def nulls(columns: Sequence[Column]) -> str:
    """A list of NULLs under the columns' names."""
    return ", ".join(
        f"cast(null as {column.type.spelled}) {sql.identifier(column.name)}" for column in columns
    )


def no_updates(columns: Sequence[Column]) -> str:
    """No updates of these columns."""
    return f"select {nulls(columns)}, 0L {TIME}, 0L {DIFF}, cast(null as string) {ERROR} where false"


@dataclass(frozen=True)
class _UpTo(Layout):
    """The parts of a shard with times up to ``time``, filtered where they may hold later ones."""

    time: int = 0

    def select(self, directories: Sequence[Directory], items: str, where: str = "") -> str:
        if any(
            _latest(file, self.time + 1) > self.time for directory in directories for file in directory.files
        ):
            early = f"{TIME} <= {sql.bigint(self.time)}"
            where = f"{early} and ({where})" if where else early
        return super().select(directories, items, where)


def _up_to(shard: Layout, time: int) -> Layout:
    """``shard`` itself if no live file can hold a later time."""
    shard = shard.with_past(time)
    if time >= shard.upper - 1 or all(_latest(file, time + 1) <= time for file in shard.files):
        return shard
    early = _restricted(shard, lambda file: _earliest(file) <= time)
    return _UpTo(**vars(replace(early, upper=time + 1)), time=time)


@dataclass(frozen=True)
class _Range:
    """What may hold updates of a range: whole directories, loose files, some directories' files."""

    whole: Layout
    some: tuple[Directory, ...]

    def select(self, items: str, where: str) -> list[str]:
        """``items`` of the updates, one query a part."""
        queries = self.whole.parts(self.whole.directories, items, where)
        for directory in self.some:
            names = ",".join(sql.escape_glob(file.path.rsplit("/", 1)[-1]) for file in directory.files)
            glob = f"{sql.escape_glob(self.whole.root)}/{directory.root}/{directory.batch_id}/"
            path = glob + ("{" + names + "}" if len(directory.files) > 1 else names)
            queries.append(f"select {items} from {sql.parquet(path)} where {where}")
        return queries


def _between(shard: Layout, lower: int, upper: int | None) -> _Range:
    def needed(file: DataFile) -> bool:
        return _may_hold(file, lower, upper)

    def partly(directory: Directory) -> bool:
        names = sum(len(file.path) for file in directory.files if needed(file))
        return names <= LONGEST_NAMES and not all(map(needed, directory.files))

    late = _restricted(shard, needed)
    some = tuple(
        replace(directory, files=tuple(filter(needed, directory.files)))
        for directory in late.directories
        if partly(directory)
    )
    return _Range(_restricted(late, needed, lambda directory: not partly(directory)), some)


def _restricted(
    shard: Layout,
    needed: Callable[[DataFile], bool],
    kept: Callable[[Directory], bool] = lambda directory: True,
) -> Layout:
    """``shard`` with only those files and directories that have a ``needed`` file, and only those
    directories that are ``kept``.
    """

    def chosen(directories: Sequence[Directory]) -> tuple[Directory, ...]:
        return tuple(
            directory for directory in directories if any(map(needed, directory.files)) and kept(directory)
        )

    loose = [pair for pair in zip(shard.loose, shard.loose_columns, strict=True) if needed(pair[0])]
    return replace(
        shard,
        base=next(iter(chosen([shard.base] if shard.base else [])), None),
        recent=chosen(shard.recent),
        unhashed=chosen(shard.unhashed),
        loose=tuple(file for file, _ in loose),
        loose_columns=tuple(present for _, present in loose),
    )


def _may_hold(file: DataFile, lower: int, upper: int | None) -> bool:
    return (upper is None or _earliest(file) < upper) and _latest(file, lower) >= lower


def _earliest(file: DataFile) -> int:
    return 0 if file.min_time is None else file.min_time


def _latest(file: DataFile, unknown: int) -> int:
    return unknown if file.max_time is None else file.max_time


CHANGE_TYPE, COMMIT_TIMESTAMP = "_change_type", "_commit_timestamp"
ADDED = (CHANGE_TYPE, TIME, COMMIT_TIMESTAMP)


def change_data(columns: Sequence[str], key: Sequence[str], updates: str) -> str:
    """``updates`` (a query for net updates: ``columns``, `_mv_time`, `_mv_diff`) in the shape of
    Delta's change data feed: ``columns, _change_type, _mv_time, _commit_timestamp``.

    If exactly one row with a key left and exactly one came at a time, the types are
    `update_preimage` and `update_postimage`; otherwise they are `delete` and `insert`. A key counts
    as unique if it is among the changes of one time. Rows without a key, and rows whose key left or
    came several times, are never paired.

    ``key`` are the columns to pair rows by, none for inserts and deletes alone; NULL keys pair with
    NULL keys. A row that came or left n times is n rows, as in Delta. The number of copies is a
    diff, so it is not large where the shard's view can be read.
    """
    items = sql.columns(columns)
    kinds = f"case when {DIFF} > 0 then 'insert' else 'delete' end"
    if key:
        window = f"over (partition by {TIME}, {sql.columns(key)})"
        came, left = (f"sum(greatest({sign}{DIFF}, 0L)) {window} = 1" for sign in ("", "-"))
        updates = f"select *, {came} and {left} as _mv_paired from (\n{updates}\n)"
        kinds = (
            f"case when _mv_paired and {DIFF} > 0 then 'update_postimage' when _mv_paired then 'update_preimage' "
            f"when {DIFF} > 0 then 'insert' else 'delete' end"
        )
    return (
        f"select {items}, {kinds} as {CHANGE_TYPE}, {TIME}, timestamp_millis({TIME}) as {COMMIT_TIMESTAMP} from (\n{updates}\n) "
        f"lateral view explode(sequence(1, cast(abs({DIFF}) as int))) copies as _mv_copy"
    )
