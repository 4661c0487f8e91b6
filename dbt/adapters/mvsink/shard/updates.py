"""Updates in Arrow: ``(row, time, diff)`` with an optional error message, checked and consolidated.

A table of updates has the data columns, then `_mv_time`, `_mv_diff`, and optionally `_mv_error`.
Rows compare as in GROUP BY: NULL equals NULL, NaN equals NaN, -0.0 equals 0.0, a map has no order.

>>> schema = pa.schema([("a", pa.string())])
>>> t = pa.table({"a": ["x", "x", "y"], "_mv_time": [1, 1, 1], "_mv_diff": [1, 1, 0]})
>>> consolidate(normalize(t, schema)).select(["a", "_mv_diff"]).to_pylist()
[{'a': 'x', '_mv_diff': 2}]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, META, PREFIX, TIME
from dbt.adapters.mvsink.shard.errors import InvalidUsage, SchemaMismatch
from dbt.adapters.mvsink.shard.frontier import Antichain
from dbt.adapters.mvsink.shard.state import schema_differences

META_SCHEMA = pa.schema([(TIME, pa.int64()), (DIFF, pa.int64()), (ERROR, pa.string()), (HASH, pa.int64())])
Updates: TypeAlias = "pa.Table | pa.RecordBatch | pa.RecordBatchReader"
# Below it a float sum cannot hide an overflow; beyond it sums are checked exactly.
SAFE_SUM = float(2**62)


def physical_schema(data: pa.Schema) -> pa.Schema:
    """The columns of a shard's files: the data columns, then the physical ones, all nullable."""
    return pa.schema([*(pa.field(field.name, field.type) for field in data), *META_SCHEMA])


def check_data_schema(schema: pa.Schema) -> None:
    """Raises `InvalidUsage` for a reserved or a repeated column name."""
    for name in schema.names:
        if name.lower().startswith(PREFIX):
            raise InvalidUsage(f"column {name!r}: names that start with {PREFIX!r} are reserved")
    if len(set(schema.names)) != len(schema.names):
        raise InvalidUsage(f"column names repeat: {schema.names}")


def canonical(schema: pa.Schema) -> pa.Schema:
    """The schema as a shard stores it. Where Arrow has several types for one kind of value (text,
    lists, times), one is used; times are in microseconds.
    """
    return pa.schema([pa.field(field.name, _canonical_type(field.type)) for field in schema])


def _canonical_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC" if kind.tz else None)
    if pa.types.is_dictionary(kind):
        return _canonical_type(kind.value_type)
    if pa.types.is_map(kind):
        return pa.map_(_canonical_type(kind.key_type), _canonical_type(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_canonical_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _canonical_type(field.type)) for field in kind])
    return kind


