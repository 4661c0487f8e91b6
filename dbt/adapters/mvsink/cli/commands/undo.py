"""`mvsink undo MODEL RUN...`: takes back what runs did in one commit, and pauses the model.

A macro computes the commit through dbt's connection: once to show what would change, and once to do
it; with `--yes`, once. If another run commits in between, nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import click

from dbt.adapters.mvsink.authors import user
from dbt.adapters.mvsink.cli.dbt_runner import Dbt, DbtFailed, terminated_as_interrupted
from dbt.adapters.mvsink.cli.discovery import (
    POINTS_ARE_ARGUMENTS,
    DiscoveredShard,
    ShardHistory,
    check_arguments,
    choose,
    find_shards,
    open_past,
    progress,
    refused,
)
from dbt.adapters.mvsink.cli.downstream import as_models, readers_since
from dbt.adapters.mvsink.cli.errors import CannotUndo, NotForTasks, WasDropped
from dbt.adapters.mvsink.cli.render import Printer, takes_output, takes_yes, time_text
from dbt.adapters.mvsink.cli.target import Target, takes_dbt
from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.history.points import APPEND, Run, both_ways, find_run, runs_of
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.shard_sql import NotReadable
from dbt.adapters.mvsink.shard_sql.as_of import check_changes
from dbt.adapters.mvsink.shard_sql.properties import WATCHED

FAILED = 1  # exit code
SHOWN = 5  # later runs in a message


@dataclass(frozen=True)
class UndoAnswer:
    """What an undo changes or would change. The fields have the JSON's names. Times are ms.

    ``runs`` are undone. ``later`` are the later runs that removed rows and are not undone.
    ``missing`` counts the rows that the undo would remove although a later run has removed them
    already. ``gate`` says why `max_change` or an audit refuses the undo, or is empty; ``warnings``
    are those of audits. ``downstream`` are the models that have read what is undone.
    """

    model: str
    relation: str
    runs: tuple[Mapping[str, Any], ...]
    since: bool
    later: tuple[Mapping[str, Any], ...] = ()
    inserted: int = 0
    deleted: int = 0
    errors: int = 0
    time: int | None = None
    missing: int = 0
    gate: str = ""
    warnings: tuple[str, ...] = ()
    committed: bool = False
    downstream: tuple[str, ...] = ()

    @property
    def refused(self) -> bool:
        return bool(self.missing or (self.gate and not self.committed))

    @property
    def nothing(self) -> bool:
        return not (self.inserted or self.deleted or self.errors or self.missing)


def chosen_runs(past: ShardHistory, names: Sequence[str]) -> list[Run]:
    """The runs that the user names, without repetitions. Raises click's errors."""
    with refused():
        runs = [find_run(name.strip(), past.state, past.commits, past.name) for name in names]
    return [run for number, run in enumerate(runs) if run not in runs[:number]]


def intervals_of(past: ShardHistory, runs: Sequence[Run], since: bool) -> list[tuple[int, int]]:
    """The intervals of times that the runs wrote; with ``since`` one interval, from the earliest of
    them to the upper. Raises `click.ClickException` if history no longer has them all.
    """
    commits = [commit for run in runs for commit in run.commits if commit.kind == APPEND]
    bounds = [(c.lower.stored(), c.upper.stored()) for c in commits if c.lower and c.upper]
    if since and bounds:
        bounds = [(min(lower for lower, _ in bounds), past.state.upper.stored())]
    for lower, upper in bounds:
        with refused():
            try:
                check_changes(past.state, lower, upper)
            except NotReadable as error:
                raise CannotUndo(
                    f"{past.shard.relation}: the changes of [{both_ways(lower)}, {both_ways(upper)}) are no longer known exactly: history begins at "
                    f"{both_ways(past.state.since.stored())}, and what came before is merged into it. `retain_history` keeps more from the next "
                    "run on"
                ) from error
    return bounds


