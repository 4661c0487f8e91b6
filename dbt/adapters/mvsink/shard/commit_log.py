"""Parsing a Delta log: a commit's actions, the paths they name, and our own commit metadata.

A path from a log is never used unchecked: `checked_path` refuses every path that could lead out of
the shard's directory.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote

from dbt.adapters.mvsink.shard.authorship import author
from dbt.adapters.mvsink.shard.delta_encoding import NAMESPACE, transactions
from dbt.adapters.mvsink.shard.errors import InvalidUsage
from dbt.adapters.mvsink.shard.frontier import Antichain
from dbt.adapters.mvsink.shard.state import COMPACTION, Change, CommitNote, ReadPoints
from dbt.adapters.mvsink.shard.stored import (
    Unreadable,
    a_number,
    a_text,
    a_truth,
    an_integer,
    an_object,
    member,
    optional,
    parsed,
    texts,
)

T = TypeVar("T")
LOG = "_delta_log"
GENERATION = NAMESPACE + "generation"
# What Delta needs of an action, and what must be of a kind if it is there. `mvsink` reads no more.
NEEDED: Mapping[str, Mapping[str, Callable[[Any], object]]] = {
    "txn": {"appId": a_text, "version": an_integer},
    "add": {
        "path": a_text,
        "size": an_integer,
        "partitionValues": an_object,
        "modificationTime": an_integer,
        "dataChange": a_truth,
    },
    "remove": {"path": a_text, "dataChange": a_truth},
    "metaData": {"id": a_text, "schemaString": a_text, "partitionColumns": texts},
    "protocol": {"minReaderVersion": an_integer, "minWriterVersion": an_integer},
    "commitInfo": {},
}
SOMETIMES: Mapping[str, Callable[[Any], object]] = {
    "stats": a_text,
    "tags": an_object,
    "configuration": an_object,
    "baseRowId": an_integer,
    "defaultRowCommitVersion": an_integer,
    "deletionTimestamp": an_integer,
    "clusteringProvider": a_text,
}
LONGEST_LINE = 2**24  # characters
RUNS = ("append", "advance")  # kinds of the commits that may move the upper
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
STILL_ENCODED = re.compile(r"%(2e|2f|5c)", re.IGNORECASE)


@dataclass(frozen=True)
class Commit:
    """One commit in the log; ``timestamp`` is ms. ``generation``: the one it begins, or None.
    ``author``: what `authorship` recorded.
    """

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
    author: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_run(self) -> bool:
        """Whether a run made it: it moved the upper, with data or without."""
        return self.kind in RUNS and self.upper is not None


def commit_path(version: int) -> str:
    """The path of the commit of ``version``."""
    return f"{LOG}/{version:020d}.json"


def commit_version(path: str) -> int | None:
    """The version of the commit at ``path``; None if it is another file of the log."""
    name = path.rsplit("/", 1)[-1]
    return int(name[:20]) if len(name) == 25 and name.endswith(".json") and name[:20].isdigit() else None


def actions(text: str) -> Iterator[dict[str, Any]]:
    """The actions of a commit. Other lines are skipped: Delta decides whether a log is valid. Very
    long lines (`is_long`) are skipped too: only other tools write them, and Python would need
    minutes to read one.
    """
    for line in lines(text):
        with suppress(Unreadable):
            if not is_long(line):
                yield dict(an_object(parsed(line)))


def is_long(line: str) -> bool:
    """Whether a line is far longer than any that we write."""
    return len(line) > LONGEST_LINE


def lines(text: str) -> list[str]:
    """The lines of a commit, split at line feeds only: a JSON text may have other characters that
    `str.splitlines` would split at.
    """
    return text.split("\n")


def first_garbage(text: str) -> tuple[int, str] | None:
    """The first line that is neither blank nor an action, with its number; None if none is."""
    for number, line in enumerate(lines(text), start=1):
        if line.strip() and not is_long(line) and not _is_action(line):
            return number, line
    return None


def _is_action(line: str) -> bool:
    """Whether Delta can read the line: an object with at least one action, known here or not, and
    with the fields that the action needs.
    """
    try:
        action = an_object(parsed(line))
        for kind, needed in NEEDED.items():
            value = optional(action.get(kind), an_object)
            if value is not None:
                for name, read in needed.items():
                    read(member(value, name))
                for name, read in SOMETIMES.items():
                    optional(value.get(name), read)
        return any(value is not None for value in action.values())
    except Unreadable:
        return False


def fault_of(version: int, text: str) -> str:
    """Why a commit cannot have been written like this: it has no action, or fewer than it says.
    Empty if it is whole as far as one can tell; `first_garbage` judges its lines.
    """
    fault = cut_off(version, text)
    if fault or any(map(is_long, lines(text))) or any(any(action) for action in actions(text)):
        return fault
    return f"commit {commit_path(version)} has no action."


def cut_off(version: int, text: str) -> str:
    """The same, without checking its lines."""
    if not text.strip():
        return f"commit {commit_path(version)} is empty ({len(text)} bytes)."
    try:
        expected = own_metadata(commit_info(text)).get("actions")
    except Unreadable as error:
        return f"the metadata `mvsink` of commit {commit_path(version)} cannot be read: {error}."
    for kind, number in expected.items() if isinstance(expected, dict) else ():
        present = sum(line.startswith(f'{{"{kind}":{{"') for line in lines(text))
        if present != number:
            return f"commit {commit_path(version)} is cut off: it has {present} of {number} actions `{kind}`."
    return ""


def commit_info(text: str) -> Mapping[str, Any]:
    """The commit's `commitInfo`; empty if it has none."""
    info = next((action["commitInfo"] for action in actions(text) if "commitInfo" in action), None)
    return info if isinstance(info, dict) else {}


