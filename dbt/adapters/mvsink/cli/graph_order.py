"""Puts shards into the order in which dbt runs their models, from what their last runs read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

from dbt.adapters.mvsink.cli.discovery import DiscoveredShard, in_parallel
from dbt.adapters.mvsink.shard_sql.properties import watched_shard
from dbt.adapters.mvsink.user_sql.words import parts


def in_graph_order(shards: Sequence[DiscoveredShard]) -> list[DiscoveredShard]:
    """Each after those of ``shards`` that it reads, otherwise as they are. All as they are if some
    read each other, as the logs may show after a change of their queries.
    """
    numbers = {shard.relation.lower(): number for number, shard in enumerate(shards)}
    numbers |= {shard.uri: number for number, shard in enumerate(shards)}
    inputs = in_parallel(lambda shard: set(_inputs(shard)), shards)
    read = {
        number: {numbers[each] for each in names if each in numbers} - {number}
        for number, names in enumerate(inputs)
    }
    sorter, ordered = TopologicalSorter(read), []
    try:
        sorter.prepare()
    except CycleError:
        return list(shards)
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        sorter.done(*ready)
        ordered += [shards[number] for number in ready]
    return ordered


def _inputs(shard: DiscoveredShard) -> Iterator[str]:
    """What the model reads: relations as ``schema.identifier``, and the URI of the shard that a
    task watches. Nothing of a shard that cannot be read.
    """
    if shard.reader is None or shard.state is None:
        return
    try:
        run, watched = shard.reader.newest_run(), watched_shard(shard.state)
    except Exception:  # `status` shows what is wrong with it
        return
    for name in (*run.note.read.times, *run.note.read.newer) if run is not None else ():
        yield ".".join(parts(name))
    if watched is not None:
        yield watched.uri
