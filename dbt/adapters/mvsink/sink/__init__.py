"""The self-correcting sink: turns a query into a maintained collection.

`mint` decides the batch to write, `write` stages ``desired - persist``, the model's query less the
shard read back, and `append` commits it. docs/design/sink.md has the picture. A run moves the
shard's upper to the *desired* frontier (`run_plan`): the run's time + 1 or, with a schedule, the
next refresh after the run's time.

Invariants:

- Only `append` (and `driver`, for a new generation) moves a shard's upper; only `rewrite` replaces
  files or adds columns.
- Staged files that are not committed are invisible. They are deleted by the run that staged them,
  or by garbage collection.
- In files staged with hashes for one time, each row has one sign (`Directory.consolidated`).
- What is *written* never depends on a hash: hashes only show where to compare (`write`), and which
  rows a reader may skip (`current_view`).
- In a staged correction a hash belongs to only one row, and to at most one record of the base; a
  row that would break this is staged without a hash.
- The shard is read back in the newest state that a write handle loads, never in a cached one.

The layer reaches Spark through `Engine` alone and knows neither dbt nor how a commit is stored.
"""

from dbt.adapters.mvsink.sink.correction import Assertion, Correction, Desired, not_null
from dbt.adapters.mvsink.sink.decide import (
    Bounds,
    Case,
    Increment,
    Incremental,
    SumsPolicy,
    Volume,
    fails,
    keeps_sums,
)
from dbt.adapters.mvsink.sink.driver import Driver
from dbt.adapters.mvsink.sink.errors import GateFailed, NeverRefreshed, SchemaChanged, UnknownColumn
from dbt.adapters.mvsink.sink.gate import (
    Audit,
    AuditScope,
    Gate,
    Learned,
    MaxChange,
    change_limit,
    changes_before,
)
from dbt.adapters.mvsink.sink.mint import Mint
from dbt.adapters.mvsink.sink.request import (
    Evidence,
    Independent,
    NoEvidence,
    OnSchemaChange,
    Outcome,
    OwnText,
    Preview,
    ReadReferences,
    ReadsLater,
    SinkRequest,
    Superseded,
)
from dbt.adapters.mvsink.sink.round import RunPlan
from dbt.adapters.mvsink.sink.run_history import RunHistory
from dbt.adapters.mvsink.sink.run_plan import run_timing
from dbt.adapters.mvsink.sink.trust import Drift, Proving, Suspended, suspended
from dbt.adapters.mvsink.sink.weighing import Weighed, weighed
from dbt.adapters.mvsink.sink.write import Write
