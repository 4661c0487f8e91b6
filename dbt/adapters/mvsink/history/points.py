"""Points in time as users write them, resolved against a shard's state and the commits of its log.

| written | the contents |
|---|---|
| `latest` | at the newest readable time |
| `-N` | as they were before the Nth newest run that changed them |
| ISO 8601 (default zone UTC), ms from 10^11 on | at that time |
| an invocation id, or its first 4 or more characters | as that run left them |

Where the generation before the present one is kept (`shard.generations`), its times and runs are
points, too: a point then says which version to read.

So `-1` and `latest` differ by exactly one run's effect, and so do `-2` and `-1`. A run is what one
dbt invocation committed; commits that name no invocation are runs of their own. Only commits that
moved the upper are runs: not compaction, holds, added columns, or another engine's writes.

A time and a run differ: a run at 15:10 of a model that is refreshed at each full hour writes at
15:00 and moves the upper to 16:00. Its id is the time just before that upper, at which all its
updates are included whatever its write time was; `15:00` is the same contents.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dbt.adapters.mvsink.durations import iso, parse_time
from dbt.adapters.mvsink.engine import DataflowError
from dbt.adapters.mvsink.physical import LARGEST_TIME
from dbt.adapters.mvsink.shard import Antichain, Commit, PastGeneration, ShardState, as_of_generation
from dbt.adapters.mvsink.shard_sql import NotRefreshed

LATEST = "latest"
SHORTEST_ID = 4  # characters of an invocation id
APPEND = "append"  # the kind of a commit with data

_BACK = re.compile(r"-([1-9][0-9]{0,8})")
_ID = re.compile(r"[0-9a-z][0-9a-z_-]*", re.IGNORECASE)
SHOWN_RUNS = 5  # in a message
FORMS = (
    "`latest`, `-1` (before the newest run that changed contents), ISO 8601 (2026-11-20T15:00:00Z), milliseconds since 1970, or an invocation id "
    "or its first 4 or more characters"
)


class InvalidPoint(DataflowError):
    """Root of the errors of points in time. Each names the shard and the point as written."""


class NotAPoint(InvalidPoint):
    """The text is not a point in time, and no run in the log has such an invocation id."""

    error_code = "MVS-801"

    def __init__(self, name: str, text: str, runs: Sequence[str] = ()):
        listed = f"; the newest runs in its log: {_listed(runs)}" if runs else ""
        super().__init__(f"{name}: invalid point in time\n  Got: {text!r}\n  Expected: {FORMS}{listed}")


class AmbiguousRun(InvalidPoint):
    """Several invocation ids begin with the text. ``runs`` are these, each with its time."""

    error_code = "MVS-802"

    def __init__(self, name: str, text: str, runs: Sequence[str]):
        super().__init__(
            f"{name}: {len(runs)} runs begin with {text!r}: {_listed(runs)}. Write more of the id"
        )


class TooFarBack(InvalidPoint):
    """There are not so many runs that changed contents."""

    error_code = "MVS-803"

    def __init__(self, name: str, text: str, known: int):
        runs = "1 run" if known == 1 else f"{known} runs"
        super().__init__(
            f"{name}: {text!r} goes back further than its log: it has {runs} of this generation that changed contents"
        )


class EarlierGeneration(InvalidPoint):
    """A run of an earlier generation. ``begun`` (ms) is when the present generation was
    committed.
    """

    error_code = "MVS-804"

    def __init__(self, name: str, text: str, run: str, generation: int, begun: int):
        super().__init__(
            f"{name}: {text!r} is run {run}, which wrote an earlier generation of the shard. Generation {generation} replaced all contents "
            f"at {both_ways(begun)}, and the history before that is gone"
        )


class OutsideHistory(InvalidPoint):
    """``time`` (ms) is not in ``[since, upper)``. ``what`` is the requested contents, in words.

    ``begun`` (ms) is when the commit was made that replaced everything before; None if the config
    decides how far back the history goes.
    """

    error_code = "MVS-805"

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


@dataclass(frozen=True)
class Run:
    """What one dbt invocation committed to a shard, oldest first; never empty.

    ``current``: whether it belongs to the present generation, or to one that is kept with it.
    """

    commits: tuple[Commit, ...]
    current: bool = True

    @property
    def invocation_id(self) -> str:
        """The invocation id from dbt; empty for a commit without one."""
        return self.commits[0].note.invocation_id

    @property
    def changed(self) -> bool:
        """Whether it changed contents."""
        return any(commit.kind == APPEND for commit in self.commits)

    @property
    def lower(self) -> Antichain:
        """The upper that it began at."""
        return self.commits[0].lower or Antichain.of(0)

    @property
    def upper(self) -> Antichain:
        """The upper that it left."""
        return self.commits[-1].upper or Antichain.empty()

    @property
    def computed_through(self) -> int:
        """The run's own time (ms); for a commit without one, the wall-clock time of the commit."""
        newest = self.commits[-1]
        through = newest.note.computed_through
        return newest.timestamp if through is None else through

    @property
    def words(self) -> str:
        """``4f3c2b1a-... (2026-11-20T15:00:00Z)``"""
        return f"{self.invocation_id or 'without an invocation id'} ({iso(self.computed_through)})"


@dataclass(frozen=True)
class Point:
    """A readable time (ms) of one shard. ``text``: as it was written. ``run``: the run whose
    contents these are, where the point names it and the log still has it. ``earlier`` is the last
    version of the generation that has these contents, None for the present one.
    """

    text: str
    time: int
    run: Run | None = None
    earlier: ShardState | None = None


