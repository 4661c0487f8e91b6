"""A model's configs, checked whole before any SQL runs.

`ModelOptions.parse` reads what dbt gives (a mapping of whatever people wrote) once, into values;
nothing behind it sees raw configs. Every refusal names the model, the option, what was given and
what is allowed.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dbt.adapters.mvsink.durations import INTERVAL_UNITS, parse_interval
from dbt.adapters.mvsink.exceptions import InvalidOption, OptionNotOffered
from dbt.adapters.mvsink.materialization.options import gate as gate_options
from dbt.adapters.mvsink.materialization.options.refresh import parse_refresh
from dbt.adapters.mvsink.refresh_schedule import RefreshSpec
from dbt.adapters.mvsink.shard_sql import OnError
from dbt.adapters.mvsink.sink import MaxChange, OnSchemaChange

OWN_KEYS = (
    "refresh",
    "retain_history",
    "assert_not_null",
    "on_error",
    "read_only",
    "on_schema_change",
    "on_configuration_change",
    "adopt",
    "audit",
    "max_change",
)
TASK_KEYS = ("initial_snapshot", "snapshot", "column_types", "on_late_reference", "input_files")
LATER = {
    "up_to": "stopping a sink at a frontier is not offered",
}
RENAMED = ("refresh_interval", "schedule", "target_lag")
IGNORED_WITH_WARNING = ("partition_by", "clustered_by", "buckets", "unique_key", "incremental_strategy")
MAINTAINED = ("self_correcting_mv", "continual_task")
DAY = 86_400_000


@dataclass(frozen=True)
class ModelOptions:
    """The configs of a `self_correcting_mv`; times in ms."""

    retain_history: int
    assert_not_null: tuple[str, ...]
    on_error: OnError | None  # None: not given, the default depends on the kind of error
    on_schema_change: OnSchemaChange
    on_configuration_change: str
    read_only: bool
    adopt: bool
    refresh: RefreshSpec = RefreshSpec()
    max_change: MaxChange | None = None
    audit: bool | tuple[str, ...] = False

    @classmethod
    def parse(cls, model: str, config: Mapping[str, Any]) -> ModelOptions:
        """Raises `InvalidOption` or `OptionNotOffered` for the first config that cannot be."""
        _refuse(model, config)
        return cls(
            retain_history=interval(model, "retain_history", config.get("retain_history"), DAY),
            assert_not_null=_columns(model, "assert_not_null", config.get("assert_not_null")),
            on_error=on_error(model, config.get("on_error")),
            on_schema_change=on_schema_change(model, config.get("on_schema_change")),
            on_configuration_change=choice(
                model,
                "on_configuration_change",
                config.get("on_configuration_change") or "apply",
                ("apply", "continue", "fail"),
            ),
            read_only=boolean(model, "read_only", config.get("read_only")),
            adopt=boolean(model, "adopt", config.get("adopt")),
            refresh=parse_refresh(model, config.get("refresh")),
            max_change=gate_options.max_change(model, config.get("max_change")),
            audit=gate_options.audit(model, config.get("audit")),
        )


def ignored_configs(nodes: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Of the maintained models among ``nodes``: the configs each one has that a shard has no use
    for.
    """
    found = {}
    for node in nodes:
        config = node.get("config") or {}
        if config.get("materialized") in MAINTAINED:
            keys = tuple(key for key in IGNORED_WITH_WARNING if config.get(key))
            if config["materialized"] == "continual_task" and config.get("on_schema_change") not in (
                None,
                "ignore",
                "fail",
            ):
                keys += ("on_schema_change",)  # a task's columns cannot change
            if keys:
                found[str(node.get("name"))] = keys
    return found


def _refuse(model: str, config: Mapping[str, Any]) -> None:
    for key in RENAMED:
        if config.get(key) is not None:
            raise InvalidOption(model, key, config[key], "`refresh`; there is no such config")
    for key, reason in LATER.items():
        if config.get(key) is not None:
            raise OptionNotOffered(model, key, config[key], reason)
    for key in TASK_KEYS:
        if config.get(key) not in (None, {}):  # dbt gives every model an empty `column_types`
            raise OptionNotOffered(model, key, config[key], "only a continual_task has this config")
    refuse_misspelled(model, config)


def refuse_misspelled(model: str, config: Mapping[str, Any]) -> None:
    """Raises `InvalidOption` for a key that is nearly one of ours."""
    known = (*OWN_KEYS, *TASK_KEYS, *LATER)
    for key in config:
        if key not in known and (near := _misspelled(key)):
            raise InvalidOption(model, key, config[key], f"did you mean `{near}`? There is no such config")


def _misspelled(key: str) -> str:
    """Our key that ``key`` is in another case, or within two letters of; empty if none. Short keys
    that only look alike are left alone.

    >>> _misspelled("RETAIN_HISTORY"), _misspelled("retain-histroy"), _misspelled("Adopt"), _misspelled("tags")
    ('retain_history', 'retain_history', 'adopt', '')
    """
    plain = str(key).lower().replace("-", "_")
    for own in (*OWN_KEYS, *TASK_KEYS):
        if plain == own or (
            len(plain) > 4 and abs(len(plain) - len(own)) <= 2 and _distance(plain, own) <= 2
        ):
            return own
    return ""


def _distance(a: str, b: str) -> int:
    """How many letters must be changed, added or dropped (an upper bound, by longest matching
    blocks).
    """
    matched = sum(
        block.size for block in difflib.SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
    )
    return max(len(a), len(b)) - matched


def interval(model: str, option: str, given: Any, default: int) -> int:
    """``given`` in ms, of at least a second; ``default`` if nothing is given."""
    if given is None:
        return default
    parsed = parse_interval(given)
    if parsed is None or parsed < 1000:
        raise InvalidOption(
            model, option, given, f"an interval of at least '1 second' in {INTERVAL_UNITS}, like '1 day'"
        )
    return parsed


def _columns(model: str, option: str, given: Any) -> tuple[str, ...]:
    if given is None:
        return ()
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise InvalidOption(model, option, given, "a column's name or a list of columns' names")
    return tuple(names)


def choice(model: str, option: str, given: Any, allowed: Sequence[str]) -> str:
    """One of ``allowed``."""
    if given not in allowed:
        raise InvalidOption(model, option, given, ", ".join(repr(value) for value in allowed))
    return str(given)


def on_error(model: str, given: Any) -> OnError | None:
    """None if nothing is given."""
    return (
        None
        if given is None
        else OnError(choice(model, "on_error", given, [value.value for value in OnError]))
    )


def on_schema_change(model: str, given: Any) -> OnSchemaChange:
    """dbt fills in `ignore` where nothing was given: then the shard follows the model."""
    if given in (None, "ignore"):
        return OnSchemaChange.SYNC_ALL_COLUMNS
    allowed = [value.value for value in OnSchemaChange]
    return OnSchemaChange(choice(model, "on_schema_change", given, allowed))


def boolean(model: str, option: str, given: Any) -> bool:
    """False if nothing is given."""
    if given is None:
        return False
    if isinstance(given, bool):
        return given
    raise InvalidOption(model, option, given, "true or false")
