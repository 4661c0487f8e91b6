"""`mvsink drop`: a model's view goes, its shard is marked dropped, and what it held of other shards is let go.

The shard's files stay. Reading the logs tells what there is to drop; dropping the view is left to dbt and Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from dbt.adapters.mvsink.cli.dbt_runs import Dbt
from dbt.adapters.mvsink.cli.output import time_text
from dbt.adapters.mvsink.cli.project import Place, takes_dbt
from dbt.adapters.mvsink.cli.shards import FoundShard, choose, find_shards, progress
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.references.holds import held
from dbt.adapters.mvsink.shard.maintenance import REMOVED_GRACE_MS

FAILED = 1  # exit code


def what_would_happen(shard: FoundShard, everything: Sequence[FoundShard]) -> list[str]:
    """What dropping ``shard`` means, a line each. ``everything``: the shards that it may hold, and that may hold it."""
    owner = f" ({shard.owner.unique_id})" if shard.owner else ""
    lines = [
        f"{shard.relation}{owner}",
        "  drops the view, if it shows this shard",
        f"  marks the shard dropped: {masked(shard.uri)}",
    ]
    if shard.state is None:
        return [*lines, f"  the shard cannot be read, so it may not be possible to mark it: {shard.error}"]
    by_uri = {other.uri: other.relation for other in everything}
    by_id = {str(other.state.shard_id): other.relation for other in everything if other.state is not None}
    given_up = sorted(by_uri.get(uri, masked(uri)) for uri in held(shard.state))
    readers = sorted(by_id.get(holder, f"shard {holder}") for holder in shard.state.holds)
    lines += [f"  releases its holds on {', '.join(given_up)}"] if given_up else []
    lines += [f"  is still read by {', '.join(readers)}"] if readers else []
    return lines


def still_there(shard: FoundShard, nodes: Mapping[str, Any]) -> bool:
    """Is the shard's model in the project? A disabled one is not."""
    return shard.owner is not None and shard.owner.unique_id in nodes


def as_argument(shard: FoundShard) -> dict[str, str]:
    """As the macro `mvsink_drop` takes it."""
    schema, _, identifier = shard.relation.rpartition(".")  # a schema may be `catalog.schema`
    shard_id = str(shard.state.shard_id) if shard.state else ""
    return {"schema": schema, "identifier": identifier, "uri": shard.uri, "shard_id": shard_id}


def _already(shard: FoundShard) -> int | None:
    return shard.state.dropped if shard.state else None


@click.command()
@takes_dbt
@click.option("--dry-run", is_flag=True, help="Say what would be dropped, and change nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
@click.pass_context
def drop(context: click.Context, place: Place, dbt: Dbt, models: tuple[str, ...], dry_run: bool, yes: bool) -> None:
    """Drop the views of the MODELs and mark their shards dropped.

    A MODEL is named as in ref(), by its unique id, or as schema.identifier, which also names the shard of a model that is gone. Its holds
    on other shards are released. The shard's files stay where they are: readers that are under way need them.

    A model that is still in the project is made again by the next `dbt run`, as a new generation.

    Exit code: 0; 1 if something could not be dropped, or if the answer is no; 2 for wrong usage, such as an unknown model.
    """
    everything = find_shards(place)
    chosen = choose(everything, place, models)
    for shard in chosen:
        if _already(shard) is not None:
            click.echo(f"{shard.relation}: was dropped at {time_text(_already(shard))}; nothing to do. {_files_of(shard)}")
    chosen = [shard for shard in chosen if _already(shard) is None]
    if not chosen:
        return
    with progress("reading the project"):
        manifest = dbt.parsed()
    for shard in chosen:
        click.echo("\n".join(what_would_happen(shard, everything)))
        if still_there(shard, manifest.nodes):
            click.echo("  its model is still in the project: the next `dbt run` makes it again")
    if dry_run:
        click.echo("dry run: nothing was changed")
        return
    if not yes:
        click.confirm(f"Drop {len(chosen)} shard(s)?", abort=True)
    said = dbt.operation("mvsink_drop", {"shards": [as_argument(shard) for shard in chosen]}, manifest)
    for line in said.lines:
        click.echo(line)
    for warning in said.warnings:
        click.echo(f"Warning: {masked(warning)}", err=True)
    if said.warnings:
        context.exit(FAILED)
    click.echo(f"{len(chosen)} shard(s) dropped. Their files stay; `mvsink drop` says from when on they can be deleted")


def _files_of(shard: FoundShard) -> str:
    """From when on nobody reads the files of a dropped shard any more."""
    return f"From {time_text((_already(shard) or 0) + REMOVED_GRACE_MS)} on its directory can be deleted: {masked(shard.uri)}"
