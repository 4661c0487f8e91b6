"""Blame without an engine: the files of a small shard, read and compared in this process.

Only conditions that mean the same here as in SQL are accepted: columns equal to literals of their
own kind, or NULL, joined by AND. Nested columns are left to the engine.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.engine import Column
from dbt.adapters.mvsink.engine.json_values import plain
from dbt.adapters.mvsink.history.blame import Answer, Question, Removal, Row, Standing
from dbt.adapters.mvsink.physical import DIFF, ERROR, META, TIME
from dbt.adapters.mvsink.shard import DataFile, ShardState

MAX_UPDATES = 1_000_000  # that are read into this process
INTEGERS = {"tinyint", "smallint", "int", "bigint"}
_TERM = re.compile(
    r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<name>[A-Za-z_]\w*))\s*"
    r"(?:=\s*(?:(?P<number>-?\d{1,18})|'(?P<text>[^'\\]*)'|(?P<boolean>true|false)\b)|(?P<null>is\s+null\b))\s*",
    re.IGNORECASE | re.ASCII,
)
_AND = re.compile(r"and\b", re.IGNORECASE)


@dataclass(frozen=True)
class Term:
    """``column`` has this value; None is NULL."""

    column: str
    value: int | str | bool | None


def parse_terms(where: str, columns: Sequence[Column]) -> list[Term] | None:
    """The terms of a condition; None if only an engine can evaluate it.

    >>> from dbt.adapters.mvsink.engine import parse_type
    >>> parse_terms("ID = 7 and `id` is null", [Column("id", parse_type("int", "id"))])
    [Term(column='id', value=7), Term(column='id', value=None)]
    """
    types = {column.name.lower(): column for column in columns}
    terms, position = [], 0
    while True:
        match = _TERM.match(where, position)
        column = (
            types.get((match["quoted"] or match["name"] or "").replace("``", "`").lower()) if match else None
        )
        if match is None or column is None:
            return None
        term = _term(match, column)
        if term is None:
            return None
        terms.append(term)
        if match.end() == len(where):
            return terms
        conjunction = _AND.match(where, match.end())
        if conjunction is None:
            return None
        position = conjunction.end()


def _term(match: re.Match[str], column: Column) -> Term | None:
    """None for a literal of another kind than the column: what that means, the engine decides."""
    kind = column.type.name
    if match["null"]:
        return Term(column.name, None)
    if match["number"] is not None:
        return Term(column.name, int(match["number"])) if kind in INTEGERS else None
    if match["boolean"]:
        return Term(column.name, match["boolean"].lower() == "true") if kind == "boolean" else None
    return (
        Term(column.name, match["text"])
        if column.type.text == "string" and "${" not in match["text"]
        else None
    )


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
    state: ShardState, read: Callable[[DataFile], pa.Table], question: Question, terms: Sequence[Term]
) -> Answer:
    """`blame.rows_from_engine` for ``terms``; ``read`` gives a file's rows with all columns."""
    until = question.versions.until
    files = [file for file in state.files if file.min_time is None or file.min_time <= until]
    updates = [_valid(read(file), state, until) for file in files]
    order = _Order(question)
    matching = [table.filter(_mask(table, terms)) for table in updates]
    rows = [_Lifetime(row, changes, question.versions.since) for row, changes in _by_row(matching)]
    current = [row for row in rows if row.copies > 0]
    standing = sorted(current, key=lambda row: order.of(row.values))[: question.limit]
    ended = [row.removals[-1] for row in rows if row.removals and row.copies == 0]
    gone = sorted(ended, key=lambda removal: (-removal.removed, order.of(removal.row)))[: question.limit]
    before: list[Removal] = []
    if question.key and standing:
        keys = {order.key(row.values) for row in standing}
        before = _before(updates, keys, order, question)
    return Answer(
        tuple(Standing(_plain(row.values), row.copies, row.written) for row in standing),
        tuple(map(_plain_removal, before)),
        tuple(map(_plain_removal, gone)),
    )


def _valid(table: pa.Table, state: ShardState, until: int) -> pa.Table:
    """Updates of rows that an append can have written, up to ``until``."""
    times = table.column(TIME)
    bound = min(until, state.upper.stored() - 1)
    kept = pc.and_(pc.greater_equal(times, 0), pc.less_equal(times, bound))
    kept = pc.and_(kept, pc.and_(pc.not_equal(table.column(DIFF), 0), pc.is_null(table.column(ERROR))))
    return table.filter(pc.fill_null(kept, False))


