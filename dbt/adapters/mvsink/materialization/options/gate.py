"""The configs of the publish gate: `max_change` and `audit`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dbt.adapters.mvsink.exceptions import InvalidOption
from dbt.adapters.mvsink.materialization.options.kinds import TEXTS, Kind, NotAllowed, texts
from dbt.adapters.mvsink.sink import MaxChange


def _max_change(value: Any) -> MaxChange:
    if not isinstance(value, Mapping) or not value or not set(value) <= {"rows", "percent"}:
        raise NotAllowed
    rows, percent = value.get("rows"), value.get("percent")
    if not _is_limit(rows, int) or not _is_limit(percent, (int, float)) or (rows is None and percent is None):
        raise NotAllowed
    return MaxChange(rows, None if percent is None else float(percent))


def _is_limit(value: Any, kinds: Any) -> bool:
    return value is None or (
        isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
    )


def _audit(value: Any) -> bool | tuple[str, ...]:
    if isinstance(value, bool):
        return value
    names = texts(value)
    if not all(names):
        raise NotAllowed
    return names


MAX_CHANGE = Kind(
    _max_change,
    "a mapping of `rows` (a whole number) or `percent` (a number) or both, 0 or more, like {rows: 10000, percent: 5}",
    {
        "type": "object",
        "properties": {
            "rows": {"type": "integer", "minimum": 0},
            "percent": {"type": "number", "minimum": 0},
        },
        "additionalProperties": False,
        "minProperties": 1,
    },
)
AUDIT: Kind[bool | tuple[str, ...]] = Kind(
    _audit,
    "true, or a test's name as in `dbt ls`, or a list of them",
    {"anyOf": [{"type": "boolean"}, {"type": "string", "minLength": 1}, TEXTS]},
)


def accepts(value: Any, unique_id: str, name: str, relation: str) -> bool:
    """Whether `mvsink_accept` names the model: as in ``ref()``, by id, or ``schema.identifier``."""
    names = [value] if isinstance(value, str) else value or ()
    if not isinstance(names, list | tuple):
        raise InvalidOption(
            relation, "mvsink_accept", value, "a list of models, like --vars '{mvsink_accept: [orders]}'"
        )
    return any(str(each) in (unique_id, unique_id.split(".", 2)[-1], name, relation) for each in names)
