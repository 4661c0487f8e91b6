"""A continual task's configs, checked whole before any SQL runs. See `options`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dbt.adapters.mvsink.continual_task.errors import HEADS
from dbt.adapters.mvsink.engine import Column, parse_type
from dbt.adapters.mvsink.exceptions import InvalidOption, OptionNotOffered
from dbt.adapters.mvsink.materialization.options import common as options
from dbt.adapters.mvsink.materialization.options.common import ModelOptions
from dbt.adapters.mvsink.refresh_schedule import RefreshSpec
from dbt.adapters.mvsink.shard_sql import OnError

IN_THE_SQL = ("input", "form", "refresh")
NOT_OF_TASKS = ("assert_not_null", "audit", "max_change", "up_to")
APPEND_ONLY = "append_only"


@dataclass(frozen=True)
class TaskOptions(ModelOptions):
    """The configs of a `continual_task`; times in ms. ``declared`` are the output's columns where
    the model gives them.
    """

    initial_snapshot: bool = True
    declared: tuple[Column, ...] = ()
    wait: bool = False
    append_only: bool = False

    @classmethod
    def parse(
        cls, model: str, config: Mapping[str, Any], contract: Mapping[str, Any] | None = None
    ) -> TaskOptions:
        """Raises `InvalidOption` or `OptionNotOffered` for the first config that cannot be,
        `UnsupportedType` for a column's type.

        ``contract``: the names and types of an enforced contract's columns, in order.
        """
        _refuse(model, config)
        given = contract or _declared(model, config.get("column_types"))
        snapshot = config.get("initial_snapshot", config.get("snapshot"))
        return cls(
            retain_history=options.interval(
                model, "retain_history", config.get("retain_history"), options.DAY
            ),
            assert_not_null=(),
            on_error=options.on_error(model, config.get("on_error")) or OnError.FAIL,
            on_schema_change=options.on_schema_change(model, config.get("on_schema_change")),
            on_configuration_change=options.choice(
                model,
                "on_configuration_change",
                config.get("on_configuration_change") or "apply",
                ("apply", "continue", "fail"),
            ),
            read_only=options.boolean(model, "read_only", config.get("read_only")),
            adopt=options.boolean(model, "adopt", config.get("adopt")),
            refresh=RefreshSpec(),
            initial_snapshot=True
            if snapshot is None
            else options.boolean(model, "initial_snapshot", snapshot),
            declared=tuple(Column(name, parse_type(str(kind), name)) for name, kind in given.items()),
            wait=options.choice(
                model, "on_late_reference", config.get("on_late_reference") or "newest", ("newest", "wait")
            )
            == "wait",
            append_only=options.choice(
                model, "input_files", config.get("input_files") or "copied", ("copied", APPEND_ONLY)
            )
            == APPEND_ONLY,
        )


def _refuse(model: str, config: Mapping[str, Any]) -> None:
    for key in IN_THE_SQL:
        if config.get(key) is not None:
            raise InvalidOption(
                model, key, config[key], f"no such config: what drives a task stands in its SQL: {HEADS}"
            )
    for key in NOT_OF_TASKS:
        if config.get(key) is not None:
            raise OptionNotOffered(model, key, config[key], "a continual task has no such config")
    if config.get("full_refresh") is True:
        raise OptionNotOffered(
            model,
            "full_refresh",
            True,
            "it would erase the task's history on every run; to reset it once: " + reset_words(model),
        )
    options.refuse_misspelled(model, config)


def reset_words(model: str) -> str:
    """How a task is reset."""
    return f"--full-refresh --vars '{{mvsink_reset: [{model.rsplit('.', 1)[-1]}]}}'"


def skip_words(model: str) -> str:
    """How the errors that a task recorded are taken back."""
    return f"--vars '{{mvsink_skip_errors: [{model.rsplit('.', 1)[-1]}]}}'"


def until_taken_back(model: str) -> str:
    """How long a task's recorded errors stay."""
    return f"until they are taken back ({skip_words(model)}; what failed stays undone) or the task is reset ({reset_words(model)})"


def _declared(model: str, given: Any) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(kind, str) for kind in given.values()):
        raise InvalidOption(
            model, "column_types", given, "a mapping of columns' names to Spark types, in order"
        )
    return {str(name): kind for name, kind in given.items()}
