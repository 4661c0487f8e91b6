"""`mvsink drop`: a model's view goes, its shard is marked dropped, and what it held of other shards
is let go.

The shard's files stay for the grace period; afterwards the same command deletes them. Reading the
logs tells what there is to drop; dropping the view is left to dbt and Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from dbt.adapters.mvsink.cli.commands import status
from dbt.adapters.mvsink.cli.dbt_runner import Dbt
from dbt.adapters.mvsink.cli.discovery import FoundShard, choose, find_shards, progress, words
from dbt.adapters.mvsink.cli.render import bytes_text, time_text
from dbt.adapters.mvsink.cli.target import Place, takes_dbt
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.shard import REMOVED_GRACE_MS, ShardClient, ShardError, WriteHandle, delete_dropped
from dbt.adapters.mvsink.shard_sql.holds import held_shards

FAILED = 1  # exit code


def what_would_happen(shard: FoundShard, everything: Sequence[FoundShard]) -> list[str]:
    """What dropping ``shard`` means, a line each. ``everything``: the shards that it may hold, and
    that may hold it.
    """
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
    given_up = sorted(by_uri.get(uri, masked(uri)) for uri in held_shards(shard.state))
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


def dropped_before(shard: FoundShard) -> int | None:
    """When it was dropped (ms); None if it was not, or cannot be read."""
    return shard.state.dropped if shard.state else None


def what_is_left(shard: FoundShard, dropped: int, now: int) -> str:
    """Of a shard that was dropped before."""
    line = f"{shard.relation}: was dropped at {time_text(dropped)}; "
    files = shard.state.files if shard.state else ()
    if not files:
        return line + "nothing to do"
    size = f"{len(files)} files, {bytes_text(sum(file.size for file in files))}"
    if due(shard, now):
        return f"{line}deletes its files ({size}): {masked(shard.uri)}"
    return f"{line}its files ({size}) can be deleted from {time_text(dropped + REMOVED_GRACE_MS)} on"


def due(shard: FoundShard, now: int) -> bool:
    """Was it dropped so long ago that nobody reads its files any more?"""
    dropped = dropped_before(shard)
    return (
        dropped is not None and bool(shard.state and shard.state.files) and dropped < now - REMOVED_GRACE_MS
    )


def delete(place: Place, shard: FoundShard, now: int) -> None:
    """Delete the files of a shard that is due. Raises `click.ClickException` where they cannot be,
    or may not.
    """
    try:
        client = ShardClient(place.storage_options)
        with WriteHandle.from_read(client.open_reader(shard.uri), "drop") as handle:
            delete_dropped(handle, now)
            left = bool(handle.state().files)
    except ShardError as error:
        raise click.ClickException(f"{shard.relation}: {words(error)}") from error
    if left:
        raise click.ClickException(
            f"{shard.relation}: its files stay: it lives again, or somebody still reads it"
        )
    click.echo(f"deleted the files of {shard.relation}")


@click.command()
@takes_dbt
@click.option("--dry-run", is_flag=True, help="Say what would be dropped, and change nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
@click.pass_context
def drop(
    context: click.Context, place: Place, dbt: Dbt, models: tuple[str, ...], dry_run: bool, yes: bool
) -> None:
    """Drop the views of the MODELs and mark their shards dropped.

    A MODEL is named as in ref(), by its unique id, or as schema.identifier, which also names the
    shard of a model that is gone. Its holds on other shards are released. The shard's files stay
    for 7 days, because readers that are under way need them; after that, the same command deletes
    them.

    A model that is still in the project is made again by the next `dbt run`, as a new generation.

    Exit code: 0; 1 if something could not be dropped, or if the answer is no; 2 for wrong usage,
    such as an unknown model.
    """
    now, everything = status.clock(), find_shards(place)
    chosen = choose(everything, place, models)
    fresh = [shard for shard in chosen if dropped_before(shard) is None]
    old = [shard for shard in chosen if due(shard, now)]
    for shard in chosen:
        dropped = dropped_before(shard)
        if dropped is not None:
            click.echo(what_is_left(shard, dropped, now))
    manifest = _say_what_would_happen(dbt, fresh, everything) if fresh else None
    if dry_run:
        click.echo("dry run: nothing was changed")
    elif fresh or old:
        if not yes:
            click.confirm(_question(len(fresh), len(old)), abort=True)
        for shard in old:
            delete(place, shard, now)
        if fresh and not _drop(dbt, fresh, manifest):
            context.exit(FAILED)


def _question(fresh: int, old: int) -> str:
    """What is asked of whoever drops ``fresh`` shards and deletes the files of ``old`` ones."""
    asked = [f"drop {fresh} shard(s)"] * bool(fresh) + [f"delete the files of {old} shard(s)"] * bool(old)
    return " and ".join(asked).capitalize() + "?"


def _say_what_would_happen(dbt: Dbt, shards: Sequence[FoundShard], everything: Sequence[FoundShard]) -> Any:
    """dbt's manifest."""
    with progress("reading the project"):
        manifest = dbt.parsed()
    for shard in shards:
        click.echo("\n".join(what_would_happen(shard, everything)))
        if still_there(shard, manifest.nodes):
            click.echo("  its model is still in the project: the next `dbt run` makes it again")
    return manifest


def _drop(dbt: Dbt, shards: Sequence[FoundShard], manifest: Any) -> bool:
    """False if a shard could not be marked."""
    said = dbt.operation("mvsink_drop", {"shards": [as_argument(shard) for shard in shards]}, manifest)
    for line in said.lines:
        click.echo(line)
    for warning in said.warnings:
        click.echo(f"Warning: {masked(warning)}", err=True)
    if not said.warnings:
        click.echo(
            f"{len(shards)} shard(s) dropped. Their files stay for 7 days; then the same command deletes them"
        )
    return not said.warnings
