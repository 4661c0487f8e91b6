"""`mvsink purge MODEL --where CONDITION`: rows leave everything that a model keeps, for good.

A macro asks the engine what has such rows, and does the work (`materialization.purged_model`).
Neither dbt's log nor the shard's history gets the condition, which names what must be forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import click

from dbt.adapters.mvsink.authors import user
from dbt.adapters.mvsink.cli.artifacts import artifacts_with, literals_of
from dbt.adapters.mvsink.cli.commands import status
from dbt.adapters.mvsink.cli.dbt_runner import MAINTAINED, Dbt
from dbt.adapters.mvsink.cli.discovery import DiscoveredShard, choose_one, find_shards, progress, refused
from dbt.adapters.mvsink.cli.errors import InvalidValue, NothingToPurge, WasDropped, WrongUsage
from dbt.adapters.mvsink.cli.graph_order import in_graph_order
from dbt.adapters.mvsink.cli.render import Printer, duration_text, takes_output, takes_yes, time_text
from dbt.adapters.mvsink.cli.target import Target, takes_dbt
from dbt.adapters.mvsink.durations import INTERVAL_UNITS, parse_interval
from dbt.adapters.mvsink.shard_sql.properties import WATCHED
from dbt.adapters.mvsink.user_sql.conditions import problem_of

LEFT = 1  # exit code
COPIES = ("table", "incremental", "seed", "snapshot", *MAINTAINED)  # what has rows of its own


@dataclass(frozen=True)
class PurgeQuestion:
    """``where`` is the condition, empty for a purge by age; ``before`` (ms) is that age's time."""

    where: str
    before: int | None
    now: bool


@dataclass(frozen=True)
class Purging:
    """A model to purge. ``others`` are the relations that may have the rows, too: those that the
    model reads (``upstream``), and those that read it.
    """

    shard: DiscoveredShard
    question: PurgeQuestion
    upstream: Sequence[str] = ()
    downstream: Sequence[str] = ()

    def ask(self, dbt: Dbt, manifest: Any, *, dry_run: bool, others: bool) -> Mapping[str, Any]:
        """The answer of the macro. Raises `DbtFailed`."""
        _, state = self.shard.opened()
        request = {
            **self.shard.argument,
            "where": self.question.where,
            "before": self.question.before,
            "now": self.question.now,
            "by": user(),
            "task": WATCHED in state.properties,
            "dry_run": dry_run,
            "others": [*self.upstream, *self.downstream] if others else [],
        }
        doing = "looking for the rows in" if dry_run else "purging"
        with progress(f"{doing} {self.shard.relation}"):
            [answer] = dbt.ask("mvsink_purge", request, manifest)
        return {**self.shard.place, **answer}


