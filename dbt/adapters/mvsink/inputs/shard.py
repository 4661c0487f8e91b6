"""A shard as an input: its times and its changes are exact.

Each answer is about the newest version of the log; answers about times before the upper are final,
so versions never disagree. Missing history is refused with both bounds, never skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dbt.adapters.mvsink.engine import Column, Engine, shard_columns, sql
from dbt.adapters.mvsink.inputs.errors import HistoryGone
from dbt.adapters.mvsink.inputs.protocol import PendingTime, difference
from dbt.adapters.mvsink.shard import (
    Antichain,
    InvalidUsage,
    ReadHandle,
    ShardReplaced,
    ShardState,
    WriteHandle,
)
from dbt.adapters.mvsink.shard_sql import Layout, NotReadable, NotRefreshed, as_of
from dbt.adapters.mvsink.shard_sql.as_of import Projection
from dbt.adapters.mvsink.shard_sql.layout import damages


class ShardInput:
    """See `Input`. With a ``projection``, only these columns of the shard are the input.

    Raises `HistoryGone` outside the readable history, `NotRefreshed` for a shard without contents,
    `ShardReplaced` if the shard has another generation than when the handle was opened.
    """

    def __init__(
        self,
        handle: WriteHandle | ReadHandle,
        engine: Engine,
        id: str = "",
        projection: Projection | None = None,
    ):
        self.handle = handle
        self.engine = engine
        self._id = id or str(handle.shard_id)
        self._projection = projection
        self._cached: tuple[int, Layout] | None = None

    @property
    def id(self) -> str:
        return self._id

    @property
    def columns(self) -> tuple[Column, ...]:
        return self._projection.columns if self._projection else shard_columns(self.handle.schema)

    @property
    def generation(self) -> int:
        return self.handle.generation

    def frontier(self) -> Antichain:
        return self.handle.state().upper

    def pending(self, lower: int, upper: int) -> list[PendingTime]:
        parts = self.layout(self.require_changes(lower, upper))
        known = as_of.known_times(parts, lower, upper) if lower < upper else {}
        if known == {} or (known is not None and self._projection is None):
            return [PendingTime(time, signs.inserts, signs.deletes) for time, signs in known.items()]
        query = as_of.times_between(parts, lower, upper, self._projection)
        return PendingTime.of_rows(self.engine.query(query, "pending"))

    def changes(self, lower: int, upper: int) -> str:
        return as_of.changes_between(
            self.layout(self.require_changes(lower, upper)), lower, upper, self._projection
        )

    def contents(self, time: int) -> str:
        query = as_of.collection_as_of(self.layout(self.require_readable(time)), time)
        part = self._projection
        return query if part is None else _projected(query, part, (), part.where)

    def errors(self, time: int) -> list[str]:
        """The messages of the errors that are live as of ``time`` (ms). Runs no query if there can
        be none.
        """
        query = as_of.live_errors_as_of(self.layout(self.require_readable(time)), time)
        return [str(row[0]) for row in self.engine.query(query, "errors")] if query else []

    def snapshot(self, time: int) -> str:
        return self._snapshot(self.require_readable(time), time)

    def difference(self, before: str, time: int) -> str:
        return difference(self.columns, self.snapshot(time), before, time)

    def before(self, generation: int, time: int) -> str:
        """The `snapshot` at ``time`` of an older ``generation``, for `difference`.

        Its files exist until garbage collection.

        Raises `HistoryGone` if its log or its files are gone.
        """
        state = self.handle.last_of(generation)
        if state is None:
            raise HistoryGone(
                self.id, f"generation {generation} is no longer in the log; the shard is of {self.generation}"
            )
        with self._translated():
            as_of.check_readable(state, time)
        if damages(state, self.handle.files_in):
            raise HistoryGone(
                self.id, f"files of generation {generation} were removed; the shard is of {self.generation}"
            )
        return self._snapshot(state, time)

    def hold(self, holder: str, time: int, *, forward: bool = True) -> None:
        with self._translated():
            try:
                self._writer().hold(holder, time, forward=forward)
            except ShardReplaced:
                raise
            except InvalidUsage as error:
                state = self.handle.state()
                since, upper = (bound.as_option() for bound in (state.since, state.upper))
                problem = (
                    f"history from {time} on is needed, and it {'has ended' if since is None else f'begins at {since}'}; its upper is "
                    f"{'no end' if upper is None else upper}. To start again, reset the task"
                )
                raise HistoryGone(self.id, problem) from error

    def release(self, holder: str) -> None:
        self._writer().release_hold(holder)

    def require_readable(self, time: int) -> ShardState:
        """The newest version, if it can be read as of ``time``."""
        state = self.handle.state()
        with self._translated():
            as_of.check_readable(state, time)
        return state

    def require_changes(self, lower: int, upper: int) -> ShardState:
        """The newest version, if it has the changes with ``lower <= time < upper``."""
        state = self.handle.state()
        with self._translated():
            as_of.check_changes(state, lower, upper)
        return state

    def layout(self, state: ShardState) -> Layout:
        """The parts of ``state``'s live files; the last result is cached."""
        if self._cached is None or self._cached[0] != state.version:
            self._cached = state.version, Layout.of(self.handle, state)
        return self._cached[1]

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except NotReadable as error:
            raise HistoryGone(self.id, str(error)) from error
        except NotRefreshed as error:
            raise NotRefreshed(self.id) from error

    def _snapshot(self, state: ShardState, time: int) -> str:
        query = as_of.snapshot_as_of(self.layout(state), time)
        part = self._projection
        return query if part is None else _projected(query, part, as_of.UPDATE, part.updates)

    def _writer(self) -> WriteHandle:
        if isinstance(self.handle, WriteHandle):
            return self.handle
        return WriteHandle.from_read(self.handle, "hold")


def _projected(query: str, part: Projection, more: tuple[str, ...], where: str) -> str:
    items = sql.columns([*(column.name for column in part.columns), *more])
    return f"select {items} from (\n{query}\n)" + (f" where {where}" if where else "")
