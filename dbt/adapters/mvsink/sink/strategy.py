"""Chooses how a round's correction is staged: from the changes of the inputs, by comparing the
query's result with the shard, or by verifying both.

A read-only run computes the correction in the same way and counts it. It writes nothing to the
shard: a correction from the changes, or of a small shard, is staged in a temporary directory of
this machine; that of a large shard is compared without staging anything.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.engine import EngineError, shared_files, sql
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, TIME
from dbt.adapters.mvsink.reasons import EvaluateFully, Why
from dbt.adapters.mvsink.shard import staged_elsewhere
from dbt.adapters.mvsink.shard_sql import Counts, OnError
from dbt.adapters.mvsink.shard_sql.append import MAX_ERROR_LENGTH
from dbt.adapters.mvsink.shard_sql.layout import with_batch
from dbt.adapters.mvsink.sink.correction import Desired
from dbt.adapters.mvsink.sink.decide import Case, Increment, Incremental, decide, fails
from dbt.adapters.mvsink.sink.delta_write import stage_change
from dbt.adapters.mvsink.sink.errors import CannotBeIncremental
from dbt.adapters.mvsink.sink.request import ReadsLater, SinkRequest, progress_of
from dbt.adapters.mvsink.sink.round import Previewed, Round, Written
from dbt.adapters.mvsink.sink.run_history import RunHistory
from dbt.adapters.mvsink.sink.trust import Drift, suspended, unproven
from dbt.adapters.mvsink.sink.verify import equal, verified
from dbt.adapters.mvsink.sink.write import Write

log = logging.getLogger("mvsink.sink.write")
SAMPLE = 5  # rows of a drift
Compared = TypeVar("Compared")
KEPT = Written(None, Counts(), evaluated=False)  # only the upper moves


@dataclass(frozen=True)
class Strategy:
    """``recorded`` gives the shard's progress by input; ``warn`` takes what the user should
    know.
    """

    request: SinkRequest
    write: Write
    recorded: Callable[[str], int | None]
    warn: Callable[[str], None]

    def stage(self, at: Round, *, moved: bool = False) -> Written:
        """Stage the correction after which the shard holds the desired contents. `Case` explains
        ``moved``.
        """
        change = self.change(at, moved=moved)
        if isinstance(change, Written) and not change.compared:
            return change
        settled = self.request.evidence.settled(at.state, self.recorded, at.time)
        try:
            if isinstance(change, Written):
                return self._verified(change, at)
            written = self._verification(at) if self.request.verify else self._evaluated(at)
        except EngineError as error:
            return self._recorded_error(error, at)
        drift = None
        if settled and not at.shard.empty:
            drift = Drift(written.counts, noise=not self._repeatable(at))
        return replace(written, full=change, loaded=at.shard.empty, drift=drift)

    def _evaluated(self, at: Round) -> Written:
        evidence = self.request.evidence
        return self.write.stage(
            at, lambda: evidence.input_changes(at.state, self.recorded, at.time), self.request.way
        )

    def _verification(self, at: Round) -> Written:
        """The correction, after the shard was compared with the desired contents by an independent
        digest.
        """
        written, rewritten = self._independently(
            lambda desired: verified(self.write, replace(at, desired=desired)), at
        )
        return replace(written, rewritten=rewritten)

    def _verified(self, change: Written, at: Round) -> Written:
        """``change``, if the shard holds the desired contents with it. Otherwise the shard has
        drifted, and the result is its whole correction.
        """
        write = self.write
        after = at.shard if change.batch is None else with_batch(at.shard, change.batch)

        def differences(wanted: Desired) -> Previewed | None:
            with write.watch("verify"):
                right = equal(write, wanted, after)
            return None if right else write.preview(replace(at, desired=wanted, shard=after), SAMPLE)

        try:
            wrong, rewritten = self._independently(differences, at)
        except BaseException:
            change.delete()
            raise
        if wrong is None:
            return replace(change, drift=Drift(), rewritten=rewritten)
        change.delete()
        drift = Drift(wrong.counts, wrong.sample)
        return replace(self._verification(at), drift=drift, proof=unproven(), compared=True)

    def _independently(self, compare: Callable[[Desired], Compared], at: Round) -> tuple[Compared, str]:
        """What ``compare`` finds for the query as its author wrote it. If that text reads something
        written after the round's time, what it finds for the round's own query, and the reason.
        """
        own = self.request.independent.own_text
        if own is None:
            return compare(at.desired), ""
        try:
            result = compare(replace(at.desired, query=own.at(at.time)))
            try:
                own.check(at.time)
            except ReadsLater:
                if isinstance(result, Written):
                    result.delete()
                raise
        except ReadsLater as later:
            return compare(at.desired), later.reason
        return result, ""

    def _repeatable(self, at: Round) -> bool:
        """Whether evaluating the query again gives the same rows, as far as that is known."""
        if self.request.incremental is Incremental.NEVER:  # nothing is analysed
            return True
        increment = self.request.evidence.increment(at.state, self.recorded, at.time)
        return isinstance(increment, EvaluateFully) or increment.analysed.unrepeatable is None

    def change(self, at: Round, *, moved: bool = False) -> Written | EvaluateFully:
        """The correction from the changes of the inputs, or why the query must be evaluated. Raises
        `CannotBeIncremental`.
        """
        request = self.request
        case = Case(
            increment=lambda: request.evidence.increment(at.state, self.recorded, at.time),
            history=lambda: RunHistory.of(self.write.handle),
            policy=request.incremental,
            verify=request.verify,
            summed=request.summed,
            contents=not at.shard.empty or bool(at.state.plan),  # a plan: no rows are contents, too
            suspended=suspended(at.state),
            moved=moved,
        )
        decision = decide(case)
        if decision.keeps:
            return KEPT
        increment, outcome = decision.increment, decision.full
        if increment is not None:
            tried = (
                self._of_few_sums(at)
                if decision.all_sums
                else stage_change(self.write, increment, at, decision.bounds)
            )
            if isinstance(tried, Written):
                return replace(self._proved(tried, increment), summed=request.summed)
            outcome = EvaluateFully() if request.verify else tried  # not what a verification is about
        assert outcome is not None
        if outcome.why is not Why.UNSAID:
            log.info("%s: evaluating the query: %s", request.model, outcome.text)
        if not request.verify and fails(request.incremental, outcome):
            raise CannotBeIncremental(outcome.text)
        return outcome

    def _proved(self, change: Written, increment: Increment) -> Written:
        """``change``, with whether to compare it with the query, and what to record if that shows
        no difference.
        """
        proving, compared = self.request.independent.proving, self.request.verify
        if proving is None or increment.analysed.unrepeatable:
            return replace(change, compared=compared)
        compared = compared or proving.due(increment.reading)
        proof = proving.after(increment.reading, compared=compared)
        return replace(change, compared=compared, proof=proof)

    def _of_few_sums(self, at: Round) -> Written | EvaluateFully:
        """The query over all of the model's sums, compared with the shard."""
        try:
            written = self.write.whole_rows(at)
        except EngineError as error:
            return EvaluateFully(Why.SUMS_FAILED, error.message)
        if written.batch is not None:
            failpoints.reach("staged")
        return replace(written, evaluated_once=False, incremental=True)

    def _recorded_error(self, error: EngineError, at: Round) -> Written:
        """Stages the query's ``error`` as the shard's only error update if the model records
        errors; otherwise raises it.
        """
        if self.request.on_query_error is not OnError.RECORD or not error.caused_by_data:
            raise error
        # our statement failed, which contains the query: only the query's own failure counts
        failure = self.write.failure_of(at.desired)
        if failure is None or not failure.caused_by_data:
            raise error
        message = failure.message[:MAX_ERROR_LENGTH]
        self.warn(f"the query failed and its error is recorded; readers get it: {message}")
        return self.write.stage_error(message, at)

    # read-only

    def preview(self, at: Round) -> Previewed:
        """The correction that `stage` would stage; raises `CannotBeIncremental` where `stage`
        does.
        """
        if at.plan.generation or at.plan.evolved:
            return self.write.preview(at, self.request.sample)
        previewed = self._previewed_change(at)
        if isinstance(previewed, Previewed):
            return previewed
        evaluated = self._previewed_here(at) or self.write.preview(at, self.request.sample)
        return replace(evaluated, full=previewed)

    def _previewed_change(self, at: Round) -> Previewed | EvaluateFully:
        request = self.request
        if request.verify:
            return EvaluateFully()
        if not self.write.engine.cores_here():
            return EvaluateFully(Why.ELSEWHERE)
        with self._aside(at) as write:
            change = replace(self, write=write).change(at)
            if isinstance(change, EvaluateFully):
                return change
            known = progress_of(request, at.state, change, at.time).known
            if not known and not change.counts.errors_inserted:
                return EvaluateFully(Why.MOVED)
            return replace(self._counted(change, at.desired), incremental=True)

    def _previewed_here(self, at: Round) -> Previewed | None:
        """The correction of a small shard, which evaluates the query once, in this process. None if
        that is left to Spark.
        """
        if at.shard.empty or not at.by_whole_rows or not self.write.engine.cores_here():
            return None
        with self._aside(at) as write, shared_files(write.engine) as files:
            written = write.whole_rows_locally(at, files)
            return None if written is None else self._counted(written, at.desired)

    @contextmanager
    def _aside(self, at: Round) -> Iterator[Write]:
        """Stages in a temporary directory of this machine."""
        write = self.write
        with (
            tempfile.TemporaryDirectory(prefix="mvsink-preview-") as directory,
            staged_elsewhere(write.handle.storage, at.state, directory) as handle,
        ):
            yield Write(write.engine, handle, self.request.model, write.watch)

    def _counted(self, change: Written, desired: Desired) -> Previewed:
        batch, sample = change.batch, self.request.sample
        rows: list[tuple[object, ...]] = []
        if batch is not None and sample:
            items = sql.columns([*(column.name for column in desired.columns), TIME, DIFF, ERROR, HASH])
            text = f"select {items} from {sql.parquet_in(batch.uri)} limit {sample}"
            rows = self.write.engine.query(text, "sample")
        return Previewed(change.counts, 0 if batch is None else batch.rows, tuple(rows))
