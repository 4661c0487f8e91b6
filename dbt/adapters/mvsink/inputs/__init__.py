"""Inputs: what did a relation hold at a position, and what changed between two positions.

```
   a shard ------------------------------------------> ShardInput ---+
   a Delta table --- DeltaInput: versions --+                        +--> Input: frontier, pending, changes, contents, hold
                                            +-- bind --> companion --+
   a table of files - FilesInput: manifest -+            shard
```

A shard's times are its own. Any other input is *bound* first: what is new of it gets a time in a
companion shard, by one compare-and-append, so that every replica and every later run finds the same
times. From then on all inputs are alike.

Invariants:

- What an input says about a time before its frontier is final.
- Changes are exact: what was there at one time plus the changes up to another is what was there
  then. What cannot be told any more (history released, a log cleaned up, files vacuumed) is an
  error that names both bounds; nothing is skipped.
- A task's cost is that of what changed: files that cannot hold a change are not opened.

The layer gives SQL text and reads logs, file lists and footers; data pass through the engine alone.
"""

from dbt.adapters.mvsink.inputs.binding import bind
from dbt.adapters.mvsink.inputs.companion import companion_uri
from dbt.adapters.mvsink.inputs.delta import DeltaInput
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
    TableReplaced,
    TooManyFiles,
    UnsupportedTable,
    VersionsGone,
)
from dbt.adapters.mvsink.inputs.files import FilesInput
from dbt.adapters.mvsink.inputs.protocol import Input, PendingTime
from dbt.adapters.mvsink.inputs.shard import ShardInput

__all__ = [
    "ColumnsChanged",
    "DeletionVectors",
    "DeltaInput",
    "FileVanished",
    "FilesChanging",
    "FilesGone",
    "FilesInput",
    "HistoryGone",
    "Input",
    "InputError",
    "ModeChanged",
    "NoSuchTable",
    "PendingTime",
    "ShardInput",
    "TableReplaced",
    "TooManyFiles",
    "UnsupportedTable",
    "VersionsGone",
    "bind",
    "companion_uri",
]
