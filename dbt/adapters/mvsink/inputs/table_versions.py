"""The version that a table with versions is read at: for a run's own time its newest one, the same
in all models of the run; for a refresh of a schedule the one that was the newest at that time.

Where the version of the refresh is not there any more, or never was, the newest one is read, with
the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from dbt.adapters.mvsink.engine import Engine
from dbt.adapters.mvsink.inputs.protocol import TableOptions
from dbt.adapters.mvsink.inputs.reference import Refresh
from dbt.adapters.mvsink.inputs.registry import VERSIONED
from dbt.adapters.mvsink.inputs.versioned import UNKNOWN, Pinned, VersionedFormat
from dbt.adapters.mvsink.per_invocation import PerInvocation
from dbt.adapters.mvsink.shard_sql.published_view import view_properties

OWN = "a model of this run may have written it"

# what the tables of an invocation are read at, by name and the refresh's time
_pinned: PerInvocation[dict[tuple[str, int | None], Pinned]] = PerInvocation(dict)


@dataclass(frozen=True)
class TableVersions:
    """Finds versions for one run. ``refresh``: None without a schedule."""

    options: TableOptions
    invocation_id: str
    refresh: Refresh | None = None

    def of(self, name: str, properties: Mapping[str, str], *, source: bool) -> Pinned | None:
        """What the table ``name`` with these ``properties`` is read at; None if it has no versions.
        ``source``: no model makes it.
        """
        versioned = _format_of(properties)
        if versioned is None:
            return None
        newest = self._once((name, None), lambda: Pinned(versioned.newest(name, self.options.engine)))
        refresh = self.refresh
        if refresh is None or refresh.time is None or refresh.own:
            return newest
        if newest.version is None:
            return replace(newest, newer=UNKNOWN)
        at, last, written_here = refresh.time, newest.version, not (refresh.late or source)
        pinned = self._once((name, at), lambda: versioned.at(name, at, last, self.options))
        if pinned.newer or (written_here and pinned.version != newest.version):
            return replace(newest, newer=pinned.newer or OWN)
        return pinned

    def _once(self, key: tuple[str, int | None], find: Callable[[], Pinned]) -> Pinned:
        """What the first model of the invocation pinned: of concurrent threads the first wins."""
        known = _pinned.of(self.invocation_id)
        if key in known:
            return known[key]
        pinned = find()
        return pinned if pinned.version is None and not pinned.newer else known.setdefault(key, pinned)

    def written_since(self, name: str, provider: str, refresh: Refresh) -> bool:
        """Whether the table has, or may have, a newer version than that of the ``refresh``."""
        versioned = VERSIONED[provider]
        newest = versioned.newest(name, self.options.engine)
        if newest is None or refresh.time is None:
            return True
        return versioned.at(name, refresh.time, newest, self.options).version != newest


def newest_version(engine: Engine, name: str) -> int | None:
    """The newest version of a table with versions, now. Raises `EngineError`."""
    versioned = _format_of(view_properties(engine, name))
    return None if versioned is None else versioned.newest(name, engine)


def _format_of(properties: Mapping[str, str]) -> VersionedFormat | None:
    return next((each for each in VERSIONED.values() if each.has(properties)), None)
