"""`mvsink status`: what every shard holds, how far it is behind, and what keeps its history.

Everything is told by a shard's newest log version and its newest commits; no data file is opened. Counts come from the live files'
statistics, so they count *updates*; rows follow from them only where every file's diffs are known to be alike.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from urllib.parse import unquote

import click

from dbt.adapters.mvsink.cli.output import (
    Column,
    Output,
    bytes_text,
    count_text,
    duration_text,
    takes_output,
    time_text,
    write_json,
    write_table,
)
from dbt.adapters.mvsink.cli.project import Place, takes_place
from dbt.adapters.mvsink.cli.shards import FoundShard, choose, find_shards, in_parallel, progress, words
from dbt.adapters.mvsink.maintained.definition import stored_schedule, watched_shard
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.refresh_schedule import RefreshSchedule, decide
from dbt.adapters.mvsink.shard import Commit, DataFile, ReadHandle, ShardState
from dbt.adapters.mvsink.sink import creation_of

NEWEST = 20  # commits in which the newest refresh is nearly always found
RUNS = ("append", "advance")


class Condition(str, Enum):
    """What can be done with a shard."""

    READABLE = "readable"
    FINAL = "final"
    NOT_REFRESHED = "not refreshed yet"
    DROPPED = "dropped"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Hold:
    """History from ``time`` (ms) on is kept for ``holder``, a shard id; ``model`` is its model's name where it is known."""

    holder: str
    time: int
    model: str | None = None


@dataclass(frozen=True)
class ShardStatus:
    """One shard; the names are those of the JSON. Times and lags are ms; None where there is nothing to tell, or nobody knows."""

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
    last_refresh: int | None = None
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
    error: str | None = None
    inputs: tuple[ShardStatus, ...] = field(default=())


@dataclass(frozen=True)
class Known:
    """What is known of all shards: the models' names by shard id, and the newest versions by URI."""

    models: Mapping[str, str]
    states: Mapping[str, ShardState]


def clock() -> int:
    """Now, in ms."""
    return int(time.time() * 1000)


def statuses(shards: Sequence[FoundShard], everything: Sequence[FoundShard], now: int) -> list[ShardStatus]:
    """The status of ``shards`` and of their inputs at ``now`` (ms). ``everything`` is who may be a holder."""
    read = [(shard, shard.state) for shard in _with_inputs(everything) if shard.state is not None]
    known = Known({str(state.shard_id): shard.model for shard, state in read}, {shard.uri: state for shard, state in read})

    def look(shard: FoundShard) -> ShardStatus:
        return status_of(shard, known, now)

    return in_parallel(look, shards)


def status_of(shard: FoundShard, known: Known, now: int) -> ShardStatus:
    """One shard's status; what cannot be read is said in ``error``."""
    inputs = tuple(status_of(companion, known, now) for companion in shard.inputs)
    unreadable = ShardStatus(
        shard.model, shard.relation, masked(shard.uri), Condition.UNREADABLE, error=shard.error, inputs=inputs
    )
    if shard.reader is None or shard.state is None:
        return unreadable
    try:
        return _status(shard, shard.state, newest_refresh(shard.reader), known, inputs, now)
    except Exception as error:  # one shard, whatever is wrong with it, must not hide the others
        return ShardStatus(**{**vars(unreadable), "error": words(error)})


def _status(
    shard: FoundShard,
    state: ShardState,
    newest: Commit | None,
    known: Known,
    inputs: tuple[ShardStatus, ...],
    now: int,
) -> ShardStatus:
    through = newest.note.computed_through if newest else None
    owner, schedule = shard.owner, stored_schedule(state)
    return ShardStatus(
        model=shard.model,
        relation=shard.relation,
        uri=masked(shard.uri),
        condition=condition(state),
        project=owner.project if owner else None,
        target=owner.target if owner else None,
        unique_id=owner.unique_id if owner else None,
        shard_id=str(state.shard_id),
        version=state.version,
        generation=state.generation,
        created=state.created,
        dropped=state.dropped,
        since=state.since.as_option(),
        upper=state.upper.as_option(),
        computed_through=through,
        lag=lag(state, through, now),
        last_refresh=newest.timestamp if newest else None,
        scheduled=schedule is not None,
        next_refresh=next_refresh(state, schedule, now),
        pending_inputs=pending_inputs(state, known.states),
        rows=row_count(state.files),
        updates=_total([file.rows for file in state.files]),
        error_updates=_total([file.errors for file in state.files]),
        files=len(state.files),
        bytes=sum(file.size for file in state.files),
        recent_share=recent_share(state.files),
        holds=tuple(Hold(holder, time, known.models.get(holder)) for holder, time in sorted(state.holds.items())),
        inputs=inputs,
    )


