"""Durable holds of a scheduled view on the shards that it reads, from the view's next refresh on.

Runs are hours apart, and a late run still reads as of its refresh: without a hold the history of a
reference could be compacted by then. A hold is taken before the first read and moved only after the
view's own commit. The view's shard lists its holds before the first is taken, so none is ever
forgotten. Only shards of the same project and target are held.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from dbt.adapters.mvsink.inputs.reference import Reference
from dbt.adapters.mvsink.shard import Antichain, InvalidUsage, ShardClient, ShardState, WriteHandle
from dbt.adapters.mvsink.shard_sql.properties import held_shards, owner_of, record_held_shards, release_holds

log = logging.getLogger("mvsink.shard")


@dataclass(frozen=True)
class Holds:
    """The holds of the shard that ``handle`` writes on those ``references`` that have its owner."""

    client: ShardClient
    handle: WriteHandle
    references: Mapping[str, Reference]

    def take(self, needed: Antichain) -> None:
        """Before the first read: hold the history from ``needed`` on, where no hold is yet."""
        time = needed.as_option()
        if time is None:
            return
        missing = [each for each in self._own() if self._holder not in each.state.holds]
        if missing:
            record_held_shards(self.handle, self._uris() | {each.uri for each in missing})
        for reference in missing:
            self._hold(reference.uri, time)

    def move(self, needed: Antichain) -> None:
        """After the commit: keep only the history from ``needed`` on, or none if it is the empty
        frontier. Releases shards that are no longer read.
        """
        time = needed.as_option()
        wanted = {} if time is None else {each.uri: each for each in self._own()}
        before = self._uris()
        if time is not None:
            for uri, reference in wanted.items():
                if reference.state.holds.get(self._holder) != time:
                    self._hold(uri, time)
        release_holds(self.client, self._holder, before - set(wanted))
        record_held_shards(self.handle, set(wanted))

    @property
    def _holder(self) -> str:
        return str(self.handle.shard_id)

    def _own(self) -> list[Reference]:
        mine = _place(self.handle.state())
        return [each for each in self.references.values() if mine and _place(each.state) == mine]

    def _uris(self) -> set[str]:
        return held_shards(self.handle.state())

    def _hold(self, uri: str, time: int) -> None:
        with WriteHandle.from_read(self.client.open_reader(uri), "hold") as writer:
            try:
                writer.hold(self._holder, time)
            except InvalidUsage:  # that history is gone: reading it will fail with both bounds
                log.debug("no hold at %s in %s: since is %s", time, uri, writer.state().since)


def _place(state: ShardState) -> tuple[str, str] | None:
    """The project and the target that own a shard; None without an owner."""
    owner = owner_of(state)
    return (owner["project"], owner["target"]) if owner else None
