"""The rows of an input that the query's own conditions keep: as a condition of Arrow, of Spark."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.engine import Column, sql
from dbt.adapters.mvsink.incremental import Comparison, Filter
from dbt.adapters.mvsink.shard import ambiguous

_COMPARED = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def in_arrow(wanted: Filter, columns: Sequence[Column]) -> pc.Expression | None:
    """An exact condition over ``columns``; None if one of the values is a date so old that a file
    may have it in another calendar. Other old dates are before all that is compared with them in
    either.
    """
    by_name = {column.name.lower(): column for column in columns}
    alternatives = []
    for comparisons in wanted:
        fulfilled = [_compared(each, by_name[each.column]) for each in comparisons]
        exact = [condition for condition in fulfilled if condition is not None]
        if len(exact) < len(fulfilled):
            return None
        alternatives.append(functools.reduce(operator.and_, exact))
    return functools.reduce(operator.or_, alternatives)


def _compared(comparison: Comparison, column: Column) -> pc.Expression | None:
    values = pa.array(comparison.values, column.type.arrow())
    if ambiguous(pa.table([values], ["values"])):
        return None
    place = pc.field(column.name)
    if comparison.operator == "in":
        return place.isin(values)
    compared: pc.Expression = _COMPARED[comparison.operator](place, values[0])
    return compared


def in_sql(wanted: Filter, columns: Sequence[Column]) -> str:
    """The condition for Spark."""
    by_name: Mapping[str, Column] = {column.name.lower(): column for column in columns}
    alternatives = (
        " and ".join(_text(each, by_name[each.column]) for each in comparisons) for comparisons in wanted
    )
    return f"({' or '.join(f'({each})' for each in alternatives)})"


def _text(comparison: Comparison, column: Column) -> str:
    kind = column.type.spelled
    values = [f"cast({sql.text(str(value))} as {kind})" for value in comparison.values]
    name = sql.identifier(column.name)
    if comparison.operator == "in":
        return f"{name} in ({', '.join(values)})"
    return f"{name} {comparison.operator} {values[0]}"
