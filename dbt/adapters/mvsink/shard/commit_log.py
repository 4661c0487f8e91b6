"""Parsing a Delta log: a commit's actions, the paths they name, and our own commit metadata.

A path from a log is never used unchecked: `checked_path` refuses every path that could lead out of
the shard's directory.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from dbt.adapters.mvsink.shard.delta_encoding import NAMESPACE, transactions
from dbt.adapters.mvsink.shard.frontier import Antichain
from dbt.adapters.mvsink.shard.state import COMPACTION, Change, CommitNote

LOG = "_delta_log"
GENERATION = NAMESPACE + "generation"
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
STILL_ENCODED = re.compile(r"%(2e|2f|5c)", re.IGNORECASE)


@dataclass(frozen=True)
class Commit:
    """One commit in the log; ``timestamp`` is ms. ``generation``: the one it begins, or None."""

    version: int
    timestamp: int
    kind: str
    lower: Antichain | None
    upper: Antichain | None
    token: str
    writer_id: str
    host: str
    note: CommitNote
    generation: int | None = None


def commit_path(version: int) -> str:
    """The path of the commit of ``version``."""
    return f"{LOG}/{version:020d}.json"


def commit_version(path: str) -> int | None:
    """The version of the commit at ``path``; None if it is another file of the log."""
    name = path.rsplit("/", 1)[-1]
    return int(name[:20]) if len(name) == 25 and name.endswith(".json") and name[:20].isdigit() else None


def actions(text: str) -> Iterator[dict[str, Any]]:
    """The actions of a commit. Other lines are skipped: Delta decides whether a log is valid."""
    for line in text.splitlines():
        try:
            action = json.loads(line)
        except ValueError:
            continue
        if isinstance(action, dict):
            yield action


def first_garbage(text: str) -> tuple[int, str] | None:
    """The first line that is neither blank nor an action, with its number; None if none is."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not any(True for _ in actions(line)):
            return number, line
    return None


def fault_of(version: int, text: str) -> str:
    """Why a commit cannot have been written like this: it is empty, or lacks actions that it says
    it has. Empty if it is whole as far as can be known; `first_garbage` has to judge its lines.
    """
    if not text.strip():
        return f"commit {commit_path(version)} is empty ({len(text)} bytes)."
    expected = own_metadata(commit_info(text)).get("actions")
    for kind, number in expected.items() if isinstance(expected, dict) else ():
        present = sum(line.startswith(f'{{"{kind}"') for line in text.splitlines())
        if present != number:
            return f"commit {commit_path(version)} is cut off: it has {present} of {number} actions `{kind}`."
    return ""


def commit_info(text: str) -> Mapping[str, Any]:
    """The commit's `commitInfo`; empty if it has none."""
    info = next((action["commitInfo"] for action in actions(text) if "commitInfo" in action), None)
    return info if isinstance(info, dict) else {}


def own_metadata(info: Mapping[str, Any]) -> Mapping[str, Any]:
    """The metadata in a commit of ours; empty for another writer's."""
    try:
        own = json.loads(info.get("mvsink") or "{}")
    except (TypeError, ValueError):
        return {}
    return own if isinstance(own, dict) else {}


def changes_no_data(text: str) -> bool:
    """Whether a commit leaves a table's contents as they are: its files are marked so, or it is a
    compaction of ours, whose files are not (see `delta`). False for an empty text.
    """
    if own_metadata(commit_info(text)).get("kind") == COMPACTION:
        return True
    files = [action.get(kind) for action in actions(text) for kind in ("add", "remove")]
    marks = [file.get("dataChange", True) for file in files if isinstance(file, dict)]
    return bool(text) and not any(marks)


def checked_path(encoded: str) -> str | None:
    """The path that a log names as ``encoded``, relative to the shard; None if it is refused.

    Refused are absolute paths, schemes, `.`, `..` and empty segments, backslashes, NUL, and every
    text that another reader could decode to these. Such a path is another spelling of a file, or
    leads out of the shard.

    >>> checked_path("batches/1/part%20a.parquet")
    'batches/1/part a.parquet'
    >>> [checked_path(path) for path in ("%2e%2e/x", "a/%252e%252e/x", "file:///x")]
    [None, None, None]
    """
    path = unquote(encoded)
    segments = path.split("/")
    relative = any(segment in ("", ".", "..") for segment in segments)
    if relative or SCHEME.match(path) or STILL_ENCODED.search(path) or "\\" in path or "\0" in path:
        return None
    return path


def metadata(change: Change) -> dict[str, object]:
    """The metadata of a commit, as `commit_of` reads it back."""
    note = change.note
    return {
        "kind": change.kind,
        "lower": None if change.lower is None else change.lower.stored(),
        "upper": None if change.upper is None else change.upper.stored(),
        "computed_through": note.computed_through,
        "rows_inserted": note.rows_inserted,
        "rows_deleted": note.rows_deleted,
        "drift": note.drift,
        "seconds": note.seconds,
        "references": dict(note.references),
        "versions": dict(note.versions),
        "mode": note.mode,
        **({"way": note.way} if note.way else {}),
        **({"share": note.share} if note.share is not None else {}),
        **({"reason": note.reason} if note.reason else {}),
        **({"audits": list(note.audits), "audited": note.audited} if note.audited is not None else {}),
        **({"definition": note.definition} if note.definition else {}),
        "actions": _counts(change),
        "writer_id": change.writer_id,
        "host": socket.gethostname(),
        "purpose": note.purpose,
        "invocation_id": note.invocation_id,
        "token": change.token,
    }


def _counts(change: Change) -> dict[str, int]:
    """How many actions of each kind the commit has, as far as the change shows it."""
    counts = {"add": len(change.adds), "txn": len(transactions(change))}
    return counts if change.remove_all else {**counts, "remove": len(change.removes)}


def commit_of(version: int, text: str) -> Commit:
    """The commit of ``version`` from its file's ``text``."""
    info = commit_info(text)
    own = own_metadata(info)
    lower, upper = own.get("lower"), own.get("upper")
    return Commit(
        version=version,
        timestamp=int(str(info.get("timestamp") or 0)),
        kind=str(own.get("kind") or info.get("operation") or "foreign"),
        lower=None if lower is None else Antichain.of(lower),
        upper=None if upper is None else Antichain.of(upper),
        token=str(own.get("token") or ""),
        writer_id=str(own.get("writer_id") or ""),
        host=str(own.get("host") or ""),
        note=CommitNote(
            rows_inserted=int(own.get("rows_inserted") or 0),
            rows_deleted=int(own.get("rows_deleted") or 0),
            drift=int(own.get("drift") or 0),
            computed_through=own.get("computed_through"),
            purpose=str(own.get("purpose") or ""),
            invocation_id=str(own.get("invocation_id") or ""),
            seconds=own.get("seconds"),
            references=own.get("references") or {},
            versions=own.get("versions") or {},
            mode=str(own.get("mode") or ""),
            way=str(own.get("way") or ""),
            share=own.get("share"),
            reason=str(own.get("reason") or ""),
            audits=tuple(own.get("audits") or ()),
            audited=own.get("audited"),
            definition=str(own.get("definition") or ""),
        ),
        generation=_transaction(text, GENERATION),
    )


def _transaction(text: str, name: str) -> int | None:
    """The value that a commit gives to an application transaction; None if it leaves it as it is.
    Lines of files go unparsed.
    """
    for action in actions("\n".join(line for line in text.splitlines() if name in line)):
        transaction = action.get("txn")
        if isinstance(transaction, dict) and transaction.get("appId") == name:
            return int(transaction["version"])
    return None
