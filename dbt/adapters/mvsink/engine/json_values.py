"""Values of an engine's rows as JSON values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def plain(value: object) -> Any:
    """A JSON value; what JSON does not have (times, decimals, NaN) as text, bytes as hexadecimal.

    >>> import datetime as dt
    >>> plain([1, None, dt.date(2026, 1, 2), b"a", float("nan")])
    [1, None, '2026-01-02', '61', 'nan']
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes | bytearray):
        return value.hex()
    named = getattr(value, "asDict", None)  # a Spark struct
    if named is not None:
        value = named()
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return str(value)
