"""The sums of a model that adds up: a shard of their own, below the model's (`incremental.sums`).

A run first brings the sums to its time, by a commit of their own. Then the model follows from what
changed in them. Both are computed from the same positions of the inputs. The model's commit records
the time of the sums from which its contents were computed. So if a run dies between the two commits
and leaves sums that are ahead, the next run reads what changed in them since the recorded time.

`state: auto` makes sums where the model's incremental runs took as long as evaluating its query, or
where most of its groups change, and uses them unless runs with them take as long, too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from dbt.adapters.mvsink import limits, wall_clock
from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.engine import Column, DataflowError, arrow_schema, parse_type
from dbt.adapters.mvsink.engine.timing import Stopwatch
from dbt.adapters.mvsink.incremental import Analysed, NotIncremental, Sums, analyse, sums_of
from dbt.adapters.mvsink.inputs.reference import Reference, References
from dbt.adapters.mvsink.inputs.shard_changes import columns_of, sides_of_shard
from dbt.adapters.mvsink.limits import LOCAL_ROWS
from dbt.adapters.mvsink.materialization.context import RunContext
from dbt.adapters.mvsink.materialization.errors import LOWER_ERRORS
from dbt.adapters.mvsink.materialization.opening import Opened
from dbt.adapters.mvsink.physical import SUMS
from dbt.adapters.mvsink.reasons import EvaluateFully, Why
from dbt.adapters.mvsink.shard import ReadPoints, WriteHandle, delete_dropped, number_of
from dbt.adapters.mvsink.shard.delta import DeltaStorage
from dbt.adapters.mvsink.shard_sql import Kind, Layout
from dbt.adapters.mvsink.sink import Driver, Evidence, Increment, Outcome, SinkRequest
from dbt.adapters.mvsink.user_sql.marks import query_at

log = logging.getLogger("mvsink.sink.write")
NAME = "mvsink.sums"  # by which the model's query over the sums reads them
# what the model's progress records of the sums: their time (0: its contents are not those of any
# sums), the version of their log, and a number for their shard
TIME, VERSION, SHARD = "sums", "sums/version", "sums/shard"


def in_use(recorded: Callable[[str], int | None]) -> bool:
    """Whether the model's contents were computed from sums, according to its progress."""
    return bool(recorded(TIME))


class SumsOfOtherRefresh(DataflowError):
    """While the sums were brought to ``at`` (ms), another run made the refresh ``time`` due."""

    error_code = "MVS-127"

    def __init__(self, at: int, time: int):
        super().__init__(
            f"its sums are those of {iso(at)}, and another run has made the refresh of {iso(time)} due meanwhile; "
            "run it again"
        )


@dataclass(frozen=True)
class KeptSums:
    """The sums at the run's ``time`` (ms), and the model's ``query`` over them."""

    reference: Reference
    query: str
    time: int
    warnings: tuple[str, ...] = ()

    def numbers(self) -> dict[str, int]:
        """What the model's progress records about them."""
        return {TIME: self.time, VERSION: self.reference.state.version, SHARD: self._shard}

    @property
    def _shard(self) -> int:
        state = self.reference.state
        return number_of([f"{state.shard_id}/{state.generation}"])

    def increment(self, recorded: Callable[[str], int | None]) -> Increment | EvaluateFully:
        """How the model's contents follow from what changed in the sums."""
        before = recorded(TIME)
        if not before or recorded(SHARD) != self._shard:
            return EvaluateFully(Why.SUMS_NEW)
        sides = sides_of_shard(NAME, self.reference, before, self.time, recorded(VERSION))
        if isinstance(sides, EvaluateFully):
            return EvaluateFully(Why.SUMS_CHANGES, sides.text)
        analysed = analyse(self.query, self._columns_of)
        if isinstance(analysed, NotIncremental):
            return EvaluateFully(Why.SUMS_QUERY, analysed.reason)
        few = self.reference.layout.rows <= LOCAL_ROWS
        return Increment(analysed, (sides,), small=few)

    def _columns_of(self, name: str) -> list[tuple[str, str]]:
        return [(column.name, column.type.text) for column in columns_of(self.reference)]


