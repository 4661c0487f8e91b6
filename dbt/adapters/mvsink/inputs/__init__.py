"""Inputs: the contents of a relation at a time, and its changes between two times.

```
   a shard ------------------------------------------> ShardInput ---+
   a Delta table --- DeltaInput: versions --+                        +--> Input: frontier, pending,
   an Iceberg table  IcebergInput: snapshots +- bind --> companion --+    changes, contents, hold
   a table of files - FilesInput: manifest -+            shard
```

A shard has times of its own. For a task, any other input is *bound* first: its new changes get a
time in a companion shard, by one compare-and-append, so that every replica and every later run sees
the same times. From then on all inputs are alike.

A view reads its inputs without binding them. It records a `Position` of each. If the position has
changed in the next run, `InputSides` have the input's rows then and now, and the change between
them.

- `registry`: the formats of tables, each a class, by provider
- `protocol`: `Input`; `Table`, which binding turns into an `Input`; `Format`, which opens tables
  and finds their positions; what a format with versions implements
- `shard`, `mapped`: a shard as an input; a query over an input as an input
- `version_binding`, `file_binding`: binding to times, with a companion shard
- `delta_log`, `file_tables`, `parquet_sql`: reading logs, listings and files
- `delta_format`, `iceberg`: the formats with versions
- `reads`: what a query reads; `described`: what the catalog and the session say about it
- `reference`: the time of a shard, and the version of a table, that a run reads
- `position`: where inputs stand; `probes`: whether they have changed, for a watch
- `query_inputs`, `shard_changes`: what changed in inputs, for a view

Invariants:

- An input's answer about a time before its frontier is final.
- Changes are exact: the contents at one time plus the changes up to another are the contents at the
  other. If history is missing (released, a log cleaned up, files vacuumed), an error names both
  bounds; nothing is skipped.
- A task's cost is that of the changes: files that cannot contain a change are not opened.

The layer produces SQL text and reads logs, file lists and footers; rows pass through the engine
only.
"""

from dbt.adapters.mvsink.inputs.delta_log import DeltaInput
from dbt.adapters.mvsink.inputs.errors import (
    ColumnsChanged,
    DeletionVectors,
    FilesChanging,
    FilesGone,
    FileVanished,
    HistoryGone,
    InputError,
    ModeChanged,
    NoSuchTable,
    NotADescendant,
    SessionReadsOtherwise,
    SnapshotGone,
    TableReplaced,
    TooManyFiles,
    UnreadableVersion,
    UnsupportedTable,
    VersionsGone,
    ZoneChanged,
)
from dbt.adapters.mvsink.inputs.file_binding import bind_files
from dbt.adapters.mvsink.inputs.file_tables import FilesInput
from dbt.adapters.mvsink.inputs.iceberg import IcebergInput
from dbt.adapters.mvsink.inputs.protocol import CatalogTable, Input, PendingTime, Table, TableOptions
from dbt.adapters.mvsink.inputs.registry import FORMATS
from dbt.adapters.mvsink.inputs.shard import ShardInput
from dbt.adapters.mvsink.inputs.version_binding import bind_versions, companion_uri
