"""The ledger of removed files: what the log has removed, when, and has not been deleted yet.

Delta's log tells it too, but only by all its commits. So what was read once is kept in a small file
beside the log, and garbage collection reads no commit twice, whether a shard has ten commits or a
million; old commits can be cleaned away.

The ledger only saves reading: without it, or with one that cannot be read, the commits that are
left are read again. Where some of them are gone that nobody had read (a *gap*), a file's removal
may be unknown; collection then counts it from the day it notices the file.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from dbt.adapters.mvsink.shard.commit_log import actions, checked_path, commit_path

log = logging.getLogger("mvsink.shard")
PLACE = "_mvsink/removed.json"  # a name with an underscore is hidden: no VACUUM takes it for data


@dataclass(frozen=True)
class Removals:
    """``times``: when (ms) the log removed a path. Commits up to version ``through`` were read;
    ``gap``: some of them were gone.
    """

    through: int = -1
    times: Mapping[str, int] = field(default_factory=dict)
    gap: bool = False

    def text(self, shard_id: str) -> str:
        """As the ledger keeps it."""
        return json.dumps({"shard_id": shard_id, "through": self.through, "removed": dict(self.times)})


def read(text: str | None, shard_id: str, newest: int) -> Removals:
    """What a ledger tells; nothing if it is another shard's, ahead of version ``newest`` (a log
    that was put back), or unreadable.
    """
    try:
        told = json.loads(text or "")
        removals = Removals(
            int(told["through"]), {checked_path(path) or "": int(at) for path, at in told["removed"].items()}
        )
        if told["shard_id"] != shard_id or removals.through > newest or "" in removals.times:
            return Removals()
        return removals
    except (ValueError, KeyError, TypeError, AttributeError):
        return Removals()


def followed(
    known: Removals,
    newest: int,
    commit_text: Callable[[int], str | None],
    versions: Callable[[], Iterable[int]],
    now_ms: int,
    uri: str,
) -> Removals:
    """``known`` and what the commits up to ``newest`` say since. ``versions`` lists those that are
    still there: asked if one is not.

    A path that was added again is no longer removed. A path outside the shard's directory is passed
    over, with a warning.
    """
    times, gap, version = dict(known.times), False, known.through + 1
    while version <= newest:
        text = commit_text(version)
        if text is None:
            gap = True
            version = min((later for later in versions() if later > version), default=newest + 1)
            continue
        _apply(text, version, times, now_ms, uri)
        version += 1
    return Removals(newest, times, gap)


def _apply(text: str, version: int, times: dict[str, int], now_ms: int, uri: str) -> None:
    committed = now_ms
    for action in actions(text):
        committed = int((action.get("commitInfo") or {}).get("timestamp") or committed)
        kind = "add" if "add" in action else "remove"
        named = (action.get(kind) or {}).get("path")
        if not isinstance(named, str):
            continue
        path = checked_path(named)
        if path is None:
            log.warning(
                "shard %s: commit %s names %r to %s, outside the shard: left alone",
                uri,
                commit_path(version),
                named,
                kind,
            )
        elif kind == "add":
            times.pop(path, None)
        else:
            times[path] = int(action["remove"].get("deletionTimestamp") or committed)
