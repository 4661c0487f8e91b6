"""What a shard's properties record about its model: owner, definition, and whether it is a sample.

Two owners of one shard would correct each other forever, so a run of another model, project or
target is refused. The definition has three parts: the query with `mv_now()` as a placeholder and
references by unique id (deferral does not change it); whether the engine was in ANSI mode, which
decides the results of casts and overflows; and the refresh schedule.

A change takes effect with the next write. If a schedule delays that write, `apply` makes a new
generation at once for a changed query. If only the schedule changed, it counts from the shard's
upper.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.engine import Engine
from dbt.adapters.mvsink.engine.session import session_of
from dbt.adapters.mvsink.exceptions import ConfigurationChanged, NamesArePatterns, OwnedByAnother, SampledRun
from dbt.adapters.mvsink.refresh_schedule import RefreshSpec
from dbt.adapters.mvsink.shard import ShardState
from dbt.adapters.mvsink.shard_sql.properties import (
    DEFINITION,
    OWNER,
    SAMPLED,
    definition_digest,
    is_sample,
    owner_of,
    stored_definition,
    stored_spec,
)
from dbt.adapters.mvsink.sink import RunPlan
from dbt.adapters.mvsink.user_sql.marks import without_time

# what the macros of these names render


@dataclass(frozen=True)
class Definition:
    """The definition of a model, as its shard should record it."""

    project: str
    unique_id: str
    target: str
    query: str
    ansi: str
    references: Mapping[str, str]  # unique ids by the relations' text in the query
    sampled: bool = False
    refresh: RefreshSpec = RefreshSpec()

    @property
    def digest(self) -> str:
        """See `definition_digest`."""
        return definition_digest(json.loads(self.properties()[DEFINITION]))

    def properties(self) -> dict[str, str]:
        """The shard's properties."""
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
        """The properties as long as the contents are those of the old definition: only the schedule
        is new.
        """
        mine = self.properties()
        if not state.readable or DEFINITION not in state.properties:
            return mine
        kept = {**stored_definition(state), "refresh": self.refresh.stored()}
        return {OWNER: mine[OWNER], DEFINITION: json.dumps(kept, sort_keys=True)}

    def check_owner(self, model: str, uri: str, state: ShardState) -> None:
        """Raises `OwnedByAnother` if the shard has another owner."""
        stored, mine = state.properties, self.properties()
        if OWNER in stored and stored[OWNER] != mine[OWNER] and not state.dropped:
            raise OwnedByAnother(model, uri, _words(owner_of(state)), _words(json.loads(mine[OWNER])))

    def check_sample(self, model: str, state: ShardState) -> None:
        """Raises `SampledRun` if a sample would replace contents that are not a sample."""
        has_contents = state.readable and state.dropped is None
        if self.sampled and has_contents and not is_sample(state):
            raise SampledRun(model)

    def changes(self, state: ShardState) -> tuple[str, ...]:
        """The parts that differ from what the shard records: `query`, `ANSI mode`, `refresh`."""
        if DEFINITION not in state.properties:
            return ()
        before, after = stored_definition(state), json.loads(self.properties()[DEFINITION])
        named = (("sql", "query"), ("ansi", "ANSI mode"), ("refresh", "refresh"))
        return tuple(name for key, name in named if key in before and before[key] != after[key])

    def other_query(self, state: ShardState) -> bool:
        """Whether the shard does not record this query in this ANSI mode."""
        return DEFINITION not in state.properties or self.changes_query(state)

    def changes_query(self, state: ShardState) -> bool:
        """Whether the shard records another query, or another ANSI mode."""
        return bool({"query", "ANSI mode"} & set(self.changes(state)))

    def check_changes(self, model: str, policy: str, state: ShardState, plan: RunPlan) -> str:
        """A warning if the policy is ``continue`` and something changed, else empty. ``plan`` is
        the plan of the run. Raises `ConfigurationChanged` if the policy is ``fail``.
        """
        changed = " and ".join(self.changes(state))
        if changed and policy == "fail":
            raise ConfigurationChanged(model, changed)
        return f"{changed} changed; takes effect {_when(plan)}" if changed and policy == "continue" else ""

    def replaces(self, policy: str, state: ShardState) -> bool:
        """Whether to make a new generation: the query changed, and a schedule would delay it."""
        waits = not self.refresh.on_commit or not stored_spec(state).on_commit or state.upper.is_empty()
        return self.changes_query(state) and waits and policy == "apply"


def _when(plan: RunPlan) -> str:
    upper = plan.upper.as_option()
    if plan.time is not None:
        return "at this run"
    return "with --full-refresh" if upper is None else f"at {iso(upper)}"


def ansi_mode(engine: Engine, model: str) -> str:
    """`true` or `false`, from a type that the mode decides.

    Raises `NamesArePatterns` if the session takes the quoted name of one column for two.
    """
    session = session_of(engine)
    if session.names_are_patterns:
        raise NamesArePatterns(model)
    return "false" if session.sum_type == "double" else "true"


def _words(parts: Mapping[str, str]) -> str:
    return f"{parts['unique_id']} of project {parts['project']}, target {parts['target']}"