def condition(state: ShardState) -> Condition:
    """What can be done with the shard."""
    if state.dropped is not None:
        return Condition.DROPPED
    if not state.readable:
        return Condition.NOT_REFRESHED
    return Condition.FINAL if state.upper.is_empty() else Condition.READABLE


def newest_refresh(reader: ReadHandle) -> Commit | None:
    """The newest commit of a run: it moved the upper. None if the log tells of none any more."""
    for newest in (NEWEST, None):
        commits = reader.history(newest)
        for commit in reversed(commits):
            if commit.kind in RUNS and commit.upper is not None:
                return commit
        if len(commits) < NEWEST:
            break
    return None


def lag(state: ShardState, computed_through: int | None, now: int) -> int | None:
    """How long ago (ms) the contents were computed; None if there are none, or if they are final.

    Measured on the newest run's own time, not on the upper, which a schedule moves ahead; on the upper if no commit tells.
    """
    upper = state.upper.as_option()
    if not state.readable or upper is None:
        return None
    return max(0, now - (upper - 1 if computed_through is None else computed_through))


def next_refresh(state: ShardState, schedule: RefreshSchedule | None, now: int) -> int | None:
    """The refresh (ms) that comes next; at or before ``now`` it is due: the next run makes it. None on every run, or if none is left."""
    if schedule is None or state.dropped is not None:
        return None
    due, frontier = decide(schedule, creation_of(state), state.upper, now)
    return frontier.as_option() if due is None else due


def pending_inputs(state: ShardState, shards: Mapping[str, ShardState]) -> int | None:
    """How many times a task's input has that it has not processed. ``shards`` are the newest versions known, by URI.

    None for what is no task, for an input whose times only a run finds out (a table), and where the files' statistics do not tell.
    """
    watched = watched_shard(state)
    source = shards.get(watched.uri) if watched else None
    if watched is None or source is None or not source.readable:
        return None
    times = set()
    for file in source.files:
        if file.max_time is None or file.max_diff is None or file.min_diff is None or file.errors is None:
            return None
        if state.upper.less_equal_time(file.max_time):
            if file.min_time != file.max_time:
                return None
            if file.max_diff > 0 or file.errors or watched.deletes:
                times.add(file.max_time)
    return len(times)


def row_count(files: Sequence[DataFile]) -> int | None:
    """How many rows the collection has at its newest time: all diffs added up, errors left out.

    Exact where in each file all diffs are equal (a load, a batch of insertions only); None where that is not known.
    """
    rows = 0
    for file in files:
        if (
            file.deletion_vector
            or file.rows is None
            or file.errors is None
            or file.min_diff is None
            or file.min_diff != file.max_diff
        ):
            return None
        rows += (file.rows - file.errors) * file.min_diff
    return rows


def recent_share(files: Sequence[DataFile]) -> float | None:
    """Updates outside the largest batch over those in it: what readers pay beyond a plain scan. None without updates."""
    batches: Counter[str] = Counter()
    for file in files:
        batches[file.batch_id or file.path] += file.rows or 0
    largest = max(batches.values(), default=0)
    return (sum(batches.values()) - largest) / largest if largest else None