def _older_than(context: click.Context, option: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    age = parse_interval(value)
    if age is None:
        raise InvalidValue(f"expected an interval such as '30 days' ({INTERVAL_UNITS}), got {value!r}")
    return age


@click.command()
@takes_dbt
@click.option("--where", default="", metavar="SQL", help="Which rows: a condition over the columns.")
@click.option(
    "--older-than",
    callback=_older_than,
    metavar="INTERVAL",
    help="Give up all history that is older: rows that have been no contents for so long.",
)
@click.option(
    "--now",
    is_flag=True,
    help="Do not wait for readers: history that tasks, schedules and running readers need goes as well.",
)
@click.option("--downstream", is_flag=True, help="Then purge the maintained models that have copies.")
@click.option("--dry-run", is_flag=True, help="Show what would go, and change nothing.")
@takes_yes
@takes_output
@click.argument("model")
def purge(
    target: Target,
    dbt: Dbt,
    model: str,
    where: str,
    older_than: int | None,
    now: bool,
    downstream: bool,
    dry_run: bool,
    yes: bool,
    output: Printer,
) -> None:
    """Remove rows of MODEL for good: from its contents, history, files and metadata.

    With --where, the rows that satisfy a condition leave the contents and all history: history then
    begins after the last change of such a row. With --older-than, the contents stay, and history
    that is older goes. Files are deleted at once, unless a reader, a task or a schedule still needs
    them: then the command says what is left, and completes it when it is called again.

    Sources that still have the rows are named, for the next run brings the rows back, and so are
    models downstream that have copies.

    Exit code: 0; 1 if something is left, if a source still has rows of the contents, or the answer
    is no; 2 for wrong usage.

    \b
    Examples:
      mvsink purge customers --where "email = 'ada@example.com'" --dry-run
      mvsink purge customers --where "id in (select id from erased)" --downstream --yes
      mvsink purge customers --older-than "30 days" --now --yes
    """
    output.check_can_ask(yes or dry_run, "--yes or --dry-run")
    question = _question(where, older_than, now, downstream)
    everything = find_shards(target)
    shard = _purgeable(choose_one(everything, target, model))
    _check_condition(question.where, shard)
    quiet = replace(dbt, log_file=False)
    with progress("reading the project"):
        manifest = quiet.parsed()
    purging = Purging(shard, question, *_relatives(shard, manifest))
    at_once = yes and not dry_run
    answer = purging.ask(quiet, manifest, dry_run=not at_once, others=True)
    others = answer["others"]
    output.text(*_forecast(answer, question), *_elsewhere(purging, others, downstream))
    if not (dry_run or at_once):
        click.confirm("Purge it?", abort=True)
        answer = {**purging.ask(quiet, manifest, dry_run=False, others=False), "others": others}
    answers = [answer]
    if dry_run:
        output.text("dry run: nothing was changed")
    else:
        output.text(*_done(answer, everything))
        for copy in _copies(purging, everything, others) if downstream else ():
            answers.append(copy.ask(quiet, manifest, dry_run=False, others=False))
            output.text(*_forecast(answers[-1], question), *_done(answers[-1], everything))
        output.text(*_artifacts(dbt.project_dir, where))
    output.json({"dry_run": dry_run, "models": answers})
    comes_back = bool(answer["rows"]) and any(others.get(each) for each in purging.upstream)
    left = not dry_run and (comes_back or any(each["left"] for each in answers))
    click.get_current_context().exit(LEFT if left else 0)


def _purgeable(shard: DiscoveredShard) -> DiscoveredShard:
    """Raises `WasDropped` or `NothingToPurge` for a shard that has nothing to purge."""
    _, state = shard.opened()
    if state.dropped is not None:
        raise WasDropped(
            f"{shard.relation}: was dropped at {time_text(state.dropped)}; `mvsink drop` deletes its files"
        )
    if not state.readable:
        raise NothingToPurge(f"{shard.relation}: has no contents yet")
    return shard


def _check_condition(where: str, shard: DiscoveredShard) -> None:
    """Raises `WrongUsage` for what is not a condition, before Spark is started."""
    _, state = shard.opened()
    with refused():
        problem = problem_of(where, state.schema.names) if where else ""
    if problem:
        raise WrongUsage(f"--where: {where!r} is not a condition on the model's rows: {problem}")


def _artifacts(project_dir: str, where: str) -> Iterator[str]:
    """Delete dbt's files with the condition's values, and say so."""
    deleted, elsewhere = artifacts_with(project_dir, literals_of(where))
    yield from (f"deleted {each}, which had the condition's values" for each in deleted)
    yield from (f"{each} has the condition's values: delete it" for each in elsewhere)


def _question(where: str, older_than: int | None, now: bool, downstream: bool) -> PurgeQuestion:
    """Raises `WrongUsage` unless exactly one of the two says what is to go."""
    if bool(where.strip()) == (older_than is not None):
        raise WrongUsage("say what is to go: either --where or --older-than")
    if downstream and older_than is not None:
        raise WrongUsage("--downstream goes with --where: copies are of rows, not of history")
    before = None if older_than is None else max(status.clock() - older_than, 0)
    return PurgeQuestion(where.strip(), before, now)


def _relatives(shard: DiscoveredShard, manifest: Any) -> tuple[list[str], list[str]]:
    """The relations with rows of their own that the model reads, directly or not, and those that
    read it.
    """
    me = shard.owner.unique_id if shard.owner else ""
    nodes = {**manifest.nodes, **manifest.sources}
    if me not in nodes:
        return [], []
    parents = {name: tuple(_parents(node)) for name, node in nodes.items()}
    children: dict[str, list[str]] = {}
    for name, read in parents.items():
        for each in read:
            children.setdefault(each, []).append(name)
    return _relations(_reached(me, parents), nodes), _relations(_reached(me, children), nodes)


def _parents(node: Any) -> Sequence[str]:
    depends = getattr(node, "depends_on", None)
    return tuple(getattr(depends, "nodes", None) or ())


def _reached(start: str, edges: Mapping[str, Sequence[str]]) -> list[str]:
    """All that can be reached, nearest first, without the start."""
    known, left = [start], [start]
    while left:
        for each in edges.get(left.pop(0), ()):
            if each not in known:
                known.append(each)
                left.append(each)
    return known[1:]


def _relations(names: Sequence[str], nodes: Mapping[str, Any]) -> list[str]:
    known = [nodes[name] for name in names if name in nodes]
    return [str(node.relation_name) for node in known if node.relation_name and _has_rows(node)]


def _has_rows(node: Any) -> bool:
    return str(node.resource_type) == "source" or str(node.config.materialized) in COPIES


def _copies(
    purging: Purging, everything: Sequence[DiscoveredShard], others: Mapping[str, int | None]
) -> Iterator[Purging]:
    """The maintained models downstream that can be asked for the rows, in their order."""
    wanted = {each.replace("`", "") for each in purging.downstream if others.get(each) is not None}
    for shard in in_graph_order(everything):
        if shard.relation in wanted and shard.state is not None and shard.state.dropped is None:
            yield Purging(shard, purging.question)


def _forecast(answer: Mapping[str, Any], question: PurgeQuestion) -> Iterator[str]:
    """What goes, for people."""
    relation = answer["relation"]
    if question.where:
        yield f"{relation}: {_rows(answer['rows'])} of its contents, {answer['updates']:,} change(s) in its files"
    else:
        yield f"{relation}: its contents stay"
    if answer["errors"]:
        yield f"  {answer['errors']:,} of them are errors, whose messages may quote rows: they go with the history"
    if answer["since"] > answer["before"]:
        lost = duration_text(answer["since"] - answer["before"])
        yield f"  history began at {time_text(answer['before'])}, and begins at {time_text(answer['since'])}: {lost} less"
    if answer["generations"]:
        yield f"  {answer['generations']} earlier generation(s) can no longer be read"
    if answer["renewed"]:
        yield "  a new generation begins: models that read it evaluate once, and tasks that watch it take the difference as one change"


def _elsewhere(purging: Purging, others: Mapping[str, int | None], downstream: bool) -> Iterator[str]:
    for each in purging.upstream:
        if others.get(each):
            yield f"  still in {each}, which it reads: {_rows(others[each])}. The next run brings back what the model takes from there"
    for each in purging.downstream:
        if others.get(each):
            yield f"  a copy in {each}: {_rows(others[each])}" + ("" if downstream else " (--downstream)")
    silent = [each for each in (*purging.upstream, *purging.downstream) if others.get(each, 0) is None]
    if silent:
        yield f"  cannot be asked with this condition: {', '.join(silent)}"


def _rows(count: int | None) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def _done(answer: Mapping[str, Any], everything: Sequence[DiscoveredShard]) -> Iterator[str]:
    yield from (f"  warning: {each}" for each in answer["warnings"])
    names = {str(each.state.shard_id): each.relation for each in everything if each.state is not None}
    for left in answer["left"]:
        yield from _left(answer["relation"], left, names)
    state = "not everything could go yet: call it again" if answer["left"] else "purged"
    yield f"{answer['relation']}: {state}; {answer['deleted']:,} file(s) deleted"


def _left(relation: str, left: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[str]:
    """What is left of one shard, and until when."""
    where = f"{relation}/{left['name']}" if left["name"] else relation
    if left["updates"]:
        quoted = f", of which {left['errors']:,} are errors" if left["errors"] else ""
        yield f"  left in {where}: {left['updates']:,} change(s){quoted}"
    if left["since"] < left["through"]:
        yield f"  left in {where}: history from {time_text(left['since'])} on, which should begin at {time_text(left['through'])}"
    for holder, at in left["holds"].items():
        yield f"    {names.get(holder, f'shard {holder}')} holds it from {time_text(at)} on: run that first (or --now)"
    if left["leased"]:
        yield "    a reader is reading it: for at most 15 minutes from its last sign (or --now)"
    if left["files"]:
        shown = f", {left['shown']:,} of which its published table shows" if left["shown"] else ""
        yield f"  left in {where}: {left['files']:,} file(s) of earlier versions{shown}"
    if left["staged"]:
        yield (
            f"  left in {where}: {len(left['staged'])} staged directory(ies) of runs that are going on or were killed; "
            "they are deleted after a day (or --now)"
        )
