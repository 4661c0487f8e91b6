"""Models that have read a model's contents since a time, directly or through other models, as the
logs of their shards record it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dbt.adapters.mvsink.cli.dbt_runner import Model
from dbt.adapters.mvsink.cli.discovery import DiscoveredShard
from dbt.adapters.mvsink.cli.graph_order import in_graph_order
from dbt.adapters.mvsink.user_sql.words import parts


def readers_since(
    shards: Sequence[DiscoveredShard], source: DiscoveredShard, time: int
) -> list[DiscoveredShard]:
    """Those of ``shards`` whose last run read ``source`` as of ``time`` (ms) or later, and those
    that read one of them since; each after those that it reads.
    """
    since = {source.relation.lower(): time}
    readers = []
    for shard in in_graph_order(shards):
        run = shard.reader.newest_run() if shard.reader is not None and shard.state is not None else None
        if run is None or shard.relation == source.relation:
            continue
        read = {".".join(parts(name)): at for name, at in run.note.read.times.items()}
        if any(at >= since[name] for name, at in read.items() if name in since):
            upper = run.upper.as_option() if run.upper is not None else None
            through = run.note.computed_through
            since[shard.relation.lower()] = through if through is not None else (upper or 1) - 1
            readers.append(shard)
    return readers


def as_models(shards: Sequence[DiscoveredShard], manifest: Any) -> list[Model]:
    """The models of ``shards`` that the project has. ``manifest`` is dbt's."""
    ids = [shard.owner.unique_id for shard in shards if shard.owner is not None]
    nodes = {name: manifest.nodes[name] for name in ids if name in manifest.nodes}
    return [Model(name, str(node.config.materialized), ".".join(node.fqn)) for name, node in nodes.items()]
