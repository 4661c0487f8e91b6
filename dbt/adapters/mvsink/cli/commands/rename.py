"""`mvsink rename OLD NEW`: a model that has another name in the project keeps its shard: history,
holds, positions of tasks, readers. No file is moved. What is possible is read from the logs and the
project; a macro does it through dbt's connection (`materialization.renaming`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from dbt.adapters.mvsink.authors import user
from dbt.adapters.mvsink.cli.dbt_runner import MAINTAINED, TASK, Dbt, Model, named_model
from dbt.adapters.mvsink.cli.discovery import DiscoveredShard, choose_one, find_shards, progress
from dbt.adapters.mvsink.cli.errors import CannotRename, WasDropped
from dbt.adapters.mvsink.cli.render import Printer, takes_output, takes_yes
from dbt.adapters.mvsink.cli.target import Target, takes_dbt
from dbt.adapters.mvsink.shard_sql.properties import WATCHED, relation_of


@click.command()
@takes_dbt
@click.option(
    "--view/--no-view",
    default=True,
    help="Whether the old name stays, as a view of the new one. By default it does.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing.")
@takes_yes
@takes_output
@click.argument("old")
@click.argument("new")
def rename(
    target: Target, dbt: Dbt, old: str, new: str, view: bool, dry_run: bool, yes: bool, output: Printer
) -> None:
    """Make the shard of the model OLD that of the model NEW.

    First rename the model in the project (`git mv`), and in what reads it. NEW is its name there,
    or OLD itself if only its alias or schema is another. History, holds, tasks' positions and
    subscribers stay: no file is moved. The old relation becomes a view of the new one.

    Exit code: 0; 1 if it cannot be done, or the answer is no; 2 for wrong usage, such as an unknown
    model.

    \b
    Examples:
      mvsink rename orders fct_orders --dry-run
      mvsink rename orders fct_orders --yes
      mvsink rename orders fct_orders --no-view
    """
    output.check_can_ask(yes or dry_run, "--yes or --dry-run")
    everything = find_shards(target)
    with progress("reading the project"):
        manifest = dbt.parsed()
        model = named_model(dbt, new, manifest)
    node = manifest.nodes[model.unique_id]
    name = f"{node.schema}.{node.alias}"
    begun = _begun(everything, old, name)
    shard = choose_one(everything, target, old) if begun is None else begun
    shown = None if begun is None else relation_of(begun.opened()[1])
    relation, was = (shard.relation, shard.model) if shown is None else (shown.before, shown.model)
    if begun is None:
        _check(shard, everything, model, name, manifest)
    request = {
        "uri": shard.uri,
        "before": _parts(relation),
        "after": _parts(name),
        "model": was,
        "owner": {"project": target.project, "unique_id": model.unique_id, "target": target.name},
        "by": user(),
        "view": view,
    }
    output.text(*_consequences(shard, relation, model, name, view))
    if not dry_run:
        if not yes:
            click.confirm(f"Rename {relation} to {name}?", abort=True)
        with progress(f"renaming {relation}"):
            dbt.ask("mvsink_rename", request, manifest)
    place = {**shard.place, "model": was, "relation": relation}
    output.json({"dry_run": dry_run, **place, "new_model": model.name, "new_relation": name, "view": view})
    output.text("dry run: nothing was changed" if dry_run else f"renamed to {name}")


def _begun(everything: list[DiscoveredShard], old: str, name: str) -> DiscoveredShard | None:
    """The shard that an earlier call has renamed from ``old`` to ``name``, perhaps not to the end;
    None if there is none.
    """
    for shard in everything:
        state = shard.state if shard.relation == name else None
        shown = None if state is None or state.dropped is not None else relation_of(state)
        if shown is not None and old in (shown.before, shown.model):
            return shard
    return None


def _parts(relation: str) -> dict[str, str]:
    schema, _, identifier = relation.rpartition(".")
    return {"schema": schema, "identifier": identifier}


def _check(
    shard: DiscoveredShard, everything: list[DiscoveredShard], model: Model, name: str, manifest: Any
) -> None:
    """Raises `click.ClickException` for what cannot be renamed."""
    _, state = shard.opened()
    owner = shard.owner.unique_id if shard.owner else ""
    if state.dropped is not None:
        raise WasDropped(f"{shard.relation}: was dropped")
    if shard.relation == name:
        raise CannotRename(
            f"{shard.relation}: is the shard of {shard.model} and has that name already"
            if owner != model.unique_id
            else f"{shard.relation}: already has that name"
        )
    if model.materialized not in MAINTAINED:
        raise CannotRename(
            f"{model.name}: is materialized as {model.materialized}; expected one of {', '.join(sorted(MAINTAINED))}"
        )
    if owner != model.unique_id and owner in manifest.nodes:
        raise CannotRename(
            f"{shard.relation}: its model {shard.model} is still in the project. Rename it there first (git mv)"
        )
    if (WATCHED in state.properties) != (model.materialized == TASK):
        kinds = ("a task", "a view") if WATCHED in state.properties else ("a view", "a task")
        raise CannotRename(f"{shard.relation}: is {kinds[0]}, and {model.name} is {kinds[1]}")
    own = [each for each in everything if each.relation == name and each.uri != shard.uri]
    if any(each.state is None or each.state.dropped is None for each in own):
        raise CannotRename(
            f"{name}: has a shard of its own. To give it that of {shard.relation}, drop its own first: mvsink drop {model.name}"
        )


def _consequences(
    shard: DiscoveredShard, relation: str, model: Model, name: str, view: bool
) -> Iterator[str]:
    """What the command does, one line each."""
    _, state = shard.opened()
    holds = len(state.holds)
    yield f"{relation}: becomes {name}, of {model.unique_id}"
    kept = f", {holds} hold{'s' if holds > 1 else ''} of tasks and schedules" if holds else ""
    yield f"  keeps its history{kept}, and its files where they are"
    stays = f"stays as a view of {name}; `drop view {relation}` once it has no readers any more"
    yield f"  {relation} {stays if view else 'is dropped; the rows stay'}"
