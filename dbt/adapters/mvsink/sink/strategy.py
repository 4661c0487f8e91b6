"""The choice of how one description's correction is staged: from the changes of the inputs, by
comparing the query's result with the shard, or by verifying both."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.reasons import EvaluateFully, Why
from dbt.adapters.mvsink.shard import ShardState
from dbt.adapters.mvsink.shard_sql import BatchDescription, Layout, OnError
from dbt.adapters.mvsink.shard_sql.append import MAX_ERROR_LENGTH
from dbt.adapters.mvsink.shard_sql.layout import with_batch
from dbt.adapters.mvsink.sink.correction import Desired
from dbt.adapters.mvsink.sink.decide import Case, Incremental, decide, fails
from dbt.adapters.mvsink.sink.delta_write import DeltaWrite
from dbt.adapters.mvsink.sink.errors import CannotBeIncremental
from dbt.adapters.mvsink.sink.increment import Increment
from dbt.adapters.mvsink.sink.proving import unproven
from dbt.adapters.mvsink.sink.request import ReadsLater, SinkRequest
from dbt.adapters.mvsink.sink.run_history import RunHistory
from dbt.adapters.mvsink.sink.suspension import Drift, suspended
from dbt.adapters.mvsink.sink.verify import equal, verified
from dbt.adapters.mvsink.sink.write import Write
from dbt.adapters.mvsink.sink.written import Previewed, Written

log = logging.getLogger("mvsink.sink.write")
SAMPLE = 5  # rows of a drift
Compared = TypeVar("Compared")


@dataclass(frozen=True)
class Strategy:
    """``recorded``: the shard's progress by input. ``warn`` takes what the user should know.
    ``evaluate``: the query, whatever is known about its inputs.
    """

    request: SinkRequest
    write: Write
    recorded: Callable[[str], int | None]
    warn: Callable[[str], None]
    evaluate: bool = False

    def stage(
        self, desired: Desired, state: ShardState, shard: Layout, time: int, description: BatchDescription
    ) -> Written:
        """Stage the correction after which the shard, in ``state``, holds ``desired`` from ``time``
        (ms) on.
        """
        change = self.change(desired, state, shard, time, description)
        if isinstance(change, Written) and not change.compared:
            return change
        settled = self.request.evidence.settled(state, self.recorded, time)
        try:
            if isinstance(change, Written):
                return self._verified(change, desired, shard, time, description)
            written = self._evaluated(desired, shard, time, description)
        except EngineError as error:
            return self._recorded_error(error, desired, shard, time, description)
        drift = None
        if settled and not shard.empty:
            drift = Drift(written.counts, noise=not self._repeatable(state, time))
        return replace(written, full=change, loaded=shard.empty, drift=drift)

    def _evaluated(
        self, desired: Desired, shard: Layout, time: int, description: BatchDescription
    ) -> Written:
        """The shard compared with ``desired``."""
        if not self.request.verify:
            return self.write.stage(desired, shard, time, description)
        stage = partial(verified, self.write, shard=shard, time=time, description=description)
        written, rewritten = self._independently(stage, desired, time)
        return replace(written, rewritten=rewritten)

    def _verified(
        self, change: Written, desired: Desired, shard: Layout, time: int, description: BatchDescription
    ) -> Written:
        """``change``, if the shard holds ``desired`` with it. Otherwise the shard has drifted, and
        its correction as a whole.
        """
        write = self.write
        after = shard if change.batch is None else with_batch(shard, change.batch)

        def differences(wanted: Desired) -> Previewed | None:
            with write.watch("verify"):
                right = equal(write, wanted, after)
            return None if right else write.preview(wanted, after, time, SAMPLE)

        try:
            wrong, rewritten = self._independently(differences, desired, time)
        except BaseException:
            change.delete()
            raise
        if wrong is None:
            return replace(change, drift=Drift(), rewritten=rewritten)
        change.delete()
        stage = partial(verified, write, shard=shard, time=time, description=description)
        written, rewritten = self._independently(stage, desired, time)
        drift = Drift(wrong.counts, wrong.sample)
        return replace(written, drift=drift, rewritten=rewritten, proof=unproven(), compared=True)

    def _independently(
        self, compare: Callable[[Desired], Compared], desired: Desired, time: int
    ) -> tuple[Compared, str]:
        """What ``compare`` finds for the query as its author wrote it; where that reads what was
        written after ``time`` (ms), for ``desired``, and why.
        """
        own = self.request.independent.own_text
        if own is None:
            return compare(desired), ""
        try:
            result = compare(replace(desired, query=own.at(time)))
            try:
                own.check(time)
            except ReadsLater:
                if isinstance(result, Written):
                    result.delete()
                raise
        except ReadsLater as later:
            return compare(desired), later.reason
        return result, ""

    def _repeatable(self, state: ShardState, time: int) -> bool:
        """Whether evaluating the query again gives the same, as far as that is known."""
        if self.request.incremental is Incremental.NEVER:  # nothing is analysed
            return True
        increment = self.request.evidence.increment(state, self.recorded, time)
        return isinstance(increment, EvaluateFully) or increment.analysed.unrepeatable is None

    def change(
        self, desired: Desired, state: ShardState, shard: Layout, time: int, description: BatchDescription
    ) -> Written | EvaluateFully:
        """The correction from the changes of the inputs, or why the query is to be evaluated.
        Raises `CannotBeIncremental`.
        """
        request, decision = self.request, decide(self._case(state, shard, time))
        increment, outcome = decision.increment, decision.full
        if increment is not None:
            tried = (
                self._of_few_sums(desired, shard, time, description)
                if decision.all_sums
                else DeltaWrite(self.write, decision.bounds).stage(
                    increment, desired, shard, time, description
                )
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

    def _case(self, state: ShardState, shard: Layout, time: int) -> Case:
        request = self.request
        return Case(
            increment=lambda: request.evidence.increment(state, self.recorded, time),
            history=lambda: RunHistory.of(self.write.handle),
            policy=request.incremental,
            verify=request.verify,
            summed=request.summed,
            contents=not shard.empty or bool(state.plan),  # a plan: no rows are contents, too
            suspended=suspended(state),
            moved=self.evaluate,
        )

    def _proved(self, change: Written, increment: Increment) -> Written:
        """``change``, with whether it is to be compared with the query, and what to record if that
        finds no difference.
        """
        proving, compared = self.request.independent.proving, self.request.verify
        if proving is None or increment.analysed.unrepeatable:
            return replace(change, compared=compared)
        compared = compared or proving.due(increment.reading)
        proof = proving.after(increment.reading, compared=compared)
        return replace(change, compared=compared, proof=proof)

    def _of_few_sums(
        self, desired: Desired, shard: Layout, time: int, description: BatchDescription
    ) -> Written | EvaluateFully:
        """The query over all of the model's sums, compared with the shard."""
        try:
            written = self.write.whole_rows(desired, shard, time, description)
        except EngineError as error:
            return EvaluateFully(Why.SUMS_FAILED, error.message)
        if written.batch is not None:
            failpoints.reach("staged")
        return replace(written, evaluated_once=False, incremental=True)

    def _recorded_error(
        self, error: EngineError, desired: Desired, shard: Layout, time: int, description: BatchDescription
    ) -> Written:
        """The query's ``error`` as the shard's only error update, if that is wanted, or raised."""
        if self.request.on_query_error is not OnError.RECORD or not error.caused_by_data:
            raise error
        # our statement failed, which contains the query: only the query's own failure counts
        failure = self.write.failure_of(desired)
        if failure is None or not failure.caused_by_data:
            raise error
        message = failure.message[:MAX_ERROR_LENGTH]
        self.warn(f"the query failed and its error is recorded; readers get it: {message}")
        return self.write.stage_error(message, desired, shard, time, description)
