"""The model's query as its author wrote it, for verifications: where it reads what a run reads, it
proves what this adapter made of it, from the relations that were replaced to the views' texts.
"""

from __future__ import annotations

from dataclasses import dataclass

from dbt.adapters.mvsink.engine import DataflowError, EngineError
from dbt.adapters.mvsink.inputs.position import shard_position
from dbt.adapters.mvsink.inputs.reference import Reference, References, newest_version
from dbt.adapters.mvsink.materialization.context import RunContext
from dbt.adapters.mvsink.materialization.publish import fingerprint
from dbt.adapters.mvsink.shard import ShardError, files_number
from dbt.adapters.mvsink.shard_sql.published_view import read_published
from dbt.adapters.mvsink.sink import ReadsLater
from dbt.adapters.mvsink.user_sql.marks import query_at


@dataclass(frozen=True)
class CompiledText:
    """See `sink.OwnText`. ``references``: what the run reads in place of what the text names."""

    context: RunContext
    references: References

    def at(self, time: int) -> str:
        """See `sink.OwnText`."""
        self.check(time)
        return query_at(self.context.compiled, time)

    def check(self, time: int) -> None:
        """See `sink.OwnText`."""
        for name, reference in self.references.shards.items():
            try:
                self._check_shard(name, reference, time)
            except (ShardError, DataflowError) as error:
                raise ReadsLater(f"{name} cannot be read: {error}") from error
        for name, version in self.references.pinned.items():
            try:
                newest = newest_version(self.context.engine, name)
            except EngineError as error:
                raise ReadsLater(f"{name} cannot be read: {error.message}") from error
            if newest != version:
                raise ReadsLater(f"{name} has a later version")

    def _check_shard(self, name: str, reference: Reference, time: int) -> None:
        published = read_published(self.context.engine, name)
        if published is None:
            raise ReadsLater(f"{name} shows no shard any more")
        with self.context.client.open_reader(published.uri) as reader:
            state = reader.state()
        read, now = (files_number(each.files) for each in (reference.state, state))
        if published.files != fingerprint(state):
            raise ReadsLater(f"{name} does not show its newest contents")
        position = shard_position(name, state, reference.time_for(time), ())
        if position.problem or read != now or position.newest > position.number:
            raise ReadsLater(position.problem or f"{name} was written since")
