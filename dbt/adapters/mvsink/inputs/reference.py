"""The relations that a query reads, each at one time: this makes the models of a run consistent.

A reference to a shard is read as of the run's write time if the shard's upper is past it, else at
its newest readable time. The shard's state is taken when the run begins, so every attempt of the
run reads the same, whatever other writers do.

All models of a run read a table with versions at one version (`TableVersions`). For a run's own
time this is the newest version; for a refresh of a schedule, the version that was the newest at
that time. If the version of the refresh is gone or never existed, the newest one is read, and the
reason is recorded. Any other relation is read as it is.

This module knows no dbt and no Spark: queries in, queries out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.engine import DataflowError, Engine, sql
from dbt.adapters.mvsink.inputs.described import PlainTable
from dbt.adapters.mvsink.inputs.protocol import UNKNOWN, Pinned, TableOptions, VersionedFormat, rows_at
from dbt.adapters.mvsink.inputs.registry import VERSIONED
from dbt.adapters.mvsink.per_invocation import PerInvocation
from dbt.adapters.mvsink.physical import DIFF, ERROR, TIME
from dbt.adapters.mvsink.shard import (
    Antichain,
    Commit,
    DataFile,
    PastGeneration,
    ReadPoints,
    ShardState,
    as_of_generation,
)
from dbt.adapters.mvsink.shard_sql import Layout, NotReadable, NotRefreshed, as_of
from dbt.adapters.mvsink.shard_sql.published_view import view_properties
from dbt.adapters.mvsink.user_sql.marks import query_at
from dbt.adapters.mvsink.user_sql.splice import replace_relations
from dbt.adapters.mvsink.user_sql.words import parts


class NotReadableThen(DataflowError):
    """A query needs history that the shard does not have."""

    error_code = "MVS-417"

    def __init__(self, name: str, asked: str, state: ShardState, hint: str = ""):
        super().__init__(
            f"{name} cannot be read {asked}: the readable times are [{bound(state.since)}, {bound(state.upper)})"
            + (f"; {hint}" if hint else "")
        )


class OtherRefresh(DataflowError):
    """After the versions of tables were determined, another run changed the time at which the
    contents are due.
    """

    error_code = "MVS-418"

    def __init__(self, time: int):
        super().__init__(
            f"another run has begun the shard's contents again, which are now due at {iso(time)}; run again"
        )


@dataclass(frozen=True)
class Refresh:
    """What the run of a scheduled view is for: contents as of ``time`` (ms), None if none are due.

    If ``own``, this is the run's own time and not a refresh of the schedule. If ``late``, the run
    began after it.
    """

    time: int | None
    own: bool = False
    late: bool = True


def _no_history(newest: int | None = None) -> Sequence[Commit]:
    return ()


def _no_state(version: int) -> ShardState | None:
    return None


def _none_kept() -> tuple[PastGeneration, ...]:
    return ()


@dataclass(frozen=True)
class Reference:
    """A shard at one version. ``name`` is as the query has it. ``order`` has the columns of its
    view, in order; if it is empty, the shard's own order counts.

    ``first_refresh`` is a text that says when a shard without contents will have some; empty
    without a schedule. ``read`` gives columns of all rows of a file, and ``find`` of some rows
    (`Handle`). ``history`` gives its newest commits, oldest first, ``state_at`` an earlier version,
    None if it is gone, and ``kept`` the generations that are kept beside its own; ``layout_of``
    sorts the files of such a version.
    """

    name: str
    uri: str
    state: ShardState
    layout: Layout
    order: tuple[str, ...] = ()
    first_refresh: str = ""
    read: Callable[[DataFile, pa.Schema], pa.Table] | None = None
    history: Callable[[int | None], Sequence[Commit]] = _no_history
    find: Callable[[DataFile, pa.Schema, pc.Expression, int], pa.Table] | None = None
    state_at: Callable[[int], ShardState | None] = _no_state
    kept: Callable[[], tuple[PastGeneration, ...]] = _none_kept
    layout_of: Callable[[ShardState], Layout] | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns, in the view's order if the view has the shard's columns."""
        return self.order if sorted(self.order) == sorted(self.layout.names) else self.layout.names

    @property
    def described_columns(self) -> list[tuple[str, str]]:
        """The same with their types."""
        types = {column.name: column.type.text for column in self.layout.columns}
        return [(column, types[column]) for column in self.columns]

    def time_for(self, wanted: int) -> int:
        """The time (ms) at which it is read for the ``wanted`` one. Raises `NotRefreshed`."""
        if not self.state.readable:
            raise NotRefreshed(self.name, self.first_refresh)
        upper = self.state.upper.as_option()
        return wanted if upper is None else min(wanted, upper - 1)

    def collection(self, time: int) -> str:
        """Its rows as of ``time`` (ms), as SQL. Raises `NotRefreshed`, `NotReadableThen`."""
        try:
            as_of.check_readable(self.state, time)
        except NotRefreshed as error:
            raise NotRefreshed(self.name, self.first_refresh) from error
        except NotReadable as error:
            raise NotReadableThen(self.name, f"as of {_both_ways(time)}", self.state) from error
        return self._ordered(as_of.collection_as_of(self.layout, time))

    def past_collection(self, time: int) -> str:
        """The same, also of an earlier generation that is kept: with the columns that it had."""
        state, at = as_of_generation(self.state, time, self.kept)
        if state is self.state or self.layout_of is None:
            return self.collection(time)
        return as_of.collection_as_of(self.layout_of(state), at)

    def updates(self, lower: int, upper: int) -> str:
        """Its updates in ``[lower, upper)`` (ms), without errors: columns, `_mv_time`, `_mv_diff`.

        Raises `NotRefreshed`, `NotReadableThen`.
        """
        asked = f"for the changes of [{_both_ways(lower)}, {_both_ways(upper)})"
        try:
            as_of.check_changes(self.state, lower, upper)
        except NotRefreshed as error:
            raise NotRefreshed(self.name, self.first_refresh) from error
        except NotReadable as error:
            raise NotReadableThen(
                self.name, asked, self.state, "changes up to the first of these may have been merged"
            ) from error
        items = f"{sql.columns(self.columns)}, {TIME}, {DIFF}"
        return f"select {items} from (\n{as_of.updates_between(self.layout, lower, upper)}\n) where {ERROR} is null"

    def described(self) -> str:
        """A query with its columns and no rows, for analysis, also of an unreadable shard. Opens no
        file.
        """
        types = {column.name: column.type.spelled for column in self.layout.columns}
        items = [f"cast(null as {types[name]}) {sql.identifier(name)}" for name in self.columns]
        return f"select {', '.join(items)} where false"

    def _ordered(self, query: str) -> str:
        if self.columns == self.layout.names:
            return query
        return f"select {sql.columns(self.columns)} from (\n{query}\n)"


