"""What a shard's properties record: owner, definition, schedule, watched input, creation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.refresh_schedule import RefreshSchedule, RefreshSpec
from dbt.adapters.mvsink.shard import ShardState
from dbt.adapters.mvsink.shard.stored import (
    Unreadable,
    a_text,
    a_truth,
    an_array,
    an_integer,
    an_object,
    member,
    optional,
    property_of,
)

OWNER, DEFINITION, SAMPLED, WATCHED = "owner", "definition", "sampled", "input"


def creation_of(state: ShardState) -> int:
    """The time in ms that a schedule counts from: never recomputed once a run has fixed it."""
    return state.created if state.creation is None else state.creation


def owner_of(state: ShardState) -> dict[str, str]:
    """`project`, `unique_id` and `target` of the shard's owner; empty if it has none."""
    return property_of(state, OWNER, {}, owner_from)


def owner_from(kept: Any) -> dict[str, str]:
    """What the property keeps of an owner. Raises `Unreadable`."""
    names = ("project", "unique_id", "target") if an_object(kept) else ()
    return {name: a_text(member(kept, name)) for name in names}


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
    return property_of(state, WATCHED, None, _watched)


def _watched(kept: Any) -> Watched | None:
    if not an_object(kept).get("shard_uri"):
        return None
    return Watched(a_text(kept["shard_uri"]), a_truth(member(kept, "deletes")))


def stored_schedule(state: ShardState) -> RefreshSchedule | None:
    """The schedule that the shard keeps, counted from its creation; None for `on_commit`.

    With `refresh_schedule.decide` and `creation_of` it gives what a run would do, without
    the model.
    """
    spec = stored_spec(state)
    return None if spec.on_commit else spec.schedule(creation_of(state))


def stored_spec(state: ShardState) -> RefreshSpec:
    """The `refresh` that the shard keeps; `on_commit` if it keeps none."""
    return property_of(state, DEFINITION, RefreshSpec(), _spec)


def stored_definition(state: ShardState) -> Mapping[str, Any]:
    """The definition that the shard keeps: `sql`, `ansi`, `refresh`; empty if it keeps none."""
    return property_of(state, DEFINITION, {}, an_object)


def is_sample(state: ShardState) -> bool:
    """Whether a run with `--sample` wrote the contents."""
    return property_of(state, SAMPLED, False, a_truth)


def _spec(kept: Any) -> RefreshSpec:
    refresh = an_object(an_object(kept).get("refresh", {}))
    for every in an_array(refresh.get("every", [])):
        if len(an_array(every)) != 2:
            raise Unreadable(f"expected an interval and an alignment, not {len(every)} values")
        an_integer(every[0], least=1)
        optional(every[1], an_integer)
    for time in an_array(refresh.get("at", [])):
        an_integer(time)
    a_truth(refresh.get("at_creation", False))
    return RefreshSpec.from_stored(refresh)


def first_refresh(state: ShardState) -> str:
    """When a shard without contents will have some; empty without a schedule, or if it has some."""
    upper = state.upper.as_option()
    return "" if state.readable or not upper or stored_schedule(state) is None else iso(upper)
