"""What a shard remembers of its model: owner, definition, and whether it holds a sample. Kept as the shard's properties.

Two owners of one shard would correct each other for ever, so a run of another model, project or target is refused. The definition
is the query with `mv_now()` as a placeholder and references by unique id (so that a deferred reference is no change), and
whether the engine was in ANSI mode, which decides what casts and overflow give.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from dbt.adapters.mvsink.exceptions import ConfigurationChanged, OwnedByAnother, SampledRun
from dbt.adapters.mvsink.shard import ShardState

NOW = re.compile(r"timestamp_millis\(\d+L?\) /\* mv_now \*/")
OWNER, DEFINITION, SAMPLED = "owner", "definition", "sampled"


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

    def properties(self) -> dict[str, str]:
        """As the shard keeps them."""
        query = without_time(self.query)
        for relation, unique_id in sorted(self.references.items(), key=lambda item: -len(item[0])):
            query = query.replace(relation, f"{{{unique_id}}}")
        owner = {"project": self.project, "unique_id": self.unique_id, "target": self.target}
        return {
            OWNER: json.dumps(owner, sort_keys=True),
            DEFINITION: json.dumps({"sql": query, "ansi": self.ansi}, sort_keys=True),
            SAMPLED: json.dumps(self.sampled),
        }

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
        """What of the definition differs from what the shard remembers: `query`, `ANSI mode`."""
        if DEFINITION not in state.properties:
            return ()
        before, after = json.loads(state.properties[DEFINITION]), json.loads(self.properties()[DEFINITION])
        named = (("sql", "query"), ("ansi", "ANSI mode"))
        return tuple(name for key, name in named if key in before and before[key] != after[key])

    def check_changes(self, model: str, policy: str, state: ShardState) -> str:
        """What to warn of; raises `ConfigurationChanged` where the policy is ``fail``."""
        changed = " and ".join(self.changes(state))
        if changed and policy == "fail":
            raise ConfigurationChanged(model, changed)
        return f"{changed} changed; takes effect at this run" if changed and policy == "continue" else ""


def owner_of(state: ShardState) -> dict[str, str]:
    """`project`, `unique_id` and `target` of whom the shard belongs to; empty if it tells none."""
    return dict(json.loads(state.properties.get(OWNER, "{}")))


def without_time(query: str) -> str:
    """The query with the run's time taken out."""
    return NOW.sub("mv_now()", query)


def _words(owner: str) -> str:
    told = json.loads(owner)
    return f"{told['unique_id']} of project {told['project']}, target {told['target']}"
