"""Which commits of other tools to a published Delta table the next commit of ours takes back.

A user may set properties and comments that the adapter leaves as they are (`table_log.described`).
A commit that does nothing else stays, and is not counted as undone. It may also have a `protocol`:
`deltalake` turns on every feature that it knows, whatever it commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dbt.adapters.mvsink.shard.stored import parsed

Action = Mapping[str, Any]


@dataclass(frozen=True)
class OthersCommit:
    """A commit of another tool: whether it has ``files`` that were added or removed, and a
    ``protocol``; and the table's description ``before`` and ``after`` it, which is None if it has
    none. Before is None if it is unknown: then it was as the adapter wants it.
    """

    files: bool
    protocol: bool = False
    before: Action | None = None
    after: Action | None = None


def commit_of_others(actions: Iterable[Action], before: Action | None) -> OthersCommit:
    """``before``: the table's description before these actions."""
    kinds: dict[str, Action] = {}
    for action in actions:
        kinds.update(action)
    return OthersCommit(
        "add" in kinds or "remove" in kinds, "protocol" in kinds, before, kinds.get("metaData")
    )


def taken_back(commits: Sequence[OthersCommit], wanted: Action, live: Action, *, same_protocol: bool) -> int:
    """How many of these commits are undone, at least in part, by a commit of ours that turns the
    description ``live`` into ``wanted``. Files are always made right again.
    """
    old, new = _parts(live), _parts(wanted)
    restored = {name for name in {*old, *new} if old.get(name) != new.get(name)}
    count = 0
    for each in commits:
        changed = _changed(each, wanted)
        described = bool(changed) or (each.before is None and each.after is not None)
        only_protocol = each.protocol and not described and not same_protocol
        count += each.files or only_protocol or bool(restored & changed)
    return count


def _changed(commit: OthersCommit, wanted: Action) -> set[str]:
    if commit.after is None:
        return set()
    before, after = _parts(wanted if commit.before is None else commit.before), _parts(commit.after)
    return {name for name in {*before, *after} if before.get(name) != after.get(name)}


def _parts(metadata: Action) -> dict[str, Any]:
    """What a description says, by names that tell what is set apart from what else."""
    schema = metadata.get("schemaString")
    fields = parsed(schema)["fields"] if schema else []
    comments = {each["name"]: (each.get("metadata") or {}).get("comment") for each in fields}
    columns = [(each["name"], each["type"]) for each in fields]
    return {
        "columns": columns,
        "comment": metadata.get("description") or None,
        **{f"comment of {name}": text for name, text in comments.items() if text},
        **{f"property {name}": text for name, text in (metadata.get("configuration") or {}).items()},
    }
