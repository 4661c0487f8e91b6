"""The difference of two collections: of one shard at two times, or of two shards.

Contents are multisets. Without a key the difference is rows only in A and rows only in B. With a
key, a row of A and a row of B are one *changed* row if their key occurs exactly once on each side
(NULL equals NULL); rows of any other key are never paired.

If both times are of one shard, only the updates between them are read, and how often each of their
keys occurs. The engine computes the difference and returns only counts and samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dbt.adapters.mvsink.engine import Column, DataflowError, sql
from dbt.adapters.mvsink.engine.types import SparkType, parse_type
from dbt.adapters.mvsink.engine.whole_rows import comparable, net
from dbt.adapters.mvsink.physical import DIFF, ERROR
from dbt.adapters.mvsink.shard_sql import Layout, as_of

Query = Callable[[str, str], Sequence[Sequence[object]]]  # an engine's `query`
INTEGERS = ("tinyint", "smallint", "int", "bigint")
CHANGES, KEYED = "_mv_changes", "_mv_keyed"
BEFORE, REMOVED, ADDED = "_mv_before", "_mv_removed", "_mv_added"
PAIRED = f"{BEFORE} = 1 and {BEFORE} + {ADDED} - {REMOVED} = 1"
REPEATED = f"{BEFORE} > 1 or {BEFORE} + {ADDED} - {REMOVED} > 1"


class NothingInCommon(DataflowError):
    """The two sides have no column that can be compared."""

    error_code = "MVS-808"

    def __init__(self, a: Sequence[str], b: Sequence[str]):
        super().__init__(f"no column is on both sides: A has {', '.join(a)}; B has {', '.join(b)}")


class InvalidKey(DataflowError):
    """A column of the key is not on both sides, or cannot be a key."""

    error_code = "MVS-809"

    def __init__(self, column: str, problem: str, allowed: Sequence[str]):
        super().__init__(f"invalid key\n  Got: {column!r}{problem}\n  Expected: any of {', '.join(allowed)}")


@dataclass(frozen=True)
class DiffSide:
    """A shard at a readable time (ms)."""

    layout: Layout
    time: int


@dataclass(frozen=True)
class Compared:
    """A column of both sides. ``type``: in which it is compared."""

    a: str
    b: str
    type: SparkType

    @property
    def column(self) -> Column:
        """As the difference has it: with B's name."""
        return Column(self.b, self.type)


@dataclass(frozen=True)
class Columns:
    """The columns of two sides. ``retyped``: those with two types, which are not compared."""

    compared: tuple[Compared, ...]
    only_in_a: tuple[str, ...] = ()
    only_in_b: tuple[str, ...] = ()
    retyped: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, a: Sequence[Column], b: Sequence[Column]) -> Columns:
        """Columns of one name, whatever its case, in B's order. Raises `NothingInCommon`."""
        columns = cls.matched(a, b)
        if not columns.compared:
            raise NothingInCommon([column.name for column in a], [column.name for column in b])
        return columns

    @classmethod
    def matched(cls, a: Sequence[Column], b: Sequence[Column]) -> Columns:
        """The same, also if no column can be compared."""
        first = {column.name.lower(): column for column in a}
        names = {column.name.lower() for column in b}
        pairs = [(first[column.name.lower()], column) for column in b if column.name.lower() in first]
        types = {column.name: _common(old.type, column.type) for old, column in pairs}
        compared = tuple(
            Compared(old.name, new.name, kind) for old, new in pairs if (kind := types[new.name]) is not None
        )
        return cls(
            compared,
            tuple(column.name for column in a if column.name.lower() not in names),
            tuple(column.name for column in b if column.name.lower() not in first),
            {new.name: (old.type.text, new.type.text) for old, new in pairs if types[new.name] is None},
        )

    def key(self, names: Sequence[str]) -> tuple[str, ...]:
        """These columns with B's spelling. Raises `InvalidKey`."""
        spelled = {each.b.lower(): each for each in self.compared}
        for name in names:
            if name.lower() not in spelled:
                raise InvalidKey(
                    name, ", which is not a column of both sides", [each.b for each in self.compared]
                )
            if "map<" in spelled[name.lower()].type.text:
                raise InvalidKey(name, ", which is or contains a map", [each.b for each in self.compared])
        return tuple(dict.fromkeys(spelled[name.lower()].b for name in names))


