"""Overlapping runs never mix: models that read what a later run wrote are left to the next run.

Suppose that a run at `T` = 30 starts while a run at `T` = 20 is still working, and writes a shard
before the run at 20 reaches it. As of 20 that shard will always hold what it held before. If the
shard's model reads something that the run at 20 wrote, the shard is *stale* as of 20: a model that
reads both would mix two times.

The *origins* of a shard as of `T` are the times of the runs that its contents come from: its own
run, and those of what it reads.

| as of `T` the shard | its origins |
|---|---|
| was written at `T` | `T`; if all that it reads is superseded, the origins of that |
| is superseded: a later run passed over `T` | the run that last wrote it, and what it reads |
| has not passed `T`, has a schedule, or is a task's | none: overlapping runs do not change it |

A superseded shard is stale if something that it reads was written after it. A model that reads a
stale shard, directly or through a model that was left, is left to the next run. Everything else is
as consistent as in a run at `T` alone: a shard that others refresh from sources of their own is
never stale; a run that reads only the past, such as a backfill, leaves nothing; and nothing
supersedes the latest run.

An invocation remembers the origins of the shards that it has processed (`Ledger`). For other shards
the log shows them, except for what *they* read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from dbt.adapters.mvsink.inputs.reference import Reference
from dbt.adapters.mvsink.per_invocation import PerInvocation
from dbt.adapters.mvsink.shard import Antichain, Commit, ShardState
from dbt.adapters.mvsink.shard_sql.properties import WATCHED
from dbt.adapters.mvsink.sink import Outcome, Superseded

UNKNOWN = -1  # the time of a run that the log no longer has
FIRST_PAGE = 8  # commits
Log = Callable[[int | None], Sequence[Commit]]  # `Looking.history`


@dataclass(frozen=True)
class Origins:
    """Where contents as of a run's time come from; see the module. ``times`` are in ms; without
    any, the contents are consistent with everything.

    ``passed`` has the shards that a later run wrote, with its time. ``broken`` means that one of
    them is stale, or did not exist yet.
    """

    times: frozenset[int] = frozenset()
    passed: tuple[tuple[str, int], ...] = ()
    broken: bool = False

    def __or__(self, other: Origins) -> Origins:
        passed = tuple(dict.fromkeys((*self.passed, *other.passed)))
        return Origins(self.times | other.times, passed, self.broken or other.broken)

    def superseded(self, time: int) -> Superseded | None:
        """Why the run at ``time`` (ms) leaves a model that reads this; None if it does not."""
        if not self.broken:
            return None
        return Superseded(
            tuple(dict.fromkeys(name for name, _ in self.passed)),
            max((by for _, by in self.passed), default=time),
        )


@dataclass
class Ledger:
    """The origins of the shards that one invocation has processed, by URI. dbt's order has each
    recorded before the models that read it.
    """

    origins: dict[str, Origins] = field(default_factory=dict)


ledgers = PerInvocation(Ledger)


def origins_read(references: Iterable[Reference], time: int, ledger: Ledger) -> Origins:
    """The origins of all that a model reads as of the run's ``time`` (ms)."""
    origins = Origins()
    for reference in references:
        known = ledger.origins.get(reference.uri)
        if known is None or _begun_after(reference.state, time) is not None:  # since it was recorded, perhaps
            known = origins_of(reference.name, reference.state, reference.history, time)
        origins |= known
    return origins


def origins_after(model: str, outcome: Outcome, history: Log, read: Origins, time: int) -> Origins:
    """The origins of ``model`` after its run at ``time`` (ms), ``read`` those of its inputs."""
    if outcome.superseded is not None:
        return read
    if outcome.up_to_date:
        return passed_over(origins_of(model, outcome.state, history, time), read)
    return read if read.times else Origins(frozenset({time}), read.passed)


def passed_over(own: Origins, read: Origins) -> Origins:
    """The origins of a model that the run did not write: its ``own`` and its inputs'."""
    return replace(own | read, broken=own.broken or read.broken or _stale(own, read))


def _stale(own: Origins, read: Origins) -> bool:
    """Whether something that is read was written after superseded contents. Contents without times
    are consistent with everything, or are broken themselves.
    """
    if not own.passed or not own.times or UNKNOWN in own.times:
        return False
    return any(time > max(own.times) for time in read.times)


def origins_of(name: str, state: ShardState, history: Log, time: int) -> Origins:
    """The shard's own origin as of ``time`` (ms). Reads the log only if the upper is past it."""
    if state.upper.less_equal_time(time):
        return Origins()
    begun = _begun_after(state, time)
    if begun is not None:
        return Origins(passed=((name, begun),), broken=True)
    if WATCHED in state.properties:
        return Origins()
    if state.upper == Antichain.of(time).step_forward():
        return Origins(frozenset({time}))
    return own_origin(name, newest_first(history), time)


def _begun_after(state: ShardState, time: int) -> int | None:
    """The time of the run that made or replaced all contents, if it is after ``time`` (ms)."""
    return state.creation if state.creation is not None and state.creation > time else None


def own_origin(name: str, commits: Iterable[Commit], time: int) -> Origins:
    """The same from the shard's ``commits``, newest first. Takes no more of them than it needs."""
    by: int | None = None
    for commit in commits:
        if commit.lower is None or commit.upper is None or commit.lower == commit.upper:
            continue  # maintenance
        through = commit.note.computed_through
        if commit.upper.less_equal_time(time):  # the last commit before ``time``
            wrote = commit.upper.stored() - 1 if through is None else through
            return Origins() if by is None else Origins(frozenset({wrote}), ((name, by),))
        if by is not None or not commit.lower.less_equal_time(time):
            continue
        if through is None or through < time:
            return Origins()  # a schedule's: it moved the upper to the next refresh
        if through == time:
            return Origins(
                frozenset({time}) if commit.upper == Antichain.of(time).step_forward() else frozenset()
            )
        by = through
    return Origins() if by is None else Origins(frozenset({UNKNOWN}), ((name, by),))


def newest_first(history: Log) -> Iterator[Commit]:
    """The log's commits, newest first, read a few at a time."""
    read, limit = 0, FIRST_PAGE
    while True:
        commits = history(limit)
        yield from reversed(commits[: len(commits) - read])
        if len(commits) < limit:
            return
        read, limit = len(commits), limit * 4
