"""Orphans: published shards of this project and target whose model is gone from the project. A
disabled model counts as gone.

What dbt has listed anyway tells nearly everything: a relation that bears the name of a node is not
looked at, and a published view has its shard's URI in its text. Only whose the shard is must be
asked of its log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from dbt.adapters.mvsink.shard import NotAShard, ShardClient, ShardError
from dbt.adapters.mvsink.shard_sql.properties import owner_of
from dbt.adapters.mvsink.shard_sql.published_view import URI, read_marker

THREADS = 8
_TEXT = re.compile(r"^View Text: ", re.MULTILINE)


@dataclass(frozen=True)
class Orphan:
    """``relation`` is the view, ``uri`` its shard's place, ``unique_id`` the model that is gone."""

    relation: Any
    uri: str
    unique_id: str

    def __str__(self) -> str:
        return f"{self.relation} ({self.unique_id} is gone; shard {self.uri})"


def tells_a_shard(information: str) -> bool:
    """May this be a published shard? ``information`` is what `SHOW TABLE EXTENDED` says of a
    relation.
    """
    return URI in information


def shard_told(information: str) -> str | None:
    """The URI of the shard that a view shows, if what `SHOW TABLE EXTENDED` says of it has the
    view's text with our marker.
    """
    found = _TEXT.search(information)
    marker = read_marker(information[found.end() :]) if found and tells_a_shard(information) else None
    return None if marker is None else marker.uri


def unclaimed(listed: Iterable[Any], nodes: Mapping[str, Any]) -> Iterator[Any]:
    """The views among ``listed`` that may be shards, and that no node is built as."""
    claimed = {(_plain(node.get("schema")), _plain(node.get("alias"))) for node in nodes.values()}
    for relation in listed:
        possible = relation.is_view and (not relation.information or tells_a_shard(relation.information))
        if possible and (_plain(relation.schema), _plain(relation.identifier)) not in claimed:
            yield relation


def orphans(
    shown: Mapping[Any, str],
    storage_options: Mapping[str, str] | None,
    nodes: Mapping[str, Any],
    mine: tuple[str, str],
    patience: float | None = None,
) -> list[Orphan]:
    """The orphans among the relations that show a shard. ``mine``: the project and the target.

    A shard that is not there belongs to nobody. One that cannot be read is an error, or passed over
    after ``patience`` seconds.
    """
    client = (
        ShardClient(storage_options) if patience is None else ShardClient(storage_options, timeout=patience)
    )

    def owner(uri: str) -> dict[str, str]:
        try:
            with client.open_reader(uri) as reader:
                return owner_of(reader.state())
        except NotAShard:
            return {}
        except ShardError:
            if patience is None:
                raise
            return {}

    with ThreadPoolExecutor(THREADS) as pool:
        owners = list(pool.map(owner, shown.values()))
    found = []
    for (relation, uri), told in zip(shown.items(), owners, strict=True):
        if (told.get("project"), told.get("target")) == mine and told["unique_id"] not in nodes:
            found.append(Orphan(relation, uri, told["unique_id"]))
    return found


def _plain(name: object) -> str:
    return str(name).lower()
