"""A model that is paused (`mvsink hold`): every run leaves it alone until it is released.

It is kept in the shard's properties, and both commits say who and why. It has nothing to do with
holds, which keep a shard's history.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.shard import CommitNote, ShardState, WriteHandle
from dbt.adapters.mvsink.shard.stored import a_text, an_integer, member, property_of

PAUSED = "paused"  # the property


@dataclass(frozen=True)
class Pause:
    """Who paused a model, when (wall clock, ms), and why, if they said so."""

    by: str
    at: int
    reason: str = ""

    @property
    def words(self) -> str:
        """``paused by alice at 2026-11-20T15:00:00Z: wrong rates``"""
        return f"paused by {self.by} at {iso(self.at)}" + (f": {self.reason}" if self.reason else "")


def pause_of(state: ShardState) -> Pause | None:
    """None if runs may write the shard. A dropped shard is not paused: the next run replaces it."""
    return property_of(state, PAUSED, None, _pause) if state.dropped is None else None


def _pause(kept: Any) -> Pause | None:
    if kept is None:
        return None
    by, at = a_text(member(kept, "by")), an_integer(member(kept, "at"))
    return Pause(by, at, a_text(kept.get("reason", "")))


def pause(handle: WriteHandle, wanted: Pause) -> None:
    """Pause the model, or change who paused it and why."""
    handle.set_properties(
        {PAUSED: json.dumps(asdict(wanted), sort_keys=True)}, CommitNote(purpose=wanted.words)
    )


def release_pause(handle: WriteHandle, by: str) -> None:
    """Let runs write it again; no commit if they may."""
    if handle.state().properties.get(PAUSED, "null") != "null":
        handle.set_properties({PAUSED: "null"}, CommitNote(purpose=f"released by {by}"))
