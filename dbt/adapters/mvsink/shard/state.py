"""One version of a shard as a value, and the pure functions that decide about it.

Nothing here does I/O. A transition takes a `ShardState` and returns the `Change` to commit at
exactly the next version, or raises an error; `commit_loop` owns the retries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypedDict, cast
from uuid import UUID

import pyarrow as pa

from dbt.adapters.mvsink.physical import EMPTY_FRONTIER
from dbt.adapters.mvsink.shard.errors import (
    FilesChanged,
    InvalidUsage,
    SchemaMismatch,
    ShardReplaced,
    UpperMismatch,
)
from dbt.adapters.mvsink.shard.frontier import Antichain
from dbt.adapters.mvsink.shard.widening import widens

FORMAT_VERSION = 2
TABLE = "table"  # the directory of batches, and the root of the table that the shard is published as
BATCHES = "batches"  # that of shards made by an earlier release (format version 1)
ROOTS = (TABLE, BATCHES)
COMPACTION = "compact"  # the kind of a commit that changes no readable collection
LONGEST_HOLDER = 200  # characters
EMPTY: Mapping[str, int] = MappingProxyType({})


def root_of(format_version: int) -> str:
    """The directory in which a shard of that format has new batches."""
    return TABLE if format_version >= 2 else BATCHES


@dataclass(frozen=True)
class DataFile:
    """A live file. Counts and bounds are None if the log lacks them; times are ms."""

    path: str
    size: int
    rows: int | None = None
    min_time: int | None = None
    max_time: int | None = None
    min_diff: int | None = None
    max_diff: int | None = None
    errors: int | None = None
    hashes: int | None = None
    deletion_vector: bool = False

    @property
    def batch_id(self) -> str | None:
        """The directory of a batch that the file is in; None for a foreign file."""
        parts = self.path.split("/")
        return parts[1] if len(parts) == 3 and parts[0] in ROOTS else None

    @property
    def directory(self) -> str:
        """The path of the directory that the file is in."""
        return self.path.rpartition("/")[0]

    @property
    def trusted(self) -> bool:
        """Whether its hashes can be trusted: every row has one, staged by a batch of ours."""
        return (
            self.batch_id is not None
            and not self.deletion_vector
            and self.rows is not None
            and self.hashes == self.rows
        )


@dataclass(frozen=True)
class KeptGeneration:
    """The ``generation`` ended at ``version``, and the next one has the contents from ``end`` (ms)
    on. It stays readable ``until`` a time (ms, by the storage's clock); see `generations`.
    """

    generation: int
    version: int
    until: int
    end: int


@dataclass(frozen=True)
class ShardState:
    """One version of the log. ``schema`` is that of the data columns; times are ms.

    ``created`` and ``dropped`` are wall-clock times, of the table's creation and of the drop.
    ``creation`` is the logical time at which the generation began, if known. ``statistics`` says
    whether the log keeps statistics of the physical columns, however many columns the shard has.
    `progress` explains ``plan``, ``verified``, ``drifted``, ``suspended`` and ``known_files``;
    ``unverified`` counts the runs that have committed since the one at ``verified``. ``verifying``
    is how long (ms) the last one that was due took, ``spent`` how long all runs since. ``claims``
    maps the name of a staged directory to the only writer that may commit it (`claims`). ``kept``
    are earlier generations, oldest first, also those whose time is over.
    """

    version: int
    shard_id: UUID
    schema: pa.Schema
    salt: int
    since: Antichain = Antichain(0)
    upper: Antichain = Antichain(0)
    generation: int = 0
    format_version: int = FORMAT_VERSION
    created: int = 0
    dropped: int | None = None
    creation: int | None = None
    files: tuple[DataFile, ...] = ()
    holds: Mapping[str, int] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    statistics: bool = True
    plan: int = 0
    verified: int | None = None
    unverified: int = 0
    verifying: int | None = None
    spent: int = 0
    drifted: int | None = None
    suspended: int = 0
    known_files: int | None = None
    claims: Mapping[str, str] = field(default_factory=dict)
    kept: tuple[KeptGeneration, ...] = ()
    uri: str = field(default="", compare=False)  # for messages

    @property
    def readable(self) -> bool:
        """Whether there is a time to read at. There is none before the first contents are written,
        so a shard without contents never reads as an empty collection.
        """
        return self.since.less_than(self.upper)


@dataclass(frozen=True)
class ReadPoints:
    """Where the query read its references, by name: shards at ``times`` (ms), tables at
    ``versions``. ``newer`` says why a table was read at a state newer than the contents' time.
    """

    times: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)
    newer: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CommitNote:
    """Metadata of a commit: who, when, how long (``seconds``) and why. Correctness never needs it.

    ``mode`` is how the contents were computed. ``way`` is what the sink compared; the next run
    chooses its way by it. ``share`` is the largest share of an input's rows whose changes were
    staged. ``input_changes`` is how many rows of the inputs had changed, at most, if the query was
    evaluated and that was known. ``why`` is the name in `reasons.Why` of why the query was
    evaluated, and ``reason`` says so in words. ``audits`` are digests of the audits that the
    contents passed, and ``audited`` is the version of the log that they were then compared with.
    ``definition`` is a digest of the model's text.
    """

    rows_inserted: int = 0
    rows_deleted: int = 0
    drift: int = 0
    computed_through: int | None = None
    purpose: str = ""
    invocation_id: str = ""
    seconds: float | None = None
    read: ReadPoints = ReadPoints()
    mode: str = ""
    way: str = ""
    share: float | None = None
    input_changes: int | None = None
    why: str = ""
    reason: str = ""
    audits: tuple[str, ...] = ()
    audited: int | None = None
    definition: str = ""


class Sets(TypedDict, total=False):
    """Fields of a `ShardState` that a commit sets, with their values after it."""

    schema: pa.Schema
    since: Antichain
    upper: Antichain
    generation: int
    dropped: int | None
    creation: int
    statistics: bool
    plan: int
    verified: int
    unverified: int
    verifying: int
    spent: int
    drifted: int
    suspended: int
    known_files: int
    claims: Mapping[str, str]
    format_version: int
    kept: tuple[KeptGeneration, ...]


@dataclass(frozen=True)
class Change:
    """The effect of one commit. Fields that ``sets`` does not name stay as they were, and so do
    properties, holds and inputs that are not listed.

    >>> Change("advance", {"since": Antichain.of(5)}).sets
    {'since': Antichain(5)}
    """

    kind: str
    sets: Sets = field(default_factory=Sets)
    adds: tuple[DataFile, ...] = ()
    removes: tuple[DataFile, ...] = ()
    remove_all: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, int] = field(default_factory=dict)
    holds: Mapping[str, int] = field(default_factory=dict)
    lower: Antichain | None = None
    note: CommitNote = CommitNote()
    writer_id: str = ""
    token: str = ""


@dataclass(frozen=True)
class CompactionPlan:
    """Rewrite ``files`` with times advanced to ``since``, as a base (``with_base``) or recent
    batch.

    ``cancelled`` are files that add up to nothing from ``since`` on; they are dropped unread.
    """

    files: tuple[DataFile, ...]
    since: Antichain
    with_base: bool = True
    cancelled: tuple[DataFile, ...] = ()


@dataclass(frozen=True)
class Maintenance:
    """The work that is due after an append, in this order.

    Garbage collection and the checkpoint are due together, some versions after the last checkpoint.
    Work that was not done is due again after the next append.
    """

    compact: CompactionPlan | None = None
    collect_garbage: bool = False
    checkpoint: bool = False


def apply(state: ShardState, change: Change) -> ShardState:
    """The state after ``change`` was committed on ``state``."""
    removed = {file.path for file in change.removes}
    kept = () if change.remove_all else tuple(file for file in state.files if file.path not in removed)
    return replace(
        state,
        version=state.version + 1,
        files=(*kept, *change.adds),
        holds={h: time for h, time in {**state.holds, **change.holds}.items() if time != EMPTY_FRONTIER},
        properties={**state.properties, **change.properties},
        **change.sets,
    )


def setting(change: Change, **sets: int | None) -> Change:
    """``change``, which also sets those of the given fields that are not None."""
    known = {name: value for name, value in sets.items() if value is not None}
    return replace(change, sets=cast("Sets", {**change.sets, **known}))


def check_generation(state: ShardState, uri: str, generation: int) -> None:
    """Raises `ShardReplaced` if ``state`` is of another generation than the handle."""
    if state.generation != generation:
        raise ShardReplaced(uri, generation, state.generation)


def compare_and_append(
    state: ShardState,
    expected: Antichain,
    new: Antichain,
    adds: Sequence[DataFile],
    *,
    since: Antichain | None = None,
    inputs: Mapping[str, int] = EMPTY,
    removes: Sequence[DataFile] = (),
) -> Change:
    """Move the upper from ``expected`` to ``new`` with ``adds``; `UpperMismatch` if it differs."""
    if state.upper != expected:
        raise UpperMismatch(state.upper, expected)
    require_live(state, removes)
    _require_new(state, adds)
    sets: Sets = {"upper": new}
    if since is not None:
        sets["since"] = advance_since(replace(state, upper=new), since)
    return Change(
        "append" if adds or removes else "advance",
        sets,
        adds=tuple(adds),
        removes=tuple(removes),
        inputs=inputs,
        lower=expected,
    )


def advance_since(state: ShardState, since: Antichain) -> Antichain:
    """How far `since` may move: never back, never past a hold, never past the upper."""
    bounded = since.meet(state.upper)
    for hold in state.holds.values():
        bounded = bounded.meet(Antichain.of(hold))
    return state.since.join(bounded)


def check_holder(holder: str) -> None:
    """`InvalidUsage` for a holder whose name cannot be listed. Names are stored as one
    comma-separated text, so a hold of such a name would be stored but never respected.
    """
    listed = holder.isprintable() and not any(each.isspace() or each == "," for each in holder)
    if not (listed and 0 < len(holder) <= LONGEST_HOLDER):
        raise InvalidUsage(
            f"{holder!r} cannot hold history: expected a name of 1 to 200 printable characters without spaces or commas"
        )


def hold(state: ShardState, holder: str, time: int) -> Change:
    """Keep history from ``time`` on for ``holder``. `InvalidUsage` if it was released already."""
    if not state.since.less_equal_time(time):
        raise InvalidUsage(f"cannot hold history from {time} for {holder}: since is {state.since!r} already")
    return Change("advance", holds={holder: time})


def release(holder: str) -> Change:
    """Release ``holder``'s hold: at the empty frontier it keeps no history."""
    return Change("advance", holds={holder: EMPTY_FRONTIER})


def replace_generation(
    state: ShardState,
    adds: Sequence[DataFile],
    schema: pa.Schema,
    upper: Antichain,
    since: Antichain,
    expected_version: int | None,
    kept: tuple[KeptGeneration, ...] = (),
) -> Change:
    """A new generation with the files ``adds``. Only here may the upper fall."""
    if expected_version is not None and state.version != expected_version:
        raise FilesChanged(f"the shard is at version {state.version}, expected {expected_version}")
    return Change(
        "append",
        {
            "upper": upper,
            "since": since,
            "generation": state.generation + 1,
            "dropped": None,
            "schema": schema,
            "kept": kept,
        },
        adds=tuple(adds),
        remove_all=True,
        lower=since,
    )


def discard(state: ShardState, dropped_by: int) -> Change | None:
    """Remove all files of a shard that was dropped at or before ``dropped_by`` (ms).

    `since` moves to `upper`, so that the shard has no readable time: without files it must never
    read as an empty collection. None if there is nothing to do, history is held, or a new
    generation has begun.
    """
    is_held = any(time != EMPTY_FRONTIER for time in state.holds.values())
    if state.dropped is None or state.dropped > dropped_by or not state.files or is_held:
        return None
    return Change("schema", {"since": state.upper}, remove_all=True)


def compaction(state: ShardState, adds: Sequence[DataFile], removes: Sequence[DataFile]) -> Change:
    """Replace ``removes`` by ``adds`` with the same contents at every readable time."""
    require_live(state, removes)
    return Change(COMPACTION, adds=tuple(adds), removes=tuple(removes))


def evolution(
    state: ShardState, uri: str, adds: Sequence[DataFile], removes: Sequence[DataFile], schema: pa.Schema
) -> Change:
    """Add and widen columns: ``adds`` hold the updates of ``removes``, which are all live files,
    with NULL in the columns that are new in ``schema``.

    Hashes cover all columns, so a file that is not rewritten would be wrong afterwards. Raises
    `FilesChanged` if other files are live or no column is new or wider, because another writer was
    faster, and `SchemaMismatch` if a column would be removed or get a type that is not wider.
    """
    require_live(state, removes)
    if len(state.files) > len({file.path for file in removes}):
        raise FilesChanged(f"more files are live at version {state.version} than were rewritten")
    stored = {field.name: field for field in state.schema}
    new = [name for name in schema.names if name not in stored]
    wider = [f.name for f in schema if f.name in stored and widens(stored[f.name].type, f.type)]
    kept = pa.schema([stored[f.name] if f.name in wider else f for f in schema if f.name not in new])
    differences = schema_differences(state.schema, kept)
    if differences:
        raise SchemaMismatch(uri, differences)
    if not (new or wider):
        raise FilesChanged(f"the shard has these columns already at version {state.version}")
    # The updates stay the same, but Delta's commit with a schema always marks removed files as a
    # change of data, so the added ones are marked alike.
    return Change("evolve", {"schema": schema}, adds=tuple(adds), remove_all=True)


def require_live(state: ShardState, files: Sequence[DataFile]) -> None:
    """Raises `FilesChanged` naming the first of ``files`` that is no longer live."""
    live = {file.path for file in state.files}
    for file in files:
        if file.path not in live:
            raise FilesChanged(f"{file.path} is no longer live at version {state.version}")


def _require_new(state: ShardState, files: Sequence[DataFile]) -> None:
    live = {file.path for file in state.files}
    for file in files:
        if file.path in live:
            raise InvalidUsage(f"{file.path} is in the shard already: its batch was appended before")


def schema_differences(stored: pa.Schema, wanted: pa.Schema) -> list[str]:
    """The differences in words. Order and nullability do not count."""
    before = {column.name: column.type for column in stored}
    after = {column.name: column.type for column in wanted}
    differences = [
        f"`{name}` {kind} is not in the shard" for name, kind in after.items() if name not in before
    ]
    differences += [f"`{name}` {kind} is missing" for name, kind in before.items() if name not in after]
    differences += [
        f"`{name}` is {before[name]} in the shard, given {kind}"
        for name, kind in after.items()
        if name in before and before[name] != kind
    ]
    return differences


def check_bounds(lower: Antichain, upper: Antichain, *, empty: bool) -> None:
    """Checks rule 1: ``lower`` is before ``upper``, or equal to it for an empty batch."""
    if upper.less_than(lower) or (upper == lower and not empty):
        raise InvalidUsage(f"lower must be before upper, got [{lower!r}, {upper!r})")
