"""dbt-mvsink: a dbt adapter for Spark with tables that are always right.

Layers, top to bottom: dbt (`adapter`, `materialization`, `references`), dataflow (`sink`, `inputs`,
`continual_task` on `shard_sql`, `user_sql` and `engine`), and `shard`. Each imports only what is
below it; tests/unit/test_layers.py checks that. The map is in docs/design/overview.md.

dbt reads `Plugin` from here, which is loaded when it does: commands that only read logs take less
time than to import dbt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dbt.adapters.mvsink.plugin import Plugin as Plugin


def __getattr__(name: str) -> Any:
    if name != "Plugin":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dbt.adapters.mvsink.plugin import Plugin

    return Plugin