def later_removals(past: ShardHistory, runs: Sequence[Run], since: bool) -> list[Run]:
    """Runs after the earliest of ``runs`` that removed rows and are not undone, newest first."""
    if since:
        return []
    first = min(run.commits[0].version for run in runs)
    return [
        run
        for run in reversed(runs_of(past.commits))
        if run.current
        and run not in runs
        and run.commits[-1].version > first
        and any(commit.note.rows_deleted for commit in run.commits)
    ]


def described(run: Run) -> Mapping[str, Any]:
    """A run as JSON."""
    return {"invocation_id": run.invocation_id or None, "computed_through": run.computed_through}


def lines(answer: UndoAnswer, later: Sequence[Run], reason: str) -> Iterator[str]:
    """What the command is about to do, for people."""
    yield f"{answer.relation}: {reason}"
    errors = f" (errors {answer.errors:,})" if answer.errors else ""
    yield f"  changes it by +{answer.inserted:,} -{answer.deleted:,}{errors} at {time_text(answer.time)}"
    if answer.missing:
        yield (
            f"  refused: {answer.missing:,} row(s) would be there fewer than 0 times, because a later run removed them"
        )
    if answer.missing and later:
        yield "  name that run as well, or use --since; later runs that removed rows:"
        yield from (f"    {run.words}" for run in later[:SHOWN])
        if later[SHOWN:]:
            yield f"    and {len(later) - SHOWN} more"
    if answer.gate:
        yield f"  refused by the gate (--accept lets it through): {answer.gate}"
    yield from (f"  warning: {warning}" for warning in answer.warnings)
    if answer.downstream:
        yield f"  was read by {', '.join(answer.downstream)}: they follow with their next run, or at once with --downstream"
    yield f"  pauses the model: the next run would compute its query again and reverse the undo. `mvsink release {answer.model}` ends the pause"


