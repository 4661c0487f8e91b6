"""Where a query's inputs are, so that a later check can find out whether they have changed."""

from __future__ import annotations

from dataclasses import dataclass

from dbt.adapters.mvsink.engine import Engine
from dbt.adapters.mvsink.inputs.query_inputs import described
from dbt.adapters.mvsink.inputs.reads import Reads, reads_of
from dbt.adapters.mvsink.shard_sql.published_view import shown_shard


@dataclass(frozen=True)
class ReadPlaces:
    """The URIs of the ``shards`` that a query reads. ``others`` means that it also reads something
    else.
    """

    shards: tuple[str, ...] = ()
    others: bool = False


def places_of(engine: Engine, query: str) -> ReadPlaces:
    """What ``query`` reads, also below views. Raises `EngineError`."""
    return _places(engine, reads_of(engine, query))


def _places(engine: Engine, reads: Reads) -> ReadPlaces:
    shards: dict[str, None] = {}
    others = bool(reads.unknown)
    for name in reads.tables:
        marker = shown_shard(described(engine, name))
        shards |= {} if marker is None else {marker.uri: None}
        others = others or marker is None
    for name in reads.views:
        marker = shown_shard(described(engine, name))
        # below a published view are the files of its shard
        below = _places(engine, reads.below[name]) if marker is None else ReadPlaces((marker.uri,))
        shards |= dict.fromkeys(below.shards)
        others = others or below.others
    return ReadPlaces(tuple(shards), others)
