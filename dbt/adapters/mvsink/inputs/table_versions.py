"""The version that a table with versions is read at: for a run's own time its newest one, the same
in all models of the run; for a refresh of a schedule the one that was the newest at that time.

A Delta version's time is what DESCRIBE HISTORY says, as time travel takes it. Where the version of
the refresh is not there any more, or never was, the newest one is read, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone

from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.engine import Engine, EngineError
from dbt.adapters.mvsink.engine.session import session_settings
from dbt.adapters.mvsink.inputs.delta import DeltaInput
from dbt.adapters.mvsink.inputs.errors import FilesGone, InputError, VersionsGone
from dbt.adapters.mvsink.inputs.iceberg import current_snapshot
from dbt.adapters.mvsink.inputs.positions import DELTA as DELTA_TABLE
from dbt.adapters.mvsink.inputs.positions import described, is_local, path_of
from dbt.adapters.mvsink.inputs.reference import Refresh
from dbt.adapters.mvsink.inputs.versioned import EMPTY, rows_at
from dbt.adapters.mvsink.per_invocation import PerInvocation
from dbt.adapters.mvsink.shard import ShardError
from dbt.adapters.mvsink.shard_sql.published_view import view_properties
from dbt.adapters.mvsink.user_sql.words import names

DELTA = "delta."  # what the properties of a Delta table begin with
# A batch of versions may begin with one whose time Delta would move behind that of an earlier one.
# Writers' clocks are taken to differ by less.
SKEW = 5 * 60_000  # ms
BATCHES = (1, 100, 10_000, None)  # of versions, the newest first; None: all
UTC = {"spark.sql.session.timeZone": "UTC"}
UNKNOWN, OWN = "the times of its versions cannot be read", "a model of this run may have written it"


@dataclass(frozen=True)
class Pinned:
    """The ``version`` that is read; None: the table as it is. ``newer``: why that is not the one of
    the refresh, as a clause.
    """

    version: int | None
    newer: str = ""


# what the tables of an invocation are read at, by name and the refresh's time
_pinned: PerInvocation[dict[tuple[str, int | None], Pinned]] = PerInvocation(dict)


@dataclass(frozen=True)
class TableVersions:
    """Finds versions for one run. ``refresh``: None without a schedule. ``local``: files of this
    machine are those that the engine reads.
    """

    engine: Engine
    invocation_id: str
    refresh: Refresh | None = None
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    local: bool = False

    def of(self, name: str, properties: Mapping[str, str], *, source: bool) -> Pinned | None:
        """What the table ``name`` with these ``properties`` is read at; None if it has no versions.
        ``source``: no model makes it.
        """
        kind = self._kind(properties)
        if kind is None:
            return None
        newest = self._once((name, None), lambda: Pinned(kind.newest(name)))
        refresh = self.refresh
        if refresh is None or refresh.time is None or refresh.own:
            return newest
        if newest.version is None:
            return replace(newest, newer=UNKNOWN)
        at, last, written_here = refresh.time, newest.version, not (refresh.late or source)
        pinned = self._once((name, at), lambda: kind.at(name, at, last))
        if pinned.newer or (written_here and pinned.version != newest.version):
            return replace(newest, newer=pinned.newer or OWN)
        return pinned

    def newest(self, name: str, properties: Mapping[str, str]) -> int | None:
        """The newest version of the table, now; None if it has none."""
        kind = self._kind(properties)
        return None if kind is None else kind.newest(name)

    def _kind(self, properties: Mapping[str, str]) -> _Delta | _Iceberg | None:
        if any(key.startswith(DELTA) for key in properties):
            return _Delta(self)
        return None if current_snapshot(properties) is None else _Iceberg(self)

    def _once(self, key: tuple[str, int | None], find: Callable[[], Pinned]) -> Pinned:
        """What the first model of the invocation pinned: of concurrent threads the first wins."""
        known = _pinned.of(self.invocation_id)
        if key in known:
            return known[key]
        pinned = find()
        return pinned if pinned.version is None and not pinned.newer else known.setdefault(key, pinned)

    def written_since(self, name: str, provider: str, refresh: Refresh) -> bool:
        """Whether the table has, or may have, a newer version than that of the ``refresh``."""
        kind: _Delta | _Iceberg = _Delta(self) if provider == DELTA_TABLE else _Iceberg(self)
        newest = kind.newest(name)
        if newest is None or refresh.time is None:
            return True
        return kind.at(name, refresh.time, newest).version != newest

    def unreadable(self, name: str, version: int) -> str:
        """Why Spark cannot read ``version``, as a clause; empty if it can, from its log's point of
        view.
        """
        try:
            self.engine.columns(rows_at(name, version))
        except EngineError:
            return f"its version {version} cannot be read any more"
        return ""


@dataclass(frozen=True)
class _Delta:
    of: TableVersions

    def newest(self, name: str) -> int | None:
        try:
            [newest, *_] = self.of.engine.query(f"describe history {name} limit 1", "catalog")
        except (EngineError, ValueError):  # a session without Delta's history cannot read versions either
            return None
        return int(str(newest[0]))

    def at(self, name: str, time: int, newest: int) -> Pinned:
        """The newest version that is not after ``time`` (ms)."""
        pinned = self._version(name, time)
        if pinned.version is None or pinned.version >= newest:
            return pinned
        gone = self._gone(name, pinned.version)
        return Pinned(None, gone) if gone else pinned

    def _version(self, name: str, time: int) -> Pinned:
        versions: Sequence[tuple[int, int]] = ()
        for limit in BATCHES:
            try:
                versions = self._history(name, limit)
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

    def _history(self, name: str, limit: int | None) -> list[tuple[int, int]]:
        """Versions and their times (ms), the newest first. Raises `EngineError`, `ValueError`."""
        statement = f"describe history {name}" + ("" if limit is None else f" limit {limit}")
        table = self.of.engine.arrow(statement, "catalog")
        if table is not None:
            rows = zip(table.column("version").to_pylist(), table.column("timestamp").to_pylist())
            return [(int(version), _ms(at)) for version, at in rows]
        with self.of.engine.settings(UTC):  # else an hour of the autumn comes twice
            shown = self.of.engine.query(statement, "catalog")
        return [(int(str(row[0])), _ms(row[1])) for row in shown]

    def _gone(self, name: str, version: int) -> str:
        """Why the old ``version`` cannot be read, as a clause; empty if it can."""
        if reason := self.of.unreadable(name, version):
            return reason
        try:
            location = str(described(self.of.engine, name).get("location", ""))
            if self.of.local or not is_local(location):
                DeltaInput(path_of(location), name, self.of.storage_options).require_files(version)
                return ""
        except FilesGone:
            return f"files of its version {version} are gone"
        except VersionsGone:
            return f"its log of version {version} is gone"
        except (InputError, ShardError, EngineError, OSError):
            pass  # Spark may read what is not read here
        return self._asked(name, version)

    def _asked(self, name: str, version: int) -> str:
        """The same from Spark, which opens each file."""
        if session_settings(self.of.engine).get("spark.sql.files.ignoreMissingFiles") == "true":
            return f"whether files of its version {version} are gone is not known"
        try:
            files = f"select count(distinct _metadata.file_path) from {name} version as of {version}"
            self.of.engine.query(files, "files")
        except EngineError:
            return f"files of its version {version} are gone"
        return ""


@dataclass(frozen=True)
class _Iceberg:
    of: TableVersions

    def newest(self, name: str) -> int | None:
        """Of a table: a branch of one shows the properties of the table."""
        engine = self.of.engine
        try:
            rows = engine.query(f"describe table extended {name}", "catalog")
            shown = next(str(row[1]) for row in rows[::-1] if row[0] == "Name")
            if not names(shown, name):
                return None
            engine.execute(f"refresh table {name}", "catalog")  # another process may have written to it
            return current_snapshot(view_properties(engine, name))
        except (EngineError, StopIteration):
            return None

    def at(self, name: str, time: int, newest: int) -> Pinned:
        """The snapshot that was the table's own at ``time`` (ms); a table may have had none yet."""
        history = f"select snapshot_id, unix_millis(made_current_at) from {name}.history"
        log = f"select latest_snapshot_id, unix_millis(timestamp) from {name}.metadata_log_entries"
        try:
            rows = [(int(str(each)), int(str(at))) for each, at in self.of.engine.query(history, "catalog")]
            made = [] if rows and rows[0][1] <= time else self.of.engine.query(log, "catalog")
        except EngineError:
            return Pinned(None, UNKNOWN)
        snapshot = next((each for each, at in reversed(rows) if at <= time), None)
        if snapshot is None:
            empty = any(each is None and int(str(at)) <= time for each, at in made)
            oldest = f"its oldest snapshot is of {iso(rows[0][1])}" if rows else UNKNOWN
            return Pinned(EMPTY) if empty else Pinned(None, oldest)
        reason = "" if snapshot == newest else self.of.unreadable(name, snapshot)
        return Pinned(None, reason) if reason else Pinned(snapshot)


def newest_version(engine: Engine, name: str) -> int | None:
    """The newest version of a table with versions, now. Raises `EngineError`."""
    return TableVersions(engine, "").newest(name, view_properties(engine, name))


def _ms(at: object) -> int:
    """A time of DESCRIBE HISTORY, UTC if it names no zone."""
    moment = at if isinstance(at, datetime) else datetime.fromisoformat(str(at))
    aware = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return (aware - datetime.fromtimestamp(0, timezone.utc)) // timedelta(milliseconds=1)
