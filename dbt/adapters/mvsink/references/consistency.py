"""Runs that overlap in time never mix: when a run leaves a model as it is, because a later run has
superseded it.

A later run (`T` = 30) may overtake an earlier one (`T` = 20) between two models. What it writes at
30 before the earlier run came there holds as of 20 what it held before, and always will. If it
reads what the earlier run wrote at 20 it is *stale* as of 20, and a model that read both would mix
two times.

The *origins* of a shard as of `T` are the times of the runs that its contents then come from, its
own and those of what it reads:

    written at T                             T; or what its references come from, if all of them
    were superseded superseded: a later run passed over T     the run that wrote it last before, and
    the origins of what it reads not past T, or of a schedule, or a task  none: it is what it is as
    of T, whoever runs meanwhile

What was superseded is stale if it was not written since something that it reads was. A model that
reads it, directly or through what was left, is left to the next run. All else is as even as a run
at `T` alone would have found it: a shard that others refresh all the time from sources of their own
is never stale, a run that reads only the past, such as a backfill, leaves nothing, and neither does
the latest of all runs, which none overtakes.

What an invocation itself came to is remembered (`Ledger`). Of other shards the log tells, but for
what *they* read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from dbt.adapters.mvsink.references.per_invocation import PerInvocation
from dbt.adapters.mvsink.references.reference import Reference
from dbt.adapters.mvsink.shard import Antichain, Commit, ShardState
from dbt.adapters.mvsink.shard_sql.properties import WATCHED
from dbt.adapters.mvsink.sink import Outcome, Superseded

UNKNOWN = -1  # the time of a run that the log no longer tells
FIRST_LOOK = 8  # commits
Log = Callable[[int | None], Sequence[Commit]]  # `Looking.history`


@dataclass(frozen=True)
class Origins:
    """Where contents as of a run's time come from: see above. ``times`` are ms; none: they fit with
    anything.

    ``passed``: the shards that a later run wrote, and its time. ``broken``: one of them is stale,
    or there is nothing of it as of then.
    """

    times: frozenset[int] = frozenset()
    passed: tuple[tuple[str, int], ...] = ()
    broken: bool = False

    def __or__(self, other: Origins) -> Origins:
        passed = tuple(dict.fromkeys((*self.passed, *other.passed)))
        return Origins(self.times | other.times, passed, self.broken or other.broken)

    def superseded(self, time: int) -> Superseded | None:
        """Why a model that reads this is left as it is by the run at ``time`` (ms); None if it is
        not.
        """
        if not self.broken:
            return None
        return Superseded(
            tuple(dict.fromkeys(name for name, _ in self.passed)),
            max((by for _, by in self.passed), default=time),
        )


@dataclass
class Ledger:
    """What one invocation came to, by the shards' places. Of each model it is told once, before
    those that read it ask.
    """

    origins: dict[str, Origins] = field(default_factory=dict)


ledgers = PerInvocation(Ledger)


def origins_read(references: Iterable[Reference], time: int, ledger: Ledger) -> Origins:
    """The origins of all that a model reads as of the run's ``time`` (ms)."""
    found = Origins()
    for reference in references:
        known = ledger.origins.get(reference.uri)
        found |= (
            origins_of(reference.name, reference.state, reference.history, time) if known is None else known
        )
    return found


def origins_after(model: str, outcome: Outcome, history: Log, read: Origins, time: int) -> Origins:
    """The origins of ``model`` after its run at ``time`` (ms), which would ``read`` what has those."""
    if outcome.superseded is not None:
        return read
    if outcome.up_to_date:
        return passed_over(origins_of(model, outcome.state, history, time), read)
    return read if read.times else Origins(frozenset({time}), read.passed)


def passed_over(own: Origins, read: Origins) -> Origins:
    """The origins of a model that the run did not write: its ``own``, and of what it would have
    ``read``.
    """
    stale = bool(own.passed) and any(
        UNKNOWN not in own.times and time > max(own.times) for time in read.times
    )
    return replace(own | read, broken=own.broken or read.broken or stale)


def origins_of(name: str, state: ShardState, history: Log, time: int) -> Origins:
    """The shard's own origin as of ``time`` (ms). The log is read only if its upper is past the
    time of such a run.
    """
    if state.upper.less_equal_time(time) or WATCHED in state.properties:
        return Origins()
    if state.creation is not None and state.creation > time:
        return Origins(passed=((name, state.creation),), broken=True)
    if state.upper == Antichain.of(time).step_forward():
        return Origins(frozenset({time}))
    return own_origin(name, newest_first(history), time)


def own_origin(name: str, commits: Iterable[Commit], time: int) -> Origins:
    """The same, as told by the shard's ``commits``, newest first. No more of them are asked for
    than tell.
    """
    by: int | None = None
    for commit in commits:
        if commit.lower is None or commit.upper is None or commit.lower == commit.upper:
            continue  # of maintenance
        through = commit.note.computed_through
        if commit.upper.less_equal_time(time):  # the last one before it
            wrote = commit.upper.stored() - 1 if through is None else through
            return Origins() if by is None else Origins(frozenset({wrote}), ((name, by),))
        if by is not None or not commit.lower.less_equal_time(time):
            continue
        if through is None or through < time:
            return Origins()  # up to the next refresh of a schedule
        if through == time:
            return Origins(
                frozenset({time}) if commit.upper == Antichain.of(time).step_forward() else frozenset()
            )
        by = through
    return Origins() if by is None else Origins(frozenset({UNKNOWN}), ((name, by),))


def newest_first(history: Log) -> Iterator[Commit]:
    """The log's commits, newest first, read a few at a time."""
    told, wanted = 0, FIRST_LOOK
    while True:
        commits = history(wanted)
        yield from reversed(commits[: len(commits) - told])
        if len(commits) < wanted:
            return
        told, wanted = len(commits), wanted * 4
