"""The gate of one run: what it compares, and what a commit records of the audits that passed.

An audit with a `Scope` checks only the rows that a run adds, if the contents before have passed it
without a failure. The note of the commit that wrote them records this: the digests of the audits,
and the version that the correction was compared with. The record is valid as long as every commit
since that version is our own and left all rows as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dbt.adapters.mvsink.engine import Engine
from dbt.adapters.mvsink.engine.timing import Stopwatch
from dbt.adapters.mvsink.shard import Commit, ShardState, WriteHandle
from dbt.adapters.mvsink.shard_sql import Counts, Layout
from dbt.adapters.mvsink.sink.errors import GateFailed
from dbt.adapters.mvsink.sink.gate import Contents, GatePassed, check, would_be
from dbt.adapters.mvsink.sink.request import SinkRequest
from dbt.adapters.mvsink.sink.run_plan import DROPPED, FULL_REFRESH, RunPlan
from dbt.adapters.mvsink.sink.written import Written

LOOKED_AT = 50  # commits; if contents are older, they are audited as a whole
SAME_ROWS = ("advance", "schema", "compact")  # kinds of commits


def passed_before(commits: Sequence[Commit]) -> frozenset[str]:
    """The digests of the audits that the contents after ``commits``, oldest first, have passed."""
    later = list(commits)
    while later and _keeps_rows(later[-1]):
        later.pop()
    if not later or later[-1].kind != "append" or not later[-1].token:
        return frozenset()
    newest, audited = later[-1], later[-1].note.audited
    if audited is None:
        return frozenset()
    between = [commit for commit in later[:-1] if commit.version > audited]
    whole = len(between) == newest.version - audited - 1
    return frozenset(newest.note.audits) if whole and all(map(_keeps_rows, between)) else frozenset()


def _keeps_rows(commit: Commit) -> bool:
    return bool(commit.token) and commit.kind in SAME_ROWS


@dataclass
class Gating:
    """The gate of one run; it adds to ``warnings``."""

    request: SinkRequest
    handle: WriteHandle
    engine: Engine
    watch: Stopwatch
    warnings: list[str]

    def audited(self, state: ShardState, plan: RunPlan, shard: Layout, written: Written) -> Written:
        """``written`` with what it passed. Raises `GateFailed`, and deletes the batch, if ``shard``
        with it must not be published.
        """
        if not self.request.gate.is_active:
            return written
        try:
            with self.watch("gate"):
                contents = self._contents(state, plan, shard, written)
                passed = self._check(state, plan, written.counts, contents).passed
        except BaseException:
            written.delete()
            raise
        return replace(written, audits=passed, audited=state.version)

    def previewed(self, state: ShardState, plan: RunPlan, counts: Counts, rows: str) -> str:
        """Why the gate would reject the contents, or "". The audits read the query ``rows``."""
        try:
            self._check(state, plan, counts, Contents(rows, first=not state.readable))
        except GateFailed as error:
            return str(error)
        return ""

    def _contents(self, state: ShardState, plan: RunPlan, shard: Layout, written: Written) -> Contents:
        negated = written.negation is not None
        rows = would_be(shard, written.batch, negated=negated)
        scoped = any(audit.scope is not None for audit in self.request.gate.audits)
        if not scoped or negated or plan.generation or shard.empty or shard.loose:
            return Contents(rows, first=not state.readable)
        # the correction by itself: the rows of which it adds copies
        added = would_be(shard, written.batch, negated=True)
        return Contents(rows, added, passed_before(self.handle.history(LOOKED_AT)))

    def _check(self, state: ShardState, plan: RunPlan, counts: Counts, contents: Contents) -> GatePassed:
        comparable = state.readable and plan.generation not in (FULL_REFRESH, DROPPED)
        current = Layout.of(self.handle, state) if comparable else None
        gate, model = self.request.gate, self.request.model
        checked = check(gate, self.engine, model, counts, current, bool(plan.generation), contents)
        self.warnings.extend(warning for warning in checked.warnings if warning not in self.warnings)
        return checked
