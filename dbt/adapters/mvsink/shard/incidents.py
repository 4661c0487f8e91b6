"""What is wrong with a model's last run, kept beside the shards: the log of a shard knows only what
was committed.

An incident is a small file of the shards' root, one for each model of a target. It says at which
version of the shard it happened. So it is over as soon as the log has a later run, whatever clocks
say; a run that has nothing to commit deletes the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from urllib.parse import quote

from dbt.adapters.mvsink.shard.delta import DeltaStorage
from dbt.adapters.mvsink.shard.storage import is_unfinished
from dbt.adapters.mvsink.shard.stored import (
    Unreadable,
    a_text,
    an_integer,
    an_object,
    member,
    optional,
    parsed,
    texts,
)

INCIDENTS = "_mvsink/incidents"  # below the shards' root


class Trouble(str, Enum):
    """What became of the run."""

    FAILED = "failed"
    SKIPPED = "skipped"  # because a model upstream failed
    WARNED = "warned"


@dataclass(frozen=True)
class Incident:
    """A run that did not end as it should. Times are ms.

    ``relation`` is ``schema.identifier``. ``since`` is the first of the ``runs`` in a row that had
    this trouble. ``messages`` are the error, or the warnings. ``where`` is the model's file.
    ``shard_id`` and ``version`` are those of the shard after the run; None if there was none.
    """

    relation: str
    project: str
    unique_id: str
    target: str
    trouble: Trouble
    time: int
    since: int
    runs: int
    messages: tuple[str, ...]
    where: str = ""
    host: str = ""
    invocation_id: str = ""
    author: Mapping[str, str] = field(default_factory=dict)
    shard_id: str | None = None
    version: int | None = None

    @property
    def name(self) -> str:
        """The name of its file."""
        return file_name(self.unique_id, self.target)

    def is_over(self, shard_id: str, run: int | None) -> bool:
        """Whether the shard has a later run. ``run`` is the version of its newest one, if any."""
        return run is not None and (shard_id != self.shard_id or run > (self.version or 0))


def file_name(unique_id: str, target: str) -> str:
    """The name of the file of a model's incident in a target."""
    return f"{quote(target, safe='')}.{quote(unique_id, safe='')}.json"


class Incidents:
    """The incidents below a shards' root."""

    def __init__(self, root: str, storage_options: Mapping[str, str] | None = None):
        self._store = DeltaStorage(root, storage_options)

    def names(self) -> frozenset[str]:
        """The names of all files, from one listing."""
        paths = [file.path for file in self._store.list_files(INCIDENTS)]
        return frozenset(path.rsplit("/", 1)[-1] for path in paths if not is_unfinished(path))

    def read(self, name: str) -> Incident | None:
        """The incident in a file; None if it is gone, or is not what `write` writes."""
        try:
            return _incident(parsed(self._store.read_text(_path(name))))
        except Unreadable:
            return None

    def write(self, incident: Incident) -> None:
        """Keep the incident in place of the model's last one."""
        self._store.write_text(_path(incident.name), json.dumps(as_values(incident)))

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""
        self._store.delete([_path(name)])


def as_values(incident: Incident) -> dict[str, Any]:
    """The incident as JSON, under its fields' names."""
    values = {**vars(incident), "trouble": incident.trouble.value, "author": dict(incident.author)}
    return {**values, "messages": list(incident.messages)}


def _path(name: str) -> str:
    return f"{INCIDENTS}/{name}"


def _incident(value: Any) -> Incident:
    words = ("relation", "project", "unique_id", "target", "where", "host", "invocation_id")
    numbers = ("time", "since", "runs")
    read: dict[str, Any] = {name: a_text(member(value, name)) for name in words}
    read |= {name: an_integer(member(value, name), least=0) for name in numbers}
    try:
        trouble = Trouble(a_text(member(value, "trouble")))
    except ValueError as error:
        raise Unreadable(str(error)) from error
    author = an_object(member(value, "author"))
    return Incident(
        **read,
        trouble=trouble,
        messages=texts(member(value, "messages")),
        author={name: a_text(text) for name, text in author.items()},
        shard_id=optional(member(value, "shard_id"), a_text),
        version=optional(member(value, "version"), an_integer),
    )