def runs_of(commits: Sequence[Commit], kept: Sequence[PastGeneration] = ()) -> list[Run]:
    """The runs among ``commits`` (oldest first), by their last commit, oldest first. ``kept`` are
    the generations before the present one that are kept, oldest first.

    An invocation that wrote two generations is two runs.
    """
    first = _first_of_generation(commits, kept[0].last.generation if kept else None)
    groups: dict[tuple[str, int], list[Commit]] = {}
    generation, started = 0, 0  # how many have begun, and before the first that counts
    for index, commit in enumerate(commits):
        generation += commit.generation is not None
        started = generation if index <= first else started
        if commit.upper is not None:
            key = commit.note.invocation_id or f"version {commit.version}"
            groups.setdefault((key, generation), []).append(commit)
    runs = [Run(tuple(group), of >= started) for (_, of), group in groups.items()]
    return sorted(runs, key=lambda run: run.commits[-1].version)


def resolve(
    text: str, state: ShardState, commits: Sequence[Commit], name: str, kept: Sequence[PastGeneration] = ()
) -> Point:
    """The point in time ``text`` of the shard ``name``, whose log has ``commits``, oldest first.
    ``kept`` is as for `runs_of`.

    Raises `InvalidPoint`, and `NotRefreshed` for a shard without contents.
    """
    if not state.readable:
        raise NotRefreshed(name)
    text = text.strip()
    current = [run for run in runs_of(commits, kept) if run.current]
    if text.lower() == LATEST:
        return Point(text, newest_time(state), current[-1] if current else None)
    if _BACK.fullmatch(text):
        run = find_run(text, state, commits, name, kept)
        left = [other for other in current if other.upper == run.lower]
        point = Point(text, run.lower.stored() - 1, left[-1] if left else None)
        return _checked(point, f"the contents before run {run.words}", state, commits, name, kept)
    time = parse_time(text)
    if time is not None:
        return _checked(Point(text, time), "", state, commits, name, kept)
    run = find_run(text, state, commits, name, kept)
    upper = run.upper.as_option()
    point = Point(text, newest_time(state) if upper is None else upper - 1, run)
    past = next((each for each in kept if run.commits[-1].version <= each.last.version), None)
    if past is not None:  # its upper may be later than the present generation's first time
        time = min(newest_time(past.last), point.time if upper is not None else LARGEST_TIME)
        if past.last.since.less_equal_time(time):
            return replace(point, time=time, earlier=past.last)
    return _checked(point, f"what run {run.words} left", state, commits, name, kept)


def find_run(
    text: str, state: ShardState, commits: Sequence[Commit], name: str, kept: Sequence[PastGeneration] = ()
) -> Run:
    """The run that ``text`` names: an invocation id, a unique beginning of one, or ``-N``, the Nth
    newest run that changed contents. It is of the present generation, or of one that is ``kept``.

    Raises `NotAPoint`, `AmbiguousRun`, `TooFarBack`, `EarlierGeneration`.
    """
    runs = runs_of(commits, kept)
    back = _BACK.fullmatch(text)
    if back is not None:
        changing = [run for run in runs if run.current and run.changed]
        if int(back[1]) > len(changing):
            raise TooFarBack(name, text, len(changing))
        return changing[-int(back[1])]
    matching = [run for run in runs if run.invocation_id.lower().startswith(text.lower())]
    if len(text) < SHORTEST_ID or not _ID.fullmatch(text) or not matching:
        raise NotAPoint(name, text, [run.words for run in reversed(runs) if run.invocation_id])
    exact = [run for run in matching if run.invocation_id.lower() == text.lower()]
    matching = exact or matching
    if len({run.invocation_id for run in matching}) > 1:
        raise AmbiguousRun(name, text, [run.words for run in reversed(matching)])
    run = matching[-1]
    if not run.current:
        begun = commits[_first_of_generation(commits)].timestamp
        raise EarlierGeneration(name, text, run.words, state.generation, begun)
    return run


def newest_time(state: ShardState) -> int:
    """The newest readable time (ms); for a final shard, the time of its last update."""
    upper = state.upper.as_option()
    if upper is not None:
        return upper - 1
    times = [file.max_time for file in state.files]
    return max((LARGEST_TIME if time is None else time for time in times), default=state.since.stored())


def _checked(
    point: Point,
    what: str,
    state: ShardState,
    commits: Sequence[Commit],
    name: str,
    kept: Sequence[PastGeneration],
) -> Point:
    version, time = as_of_generation(state, point.time, lambda: tuple(kept))
    if version is not state:
        return replace(point, time=time, earlier=version)
    if not state.since.stored() <= point.time < state.upper.stored():
        first = commits[_first_of_generation(commits)] if commits else None
        walled = first is not None and first.generation is not None and first.lower == state.since
        raise OutsideHistory(
            name, point.text, what, point.time, state, first.timestamp if first and walled else None
        )
    return point


def _first_of_generation(commits: Sequence[Commit], generation: int | None = None) -> int:
    """The index of the first of ``commits`` that belongs to this generation, by default to the
    newest one.
    """
    if generation == 0:
        return 0
    numbers = {commit.generation: index for index, commit in enumerate(commits) if commit.generation}
    newest = max(numbers.values(), default=0)
    return newest if generation is None else numbers.get(generation, newest)
