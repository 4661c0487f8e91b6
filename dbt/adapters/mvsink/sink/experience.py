"""What earlier runs found: whether it is worthwhile to compute from the changes. Pure.

A run knows what its predecessors took by the notes of their commits. What is no longer among the
newest ones is forgotten, and then tried again.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbt.adapters.mvsink.shard import Commit
from dbt.adapters.mvsink.sink.increment import CHANGED_BY, MANY_KEYS, SLOW, USUALLY_MANY_KEYS
from dbt.adapters.mvsink.sink.ways import EVALUATED, INCREMENTAL, LOADED, SUMMED

REMEMBERED = 20  # commits
WORTHWHILE = 0.8  # of the seconds that evaluating the query takes
FAR_LONGER = 2.0  # then it is tried again: so much changed that both ways may take longer
LEAST = 0.8  # seconds: an incremental run of a model that is not small takes 0.5 or more


def in_vain(commits: Sequence[Commit], *, summed: bool) -> str:
    """Why, after these newest ``commits``, oldest first, the changes of the inputs are not looked
    at; empty if they are. ``summed``: for a query over the model's sums.
    """
    if summed:
        return SLOW if slow(commits, SUMMED) else ""
    return SLOW if slow(commits) else USUALLY_MANY_KEYS if most_keys_change(commits) else ""


def quick(commits: Sequence[Commit]) -> bool:
    """Whether evaluating the query takes hardly longer than any incremental run."""
    evaluated = _evaluated(commits)
    return evaluated is not None and evaluated < LEAST


def slow(commits: Sequence[Commit], mode: str = INCREMENTAL) -> bool:
    """Whether evaluating the query takes hardly longer than the last two runs of this ``mode``."""
    last, evaluated = _seconds(commits, mode)[-2:], _evaluated(commits)
    newest = max((at for at, commit in enumerate(commits) if commit.note.mode == mode), default=-1)
    following = _seconds(commits[newest + 1 :], EVALUATED)
    # a later evaluation may have taken longer because more had changed; so would these runs have
    if following and evaluated is not None and evaluated <= FAR_LONGER * following[0]:
        evaluated = min(evaluated, following[0])
    return len(last) == 2 and evaluated is not None and min(last) > WORTHWHILE * evaluated


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
    if seconds := _seconds(commits, EVALUATED):
        return seconds[-1]
    loaded = _seconds(commits, LOADED)
    return loaded[-1] if loaded else None


def _seconds(commits: Sequence[Commit], mode: str) -> list[float]:
    return [
        commit.note.seconds
        for commit in commits
        if commit.note.mode == mode and commit.note.seconds is not None
    ]
