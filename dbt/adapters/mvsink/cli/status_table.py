"""What `mvsink status` shows: the fields of its JSON, and the columns of its two tables.

The short table has lines of at most 100 characters and relative times (`3 min`, `in 20 min`).
The one of `--wide` has all columns, and times in ISO 8601.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from urllib.parse import unquote

from dbt.adapters.mvsink.cli.render import (
    TableColumn,
    age_text,
    ago_text,
    author_text,
    bytes_text,
    count_text,
    duration_text,
    time_text,
)
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.shard import Incident, Trouble
from dbt.adapters.mvsink.shard_sql.properties import Pause, Verdict

MAX_LINE = 100  # characters of a line of the short table
MAX_MESSAGE = 400  # characters of what went wrong, below the table; the JSON has all of it
VIEW, TASK = "view", "task"  # kinds


_HEADING = re.compile(r"\A[\w ]* Error in model \S+ \([^)]*\)\n")  # of dbt's messages


class Condition(str, Enum):
    """What can be done with a shard."""

    READABLE = "readable"
    FINAL = "final"
    NOT_REFRESHED = "not refreshed yet"
    DROPPED = "dropped"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Hold:
    """A hold that keeps history from ``time`` (ms) on. ``holder`` is the id of the shard that needs
    it, and ``model`` that shard's model, if known.
    """

    holder: str
    time: int
    model: str | None = None


@dataclass(frozen=True)
class ShardStatus:
    """The status of a shard; the fields have the JSON's names. Times and lags are ms. None means
    that there is no such value or that it is not known.
    """

    model: str
    relation: str
    uri: str
    condition: Condition
    kind: str | None = None
    incident: Incident | None = None
    inserted: int | None = None  # by the last run, like ``deleted``
    deleted: int | None = None
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
    author: Mapping[str, str] | None = None  # of the last refresh
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
    verified: int | None = None
    verify_by: int | None = None  # at the latest, or as soon as runs took so long, or so many ran
    verify_after_seconds: float | None = None
    verify_after_runs: int | None = None
    file_format: str | None = None
    table_version: int | None = None  # of the shard: the one that its table shows
    table_lag: int | None = None  # later versions of the shard that changed rows
    table_through: int | None = None  # the time through which the rows that it shows were computed
    table_foreign: int | None = None  # commits of other tools to the table
    error: str | None = None
    inputs: tuple[ShardStatus, ...] = field(default=())


def input_name(relation: str) -> str:
    """The name that the input of ``schema.task/_inputs/<id>`` has in the task.

    >>> input_name("s.t/_inputs/~60s~60.~60raw~60")
    's.raw'
    >>> input_name("s.t/_inputs/~60parquet~60.~60~2Fdata~2Fx~60")
    'parquet./data/x'
    """
    return masked(unquote(relation.rsplit("/", 1)[-1].replace("~", "%")).replace("`", ""))


@dataclass(frozen=True)
class Line:
    """A row of the table: a shard, or the companion shard of an input of the task above it."""

    label: str
    shard: ShardStatus


def lines(shards: Sequence[ShardStatus]) -> Iterator[Line]:
    same = Counter(shard.model for shard in shards)
    for shard in shards:
        plain = same[shard.model] == 1 and shard.relation.split(".", 1)[-1] == shard.model
        yield Line(
            shard.model if plain or shard.model == shard.relation else f"{shard.model} ({shard.relation})",
            shard,
        )
        for companion in shard.inputs:
            yield Line(f"  input {input_name(companion.relation)}", companion)


def _column(
    title: str,
    text: Callable[[ShardStatus], str],
    *,
    optional: bool = False,
    right: bool = False,
    shrinks: bool = False,
) -> TableColumn[Line]:
    return TableColumn(title, lambda line: text(line.shard), optional, right, shrinks)


def _count(
    title: str, count: Callable[[ShardStatus], int | None], *, optional: bool = True
) -> TableColumn[Line]:
    return _column(title, lambda s: count_text(count(s)), optional=optional, right=True)


def _owner(shard: ShardStatus) -> str:
    return f"{shard.project}, {shard.target}" if shard.project else ""


def _condition(shard: ShardStatus) -> str:
    condition = "" if shard.condition is Condition.READABLE else shard.condition.value
    return f"{condition} {time_text(shard.dropped)}".strip()


def _upper(shard: ShardStatus) -> str:
    return (
        Condition.FINAL.value
        if shard.version is not None and shard.upper is None
        else time_text(shard.upper or None)
    )


def _next(shard: ShardStatus) -> str:
    if shard.condition not in (Condition.READABLE, Condition.NOT_REFRESHED):
        return ""
    if not shard.scheduled:
        return "every run"
    return "none left" if shard.next_refresh is None else time_text(shard.next_refresh)


def _slo(shard: ShardStatus) -> str:
    """``pass``, or the limit that the contents have exceeded, such as ``warn after 1h``."""
    limits = {Verdict.WARN: shard.warn_after, Verdict.ERROR: shard.error_after}
    if shard.slo is None or shard.slo not in limits:
        return "" if shard.slo is None else shard.slo.value
    return f"{shard.slo.value} after {duration_text(limits[shard.slo])}"


def _paused(shard: ShardStatus) -> str:
    return shard.paused.words.removeprefix("paused ") if shard.paused else ""


def _next_verification(shard: ShardStatus) -> str:
    """``2026-11-27T15:00:00Z or after 54 s of runs``"""
    seconds, runs = shard.verify_after_seconds, shard.verify_after_runs
    parts = (
        time_text(shard.verify_by),
        "" if seconds is None else f"after {duration_text(round(seconds * 1000))} of runs",
        "" if runs is None else f"after {runs} run{'s'[: runs > 1]}",
    )
    return " or ".join(filter(None, parts))


def _holds(shard: ShardStatus) -> str:
    return ", ".join(f"{hold.model or hold.holder} from {time_text(hold.time)}" for hold in shard.holds)


def _table(shard: ShardStatus, time: Callable[[int], str] = time_text) -> str:
    """`delta`, and whether the table shows an earlier version of the shard, or another tool's."""
    if shard.table_version is None:
        return f"{shard.file_format}, none yet" if shard.file_format else ""
    parts = [shard.file_format]
    if shard.table_lag:
        through = "" if shard.table_through is None else f" ({time(shard.table_through)})"
        parts.append(f"{shard.table_lag} version{'s'[: shard.table_lag > 1]} behind{through}")
    return ", ".join(filter(None, [*parts, "foreign" if shard.table_foreign else ""]))


