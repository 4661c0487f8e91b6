"""The choice of how one description's correction is staged: from the changes of the inputs, by
comparing the query's result with the shard, or by verifying both."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dbt.adapters.mvsink.engine import EngineError
from dbt.adapters.mvsink.shard import Commit, ShardState
from dbt.adapters.mvsink.shard_sql import BatchDescription, Layout, OnError
from dbt.adapters.mvsink.shard_sql.outcome import MAX_ERROR_LENGTH
from dbt.adapters.mvsink.sink.correction import Desired
from dbt.adapters.mvsink.sink.delta_write import DeltaWrite
from dbt.adapters.mvsink.sink.errors import NotIncremental
from dbt.adapters.mvsink.sink.increment import SLOW, Full, Incremental
from dbt.adapters.mvsink.sink.request import SinkRequest
from dbt.adapters.mvsink.sink.verify import verified
from dbt.adapters.mvsink.sink.write import EVALUATED, INCREMENTAL, LOADED, Write, Written

log = logging.getLogger("mvsink.sink.write")
REMEMBERED = 20  # commits
WORTHWHILE = 0.8  # of the seconds that evaluating the query takes


def slow(commits: Sequence[Commit]) -> bool:
    """Whether evaluating the query took hardly longer than the last two incremental runs, as far as
    these newest ``commits`` go. What is no longer among them is forgotten, and then tried again.
    """
    seconds: dict[str, list[float]] = {INCREMENTAL: [], EVALUATED: [], LOADED: []}
    for commit in commits:
        if commit.note.mode in seconds and commit.note.seconds is not None:
            seconds[commit.note.mode].append(commit.note.seconds)
    # a correction that changes little takes about half as long as the first load
    evaluated = [*seconds[EVALUATED], *(each / 2 for each in seconds[LOADED])]
    last = seconds[INCREMENTAL][-2:]
    return len(last) == 2 and bool(evaluated) and min(last) > WORTHWHILE * min(evaluated)


@dataclass(frozen=True)
class Staging:
    """``recorded``: the shard's progress by input. ``warn`` takes what the user should know.
    ``evaluate``: the query, whatever is known of its inputs.
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
        full = self._increment(desired, state, shard, time, description)
        if isinstance(full, Written):
            return full
        try:
            if self.request.verify:
                written = verified(self.write, desired, shard, time, description)
            else:
                written = self.write.stage(desired, shard, time, description)
            return replace(written, reason=full.reason, loaded=shard.empty)
        except EngineError as error:
            return self._recorded_error(error, desired, shard, time, description)

    def _increment(
        self, desired: Desired, state: ShardState, shard: Layout, time: int, description: BatchDescription
    ) -> Written | Full:
        """The correction from the changes of the inputs, or why the query is to be evaluated.
        Raises `NotIncremental`.
        """
        request = self.request
        if self.evaluate:
            return Full("an input changed while its change was computed", expected=True)
        if request.verify or shard.empty:
            return Full()
        forced = request.incremental is Incremental.ALWAYS
        if not forced and slow(self.write.handle.history(REMEMBERED)):
            return Full(SLOW)
        increment = request.evidence.increment(state, self.recorded, time)
        outcome = (
            increment
            if isinstance(increment, Full)
            else DeltaWrite(self.write, forced).stage(increment, desired, shard, time, description)
        )
        if isinstance(outcome, Full):
            log.info("%s: evaluating the query: %s", request.model, outcome.reason)
        if forced and isinstance(outcome, Full) and not outcome.expected:
            raise NotIncremental(outcome.reason)
        return outcome

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
