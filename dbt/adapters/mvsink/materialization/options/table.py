"""The table of options: every config of `self_correcting_mv` and `continual_task`, one entry each.

`ModelOptions` is both the table and what a model's configs become: its class attributes are the
entries, and the same attributes of an instance are the parsed values. The table drives the keys
that are recognized, the spelling check, refusals, dbt's config class (`configs`), the tables in
docs/configuration.md and the JSON schema in docs/schema (both by `docs/generate.py`).

Nothing past `ModelOptions` sees raw configs. Every refusal names the model, the option, the value
and what is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, overload

from dbt.adapters.mvsink.continual_task.errors import HEADS
from dbt.adapters.mvsink.engine import Column
from dbt.adapters.mvsink.exceptions import InvalidOption, OptionNotOffered
from dbt.adapters.mvsink.materialization.options.freshness import FRESHNESS_LIMITS
from dbt.adapters.mvsink.materialization.options.gate_options import AUDIT, MAX_CHANGE
from dbt.adapters.mvsink.materialization.options.kinds import (
    BOOLEAN,
    COLUMNS,
    FILE_FORMAT,
    FUNCTIONS,
    INTERVAL,
    VERIFY,
    OwnFunctions,
    ValueKind,
    choice,
    nearest,
    text_choice,
)
from dbt.adapters.mvsink.materialization.options.refresh import REFRESH
from dbt.adapters.mvsink.materialization.options.task_options import COLUMN_TYPES, reset_words
from dbt.adapters.mvsink.shard_sql import OnError
from dbt.adapters.mvsink.shard_sql.properties import Freshness
from dbt.adapters.mvsink.sink import Incremental, Learned, MaxChange, OnSchemaChange, SumsPolicy

T = TypeVar("T")
VIEW, TASK = MATERIALIZATIONS = ("self_correcting_mv", "continual_task")


@dataclass(frozen=True, eq=False)
class Option(Generic[T]):
    """One entry: what is allowed, the default as a config would write it (or the value itself, if
    no config can), one sentence of documentation, and which materializations have it. ``words`` is
    the default as the documentation has it, if that differs. ``alias`` is a second spelling.
    ``is_dbts`` means that dbt itself, or dbt-spark, has a config of this name.
    """

    kind: ValueKind[T]
    written: T | str | bool
    doc: str
    of: tuple[str, ...] = MATERIALIZATIONS
    words: str = ""
    alias: str = ""
    is_dbts: bool = False
    name: str = field(default="", init=False)
    default: T = field(init=False)

    def __post_init__(self) -> None:
        """Parse the default like a config; the documentation shows the result."""
        written = self.written
        default = self.kind.read(written) if isinstance(written, (str, bool)) else written
        words = f"`{str(written).lower()}`" if isinstance(written, (str, bool)) else "none"
        object.__setattr__(self, "default", default)
        object.__setattr__(self, "words", self.words or words)

    def __set_name__(self, owner: type, name: str) -> None:
        object.__setattr__(self, "name", name)

    @overload
    def __get__(self, instance: None, owner: type) -> Option[T]: ...
    @overload
    def __get__(self, instance: ModelOptions, owner: type) -> T: ...
    def __get__(self, instance: ModelOptions | None, owner: type) -> Option[T] | T:
        if instance is None:
            return self
        value: T = instance.values.get(self.name, self.default)
        return value

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.name, self.alias) if self.alias else (self.name,)

    def set_in(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The keys of this option in ``config``. dbt gives every model an empty `column_types`."""
        return {
            key: config[key]
            for key in self.keys
            if config.get(key) is not None and not (self.is_dbts and config[key] in ({}, ""))
        }