def _common(a: SparkType, b: SparkType) -> SparkType | None:
    """The type in which both are compared; None if they are too different to compare exactly."""
    if a.name in INTEGERS and b.name in INTEGERS:
        return a if a.text == b.text else parse_type("bigint", "")
    return a if a.text == b.text else None


@dataclass(frozen=True)
class ShardComparison:
    """What is compared. ``key``: names of compared columns, as B spells them; empty for none."""

    a: DiffSide
    b: DiffSide
    columns: Columns
    key: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """All compared columns."""
        return [each.b for each in self.columns.compared]

    @property
    def rest(self) -> list[Compared]:
        """The compared columns that are not in the key."""
        return [each for each in self.columns.compared if each.b not in self.key]


@dataclass(frozen=True)
class RowChange:
    """A row of the sample. If it is only on one side, the other side is None, and ``copies`` says
    how many there are.
    """

    a: Mapping[str, object] | None
    b: Mapping[str, object] | None
    copies: int = 1


@dataclass(frozen=True)
class Diff:
    """The counts, and a sample of each kind.

    ``rows_a`` and ``rows_b`` count all rows of the sides. ``only_in_a`` and ``only_in_b`` count
    rows without a partner, with their multiplicities, and ``changed`` counts pairs.
    ``repeated_keys`` counts keys of such rows that occur more than once on a side. ``values`` says
    for each column in how many pairs it differs. ``errors`` counts recorded errors that are on one
    side only.
    """

    rows_a: int
    rows_b: int
    only_in_a: int
    only_in_b: int
    changed: int = 0
    repeated_keys: int = 0
    errors: int = 0
    values: Mapping[str, int] = field(default_factory=dict)
    sample: tuple[RowChange, ...] = ()

    @property
    def differs(self) -> bool:
        return bool(self.only_in_a or self.only_in_b or self.changed or self.errors)


def compare(query: Query, comparison: ShardComparison, sample: int) -> Diff:
    """The difference, computed by ``query``, with up to ``sample`` rows of each kind.

    The sample is in the order of the key, then of all columns.
    """
    [row] = query(counts_query(comparison), "diff")
    rows_a, rows_b, errors, only_in_a, only_in_b, changed, repeated, *values = map(_integer, row)
    rest = comparison.rest if comparison.key else []
    changes: list[RowChange] = []
    if sample and changed:
        changes += _pairs(comparison, query(pairs_query(comparison, sample), "diff"))
    for count, sign in ((only_in_a, -1), (only_in_b, 1)):
        if sample and count:
            rows = query(rows_query(comparison, sign, sample), "diff")
            changes += [_one_sided(comparison, sign, each) for each in rows]
    return Diff(
        rows_a,
        rows_b,
        only_in_a,
        only_in_b,
        changed,
        repeated,
        errors,
        {column.b: count for column, count in zip(rest, values, strict=True) if count},
        tuple(changes),
    )


def replaced(query: Query, a: DiffSide, b: DiffSide) -> Diff:
    """The difference of sides without a column in common: all rows go, and all rows come."""
    sizes = ", ".join(f"(\n{as_of.row_count_as_of(side.layout, side.time)}\n)" for side in (a, b))
    [[rows_a, rows_b]] = query(f"select {sizes}", "diff")
    return Diff(_integer(rows_a), _integer(rows_b), _integer(rows_a), _integer(rows_b))


def _integer(value: object) -> int:
    return int(str(value))


def _pairs(comparison: ShardComparison, rows: Sequence[Sequence[object]]) -> list[RowChange]:
    width, rest = len(comparison.key), [each.b for each in comparison.rest]
    changes = []
    for row in rows:
        key = dict(zip(comparison.key, row, strict=False))
        a, b = row[width : width + len(rest)], row[width + len(rest) :]
        old, new = ({**key, **dict(zip(rest, side, strict=True))} for side in (a, b))
        names = comparison.names
        changes.append(RowChange({name: old[name] for name in names}, {name: new[name] for name in names}))
    return changes


def _one_sided(comparison: ShardComparison, sign: int, row: Sequence[object]) -> RowChange:
    values = dict(zip(comparison.names, row, strict=False))
    copies = abs(_integer(row[-1]))
    return RowChange(values, None, copies) if sign < 0 else RowChange(None, values, copies)


