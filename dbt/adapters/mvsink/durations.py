"""Times and intervals as people write them, as milliseconds."""

from __future__ import annotations

import re
from datetime import date, datetime, timezone

from dbt.adapters.mvsink.physical import LARGEST_TIME

SMALLEST_BARE_INTEGER = 10**11  # a smaller integer is probably YAML's reading of 23:59

_UNITS = {
    "ms": 1,
    "millisecond": 1,
    "second": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
_INTERVAL = re.compile(r"\s*(\d+)\s*([a-z]+)\s*", re.IGNORECASE)
INTERVAL_UNITS = "ms, seconds, minutes, hours, days, weeks"


def parse_interval(value: object) -> int | None:
    """``1 day`` in ms; None if it is not an interval. Months and years have no fixed length."""
    if not isinstance(value, str):
        return None
    match = _INTERVAL.fullmatch(value)
    if match is None:
        return None
    unit = match[2].lower()
    unit = unit if unit in _UNITS else unit.removesuffix("s")
    if unit not in _UNITS:
        return None
    total = int(match[1]) * _UNITS[unit]
    return total if total <= LARGEST_TIME else None


def parse_time(value: object) -> int | None:
    """A time in ms: an integer from 10^11 on, or ISO 8601 text (default zone UTC); else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if SMALLEST_BARE_INTEGER <= value <= LARGEST_TIME else None
    if isinstance(value, datetime):
        return _milliseconds(value)
    if isinstance(value, date):
        return _milliseconds(datetime(value.year, value.month, value.day))
    if not isinstance(value, str):
        return None
    text = value.strip()
    if text.isdigit():
        return parse_time(int(text))
    try:
        return _milliseconds(datetime.fromisoformat(text.replace("Z", "+00:00").replace("z", "+00:00")))
    except ValueError:
        return None


def iso(time: int) -> str:
    """``2026-11-20T15:00:00Z``, with milliseconds only where there are some."""
    seconds, millis = divmod(time, 1000)
    try:
        text = datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    except (OverflowError, ValueError, OSError):  # beyond the calendar
        return str(time)
    return f"{text}.{millis:03d}Z" if millis else f"{text}Z"


def _milliseconds(moment: datetime) -> int | None:
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    elapsed = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)
    total = (elapsed.days * 86_400 + elapsed.seconds) * 1000 + elapsed.microseconds // 1000
    return total if 0 <= total <= LARGEST_TIME else None
