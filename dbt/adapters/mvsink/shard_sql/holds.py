"""The shards in which a shard has holds, listed in its properties, and releasing those holds."""

from __future__ import annotations

import json
from collections.abc import Iterable

from dbt.adapters.mvsink.shard import NotAShard, ShardClient, ShardState, StorageError, WriteHandle
from dbt.adapters.mvsink.shard.stored import property_of, texts

HOLDS = "held"


def held_shards(state: ShardState) -> set[str]:
    """The URIs of the shards in which this one has holds."""
    return property_of(state, HOLDS, set(), lambda kept: set(texts(kept)))


def record_held_shards(handle: WriteHandle, uris: set[str]) -> None:
    """Replace the list; no commit if it is already this one."""
    if uris != held_shards(handle.state()):
        handle.set_properties({HOLDS: json.dumps(sorted(uris))})


def release_holds(client: ShardClient, holder: str, uris: Iterable[str]) -> None:
    """Release the holds of ``holder`` (a shard id) at ``uris``; a shard that is gone has none."""
    for uri in uris:
        try:
            with WriteHandle.from_read(client.open_reader(uri), "release") as writer:
                writer.release_hold(holder)
        except (NotAShard, StorageError):
            continue