@dataclass(frozen=True)
class References:
    """What a query reads at a fixed time. ``pinned`` is the version of each table with versions,
    and ``newer`` a clause that says why a table is not read as of the refresh. ``refresh`` is what
    the versions are for, None without a schedule.

    ``descriptions`` has the catalog's description of each relation when the run began, by the parts
    of its name, which may lack the catalog; None for a relation without a description as JSON.
    ``tables`` has the plain ones of sources with versions, which have no other.
    """

    shards: Mapping[str, Reference] = field(default_factory=dict)
    pinned: Mapping[str, int] = field(default_factory=dict)
    descriptions: Mapping[tuple[str, ...], Mapping[str, Any] | None] = field(default_factory=dict)
    newer: Mapping[str, str] = field(default_factory=dict)
    refresh: Refresh | None = None
    tables: Mapping[tuple[str, ...], PlainTable] = field(default_factory=dict)

    def read_at(self, query: str, time: int) -> str:
        """``query`` with ``time`` (ms) as its `mv_now()`, and with every reference read as of that
        time, as far as possible. Raises what `queries` raises, and `TemporalReference`.
        """
        return _spliced(query_at(query, time), self.queries(time))

    def described(self, query: str) -> str:
        """``query`` for the analysis of its columns; unreadable shards are not an error yet."""
        return _spliced(
            query, {**self._at_versions(), **{name: shard.described() for name, shard in self.shards.items()}}
        )

    def queries(self, time: int) -> dict[str, str]:
        """The query that replaces each relation, by name. Raises `NotRefreshed`, `NotReadableThen`,
        `OtherRefresh`.
        """
        if self.refresh is not None and self.pinned and self.refresh.time != time:
            raise OtherRefresh(time)
        return {**self._at_versions(), **{name: _at(shard, time) for name, shard in self.shards.items()}}

    @property
    def names(self) -> tuple[str, ...]:
        """The relations that are replaced."""
        return (*self.pinned, *self.shards)

    def _at_versions(self) -> dict[str, str]:
        return {name: rows_at(name, version) for name, version in self.pinned.items()}

    def version_of(self, name: str) -> int | None:
        """The version at which the table ``name``, in any catalog, is read; None if it is read as
        it is.
        """
        by_parts = {parts(each)[-2:]: version for each, version in self.pinned.items()}
        return by_parts.get(parts(name)[-2:])

    def points(self, time: int) -> ReadPoints:
        """Where a query as of ``time`` (ms) reads each shard and each table with versions."""
        times = {name: shard.time_for(time) for name, shard in self.shards.items()}
        return ReadPoints(times, self.pinned, self.newer)