def _mask(table: pa.Table, terms: Sequence[Term]) -> pa.ChunkedArray:
    masks = [
        pc.is_null(table.column(term.column))
        if term.value is None
        else pc.fill_null(pc.equal(table.column(term.column), _literal(term, table)), False)
        for term in terms
    ]
    mask = masks[0]
    for other in masks[1:]:
        mask = pc.and_(mask, other)
    return mask


def _literal(term: Term, table: pa.Table) -> pa.Scalar:
    kind = table.schema.field(term.column).type
    return pa.scalar(term.value, pa.int64() if pa.types.is_integer(kind) else kind)


def _by_row(tables: Sequence[pa.Table]) -> list[tuple[Row, dict[int, int]]]:
    """Each distinct row with its net changes by time. These are the rows asked for: few."""
    rows: dict[tuple[object, ...], tuple[Row, dict[int, int]]] = {}
    for table in tables:
        for update in table.to_pylist():
            row = {name: value for name, value in update.items() if name not in META}
            _, changes = rows.setdefault(_identity(row.values()), (row, defaultdict(int)))
            changes[update[TIME]] += update[DIFF]
    return list(rows.values())


def _identity(values: object) -> tuple[object, ...]:
    """Equal for values that GROUP BY takes for equal."""
    return tuple(
        ("nan" if math.isnan(value) else value + 0.0) if isinstance(value, float) else value
        for value in values  # type: ignore[attr-defined]
    )


class _Lifetime:
    """One whole row through the readable history; what is before ``since`` happened then."""

    def __init__(self, values: Row, changes: Mapping[int, int], since: int):
        self.values, self.copies, self.written = values, 0, since
        self.removals: list[Removal] = []
        net: dict[int, int] = defaultdict(int)
        for time, diff in changes.items():
            net[max(time, since)] += diff
        for time, diff in sorted(net.items()):
            self.copies += diff
            if diff > 0:
                self.written = time
            elif diff < 0:
                self.removals.append(Removal(values, -diff, self.written, time))


class _Order:
    """By the key, then by all columns; NULL first and NaN last, as the engine has it."""

    def __init__(self, question: Question):
        names = question.versions.layout.names
        self._names = sorted(names, key=lambda name: name not in question.key)
        self._key = question.key

    def of(self, row: Row) -> tuple[object, ...]:
        return tuple(_sortable(row[name]) for name in self._names)

    def key(self, row: Row) -> tuple[object, ...]:
        return _identity([row[name] for name in self._key])

    def of_key(self, row: Row) -> tuple[object, ...]:
        return tuple(_sortable(row[name]) for name in self._key)


def _sortable(value: object) -> tuple[object, ...]:
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (2,) if math.isnan(value) else (1, value)
    return (1, value)


def _before(
    updates: Sequence[pa.Table], keys: set[tuple[object, ...]], order: _Order, question: Question
) -> list[Removal]:
    tables = [table.filter(_has_key(table, keys, question.key)) for table in updates]
    removals: dict[tuple[object, ...], list[Removal]] = defaultdict(list)
    for row, changes in _by_row(tables):
        for removal in _Lifetime(row, changes, question.versions.since).removals:
            removals[order.key(row)].append(removal)
    newest = [
        removal
        for each in removals.values()
        for removal in sorted(each, key=lambda r: (-r.removed, order.of(r.row)))[: question.limit]
    ]
    return sorted(newest, key=lambda r: (order.of_key(r.row), -r.removed, order.of(r.row)))


def _has_key(table: pa.Table, keys: set[tuple[object, ...]], names: Sequence[str]) -> pa.BooleanArray:
    """Row by row, over the key's columns of at most `MAX_UPDATES` updates."""
    columns = [table.column(name).to_pylist() for name in names]
    return pa.array([_identity(values) in keys for values in zip(*columns, strict=True)], pa.bool_())


def _plain(row: Row) -> Row:
    return {name: plain(_in_utc(value)) for name, value in row.items()}


def _in_utc(value: object) -> object:
    """A timestamp without its zone, as an engine in UTC gives it."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(timezone.utc).replace(tzinfo=None)
    return value


def _plain_removal(removal: Removal) -> Removal:
    return Removal(_plain(removal.row), removal.copies, removal.written, removal.removed)
