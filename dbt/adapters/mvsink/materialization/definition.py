"""What a shard remembers of its model: owner, definition, and whether it holds a sample. Kept as
the shard's properties.

Two owners of one shard would correct each other for ever, so a run of another model, project or
target is refused. The definition is the query with `mv_now()` as a placeholder and references by
unique id (so that a deferred reference is no change), whether the engine was in ANSI mode, which
decides what casts and overflow give, and the refresh schedule.

What changes takes effect with the next write. Where a schedule would have a changed query wait for
that, `apply` makes a new generation at once; a changed schedule alone counts from the shard's
upper.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.engine import NOW
from dbt.adapters.mvsink.exceptions import ConfigurationChanged, OwnedByAnother, SampledRun
from dbt.adapters.mvsink.refresh_schedule import RefreshSpec
from dbt.adapters.mvsink.shard import ShardState
from dbt.adapters.mvsink.shard_sql.properties import DEFINITION, OWNER, SAMPLED, stored_spec
from dbt.adapters.mvsink.sink import Plan

# what the macros of these names render
PAST = re.compile(r"/\* (mv_(?:as_of|updates) .*?) \*/.*?/\* mv_end \*/", re.DOTALL)


@dataclass(frozen=True)
class Definition:
    """A model as its shard should remember it."""

    project: str
    unique_id: str
    target: str
    query: str
    ansi: str
    references: Mapping[str, str]  # a relation as the query names it, and its unique id
    sampled: bool = False
    refresh: RefreshSpec = RefreshSpec()

    def properties(self) -> dict[str, str]:
        """As the shard keeps them."""
        query = without_time(self.query)
        for relation, unique_id in sorted(self.references.items(), key=lambda item: -len(item[0])):
            query = query.replace(relation, f"{{{unique_id}}}")
        owner = {"project": self.project, "unique_id": self.unique_id, "target": self.target}
        return {
            OWNER: json.dumps(owner, sort_keys=True),
            DEFINITION: json.dumps(
                {"sql": query, "ansi": self.ansi, "refresh": self.refresh.stored()}, sort_keys=True
            ),
            SAMPLED: json.dumps(self.sampled),
        }

    def properties_before_effect(self, state: ShardState) -> dict[str, str]:
        """As the shard keeps them while its contents are still those of the old definition: of the
        new one only the schedule.
        """
        mine = self.properties()
        if not state.readable or DEFINITION not in state.properties:
            return mine
        kept = {**json.loads(state.properties[DEFINITION]), "refresh": self.refresh.stored()}
        return {OWNER: mine[OWNER], DEFINITION: json.dumps(kept, sort_keys=True)}

    def check_owner(self, model: str, uri: str, state: ShardState) -> None:
        """Raises `OwnedByAnother` if the shard is somebody else's."""
        held, mine = state.properties, self.properties()
        if OWNER in held and held[OWNER] != mine[OWNER] and not state.dropped:
            raise OwnedByAnother(model, uri, _words(held[OWNER]), _words(mine[OWNER]))

    def check_sample(self, model: str, state: ShardState) -> None:
        """Raises `SampledRun` if a sample would replace what is no sample."""
        held = state.readable and state.dropped is None
        if self.sampled and held and not json.loads(state.properties.get(SAMPLED, "false")):
            raise SampledRun(model)

    def changes(self, state: ShardState) -> tuple[str, ...]:
        """What of the definition differs from what the shard remembers: `query`, `ANSI mode`,
        `refresh`.
        """
        if DEFINITION not in state.properties:
            return ()
        before, after = json.loads(state.properties[DEFINITION]), json.loads(self.properties()[DEFINITION])
        named = (("sql", "query"), ("ansi", "ANSI mode"), ("refresh", "refresh"))
        return tuple(name for key, name in named if key in before and before[key] != after[key])

    def check_changes(self, model: str, policy: str, state: ShardState, plan: Plan) -> str:
        """What to warn of; raises `ConfigurationChanged` where the policy is ``fail``. ``plan`` is
        the run's, without the change.
        """
        changed = " and ".join(self.changes(state))
        if changed and policy == "fail":
            raise ConfigurationChanged(model, changed)
        return f"{changed} changed; takes effect {_when(plan)}" if changed and policy == "continue" else ""

    def replaces(self, policy: str, state: ShardState) -> bool:
        """Is a new generation to be made, since the query has changed and a schedule, the shard's
        or ours, would have it wait?
        """
        changed = {"query", "ANSI mode"} & set(self.changes(state))
        waits = not self.refresh.on_commit or not stored_spec(state).on_commit or state.upper.is_empty()
        return bool(changed) and waits and policy == "apply"


def _when(plan: Plan) -> str:
    upper = plan.upper.as_option()
    if plan.time is not None:
        return "at this run"
    return "with --full-refresh" if upper is None else f"at {iso(upper)}"


def without_time(query: str) -> str:
    """The query with the run's time taken out, and the files that stand for a shard's past."""
    return PAST.sub(r"\1", NOW.sub("mv_now()", query))


def _words(owner: str) -> str:
    told = json.loads(owner)
    return f"{told['unique_id']} of project {told['project']}, target {told['target']}"