def own_metadata(info: Mapping[str, Any]) -> Mapping[str, Any]:
    """The metadata in a commit of ours; empty for another writer's. Raises `Unreadable`."""
    return an_object(parsed(a_text(info["mvsink"]))) if info.get("mvsink") else {}


def changes_no_data(text: str) -> bool:
    """Whether a commit leaves a table's contents as they are: its files are marked so, or it is a
    compaction of ours, whose files are not marked so (see `delta`). False for an empty text.
    """
    with suppress(Unreadable):
        if own_metadata(commit_info(text)).get("kind") == COMPACTION:
            return True
    files = [action.get(kind) for action in actions(text) for kind in ("add", "remove")]
    marks = [file.get("dataChange", True) for file in files if isinstance(file, dict)]
    return bool(text) and not any(marks) and not any(map(is_long, lines(text)))


def checked_path(encoded: str) -> str | None:
    """The path that a log names as ``encoded``, relative to the shard; None if it is refused.

    Absolute paths, schemes, `.`, `..` and empty segments, backslashes, NUL, and every text that
    another reader could decode to these are refused: such a path is another spelling of a file, or
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
    note, by = change.note, author()
    return {
        "kind": change.kind,
        "lower": None if change.lower is None else change.lower.stored(),
        "upper": change.sets["upper"].stored() if "upper" in change.sets else None,
        "computed_through": note.computed_through,
        "rows_inserted": note.rows_inserted,
        "rows_deleted": note.rows_deleted,
        "drift": note.drift,
        "seconds": note.seconds,
        "references": dict(note.read.times),
        "versions": dict(note.read.versions),
        **({"newer": dict(note.read.newer)} if note.read.newer else {}),
        "mode": note.mode,
        **({"way": note.way} if note.way else {}),
        **({"share": note.share} if note.share is not None else {}),
        **({"input_changes": note.input_changes} if note.input_changes is not None else {}),
        **({"why": note.why} if note.why else {}),
        **({"reason": note.reason} if note.reason else {}),
        **({"audits": list(note.audits), "audited": note.audited} if note.audited is not None else {}),
        **({"definition": note.definition} if note.definition else {}),
        "actions": _counts(change),
        "writer_id": change.writer_id,
        "host": socket.gethostname(),
        **({"by": dict(by)} if by else {}),
        "purpose": note.purpose,
        "invocation_id": note.invocation_id,
        "token": change.token,
    }


def _counts(change: Change) -> dict[str, int]:
    """How many actions of each kind the commit has, as far as the change shows it."""
    counts = {"add": len(change.adds), "txn": len(transactions(change))}
    return counts if change.remove_all else {**counts, "remove": len(change.removes)}


def commit_of(version: int, text: str) -> Commit:
    """The commit of ``version`` from its file's ``text``. Raises `Unreadable` for metadata of ours
    that `metadata` cannot have made. Another tool's timestamp is only for people.
    """
    info = commit_info(text)
    of = _fields(own_metadata(info))
    timestamp = 0
    with suppress(Unreadable):
        timestamp = an_integer(info.get("timestamp"), least=0)
    return Commit(
        version=version,
        timestamp=timestamp,
        kind=of("kind", a_text, "") or str(info.get("operation") or "foreign"),
        lower=of("lower", _frontier, None),
        upper=of("upper", _frontier, None),
        token=of("token", a_text, ""),
        writer_id=of("writer_id", a_text, ""),
        host=of("host", a_text, ""),
        note=_note(of),
        generation=_transaction(text, GENERATION),
        author=of("by", _texts, {}),
    )


class _Field(Protocol):
    def __call__(self, name: str, kind: Callable[[Any], T], otherwise: T) -> T: ...


def _fields(own: Mapping[str, Any]) -> _Field:
    """A function that reads a field of our metadata by name and kind; earlier releases wrote fewer
    fields.
    """

    def of(name: str, kind: Callable[[Any], T], otherwise: T) -> T:
        value = own.get(name)
        try:
            return otherwise if value is None else kind(value)
        except (Unreadable, InvalidUsage) as error:
            raise Unreadable(f"its metadata `mvsink` has {name!r}: {error}") from error

    return of


def _note(of: _Field) -> CommitNote:
    return CommitNote(
        rows_inserted=of("rows_inserted", an_integer, 0),
        rows_deleted=of("rows_deleted", an_integer, 0),
        drift=of("drift", an_integer, 0),
        computed_through=of("computed_through", an_integer, None),
        purpose=of("purpose", a_text, ""),
        invocation_id=of("invocation_id", a_text, ""),
        seconds=of("seconds", a_number, None),
        read=ReadPoints(
            of("references", _numbers, {}), of("versions", _numbers, {}), of("newer", _texts, {})
        ),
        mode=of("mode", a_text, ""),
        way=of("way", a_text, ""),
        share=of("share", a_number, None),
        input_changes=of("input_changes", an_integer, None),
        why=of("why", a_text, ""),
        reason=of("reason", a_text, ""),
        audits=of("audits", texts, ()),
        audited=of("audited", an_integer, None),
        definition=of("definition", a_text, ""),
    )


def _frontier(value: Any) -> Antichain | None:
    return Antichain.of(an_integer(value))


def _numbers(value: Any) -> Mapping[str, int]:
    return {name: an_integer(number) for name, number in an_object(value).items()}


def _texts(value: Any) -> Mapping[str, str]:
    return {name: a_text(text) for name, text in an_object(value).items()}


def _transaction(text: str, name: str) -> int | None:
    """The value that a commit gives to an application transaction; None if it leaves it as it is.
    Lines about files are not parsed.
    """
    for action in actions("\n".join(line for line in lines(text) if name in line)):
        transaction = action.get("txn")
        if isinstance(transaction, dict) and transaction.get("appId") == name:
            return an_integer(member(transaction, "version"))
    return None
