"""`mvsink metrics`: the figures of every shard as OpenMetrics text."""

from __future__ import annotations

import click

from dbt.adapters.mvsink.cli.commands import status
from dbt.adapters.mvsink.cli.openmetrics import exposition
from dbt.adapters.mvsink.cli.target import Target, takes_target


@click.command()
@takes_target
@status.takes_all
@click.argument("models", nargs=-1, metavar="[MODEL]...")
@click.pass_context
def metrics(context: click.Context, target: Target, models: tuple[str, ...], all_owners: bool) -> None:
    """The figures of every shard as OpenMetrics text, for Prometheus and other collectors.

    All shards of this project and target, or those of the MODELs: names as in ref(), unique ids, or
    schema.identifier.

    Exit code: 0; 1 if a shard cannot be read or has lost files (mvsink_shard_readable is 0, the
    reason is on stderr, the others are shown); 2 for wrong usage, such as an unknown model.
    """
    shards = status.read_statuses(target, models, all_owners, status.clock())
    click.echo(exposition(shards), nl=False)
    for shard in shards:
        if shard.error:
            click.echo(f"{shard.relation}: {shard.error}", err=True)
    if any(shard.error for shard in shards):
        context.exit(1)
