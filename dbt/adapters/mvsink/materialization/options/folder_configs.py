"""A model's configs, where the project sets some of them for a whole folder.

A folder may have views and tasks, so an option that only the other materialization has is ignored
if it comes from a `dbt_project.yml`. In the model's own `config()` or its entry in a properties
file, it is refused, as is a value that no materialization takes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from dbt.adapters.mvsink.materialization.options.freshness import with_freshness
from dbt.adapters.mvsink.materialization.options.table import MATERIALIZATIONS, OPTIONS


def configs_of(model: str, node: Mapping[str, Any], manifest: Any) -> dict[str, Any]:
    """The configs of ``node`` that count for it. Raises `InvalidOption` for a value that no
    materialization takes.
    """
    configs = with_freshness(node)
    materialization = configs.get("materialized")
    if materialization not in MATERIALIZATIONS:
        return configs
    others = {
        key: option
        for option in OPTIONS.values()
        if materialization not in option.of
        for key in option.set_in(configs)
    }
    own = own_keys(node, manifest) if others else ()
    for key, option in others.items():
        if own is not None and key not in own:
            option.kind.parse(model, key, configs.pop(key))
    return configs


def own_keys(node: Mapping[str, Any], manifest: Any) -> Collection[str] | None:
    """The configs that are the model's own; None if its properties file is not known."""
    own = set(node.get("config_call_dict") or ())
    if not node.get("patch_path"):
        return own
    file = getattr(manifest, "files", {}).get(node["patch_path"])
    entries = None if file is None else (getattr(file, "dict_from_yaml", None) or {}).get("models")
    if entries is None:
        return None
    for entry in entries:
        if entry.get("name") == node["name"]:
            for each in (entry, *(entry.get("versions") or ())):
                own.update(each.get("config") or ())
                own.update(each)  # dbt also takes configs beside `config`
    return own
