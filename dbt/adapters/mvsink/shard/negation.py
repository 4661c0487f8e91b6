"""Negations: batches that take back everything that was live before them. Pure.

Where a run changes nearly all rows, it appends all rows again and, in a second directory, a copy of
all live updates at the run's time, with their diffs negated: the *negation*. Every reader that adds
up diffs sees the right collection at every time. From the negation's time on, it and the files that
it negates add up to nothing, so readers of later times need neither, and once `since` has reached
that time, compaction drops both unread.

The path of the negation's files records this in the log: the name of their directory ends with a
digest of the paths of the files that it negates. These are all live files of batches with earlier
times, except those that an earlier negation cancels. If one of them is gone or has a deletion
vector, because another tool wrote to the shard, the digest differs. Then nothing cancels, and the
negation is added up like any other batch, by whole rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from dbt.adapters.mvsink.shard.state import DataFile

_MARK = "-negates-"


@dataclass(frozen=True)
class Cancelled:
    """Live files whose updates add up to nothing from ``time`` (ms) on."""

    time: int
    files: tuple[DataFile, ...]


def negating_name(batch_id: str, negated: Sequence[DataFile]) -> str:
    """The name of the directory ``batch_id`` as a negation of these files."""
    return f"{batch_id}{_MARK}{_digest(negated)}"


def is_negation(batch_id: str) -> bool:
    """Whether a directory of that name was staged as a negation."""
    return _MARK in batch_id


def negatable(files: Sequence[DataFile], time: int) -> tuple[DataFile, ...] | None:
    """The files that a negation at ``time`` (ms) has to negate: all that no other one cancels. None
    if some cannot be: of another tool, or with times that are not known to be earlier.
    """
    left = live_rows(files)
    return left if _before(left, time) == left else None


def live_rows(files: Sequence[DataFile]) -> tuple[DataFile, ...]:
    """Those of the live ``files`` that no negation cancels: what the newest time consists of."""
    cancelled = {file.path for group in cancelled_among(files) for file in group.files}
    return tuple(file for file in files if file.path not in cancelled)


def cancelled_among(files: Sequence[DataFile]) -> tuple[Cancelled, ...]:
    """What negations among the live ``files`` cancel, in the order of their times."""
    negations: dict[str, list[DataFile]] = {}
    for file in files:
        if file.batch_id is not None and is_negation(file.batch_id):
            negations.setdefault(file.batch_id, []).append(file)
    groups: list[Cancelled] = []
    left = tuple(files)
    for time, batch_id in sorted((_time(batch), batch_id) for batch_id, batch in negations.items()):
        negated = _before(left, time)
        own = tuple(negations[batch_id])
        if negating_name("", negated) != batch_id[batch_id.index(_MARK) :] or not _same_rows(negated, own):
            continue
        groups.append(Cancelled(time, (*negated, *own)))
        gone = {file.path for file in groups[-1].files}
        left = tuple(file for file in left if file.path not in gone)
    return tuple(groups)


def _before(files: Sequence[DataFile], time: int) -> tuple[DataFile, ...]:
    """Those of batches whose updates are all known to be earlier than ``time``."""
    return tuple(
        file
        for file in files
        if file.batch_id is not None
        and not file.deletion_vector
        and file.rows is not None
        and file.max_time is not None
        and file.max_time < time
    )


def _time(batch: Sequence[DataFile]) -> int:
    """The earliest time of a negation's updates; all have the same."""
    return min(file.min_time or 0 for file in batch)


def _same_rows(negated: Sequence[DataFile], own: Sequence[DataFile]) -> bool:
    """Whether a negation is whole: it has one update for each that it negates."""
    return not any(file.deletion_vector for file in own) and sum(file.rows or 0 for file in own) == sum(
        file.rows or 0 for file in negated
    )


def _digest(files: Sequence[DataFile]) -> str:
    paths = "\n".join(sorted(file.path for file in files))
    return hashlib.sha256(paths.encode()).hexdigest()[:32]