def _total(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _with_inputs(shards: Sequence[FoundShard]) -> Iterator[FoundShard]:
    for shard in shards:
        yield shard
        yield from shard.inputs


# shown


@dataclass(frozen=True)
class _Line:
    """A row of the table: a shard, or an input of the one above."""

    label: str
    shard: ShardStatus


def _lines(shards: Sequence[ShardStatus]) -> Iterator[_Line]:
    same = Counter(shard.model for shard in shards)
    for shard in shards:
        plain = same[shard.model] == 1 and shard.relation.split(".", 1)[-1] == shard.model
        yield _Line(shard.model if plain or shard.model == shard.relation else f"{shard.model} ({shard.relation})", shard)
        for companion in shard.inputs:
            yield _Line(f"  input {unquote(companion.relation.rsplit('/', 1)[-1])}", companion)


def _of(text: Callable[[ShardStatus], str]) -> Callable[[_Line], str]:
    return lambda line: text(line.shard)


def _owner(shard: ShardStatus) -> str:
    return f"{shard.project}, {shard.target}" if shard.project else ""


def _condition(shard: ShardStatus) -> str:
    told = "" if shard.condition is Condition.READABLE else shard.condition.value
    return f"{told} {time_text(shard.dropped)}".strip()


def _upper(shard: ShardStatus) -> str:
    return Condition.FINAL.value if shard.version is not None and shard.upper is None else time_text(shard.upper or None)


def _next(shard: ShardStatus) -> str:
    if shard.condition not in (Condition.READABLE, Condition.NOT_REFRESHED):
        return ""
    if not shard.scheduled:
        return "every run"
    return "none left" if shard.next_refresh is None else time_text(shard.next_refresh)


def _holds(shard: ShardStatus) -> str:
    return ", ".join(f"{hold.model or hold.holder} from {time_text(hold.time)}" for hold in shard.holds)


def _columns(everybody_s: bool) -> list[Column[_Line]]:
    return [
        Column("model", lambda line: line.label),
        *([Column("owner", _of(_owner))] if everybody_s else []),
        Column("state", _of(_condition), optional=True),
        Column("since", _of(lambda s: time_text(s.since or None))),
        Column("upper", _of(_upper)),
        Column("lag", _of(lambda s: duration_text(s.lag)), right=True),
        Column("last refresh", _of(lambda s: time_text(s.last_refresh and s.last_refresh // 1000 * 1000))),
        Column("next refresh", _of(_next)),
        Column("pending", _of(lambda s: count_text(s.pending_inputs)), optional=True, right=True),
        Column("rows", _of(lambda s: count_text(s.rows)), optional=True, right=True),
        Column("updates", _of(lambda s: count_text(s.updates)), right=True),
        Column("files", _of(lambda s: count_text(s.files)), right=True),
        Column("size", _of(lambda s: bytes_text(s.bytes)), right=True),
        Column("recent", _of(lambda s: f"{s.recent_share:.1%}" if s.recent_share else ""), optional=True, right=True),
        Column("errors", _of(lambda s: count_text(s.error_updates or None)), optional=True, right=True),
        Column("holds", _of(_holds), optional=True),
        Column("generation", _of(lambda s: count_text(s.generation or None)), optional=True, right=True),
        Column("error", _of(lambda s: s.error or ""), optional=True),
    ]


@click.command()
@takes_place
@click.option("--all", "everybody_s", is_flag=True, help="Every shard there is, whatever project or target it belongs to.")
@takes_output
@click.argument("models", nargs=-1, metavar="[MODEL]...")
@click.pass_context
def status(context: click.Context, place: Place, models: tuple[str, ...], everybody_s: bool, output: str) -> None:
    """What each shard holds and how far it is behind.

    All shards of this project and target, or those of the MODELs: names as in ref(), unique ids, or schema.identifier.

    since and upper bound the times that can be read; lag is how long ago the contents were computed. Counts are of updates as the
    files' statistics tell them, so rows are shown only where they are certain.

    Exit code: 0; 1 if a shard could not be read (the others are shown all the same); 2 for wrong usage, such as an unknown model.
    """
    now = clock()
    everything = find_shards(place)
    shards = choose(everything, place, models, everybody_s)
    with progress(f"reading {len(shards)} logs"):
        told = statuses(shards, everything, now)
    if output == Output.JSON.value:
        head = {"project": place.project, "target": place.target, "shard_root": masked(place.shards), "now": now}
        write_json({**head, "shards": [asdict(shard) for shard in told]})
    elif told:
        write_table(_columns(everybody_s), list(_lines(told)))
    else:
        click.echo(f"no shards of project {place.project}, target {place.target} below {masked(place.shards)}")
    if any(line.shard.error for line in _lines(told)):
        context.exit(1)
