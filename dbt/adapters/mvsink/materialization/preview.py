"""The preview of a read-only run as plain JSON values for `run_results.json` and `mvsink plan`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dbt.adapters.mvsink.sink import Outcome, Preview


def preview_values(outcome: Outcome) -> dict[str, Any] | None:
    """None for a run that was not read-only, or had nothing to compare.

    ``errors``: error updates added or retracted. ``gate``: why the gate would fail, empty if it
    would pass, None without a gate or a change. ``compacted``: live files that would be rewritten,
    and the updates in them. ``sample``: rows with the ``diff`` they would be appended with; an
    error update has an ``error`` and no ``row``.
    """
    preview = outcome.preview
    if preview is None:
        return None
    return {
        "gate": preview.gate,
        "errors": outcome.counts.errors_inserted + outcome.counts.errors_deleted,
        "compacted": {
            "files": len(preview.compacted),
            "updates": sum(file.rows or 0 for file in preview.compacted),
        },
        "sample": [_update(preview, row) for row in preview.sample],
    }


def _update(preview: Preview, row: tuple[object, ...]) -> dict[str, Any]:
    _, diff, error, *_ = row[len(preview.columns) :]
    if error is not None:
        return {"diff": plain(diff), "error": str(error)}
    return {
        "diff": plain(diff),
        "row": {name: plain(value) for name, value in zip(preview.columns, row, strict=False)},
    }


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
