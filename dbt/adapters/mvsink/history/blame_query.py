"""Which run wrote the rows that satisfy a condition, and which rows their keys had before.

For each row this finds the newest time, up to the time asked for, at which copies of it were added,
and the run whose commit covers that time. A row that existed when the readable history begins was
written then or before; the answer says so.

`rows_from_engine` answers any condition. For a small shard without nested columns, and a condition
that compares with literals, `rows_from_files` reads the files in this process instead. Both give
the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.engine.net import comparable
from dbt.adapters.mvsink.history.points import Run, runs_of
from dbt.adapters.mvsink.history.row_versions import STOOD, UNTIL, RowVersions
from dbt.adapters.mvsink.history.shard_diff import InvalidKey, Query
from dbt.adapters.mvsink.physical import DIFF, TIME
from dbt.adapters.mvsink.shard import Commit, ShardState
from dbt.adapters.mvsink.shard_sql import Layout

WRITTEN = "_mv_written"
Row = Mapping[str, object]


@dataclass(frozen=True)
class Standing:
    """A row that satisfies the condition. ``written`` (ms): the newest of its ``copies``."""

    row: Row
    copies: int
    written: int


@dataclass(frozen=True)
class Removal:
    """``copies`` of a row, removed at ``removed`` (ms). ``written`` (ms): the newest of them."""

    row: Row
    copies: int
    written: int
    removed: int


@dataclass(frozen=True)
class BlameAnswer:
    """In a stable order. ``before``: removals under the keys of ``standing``, newest first;
    ``gone``: removals of rows that satisfied the condition and no longer stand, newest first.
    """

    standing: tuple[Standing, ...]
    before: tuple[Removal, ...]
    gone: tuple[Removal, ...]


@dataclass(frozen=True)
class Question:
    """``where``: SQL over the columns. ``key``: names of columns, empty for none. ``limit``: how
    many rows, and how many removals under each key.
    """

    versions: RowVersions
    where: str
    key: tuple[str, ...]
    limit: int


@dataclass(frozen=True)
class WrittenRow:
    """Who did it. ``time``: of the update (ms). ``exact``: False for rows that existed when history
    began, and may be older. ``run``: None if it is older, or if the log no longer has the commit.
    """

    time: int
    exact: bool
    run: Run | None
    commit: Commit | None = None


class Authors:
    """The commits of a shard's generation by the times that they cover."""

    def __init__(self, state: ShardState, commits: Sequence[Commit], *, began: bool):
        self._since = state.since.stored()
        self._began = began
        self._runs = [run for run in runs_of(commits) if run.current]

    def of(self, time: int) -> WrittenRow:
        """Who wrote what became so at ``time`` (ms)."""
        if time <= self._since and not self._began:
            return WrittenRow(time, False, None)
        for run in reversed(self._runs):
            for commit in reversed(run.commits):
                if commit.lower is None or commit.upper is None:
                    continue
                if commit.lower.stored() <= time < commit.upper.stored():
                    return WrittenRow(time, True, run, commit)
        return WrittenRow(time, True, None)


def key_columns(layout: Layout, names: Sequence[str]) -> tuple[str, ...]:
    """These columns as the shard spells them. Raises `InvalidKey`."""
    usable = {column.name.lower(): column.name for column in layout.columns if "map<" not in column.type.text}
    for name in names:
        if name.lower() not in usable:
            raise InvalidKey(name, "", list(usable.values()))
    return tuple(dict.fromkeys(usable[name.lower()] for name in names))


def rows_from_engine(query: Query, question: Question) -> BlameAnswer:
    """Computed by ``query``."""
    names = question.versions.layout.names
    standing = tuple(
        Standing(dict(zip(names, row, strict=False)), *map(_integer, row[len(names) :]))
        for row in query(standing_query(question), "blame")
    )
    before: tuple[Removal, ...] = ()
    if standing and question.key:
        before = _removals(names, query(before_query(question), "blame"))
    return BlameAnswer(standing, before, _removals(names, query(gone_query(question), "blame")))


def _removals(names: Sequence[str], rows: Sequence[Sequence[object]]) -> tuple[Removal, ...]:
    return tuple(
        Removal(dict(zip(names, row, strict=False)), *map(_integer, row[len(names) : len(names) + 3]))
        for row in rows
    )


def _integer(value: object) -> int:
    return int(str(value))


def _events(question: Question, where: str) -> str:
    """The intervals of whole rows that satisfy ``where``, with `_mv_written`."""
    versions = question.versions
    partition = ", ".join(versions.whole_rows())
    over = f"partition by {partition} order by {TIME} rows between unbounded preceding and current row"
    rows = replace(versions, where=where).intervals(versions.whole_rows())
    return f"select *, max(if({DIFF} > 0, {TIME}, null)) over ({over}) {WRITTEN} from (\n{rows}\n)"


def _order(question: Question) -> str:
    columns = question.versions.layout.columns
    first = sorted(columns, key=lambda column: column.name not in question.key)
    return ", ".join(comparable(sql.identifier(column.name), column.type) for column in first)


def standing_query(question: Question) -> str:
    """The columns, copies and `_mv_written` of rows that stand, by key, then by all columns."""
    items = f"{sql.columns(question.versions.layout.names)}, {STOOD}, {WRITTEN}"
    return (
        f"select {items} from (\n{_events(question, question.where)}\n) where {UNTIL} is null and {STOOD} > 0 "
        f"order by {_order(question)} limit {question.limit}"
    )


def gone_query(question: Question) -> str:
    """The columns, copies, `_mv_written` and `_mv_time` of rows whose last copies were removed."""
    items = f"{sql.columns(question.versions.layout.names)}, -{DIFF}, {WRITTEN}, {TIME}"
    return (
        f"select {items} from (\n{_events(question, question.where)}\n) where {UNTIL} is null and {STOOD} = 0 "
        f"order by {TIME} desc, {_order(question)} limit {question.limit}"
    )


def before_query(question: Question) -> str:
    """The same of removals, of all copies or some, under the keys of the rows of `standing_query`:
    the newest ``limit`` of each key.
    """
    key = sql.columns(question.key)
    listed = f"select distinct {key} from (\n{standing_query(question)}\n)"
    pairs = " and ".join(f"e.{sql.identifier(name)} <=> k.{sql.identifier(name)}" for name in question.key)
    items = f"{sql.columns(question.versions.layout.names)}, -{DIFF} _mv_copies, {WRITTEN}, {TIME}"
    order = f"{TIME} desc, {_order(question)}"
    numbered = (
        f"select {items}, row_number() over (partition by {key} order by {order}) _mv_number "
        f"from (\nselect e.* from (\n{_events(question, '')}\n) e left semi join (\n{listed}\n) k on {pairs}\n) where {DIFF} < 0"
    )
    return f"select * from (\n{numbered}\n) where _mv_number <= {question.limit} order by {key}, {order}"
