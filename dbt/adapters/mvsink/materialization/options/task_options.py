"""A continual task's own kinds of config, and the remedies that messages about tasks name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbt.adapters.mvsink.engine import Column, parse_type
from dbt.adapters.mvsink.materialization.options.kinds import NotAllowed, ValueKind


def _column_types(value: Any) -> tuple[Column, ...]:
    """Raises `UnsupportedType` for a type that a shard does not take."""
    if not isinstance(value, Mapping) or not all(isinstance(kind, str) for kind in value.values()):
        raise NotAllowed
    return tuple(Column(str(name), parse_type(kind, str(name))) for name, kind in value.items())


COLUMN_TYPES = ValueKind(
    _column_types,
    "a mapping of columns' names to Spark types, in order",
    {"type": "object", "additionalProperties": {"type": "string"}},
)


def reset_words(model: str) -> str:
    """How to reset a task, in words."""
    return f"--full-refresh --vars '{{mvsink_reset: [{model.rsplit('.', 1)[-1]}]}}'"


def skip_words(model: str) -> str:
    """How to take back the errors that a task has recorded, in words."""
    return f"--vars '{{mvsink_skip_errors: [{model.rsplit('.', 1)[-1]}]}}'"


def until_taken_back(model: str) -> str:
    """How long a task's recorded errors stay, in words."""
    return f"until they are taken back ({skip_words(model)}; what failed stays undone) or the task is reset ({reset_words(model)})"
