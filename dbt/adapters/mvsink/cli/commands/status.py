"""`mvsink status`: what every shard contains, how far it is behind, and what keeps its history.

It is determined from the shard's newest log version, its newest commits, one listing of its files,
which shows whether any is missing or truncated, and what is kept of runs that went wrong
(`shard.incidents`). No data file is opened. Counts come from the
statistics of the live files, so they count *updates*. The number of rows follows from them only if,
in each file, all diffs are known to be equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import click

from dbt.adapters.mvsink import wall_clock
from dbt.adapters.mvsink.cli.discovery import (
    DiscoveredShard,
    Owner,
    choose,
    coded,
    find_shards,
    in_parallel,
    progress,
)
from dbt.adapters.mvsink.cli.graph_order import in_graph_order
from dbt.adapters.mvsink.cli.model_incidents import find_incidents, with_models_that_never_ran
from dbt.adapters.mvsink.cli.published_lag import table_figures
from dbt.adapters.mvsink.cli.render import Printer, takes_output
from dbt.adapters.mvsink.cli.selection import takes_models
from dbt.adapters.mvsink.cli.status_table import (
    MAX_LINE,
    TASK,
    VIEW,
    Condition,
    Hold,
    ShardStatus,
    incident_text,
    lines,
    short_columns,
    short_lines,
    wide_columns,
)
from dbt.adapters.mvsink.cli.target import Target
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.refresh_schedule import RefreshSchedule, decide
from dbt.adapters.mvsink.shard import Commit, DataFile, Incident, ReadHandle, ShardState, uncancelled
from dbt.adapters.mvsink.shard_sql import DamagedFiles, creation_of
from dbt.adapters.mvsink.shard_sql.layout import damages
from dbt.adapters.mvsink.shard_sql.properties import (
    WATCHED,
    Freshness,
    Verdict,
    pause_of,
    stored_freshness,
    stored_schedule,
    watched_shard,
)
from dbt.adapters.mvsink.shard_sql.verification import stored_policy


@dataclass(frozen=True)
class Known:
    """All shards that were read: the models' names by shard id, and the newest states by URI.
    ``catalog``: the properties of the Iceberg catalog in which their tables may be. ``incidents``:
    by the model's owner.
    """

    models: Mapping[str, str]
    states: Mapping[str, ShardState]
    catalog: Mapping[str, str] | None = None
    incidents: Mapping[Owner, Incident] = field(default_factory=dict)


def clock() -> int:
    """Now, in ms."""
    return wall_clock.now_ms()


def read_statuses(target: Target, models: Sequence[str], all_owners: bool, now: int) -> list[ShardStatus]:
    """The status at ``now`` (ms) of the shards that `choose` selects, whose errors it raises."""
    discovered = find_shards(target)
    incidents = find_incidents(target)
    everything = with_models_that_never_ran(discovered, target, incidents)
    shards = in_graph_order(choose(everything, target, models, all_owners))
    every = [each for shard in everything for each in (shard, *shard.inputs)]
    read = [(each, each.state) for each in every if each.state is not None]
    names = {str(state.shard_id): each.model for each, state in read}
    known = Known(names, {each.uri: state for each, state in read}, target.iceberg_catalog, incidents)
    with progress(f"reading {len(shards)} logs"):
        return in_parallel(partial(status_of, known=known, now=now), shards)


def status_of(shard: DiscoveredShard, known: Known, now: int) -> ShardStatus:
    """The status of one shard. If the shard cannot be read, ``error`` says why."""
    inputs = tuple(status_of(companion, known, now) for companion in shard.inputs)
    unreadable = ShardStatus(
        shard.model, shard.relation, masked(shard.uri), Condition.UNREADABLE, error=shard.error, inputs=inputs
    )
    if shard.reader is None or shard.state is None:
        return unreadable if shard.error else _without_shard(shard, known)
    try:
        answer = _status(shard, shard.reader, shard.state, known, inputs, now)
        listed = shard.reader.files_in()
        lost = damages(shard.state, lambda _: listed)
        if not lost:
            return answer
        error = coded(DamagedFiles(shard.uri, lost))
        return replace(answer, condition=Condition.UNREADABLE, error=error)
    except Exception as error:  # a broken shard must not hide the others
        return replace(unreadable, error=coded(error))


def _without_shard(shard: DiscoveredShard, known: Known) -> ShardStatus:
    """The status of a model none of whose runs came far enough to create its shard."""
    owner = shard.owner
    return ShardStatus(
        shard.model,
        shard.relation,
        masked(shard.uri),
        Condition.NOT_REFRESHED,
        project=owner.project if owner else None,
        target=owner.target if owner else None,
        unique_id=owner.unique_id if owner else None,
        incident=known.incidents.get(owner) if owner else None,
    )


def _status(
    shard: DiscoveredShard,
    reader: ReadHandle,
    state: ShardState,
    known: Known,
    inputs: tuple[ShardStatus, ...],
    now: int,
) -> ShardStatus:
    newest = reader.newest_run()
    through = newest.note.computed_through if newest else None
    owner, schedule, limits = shard.owner, stored_schedule(state), stored_freshness(state)
    return ShardStatus(
        model=shard.model,
        relation=shard.relation,
        uri=masked(shard.uri),
        condition=condition(state),
        kind=TASK if WATCHED in state.properties else VIEW,
        incident=_incident(known, owner, state, newest),
        inserted=newest.note.rows_inserted if newest else None,
        deleted=newest.note.rows_deleted if newest else None,
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
        slo=slo(limits, state, through, now),
        warn_after=limits.warn_after,
        error_after=limits.error_after,
        last_refresh=newest.timestamp if newest else None,
        run_seconds=newest.note.seconds if newest else None,
        author=(dict(newest.author) or None) if newest else None,
        scheduled=schedule is not None,
        next_refresh=next_refresh(state, schedule, now),
        pending_inputs=pending_inputs(state, known.states),
        rows=row_count(uncancelled(state.files)),
        updates=_total([file.rows for file in state.files]),
        error_updates=_total([file.errors for file in state.files]),
        files=len(state.files),
        bytes=sum(file.size for file in state.files),
        recent_share=recent_share(uncancelled(state.files)),
        holds=tuple(Hold(holder, at, known.models.get(holder)) for holder, at in sorted(state.holds.items())),
        paused=pause_of(state),
        **verification(state),
        inputs=inputs,
        **table_figures(reader, state, known.catalog, through),
    )


def _incident(known: Known, owner: Owner | None, state: ShardState, newest: Commit | None) -> Incident | None:
    """What is wrong with the model's last run, unless the log has a later run."""
    incident = known.incidents.get(owner) if owner else None
    if incident is None or state.dropped is not None:
        return None
    over = incident.is_over(str(state.shard_id), newest.version if newest else None)
    return None if over else incident


