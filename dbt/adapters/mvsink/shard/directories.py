"""The live files of one version as directories of batches, of which one is the base and some cancel
each other. Pure.

    base            the largest: what was there at first, and all that was merged into it since
    recent          the others, which every reader compares with it
    cancelled       what a negation takes back, and the negation itself

The base bears no mark. It is the largest directory that qualifies; of equally large ones it is the
earliest (`base_of`). Readers and compaction differ in which directories qualify:

- A reader (`shard_sql/layout.py`) joins the base with the rest by hash, so it needs one in which
  every row has a hash, every diff is positive and all times are equal (`Directory.compacted`).
- Compaction (`policy`) rewrites the base only after a tenth of its rows was appended. That bound
  needs the largest of all batches that may be merged, whatever it contains (`Directory.settled`). A
  larger batch may not qualify as the readers' base, such as a batch of deletions only. If
  compaction then took the readers' base, it would write that larger batch again after every append.

The two are the same wherever compaction has merged the base and nothing larger was appended since.

**Negations** take back everything that was live before them. Where a run changes nearly all rows,
it appends all rows again and, in a second directory, a copy of all live updates at the run's time,
with their diffs negated: the *negation*. Every reader that adds up diffs sees the right collection
at every time. From the negation's time on, it and the files that it negates add up to nothing, so
readers of later times need neither, and once `since` has reached that time, compaction drops both
unread.

The path of the negation's files records this in the log: the name of their directory ends with a
digest of the paths of the files that it negates. These are all live files of batches with earlier
times, except those that an earlier negation cancels. If one of them is gone or has a deletion
vector, because another tool wrote to the shard, the digest differs. Then nothing cancels, and the
negation is added up like any other batch, by whole rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from dbt.adapters.mvsink.shard.state import TABLE, DataFile

_MARK = "-negates-"


@dataclass(frozen=True)
class Directory:
    """The live files of one batch."""

    batch_id: str
    files: tuple[DataFile, ...]

    @property
    def root(self) -> str:
        """The directory of the shard that it is in."""
        return self.files[0].path.split("/")[0] or TABLE

    @cached_property
    def rows(self) -> int:
        return sum(file.rows or 0 for file in self.files)

    @property
    def foldable(self) -> int:
        """The number of rows that a base can take in: all except errors."""
        return sum((file.rows or 0) - (file.errors or 0) for file in self.files)

    @property
    def trusted(self) -> bool:
        return all(file.trusted for file in self.files)

    @property
    def may_hold_errors(self) -> bool:
        return any(file.errors != 0 for file in self.files)

    @property
    def max_diff(self) -> int | None:
        return _bound(max, [file.max_diff for file in self.files])

    @property
    def min_diff(self) -> int | None:
        return _bound(min, [file.min_diff for file in self.files])

    @property
    def first_time(self) -> int:
        return min((file.min_time for file in self.files if file.min_time is not None), default=0)

    @property
    def time(self) -> int | None:
        """The one time (ms) of all its updates; None if there are several or unknown ones."""
        times = {time for file in self.files for time in (file.min_time, file.max_time)}
        return times.pop() if len(times) == 1 else None

    @property
    def compacted(self) -> bool:
        """Whether this qualifies as the readers' base: one time, and only positive diffs."""
        return self.consolidated and (self.min_diff or 0) >= 1

    @property
    def consolidated(self) -> bool:
        """Whether no row is both inserted and deleted, as in a hashed batch staged for one time."""
        return self.trusted and self.time is not None

    def settled(self, since: int) -> bool:
        """Whether no reader can distinguish its times any more: all are at or before ``since``."""
        return all(file.max_time is not None and file.max_time <= since for file in self.files)


@dataclass(frozen=True)
class Cancelled:
    """Live files whose updates add up to nothing from ``time`` (ms) on."""

    time: int
    files: tuple[DataFile, ...]


def directories_of(files: Iterable[DataFile]) -> tuple[list[Directory], list[DataFile]]:
    """The directories of ``files``, and the files of other tools, which are in none."""
    batches: dict[str, list[DataFile]] = {}
    foreign: list[DataFile] = []
    for file in files:
        (foreign if file.batch_id is None else batches.setdefault(file.batch_id, [])).append(file)
    return [Directory(batch_id, tuple(batch)) for batch_id, batch in batches.items()], foreign


def base_of(candidates: Iterable[Directory]) -> Directory | None:
    """The base among the directories that qualify: the largest, and the earliest of equally large
    ones.
    """
    return max(candidates, key=lambda each: (each.rows, -each.first_time, each.batch_id), default=None)


def negating_name(batch_id: str, negated: Sequence[DataFile]) -> str:
    """The name of the directory ``batch_id`` as a negation of these files."""
    return f"{batch_id}{_MARK}{_digest(negated)}"


def is_negation(batch_id: str) -> bool:
    """Whether a directory of that name was staged as a negation."""
    return _MARK in batch_id


def negatable(files: Sequence[DataFile], time: int) -> tuple[DataFile, ...] | None:
    """The files that a negation at ``time`` (ms) has to negate: all that no other negation cancels.
    None if one cannot be negated: another tool wrote it, or its times are not known to be earlier.
    """
    left = uncancelled(files)
    return left if _before(left, time) == left else None


def uncancelled(files: Sequence[DataFile]) -> tuple[DataFile, ...]:
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
    """The files of batches whose updates are all known to be earlier than ``time``."""
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
    """Whether a negation is whole: it has one update for each update that it negates."""
    return not any(file.deletion_vector for file in own) and sum(file.rows or 0 for file in own) == sum(
        file.rows or 0 for file in negated
    )


def _digest(files: Sequence[DataFile]) -> str:
    paths = "\n".join(sorted(file.path for file in files))
    return hashlib.sha256(paths.encode()).hexdigest()[:32]


def _bound(choose: Callable[[list[int]], int], bounds: Sequence[int | None]) -> int | None:
    known = [bound for bound in bounds if bound is not None]
    return choose(known) if known and len(known) == len(bounds) else None
