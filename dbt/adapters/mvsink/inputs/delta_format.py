"""Delta tables as a `VersionedFormat`: `delta_log` reads their logs, Spark shows their history.

A version's time is the one that DESCRIBE HISTORY shows and time travel uses.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.engine import Engine, EngineError
from dbt.adapters.mvsink.engine.session import session_settings
from dbt.adapters.mvsink.inputs.delta_by_spark import DeltaBySpark
from dbt.adapters.mvsink.inputs.delta_log import DeltaInput
from dbt.adapters.mvsink.inputs.described import (
    check_files,
    files_read_otherwise,
    is_local,
    path_of,
    plain_description,
)
from dbt.adapters.mvsink.inputs.errors import FilesGone, InputError, VersionsGone
from dbt.adapters.mvsink.inputs.position import InputSides, Observation, Position
from dbt.adapters.mvsink.inputs.protocol import (
    UNKNOWN,
    CatalogTable,
    Pinned,
    Table,
    TableOptions,
    sides_of_table,
    unreadable,
)
from dbt.adapters.mvsink.inputs.version_binding import bindable
from dbt.adapters.mvsink.reasons import EvaluateFully, Why
from dbt.adapters.mvsink.shard import ShardError
from dbt.adapters.mvsink.shard.commit_log import LOG

DELTA = "delta"
COMMIT = re.compile(r"\d{20}\.json")
# A batch of versions may begin with one whose time Delta would move behind that of an earlier one.
# Writers' clocks are taken to differ by less.
SKEW = 5 * 60_000  # ms
BATCHES = (1, 100, 10_000, None)  # of versions, the newest first; None: all
UTC = {"spark.sql.session.timeZone": "UTC"}


@dataclass(frozen=True)
class DeltaFormat:
    """See `VersionedFormat`."""

    def open(self, table: CatalogTable, options: TableOptions) -> Table:
        """See `Format`. Raises `SessionReadsOtherwise`."""
        check_files(options.engine, table.name)
        files = DeltaInput(table.location, table.name, options.storage_options)
        return bindable(DeltaBySpark(files, options.engine), options.engine)

    def position(self, table: CatalogTable, options: TableOptions, pinned: int | None) -> Position:
        """See `Format`."""
        name, location = table.name, table.location
        if not options.local and is_local(location):
            return Position(name, DELTA, problem=f"{name} is on a disk of the machine that runs Spark")
        newest = DeltaInput(path_of(location), storage_options=options.storage_options).newest()
        number = newest.version if pinned is None else pinned
        return Position(name, DELTA, newest.table_id, number, location=path_of(location))

    def has(self, properties: Mapping[str, str]) -> bool:
        """See `VersionedFormat`."""
        return any(key.startswith("delta.") for key in properties)

    def newest(self, name: str, engine: Engine) -> int | None:
        """See `VersionedFormat`."""
        try:
            [newest, *_] = engine.query(f"describe history {name} limit 1", "catalog")
        except (EngineError, ValueError):  # a session without Delta's history cannot read versions either
            return None
        return int(str(newest[0]))

    def newest_here(self, location: str, options: TableOptions) -> int | None:
        """See `VersionedFormat`."""
        if not (options.local and is_local(location)):
            return None
        try:
            return DeltaInput(path_of(location), storage_options=options.storage_options).newest().version
        except (InputError, OSError):  # Spark may read what is not read here
            return None

    def at(self, name: str, time: int, newest: int, options: TableOptions) -> Pinned:
        """The newest version that is not after ``time`` (ms)."""
        pinned = _version_at(options.engine, name, time)
        if pinned.version is None or pinned.version >= newest:
            return pinned
        gone = _gone(name, pinned.version, options)
        return Pinned(None, gone) if gone else pinned

    def is_at(self, path: Path) -> bool:
        """See `ProbedFormat`."""
        return (path / LOG).is_dir()

    def observation(self, path: Path) -> Observation:
        """See `ProbedFormat`: the newest version, and when it was written."""
        newest = max((name for name in os.listdir(path / LOG) if COMMIT.fullmatch(name)), default="")
        if not newest:
            return Observation("")
        version, written = newest.removesuffix(".json"), (path / LOG / newest).stat().st_mtime_ns
        return Observation(version, {version: (0, written // 1_000_000)})

    def sides(
        self, name: str, at: Position, before: int, version: int, options: TableOptions
    ) -> InputSides | EvaluateFully:
        """See `VersionedFormat`."""
        if version < before:
            return EvaluateFully(Why.EARLIER_VERSION, name)
        if setting := files_read_otherwise(session_settings(options.engine)):
            return EvaluateFully(Why.READ_OTHERWISE, setting, name)
        return sides_of_table(name, DeltaInput(at.location, name, options.storage_options), before, version)


def _version_at(engine: Engine, name: str, time: int) -> Pinned:
    versions: Sequence[tuple[int, int]] = ()
    for limit in BATCHES:
        try:
            versions = _history(engine, name, limit)
        except (EngineError, ValueError):
            return Pinned(None, UNKNOWN)
        whole = limit is None or len(versions) < limit
        if whole or versions[-1][1] <= time - SKEW:
            break
    version = next((version for version, at in versions if at <= time), None)
    if version is None:
        oldest = f"its oldest version is of {iso(versions[-1][1])}" if versions else UNKNOWN
        return Pinned(None, oldest)
    return Pinned(version)


def _history(engine: Engine, name: str, limit: int | None) -> list[tuple[int, int]]:
    """Versions and their times (ms), the newest first. Raises `EngineError`, `ValueError`."""
    statement = f"describe history {name}" + ("" if limit is None else f" limit {limit}")
    table = engine.arrow(statement, "catalog")
    if table is not None:
        rows = zip(table.column("version").to_pylist(), table.column("timestamp").to_pylist())
        return [(int(version), _ms(at)) for version, at in rows]
    with engine.settings(UTC):  # else an hour of the autumn comes twice
        shown = engine.query(statement, "catalog")
    return [(int(str(row[0])), _ms(row[1])) for row in shown]


def _gone(name: str, version: int, options: TableOptions) -> str:
    """Why the old ``version`` cannot be read, as a clause; empty if it can be."""
    if reason := unreadable(options.engine, name, version):
        return reason
    try:
        location = plain_description(options.engine, name).get("location", "")
        if options.local or not is_local(location):
            DeltaInput(path_of(location), name, options.storage_options).require_files(version)
            return ""
    except FilesGone:
        return f"files of its version {version} are gone"
    except VersionsGone:
        return f"its log of version {version} is gone"
    except (InputError, ShardError, EngineError, OSError):
        pass  # Spark may read what is not read here
    return _missing_file(options.engine, name, version)


def _missing_file(engine: Engine, name: str, version: int) -> str:
    """The same, found by Spark, which opens each file."""
    if session_settings(engine).get("spark.sql.files.ignoreMissingFiles") == "true":
        return f"whether files of its version {version} are gone is not known"
    try:
        files = f"select count(distinct _metadata.file_path) from {name} version as of {version}"
        engine.query(files, "files")
    except EngineError:
        return f"files of its version {version} are gone"
    return ""


def _ms(at: object) -> int:
    """A time of DESCRIBE HISTORY in ms; it is UTC if it names no zone."""
    moment = at if isinstance(at, datetime) else datetime.fromisoformat(str(at))
    aware = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return (aware - datetime.fromtimestamp(0, timezone.utc)) // timedelta(milliseconds=1)
