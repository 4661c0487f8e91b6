"""The preview of a read-only run as plain JSON values for `run_results.json` and `mvsink plan`."""

from __future__ import annotations

from typing import Any

from dbt.adapters.mvsink.engine.types import plain
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
