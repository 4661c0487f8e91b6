"""What earlier runs found: whether it is worthwhile to compute from the changes. Pure.

A run knows what its predecessors took by the notes of their commits. What is no longer among the
newest ones is forgotten, and then tried again.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbt.adapters.mvsink.shard import Commit, CommitNote
from dbt.adapters.mvsink.sink.increment import CHANGED_BY, MANY_KEYS, SLOW, USUALLY_MANY_KEYS
from dbt.adapters.mvsink.sink.ways import EVALUATED, INCREMENTAL, LOADED, SUMMED

REMEMBERED = 20  # commits
WORTHWHILE = 0.8  # of the seconds that evaluating the query takes
FAR_LONGER = 2.0  # then it is tried again: there is so much more data that both ways take longer
FAR_MORE = 2.0  # rows changed: from the changes, too, it would have taken longer
# An evaluation in seconds of the first load, where none is known (benchmarks.choice): by the share
# of an input's rows that changed at most, and where more did.
BY_LOAD = ((0.01, 0.6), (0.05, 1.0))
BY_LOAD_OF_MANY = 2.0
LEAST = 0.8  # seconds: an incremental run of a model that is not small takes 0.5 or more

_Timed = tuple[int, CommitNote, float]  # a commit's place, its note, and its seconds


def in_vain(commits: Sequence[Commit], *, summed: bool) -> str:
    """Why, after these newest ``commits``, oldest first, the changes of the inputs are not looked
    at; empty if they are. ``summed``: for a query over the model's sums.
    """
    if summed:
        return SLOW if slow(commits, SUMMED) else ""
    return SLOW if slow(commits) else USUALLY_MANY_KEYS if most_keys_change(commits) else ""


def last_seconds(commits: Sequence[Commit]) -> dict[str, float]:
    """The seconds of the newest run of each kind: `evaluated`, the first load if there is no other,
    and `incremental`, with sums or without.
    """
    seconds = {"evaluated": _evaluated(commits)}
    newest = max((*_timed(commits, INCREMENTAL), *_timed(commits, SUMMED)), default=None, key=_place)
    seconds["incremental"] = None if newest is None else newest[2]
    return {kind: each for kind, each in seconds.items() if each is not None}


def quick(commits: Sequence[Commit]) -> bool:
    """Whether evaluating the query takes hardly longer than any incremental run."""
    evaluated = _evaluated(commits)
    return evaluated is not None and evaluated < LEAST


def slow(commits: Sequence[Commit], mode: str = INCREMENTAL) -> bool:
    """Whether evaluating the query takes hardly longer than the last two runs of this ``mode``."""
    last = _timed(commits, mode)[-2:]
    if len(last) < 2:
        return False
    evaluated = _evaluated_beside(commits, last)
    return evaluated is not None and min(seconds for _, _, seconds in last) > WORTHWHILE * evaluated


def _evaluated_beside(commits: Sequence[Commit], runs: Sequence[_Timed]) -> float | None:
    """The seconds of an evaluation that changed about as much as ``runs``: the newest one, unless
    the first one after them was somewhat faster. Of any evaluation if none is known to be such.
    """
    changed = max(_rows(note) for _, note, _ in runs)
    every = _timed(commits, EVALUATED)
    alike = [each for each in every if _rows(each[1]) <= FAR_MORE * changed] or every
    following = [seconds for at, _, seconds in alike if at > runs[-1][0]]
    if not alike:
        return _by_load(commits, max(note.share or 0.0 for _, note, _ in runs))
    newest = alike[-1][2]
    if following and newest <= FAR_LONGER * following[0]:
        return min(newest, following[0])
    return newest


def _by_load(commits: Sequence[Commit], changed: float) -> float | None:
    """What an evaluation will take after a change of that share of an input, by the seconds of the
    first load: it also compares all rows, and writes those that changed instead of all.
    """
    loads = _timed(commits, LOADED)
    if not loads:
        return None
    return loads[-1][2] * next((part for most, part in BY_LOAD if changed <= most), BY_LOAD_OF_MANY)


def most_keys_change(commits: Sequence[Commit]) -> bool:
    """Whether most keys could differ in the last two runs that computed which ones."""
    notes = [commit.note for commit in commits]
    attempts = [
        note.reason for note in notes if note.mode in (INCREMENTAL, SUMMED) or note.reason == MANY_KEYS
    ]
    return attempts[-2:] == [MANY_KEYS, MANY_KEYS]


def much_changed(commits: Sequence[Commit]) -> bool:
    """Whether much of an input had changed in the last two runs that read the changes."""
    notes = [commit.note for commit in commits]
    attempts = [note for note in notes if note.mode in (INCREMENTAL, SUMMED) or CHANGED_BY in note.reason]
    return len(attempts) > 1 and all(CHANGED_BY in note.reason for note in attempts[-2:])


def _evaluated(commits: Sequence[Commit]) -> float | None:
    """The seconds of the last run that evaluated the query and corrected the shard. If none did, it
    is assumed to take as long as the first load.
    """
    for mode in (EVALUATED, LOADED):
        if runs := _timed(commits, mode):
            return runs[-1][2]
    return None


def _timed(commits: Sequence[Commit], mode: str) -> list[_Timed]:
    notes = [(at, commit.note) for at, commit in enumerate(commits) if commit.note.mode == mode]
    return [(at, note, note.seconds) for at, note in notes if note.seconds is not None]


def _place(run: _Timed) -> int:
    return run[0]


def _rows(note: CommitNote) -> int:
    return note.rows_inserted + note.rows_deleted
