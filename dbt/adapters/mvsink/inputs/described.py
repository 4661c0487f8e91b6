"""What decides an input's rows besides the input itself: how the catalog describes it, the
session's time zone, and settings that make Spark read a Parquet file differently from the table.

A time whose text has no zone is in the zone of the session that reads it. Changes that were read in
different zones do not add up, so an input with such times is always read in the same zone, which
its companion records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dbt.adapters.mvsink.engine import Engine, sql
from dbt.adapters.mvsink.inputs.errors import SessionReadsOtherwise, ZoneChanged
from dbt.adapters.mvsink.shard import WriteHandle
from dbt.adapters.mvsink.shard_sql.published_view import Catalog
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


@dataclass(frozen=True)
class PlainTable:
    """What DESCRIBE EXTENDED shows of a table: its ``columns``, in order, with the types with which
    they are declared, and ``details`` by names in lower case.
    """

    columns: tuple[tuple[str, str], ...]
    details: Mapping[str, str]

    @property
    def provider(self) -> str:
        """The catalog's name of its format; empty for a view."""
        return self.details.get("provider", "").lower()

    def of_a_query(self) -> list[tuple[str, str]] | None:
        """The columns as those of `select *`; None where their types are spelled otherwise there,
        or are cut.
        """
        unclear = any(_DECLARED_OTHERWISE.search(kind) for _, kind in self.columns)
        return None if unclear or not self.columns else list(self.columns)


def plain_table(catalog: Catalog, name: str) -> PlainTable:
    """The description that every table has; ``name`` is as SQL has it. For a table of files, it
    lacks the partitions. Raises `EngineError`.
    """
    rows = [
        (str(row[0]), str(row[1] or ""))
        for row in catalog.query(f"describe table extended {name}", "catalog")
    ]
    # a column has a type, the headline or the empty line below the columns has none
    end = next((number for number, (_, kind) in enumerate(rows) if not kind), len(rows))
    return PlainTable(tuple(rows[:end]), {name.lower(): value for name, value in rows[end:]})


def plain_description(engine: Engine, name: str) -> Mapping[str, str]:
    """The details of `plain_table`; ``name`` is as a plan spells it."""
    return plain_table(engine, quoted(name)).details


def quoted(name: str) -> str:
    """A name as a plan spells it, with every part in quotes, not only those that need them."""
    return sql.qualified(word.text for word in words(name) if word.upper != ".")


def stable(described: Mapping[str, Any]) -> str:
    """The description as a text, without fields that can change while the rows stay the same."""
    kept = {key: value for key, value in described.items() if key not in CHANGEABLE}
    if SETTINGS in kept:  # a view created while we staged has settings that decide how files are written
        kept[SETTINGS] = {key: value for key, value in kept[SETTINGS].items() if key not in EXACT}
    return json.dumps(kept, sort_keys=True)


def is_local(location: str) -> bool:
    return location.startswith("file:") or "://" not in location


def path_of(location: str) -> str:
    return "/" + location.removeprefix("file:").lstrip("/") if is_local(location) else location


ZONE = "input_time_zone"
# Settings that decide what the columns of a Parquet file are, where the table's own schema does not
# come with it, and with which value it is read here.
OF_FILES = {
    "spark.sql.caseSensitive": "false",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.int96AsTimestamp": "true",
    "spark.sql.legacy.parquet.nanosAsLong": "false",
}
_DECLARED_OTHERWISE = re.compile(r"\b(?:var)?char\b|\.\.\. \d+ more fields", re.IGNORECASE)
_ZONED = re.compile(r"\btimestamp\b", re.IGNORECASE)


def files_read_otherwise(settings: Mapping[str, str]) -> str:
    """A setting that makes Spark read a table's files differently from the table; empty if there is
    none. ``settings`` are those of the session that differ from Spark's defaults.
    """
    return next(
        (
            f"{name} = {settings[name]}"
            for name, value in OF_FILES.items()
            if settings.get(name, value).lower() != value
        ),
        "",
    )


def check_files(engine: Engine, table: str) -> None:
    """Raises `SessionReadsOtherwise`."""
    settings = {str(row[0]): str(row[1]) for row in engine.facts("set", "settings")}
    if setting := files_read_otherwise(settings):
        raise SessionReadsOtherwise(table, setting)


def has_times(kind: str) -> bool:
    """Whether a type, as Spark spells it, contains timestamps with a zone.

    >>> [has_times(kind) for kind in ("timestamp", "array<timestamp>", "timestamp_ntz", "date")]
    [True, True, False, False]
    """
    return _ZONED.search(kind) is not None


def keep_zone(handle: WriteHandle, engine: Engine) -> None:
    """Note in the companion that the input is read in the session's zone."""
    [[zone]] = engine.facts("select current_timezone()", "settings")
    handle.set_properties({ZONE: str(zone)})


def check_zone(handle: WriteHandle, engine: Engine, input_id: str, still: Callable[[], bool]) -> None:
    """Raises `ZoneChanged` if the input has been read in another zone. ``still`` says whether what
    was read last has such times.
    """
    kept = handle.state().properties.get(ZONE)
    if kept is None:
        return
    [[zone]] = engine.facts("select current_timezone()", "settings")
    if kept != str(zone) and still():
        raise ZoneChanged(input_id, kept, str(zone))
