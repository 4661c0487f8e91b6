"""`mvsink purge`: rows leave everything that a model keeps: its shard (`sink.purging`), its
published table, the shards below it (a task's companions, a view's sums), and the files that none
of these needs any more.

```
rows and history   out of the live files           sink.purging
readers            the table and the view show the live files only
metadata           older versions of the table, with the bounds of their values, are deleted
below              companions give up their history; sums are dropped, and computed again
files              what the log has removed is deleted at once, unless a reader has a lease
```

What had to stay is the answer (`Left`): purging again later completes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.engine import Engine, EngineError, sql
from dbt.adapters.mvsink.inputs.version_binding import INPUTS
from dbt.adapters.mvsink.materialization.catalog_entry import republish
from dbt.adapters.mvsink.materialization.publish import Docs
from dbt.adapters.mvsink.materialization.publish_table import brought_up_to_date
from dbt.adapters.mvsink.physical import ERROR, SUMS
from dbt.adapters.mvsink.published import is_published, recorded, table_of
from dbt.adapters.mvsink.published.publication import forget_past
from dbt.adapters.mvsink.shard import ShardClient, ShardState, WriteHandle, collect_garbage, delete_dropped
from dbt.adapters.mvsink.shard.delta import DeltaStorage
from dbt.adapters.mvsink.shard.maintenance import (
    NO_GRACE_MS,
    REMOVED_GRACE_MS,
    STAGED_GRACE_MS,
    Remains,
    remains,
)
from dbt.adapters.mvsink.shard.state import KeptGeneration
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.shard_sql.published_view import PublishedView
from dbt.adapters.mvsink.sink.purging import Matches, Purged, PurgeRequest, matches, purge, time_for


@dataclass(frozen=True)
class Left:
    """What could not go yet, of the shard called ``name`` (empty: the model's own).

    ``updates`` of its live files still have such rows, of which ``errors`` are errors. History
    stays from ``since`` (ms) on although it was to go up to ``through``, for these ``holds`` (by
    holder, ms) or for a reader's lease (``leased``). ``files`` are those that the log has removed,
    ``shown`` of them by the published table; ``staged`` are directories of runs that are going on
    or were killed.
    """

    name: str = ""
    updates: int = 0
    errors: int = 0
    since: int = 0
    through: int = 0
    holds: Mapping[str, int] = field(default_factory=dict)
    leased: bool = False
    files: int = 0
    shown: int = 0
    staged: tuple[str, ...] = ()

    @property
    def nothing(self) -> bool:
        return not (self.updates or self.since < self.through or self.files or self.staged)


@dataclass(frozen=True)
class PurgeAnswer:
    """What a purge did, or would do: ``rows`` of the contents and ``updates`` of the live files are
    to go, of which ``errors`` are errors. History begins at ``since`` (ms) and did ``before``.
    ``renewed`` says that a new generation began. ``deleted`` counts files.
    """

    rows: int
    updates: int
    errors: int
    before: int
    since: int
    generations: int = 0
    renewed: bool = False
    deleted: int = 0
    left: tuple[Left, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class PurgedModel:
    """The model's shard, opened. ``relation`` is its name in SQL and ``shown`` what that shows;
    ``catalog`` has the properties of the Iceberg catalog.
    """

    engine: Engine
    handle: WriteHandle
    client: ShardClient
    options: Mapping[str, str] | None
    relation: str
    shown: PublishedView | None
    catalog: Mapping[str, str] | None

    def forecast(self, request: PurgeRequest) -> PurgeAnswer:
        """What would go. Writes nothing."""
        state = self.handle.state()
        asked = matches(request, Layout.of(self.handle, state), self.engine)
        since = state.since.stored()
        through = max(since, asked.last or 0, request.before or 0)
        kept = sum(1 for each in _kept(request, state) if request.where or each.end <= (request.before or 0))
        renewed = bool(asked.contents) and time_for(request, state) is None
        return PurgeAnswer(asked.contents, asked.updates, asked.errors, since, through, kept, renewed)

    def purge(self, request: PurgeRequest) -> PurgeAnswer:
        """Purge everything. Raises `LostToOthers`, and `EngineError` for a wrong condition before
        anything is written.
        """
        kept = _kept(request, self.handle.state())
        done = purge(request, self.handle, self.engine)
        warnings = self._shown_again()
        failpoints.reach("purge shown")
        below = [
            *self._each_below(INPUTS, lambda handle, name: self._companion(request, handle, name)),
            *self._each_below(SUMS, lambda handle, name: self._sums(request, handle, name)),
        ]
        deleted = self._collected(request, self.handle)
        failpoints.reach("purge collected")
        own = self._left(request, self.handle, done)
        left = tuple(each for each in (own, *(each for each in below)) if not each.nothing)
        asked = done.matches
        return PurgeAnswer(
            asked.contents, asked.updates, asked.errors, done.before, done.since,
            len(kept) - len(_kept(request, self.handle.state())), done.renewed, deleted, left, warnings,
        )  # fmt: skip

    def _shown_again(self) -> tuple[str, ...]:
        """Make the table and the view show the live files, and delete the table's earlier versions.
        Returns warnings.
        """
        engine, handle, shown = self.engine, self.handle, self.shown
        own = shown is not None and shown.shard_id == str(handle.shard_id)
        if shown is not None and own:
            warnings = republish(engine, self.relation, handle, shown, self.catalog)
        else:
            order = handle.state().schema.names
            warnings = brought_up_to_date(engine, handle, order, Docs(), self.catalog).warnings
        published = recorded(handle.state().properties)
        if published is not None:
            table = table_of(handle, published, self.catalog)
            if is_published(table):
                forget_past(handle, table)
        return tuple(warnings)

    def _each_below(self, place: str, act: Callable[[WriteHandle, str], Left]) -> Iterator[Left]:
        store = DeltaStorage(self.handle.uri, self.options)
        for name in store.directories(place):
            reader = self.client.open_reader(f"{self.handle.uri}/{place}/{name}")
            with WriteHandle.from_read(reader, "purge") as handle:
                yield act(handle, f"{place}/{name}")

    def _companion(self, request: PurgeRequest, handle: WriteHandle, name: str) -> Left:
        """Its contents are the input's as of the task's position. So rows that the input has no
        more go with the history before.
        """
        own = replace(request, where="", before=request.before or request.time, appends=False)
        done = purge(own, handle, self.engine)
        self._collected(request, handle)
        remaining = self._left(replace(own, where=self._applicable(request.where, handle)), handle, done)
        # its own task holds its history: what matters is whether the rows are still in it
        return replace(remaining, name=name, since=remaining.through)

    def _applicable(self, where: str, handle: WriteHandle) -> str:
        """The condition, if the shard has the columns for it."""
        layout = Layout.of(handle, handle.state())
        if not where or layout.empty:
            return ""
        query = layout.updates("1L n", f"{ERROR} is null and ({where}\n)")
        try:
            self.engine.columns(query)
        except EngineError:
            return ""
        return where

    def _sums(self, request: PurgeRequest, handle: WriteHandle, name: str) -> Left:
        """Sums are the query's again in the next run that needs them."""
        handle.mark_dropped()
        delete_dropped(handle, grace_ms=NO_GRACE_MS)
        self._collected(request, handle)
        files = len(handle.state().files)
        return Left(name, files=files + len(remains(handle).removed))

    def _collected(self, request: PurgeRequest, handle: WriteHandle) -> int:
        now = request.despite_readers
        needed = not now and handle.holds_before(handle.state())
        return len(
            collect_garbage(
                handle,
                staged_grace_ms=NO_GRACE_MS if now else STAGED_GRACE_MS,
                removed_grace_ms=REMOVED_GRACE_MS if needed else NO_GRACE_MS,
                despite_leases=now,
            )
        )

    def _left(self, request: PurgeRequest, handle: WriteHandle, done: Purged) -> Left:
        state, rest = handle.state(), remains(handle)
        layout = Layout.of(handle, state)
        still = matches(request, layout, self.engine)
        # in a purge by age, staged files do not matter: they have no history
        staged = self._staged(request, rest, layout) if request.where else ()
        if not _reached(request, still, done):
            since, through = done.since, done.through
        else:
            since = through = done.since
        holds = {name: at for name, at in state.holds.items() if at < through} | handle.holds_before(state)
        removed = set(rest.removed) - _young(request, handle, state)
        shown = len(removed & handle.storage.published())
        leased = not rest.leased.is_empty()
        return Left(
            "", still.updates, still.errors, since, through, holds, leased, len(removed), shown, staged
        )

    def _staged(self, request: PurgeRequest, rest: Remains, layout: Layout) -> tuple[str, ...]:
        """The staged directories with such rows, or of which that cannot be known."""
        return tuple(
            each
            for each, files in rest.staged.items()
            if any(file.rpartition("/")[0] != each for file in files)  # Spark has not finished them
            or self._may_have(request, f"{layout.root}/{each}")
        )

    def _may_have(self, request: PurgeRequest, directory: str) -> bool:
        files = f"{sql.escape_glob(directory)}/*.parquet"
        query = f"select 1 from {sql.parquet(files)} where {ERROR} is not null or ({request.where}\n) limit 1"
        try:
            return bool(self.engine.query(query, "purge: staged"))
        except EngineError:
            return True


def _kept(request: PurgeRequest, state: ShardState) -> list[KeptGeneration]:
    """The earlier generations that can be read at the request's time."""
    return [each for each in state.kept if each.until > request.time]


def _young(request: PurgeRequest, handle: WriteHandle, state: ShardState) -> set[str]:
    """The files of earlier generations that a purge by age leaves: all of their history is
    younger.
    """
    if request.where or request.before is None:
        return set()
    kept = [each.last for each in handle.kept_generations(state)]
    return {file.path for each in kept if request.before <= each.since.stored() for file in each.files}


def _reached(request: PurgeRequest, still: Matches, done: Purged) -> bool:
    """Whether history went far enough: as far as it was to go, or at least without such rows."""
    return done.since >= done.through or bool(request.where and not still.updates)


def counted(engine: Engine, relations: Sequence[str], where: str) -> dict[str, int | None]:
    """How many rows of each relation satisfy ``where``; None where it cannot be evaluated, as the
    relation has no such columns, or does not exist.
    """
    counts: dict[str, int | None] = {}
    for relation in relations:
        try:
            [[rows]] = engine.query(f"select count(*) from {relation} where {where}\n", "purge: others")
        except EngineError:
            counts[relation] = None
        else:
            counts[relation] = int(str(rows))
    return counts
