"""What verifications compare with, and which models prove in this run that the changes of their
queries are read correctly (`sink.trust`).

If the model's query, as its author wrote it, reads what a run reads, a verification evaluates that
text. So it checks everything that this adapter made of the text, from the replaced relations to the
views' texts.

A new number of the rules makes every model's reading a new one. A run in which all models evaluated
their queries would take far longer than the last, so only a tenth of them do; the others follow in
later runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.engine import DataflowError, EngineError
from dbt.adapters.mvsink.inputs.position import shard_position
from dbt.adapters.mvsink.inputs.reference import Reference, References, newest_version
from dbt.adapters.mvsink.materialization.context import RunContext
from dbt.adapters.mvsink.per_invocation import PerInvocation
from dbt.adapters.mvsink.published import published_version
from dbt.adapters.mvsink.shard import ReadHandle, ShardError, ShardState, files_number
from dbt.adapters.mvsink.shard_sql.published_view import PublishedView, fingerprint, read_published
from dbt.adapters.mvsink.sink import Independent, Proving, ReadsLater
from dbt.adapters.mvsink.user_sql.marks import query_at


@dataclass
class _Admitted:
    """The models that an invocation has admitted."""

    models: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def admit(self, model: str, most: int) -> bool:
        with self.lock:
            if model not in self.models and len(self.models) >= most:
                return False
            self.models.add(model)
            return True


_admitted: PerInvocation[_Admitted] = PerInvocation(_Admitted)


def independent(
    context: RunContext, references: References, recorded: Callable[[str], int | None]
) -> Independent:
    """What the contents of the model are compared with, and when. ``references`` is what its query
    reads, and ``recorded`` the progress of its contents.
    """
    own_text = CompiledText(context, references)
    if context.options.verify.never or context.read_only or context.invocation.rehearsal:
        return Independent(own_text)

    def admitted() -> bool:
        most = max(1, _views(context.manifest) // limits.PROVING_SHARE)
        return _admitted.of(context.invocation.id).admit(context.unique_id, most)

    return Independent(own_text, Proving(recorded, admitted))


def _views(manifest: Any) -> int:
    """The number of maintained views."""
    nodes = manifest.nodes.values()
    return sum(node.config.materialized == "self_correcting_mv" for node in nodes)


@dataclass(frozen=True)
class CompiledText:
    """See `sink.OwnText`. ``references`` is what the run reads in place of the relations that the
    text names.
    """

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
            current = _is_current(published, reader, state)
        read, now = (files_number(each.files) for each in (reference.state, state))
        if not current:
            raise ReadsLater(f"{name} does not show its newest contents")
        position = shard_position(name, state, reference.time_for(time), ())
        if position.problem or read != now or position.newest > position.number:
            raise ReadsLater(position.problem or f"{name} was written since")


def _is_current(published: PublishedView, reader: ReadHandle, state: ShardState) -> bool:
    """Whether what is published shows ``state``."""
    if not published.table:
        return published.files == fingerprint(state)
    shown = published_version(reader)
    return shown is not None and shown.shows(state.generation, files_number(state.files))
