"""What a run is asked to do, and what came of it: plain values between the dbt layer and the
driver.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from dbt.adapters.mvsink.engine import Column, query_at
from dbt.adapters.mvsink.refresh_schedule import RefreshSpec
from dbt.adapters.mvsink.shard import DataFile
from dbt.adapters.mvsink.shard_sql import OnError, RunOutcome
from dbt.adapters.mvsink.sink.correction import Assertion
from dbt.adapters.mvsink.sink.gate import Gate


class OnSchemaChange(enum.Enum):
    """What happens when the query's columns are no longer the shard's."""

    SYNC_ALL_COLUMNS = "sync_all_columns"
    APPEND_NEW_COLUMNS = "append_new_columns"
    FAIL = "fail"


class References(Protocol):
    """The relations that a query reads at a time of its own, fixed for the whole run."""

    def read_at(self, query: str, time: int) -> str:
        """``query`` with every one of them read as of ``time`` (ms), as far as that can be."""
        ...

    def times(self, time: int) -> Mapping[str, int]:
        """The times in ms that they are read at then, by name."""
        ...

    def versions(self) -> Mapping[str, int]:
        """The versions of those that have no times, by name."""
        ...


class NoReferences:
    """A query whose relations are all read as they stand."""

    def read_at(self, query: str, time: int) -> str:
        return query

    def times(self, time: int) -> Mapping[str, int]:
        return {}

    def versions(self) -> Mapping[str, int]:
        return {}


@dataclass(frozen=True)
class Superseded:
    """Why a run leaves a model to the next: a later run, at ``by`` (ms), wrote the shards ``names``
    before this one came to them.
    """

    names: tuple[str, ...]
    by: int


@dataclass(frozen=True)
class SinkRequest:
    """One run of one model.

    ``time`` is the run's logical time `T`, ``retain_history`` how far since trails upper; both in
    ms. ``clock`` is the wall clock in ms, to tell an upper that is ahead of it. ``redefined``: a
    changed definition is to take effect at once, though a schedule would have it wait.
    ``superseded``: what is due is not to be written.
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
    refresh: RefreshSpec = RefreshSpec()
    redefined: bool = False
    references: References = NoReferences()
    gate: Gate = Gate()
    superseded: Superseded | None = None

    def query_at(self, time: int) -> str:
        """The query as it runs for ``time`` (ms): that is its `mv_now()`, and what its references
        are read as of.
        """
        return self.references.read_at(query_at(self.query, time), time)


@dataclass(frozen=True)
class Preview:
    """What a read-only run tells besides its counts.

    ``sample`` are some of the updates: the model's ``columns``, time, diff, error, hash. ``gate``
    is why the publish gate would keep the contents back, empty if they would pass; None without a
    gate, or if nothing would change. ``compacted`` are the live files that the run would rewrite:
    afterwards, or to add columns.
    """

    columns: tuple[str, ...] = ()
    sample: tuple[tuple[object, ...], ...] = ()
    gate: str | None = None
    compacted: tuple[DataFile, ...] = ()


@dataclass(frozen=True)
class Outcome(RunOutcome):
    """What a run of a self-correcting view did."""

    generation: str = ""  # why a new generation was made, empty if none was
    columns_added: tuple[Column, ...] = ()  # in place, before the contents were corrected
    preview: Preview | None = None  # read-only: what else is known of what a run would do
    rows_staged: int = 0
    bytes_staged: int = 0
    candidate_buckets: int | None = None
    evaluated_once: bool = False
    # there was nothing to write: no refresh was due, or the shard had passed the run's time
    up_to_date: bool = False
    superseded: Superseded | None = None  # something was due, and is left to the next run
    scheduled: bool = False  # a schedule explains the upper
    references: Mapping[str, int] | None = (
        None  # the times (ms) that the query read other shards at, by name; None: it was not run
    )