@dataclass(frozen=True)
class ModelOptions:
    """A model's configs. Times are in ms. ``values`` are those that the model gives."""

    values: Mapping[str, Any]

    refresh = Option(
        REFRESH,
        "on_commit",
        "When the contents may change: with every run, or on a [schedule](#refresh-schedules).",
        of=(VIEW,),
    )
    verify = Option(
        VERIFY,
        "auto",
        "How often a run evaluates the query even though its inputs are unchanged, and compares all contents by an "
        "independent digest; with `auto` as soon as that costs a tenth of the runs since the last time, and every 7 days: see "
        "[Unchanged inputs](#unchanged-inputs).",
        of=(VIEW,),
    )
    incremental = Option(
        choice(Incremental),
        "auto",
        "Whether the contents are computed from the changes of the inputs: see [Incremental maintenance](incremental.md).",
        of=(VIEW,),
    )
    state = Option(
        choice(SumsPolicy),
        "auto",
        "Whether a model of sums, counts and averages keeps its sums, so that a run adds up what changed: see "
        "[Sums](incremental.md#sums).",
        of=(VIEW,),
    )
    deterministic_functions = Option[OwnFunctions](
        FUNCTIONS,
        OwnFunctions(),
        "Functions that are not Spark's own and depend on their arguments only. Another version says that a function was "
        "redefined: the next run evaluates the query.",
        of=(VIEW,),
    )
    retain_history = Option(
        INTERVAL, "1 day", "How far the read frontier (`since`) trails the write frontier (`upper`)."
    )
    assert_not_null = Option(
        COLUMNS, (), "A NULL in one of these columns is an error; see `on_error`.", of=(VIEW,)
    )
    on_error = Option[OnError | None](
        choice(OnError),
        None,
        "`fail`: the model fails and its table does not change. `record`: readers get the error until it is corrected.",
        words="`fail`; for `assert_not_null` `record`",
    )
    read_only = Option(BOOLEAN, False, "A run only reports what it would write.")
    on_schema_change = Option(
        choice(OnSchemaChange, {"ignore": OnSchemaChange.SYNC_ALL_COLUMNS}),
        "sync_all_columns",
        "What happens when the query's columns differ from the table's: see [Changed columns](#changed-columns). "
        "A task's columns cannot change, except to wider types.",
        is_dbts=True,
    )
    on_configuration_change = Option(
        text_choice("apply", "continue", "fail"),
        "apply",
        "What happens when the query, the schedule or the statements differ from those that the shard stores.",
        is_dbts=True,
    )
    adopt = Option(BOOLEAN, False, "Take over a shard that belongs to another model or target.")
    audit = Option(
        AUDIT,
        False,
        "Tests that the new contents must pass before anything is written: see [The publish gate](#the-publish-gate).",
        of=(VIEW,),
    )
    max_change = Option[MaxChange | Learned | None](
        MAX_CHANGE,
        None,
        "A run that would change more, or with `auto` much more than usual, fails and writes nothing: see "
        "[The publish gate](#the-publish-gate).",
        of=(VIEW,),
    )
    freshness = Option(
        FRESHNESS_LIMITS,
        Freshness(),
        "How old the contents may be: for [`mvsink status --slo`](commands.md#status) and `mvsink metrics`.",
        is_dbts=True,
    )
    file_format = Option(
        FILE_FORMAT,
        "view",
        "`delta` or `iceberg`: the contents are also a table of that format over the same files, at `<shard>/table`, for "
        "engines that cannot read Spark's views: see [Published tables](published-tables.md). Other formats are ignored.",
        is_dbts=True,
    )
    initial_snapshot = Option(
        BOOLEAN,
        True,
        "Whether the first run processes the whole input, or only what comes after it.",
        of=(TASK,),
        alias="snapshot",
    )
    column_types = Option[tuple[Column, ...]](
        COLUMN_TYPES,
        (),
        "The output's columns, unless the model has an enforced contract.",
        of=(TASK,),
        words="those of the first INSERT",
        is_dbts=True,
    )
    on_late_reference = Option[str | None](
        text_choice("newest", "wait"),
        None,
        "When a referenced shard has not passed the time: `newest` reads its newest contents, and the log line says so; "
        "`wait` leaves the time pending: see [Late references](tasks.md#late-references).",
        of=(TASK,),
        words="`wait` for the project's own models, `newest` for others",
    )
    input_files = Option(
        text_choice("copied", "append_only"),
        "copied",
        "`copied` keeps a copy of the rows of a files input, to take them back when a file vanishes; `append_only` keeps "
        "none and refuses a file that vanished.",
        of=(TASK,),
    )

    @classmethod
    def parse(cls, model: str, config: Mapping[str, Any]) -> ModelOptions:
        """The configs of a `self_correcting_mv`. Raises `InvalidOption` or `OptionNotOffered`."""
        return _parse(VIEW, model, config)

    @classmethod
    def parse_task(
        cls, model: str, config: Mapping[str, Any], contract: Mapping[str, Any] | None = None
    ) -> ModelOptions:
        """The configs of a `continual_task`. Raises as `parse`, and `UnsupportedType` for a column.

        ``contract``: the names and types of an enforced contract's columns, in order.
        """
        if config.get("full_refresh") is True:
            reason = "it would erase the task's history on every run; to reset it once: " + reset_words(model)
            raise OptionNotOffered(model, "full_refresh", True, reason)
        return _parse(TASK, model, {**config, "column_types": contract} if contract else config)


OPTIONS: Mapping[str, Option[Any]] = {
    name: entry for name, entry in vars(ModelOptions).items() if isinstance(entry, Option)
}
NOT_OFFERED = {"up_to": "stopping a sink at a frontier is not offered"}
INSTEAD = {  # keys that people try, and what to write
    VIEW: dict.fromkeys(("refresh_interval", "schedule", "target_lag"), "`refresh`; there is no such config"),
    TASK: dict.fromkeys(
        ("input", "form", "refresh"), f"no such config: the SQL of a task says what drives it: {HEADS}"
    ),
}
IGNORED_WITH_WARNING = ("partition_by", "clustered_by", "buckets", "unique_key", "incremental_strategy")


def _parse(materialization: str, model: str, config: Mapping[str, Any]) -> ModelOptions:
    _refuse(materialization, model, config)
    values: dict[str, Any] = {}
    for name, option in OPTIONS.items():
        for key, value in option.set_in(config).items():
            values.setdefault(name, option.kind.parse(model, key, value))
    return ModelOptions(values)


def _refuse(materialization: str, model: str, config: Mapping[str, Any]) -> None:
    known = [key for option in OPTIONS.values() for key in option.keys]
    for key, value in config.items():
        if value is not None and key in INSTEAD[materialization]:
            raise InvalidOption(model, key, value, INSTEAD[materialization][key])
        if value is not None and key in NOT_OFFERED:
            raise OptionNotOffered(model, key, value, NOT_OFFERED[key])
        if key not in known and (meant := nearest(str(key), known)):
            raise InvalidOption(model, key, value, f"did you mean `{meant}`? There is no such config")
    for option in OPTIONS.values():
        for key, value in option.set_in(config).items():
            if materialization not in option.of:
                raise OptionNotOffered(model, key, value, f"only a {option.of[0]} has this config")


def ignored_configs(nodes: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """The configs that a shard does not use, by the name of the maintained model that has them."""
    ignored = {}
    for node in nodes:
        config = node.get("config") or {}
        if config.get("materialized") in MATERIALIZATIONS:
            keys = tuple(key for key in IGNORED_WITH_WARNING if config.get(key))
            if config["materialized"] == TASK and config.get("on_schema_change") not in (
                None,
                "ignore",
                "fail",
            ):
                keys += ("on_schema_change",)  # a task's columns cannot change
            if keys:
                ignored[str(node.get("name"))] = keys
    return ignored
