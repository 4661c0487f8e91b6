"""Which run wrote the rows that satisfy a condition, and which rows their keys had before.

For each row this finds the newest time, up to the time asked for, at which copies of it were added,
and the run whose commit covers that time. A row that existed when the readable history begins was
written then or before; the answer says so.

`rows_from_engine` answers any condition. For a small shard without nested columns, and a condition
that means the same here as in SQL (columns equal to literals of their own kind, or NULL, joined by
AND), `rows_from_files` reads the files in this process instead. Both give the same answer.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.engine import Column, sql
from dbt.adapters.mvsink.engine.predicates import Comparison, Filter
from dbt.adapters.mvsink.engine.types import plain
from dbt.adapters.mvsink.engine.whole_rows import comparable
from dbt.adapters.mvsink.history.points import Run, runs_of
from dbt.adapters.mvsink.history.row_versions import STOOD, UNTIL, RowVersions
from dbt.adapters.mvsink.history.shard_diff import InvalidKey, Query
from dbt.adapters.mvsink.local.rows import has_key, row_numbers
from dbt.adapters.mvsink.physical import DIFF, ERROR, META, TIME
from dbt.adapters.mvsink.shard import Commit, DataFile, ShardState, consolidate, physical_schema
from dbt.adapters.mvsink.shard.updates import advance
from dbt.adapters.mvsink.shard_sql import Layout

WRITTEN = "_mv_written"
MAX_UPDATES = 1_000_000  # updates of a shard, which are all read into this process
_TERM = re.compile(
    r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<name>[A-Za-z_]\w*))\s*"
    r"(?:=\s*(?:(?P<number>-?\d{1,18})|'(?P<text>[^'\\]*)'|(?P<boolean>true|false)\b)|(?P<null>is\s+null\b))\s*",
    re.IGNORECASE | re.ASCII,
)
_AND = re.compile(r"and\b", re.IGNORECASE)
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
    """Who wrote or removed a row. ``time`` (ms) is that of the update. ``exact`` is False for rows
    that existed when history began and may be older. ``run`` is None if the row may be older, or if
    the log no longer has the commit.
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
        """Who made the change at ``time`` (ms)."""
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


def _order_by(question: Question) -> str:
    columns = question.versions.layout.columns
    first = sorted(columns, key=lambda column: column.name not in question.key)
    return ", ".join(comparable(sql.identifier(column.name), column.type) for column in first)


def standing_query(question: Question) -> str:
    """The columns, copies and `_mv_written` of rows that stand, by key, then by all columns."""
    items = f"{sql.columns(question.versions.layout.names)}, {STOOD}, {WRITTEN}"
    return (
        f"select {items} from (\n{_events(question, question.where)}\n) where {UNTIL} is null and {STOOD} > 0 "
        f"order by {_order_by(question)} limit {question.limit}"
    )


def gone_query(question: Question) -> str:
    """The columns, copies, `_mv_written` and `_mv_time` of rows whose last copies were removed."""
    items = f"{sql.columns(question.versions.layout.names)}, -{DIFF}, {WRITTEN}, {TIME}"
    return (
        f"select {items} from (\n{_events(question, question.where)}\n) where {UNTIL} is null and {STOOD} = 0 "
        f"order by {TIME} desc, {_order_by(question)} limit {question.limit}"
    )


def before_query(question: Question) -> str:
    """The same of removals, of all copies or some, under the keys of the rows of `standing_query`:
    the newest ``limit`` of each key.
    """
    key = sql.columns(question.key)
    listed = f"select distinct {key} from (\n{standing_query(question)}\n)"
    pairs = " and ".join(f"e.{sql.identifier(name)} <=> k.{sql.identifier(name)}" for name in question.key)
    items = f"{sql.columns(question.versions.layout.names)}, -{DIFF} _mv_copies, {WRITTEN}, {TIME}"
    order = f"{TIME} desc, {_order_by(question)}"
    numbered = (
        f"select {items}, row_number() over (partition by {key} order by {order}) _mv_number "
        f"from (\nselect e.* from (\n{_events(question, '')}\n) e left semi join (\n{listed}\n) k on {pairs}\n) where {DIFF} < 0"
    )
    return f"select * from (\n{numbered}\n) where _mv_number <= {question.limit} order by {key}, {order}"


def parse_terms(where: str, columns: Sequence[Column]) -> Filter | None:
    """A condition of such terms; None if only an engine can evaluate it.

    >>> from dbt.adapters.mvsink.engine import parse_type
    >>> id = Column("id", parse_type("int", "id"))
    >>> parse_terms("ID = 7 and `id` is null", [id]).sql([id])
    "((`id` = cast('7' as int) and `id` is null))"
    """
    types = {column.name.lower(): column for column in columns}
    terms, position = [], 0
    while (match := _TERM.match(where, position)) is not None:
        column = types.get((match["quoted"] or match["name"]).replace("``", "`").lower())
        term = None if column is None else _term(match, column)
        if term is None:
            return None
        terms.append(term)
        if match.end() == len(where):
            return Filter((tuple(terms),))
        conjunction = _AND.match(where, match.end())
        if conjunction is None:
            return None
        position = conjunction.end()
    return None


