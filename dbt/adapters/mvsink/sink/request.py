"""What a run is asked to do, and what came of it: plain values between the dbt layer and the driver."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from dbt.adapters.mvsink.shard import Antichain, ShardState
from dbt.adapters.mvsink.sink.correction import Assertion
from dbt.adapters.mvsink.sink.types import Column
from dbt.adapters.mvsink.sink.write import Counts


class OnError(enum.Enum):
    """`FAIL`: the model fails and the shard stays. `RECORD`: the error joins the shard's err collection."""

    FAIL = "fail"
    RECORD = "record"


class OnSchemaChange(enum.Enum):
    """What happens when the query's columns are no longer the shard's."""

    SYNC_ALL_COLUMNS = "sync_all_columns"
    APPEND_NEW_COLUMNS = "append_new_columns"
    FAIL = "fail"


class Kind(enum.Enum):
    """What a run did to the shard."""

    APPEND = "append"
    NONE = "none"
    READ_ONLY = "read-only"
    FINAL = "final"


@dataclass(frozen=True)
class SinkRequest:
    """One run of one model.

    ``time`` is the run's logical time `T`, ``retain_history`` how far since trails upper; both in ms. ``clock`` is the wall
    clock in ms, to tell an upper that is ahead of it.
    """

    model: str
    query: str
    columns: tuple[Column, ...]
    time: int
    clock: int
    retain_history: int
    assertions: tuple[Assertion, ...] = ()
    on_query_error: OnError = OnError.FAIL
    on_schema_change: OnSchemaChange = OnSchemaChange.SYNC_ALL_COLUMNS
    read_only: bool = False
    full_refresh: bool = False
    sample: int = 0
    invocation_id: str = ""


@dataclass(frozen=True)
class Outcome:
    """What a run did. ``lower`` and ``upper`` are the bounds it wrote, or the shard's upper twice if it wrote nothing."""

    kind: Kind
    counts: Counts
    lower: Antichain
    upper: Antichain
    time: int
    state: ShardState
    drift: int = 0
    generation: str = ""  # why a new generation was made, empty if none was
    warnings: tuple[str, ...] = ()
    sample: tuple[tuple[object, ...], ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    rows_staged: int = 0
    bytes_staged: int = 0
    candidate_buckets: int | None = None
    mismatches: int = 0
    evaluated_once: bool = False
    up_to_date: bool = False  # the shard had already passed the run's time
