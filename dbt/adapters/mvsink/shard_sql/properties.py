"""What a shard's properties record, so that it is known without dbt: owner, definition, schedule,
watched input, creation, how old its contents may be, its holds in other shards, the format of its
table, the relation that shows it, and whether it is paused.

Every run leaves a paused model (`mvsink hold`) alone until it is released; the commits of both say
who did it and why. That has nothing to do with holds, which keep a shard's history.
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.refresh_schedule import RefreshSchedule, RefreshSpec, cron_problem
from dbt.adapters.mvsink.shard import (
    CommitNote,
    NotAShard,
    ShardClient,
    ShardState,
    StorageError,
    WriteHandle,
)
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
    texts,
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


RELATION = "relation"


@dataclass(frozen=True)
class ShownAs:
    """The relation `schema.identifier` that shows a shard, where its directory has another name,
    and what it was before: the relation, and its ``model``.
    """

    name: str
    before: str = ""
    model: str = ""

    def properties(self) -> dict[str, str]:
        """As the shard keeps it."""
        return {RELATION: json.dumps(asdict(self), sort_keys=True)}


def relation_of(state: ShardState) -> ShownAs | None:
    """None if the shard's directory has the relation's name."""
    return property_of(state, RELATION, None, _shown)


def _shown(kept: Any) -> ShownAs:
    return ShownAs(*(a_text(member(kept, name)) for name in ("name", "before", "model")))


@dataclass(frozen=True)
class Watched:
    """The shard that is a task's input, without a URI if the input is a table. With ``deletes``,
    times at which it only lost rows are changes too.
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


def definition_digest(definition: Mapping[str, Any]) -> str:
    """16 digits for the query and ANSI mode, whatever the inputs and the schedule are."""
    text = json.dumps([definition.get("sql"), definition.get("ansi")])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


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
    for cron in an_array(refresh.get("cron", [])):
        expression, zone = map(a_text, an_array(cron)) if len(an_array(cron)) == 2 else ("", "")
        if (problem := cron_problem(expression, zone)) is not None:
            raise Unreadable(f"cannot read {problem} of {expression!r} in {zone!r} on this machine")
    return RefreshSpec.from_stored(refresh)


def first_refresh(state: ShardState) -> str:
    """When a shard without contents will have some; empty without a schedule, or if it has some."""
    upper = state.upper.as_option()
    return "" if state.readable or not upper or stored_schedule(state) is None else iso(upper)


FRESHNESS = "freshness"


class Verdict(str, enum.Enum):
    """Whether contents are as fresh as they should be. The values are dbt's for sources."""

    PASS = "pass"
    WARN = "warn"
    ERROR = "error"


@dataclass(frozen=True)
class Freshness:
    """The ages (ms) after which contents are a warning, and an error. None means never.

    >>> hours = Freshness(warn_after=10, error_after=60)
    >>> [hours.verdict(age).value for age in (10, 11, 61)]
    ['pass', 'warn', 'error']
    """

    warn_after: int | None = None
    error_after: int | None = None

    @property
    def limits(self) -> bool:
        return self != Freshness()

    def verdict(self, age: int) -> Verdict:
        """The verdict on contents that were computed ``age`` ms ago."""
        if self.error_after is not None and age > self.error_after:
            return Verdict.ERROR
        return Verdict.WARN if self.warn_after is not None and age > self.warn_after else Verdict.PASS

    def properties(self, kept: Mapping[str, str]) -> dict[str, str]:
        """The property of a shard that has those ``kept``; none if it never had a limit."""
        if not self.limits and FRESHNESS not in kept:
            return {}
        limits = {"error_after": self.error_after, "warn_after": self.warn_after}
        return {FRESHNESS: json.dumps({name: limit for name, limit in limits.items() if limit is not None})}


def stored_freshness(state: ShardState) -> Freshness:
    """The limits that the shard keeps."""
    return property_of(state, FRESHNESS, Freshness(), _limits)


def _limits(kept: Any) -> Freshness:
    limits = (an_object(kept).get(name) for name in ("warn_after", "error_after"))
    return Freshness(*(optional(limit, an_integer) for limit in limits))


HOLDS = "held"


def held_shards(state: ShardState) -> set[str]:
    """The URIs of the shards in which this one has holds."""
    return property_of(state, HOLDS, set(), lambda kept: set(texts(kept)))


def record_held_shards(handle: WriteHandle, uris: set[str]) -> None:
    """Replace the list; no commit if it is already this one."""
    if uris != held_shards(handle.state()):
        handle.set_properties({HOLDS: json.dumps(sorted(uris))})


def release_holds(client: ShardClient, holder: str, uris: Iterable[str]) -> None:
    """Release the holds of ``holder`` (a shard id) at ``uris``; a shard that is gone has none."""
    for uri in uris:
        try:
            with WriteHandle.from_read(client.open_reader(uri), "release") as writer:
                writer.release_hold(holder)
        except (NotAShard, StorageError):
            continue


FILE_FORMAT, NO_TABLE = "file_format", "view"  # the property, and its value without a table


def published_format(state: ShardState) -> str:
    """The format of the table that the shard is published as, or was last; `NO_TABLE` for none."""
    return state.properties.get(FILE_FORMAT, NO_TABLE)


PAUSED = "paused"  # the property


IMPORTED = "imported"


@dataclass(frozen=True)
class Imported:
    """The table ``name`` (as SQL names it) whose rows were the view's first contents, as of
    ``time`` (ms), and the identifier that it got when the view took its name, empty if it was
    dropped since.
    """

    name: str
    kept: str
    time: int

    def properties(self) -> dict[str, str]:
        """As the shard keeps it."""
        return {IMPORTED: json.dumps(asdict(self), sort_keys=True)}


def imported_from(state: ShardState) -> Imported | None:
    """None if the shard's first contents were a query's."""
    return property_of(state, IMPORTED, None, _imported)


def _imported(kept: Any) -> Imported | None:
    name, other = a_text(member(kept, "name")), a_text(member(kept, "kept"))
    return Imported(name, other, an_integer(member(kept, "time")))


@dataclass(frozen=True)
class Pause:
    """Who paused a model, when (wall clock, ms), and why, if they said so."""

    by: str
    at: int
    reason: str = ""

    @property
    def words(self) -> str:
        """``paused by alice at 2026-11-20T15:00:00Z: wrong rates``"""
        return f"paused by {self.by} at {iso(self.at)}" + (f": {self.reason}" if self.reason else "")


def pause_of(state: ShardState) -> Pause | None:
    """None if runs may write the shard. A dropped shard is not paused: the next run replaces it."""
    return property_of(state, PAUSED, None, _pause) if state.dropped is None else None


def _pause(kept: Any) -> Pause | None:
    if kept is None:
        return None
    by, at = a_text(member(kept, "by")), an_integer(member(kept, "at"))
    return Pause(by, at, a_text(kept.get("reason", "")))


def pause(handle: WriteHandle, wanted: Pause) -> None:
    """Pause the model, or change who paused it and why."""
    handle.set_properties(
        {PAUSED: json.dumps(asdict(wanted), sort_keys=True)}, CommitNote(purpose=wanted.words)
    )


def release_pause(handle: WriteHandle, by: str) -> None:
    """Let runs write it again; no commit if they may."""
    if handle.state().properties.get(PAUSED, "null") != "null":
        handle.set_properties({PAUSED: "null"}, CommitNote(purpose=f"released by {by}"))
