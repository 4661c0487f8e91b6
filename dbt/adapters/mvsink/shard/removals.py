"""The ledger of removed files: files that the log removed but that still exist, with the times.

The time is that of the commit's file, by the storage's clock. The time inside a commit is by the
clock of the writer's machine.

Delta's log has the removals too, but scattered over all its commits, and old commits can be cleaned
up. So they are kept in a small file beside the log, and garbage collection reads no commit twice,
whether a shard has ten commits or a million.

The ledger only saves reading: if it is missing or unreadable, the remaining commits are read again.
If commits were cleaned up unread (a *gap*), a file's removal may be unknown; collection then counts
from the time it notices the file.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dbt.adapters.mvsink.shard.commit_log import actions, checked_path, commit_path
from dbt.adapters.mvsink.shard.stored import Unreadable, an_integer, an_object, member, parsed

log = logging.getLogger("mvsink.shard")
PLACE = "_mvsink/removed.json"  # VACUUM ignores names that begin with an underscore


@dataclass(frozen=True)
class Removals:
    """Removals of paths by commits up to version ``through``.

    ``times`` is when (ms) the log removed each path; ``gap`` says whether some commits were
    missing.
    """

    through: int = -1
    times: Mapping[str, int] = field(default_factory=dict)
    gap: bool = False

    def text(self, shard_id: str) -> str:
        """The ledger's text."""
        return json.dumps({"shard_id": shard_id, "through": self.through, "removed": dict(self.times)})


def read(text: str | None, shard_id: str, newest: int) -> Removals:
    """The ledger in ``text``; empty if it is another shard's, ahead of version ``newest`` (after a
    log was restored), or unreadable.
    """
    try:
        stored = parsed(text)
        removals = Removals(
            an_integer(member(stored, "through"), least=-1),
            {
                checked_path(p) or "": an_integer(at, 0)
                for p, at in an_object(member(stored, "removed")).items()
            },
        )
        if member(stored, "shard_id") != shard_id or removals.through > newest or "" in removals.times:
            return Removals()
        return removals
    except Unreadable:
        return Removals()


def followed(
    known: Removals,
    newest: int,
    commit_text: Callable[[int], str | None],
    written: Callable[[], Mapping[int, int]],
    uri: str,
) -> Removals:
    """``known`` with the removals of later commits, up to ``newest``.

    ``written`` lists the existing commits with the times (ms) at which the storage wrote them; it
    is called only if there are later commits. A commit that is missing or wholly unreadable is a
    gap. A path that was added again is no longer removed. A path outside the shard's directory is
    skipped with a warning.
    """
    times, gap, version = dict(known.times), False, known.through + 1
    dates = written() if version <= newest else {}
    while version <= newest:
        text = commit_text(version) if version in dates else None
        if not text:
            gap = True
            version = min((later for later in dates if later > version), default=newest + 1)
            continue
        _apply(text, version, times, dates[version], uri)
        version += 1
    return Removals(newest, times, gap)


def _apply(text: str, version: int, times: dict[str, int], committed: int, uri: str) -> None:
    for action in actions(text):
        kind = "add" if "add" in action else "remove"
        file = action.get(kind)
        encoded = file.get("path") if isinstance(file, dict) else None
        if not isinstance(encoded, str):
            continue
        path = checked_path(encoded)
        if path is None:
            log.warning(
                "shard %s: commit %s names %r to %s, outside the shard: left alone",
                uri,
                commit_path(version),
                encoded,
                kind,
            )
        elif kind == "add":
            times.pop(path, None)
        else:
            times[path] = committed
