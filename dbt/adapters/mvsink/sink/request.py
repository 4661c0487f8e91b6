"""The request for a run and its outcome: plain values between the dbt layer and the driver."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from dbt.adapters.mvsink.engine import Column
from dbt.adapters.mvsink.engine.timing import Stopwatch
from dbt.adapters.mvsink.reasons import EvaluateFully
from dbt.adapters.mvsink.refresh_schedule import RefreshSpec
from dbt.adapters.mvsink.shard import CommitNote, DataFile, Progress, ReadPoints, ShardState, files_number
from dbt.adapters.mvsink.shard_sql import OnError, RunOutcome
from dbt.adapters.mvsink.sink.correction import Assertion
from dbt.adapters.mvsink.sink.decide import Increment, Incremental
from dbt.adapters.mvsink.sink.gate import Gate
from dbt.adapters.mvsink.sink.round import NOTHING_WRITTEN, Written
from dbt.adapters.mvsink.sink.trust import Proving, recorded, unproven

LONGEST_REASON = 200  # characters in a commit's note


class OnSchemaChange(enum.Enum):
    """The reaction to a query whose columns differ from the shard's."""

    SYNC_ALL_COLUMNS = "sync_all_columns"
    APPEND_NEW_COLUMNS = "append_new_columns"
    NEW_GENERATION = "new_generation"
    FAIL = "fail"


class ReadReferences(Protocol):
    """The relations that a query reads as of fixed times, which stay the same for the whole run."""

    def read_at(self, query: str, time: int) -> str:
        """``query`` with ``time`` (ms) as its `mv_now()`, and every relation that has a history
        read as of it.
        """
        ...

    def points(self, time: int) -> ReadPoints:
        """Where the relations are read for the write time ``time`` (ms)."""
        ...


class Evidence(Protocol):
    """What is known about a query's inputs: whether they have changed, and their positions."""

    def unchanged(self, state: ShardState, recorded: Callable[[str], int | None], time: int) -> bool:
        """Whether contents as of ``time`` (ms) are certainly those of ``state``. ``recorded`` gives
        the progress that was committed with these, by input.
        """
        ...

    def progress(self, state: ShardState, time: int) -> Progress:
        """What contents as of ``time`` (ms), compared with ``state``, were computed from. It is
        called after the evaluation; inputs that changed meanwhile are unknown.
        """
        ...

    def settled(self, state: ShardState, recorded: Callable[[str], int | None], time: int) -> bool:
        """Whether contents as of ``time`` (ms) must equal those of ``state``, unless something
        broke or another tool wrote to the shard.
        """
        ...

    def increment(
        self, state: ShardState, recorded: Callable[[str], int | None], time: int
    ) -> Increment | EvaluateFully:
        """How contents as of ``time`` (ms) follow from those of ``state`` and the changes of the
        inputs since, or why the query has to be evaluated.
        """
        ...

    def input_changes(
        self, state: ShardState, recorded: Callable[[str], int | None], time: int
    ) -> int | None:
        """How many rows of the inputs changed since the contents of ``state`` were computed, at
        most; None if that is not known, or if something else changed.
        """
        ...


class OwnText(Protocol):
    """The query as its author wrote it, in which this adapter has replaced nothing but the time."""

    def at(self, time: int) -> str:
        """The text whose rows are those of the query as of ``time`` (ms). Raises `ReadsLater`."""
        ...

    def check(self, time: int) -> None:
        """Raises `ReadsLater` if what the text reads has changed since `at`."""
        ...


class ReadsLater(Exception):
    """The text reads something that was written after the time; ``reason`` says what, as a
    clause.
    """

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Independent:
    """``own_text`` is what verifications evaluate, or None for the request's query. ``proving``
    says which incremental runs are compared with it, None if no run is.
    """

    own_text: OwnText | None = None
    proving: Proving | None = None


class NoEvidence:
    """Evidence that knows nothing: every run evaluates its query, and so does the next."""

    def unchanged(self, state: ShardState, recorded: Callable[[str], int | None], time: int) -> bool:
        return False

    def progress(self, state: ShardState, time: int) -> Progress:
        return Progress(files=files_number(state.files))

    def settled(self, state: ShardState, recorded: Callable[[str], int | None], time: int) -> bool:
        return False

    def increment(
        self, state: ShardState, recorded: Callable[[str], int | None], time: int
    ) -> Increment | EvaluateFully:
        return EvaluateFully()

    def input_changes(
        self, state: ShardState, recorded: Callable[[str], int | None], time: int
    ) -> int | None:
        return None


