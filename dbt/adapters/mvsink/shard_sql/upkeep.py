"""What a run does besides its append: foreign files and new columns before, maintenance after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.engine import Column, Engine
from dbt.adapters.mvsink.engine.timing import Stopwatch
from dbt.adapters.mvsink.local.copies import compact_locally
from dbt.adapters.mvsink.shard import (
    CommitNote,
    CompactionPlan,
    Maintenance,
    ShardReplaced,
    ShardState,
    WriteHandle,
    perform_maintenance,
)
from dbt.adapters.mvsink.shard_sql.errors import DamagedFiles
from dbt.adapters.mvsink.shard_sql.layout import Layout, damages
from dbt.adapters.mvsink.shard_sql.rewrite import compact, evolve, fold_foreign_files


@dataclass
class Upkeep:
    """Of the run ``invocation_id`` on one shard.

    ``drift``: rows that no append can have written, dropped so far; the commits that dropped them
    say so too.
    """

    engine: Engine
    handle: WriteHandle
    watch: Stopwatch
    invocation_id: str = ""
    drift: int = 0
    warnings: list[str] = field(default_factory=list)

    def require_whole(self, state: ShardState) -> None:
        """Raises `DamagedFiles` if a live file is gone, for a run that reads none of them."""
        damaged = damages(state, self.handle.files_in)
        if damaged:
            raise DamagedFiles(self.handle.uri, damaged)

    def folded(self, state: ShardState) -> tuple[ShardState, Layout]:
        """The newest version without loose files. It may have another upper than ``state``."""
        shard = Layout.of(self.handle, state)
        while shard.loose:
            with self.watch("fold"):
                note = CommitNote(purpose=f"fold({self.handle.purpose})", invocation_id=self.invocation_id)
                done = fold_foreign_files(self.engine, self.handle, state, shard, note)
            self.drift += done.drift if done.applied else 0
            state = self.handle.state()
            shard = Layout.of(self.handle, state)
        return state, shard

    def evolve(self, state: ShardState, added: Sequence[Column], note: CommitNote) -> bool:
        """Add columns to ``state``. False if another writer was faster, or foreign files had to be
        folded in first: the caller reloads.
        """
        shard = Layout.of(self.handle, state)
        if shard.loose:
            self.folded(state)
            return False
        with self.watch("evolve"):
            done = evolve(self.engine, self.handle, state, shard, added, note)
        if done:
            failpoints.reach("evolved")
        return done

    def maintain(self, maintenance: Maintenance) -> None:
        """Perform what an append left to do. It never fails a run: the next finds the same work."""
        try:
            with self.watch("maintain"):
                perform_maintenance(self.handle, maintenance, self._compact)
        except ShardReplaced:  # there is nothing to keep in order any more
            return
        except Exception as error:
            self.warnings.append(f"maintenance failed and is left to the next run: {error}")

    def _compact(self, plan: CompactionPlan) -> None:
        shard = Layout.of(self.handle, self.handle.state())
        trusted = {file.path for each in shard.directories if each.trusted for file in each.files}
        if compact_locally(self.handle, plan, trusted, shard.columns) is None:
            compact(self.engine, self.handle, plan, shard)
