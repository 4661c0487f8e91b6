"""Bounds of a data file's columns, from its footer, as the `stats` of an `add` action have them.
With them a reader skips files.

    {"minValues": {"id": 1, "day": "2026-01-31"}, "maxValues": ..., "nullCount": {"id": 0, ...}}

They are of all rows of the file, hidden ones included, so they may be wider than what is shown.
Only values that the text of the log gives back exactly have bounds: whole numbers, days, short
texts, and times without microseconds. Readers may answer `min` and `max` from them.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md#per-file-statistics
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dbt.adapters.mvsink.published.footers import columns_in

LONGEST = 32  # characters of a text, as Delta truncates bounds
COLUMNS = 32  # of the first so many columns, as Delta does
WHOLE = ("INT32", "INT64")  # physical types
DAY_0 = date(1970, 1, 1)
DAYS = range((date(1900, 1, 1) - DAY_0).days, (date.max - DAY_0).days + 1)
MICROSECONDS = 86_400_000_000  # of a day


def statistics(footer: pq.FileMetaData, columns: pa.Schema) -> Mapping[str, Mapping[str, Any]]:
    """The bounds and counts of those ``columns`` for which they are known."""
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    wanted = {field.name: field.type for field in list(columns)[:COLUMNS]}
    for each in columns_in(footer):
        column, name = each.schema, each.schema.name
        kind = wanted.get(name)
        if kind is None:
            continue
        nulls[name] = each.nulls
        filled = [known for known in each.statistics if known.num_values]
        text = _text_of(kind, column)
        if text is None or not filled or not all(known.has_min_max for known in filled):
            continue
        raw = pa.types.is_string(kind)
        ends = [(known.min, known.max) if raw else (known.min_raw, known.max_raw) for known in filled]
        low, high = text(min(end[0] for end in ends)), text(max(end[1] for end in ends))
        if low is not None and high is not None:
            least[name], most[name] = low, high
    return {"minValues": least, "maxValues": most, "nullCount": nulls}


def _text_of(kind: pa.DataType, column: Any) -> Callable[[Any], Any] | None:
    """How the log has a value of the type; None if it has none."""
    if pa.types.is_string(kind):
        return _text
    if column.physical_type not in WHOLE:
        return None
    if pa.types.is_signed_integer(kind):
        return int
    if pa.types.is_date32(kind):
        return _day
    if pa.types.is_timestamp(kind) and "microseconds" in str(column.logical_type):
        return _zoneless if kind.tz is None else _instant
    return None


def _text(value: str) -> str | None:
    return value if len(value) <= LONGEST else None


def _day(number: int) -> str | None:
    """A day of the years 1900 to 9999: for early ones there are several calendars."""
    return (DAY_0 + timedelta(number)).isoformat() if number in DAYS else None


def _instant(value: int) -> str | None:
    text = _zoneless(value)
    return None if text is None else f"{text}Z"


def _zoneless(value: int) -> str | None:
    if value % 1000 or value // MICROSECONDS not in DAYS:
        return None
    moment = datetime(1970, 1, 1) + timedelta(microseconds=value)
    return moment.isoformat(timespec="milliseconds")
