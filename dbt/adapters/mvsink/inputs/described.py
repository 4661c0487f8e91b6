"""How the catalog describes a relation: its name, its place, and what decides its rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dbt.adapters.mvsink.engine import Engine, sql
from dbt.adapters.mvsink.shard_sql.stager import EXACT
from dbt.adapters.mvsink.user_sql.words import words

SETTINGS = "view_creation_spark_configuration"
# of a table's description: what does not decide its rows, or is a position
CHANGEABLE = (
    "created_time",
    "created_by",
    "last_access",
    "owner",
    "statistics",
    "comment",
    "table_properties",
)


def plain_description(engine: Engine, name: str) -> Mapping[str, str]:
    """The description that every table has. Of a table of files, it lacks the partitions."""
    rows = engine.query(f"describe table extended {quoted(name)}", "catalog")
    return {str(row[0]).lower(): str(row[1]) for row in rows}


def quoted(name: str) -> str:
    """A name as a plan spells it, with every part in quotes, not only those that need them."""
    return sql.qualified(word.text for word in words(name) if word.upper != ".")


def stable(described: Mapping[str, Any]) -> str:
    """The description as a text, without what changes while the rows stay."""
    kept = {key: value for key, value in described.items() if key not in CHANGEABLE}
    if SETTINGS in kept:  # a view created while we staged has settings that decide how files are written
        kept[SETTINGS] = {key: value for key, value in kept[SETTINGS].items() if key not in EXACT}
    return json.dumps(kept, sort_keys=True)


def is_local(location: str) -> bool:
    return location.startswith("file:") or "://" not in location


def path_of(location: str) -> str:
    return "/" + location.removeprefix("file:").lstrip("/") if is_local(location) else location
