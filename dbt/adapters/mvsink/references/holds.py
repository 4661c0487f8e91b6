"""What a scheduled view still needs of the shards that it reads: a durable hold in each, from the
view's next refresh on.

Runs are hours apart, and a refresh is read as of its own time however late the run comes, so
without a hold a reference's history could be gone by then. A hold is taken before the first read
and moved only after the view's own commit. The view's shard lists where it has holds, from before
the first of them is taken, so that none is ever forgotten. Only shards of the same project and
target are held.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from dbt.adapters.mvsink.references.reference import Reference
from dbt.adapters.mvsink.shard import (
    Antichain,
    InvalidUsage,
    ShardClient,
    ShardState,
    WriteHandle,
)
from dbt.adapters.mvsink.shard_sql.holds import held_shards, record_held_shards, release_holds
from dbt.adapters.mvsink.shard_sql.properties import owner_of

log = logging.getLogger("mvsink.shard")


@dataclass(frozen=True)
class Holds:
    """The holds of the shard that ``handle`` writes, on ``references``; those that are another
    owner's are left out.
    """

    client: ShardClient
    handle: WriteHandle
    references: Mapping[str, Reference]

    def take(self, needed: Antichain) -> None:
        """Before the first read: keep history from ``needed`` on wherever there is no hold yet."""
        time = needed.as_option()
        if time is None:
            return
        missing = [found for found in self._own() if self._holder not in found.state.holds]
        if missing:
            record_held_shards(self.handle, self._held() | {found.uri for found in missing})
        for found in missing:
            self._hold(found.uri, time)

    def move(self, needed: Antichain) -> None:
        """After the commit: from ``needed`` on is enough; the empty frontier needs nothing more.
        Other shards are let go.
        """
        time = needed.as_option()
        wanted = {} if time is None else {found.uri: found for found in self._own()}
        before = self._held()
        if time is not None:
            for uri, found in wanted.items():
                if found.state.holds.get(self._holder) != time:
                    self._hold(uri, time)
        release_holds(self.client, self._holder, before - set(wanted))
        record_held_shards(self.handle, set(wanted))

    @property
    def _holder(self) -> str:
        return str(self.handle.shard_id)

    def _own(self) -> list[Reference]:
        mine = _place(self.handle.state())
        return [found for found in self.references.values() if mine and _place(found.state) == mine]

    def _held(self) -> set[str]:
        return held_shards(self.handle.state())

    def _hold(self, uri: str, time: int) -> None:
        with WriteHandle.from_read(self.client.open_reader(uri), "hold") as writer:
            try:
                writer.hold(self._holder, time)
            except InvalidUsage:  # it is gone already: whoever reads it will be told
                log.debug("no hold at %s in %s: since is %s", time, uri, writer.state().since)


def _place(state: ShardState) -> tuple[str, str] | None:
    """The project and the target that a shard belongs to, if it tells."""
    owner = owner_of(state)
    return (owner["project"], owner["target"]) if owner else None
