"""Whether a schedule explains an upper that is ahead of the clock; if not, a clock was wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dbt.adapters.mvsink.shard import Antichain, Commit
from dbt.adapters.mvsink.sink.request import SinkRequest
from dbt.adapters.mvsink.sink.run_plan import RunPlan

AHEAD_OF_CLOCK = 60_000  # ms
History = Callable[[], Sequence[Commit]]  # the shard's commits, oldest first, as far as the log goes


def scheduled(request: SinkRequest, plan: RunPlan, upper: Antichain, history: History) -> bool:
    """Whether ``upper`` is the next refresh of a run whose own time was not ahead of the clock.

    The refresh may be of this schedule, or of one that the model had earlier: then the commit's
    ``computed_through`` shows the run's time.
    """
    now = request.clock + AHEAD_OF_CLOCK
    schedule = request.refresh.schedule(plan.creation)
    if not schedule.on_commit and upper.less_equal(schedule.frontier_after(now)):
        return True
    if not Antichain.of(now).less_than(upper):
        return False
    commit = _mover(upper, history)
    through = None if commit is None else commit.note.computed_through
    return through is not None and through <= now


def warning(request: SinkRequest, upper: Antichain, history: History) -> str:
    """The warning about an ``upper`` ahead of the clock; empty if it is not ahead."""
    option = upper.as_option()
    if option is None or option <= request.clock + AHEAD_OF_CLOCK:
        return ""
    return (
        f"the shard's upper {option} is ahead of the clock ({request.clock}): {_writer(upper, history)} had a wrong "
        "clock or a mistyped mvsink_run_time; nothing is written until then. "
        "Remedy: `mvsink rewind`, which keeps history, or --full-refresh"
    )


def _mover(upper: Antichain, history: History) -> Commit | None:
    """The newest commit that moved the upper to ``upper``; None if the log no longer has it."""
    return next((commit for commit in reversed(history()) if commit.upper == upper), None)


def _writer(upper: Antichain, history: History) -> str:
    """The run that moved the upper to ``upper``, in words."""
    commit = _mover(upper, history)
    if commit is None:
        return "a run that is no longer in the log"
    return f"run {commit.note.invocation_id or commit.writer_id} on {commit.host} (version {commit.version})"
