"""What a task's input is: from a relation's name, as dbt rendered it, to a source of changes.

A published shard is read by its log; a Delta table and a table of files are found by what the catalog tells of them. Anything else is
refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dbt.adapters.mvsink.engine import AdapterEngine
from dbt.adapters.mvsink.exceptions import InputRefused
from dbt.adapters.mvsink.inputs import DeltaInput, FilesInput, Input, ShardInput, bind, companion_uri
from dbt.adapters.mvsink.publish import PublishedView, read_published
from dbt.adapters.mvsink.shard import NotAShard, ShardClient, WriteHandle
from dbt.adapters.mvsink.sink import Column, EngineError
from dbt.adapters.mvsink.splice import parts

if TYPE_CHECKING:
    from dbt.adapters.mvsink.impl import MvsinkAdapter

FILE_FORMATS = ("parquet", "orc", "csv", "json")
A_VIEW = "a continual task cannot use a view as its input"


@dataclass(frozen=True)
class Described:
    """What the catalog tells of a relation. ``path``: it is named by its place, as in ``delta.`/a/b` ``."""

    name: str
    provider: str
    location: str
    view: bool = False
    path: bool = False


@dataclass(frozen=True)
class Source:
    """An input that is found, not yet bound to times; ``table`` is None for a shard."""

    columns: tuple[Column, ...]
    shard: ShardInput | None = None
    table: DeltaInput | FilesInput | None = None

    def bound(self, time: int, client: ShardClient, task_uri: str, generation: int, engine: AdapterEngine) -> Input:
        """The input with its changes up to ``time`` (ms) at definite times. A reset task, of another generation, binds anew."""
        if self.shard is not None:
            return self.shard
        assert self.table is not None
        name = self.table.id if generation == 0 else f"{self.table.id}@{generation}"
        return bind(self.table, time, client, companion_uri(task_uri, name), engine)

    def close(self) -> None:
        """Give up the handle."""
        if self.shard is not None and isinstance(self.shard.handle, WriteHandle):
            self.shard.handle.expire()


class Sources:
    """Finds them on one connection."""

    def __init__(self, adapter: MvsinkAdapter, engine: AdapterEngine, storage_options: Mapping[str, str] | None):
        self.adapter, self.engine, self.options = adapter, engine, storage_options
        self.client = ShardClient(storage_options)

    def find(self, model: str, name: str, *, append_only: bool) -> Source:
        """The relation that the task names as its input. Raises `InputRefused`."""
        described = self._described(model, name)
        if described.view:
            published = read_published(self.engine, name)
            if published is None:
                raise InputRefused(
                    model, name, f"{A_VIEW}: make it a self_correcting_mv, or name the table behind it after `on input`"
                )
            shard = self.shard(published, model)
            return Source(shard.columns, shard=shard)
        table: DeltaInput | FilesInput
        if described.provider == "delta":
            table = DeltaInput(described.location, name, self.options)
            return Source(table.columns(table.newest().version), table=table)
        if described.provider not in FILE_FORMATS:
            raise InputRefused(
                model,
                name,
                f"tables of {described.provider} are no input of a task; use a shard, a Delta table, or {FILE_FORMATS}",
            )
        refresh = "" if described.path else f"refresh table {name}"
        table = FilesInput(name, name, described.location, append_only=append_only, refresh=refresh, storage_options=self.options)
        return Source(table.columns(self.engine), table=table)

    def shard(self, published: PublishedView, model: str) -> ShardInput:
        """The shard behind a published view."""
        try:
            reader = self.client.open_reader(published.uri)
        except NotAShard as error:
            raise InputRefused(model, published.uri, f"its shard is gone: {error}") from error
        return ShardInput(WriteHandle.from_read(reader, f"task({model})"), self.engine)

    def published(self, name: str) -> PublishedView | None:
        """The published shard of that name; None if it is something else, or not there."""
        try:
            return read_published(self.engine, name)
        except EngineError:
            return None

    def _described(self, model: str, name: str) -> Described:
        first, *rest = parts(name)
        if len(rest) == 1 and first in ("delta", *FILE_FORMATS) and "/" in rest[0]:
            return Described(name, first, rest[0], path=True)
        try:
            rows = self.engine.query(f"describe extended {name}", "catalog")
        except EngineError as error:
            raise InputRefused(model, name, f"it is not there: {error.message}") from error
        told = {str(row[0]): str(row[1]) for row in rows}
        location = told.get("Location", "").removeprefix("file:")
        return Described(name, told.get("Provider", "").lower(), location, view=told.get("Type") == "VIEW")