def condition(state: ShardState) -> Condition:
    """What can be done with the shard."""
    if state.dropped is not None:
        return Condition.DROPPED
    if not state.readable:
        return Condition.NOT_REFRESHED
    return Condition.FINAL if state.upper.is_empty() else Condition.READABLE


def lag(state: ShardState, computed_through: int | None, now: int) -> int | None:
    """How long ago (ms) the contents were computed; None if there are none, or if they are final.

    It is counted from the time of the newest run. The upper would not do, because a schedule moves
    it ahead of that time; it is used only if no commit records the time of a run.
    """
    upper = state.upper.as_option()
    if not state.readable or upper is None:
        return None
    return max(0, now - (upper - 1 if computed_through is None else computed_through))


def slo(limits: Freshness, state: ShardState, computed_through: int | None, now: int) -> Verdict | None:
    """Whether the contents are as fresh as ``limits`` demand. None if there are no limits, or if
    the shard was dropped.

    A shard without contents is as old as its creation. Final contents are never too old.
    """
    if not limits.limits or state.dropped is not None:
        return None
    age = lag(state, computed_through, now)
    if age is None:
        age = 0 if state.readable else max(0, now - state.created)
    return limits.verdict(age)


def next_refresh(state: ShardState, schedule: RefreshSchedule | None, now: int) -> int | None:
    """The time (ms) of the next refresh. If it is not after ``now``, the next run performs it. None
    without a schedule, or if no refresh is left.
    """
    if schedule is None or state.dropped is not None:
        return None
    due, frontier = decide(schedule, creation_of(state), state.upper, now)
    return frontier.as_option() if due is None else due


