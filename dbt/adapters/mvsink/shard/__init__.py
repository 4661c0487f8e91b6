"""The shard layer: durable time-varying collections.

```
   WriteHandle ----stages----> batches/<id>/part-*.parquet      (outside the log, invisible)
        |                                |
        +--compare-and-append----> _delta_log/N.json   (one commit: files, upper, since, progress)
                                         |
   ReadHandle  <------snapshot, updates, listen, files----------+
```

A shard holds *updates* ``(row, time, diff)``. `upper` is its write frontier: all times before it
are final. `since` is its read frontier: history before it may have been compacted away. Reads are
exact for ``since <= as_of < upper``.

Invariants:

- `upper` falls only with a new generation; `since` never moves back and never passes `upper`.
- Of two writers with the same expected upper one wins. The other gets `UpperMismatch`, and has
  changed nothing.
- An update at a time before `upper` changes only by compaction, which changes no readable
  collection, and by the addition of columns (`evolve`), which are NULL in it. A batch that was
  staged for other columns than the shard's is never appended.
- Staged files are invisible until their commit, and are deleted only once it is known that the
  commit did not happen.

The layer knows no SQL engine and no dbt. Decisions are pure (`state`, `policy`), `commit_loop` owns
the retries, and only `delta` commits to Delta. The handles' methods are the public API. dbt does
not use all of them: replicated writers (`append`), batches handed between processes
(`to_transmittable`), listeners and waits (`listen`, `wait_for_upper_past`) are for programs that
use shards without dbt.
"""

from dbt.adapters.mvsink.physical import LARGEST_TIME
from dbt.adapters.mvsink.shard.authorship import author, authored_by
from dbt.adapters.mvsink.shard.batch import Batch
from dbt.adapters.mvsink.shard.client import (
    MAX_ROUNDS,
    OpenShards,
    ShardClient,
    retry_on_replacement,
    staged_elsewhere,
)
from dbt.adapters.mvsink.shard.commit_log import Commit
from dbt.adapters.mvsink.shard.directories import (
    Directory,
    base_of,
    cancelled_among,
    directories_of,
    is_negation,
    negatable,
    uncancelled,
)
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
from dbt.adapters.mvsink.shard.feed import Ahead, Compacted, ErrorsRecorded, Feed, Step, snapshot_step, steps
from dbt.adapters.mvsink.shard.frontier import Antichain
from dbt.adapters.mvsink.shard.generations import PastGeneration, as_of_generation
from dbt.adapters.mvsink.shard.incidents import Incident, Incidents, Trouble
from dbt.adapters.mvsink.shard.maintenance import (
    REMOVED_GRACE_MS,
    checkpoint,
    collect_garbage,
    compact_with_pyarrow,
    delete_dropped,
    perform_maintenance,
    rewind,
)
from dbt.adapters.mvsink.shard.memory_storage import MemoryStorage
from dbt.adapters.mvsink.shard.policy import compaction_due
from dbt.adapters.mvsink.shard.progress import (
    Progress,
    Verified,
    digests_of,
    files_number,
    keep_verified,
    last_verified,
    number_of,
    untouched,
)
from dbt.adapters.mvsink.shard.read import ReadHandle
from dbt.adapters.mvsink.shard.staging import BatchBuilder, StagedDirectory, StagingHandle
from dbt.adapters.mvsink.shard.state import (
    CommitNote,
    CompactionPlan,
    DataFile,
    Maintenance,
    ReadPoints,
    ShardState,
    schema_differences,
)
from dbt.adapters.mvsink.shard.storage import Footer, Storage
from dbt.adapters.mvsink.shard.updates import consolidate, grouped, physical_schema
from dbt.adapters.mvsink.shard.widening import widens
from dbt.adapters.mvsink.shard.write_handle import AppendResult, CompactionResult, WriteHandle