def _term(match: re.Match[str], column: Column) -> Comparison | None:
    """None for a literal of another kind than the column: what that means, the engine decides."""
    name, kind = column.name.lower(), column.type.arrow()
    if match["null"]:
        return Comparison(name, "is null")
    if match["number"] is not None:
        number = int(match["number"])
        if not pa.types.is_integer(kind):
            return None
        in_range = -(2 ** (kind.bit_width - 1)) <= number < 2 ** (kind.bit_width - 1)
        return Comparison(name, "=", (number,)) if in_range else Comparison(name, "in", ())
    if match["boolean"]:
        value = match["boolean"].lower() == "true"
        return Comparison(name, "=", (value,)) if pa.types.is_boolean(kind) else None
    plain_text = column.type.text == "string" and "${" not in match["text"]
    return Comparison(name, "=", (match["text"],)) if plain_text else None


def is_small(state: ShardState, columns: Sequence[Column]) -> bool:
    """Whether its files can be read here, by their statistics and the columns' types."""
    rows = [file.rows for file in state.files]
    return (
        None not in rows
        and sum(count or 0 for count in rows) <= MAX_UPDATES
        and not any(file.deletion_vector for file in state.files)
        and not any(column.type.nested for column in columns)
    )


def rows_from_files(
    state: ShardState, read: Callable[[DataFile], pa.Table], question: Question, wanted: Filter
) -> BlameAnswer:
    """`rows_from_engine` for ``wanted``; ``read`` gives a file's rows with all columns."""
    versions, key, limit = question.versions, question.key, question.limit
    files = [file for file in state.files if file.min_time is None or file.min_time <= versions.until]
    tables = [_valid(read(file), state, versions.until) for file in files]
    updates = pa.concat_tables([physical_schema(state.schema).empty_table(), *tables])
    names = sorted(versions.layout.names, key=lambda name: name not in key)

    def newest_first(removal: Removal) -> tuple[object, ...]:
        return (-removal.removed, *_order(removal.row, names))

    lives = _lives(updates.filter(wanted.arrow(versions.layout.columns)), versions.since, key)
    current = sorted((life for life in lives if life.copies), key=lambda life: _order(life.row, names))
    standing, removed = current[:limit], defaultdict(list)
    if key and standing:
        schema = pa.schema([updates.schema.field(name) for name in key])
        keys = pa.Table.from_pylist([{name: life.row[name] for name in key} for life in standing], schema)
        for life in _lives(updates.filter(has_key(updates, keys)), versions.since, key):
            removed[life.key].extend(life.removals)
    before = [removal for each in removed.values() for removal in sorted(each, key=newest_first)[:limit]]
    before.sort(key=lambda removal: (_order(removal.row, key), newest_first(removal)))
    gone = sorted(
        (life.removals[-1] for life in lives if not life.copies and life.removals), key=newest_first
    )
    return BlameAnswer(
        tuple(Standing(_plain(life.row), life.copies, life.written) for life in standing),
        *(tuple(replace(each, row=_plain(each.row)) for each in some) for some in (before, gone[:limit])),
    )


def _valid(table: pa.Table, state: ShardState, until: int) -> pa.Table:
    """Updates of rows that an append can have written, up to ``until``."""
    bound = min(until, state.upper.stored() - 1)
    time, diff, error = pc.field(TIME), pc.field(DIFF), pc.field(ERROR)
    return table.filter((time >= 0) & (time <= bound) & (diff != 0) & error.is_null())


@dataclass
class _Life:
    """One whole row through the readable history. ``key`` is a number for the values of its key."""

    row: Row
    key: int
    written: int
    copies: int = 0
    removals: list[Removal] = field(default_factory=list)


def _lives(updates: pa.Table, since: int, key: Sequence[str]) -> list[_Life]:
    """Of each whole row in ``updates``; what is before ``since`` happened then."""
    net = consolidate(advance(updates, since))
    data = net.drop_columns([name for name in META if name in net.column_names])
    numbered = net.append_column("_mv_row", row_numbers(data))
    numbered = numbered.append_column("_mv_key", row_numbers(data.select(key)))
    lives: dict[int, _Life] = {}
    for update in numbered.sort_by(TIME).to_pylist():
        row = {name: update[name] for name in data.column_names}
        life = lives.setdefault(update["_mv_row"], _Life(row, update["_mv_key"], since))
        life.copies += update[DIFF]
        if update[DIFF] > 0:
            life.written = update[TIME]
        else:
            life.removals.append(Removal(row, -update[DIFF], life.written, update[TIME]))
    return list(lives.values())


def _order(row: Row, names: Sequence[str]) -> tuple[object, ...]:
    """By these columns; NULL first and NaN last, as the engine has it."""
    return tuple(
        (0,) if row[name] is None else (2,) if row[name] != row[name] else (1, row[name]) for name in names
    )


def _plain(row: Row) -> Row:
    """With timestamps without their zone, as an engine in UTC gives them."""
    return {
        name: plain(
            value.astimezone(timezone.utc).replace(tzinfo=None)
            if isinstance(value, datetime) and value.tzinfo is not None
            else value
        )
        for name, value in row.items()
    }