def _at(shard: Reference, time: int) -> str:
    """The rows of ``shard`` for a run's contents. The error for history that is gone says what to
    do.
    """
    try:
        return shard.collection(shard.time_for(time))
    except NotReadableThen as error:
        hint = "raise its retain_history, or run with --full-refresh, which writes as of the run's own time"
        raise NotReadableThen(
            shard.name, f"as of {_both_ways(time)}, the time of this run's contents", shard.state, hint
        ) from error


def _spliced(query: str, queries: Mapping[str, str]) -> str:
    return replace_relations(query, queries) if queries else query


def bound(frontier: Antichain) -> str:
    """A frontier for a message, with its time in both forms that users can write."""
    time = frontier.as_option()
    return "no end" if time is None else _both_ways(time)


def _both_ways(time: int) -> str:
    return f"{iso(time)} ({time})" if iso(time) != str(time) else str(time)


OWN = "a model of this run may have written it"

# what the tables of an invocation are read at, by name and the refresh's time
_pinned: PerInvocation[dict[tuple[str, int | None], Pinned]] = PerInvocation(dict)


@dataclass(frozen=True)
class TableVersions:
    """Finds versions for one run. ``refresh`` is None without a schedule."""

    options: TableOptions
    invocation_id: str
    refresh: Refresh | None = None

    def of(self, name: str, properties: Mapping[str, str], *, source: bool) -> Pinned | None:
        """The version at which the table ``name`` with these ``properties`` is read; None if it has
        no versions. If ``source``, no model makes the table.
        """
        versioned = _format_of(properties)
        if versioned is None:
            return None
        newest = self._once((name, None), lambda: Pinned(versioned.newest(name, self.options.engine)))
        return self._pinned(name, versioned, newest, source=source)

    def here(self, name: str, table: PlainTable) -> Pinned | None:
        """The same for a source, as its log on this machine says; None if that cannot be read."""
        versioned = VERSIONED.get(table.provider)
        location = table.details.get("location", "")
        version = None if versioned is None else versioned.newest_here(location, self.options)
        if versioned is None or version is None:
            return None
        return self._pinned(name, versioned, self._once((name, None), lambda: Pinned(version)), source=True)

    def _pinned(self, name: str, versioned: VersionedFormat, newest: Pinned, *, source: bool) -> Pinned:
        """That of the refresh. ``newest`` is the version that the table has now."""
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
        """What the invocation's first model has pinned; among concurrent threads the first wins."""
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
