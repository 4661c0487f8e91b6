"""The configs of the publish gate: `max_change` and `audit`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dbt.adapters.mvsink.exceptions import InvalidOption
from dbt.adapters.mvsink.materialization.options.kinds import TEXTS, NotAllowed, ValueKind, texts
from dbt.adapters.mvsink.sink import Learned, MaxChange

SCOPES = ("all", "changes")


def _max_change(value: Any) -> MaxChange | Learned:
    if value == Learned.AUTO.value:
        return Learned.AUTO
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


@dataclass(frozen=True)
class AuditConfig:
    """Which ``tests`` are audits: all, none, or those with some names. With ``changes``, they look
    only at changed rows where that gives the same verdict.
    """

    tests: bool | tuple[str, ...] = False
    changes: bool = False


def _audit(value: Any) -> AuditConfig:
    if isinstance(value, Mapping):
        scope = value.get("scope", "all")
        if not {"tests"} <= set(value) <= {"tests", "scope"} or scope not in SCOPES:
            raise NotAllowed
        return AuditConfig(_tests(value["tests"]), scope == "changes")
    return AuditConfig(_tests(value))


def _tests(value: Any) -> bool | tuple[str, ...]:
    if isinstance(value, bool):
        return value
    names = texts(value)
    if not all(names):
        raise NotAllowed
    return names


_LIMITS_SCHEMA = {
    "type": "object",
    "properties": {
        "rows": {"type": "integer", "minimum": 0},
        "percent": {"type": "number", "minimum": 0},
    },
    "additionalProperties": False,
    "minProperties": 1,
}
MAX_CHANGE: ValueKind[MaxChange | Learned] = ValueKind(
    _max_change,
    "'auto', or a mapping of `rows` (a whole number) or `percent` (a number) or both, 0 or more, like {rows: 10000, percent: 5}",
    {"anyOf": [{"const": Learned.AUTO.value}, _LIMITS_SCHEMA]},
)
_TESTS_SCHEMA = {"anyOf": [{"type": "boolean"}, {"type": "string", "minLength": 1}, TEXTS]}
AUDIT: ValueKind[AuditConfig] = ValueKind(
    _audit,
    "true, or a test's name as in `dbt ls`, or a list of them; or a mapping with these as `tests`, and `scope`, which is 'all' or "
    "'changes'",
    {
        "anyOf": [
            *_TESTS_SCHEMA["anyOf"],
            {
                "type": "object",
                "properties": {"tests": _TESTS_SCHEMA, "scope": {"enum": list(SCOPES)}},
                "required": ["tests"],
                "additionalProperties": False,
            },
        ]
    },
)


def accepts(value: Any, unique_id: str, name: str, relation: str) -> bool:
    """Whether `mvsink_accept` names the model: as in ``ref()``, by id, or ``schema.identifier``."""
    names = [value] if isinstance(value, str) else value or ()
    if not isinstance(names, list | tuple):
        raise InvalidOption(
            relation, "mvsink_accept", value, "a list of models, like --vars '{mvsink_accept: [orders]}'"
        )
    return any(str(each) in (unique_id, unique_id.split(".", 2)[-1], name, relation) for each in names)
