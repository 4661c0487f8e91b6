"""What a shard's properties record: owner, definition, schedule, watched input, creation."""

from __future__ import annotations

import json
from dataclasses import dataclass

from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.refresh_schedule import RefreshSchedule, RefreshSpec
from dbt.adapters.mvsink.shard import ShardState

OWNER, DEFINITION, SAMPLED, WATCHED = "owner", "definition", "sampled", "input"


def creation_of(state: ShardState) -> int:
    """The time in ms that a schedule counts from: never recomputed once a run has fixed it."""
    return state.created if state.creation is None else state.creation


def owner_of(state: ShardState) -> dict[str, str]:
    """`project`, `unique_id` and `target` of the shard's owner; empty if it has none."""
    return dict(json.loads(state.properties.get(OWNER, "{}")))


@dataclass(frozen=True)
class Watched:
    """The shard that is a task's input, no URI if it is a table; ``deletes``: times at which it
    only lost rows are changes too.
    """

    uri: str
    deletes: bool

    def properties(self) -> dict[str, str]:
        """As the task's shard keeps it."""
        return {WATCHED: json.dumps({"deletes": self.deletes, "shard_uri": self.uri}, sort_keys=True)}


def watched_shard(state: ShardState) -> Watched | None:
    """The input of this shard's task; None if it is not a task's, or the input is not a shard."""
    watched = json.loads(state.properties.get(WATCHED, "{}"))
    return Watched(watched["shard_uri"], watched["deletes"]) if watched.get("shard_uri") else None


def stored_schedule(state: ShardState) -> RefreshSchedule | None:
    """The schedule that the shard keeps, counted from its creation; None for `on_commit`.

    With `refresh_schedule.decide` and `creation_of` it gives what a run would do, without
    the model.
    """
    spec = stored_spec(state)
    return None if spec.on_commit else spec.schedule(creation_of(state))


def stored_spec(state: ShardState) -> RefreshSpec:
    """The `refresh` that the shard keeps; `on_commit` if it keeps none."""
    return RefreshSpec.from_stored(json.loads(state.properties.get(DEFINITION, "{}")).get("refresh", {}))


def first_refresh(state: ShardState) -> str:
    """When a shard without contents will have some; empty without a schedule, or if it has some."""
    upper = state.upper.as_option()
    return "" if state.readable or not upper or stored_schedule(state) is None else iso(upper)
