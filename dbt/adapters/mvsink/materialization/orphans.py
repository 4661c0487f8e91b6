"""Orphans: published shards of this project and target whose model is gone, disabled or renamed.

dbt's own listing answers nearly everything: relations with the name of a node are skipped, and a
published view has its shard's URI in its text. A published table lies in its shard. Only the
shard's owner must be read from its log.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.per_invocation import PerInvocation
from dbt.adapters.mvsink.shard import NotAShard, ShardClient, ShardError
from dbt.adapters.mvsink.shard.state import TABLE
from dbt.adapters.mvsink.shard_sql.properties import definition_digest, owner_of, stored_definition
from dbt.adapters.mvsink.shard_sql.published_view import URI, read_marker

_TEXT = re.compile(r"^View Text: ", re.MULTILINE)
_TABLE = re.compile(rf"^Location: .*/{TABLE}$", re.MULTILINE)


@dataclass(frozen=True)
class Orphan:
    """``relation`` is the view or the table, and ``uri`` the location of its shard. ``unique_id``
    is the model, which is gone or is now built as ``now``. ``digest`` is its `definition_digest`.
    """

    relation: Any
    uri: str
    unique_id: str
    now: str = ""
    digest: str = ""

    @property
    def model(self) -> str:
        """The model's name as in ``ref()``."""
        return self.unique_id.split(".", 2)[-1]

    def __str__(self) -> str:
        fate = f"is now {self.now}" if self.now else "is gone"
        return f"{self.relation} ({self.unique_id} {fate}; shard {self.uri})"


@dataclass
class KnownOrphans:
    """The orphans that the first model of an invocation has listed; the others wait for that. None
    before it.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    orphans: Sequence[Orphan] | None = None


known_orphans: PerInvocation[KnownOrphans] = PerInvocation(KnownOrphans)


def may_show_shard(relation: Any) -> bool:
    """Whether a relation may be a published shard, by dbt's listing (`SHOW TABLE EXTENDED`). One
    that dbt has just made has no such ``information``.
    """
    shown = relation.information
    if not shown:
        return True
    return URI in shown if relation.is_view else _TABLE.search(shown) is not None


def shard_in_listing(information: str) -> str | None:
    """The URI of the shard that a view shows, from its text in `SHOW TABLE EXTENDED`."""
    text = _TEXT.search(information)
    marker = read_marker(information[text.end() :]) if text and URI in information else None
    return None if marker is None else marker.uri


def unclaimed(listed: Iterable[Any], nodes: Mapping[str, Any]) -> Iterator[Any]:
    """The relations among ``listed`` that may show shards and do not have the name of a node."""
    claimed = {(_plain(node.get("schema")), _plain(node.get("alias"))) for node in nodes.values()}
    for relation in listed:
        if may_show_shard(relation) and (_plain(relation.schema), _plain(relation.identifier)) not in claimed:
            yield relation


def orphans(
    shown: Mapping[Any, str],
    storage_options: Mapping[str, str] | None,
    nodes: Mapping[str, Any],
    mine: tuple[str, str],
    timeout: float | None = None,
) -> list[Orphan]:
    """The orphans among relations that show a shard and do not have the name of a node.

    ``shown`` gives the shards' locations, ``mine`` is the project and the target.

    A lost shard has no owner. One that cannot be read is an error, or is skipped after ``timeout``
    seconds.
    """
    client = (
        ShardClient(storage_options) if timeout is None else ShardClient(storage_options, timeout=timeout)
    )

    def recorded_at(uri: str) -> tuple[dict[str, str], str]:
        """The owner, and the digest of the definition."""
        try:
            with client.open_reader(uri) as reader:
                state = reader.state()
                return owner_of(state), definition_digest(stored_definition(state))
        except NotAShard:
            return {}, ""
        except ShardError:
            if timeout is None:
                raise
            return {}, ""

    with ThreadPoolExecutor(limits.OWNERS_AT_ONCE) as pool:
        recorded = list(pool.map(recorded_at, shown.values()))
    return [
        Orphan(relation, uri, owner["unique_id"], _built_as(nodes.get(owner["unique_id"])), digest)
        for (relation, uri), (owner, digest) in zip(shown.items(), recorded, strict=True)
        if (owner.get("project"), owner.get("target")) == mine
    ]


def _built_as(node: Mapping[str, Any] | None) -> str:
    return "" if node is None else f"{node.get('schema')}.{node.get('alias')}"


def _plain(name: object) -> str:
    return str(name).lower()
