"""Errors about points in time, and about questions that a history cannot answer."""

from __future__ import annotations

from collections.abc import Sequence

from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.engine import DataflowError
from dbt.adapters.mvsink.shard import ShardState

SHOWN_RUNS = 5  # in a message
FORMS = (
    "`latest`, `-1` (before the newest run that changed contents), ISO 8601 (2026-11-20T15:00:00Z), milliseconds, or an invocation id "
    "or its first 4 or more characters"
)


class InvalidPoint(DataflowError):
    """Root of the errors of points in time. Each names the shard and the point as written."""


class NotAPoint(InvalidPoint):
    """The text is no point at all, or no run in the log has such an invocation id."""

    def __init__(self, name: str, text: str, runs: Sequence[str] = ()):
        listed = f"; the newest runs in its log: {_listed(runs)}" if runs else ""
        super().__init__(f"{name}: invalid point in time\n  Got: {text!r}\n  Expected: {FORMS}{listed}")


class AmbiguousRun(InvalidPoint):
    """Several invocation ids begin with the text. ``runs``: each with its time."""

    def __init__(self, name: str, text: str, runs: Sequence[str]):
        super().__init__(
            f"{name}: {len(runs)} runs begin with {text!r}: {_listed(runs)}. Write more of the id"
        )


class TooFarBack(InvalidPoint):
    """There are not so many runs that changed contents."""

    def __init__(self, name: str, text: str, known: int):
        runs = "1 run" if known == 1 else f"{known} runs"
        super().__init__(
            f"{name}: {text!r} goes back further than its log: it has {runs} of this generation that changed contents"
        )


class EarlierGeneration(InvalidPoint):
    """A run of an earlier generation. ``begun`` (ms): when the present one was committed."""

    def __init__(self, name: str, text: str, run: str, generation: int, begun: int):
        super().__init__(
            f"{name}: {text!r} is run {run}, which wrote an earlier generation of the shard. Generation {generation} replaced all contents "
            f"at {both_ways(begun)}, and the history before that is gone"
        )


class OutsideHistory(InvalidPoint):
    """``time`` (ms) is not in ``[since, upper)``. ``what``: the contents asked for, in words.

    ``begun`` (ms): when the commit was made that replaced everything before; None if the config
    decides how far back the history goes.
    """

    def __init__(
        self, name: str, text: str, what: str, time: int, state: ShardState, begun: int | None = None
    ):
        since, upper = state.since.stored(), state.upper.as_option()
        if time >= since:
            reason = "No run has written contents for that time yet"
        elif begun is None and state.creation == since:
            reason = "Its contents begin there, with its first run; `retain_history` (1 day by default) keeps later ones"
        elif begun is None:
            reason = "`retain_history` (1 day by default) keeps more from the next run on"
        else:
            reason = f"Generation {state.generation} replaced all contents at {both_ways(begun)}, and the history before that is gone"
        super().__init__(
            f"{name}: {text!r}{f' is {what}, which' if what else ''} cannot be read: the readable times are "
            f"[{both_ways(since)}, {'no end' if upper is None else both_ways(upper)}). {reason}"
        )


def both_ways(time: int) -> str:
    """A time (ms) in both forms that users may write."""
    return f"{iso(time)} ({time})" if iso(time) != str(time) else str(time)


def _listed(runs: Sequence[str]) -> str:
    rest = len(runs) - SHOWN_RUNS
    return ", ".join(runs[:SHOWN_RUNS]) + (f", and {rest} more" if rest > 0 else "")
