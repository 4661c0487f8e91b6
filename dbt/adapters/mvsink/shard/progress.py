"""Progress: what a shard's contents were computed from, committed with them.

A run whose inputs stand where the last contents were computed from has nothing to compute. That is
known only if nothing else changed the contents: so each commit also records which files were live
after it. A file that another tool added or removed, and an append by a program that knows no
progress, show as a difference. Compaction, which keeps contents, keeps the progress.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from dbt.adapters.mvsink.shard.state import Change, DataFile, ShardState, apply, setting

UNKNOWN = 0


@dataclass(frozen=True)
class Progress:
    """``plan``: a number for everything but the inputs that decides the contents, or `UNKNOWN`.

    ``positions``: where each input was read, by its id. ``files``: `files_number` of the version
    that the contents were compared with; if other files are live at the commit, the plan is
    recorded as unknown. ``verified``: the time (ms) of a run that compared all contents by an
    independent digest. ``drifted``: the time (ms) at which contents were wrong although
    they should have followed from the inputs. ``suspended``: a `Suspended`. None: as before.
    """

    plan: int = UNKNOWN
    positions: Mapping[str, int] = field(default_factory=dict)
    files: int = 0
    verified: int | None = None
    drifted: int | None = None
    suspended: int | None = None

    @property
    def known(self) -> bool:
        """Whether it says what contents were computed from."""
        return self.plan != UNKNOWN


def untouched(state: ShardState) -> bool:
    """Whether the contents are still those that the last progress was recorded with."""
    return state.plan != UNKNOWN and state.known_files == files_number(state.files)


def files_number(files: Iterable[DataFile]) -> int:
    """A number from 1 to 2^63-1 for a set of files: paths, sizes and deletion vectors."""
    return number_of(f"{file.path}|{file.size}|{file.deletion_vector}" for file in files)


def number_of(texts: Iterable[str]) -> int:
    """A number from 1 to 2^63-1 for a set of texts: half of the first 64 bits of their SHA-256."""
    digest = hashlib.sha256()
    for text in sorted(texts):
        digest.update(f"{len(text)}:{text}".encode())
    return int.from_bytes(digest.digest()[:8], "big") >> 1 or 1


def recording(state: ShardState, change: Change, progress: Progress | None = None) -> Change:
    """``change``, decided on ``state``, with what it records: ``progress``, or for a change of
    contents without one that their origin is unknown.
    """
    if progress is not None:
        return setting(
            replace(change, inputs={**change.inputs, **progress.positions}),
            plan=progress.plan if progress.files == files_number(state.files) else UNKNOWN,
            verified=progress.verified,
            unverified=state.unverified + 1 if progress.verified is None else 0,
            drifted=progress.drifted,
            suspended=progress.suspended,
            known_files=files_number(apply(state, change).files),
        )
    if change.kind == "append":
        return change if state.plan == UNKNOWN else setting(change, plan=UNKNOWN)
    rewritten = bool(change.adds or change.removes or change.remove_all)
    if not rewritten or not untouched(state):
        return change
    return setting(change, known_files=files_number(apply(state, change).files))
