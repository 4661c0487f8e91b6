"""The texts in a Delta log: the actions of a commit, the paths they name, and what a commit of ours
says about itself.

A path is never taken from a log as it stands: `checked_path` refuses whatever could lead out of the
shard's directory.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from dbt.adapters.mvsink.shard.frontier import Antichain
from dbt.adapters.mvsink.shard.state import Change, CommitNote

LOG = "_delta_log"
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
STILL_ENCODED = re.compile(r"%(2e|2f|5c)", re.IGNORECASE)


@dataclass(frozen=True)
class Commit:
    """One commit as the log tells it; ``timestamp`` is ms."""

    version: int
    timestamp: int
    kind: str
    lower: Antichain | None
    upper: Antichain | None
    token: str
    writer_id: str
    host: str
    note: CommitNote


def commit_path(version: int) -> str:
    """Where the commit of ``version`` is."""
    return f"{LOG}/{version:020d}.json"


def commit_version(path: str) -> int | None:
    """The version of the commit at ``path``; None if it is another file of the log."""
    name = path.rsplit("/", 1)[-1]
    return int(name[:20]) if len(name) == 25 and name.endswith(".json") and name[:20].isdigit() else None


def actions(text: str) -> Iterator[dict[str, Any]]:
    """The actions of a commit. A line that holds none is passed over: whether a log can be loaded
    at all, Delta decides.
    """
    for line in text.splitlines():
        try:
            action = json.loads(line)
        except ValueError:
            continue
        if isinstance(action, dict):
            yield action


def first_garbage(text: str) -> tuple[int, str] | None:
    """The first line that is neither blank nor an action, with its number; None if there is none."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not any(True for _ in actions(line)):
            return number, line
    return None


def commit_info(text: str) -> Mapping[str, Any]:
    """The commit's `commitInfo`; empty if it has none."""
    found = next((action["commitInfo"] for action in actions(text) if "commitInfo" in action), None)
    return found if isinstance(found, dict) else {}


def own_metadata(info: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a commit of ours says about itself; empty for another's."""
    try:
        told = json.loads(info.get("mvsink") or "{}")
    except (TypeError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def checked_path(encoded: str) -> str | None:
    """The path that a log names as ``encoded``, relative to the shard's directory; None if it is
    refused.

    Refused are absolute paths, schemes, `.`, `..` and empty segments, backslashes, NUL, and
    whatever another reader could decode to these. Such a path is another spelling of a file, or
    leads out of the shard.

    >>> checked_path("batches/1/part%20a.parquet"), checked_path("%2e%2e/x"), checked_path("a/%252e%252e/x"), checked_path("file:///x")
    ('batches/1/part a.parquet', None, None, None)
    """
    path = unquote(encoded)
    segments = path.split("/")
    spelled = any(segment in ("", ".", "..") for segment in segments)
    if spelled or SCHEME.match(path) or STILL_ENCODED.search(path) or "\\" in path or "\0" in path:
        return None
    return path


def metadata(change: Change) -> dict[str, object]:
    """What a commit says about itself, as `commit_of` reads it back."""
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
        "writer_id": change.writer_id,
        "host": socket.gethostname(),
        "purpose": note.purpose,
        "invocation_id": note.invocation_id,
        "token": change.token,
    }


def commit_of(version: int, text: str) -> Commit:
    """The commit of ``version``, whose file holds ``text``."""
    info = commit_info(text)
    told = own_metadata(info)
    lower, upper = told.get("lower"), told.get("upper")
    return Commit(
        version=version,
        timestamp=int(str(info.get("timestamp") or 0)),
        kind=str(told.get("kind") or info.get("operation") or "foreign"),
        lower=None if lower is None else Antichain.of(lower),
        upper=None if upper is None else Antichain.of(upper),
        token=str(told.get("token") or ""),
        writer_id=str(told.get("writer_id") or ""),
        host=str(told.get("host") or ""),
        note=CommitNote(
            rows_inserted=int(told.get("rows_inserted") or 0),
            rows_deleted=int(told.get("rows_deleted") or 0),
            drift=int(told.get("drift") or 0),
            computed_through=told.get("computed_through"),
            purpose=str(told.get("purpose") or ""),
            invocation_id=str(told.get("invocation_id") or ""),
            seconds=told.get("seconds"),
            references=told.get("references") or {},
            versions=told.get("versions") or {},
        ),
    )
