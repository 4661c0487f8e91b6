"""What a verification has read: the bytes of a directory's files, and what their rows add up to.

To hash a file (1.5 GB a second and core) takes far less than to read its rows. So once the rows of
the base have been added up, later verifications hash its files: the same bytes have the same rows.
That is kept in a small file beside the log. It only saves reading: if it is missing, unreadable, or
about something else, all rows are read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from dbt.adapters.mvsink.shard.staging import StagingHandle
from dbt.adapters.mvsink.shard.state import DataFile
from dbt.adapters.mvsink.shard.stored import Unreadable, a_text, an_array, an_object, member, parsed

PLACE = "_mvsink/verified.json"  # VACUUM ignores names that begin with an underscore


@dataclass(frozen=True)
class Verified:
    """``sums`` of the rows in the files with these SHA-256 ``digests`` (hexadecimal, by path).

    ``what``: what was added up, for sums of something else are not comparable.
    """

    what: str
    digests: Mapping[str, str]
    sums: tuple[int, ...]

    def text(self, shard_id: str) -> str:
        return json.dumps(
            {"shard_id": shard_id, "what": self.what, "digests": dict(self.digests), "sums": self.sums}
        )


def read(text: str | None, shard_id: str) -> Verified | None:
    """What is in ``text``; None if it is another shard's, or unreadable."""
    try:
        stored = parsed(text)
        digests = {path: a_text(digest) for path, digest in an_object(member(stored, "digests")).items()}
        sums = tuple(map(_an_exact_sum, an_array(member(stored, "sums"))))
        verified = Verified(a_text(member(stored, "what")), digests, sums)
        return verified if member(stored, "shard_id") == shard_id else None
    except Unreadable:
        return None


def _an_exact_sum(value: Any) -> int:
    """Sums may be of more than 64 bits."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Unreadable(f"expected an integer, not {type(value).__name__}")
    return int(value)


def last_verified(handle: StagingHandle) -> Verified | None:
    """What was kept last."""
    return read(handle.storage.read_text(PLACE), str(handle.shard_id))


def keep_verified(handle: StagingHandle, verified: Verified) -> None:
    """Keep it in place of what was kept before."""
    handle.storage.write_text(PLACE, verified.text(str(handle.shard_id)))


def digests_of(handle: StagingHandle, files: Sequence[DataFile], threads: int) -> dict[str, str]:
    """The SHA-256 of each file's bytes, by path. Raises `StorageError`."""
    paths = [file.path for file in files]
    with ThreadPoolExecutor(threads, "digest") as pool:
        return dict(zip(paths, pool.map(handle.storage.digest, paths), strict=True))