SLO = _column("slo", _slo, optional=True)
INSERTED = _column("+", lambda s: count_text(s.inserted), optional=True, right=True)
DELETED = _column("-", lambda s: count_text(s.deleted), optional=True, right=True)
PENDING, ROWS = _count("pending", lambda s: s.pending_inputs), _count("rows", lambda s: s.rows)
SIZE = _column("size", lambda s: bytes_text(s.bytes), right=True)


def wide_columns(all_owners: bool) -> list[TableColumn[Line]]:
    return [
        TableColumn("model", lambda line: line.label),
        *([_column("owner", _owner)] if all_owners else []),
        _column("kind", lambda s: s.kind or "", optional=True),
        _column("state", _condition, optional=True),
        _column("last run", _trouble, optional=True),
        INSERTED,
        DELETED,
        _column("history from", lambda s: time_text(s.since or None)),
        _column("to", _upper),
        _column("lag", lambda s: duration_text(s.lag), right=True),
        SLO,
        _column("last refresh", lambda s: time_text(s.last_refresh and s.last_refresh // 1000 * 1000)),
        _column("next refresh", _next),
        PENDING,
        ROWS,
        _count("updates", lambda s: s.updates, optional=False),
        _count("files", lambda s: s.files, optional=False),
        SIZE,
        _column(
            "recent", lambda s: f"{s.recent_share:.1%}" if s.recent_share else "", optional=True, right=True
        ),
        _count("errors", lambda s: s.error_updates or None),
        _column("verified", lambda s: time_text(s.verified), optional=True),
        _column("next verification", _next_verification, optional=True),
        _column("paused", _paused, optional=True),
        _column("table", _table, optional=True),
        _column("holds", _holds, optional=True),
        _count("generation", lambda s: s.generation or None),
        _column("error", lambda s: s.error or "", optional=True),
    ]


def short_columns(all_owners: bool, now: int) -> list[TableColumn[Line]]:
    """The columns of the short table. Its times are relative to ``now`` (ms)."""
    return [
        TableColumn("model", lambda line: line.label, shrinks=True),
        *([_column("owner", _owner, shrinks=True)] if all_owners else []),
        _column("kind", lambda s: s.kind or "", optional=True),
        _column("state", lambda s: _state(s, now), optional=True),
        _column("age", lambda s: "" if s.lag is None else age_text(s.lag), right=True),
        SLO,
        INSERTED,
        DELETED,
        _column("next", lambda s: _next_in(s, now)),
        PENDING,
        ROWS,
        _column("table", lambda s: _table(s, lambda time: ago_text(max(0, now - time))), optional=True),
        _count("error updates", lambda s: s.error_updates or None),
    ]


def short_lines(shards: Sequence[ShardStatus]) -> Iterator[Line]:
    """The shards, and those of their inputs that cannot be read."""
    return (line for line in lines(shards) if line.shard in shards or line.shard.error)


def _state(shard: ShardStatus, now: int) -> str:
    """`failed`, `paused 3 d ago` and so on; nothing of a shard of which there is nothing to say."""
    condition = "" if shard.condition is Condition.READABLE else shard.condition.value
    if shard.dropped is not None:
        condition = f"{condition} {ago_text(now - shard.dropped)}"
    paused = f"paused {ago_text(now - shard.paused.at)}" if shard.paused else ""
    return ", ".join(filter(None, (_trouble(shard), condition, paused)))


def _trouble(shard: ShardStatus) -> str:
    """``failed`` or ``failed, 7 runs``"""
    if shard.incident is None:
        return ""
    runs = shard.incident.runs
    return shard.incident.trouble.value + (f", {runs} runs" if runs > 1 else "")


def incident_text(shard: ShardStatus, now: int) -> str:
    """What went wrong in the last run, on one line.

    ``orders: failed 3 h ago in models/orders.sql (run by ada, main 1f3c5a7): ...``
    """
    incident = shard.incident
    if incident is None:
        return ""
    when = f"{incident.trouble.value} {ago_text(max(0, now - incident.time))}"
    if incident.runs > 1:
        when += (
            f", as in all of the last {incident.runs} runs since {time_text(incident.since // 1000 * 1000)}"
        )
    texts = (_HEADING.sub("", text).partition("== SQL")[0] for text in incident.messages)
    message = "; ".join(" ".join(text.split()) for text in texts)
    if len(message) > MAX_MESSAGE:
        message = f"{message[: MAX_MESSAGE - 1]}…"
    place = "" if incident.trouble is not Trouble.FAILED or not incident.where else f" in {incident.where}"
    who = author_text(incident.author)
    line = f"{shard.model}: {when}{place}{f' (run by {who})' if who else ''}: {message}"
    if incident.trouble is Trouble.WARNED or shard.computed_through is None:
        return line
    return f"{line}; it shows what was computed at {time_text(shard.computed_through // 1000 * 1000)}"


def _next_in(shard: ShardStatus, now: int) -> str:
    if shard.next_refresh is None or _next(shard) == "":
        return _next(shard)
    return "due" if shard.next_refresh <= now else ago_text(now - shard.next_refresh)