@dataclass(frozen=True)
class Superseded:
    """Why a run leaves a model to the next: a later run, at ``by`` (ms), has written ``names``."""

    names: tuple[str, ...]
    by: int


@dataclass(frozen=True)
class SinkRequest:
    """One run of one model.

    ``time`` is the run's logical time `T`, and ``retain_history`` is how far `since` trails
    `upper`, both in ms. ``clock`` is the wall clock in ms, to detect an upper that is ahead of it.
    With ``redefined``, a changed definition takes effect at once, before the next refresh of the
    schedule. With ``superseded``, a refresh that is due is not written. With ``verify``, all
    contents are compared by an independent digest, whatever ``evidence`` says. ``definition`` is a
    digest of the model's text, for the log. ``summed`` says that the evidence knows the model's
    sums. ``independent`` says what contents are compared with, and in which other runs. ``purpose``
    is for the log, if it is not an ordinary run, and ``way`` how a large shard is compared, if
    earlier runs do not tell (`RunHistory.comparison`).
    """

    model: str
    query: str
    columns: tuple[Column, ...]
    time: int
    clock: int
    retain_history: int
    references: ReadReferences
    assertions: tuple[Assertion, ...] = ()
    on_query_error: OnError = OnError.FAIL
    on_schema_change: OnSchemaChange = OnSchemaChange.SYNC_ALL_COLUMNS
    read_only: bool = False
    full_refresh: bool = False
    sample: int = 0
    invocation_id: str = ""
    refresh: RefreshSpec = RefreshSpec()
    redefined: bool = False
    gate: Gate = Gate()
    superseded: Superseded | None = None
    evidence: Evidence = NoEvidence()
    verify: bool = False
    incremental: Incremental = Incremental.AUTO
    definition: str = ""
    summed: bool = False
    independent: Independent = Independent()
    purpose: str = ""
    way: str = ""

    def query_at(self, time: int) -> str:
        """The query as it runs for ``time`` (ms)."""
        return self.references.read_at(self.query, time)


@dataclass(frozen=True)
class Preview:
    """What a read-only run reports besides its counts.

    ``sample`` are some of the updates: the model's ``columns``, time, diff, error, hash. ``gate``
    is why the publish gate would reject the contents, empty if they would pass; None without a
    gate, or if nothing would change. ``compacted`` are the live files that the run would rewrite,
    after its append or to add or widen columns.
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
    columns_widened: tuple[Column, ...] = ()  # likewise, with their types now
    preview: Preview | None = None  # of a read-only run
    written: Written = NOTHING_WRITTEN  # what it staged, and how that was computed
    # nothing to write: no refresh was due, or the shard's upper was past the run's time
    up_to_date: bool = False
    verified: bool = False  # all contents were compared by an independent digest
    superseded: Superseded | None = None  # a refresh was due, and is left to the next run
    scheduled: bool = False  # a schedule explains the upper
    read: ReadPoints | None = None  # None: the query was not run


def note_of(
    request: SinkRequest, watch: Stopwatch, written: Written = NOTHING_WRITTEN, time: int | None = None
) -> CommitNote:
    """The note of a commit of contents as of ``time`` (ms), None for a commit without contents."""
    return CommitNote(
        rows_inserted=written.counts.inserted,
        rows_deleted=written.counts.deleted,
        computed_through=request.time,
        purpose=request.purpose or f"mv_sink({request.model})",
        invocation_id=request.invocation_id,
        seconds=round(sum(watch.seconds.values()), 3),
        definition=request.definition,
        read=ReadPoints() if time is None else request.references.points(time),
        mode="" if time is None else written.mode,
        way=written.way,
        share=written.full.share if written.share is None else written.share,
        input_changes=written.input_changes,
        why=written.full.why.code,
        reason=written.full.text.partition("\n")[0][:LONGEST_REASON],  # some are errors of the engine
        audits=written.audits,
        audited=written.audited,
    )


def progress_of(request: SinkRequest, state: ShardState, written: Written, time: int) -> Progress:
    """What contents as of ``time`` (ms) were computed from, which are ``written`` after a
    comparison with ``state``. After a recorded error it is unknown, so that the query is tried
    again.
    """
    if written.counts.errors_inserted:
        return Progress(files=files_number(state.files))
    progress = request.evidence.progress(state, time)
    # if an input changed meanwhile, what looks wrong may be its change
    drift = written.drift if progress.known else None
    # what is written whole needs no comparison
    verified = time if request.verify or written.compared or not state.files else None
    another = progress.known and state.plan != progress.plan and (state.plan or written.loaded)
    proof = unproven() if another else written.proof
    progress = replace(progress, positions={**progress.positions, **proof}, verified=verified)
    return recorded(progress, state, drift, time)
