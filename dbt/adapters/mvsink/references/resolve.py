"""Resolves a query's relations in the catalog: published shards, and tables with versions.

A view's properties lead to its shard, wherever it is and whichever project owns it; a Delta or
an Iceberg table shows by its own properties, if Spark has the format's jar.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dbt.adapters.mvsink.engine import DataflowError, Engine, EngineError
from dbt.adapters.mvsink.engine.session import session_settings
from dbt.adapters.mvsink.inputs.described import PlainTable, plain_table
from dbt.adapters.mvsink.inputs.reference import Reference, References, TableVersions
from dbt.adapters.mvsink.shard import ShardClient, ShardError
from dbt.adapters.mvsink.shard_sql import DamagedFiles, Layout
from dbt.adapters.mvsink.shard_sql.properties import first_refresh
from dbt.adapters.mvsink.shard_sql.published_view import Catalog, Shown, look_up, read_published, shown_shard
from dbt.adapters.mvsink.user_sql.splice import TemporalReference, relations
from dbt.adapters.mvsink.user_sql.words import parts

CATALOGS = "spark.sql.catalog."  # tables of formats that a session adds have no description as JSON


class UnreachableShard(DataflowError):
    """A view names a shard that cannot be opened."""

    error_code = "MVS-440"

    def __init__(self, name: str, uri: str, problem: str):
        super().__init__(f"reference {name}: its shard {uri} cannot be opened: {problem}")


@dataclass(frozen=True)
class _Recent(Catalog):
    """A catalog whose answers may be a moment old; what a run of ours has published is known."""

    engine: Engine
    of_model: bool

    def query(self, query: str, what: str) -> list[tuple[object, ...]]:
        return self.engine.recent(query, what, of_model=self.of_model)

    def view_here(self, view: str) -> Mapping[str, Any] | None:
        return self.engine.recent_view(view, of_model=self.of_model)


def find_references(
    engine: Engine,
    client: ShardClient,
    query: str,
    names: Iterable[str],
    versions: TableVersions,
    sources: Collection[str] = (),
) -> References:
    """Those of the relations ``names`` that ``query`` reads and that have times or ``versions``.
    ``sources`` are those that no model of the invocation makes. The catalog is not asked about a
    relation again for each model that reads it.

    Raises `UnreachableShard`, `splice.TemporalReference` for a shard with a time travel clause of
    its own, `splice.UnreadableText`.
    """
    shards, pinned, newer, described, tables = {}, {}, {}, {}, {}
    plain_first = any(key.startswith(CATALOGS) for key in session_settings(engine))
    for name in names:
        try:
            if not relations(query, name):
                continue
            temporal = None
        except TemporalReference as error:  # fine for a table
            temporal = error
        catalog = _Recent(engine, name not in sources)
        read = None
        if plain_first and name in sources and temporal is None:
            table = _plain(catalog, name)
            read = None if table is None else versions.here(name, table)
            if table is not None and read is not None:
                tables[parts(name)] = table
        if read is None:
            shown = catalog_entry(catalog, name)
            described[parts(name)] = shown.description
            reference = open_reference(engine, client, name, shown)
            if reference is not None:
                if temporal is not None:
                    raise temporal
                shards[name] = reference
            elif temporal is None:
                read = versions.of(name, shown.properties, source=name in sources)
        if read is not None and read.version is not None:
            pinned[name] = read.version
        if read is not None and read.newer:
            newer[name] = read.newer
    return References(shards, pinned, described, newer, versions.refresh, tables)


def _plain(catalog: Catalog, name: str) -> PlainTable | None:
    """The table ``name``, quoted already; None if it is none, or one of ours."""
    try:
        table = plain_table(catalog, name)
    except EngineError:
        return None
    return table if table.provider and shown_shard(table.details) is None else None


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
        lambda: reader.kept_generations(state),
        lambda earlier: Layout.of(reader, earlier),
    )
