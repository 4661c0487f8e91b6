"""What a model reads, found out once through Spark, and cheap looks at whether that has changed.

A *place* is a shard, a Delta table or a directory of files. A look at it opens no data: a shard's
and a Delta table's newest log version, a directory's names, sizes and times. Two looks that are
equal saw the same contents.

Where a query reads from is asked of Spark's analyzed plan, which sees through views, tables and
paths alike. What it reads that is no place (another database, a function that makes rows) cannot be
looked at; nor can places that are not on this machine, shards apart.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from dbt.adapters.mvsink.engine import sql
from dbt.adapters.mvsink.refresh_schedule import decide
from dbt.adapters.mvsink.shard import ShardClient, ShardState
from dbt.adapters.mvsink.shard_sql import creation_of
from dbt.adapters.mvsink.shard_sql.properties import stored_schedule
from dbt.adapters.mvsink.shard_sql.published_view import read_published

LOG = "_delta_log"
BATCHES = "/batches/"
OF_THE_QUERY = ("LocalRelation", "OneRowRelation", "Range", "CTERelationRef", "UnionLoopRef", "CommandResult")
VERSION = re.compile(r"(\d{20})\.json$")


class Kind(Enum):
    """What stands at a place."""

    SHARD = "shard"
    DELTA = "delta"
    FILES = "files"


@dataclass(frozen=True)
class Place:
    """Where something is that a model reads. ``at`` is a path, for a shard also a URI."""

    kind: Kind
    at: str

    @property
    def label(self) -> str:
        """Its last two names: people know the rest."""
        return "/".join(self.at.rstrip("/").split("/")[-2:])


@dataclass(frozen=True)
class Look:
    """What was seen. ``signature`` stands for the contents. ``files``: when each file was changed,
    in ms; of shards, nothing.

    Of a shard: ``due`` is when its schedule has the next refresh (ms), None for one that has no
    schedule, or no refresh left.
    """

    signature: str
    files: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # name: size, time
    scheduled: bool = False
    due: int | None = None
    version: int = -1


@dataclass(frozen=True)
class Inputs:
    """The places that a query reads. ``blind``: it also reads what cannot be looked at."""

    places: frozenset[Place] = frozenset()
    blind: bool = False


@dataclass(frozen=True)
class _SessionCatalog:
    """`published.Catalog` on a session."""

    session: Any

    def query(self, query: str, what: str) -> list[tuple[object, ...]]:
        return [tuple(row) for row in self.session.sql(query).collect()]


class Looker:
    """Looks at places. ``shards`` is where the project's shards are."""

    def __init__(self, shards: str, storage_options: Mapping[str, str] | None = None):
        self.shards = shards
        self.client = ShardClient(storage_options, timeout=2.0)

    def look(self, place: Place, now: int) -> Look | None:
        """At ``now`` (ms); None if there is nothing, or nothing that can be read."""
        try:
            if place.kind is Kind.SHARD:
                return self._shard(place.at, now)
            return _delta(Path(place.at)) if place.kind is Kind.DELTA else _files(Path(place.at))
        except Exception:  # whatever keeps it from being seen: the run will tell
            return None

    def intruded(self, place: Place, before: Look | None, invocation_id: str) -> bool:
        """Has anybody but this dbt invocation written the shard since ``before``? A reader's hold,
        or a since that moves, is no writing.
        """
        with self.client.open_reader(place.at) as reader:
            since = -1 if before is None else before.version
            commits = [commit for commit in reader.history() if commit.version > since]
        written = [commit for commit in commits if commit.kind != "advance" or commit.upper is not None]
        ours = ("create", "compact", "schema")
        return any(
            commit.kind not in ours and commit.note.invocation_id != invocation_id for commit in written
        )

    def _shard(self, uri: str, now: int) -> Look | None:
        if not self.client.exists(uri):
            return None
        with self.client.open_reader(uri) as reader:
            state = reader.state()
        schedule = stored_schedule(state)
        return Look(
            signature=f"{state.shard_id} {state.generation} {_contents(state)}",
            scheduled=schedule is not None,
            due=_due(state, now),
            version=state.version,
        )

    def place_of(self, path: str) -> Place | None:
        """The place that a path of a plan is at; None if it cannot be looked at."""
        shard = path.split(BATCHES, 1)[0]
        if BATCHES in path and (_local(shard) or shard).startswith(self.shards):
            return Place(Kind.SHARD, _local(shard) or shard)
        local = _local(path)
        if local is None:
            return None
        table = _local(shard) or ""
        if BATCHES in path and os.path.isdir(os.path.join(table, LOG)):
            return Place(Kind.SHARD, table)
        kind = Kind.DELTA if os.path.isdir(os.path.join(local, LOG)) else Kind.FILES
        return Place(kind, local)

    def shard_of(self, session: Any, schema: str, name: str) -> Place | None:
        """Where a published view says that its shard is; None if it does not."""
        published = read_published(_SessionCatalog(session), sql.columns((name,), sql.identifier(schema)))
        return None if published is None else Place(Kind.SHARD, published.uri)

    def inputs(self, session: Any, query: str) -> Inputs:
        """What ``query`` reads, as Spark's analysis has it; runs no job."""
        plan = session.sql(query)._jdf.queryExecution().analyzed()
        trees = [plan, *_each(plan.subqueriesAll())]
        places, blind = set(), False
        for leaf in (leaf for tree in trees for leaf in _each(tree.collectLeaves())):
            kind = leaf.getClass().getSimpleName()
            if kind in OF_THE_QUERY:
                continue
            found = [self.place_of(path) for path in _paths(leaf, kind)]
            blind = blind or not found or None in found
            places |= {place for place in found if place is not None}
        return Inputs(frozenset(places), blind)


def changed_since(before: Look | None, after: Look | None) -> list[int]:
    """When the files that differ were changed (ms); nothing for files that are gone, and for
    shards.
    """
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


def _delta(path: Path) -> Look:
    versions = [match[1] for name in os.listdir(path / LOG) if (match := VERSION.match(name))]
    newest = max(versions, default="")
    return Look(newest, {newest: (0, _changed(path / LOG / f"{newest}.json"))} if newest else {})


def _files(path: Path) -> Look | None:
    if not path.exists():
        return None
    found = {}
    for name in [path] if path.is_file() else _below(path):
        told = name.stat()
        found[str(name)] = (told.st_size, told.st_mtime_ns // 1_000_000)
    return Look(str(hash(frozenset(found.items()))), found)


def _below(path: Path) -> Iterable[Path]:
    """Files below a directory that Spark would read: not what is hidden or in the making."""
    for root, directories, names in os.walk(path):
        directories[:] = [name for name in directories if name[0] not in "._" or "=" in name]
        yield from (Path(root, name) for name in names if name[0] not in "._")


def _changed(path: Path) -> int:
    return path.stat().st_mtime_ns // 1_000_000


def _local(path: str) -> str | None:
    """A path of this machine, without its scheme; None for any other."""
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
