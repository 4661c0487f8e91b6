"""What `mvsink status` shows of a shard: plain values, whose names are those of the JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from dbt.adapters.mvsink.shard_sql.freshness_limits import Verdict
from dbt.adapters.mvsink.shard_sql.pause import Pause


class Condition(str, Enum):
    """What can be done with a shard."""

    READABLE = "readable"
    FINAL = "final"
    NOT_REFRESHED = "not refreshed yet"
    DROPPED = "dropped"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Hold:
    """History from ``time`` (ms) on is kept for ``holder``, the shard id of ``model``, if known."""

    holder: str
    time: int
    model: str | None = None


@dataclass(frozen=True)
class ShardStatus:
    """A shard, by the JSON's names. Times and lags are ms. None: no such value, or not known."""

    model: str
    relation: str
    uri: str
    condition: Condition
    project: str | None = None
    target: str | None = None
    unique_id: str | None = None
    shard_id: str | None = None
    version: int | None = None
    generation: int | None = None
    created: int | None = None
    dropped: int | None = None
    since: int | None = None
    upper: int | None = None
    computed_through: int | None = None
    lag: int | None = None
    slo: Verdict | None = None
    warn_after: int | None = None
    error_after: int | None = None
    last_refresh: int | None = None
    run_seconds: float | None = None
    scheduled: bool | None = None
    next_refresh: int | None = None
    pending_inputs: int | None = None
    rows: int | None = None
    updates: int | None = None
    error_updates: int | None = None
    files: int | None = None
    bytes: int | None = None
    recent_share: float | None = None
    holds: tuple[Hold, ...] = ()
    paused: Pause | None = None
    error: str | None = None
    inputs: tuple[ShardStatus, ...] = field(default=())
