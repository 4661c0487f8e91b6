"""The shard layer: durable time-varying collections.

```
   WriteHandle ----stages----> batches/<id>/part-*.parquet      (outside the log, invisible)
        |                                |
        +--compare-and-append----> _delta_log/N.json            (one commit: files, upper, since, progress)
                                         |
   ReadHandle  <------snapshot, updates, listen, files----------+
```

A shard holds *updates* ``(row, time, diff)``. `upper` is its write frontier: all times not beyond
it are final. `since` is its read frontier: history before it may have been compacted away. Reads
are exact for ``since <= as_of < upper``.

Invariants:

- Only a new generation lets `upper` fall; `since` never goes back and never passes `upper`.
- Of two writers with the same expected upper one wins; the other gets `UpperMismatch` and has
  changed nothing.
- An update at a time before `upper` never changes, except by compaction, which changes no readable
  collection, and by the addition of columns (`evolve`): there it is NULL in them. What was staged
  for other columns than the shard has is never appended.
- Nothing staged is visible before its commit, and nothing is deleted before it is known that its
  commit did not happen.

The layer knows no SQL engine and no dbt. Decisions are pure (`state`), retries are `machine`'s,
Delta is `delta`'s.
"""

from dbt.adapters.mvsink.physical import LARGEST_TIME
from dbt.adapters.mvsink.shard.batch import Batch, BatchBuilder
from dbt.adapters.mvsink.shard.client import ShardClient
from dbt.adapters.mvsink.shard.commit_log import Commit
from dbt.adapters.mvsink.shard.errors import (
    Conflict,
    FilesChanged,
    InvalidUsage,
    NotAShard,
    SchemaMismatch,
    ShardError,
    ShardReplaced,
    StorageError,
    UpperMismatch,
)
from dbt.adapters.mvsink.shard.following import following
from dbt.adapters.mvsink.shard.frontier import Antichain
from dbt.adapters.mvsink.shard.maintenance import (
    REMOVED_GRACE_MS,
    checkpoint,
    collect_garbage,
    compact_with_pyarrow,
    delete_dropped,
    perform_maintenance,
)
from dbt.adapters.mvsink.shard.policy import compaction_due
from dbt.adapters.mvsink.shard.read import ReadHandle
from dbt.adapters.mvsink.shard.staging import StagedDirectory
from dbt.adapters.mvsink.shard.state import (
    CommitNote,
    CompactionPlan,
    DataFile,
    Maintenance,
    ShardState,
    schema_differences,
)
from dbt.adapters.mvsink.shard.storage import MemoryStorage, Storage
from dbt.adapters.mvsink.shard.write import AppendResult, CompactionResult, WriteHandle

__all__ = [
    "LARGEST_TIME",
    "REMOVED_GRACE_MS",
    "Antichain",
    "AppendResult",
    "Batch",
    "BatchBuilder",
    "Commit",
    "CommitNote",
    "CompactionPlan",
    "CompactionResult",
    "Conflict",
    "DataFile",
    "FilesChanged",
    "InvalidUsage",
    "Maintenance",
    "MemoryStorage",
    "NotAShard",
    "ReadHandle",
    "SchemaMismatch",
    "ShardClient",
    "ShardError",
    "ShardReplaced",
    "ShardState",
    "StagedDirectory",
    "Storage",
    "StorageError",
    "UpperMismatch",
    "WriteHandle",
    "checkpoint",
    "collect_garbage",
    "compact_with_pyarrow",
    "compaction_due",
    "delete_dropped",
    "following",
    "perform_maintenance",
    "schema_differences",
]