def _cast(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """``table`` in ``schema``; `InvalidUsage` if a value does not fit, such as a time in
    nanoseconds.
    """
    if table.schema.types == schema.types:
        return table
    try:
        return table.cast(schema)
    except pa.ArrowInvalid as error:
        raise InvalidUsage(f"updates cannot be kept exactly: {error}") from error


def batches_of(updates: Updates) -> Iterator[pa.RecordBatch]:
    """The record batches of ``updates``, one by one."""
    if isinstance(updates, pa.RecordBatch):
        yield updates
    elif isinstance(updates, pa.Table):
        yield from updates.to_batches()
    else:
        yield from updates


def normalize(updates: pa.Table | pa.RecordBatch, schema: pa.Schema, uri: str = "") -> pa.Table:
    """``updates`` in the physical schema, zero diffs dropped.

    Raises `SchemaMismatch` for other columns, and `InvalidUsage` for NULL times or diffs and for an
    update with both an error and data.
    """
    table = pa.Table.from_batches([updates]) if isinstance(updates, pa.RecordBatch) else updates
    for name in (TIME, DIFF):
        if name not in table.column_names or table.column(name).null_count:
            raise InvalidUsage(
                f"updates need a column {name!r} without NULLs; got columns {table.column_names}"
            )
    data = table.drop_columns([name for name in META if name in table.column_names])
    data = _cast(data, canonical(data.schema))
    differences = schema_differences(schema, data.schema)
    if differences:
        raise SchemaMismatch(uri, differences)
    error = table.column(ERROR) if ERROR in table.column_names else pa.nulls(table.num_rows, pa.string())
    columns = [data.column(name) for name in schema.names]
    _check_errors(columns, error, schema)
    hashes = pa.nulls(table.num_rows, pa.int64())  # a hash given from outside is never believed
    whole = pa.table(
        [
            *columns,
            table.column(TIME).cast(pa.int64()),
            table.column(DIFF).cast(pa.int64()),
            error.cast(pa.string()),
            hashes,
        ],
        schema=physical_schema(schema),
    )
    return whole.filter(pc.not_equal(whole.column(DIFF), 0))


def _check_errors(columns: list[pa.ChunkedArray], error: Any, schema: pa.Schema) -> None:
    if error.null_count == len(error):
        return
    failed = pc.is_valid(error)
    for name, column in zip(schema.names, columns, strict=True):
        if pc.any(pc.and_(failed, pc.is_valid(column))).as_py():
            raise InvalidUsage(f"an error update must have NULL in every data column; {name!r} has a value")


def check_times(table: pa.Table, lower: Antichain, upper: Antichain) -> None:
    """Raises `InvalidUsage` unless every time is in ``[lower, upper)`` (rule 1)."""
    if table.num_rows == 0:
        return
    bounds = pc.min_max(table.column(TIME)).as_py()
    check_time_bounds(bounds["min"], bounds["max"], lower, upper)


def check_time_bounds(least: int | None, greatest: int | None, lower: Antichain, upper: Antichain) -> None:
    """The same for the smallest and the greatest time; None if one is not known."""
    for time in (least, greatest):
        beyond = upper.as_option()
        early = lower.is_empty() or (time or 0) < lower.stored()
        if time is None or early or (beyond is not None and time >= beyond):
            raise InvalidUsage(
                f"time {time} of an update is outside the batch's bounds [{lower!r}, {upper!r})"
            )


def between(table: pa.Table, lower: Antichain, upper: Antichain) -> pa.Table:
    """The updates with ``lower <= time < upper``."""
    times = table.column(TIME)
    kept = pc.greater_equal(times, lower.stored())
    if not upper.is_empty():
        kept = pc.and_(kept, pc.less(times, upper.stored()))
    return table.filter(kept)


def advance(table: pa.Table, since: int) -> pa.Table:
    """Advance times before ``since`` to it."""
    moved = pc.max_element_wise(table.column(TIME), since)
    return table.set_column(table.schema.get_field_index(TIME), pa.field(TIME, pa.int64()), moved)


def consolidate(table: pa.Table) -> pa.Table:
    """Sums of the diffs of equal ``(row, time)``, without zeros; hashes follow their row.

    Raises `InvalidUsage` if a sum exceeds 64 bits.
    """
    if table.num_rows == 0:
        return table
    groups = grouped(table, [name for name in table.column_names if name not in (DIFF, HASH)])
    groups = groups.filter(pc.not_equal(groups.column("diff_sum"), 0))
    result = table.take(groups.column("row_min"))
    return result.set_column(
        result.schema.get_field_index(DIFF), pa.field(DIFF, pa.int64()), groups.column("diff_sum")
    )


def grouped(table: pa.Table, keys: list[str], **others: tuple[pa.ChunkedArray, str]) -> pa.Table:
    """One record per distinct row of the columns ``keys``, in the order of first occurrence, with
    the sum of its diffs, ``diff_sum``, and the number of its first record, ``row_min``.

    ``others`` are further columns, each with the name of Arrow's aggregation; the result has them
    as ``name_aggregation``. Raises `InvalidUsage` if a sum of diffs exceeds 64 bits.
    """
    names = [f"k{i}" for i in range(len(keys))]
    diffs = table.column(DIFF)
    columns = {
        **dict(zip(names, (comparable(table.column(name)) for name in keys), strict=True)),
        "diff": diffs,
        "approximate": diffs.cast(pa.float64(), safe=False),
        "high": pc.shift_right(diffs, 32),
        "low": pc.bit_wise_and(diffs, 2**32 - 1),
        "row": pa.array(range(table.num_rows), pa.int64()),
        **{name: column for name, (column, _) in others.items()},
    }
    sums = [(name, "sum") for name in ("diff", "approximate", "high", "low")]
    sums += [("row", "min"), ("row", "count"), *((name, kind) for name, (_, kind) in others.items())]
    groups = pa.table(columns).group_by(names, use_threads=False).aggregate(sums)
    _check_sums(groups.filter(pc.greater(groups.column("row_count"), 1)))
    return groups.sort_by("row_min")


def _check_sums(groups: pa.Table) -> None:
    """Raises `InvalidUsage` if a sum of diffs exceeds 64 bits: the integer sum wrapped around."""
    doubtful = groups.filter(pc.greater_equal(pc.abs(groups.column("approximate_sum")), SAFE_SUM))
    for high, low in zip(doubtful.column("high_sum").to_pylist(), doubtful.column("low_sum").to_pylist()):
        exact = (high << 32) + low
        if not -(2**63) <= exact < 2**63:
            raise InvalidUsage(f"the diffs of one row add up to {exact}, which exceeds 64 bits")


def comparable(column: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A column whose values are equal wherever GROUP BY would call the originals equal. Floats stay
    floats.
    """
    kind = column.type
    if pa.types.is_floating(kind):
        positive = pc.add(column, pa.scalar(0.0, kind))  # -0.0 + 0.0 is 0.0
        return pc.if_else(pc.is_nan(positive), pa.scalar(float("nan"), kind), positive)
    if pa.types.is_nested(kind):
        # Arrow cannot group nested values, so each becomes a canonical text, row by row in Python.
        # Only batches that pass through this process come here; Spark consolidates large ones.
        plain = _with_numbers(kind)
        values = (column if plain == kind else column.cast(plain)).to_pylist()
        return pa.array(
            [None if value is None else _canonical(value, plain) for value in values], pa.string()
        )
    return column


def _with_numbers(kind: pa.DataType) -> pa.DataType:
    """The type with numbers for dates and times: Python has those of the years 1 to 9999 only."""
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_map(kind):
        return pa.map_(_with_numbers(kind.key_type), _with_numbers(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_with_numbers(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_with_numbers(kind.value_type))
    if pa.types.is_large_list(kind):
        return pa.large_list(_with_numbers(kind.value_type))
    return kind


def _canonical(value: Any, kind: pa.DataType) -> str:
    if value is None:
        return "null"
    if pa.types.is_map(kind):
        entries = [(_canonical(k, kind.key_type), _canonical(v, kind.item_type)) for k, v in value]
        return f"m{sorted(entries)}"
    if pa.types.is_struct(kind):
        return f"s{[_canonical(value[field.name], field.type) for field in kind]}"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"l{[_canonical(element, kind.value_type) for element in value]}"
    if isinstance(value, float):
        return repr(value + 0.0)
    return repr(value)
