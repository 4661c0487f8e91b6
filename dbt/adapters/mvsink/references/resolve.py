"""Resolves a query's relations in the catalog: published shards, and tables with versions.

A view's properties lead to its shard, wherever it is and whichever project owns it; a Delta or
an Iceberg table shows by its own properties, if Spark has the format's jar.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from dbt.adapters.mvsink.engine import DataflowError, Engine, EngineError
from dbt.adapters.mvsink.inputs.iceberg import current_snapshot
from dbt.adapters.mvsink.references.per_invocation import PerInvocation
from dbt.adapters.mvsink.references.reference import Reference, References
from dbt.adapters.mvsink.shard import ShardClient, ShardError
from dbt.adapters.mvsink.shard_sql import DamagedFiles, Layout
from dbt.adapters.mvsink.shard_sql.properties import first_refresh
from dbt.adapters.mvsink.shard_sql.published_view import (
    Catalog,
    Shown,
    look_up,
    read_published,
    view_properties,
)
from dbt.adapters.mvsink.user_sql.splice import TemporalReference, relations
from dbt.adapters.mvsink.user_sql.words import names, parts

DELTA = "delta."  # what the properties of a Delta table begin with
# the versions of the tables that an invocation has read, by name
_versions: PerInvocation[dict[str, int]] = PerInvocation(dict)


class UnreachableShard(DataflowError):
    """A view names a shard that cannot be opened."""

    def __init__(self, name: str, uri: str, problem: str):
        super().__init__(f"reference {name}: its shard {uri} cannot be opened: {problem}")


@dataclass(frozen=True)
class _Recent:
    """A catalog as it was a moment ago."""

    engine: Engine

    def query(self, query: str, what: str) -> list[tuple[object, ...]]:
        return self.engine.recent(query, what)


def find_references(
    engine: Engine,
    client: ShardClient,
    query: str,
    names: Iterable[str],
    invocation_id: str,
    sources: Collection[str] = (),
) -> References:
    """Those of the relations ``names`` that ``query`` reads and that have times or versions.
    ``sources``: those that no model of the invocation makes; the catalog is not asked for them
    again for each model.

    Raises `UnreachableShard`, `splice.TemporalReference` for a shard with a time travel clause of
    its own, `splice.Unreadable`.
    """
    shards, pinned, described = {}, {}, {}
    for name in names:
        try:
            if not relations(query, name):
                continue
            temporal = None
        except TemporalReference as error:  # fine for a table
            temporal = error
        shown = catalog_entry(_Recent(engine) if name in sources else engine, name)
        described[parts(name)] = shown.description
        reference = open_reference(engine, client, name, shown)
        if reference is not None:
            if temporal is not None:
                raise temporal
            shards[name] = reference
        elif temporal is None:
            version = _version(engine, name, shown.properties, invocation_id)
            if version is not None:
                pinned[name] = version
    return References(shards, pinned, described)


def catalog_entry(catalog: Catalog, name: str) -> Shown:
    """What the catalog shows of the relation ``name``, quoted already; nothing if there is none."""
    try:
        return look_up(catalog, name)
    except EngineError:
        return Shown()


def open_reference(engine: Engine, client: ShardClient, name: str, shown: Shown) -> Reference | None:
    """The shard that the relation ``name`` shows, at its newest version; None if it shows none.
    ``shown``: its `catalog_entry`. Raises `UnreachableShard`, `UnreadableView`.
    """
    published = read_published(engine, name, shown)
    if published is None:
        return None
    uri = published.uri
    try:
        reader = client.open_reader(uri)
        state = reader.state()
        layout = Layout.of(reader, state)
    except (ShardError, DamagedFiles) as error:
        raise UnreachableShard(name, uri, str(error)) from error
    first, order = first_refresh(state), published.columns
    return Reference(
        name,
        uri,
        state,
        layout,
        order,
        first,
        reader.columns_of,
        reader.history,
        reader.find,
        reader.state_at,
    )


def _version(engine: Engine, name: str, properties: Mapping[str, str], invocation_id: str) -> int | None:
    """The version of a table for the whole invocation, its first reader's; None if it has none."""
    newest = _newest_version(properties)
    if newest is None:
        return None
    known = _versions.of(invocation_id)
    if name not in known:
        version = newest(engine, name)
        if version is None:
            return None
        known.setdefault(name, version)  # of concurrent threads the first wins
    return known[name]


def newest_version(engine: Engine, name: str) -> int | None:
    """The newest version of a table with versions, now. Raises `EngineError`."""
    newest = _newest_version(view_properties(engine, name))
    return None if newest is None else newest(engine, name)


def _newest_version(properties: Mapping[str, str]) -> Callable[[Engine, str], int | None] | None:
    if any(key.startswith(DELTA) for key in properties):
        return _newest_of_delta
    return None if current_snapshot(properties) is None else _newest_of_iceberg


def _newest_of_delta(engine: Engine, name: str) -> int | None:
    try:
        [newest, *_] = engine.query(f"describe history {name} limit 1", "catalog")
    except (EngineError, ValueError):  # a session without Delta's history cannot read versions either
        return None
    return int(str(newest[0]))


def _newest_of_iceberg(engine: Engine, name: str) -> int | None:
    """Of a table: a branch of one shows the properties of the table."""
    try:
        rows = engine.query(f"describe table extended {name}", "catalog")
        described = next(str(row[1]) for row in rows[::-1] if row[0] == "Name")
        if not names(described, name):
            return None
        engine.execute(f"refresh table {name}", "catalog")  # another process may have written to it
        return current_snapshot(view_properties(engine, name))
    except (EngineError, StopIteration):
        return None
