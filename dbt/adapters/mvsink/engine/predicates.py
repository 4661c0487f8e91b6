"""Conditions on the rows of a relation, as values: each is Spark's text and Arrow's expression.

>>> from dbt.adapters.mvsink.engine.types import parse_type
>>> amount = Column("Amount", parse_type("int", "Amount"))
>>> wanted = Filter(((Comparison("amount", ">", (5,)), Comparison("amount", "<>", (7,))),))
>>> wanted.sql([amount])
"((`Amount` > cast('5' as int) and `Amount` <> cast('7' as int)))"
>>> rows = pa.table({"Amount": pa.array([5, 6, 7, None], pa.int32())})
>>> rows.filter(wanted.arrow([amount])).to_pydict()
{'Amount': [6]}

`Filter` is for rows that a query's own conditions keep, `OneOf` for rows that have one of some
keys. A row satisfies both forms of a condition or neither, except where `OneOf.exact` is false.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.calendars import ambiguous
from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.engine.types import Column

Value: TypeAlias = int | bool | str | date

# Closed ranges in a condition on one column. Spark compares each of them with the statistics of
# every file, row group and page, so they skip what lies in the widest gaps, not in every one.
MAX_RANGES = 16
MAX_LISTED = 2_000  # values that a condition lists behind its ranges, which bounds a statement's text
_NUMBERED = ("tinyint", "smallint", "int", "bigint", "date")  # ranges may leave out gaps
_BOUNDED = (*_NUMBERED, "string", "decimal")  # one range
_COMPARED = ("boolean", "binary", "timestamp", "timestamp_ntz")  # equality alone
_OPERATORS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Comparison:
    """``column``, in lower case, compared with ``values`` by ``operator``: `=`, `<>`, `<`, `<=`,
    `>`, `>=` with one, `in` with any number, `is null` with none. NULL satisfies only the last. The
    values have the column's type: an integer in its range, BOOLEAN, STRING or DATE.
    """

    column: str
    operator: str
    values: tuple[Value, ...] = ()

    def sql(self, columns: Mapping[str, Column]) -> str:
        """The condition for Spark; ``columns`` by their names in lower case."""
        column = columns[self.column]
        name = sql.identifier(column.name)
        if self.operator == "in" and not self.values:
            return "false"
        values = [f"cast({sql.text(str(value))} as {column.type.spelled})" for value in self.values]
        listed = f"({', '.join(values)})" if self.operator == "in" else "".join(values)
        return f"{name} {self.operator} {listed}".rstrip()

    def arrow(self, columns: Mapping[str, Column]) -> pc.Expression | None:
        """The condition for Arrow; None if a value is a date so old that a file may have it in
        another calendar. Older dates in a file are before the value in either calendar.
        """
        column = columns[self.column]
        place = pc.field(column.name)
        if self.operator == "is null":
            return place.is_null()
        values = pa.array(self.values, column.type.arrow())
        if ambiguous(pa.table([values], ["values"])):
            return None
        if self.operator == "in":
            return place.isin(values)
        compared: pc.Expression = _OPERATORS[self.operator](place, values[0])
        return compared


@dataclass(frozen=True)
class Filter:
    """A row must satisfy all comparisons of one of the ``alternatives``."""

    alternatives: tuple[tuple[Comparison, ...], ...]

    def sql(self, columns: Sequence[Column]) -> str:
        """The condition for Spark."""
        by_name = {column.name.lower(): column for column in columns}
        alternatives = (" and ".join(each.sql(by_name) for each in every) for every in self.alternatives)
        return f"({' or '.join(f'({each})' for each in alternatives)})"

    def arrow(self, columns: Sequence[Column]) -> pc.Expression | None:
        """The condition for Arrow; None if one of the comparisons has none."""
        by_name = {column.name.lower(): column for column in columns}
        return combined(
            operator.or_,
            (combined(operator.and_, (each.arrow(by_name) for each in every)) for every in self.alternatives),
        )


@dataclass(frozen=True)
class OneOf:
    """The condition that ``column`` has one of ``values`` or, if ``nulls``, is NULL. A NULL among
    the values is ignored.

    Spark compares constants with the statistics of files, row groups and pages, but not the values
    that a semi-join looks for. So the text has closed ranges that contain all values and, if there
    are few, a list of the values.
    """

    column: Column
    values: pa.ChunkedArray
    nulls: bool = False

    @cached_property
    def _present(self) -> pa.Array:
        return pc.unique(self.values.drop_null())

    @property
    def exact(self) -> bool:
        """Whether only rows with one of the values satisfy the text, if there is one."""
        return len(self._present) == 0 or (self._numbered and len(self._present) <= MAX_LISTED)

    @property
    def _numbered(self) -> bool:
        return self.column.type.name in _NUMBERED

    def sql(self) -> str | None:
        """The condition for Spark; None for a type for which ranges are useless."""
        if self.column.type.name not in _BOUNDED:
            return None
        name = sql.identifier(self.column.name)
        condition = self._ranges(name) if len(self._present) else "false"
        return f"({condition} or {name} is null)" if self.nulls else condition

    def _ranges(self, name: str) -> str:
        kind = self.column.type.spelled
        ranges = (
            f"{name} between {_constant(low, kind)} and {_constant(high, kind)}"
            for low, high in (_spans(self._present) if self._numbered else [_bounds(self._present)])
        )
        condition = f"({' or '.join(ranges)})"
        if not self.exact:
            return condition
        listed = ",".join(_listed(value, kind) for value in _numbers(self._present).to_pylist())
        return f"({condition} and {name} in ({listed}))"

    def arrow(self) -> pc.Expression | None:
        """The condition for Arrow, which is exact. None for a type whose equality is not Spark's,
        and for dates so old that a file may have them in another calendar.
        """
        kind = self.column.type.name
        if kind not in (*_BOUNDED, *_COMPARED) or ambiguous(pa.table([self.values], ["values"])):
            return None
        place, present = pc.field(self.column.name), self._present
        condition = place.is_null() if self.nulls else pc.scalar(False)
        if len(present) == 0:
            return condition
        listed = place.isin(present)
        if kind in _BOUNDED:  # what statistics are compared with
            bounds = pc.min_max(present)
            listed = (place >= bounds["min"]) & (place <= bounds["max"]) & listed
        return listed | condition


def combined(
    combine: Callable[[pc.Expression, pc.Expression], pc.Expression],
    conditions: Iterable[pc.Expression | None],
) -> pc.Expression | None:
    """The conditions for Arrow, combined into one; None if one of them is None."""
    listed = list(conditions)
    exact = [each for each in listed if each is not None]
    return functools.reduce(combine, exact) if len(exact) == len(listed) else None


def _constant(value: object, kind: str) -> str:
    """A value of that type; for a date its number, because Python has no dates of most years."""
    if kind == "date":
        return sql.day(int(str(value)))
    return f"cast({sql.text(str(value))} as {kind})"


def _listed(value: int, kind: str) -> str:
    return sql.day(value) if kind == "date" else sql.bigint(value) if value == -(2**63) else str(value)


def _numbers(values: pa.Array) -> pa.Array:
    return values.cast(pa.int32()) if pa.types.is_date32(values.type) else values


def _bounds(values: pa.Array) -> tuple[object, object]:
    bounds = pc.min_max(values)
    return bounds["min"].as_py(), bounds["max"].as_py()


def _spans(values: pa.Array) -> Iterator[tuple[object, object]]:
    """At most `MAX_RANGES` ranges of the values, divided where the gaps between values are
    largest.
    """
    ordered = _numbers(values.sort())
    numbers = ordered.cast(pa.int64())
    # as floats no difference overflows, and which gaps are the largest need not be exact
    gaps = pc.subtract(
        numbers[1:].cast(pa.float64(), safe=False), numbers[:-1].cast(pa.float64(), safe=False)
    )
    widest = pc.select_k_unstable(pa.table({"gap": gaps}), MAX_RANGES - 1, [("gap", "descending")])
    ends = [*sorted(index for index in widest.to_pylist()), len(ordered) - 1]
    start = 0
    for end in ends:
        yield ordered[start].as_py(), ordered[end].as_py()
        start = end + 1
