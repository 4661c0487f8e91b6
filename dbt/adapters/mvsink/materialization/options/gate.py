"""The configs of the publish gate: `max_change` and `audit`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dbt.adapters.mvsink.exceptions import InvalidOption
from dbt.adapters.mvsink.sink import MaxChange

LIMITS = "a mapping of `rows` (a whole number) or `percent` (a number) or both, 0 or more, like {rows: 10000, percent: 5}"
NAMES = "true, or a test's name as in `dbt ls`, or a list of them"


def max_change(model: str, given: Any) -> MaxChange | None:
    """Raises `InvalidOption`."""
    if given is None:
        return None
    if not isinstance(given, Mapping) or not given or not set(given) <= {"rows", "percent"}:
        raise InvalidOption(model, "max_change", given, LIMITS)
    rows, percent = given.get("rows"), given.get("percent")
    if not _number(rows, int) or not _number(percent, (int, float)) or (rows is None and percent is None):
        raise InvalidOption(model, "max_change", given, LIMITS)
    return MaxChange(rows, None if percent is None else float(percent))


def audit(model: str, given: Any) -> bool | tuple[str, ...]:
    """True: all of the model's own tests. False or empty: none. Raises `InvalidOption`."""
    if given is None or isinstance(given, bool):
        return bool(given)
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name for name in names):
        raise InvalidOption(model, "audit", given, NAMES)
    return tuple(names)


def accepts(given: Any, unique_id: str, name: str, relation: str) -> bool:
    """Is the model among those that the var `mvsink_accept` names? As in ``ref()``, by unique id,
    or as ``schema.identifier``.
    """
    named = [given] if isinstance(given, str) else given or ()
    if not isinstance(named, list | tuple):
        raise InvalidOption(
            relation, "mvsink_accept", given, "a list of models, like --vars '{mvsink_accept: [orders]}'"
        )
    return any(str(each) in (unique_id, unique_id.split(".", 2)[-1], name, relation) for each in named)


def _number(value: Any, kinds: Any) -> bool:
    return value is None or (
        isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
    )
