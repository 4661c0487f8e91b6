"""Claims: which one writer may commit a staged directory that no longer belongs to its first
writer. Pure.

A writer owns what it stages, and no other writer knows of it. Two kinds of directories have no
owner: those that were handed over (`Batch.to_transmittable`), and those that garbage collection
finds. The log decides who gets them, because only one commit can be next:

- A batch that was handed over belongs to the writer whose claim is in the log. A directory has at
  most one claim, and none if it is or was live.
- Garbage collection claims what it is about to delete. A commit that comes before the claim makes
  the files live, and they stay. A commit that comes after it sees the claim and is refused.

A claim is forgotten once its directory is gone: a commit checks that its files exist after it has
read the version that it follows. An engine that is still at work may write a collected directory
again, so that kind of claim is kept for a week.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence

from dbt.adapters.mvsink.shard.errors import InvalidUsage, StorageError
from dbt.adapters.mvsink.shard.state import ROOTS, Change, DataFile, ShardState
from dbt.adapters.mvsink.shard.stored import a_text, an_object, parsed

COLLECTED = "collected:"  # followed by when, ms
KEPT_MS = 7 * 24 * 3_600_000


def name_of(path: str) -> str:
    """The entry of ``batches/`` that a path is in."""
    root, *names = path.split("/")
    return names[0] if root in ROOTS and names else ""


def claim(state: ShardState, files: Sequence[DataFile], owner: str, removed: Collection[str]) -> Change:
    """``owner`` claims the directories of ``files``, which were handed over.

    ``removed`` are paths that the log no longer names. `InvalidUsage` if one of the directories was
    claimed before, or has a file that is or was live.
    """
    wanted = {name_of(file.path) for file in files}
    used = {name_of(path) for path in (*(file.path for file in state.files), *removed)}
    for name in sorted(wanted):
        other = state.claims.get(name)
        if name in used:
            raise InvalidUsage(f"the batch names {name}, which was appended before, by another copy of it")
        if other is not None:
            raise InvalidUsage(f"the batch in {name} {_taken(other)}: it can be received once")
    return Change("schema", {"claims": {**state.claims, **dict.fromkeys(wanted, owner)}})


def condemn(state: ShardState, abandoned: Collection[str], gone: Collection[str], now: int) -> Change | None:
    """Garbage collection claims those of the ``abandoned`` directories (names below ``batches/``)
    that are not live, at the time ``now`` (ms). None if it has claimed them all already.

    ``gone`` are directories with a claim that no longer exist.
    """
    live = {name_of(file.path) for file in state.files}
    new = {name for name in abandoned if name not in live and not collected(state, name)}
    if not new:
        return None
    kept = {name: owner for name, owner in state.claims.items() if name not in gone or _recent(owner, now)}
    return Change("schema", {"claims": {**kept, **dict.fromkeys(sorted(new), f"{COLLECTED}{now}")}})


def collected(state: ShardState, name: str) -> bool:
    """Whether garbage collection has claimed that directory, so that no commit can name it."""
    return state.claims.get(name, "").startswith(COLLECTED)


def require_free(state: ShardState, files: Sequence[DataFile], writer: str, uri: str) -> None:
    """Raises unless ``writer`` may commit the files: `StorageError` if they were collected,
    `InvalidUsage` if another writer has claimed them.
    """
    for name in sorted({name_of(file.path) for file in files}):
        owner = state.claims.get(name, writer)
        if owner.startswith(COLLECTED):
            raise StorageError(
                f"staged directory {name} of shard {uri} was left for over a day and {_taken(owner)}; nothing was committed. "
                "Stage it again"
            )
        if owner != writer:
            raise InvalidUsage(f"staged directory {name} of shard {uri} {_taken(owner)}")


def encode(claims: Mapping[str, str]) -> str:
    """The text in the table's configuration."""
    return json.dumps(dict(sorted(claims.items())))


def decode(text: str) -> dict[str, str]:
    """The inverse of `encode`. Raises `Unreadable` rather than guess who may commit a directory."""
    return {name: a_text(owner) for name, owner in an_object(parsed(text or "{}")).items()}


def _taken(owner: str) -> str:
    return "was collected as garbage" if owner.startswith(COLLECTED) else f"was claimed by writer {owner}"


def _recent(owner: str, now: int) -> bool:
    if not owner.startswith(COLLECTED):
        return False
    when = owner[len(COLLECTED) :]
    return when.isdigit() and int(when) > now - KEPT_MS