def changes_query(comparison: ShardComparison) -> str:
    """Compared columns, `_mv_error`, and `_mv_diff`: how many more copies B has; never 0."""
    a, b = comparison.a, comparison.b
    columns = [each.column for each in comparison.columns.compared]
    if a.layout == b.layout:  # one shard at one version, of which only the updates in between are read
        early, late = sorted((a.time, b.time))
        updates = as_of.changes_between(a.layout, early + 1, late + 1)
        rows = _signed(updates, comparison.columns.compared, 1 if a.time <= b.time else -1, of_a=True)
    else:
        rows = sql.union_all(
            _signed(
                as_of.updates_up_to(side.layout, side.time, side.layout.columns),
                comparison.columns.compared,
                sign,
                of_a=sign < 0,
            )
            for side, sign in ((a, -1), (b, 1))
        )
    return net(columns, [ERROR], rows, "<> 0")


def _signed(updates: str, columns: Sequence[Compared], sign: int, *, of_a: bool) -> str:
    items = ", ".join(_item(each, of_a=of_a) for each in columns)
    diff = DIFF if sign > 0 else f"-{DIFF} {DIFF}"
    return f"select {items}, {diff}, {ERROR} from (\n{updates}\n)"


def _item(column: Compared, *, of_a: bool) -> str:
    name = sql.identifier(column.a if of_a else column.b)
    value = f"cast({name} as bigint)" if column.type.name == "bigint" else name
    return f"{value} {sql.identifier(column.b)}"


def keyed_query(comparison: ShardComparison) -> str:
    """One row for each key in `_mv_changes`: the key, how often it occurs in A (`_mv_before`), how
    many rows are removed and added, and of each other column a removed and an added row's value.
    """
    key, rest = sql.columns(comparison.key), comparison.rest
    values = "".join(f", {sql.identifier(each.b)}" for each in rest)
    typed = "".join(f", {as_of.nulls([each.column])}" for each in rest)
    parts = [each for each in comparison.columns.compared if each.b in comparison.key]
    narrow = as_of.updates_up_to(
        comparison.a.layout, comparison.a.time, [Column(each.a, each.type) for each in parts]
    )
    occurrences = _signed(narrow, parts, 1, of_a=True)
    rows = [
        f"select {key}, 0L {BEFORE}, {DIFF}{values} from {CHANGES} where {ERROR} is null",
        f"select {sql.columns(comparison.key, 'a')}, a.{DIFF} {BEFORE}, 0L {DIFF}{typed}\n"
        f"from (select * from (\n{occurrences}\n) where {ERROR} is null) a\n"
        f"left semi join (select distinct {key} from {CHANGES} where {ERROR} is null) k on "
        + _equal(comparison.key, "a", "k"),
    ]
    sums = [
        f"sum({BEFORE}) {BEFORE}",
        f"sum(if({DIFF} < 0, -{DIFF}, 0L)) {REMOVED}",
        f"sum(if({DIFF} > 0, {DIFF}, 0L)) {ADDED}",
    ]
    for number, each in enumerate(rest):
        name = sql.identifier(each.b)
        sums += [
            f"any_value({name}) filter (where {DIFF} {sign} 0) _mv_{side}{number}"
            for side, sign in zip("ab", "<>")
        ]
    return f"select {key}, {', '.join(sums)} from (\n{sql.union_all(rows)}\n) group by {key}"


def _equal(names: Sequence[str], a: str, b: str) -> str:
    return " and ".join(f"{a}.{sql.identifier(name)} <=> {b}.{sql.identifier(name)}" for name in names)


def counts_query(comparison: ShardComparison) -> str:
    """One row: the fields of `Diff` from ``rows_a`` to ``repeated_keys`` (``errors`` third), then
    the pairs in which each column outside the key differs.
    """
    sizes = [
        f"(\n{as_of.row_count_as_of(side.layout, side.time)}\n)" for side in (comparison.a, comparison.b)
    ]
    errors = f"(select coalesce(sum(if({ERROR} is null, 0L, 1L)), 0L) from {CHANGES})"
    if not comparison.key:
        removed, added = f"if({DIFF} < 0, -{DIFF}, 0L)", f"if({DIFF} > 0, {DIFF}, 0L)"
        counts = [_total(removed), _total(added), "0L", "0L"]
        items = ", ".join([*sizes, errors, *counts])
        return (
            f"with {CHANGES} as (\n{changes_query(comparison)}\n)\n"
            f"select {items} from {CHANGES} where {ERROR} is null"
        )
    counts = [
        _total(f"if({PAIRED}, 0L, {REMOVED})"),
        _total(f"if({PAIRED}, 0L, {ADDED})"),
        _total(f"if({PAIRED}, 1L, 0L)"),
        _total(f"if({REPEATED}, 1L, 0L)"),
    ]
    for number, each in enumerate(comparison.rest):
        a, b = (comparable(f"_mv_{side}{number}", each.type) for side in "ab")
        counts.append(_total(f"if({PAIRED} and not ({a} <=> {b}), 1L, 0L)"))
    return f"{_with(comparison)}\nselect {', '.join([*sizes, errors, *counts])} from {KEYED}"


