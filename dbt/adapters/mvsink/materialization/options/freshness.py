"""The `freshness` config: how old contents may be, as intervals or in dbt's spelling for sources.

dbt also has a `freshness` config for models, but it keeps only `build_after`: other keys never
reach a model's config. They remain in the unrendered configs, where `with_freshness` reads them.
They are rendered if they come from the model's own `config()`, else they are plain text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbt.adapters.mvsink.durations import parse_interval
from dbt.adapters.mvsink.materialization.options.kinds import INTERVAL, NotAllowed, ValueKind
from dbt.adapters.mvsink.shard_sql.properties import FRESHNESS, Freshness

LIMITS = ("warn_after", "error_after")
DBTS = ("build_after",)  # for dbt's own orchestration
PERIODS = ("minute", "hour", "day")


def with_freshness(node: Mapping[str, Any]) -> dict[str, Any]:
    """The configs of ``node``, with its `freshness` as it was written."""
    configs = dict(node["config"])
    configs.pop(FRESHNESS, None)
    for written in (node.get("config_call_dict"), node.get("unrendered_config")):
        if written and FRESHNESS in written:
            return {**configs, FRESHNESS: written[FRESHNESS]}
    return configs


def _freshness(value: Any) -> Freshness:
    if isinstance(value, str) and "{{" in value:
        raise NotAllowed(_WITHOUT_JINJA)
    if not isinstance(value, Mapping) or not value or not set(value) <= {*LIMITS, *DBTS}:
        raise NotAllowed
    limits = Freshness(*(_limit(name, value.get(name)) for name in LIMITS))
    warn, error = limits.warn_after, limits.error_after
    if warn is not None and error is not None and error < warn:
        raise NotAllowed("an `error_after` that is not below `warn_after`")
    return limits


def _limit(name: str, value: Any) -> int | None:
    if value is None or value == {}:
        return None
    text = value
    if isinstance(value, Mapping) and set(value) == {"count", "period"} and value["period"] in PERIODS:
        text = f"{value['count']} {value['period']}"
    parsed = parse_interval(text)
    if parsed is None or parsed < 1000:
        allowed = _WITHOUT_JINJA if "{{" in str(value) else f"for `{name}` {_INTERVALS}"
        raise NotAllowed(f"{allowed} (here {value!r})")
    return parsed


_WITHOUT_JINJA = "a value without Jinja, or with it in the model's own `config()`: elsewhere dbt does not render this config"
_INTERVALS = f"{INTERVAL.allowed}, or {{count: 1, period: hour}} of {', '.join(PERIODS)}"
_LIMIT_SCHEMA = {
    "anyOf": [
        INTERVAL.schema,
        {
            "type": "object",
            "properties": {"count": {"type": "integer", "minimum": 1}, "period": {"enum": list(PERIODS)}},
            "required": ["count", "period"],
            "additionalProperties": False,
        },
        {"type": "null"},
    ]
}
FRESHNESS_LIMITS: ValueKind[Freshness] = ValueKind(
    _freshness,
    "a mapping of `warn_after` or `error_after` or both to an interval, like {warn_after: '1 hour', error_after: '6 hours'}, "
    "or to {count: 1, period: hour}",
    {
        "type": "object",
        "properties": {**dict.fromkeys(LIMITS, _LIMIT_SCHEMA), **{key: {"type": "object"} for key in DBTS}},
        "additionalProperties": False,
        "minProperties": 1,
    },
)
