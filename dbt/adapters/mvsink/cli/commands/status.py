"""`mvsink status`: what every shard holds, how far it is behind, and what keeps its history.

Everything is told by a shard's newest log version and its newest commits; no data file is opened.
Counts come from the live files' statistics, so they count *updates*; rows follow from them only
where every file's diffs are known to be alike.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import click

from dbt.adapters.mvsink.cli.discovery import FoundShard, choose, find_shards, in_parallel, progress, words
from dbt.adapters.mvsink.cli.render import Output, takes_output, write_json, write_table
from dbt.adapters.mvsink.cli.shard_status import Condition, Hold, ShardStatus
from dbt.adapters.mvsink.cli.status_table import FITS, lines, short_columns, short_lines, wide_columns
from dbt.adapters.mvsink.cli.target import Place, takes_place
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.refresh_schedule import RefreshSchedule, decide
from dbt.adapters.mvsink.shard import Commit, DataFile, ReadHandle, ShardState
from dbt.adapters.mvsink.shard_sql import creation_of
from dbt.adapters.mvsink.shard_sql.properties import stored_schedule, watched_shard

NEWEST = 20  # commits in which the newest refresh is nearly always found
RUNS = ("append", "advance")


@dataclass(frozen=True)
class Known:
    """What is known of all shards: the models' names by shard id, and the newest versions by URI."""

    models: Mapping[str, str]
    states: Mapping[str, ShardState]


def clock() -> int:
    """Now, in ms."""
    return int(time.time() * 1000)


def statuses(shards: Sequence[FoundShard], everything: Sequence[FoundShard], now: int) -> list[ShardStatus]:
    """The status of ``shards`` and of their inputs at ``now`` (ms). ``everything`` is who may be a
    holder.
    """
    read = [(shard, shard.state) for shard in _with_inputs(everything) if shard.state is not None]
    known = Known(
        {str(state.shard_id): shard.model for shard, state in read},
        {shard.uri: state for shard, state in read},
    )

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
        holds=tuple(
            Hold(holder, time, known.models.get(holder)) for holder, time in sorted(state.holds.items())
        ),
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

    Measured on the newest run's own time, not on the upper, which a schedule moves ahead; on the
    upper if no commit tells.
    """
    upper = state.upper.as_option()
    if not state.readable or upper is None:
        return None
    return max(0, now - (upper - 1 if computed_through is None else computed_through))


def next_refresh(state: ShardState, schedule: RefreshSchedule | None, now: int) -> int | None:
    """The refresh (ms) that comes next; at or before ``now`` it is due: the next run makes it. None
    on every run, or if none is left.
    """
    if schedule is None or state.dropped is not None:
        return None
    due, frontier = decide(schedule, creation_of(state), state.upper, now)
    return frontier.as_option() if due is None else due


def pending_inputs(state: ShardState, shards: Mapping[str, ShardState]) -> int | None:
    """How many times a task's input has that it has not processed. ``shards`` are the newest
    versions known, by URI.

    None for what is no task, for an input whose times only a run finds out (a table), and where the
    files' statistics do not tell.
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

    Exact where in each file all diffs are equal (a load, a batch of insertions only); None where
    that is not known.
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
    """Updates outside the largest batch over those in it: what readers pay beyond a plain scan.
    None without updates.
    """
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


@click.command()
@takes_place
@click.option(
    "--all",
    "everybody_s",
    is_flag=True,
    help="Every shard there is, whatever project or target it belongs to.",
)
@click.option(
    "--wide",
    is_flag=True,
    help="Every column, exact times, and what tasks keep of their inputs, however long the lines.",
)
@takes_output
@click.argument("models", nargs=-1, metavar="[MODEL]...")
@click.pass_context
def status(
    context: click.Context, place: Place, models: tuple[str, ...], everybody_s: bool, wide: bool, output: str
) -> None:
    """What each shard holds and how far it is behind.

    All shards of this project and target, or those of the MODELs: names as in ref(), unique ids, or
    schema.identifier.

    computed is how long ago the contents were computed, refreshed when a run last moved them on.
    Rows are shown only where the files' statistics make them certain. --wide shows all there is,
    and --output json the same for programs.

    Exit code: 0; 1 if a shard could not be read (the others are shown all the same); 2 for wrong
    usage, such as an unknown model.
    """
    now = clock()
    everything = find_shards(place)
    shards = choose(everything, place, models, everybody_s)
    with progress(f"reading {len(shards)} logs"):
        told = statuses(shards, everything, now)
    if output == Output.JSON.value:
        head = {
            "project": place.project,
            "target": place.target,
            "shard_root": masked(place.shards),
            "now": now,
        }
        write_json({**head, "shards": [asdict(shard) for shard in told]})
    elif told:
        _write(told, everybody_s, wide, now)
    else:
        click.echo(
            f"no shards of project {place.project}, target {place.target} below {masked(place.shards)}"
        )
    if any(line.shard.error for line in lines(told)):
        context.exit(1)


def _write(told: Sequence[ShardStatus], everybody_s: bool, wide: bool, now: int) -> None:
    if wide:
        write_table(wide_columns(everybody_s), list(lines(told)))
        return
    shown = list(short_lines(told))
    write_table(short_columns(everybody_s, now), shown, FITS)
    for line in shown:
        if line.shard.error:
            click.echo(f"{line.label.strip()}: {line.shard.error}")
