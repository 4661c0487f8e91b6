"""The work that a commit leaves to be done, judging by the log and the readers' leases."""

from __future__ import annotations

from dataclasses import replace

from dbt.adapters.mvsink.shard.errors import StorageError
from dbt.adapters.mvsink.shard.leases import leased_since
from dbt.adapters.mvsink.shard.policy import compaction_due
from dbt.adapters.mvsink.shard.state import Maintenance, ShardState
from dbt.adapters.mvsink.shard.storage import Storage

UPKEEP_EVERY = 20  # versions since the last checkpoint
UPKEEP_AFTER = 7 * 24 * 3_600_000  # ms since then, where there are fewer versions


def maintenance_due(state: ShardState, storage: Storage) -> Maintenance:
    """What is due once ``state`` is the newest version; nothing if the storage cannot be asked."""
    try:
        due = (
            state.version - storage.checkpointed() >= UPKEEP_EVERY
            or storage.since_checkpoint(state) >= UPKEEP_AFTER
        )
        compact = compaction_due(state)
        if compact is not None:  # not past a lease that was taken while the commit was on its way
            since = state.since.meet(leased_since(storage))
            if since != state.since:
                compact = compaction_due(replace(state, since=since))
    except StorageError:  # the append is done; the next one checks again
        return Maintenance()
    return Maintenance(compact=compact, collect_garbage=due, checkpoint=due)
