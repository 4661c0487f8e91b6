"""Which places a model reads, and cheap checks of whether their contents have changed.

A *place* is a shard, or a table of a `ProbedFormat` on this machine. Probing it opens no data file:
it takes the newest log version of a shard or a Delta table, and the names, sizes and times in a
directory. Two observations with equal signatures are of the same contents.

The places of a query come from Spark's analyzed plan, which resolves views, tables and paths. Other
inputs (another database, a function that makes rows) cannot be tracked, and neither can files and
Delta tables that are not on this machine. If a server runs the query, only shards are tracked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.inputs.position import SHARD, Observation
from dbt.adapters.mvsink.inputs.registry import PROBED
from dbt.adapters.mvsink.refresh_schedule import decide
from dbt.adapters.mvsink.shard import ShardClient, ShardState
from dbt.adapters.mvsink.shard.commit_log import LOG
from dbt.adapters.mvsink.shard_sql import creation_of
from dbt.adapters.mvsink.shard_sql.properties import stored_schedule
from dbt.adapters.mvsink.shard_sql.published_view import Catalog, read_published

OF_BATCH = re.compile(r"(.*)/(?:table|batches|\{batches,table\})/")
OF_THE_QUERY = ("LocalRelation", "OneRowRelation", "Range", "CTERelationRef", "UnionLoopRef", "CommandResult")


@dataclass(frozen=True)
class ProbedPlace:
    """Where an input of a model is. ``kind`` is `SHARD`, or that of a `ProbedFormat`. ``at`` is a
    path; for a shard it may be a URI.
    """

    kind: str
    at: str

    @property
    def label(self) -> str:
        """The last two parts of its path, which are enough for messages."""
        return "/".join(self.at.rstrip("/").split("/")[-2:])


@dataclass(frozen=True)
class ProbedPlaces:
    """The places that a query reads. If ``untrackable``, it also reads something that cannot be
    probed.
    """

    places: frozenset[ProbedPlace] = frozenset()
    untrackable: bool = False


@dataclass(frozen=True)
class _SessionCatalog(Catalog):
    """The catalog of a session."""

    session: Any

    def query(self, query: str, what: str) -> list[tuple[object, ...]]:
        return [tuple(row) for row in self.session.sql(query).collect()]


class Prober:
    """Probes places. ``shards`` is where the project's shards are."""

    def __init__(self, shards: str, storage_options: Mapping[str, str] | None = None):
        self.shards = shards
        self.client = ShardClient(storage_options, timeout=2.0)

    def probe(self, place: ProbedPlace, now: int) -> Observation | None:
        """The state of a place at ``now`` (ms); None if nothing readable is there."""
        try:
            if place.kind == SHARD:
                return self._shard(place.at, now)
            return PROBED[place.kind].observation(Path(place.at))
        except Exception:  # whatever the reason is: the run will report it
            return None

    def written_by_others(self, place: ProbedPlace, before: Observation | None, invocation_id: str) -> bool:
        """Whether another writer has written the shard since ``before``.

        Holds of readers, changes of `since` and this dbt invocation do not count.
        """
        with self.client.open_reader(place.at) as reader:
            since = -1 if before is None else before.version
            commits = [commit for commit in reader.history() if commit.version > since]
        written = [commit for commit in commits if commit.kind != "advance" or commit.upper is not None]
        ours = ("create", "compact", "schema")
        return any(
            commit.kind not in ours and commit.note.invocation_id != invocation_id for commit in written
        )

    def _shard(self, uri: str, now: int) -> Observation | None:
        if not self.client.exists(uri):
            return None
        with self.client.open_reader(uri) as reader:
            state = reader.state()
        schedule = stored_schedule(state)
        return Observation(
            signature=f"{state.shard_id} {state.generation} {_contents(state)}",
            scheduled=schedule is not None,
            due=_due(state, now),
            version=state.version,
        )

    def place_of(self, path: str) -> ProbedPlace | None:
        """The place that a path in a plan belongs to; None if it cannot be probed."""
        below = OF_BATCH.match(path)
        shard = below[1] if below else path
        if below and (_local(shard) or shard).startswith(self.shards):
            return ProbedPlace(SHARD, _local(shard) or shard)
        local = _local(path)
        if local is None:
            return None
        table = _local(shard) or ""
        if below and os.path.isdir(os.path.join(table, LOG)):
            return ProbedPlace(SHARD, table)
        return ProbedPlace(next(kind for kind, each in PROBED.items() if each.is_at(Path(local))), local)

    def shard_of(self, session: Any, schema: str, name: str) -> ProbedPlace | None:
        """The shard of a published view; None if the view does not name one."""
        published = read_published(_SessionCatalog(session), sql.columns((name,), sql.identifier(schema)))
        return None if published is None else ProbedPlace(SHARD, published.uri)

    def shards_of(self, answer: Mapping[str, Any]) -> ProbedPlaces:
        """The shards that a server's query reads, from the answer of the adapter's `mv_places`.
        Shards that cannot be read from here are not tracked, and neither are files: the server has
        its own disks.
        """
        places = {ProbedPlace(SHARD, _local(uri) or uri) for uri in answer["shards"]}
        readable = {place for place in places if self.probe(place, 0) is not None}
        return ProbedPlaces(frozenset(readable), untrackable=bool(answer["others"]) or readable != places)

    def inputs(self, session: Any, query: str) -> ProbedPlaces:
        """What ``query`` reads, according to Spark's analysis; runs no job."""
        plan = session.sql(query)._jdf.queryExecution().analyzed()
        trees = [plan, *_each(plan.subqueriesAll())]
        places, untrackable = set(), False
        for leaf in (leaf for tree in trees for leaf in _each(tree.collectLeaves())):
            kind = leaf.getClass().getSimpleName()
            if kind in OF_THE_QUERY:
                continue
            read = [self.place_of(path) for path in _paths(leaf, kind)]
            untrackable = untrackable or not read or None in read
            places |= {place for place in read if place is not None}
        return ProbedPlaces(frozenset(places), untrackable)


def changed_since(before: Observation | None, after: Observation | None) -> list[int]:
    """When the files that differ were modified (ms). Deleted files and shards have no such time."""
    if before is None or after is None:
        return []
    return [time for name, (size, time) in after.files.items() if before.files.get(name) != (size, time)]


def _contents(state: ShardState) -> int:
    return hash(frozenset(file.path for file in state.files))


def _due(state: ShardState, now: int) -> int | None:
    schedule = stored_schedule(state)
    if schedule is None:
        return None
    due, frontier = decide(schedule, creation_of(state), state.upper, now)
    return frontier.as_option() if due is None else due


def _local(path: str) -> str | None:
    """A path on this machine, without its scheme; None for any other path."""
    parsed = urlparse(path)
    if parsed.scheme not in ("", "file"):
        return None
    return unquote(parsed.path) if parsed.scheme else path


def _paths(leaf: Any, kind: str) -> list[str]:
    if kind == "LogicalRelation":
        relation = leaf.relation()
        if relation.getClass().getSimpleName() == "HadoopFsRelation":
            return [path.toString() for path in _each(relation.location().rootPaths())]
    if kind == "HiveTableRelation":
        return [leaf.tableMeta().location().toString()]
    return []


def _each(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]