MONTHS = 1_200  # of a count by month


@dataclass(frozen=True)
class Month:
    """The rows of one month (`2026-01`; None: NULL) that are only in A, only in B, and changed."""

    month: str | None
    only_in_a: int
    only_in_b: int
    changed: int


def by_month(query: Query, comparison: ShardComparison, column: str) -> list[Month]:
    """The difference by the months of a date or timestamp, which are at most `MONTHS`, in order; of
    a changed row by that which B has. The sums are those of `compare`.
    """
    rows = query(months_query(comparison, column), "diff")
    return [Month(None if month is None else str(month), *map(_integer, counts)) for month, *counts in rows]


def months_query(comparison: ShardComparison, column: str) -> str:
    """The query of `by_month`."""
    removed, added = f"if({DIFF} < 0, -{DIFF}, 0L) a", f"if({DIFF} > 0, {DIFF}, 0L) b"
    one_sided = f"select {_month(sql.identifier(column))} m, {removed}, {added}, 0L c from {CHANGES} c"
    if comparison.key:
        numbers = {each.b: number for number, each in enumerate(comparison.rest)}
        value = f"_mv_b{numbers[column]}" if column in numbers else sql.identifier(column)
        paired = f"(select {sql.columns(comparison.key)} from {KEYED} where {PAIRED})"
        start = _with(comparison)
        rows = [
            f"{one_sided} left anti join {paired} p on {_equal(comparison.key, 'c', 'p')} where c.{ERROR} is null",
            f"select {_month(value)} m, 0L a, 0L b, 1L c from {KEYED} where {PAIRED}",
        ]
    else:
        start, rows = (
            f"with {CHANGES} as (\n{changes_query(comparison)}\n)",
            [f"{one_sided} where {ERROR} is null"],
        )
    return (
        f"{start}\nselect m, sum(a), sum(b), sum(c) from (\n{sql.union_all(rows)}\n) "
        f"group by m order by m nulls last limit {MONTHS}"
    )


def _month(value: str) -> str:
    return f"date_format({value}, 'yyyy-MM')"


def _total(expression: str) -> str:
    return f"coalesce(sum({expression}), 0L)"


def _with(comparison: ShardComparison) -> str:
    return f"with {CHANGES} as (\n{changes_query(comparison)}\n), {KEYED} as (\n{keyed_query(comparison)}\n)"


def pairs_query(comparison: ShardComparison, limit: int) -> str:
    """The first pairs in the key's order: the key, then all other columns of A, then of B."""
    items = [sql.columns(comparison.key)]
    items += [f"_mv_{side}{number}" for side in "ab" for number in range(len(comparison.rest))]
    order = sql.columns(comparison.key)
    return f"{_with(comparison)}\nselect {', '.join(items)} from {KEYED} where {PAIRED} order by {order} limit {limit}"


def rows_query(comparison: ShardComparison, sign: int, limit: int) -> str:
    """The first rows without a partner that are only in A (``sign`` -1) or only in B, with
    `_mv_diff`, in the order of the key, then of all columns.
    """
    columns = [each.column for each in comparison.columns.compared]
    first = sorted(columns, key=lambda column: column.name not in comparison.key)
    order = ", ".join(comparable(f"c.{sql.identifier(column.name)}", column.type) for column in first)
    one_side = f"c.{ERROR} is null and c.{DIFF} {'<' if sign < 0 else '>'} 0"
    items = f"{sql.columns(comparison.names, 'c')}, c.{DIFF}"
    if not comparison.key:
        start, pairs = f"with {CHANGES} as (\n{changes_query(comparison)}\n)", ""
    else:
        paired = f"(select {sql.columns(comparison.key)} from {KEYED} where {PAIRED})"
        start = _with(comparison)
        pairs = f" left anti join {paired} p on {_equal(comparison.key, 'c', 'p')}"
    return f"{start}\nselect {items} from {CHANGES} c{pairs} where {one_side} order by {order} limit {limit}"