@click.command(context_settings=POINTS_ARE_ARGUMENTS)
@takes_dbt
@click.option("--since", is_flag=True, help="Also everything that came after the RUN.")
@click.option("--reason", default="", help="The reason, for the history.")
@click.option("--accept", is_flag=True, help="Commit whatever max_change and audits say.")
@click.option("--downstream", is_flag=True, help="Then run the models that have read what is undone.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@takes_yes
@takes_output
@click.argument("model")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
def undo(
    target: Target,
    dbt: Dbt,
    model: str,
    runs: tuple[str, ...],
    since: bool,
    reason: str,
    accept: bool,
    downstream: bool,
    dry_run: bool,
    yes: bool,
    output: Printer,
) -> None:
    """Take back what RUNs did to MODEL, in one commit, and pause MODEL.

    A RUN is an invocation id, the beginning of one, or -N for the Nth newest that changed contents.
    Refused if a row would be there fewer than 0 times, or by the publish gate. Afterwards every run
    leaves the model alone, because it would bring the rows back; see `mvsink release`. Models that
    have read what is undone are named; --downstream runs them.

    Exit code: 0; 1 if it is refused, cannot be done, or the answer is no, or a model downstream
    failed; 2 for wrong usage.

    \b
    Examples:
      mvsink undo revenue -1 --reason "the rates of March are wrong"
      mvsink undo revenue 4f3c2b1a --since --dry-run
      mvsink undo revenue -1 --downstream
    """
    check_arguments((model, *runs))
    output.check_can_ask(yes or dry_run, "--yes or --dry-run")
    undoing = _begin(open_past(target, model), runs, since, reason, accept, dbt)
    at_once = yes and not dry_run
    answer = undoing.done() if at_once else undoing.ask(dry_run=True)
    output.text(*map(masked, lines(answer, undoing.later, undoing.request["reason"])))
    if not (dry_run or at_once or answer.refused or answer.nothing):
        click.confirm("Undo it?", abort=True)
        answer = undoing.done()
    output.json(answer)
    changed = not (dry_run or answer.nothing or answer.refused)
    done = f"undone by {user()} at {time_text(answer.time)}; {answer.relation} is paused"
    output.text(done if changed else "nothing was changed")
    failed = downstream and changed and undoing.run_downstream(output)
    click.get_current_context().exit(FAILED if answer.refused or failed else 0)


@dataclass(frozen=True)
class Undoing:
    """A prepared undo: what it would do can be asked before it is done."""

    past: ShardHistory
    dbt: Dbt
    manifest: Any
    request: Mapping[str, Any]
    answer: UndoAnswer
    later: Sequence[Run]
    readers: Sequence[DiscoveredShard] = ()

    def run_downstream(self, output: Printer) -> bool:
        """Run the models that have read what was undone. Whether one failed."""
        models = as_models(self.readers, self.manifest)
        if not models:
            return False
        with terminated_as_interrupted(), progress(f"running {len(models)} models"):
            ran = self.dbt.run(models, self.manifest)
        output.text(*(masked(f"{each.name}: {each.message.strip()}") for each in ran))
        return not all(each.ok for each in ran)

    def done(self) -> UndoAnswer:
        """Undo. A refusal is an answer that says why; raises `DbtFailed` for other errors."""
        try:
            return self.ask(dry_run=False)
        except DbtFailed:
            answer = self.ask(dry_run=True)
            if not answer.refused:
                raise
            return answer

    def ask(self, *, dry_run: bool) -> UndoAnswer:
        """Compute the undo, and commit it unless ``dry_run``. Raises `DbtFailed`."""
        if not self.request["intervals"]:
            return self.answer
        with progress("computing what it changes" if dry_run else "undoing"):
            request = {**self.request, "dry_run": dry_run}
            [done] = self.dbt.ask("mvsink_undo", request, self.manifest)
        counts = done["counts"]
        return replace(
            self.answer,
            inserted=counts["inserted"],
            deleted=counts["deleted"],
            errors=counts["errors_inserted"] + counts["errors_deleted"],
            time=done["time"],
            missing=done["missing"],
            gate=masked(done["gate"]),
            warnings=tuple(map(masked, done["warnings"])),
            committed=done["committed"],
        )


def _begin(
    past: ShardHistory, names: Sequence[str], since: bool, reason: str, accept: bool, dbt: Dbt
) -> Undoing:
    """Prepare an undo. Wrong usage raises click's errors here, before Spark is started."""
    shard, state = past.shard, past.state
    if state.dropped is not None:
        raise WasDropped(f"{shard.relation}: was dropped at {iso(state.dropped)}")
    if WATCHED in state.properties:
        raise NotForTasks(
            f"{shard.relation} is a task: its upper is how far it has processed its input, so an undo would skip changes of the input. "
            "Correct the input, or reset the task (--full-refresh with `mvsink_reset`)"
        )
    runs = chosen_runs(past, names)
    intervals, later = intervals_of(past, runs, since), later_removals(past, runs, since)
    with progress("reading the project"):
        manifest = dbt.parsed()
    why = f": {' '.join(reason.split())}" if reason.strip() else ""
    undone = ", ".join(run.words for run in runs)
    request = {
        **shard.argument,
        "unique_id": shard.owner.unique_id if shard.owner else "",
        "intervals": intervals,
        "reason": f"undo of {'everything since ' if since else ''}run {undone}{why}",
        "by": user(),
        "accept": accept,
    }
    first = min((lower for lower, _ in intervals), default=None)
    others = choose(find_shards(past.target), past.target, ())
    readers = [] if first is None else readers_since(others, shard, first)
    answer = UndoAnswer(
        shard.model,
        shard.relation,
        tuple(map(described, runs)),
        since,
        tuple(map(described, later)),
        downstream=tuple(reader.model for reader in readers),
    )
    return Undoing(past, dbt, manifest, request, answer, later, readers)