def pending_inputs(state: ShardState, shards: Mapping[str, ShardState]) -> int | None:
    """How many times of its input a task has not processed. ``shards`` has the newest states of all
    shards by URI.

    None if the shard is not a task's, if only a run can determine the input's times (those of a
    table), or if the files' statistics do not suffice.
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


def verification(state: ShardState) -> dict[str, Any]:
    """When all contents were last compared by an independent digest, and when they will be."""
    policy = stored_policy(state)
    if policy is None or state.dropped is not None:
        return {}
    runs = None if policy.runs is None else max(1, policy.runs - state.unverified)
    return {
        "verified": state.verified,
        "verify_by": policy.latest(state),
        "verify_after_seconds": policy.seconds_left(state),
        "verify_after_runs": runs,
    }


def row_count(files: Sequence[DataFile]) -> int | None:
    """How many rows the collection has at its newest time: the sum of all diffs, without errors.

    Known if all diffs in each file are equal (a load, a batch of insertions only); otherwise None.
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
    """The number of updates outside the largest batch, divided by the number in it: roughly what a
    read costs more than after a compaction. None if there are no updates.
    """
    batches: Counter[str] = Counter()
    for file in files:
        batches[file.batch_id or file.path] += file.rows or 0
    largest = max(batches.values(), default=0)
    return (sum(batches.values()) - largest) / largest if largest else None


def _total(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


takes_all = click.option("--all", "all_owners", is_flag=True, help="The shards of all projects and targets.")


@click.command()
@takes_models()
@takes_all
@click.option(
    "--wide",
    is_flag=True,
    help="Every column, exact times, and the companion shards of tasks' inputs, in lines of any length.",
)
@click.option(
    "--slo",
    "only_slo",
    is_flag=True,
    help="Only shards with a `freshness`; exit code 1 if contents are older than its error_after.",
)
@takes_output
def status(
    target: Target,
    models: tuple[str, ...],
    all_owners: bool,
    wide: bool,
    only_slo: bool,
    output: Printer,
) -> None:
    """What each shard contains and how far it is behind.

    All shards of this project and target, or those of MODELS: names as in ref(), unique ids, or
    schema.identifier.

    A model comes after those that it reads. state shows what went wrong in its last run, and below
    the table is the message. age is how long ago the contents were computed, + and - are the rows
    that the last run inserted and deleted. Rows are shown only if the files' statistics determine
    their number. --wide shows everything, and --output json the same for programs.

    Exit code: 0; 1 if the last run of a model failed, was skipped or warned, a shard cannot be read
    or has lost files (the others are still shown), and with --slo, if contents are older than
    error_after; 2 for wrong usage, such as an unknown model.

    \b
    Examples:
      mvsink status
      mvsink status orders customers --target prod
      mvsink status --select tag:daily --output json
    """
    now = clock()
    answers = read_statuses(target, models, all_owners, now)
    if only_slo:
        answers = [shard for shard in answers if shard.slo or shard.error]
    place = {"project": target.project, "target": target.name, "shard_root": masked(target.shards)}
    output.json({**place, "now": now, "shards": answers})
    if not answers:
        which = "shards with a `freshness`" if only_slo else "shards"
        output.text(
            f"no {which} of project {target.project}, target {target.name} below {place['shard_root']}"
        )
    elif wide:
        output.table(wide_columns(all_owners), list(lines(answers)))
    else:
        shown = list(short_lines(answers))
        output.table(short_columns(all_owners, now), shown, MAX_LINE)
        output.text(*(f"{line.label.strip()}: {line.shard.error}" for line in shown if line.shard.error))
    output.text(*(incident_text(shard, now) for shard in answers if shard.incident))
    stale = only_slo and any(shard.slo is Verdict.ERROR for shard in answers)
    if stale or any(line.shard.error or line.shard.incident for line in lines(answers)):
        click.get_current_context().exit(1)