@dataclass(frozen=True)
class OverSums:
    """`sink.ReadReferences` of a query over sums. Its read points are the model's."""

    references: References
    sums: Reference
    at: int

    def read_at(self, query: str, time: int) -> str:
        """See `sink.ReadReferences`. Raises `SumsOfOtherRefresh` for another time than ``at`` (ms),
        the time of the sums.
        """
        if time != self.at:
            raise SumsOfOtherRefresh(self.at, time)
        return References({self.sums.name: self.sums}).read_at(query, time)

    def points(self, time: int) -> ReadPoints:
        """See `sink.ReadReferences`."""
        return self.references.points(time)


@dataclass(frozen=True)
class Keeper:
    """Brings the sums of an opened model to the run's time. ``evidence`` gives that of a query over
    what the model reads; ``watch`` is the run's.
    """

    opened: Opened
    references: References
    evidence: Callable[[str], Evidence]
    watch: Stopwatch
    verify: bool

    def keep(self, analysed: Analysed, time: int, resources: ExitStack) -> KeptSums | NotIncremental | None:
        """The sums at ``time`` (ms), or why the query does not add up. None if another run wrote
        them first, or if they fail. ``resources`` closes their shard.
        """
        sums = sums_of(analysed)
        if isinstance(sums, NotIncremental):
            log.info("%s keeps no sums: %s", self._model, sums.reason)
            return sums
        try:
            return self._kept(sums, time, resources)
        except LOWER_ERRORS as error:  # the model itself may succeed, or says what is wrong
            log.info("%s: its sums failed: %s", self._model, error)
            return None

    @property
    def _context(self) -> RunContext:
        return self.opened.context

    @property
    def _model(self) -> str:
        return self._context.model

    def _kept(self, sums: Sums, time: int, resources: ExitStack) -> KeptSums | None:
        types = self._context.engine.columns(self.references.described(sums.query))
        query = sums.shown(NAME, dict(types))
        if query is None:
            return None
        columns = tuple(Column(name, parse_type(kind, name)) for name, kind in types)
        digest = number_of([query_at(sums.query, 0), *(str(column) for column in columns)])
        uri = f"{self.opened.handle.uri}/{SUMS}/{digest:016x}"
        handle = self._context.client.open_or_create(uri, arrow_schema(columns), self._purpose)
        resources.enter_context(handle)
        outcome = Driver(
            self._request(sums.query, columns, time), handle, self._context.engine, self.watch
        ).run()
        state = handle.state()
        if self.verify or state.version <= limits.NEW_SUMS:
            self.retire(f"{digest:016x}")
        ours = outcome.kind in (Kind.APPEND, Kind.NONE) and not outcome.up_to_date
        if not ours or outcome.time != time or state.upper.stored() != time + 1:
            return None  # another run has other sums
        reference = Reference(
            NAME,
            uri,
            state,
            Layout.of(handle, state),
            read=handle.columns_of,
            history=handle.history,
            find=handle.find,
            state_at=handle.state_at,
        )
        return KeptSums(reference, query, time, tuple(_warnings(outcome)))

    def retire(self, name: str) -> None:
        """Mark all sums except those called ``name`` dropped, and delete the files of sums that
        were dropped long enough ago.
        """
        client, uri = self._context.client, self.opened.handle.uri
        for other in DeltaStorage(uri, self._context.storage_options).directories(SUMS):
            if other != name:
                reader = client.open_reader(f"{uri}/{SUMS}/{other}")
                with WriteHandle.from_read(reader, self._purpose) as handle:
                    handle.mark_dropped()
                    delete_dropped(handle)

    @property
    def _purpose(self) -> str:
        return f"sums of {self._model}"

    def _request(self, query: str, columns: tuple[Column, ...], at: int) -> SinkRequest:
        return SinkRequest(
            model=f"the sums of {self._model}",
            query=query,
            columns=columns,
            time=at,
            clock=wall_clock.now_ms(),
            retain_history=max(self._context.options.retain_history, limits.DAY),
            references=self.references,
            invocation_id=self._context.invocation.id,
            evidence=self.evidence(query),
            full_refresh=self._context.invocation.full_refresh,
            verify=self.verify,
        )


def _warnings(outcome: Outcome) -> list[str]:
    warnings = list(outcome.warnings)
    drift = outcome.written.drift
    if drift is not None and not drift.counts.nothing:
        counts = drift.counts
        warnings.append(
            f"verification found drift in its sums: +{counts.inserted} -{counts.deleted} rows; corrected"
        )
    return warnings
