"""Variables that name models: a name that no model has is refused, not ignored."""

from __future__ import annotations

import difflib
from typing import Any

from dbt.adapters.mvsink.adapter.variables import variable
from dbt.adapters.mvsink.exceptions import UnknownModel
from dbt.adapters.mvsink.materialization.options.table import TASK, VIEW

NAMING = {"mvsink_skip_errors": TASK, "mvsink_reset": TASK, "mvsink_accept": VIEW}


def check_named(config: Any, manifest: Any) -> None:
    """Raises `UnknownModel`. ``config``, which has the variables, and ``manifest`` are dbt's."""
    for name, kind in NAMING.items():
        value = variable(config, name)
        asked = [value] if isinstance(value, str) else list(value or ())
        if not asked:
            continue
        models = [node for node in manifest.nodes.values() if node.config.materialized == kind]
        spellings = {spelled for node in models for spelled in _spellings(node)}
        known = sorted(str(node.name) for node in models)
        for each in asked:
            if each not in spellings:
                meant = difflib.get_close_matches(each, known, 1)
                raise UnknownModel(name, each, kind, known, meant[0] if meant else "")


def _spellings(node: Any) -> tuple[str, ...]:
    """How a variable may name the model."""
    unique_id = str(node.unique_id)
    alias = str(node.alias)
    return (
        *(unique_id, unique_id.split(".", 2)[-1], str(node.name)),
        *(alias, alias.lower(), f"{node.schema}.{alias}", f"{node.schema}.{alias.lower()}"),
    )
