"""Progress: what a shard's contents were computed from, committed with them.

If the inputs still stand at the positions that the last contents were computed from, a run has
nothing to compute, provided that nothing else changed the contents. So each commit also records
which files were live after it. A file that another tool added or removed shows as a difference, and
so does an append by a program that records no progress. Compaction keeps the contents, and so the
progress.

A small file beside the log records what a verification has read: digests of the bytes of a
directory's files, and what their rows add up to (`Verified`). Hashing a file (1.5 GB per second and
core) takes far less time than reading its rows, and the same bytes have the same rows. The record
only saves reading: if it is missing, unreadable, or about something else, all rows are read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from dbt.adapters.mvsink.shard.staging import StagingHandle
from dbt.adapters.mvsink.shard.state import Change, DataFile, ShardState, apply, setting
from dbt.adapters.mvsink.shard.stored import Unreadable, a_text, an_array, an_object, member, parsed

UNKNOWN = 0
PLACE = "_mvsink/verified.json"  # VACUUM ignores names that begin with an underscore


@dataclass(frozen=True)
class Progress:
    """What contents were computed from. A field that is None stays as it was.

    ``plan`` is a number for everything except the inputs that decides the contents, or `UNKNOWN`.
    ``positions`` has, by its id, where each input was read. ``files`` is `files_number` of the
    version that the contents were compared with; if other files are live at the commit, the plan is
    recorded as unknown. ``verified`` is the time (ms) of a run that compared all contents by an
    independent digest. ``drifted`` is the time (ms) at which contents were wrong although they
    should have followed from the inputs. ``suspended`` is a `Suspended`. ``verifying`` is how long
    (ms) a run took that verified because that was due, ``spent`` how long any other.
    """

    plan: int = UNKNOWN
    positions: Mapping[str, int] = field(default_factory=dict)
    files: int = 0
    verified: int | None = None
    drifted: int | None = None
    suspended: int | None = None
    verifying: int | None = None
    spent: int | None = None

    @property
    def known(self) -> bool:
        """Whether the plan is known."""
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
    """``change``, decided on ``state``, which also records ``progress``. A change of contents
    without progress records that their origin is unknown.
    """
    if progress is not None:
        return setting(
            replace(change, inputs={**change.inputs, **progress.positions}),
            plan=progress.plan if progress.files == files_number(state.files) else UNKNOWN,
            verified=progress.verified,
            unverified=state.unverified + 1 if progress.verified is None else 0,
            verifying=progress.verifying,
            spent=state.spent + (progress.spent or 0) if progress.verifying is None else 0,
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


@dataclass(frozen=True)
class Verified:
    """``sums`` of the rows in the files with these SHA-256 ``digests`` (hexadecimal, by path).

    ``what`` says what was added up: sums of something else are not comparable.
    """

    what: str
    digests: Mapping[str, str]
    sums: tuple[int, ...]

    def text(self, shard_id: str) -> str:
        return json.dumps(
            {"shard_id": shard_id, "what": self.what, "digests": dict(self.digests), "sums": self.sums}
        )


def _verified_in(text: str | None, shard_id: str) -> Verified | None:
    """The `Verified` in ``text``; None if it is another shard's, or unreadable."""
    try:
        stored = parsed(text)
        digests = {path: a_text(digest) for path, digest in an_object(member(stored, "digests")).items()}
        sums = tuple(map(_an_exact_sum, an_array(member(stored, "sums"))))
        verified = Verified(a_text(member(stored, "what")), digests, sums)
        return verified if member(stored, "shard_id") == shard_id else None
    except Unreadable:
        return None


def _an_exact_sum(value: Any) -> int:
    """Sums may exceed 64 bits."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Unreadable(f"expected an integer, not {type(value).__name__}")
    return int(value)


def last_verified(handle: StagingHandle) -> Verified | None:
    """The newest `Verified` that was kept; None if there is none."""
    return _verified_in(handle.storage.read_text(PLACE), str(handle.shard_id))


def keep_verified(handle: StagingHandle, verified: Verified) -> None:
    """Keep ``verified`` in place of the previous one."""
    handle.storage.write_text(PLACE, verified.text(str(handle.shard_id)))


def digests_of(handle: StagingHandle, files: Sequence[DataFile], threads: int) -> dict[str, str]:
    """The SHA-256 of each file's bytes, by path. Raises `StorageError`."""
    paths = [file.path for file in files]
    with ThreadPoolExecutor(threads, "digest") as pool:
        return dict(zip(paths, pool.map(handle.storage.digest, paths), strict=True))
