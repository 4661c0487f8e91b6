"""`mvsink rewind MODEL`: take a model's newest time back to the present, with its history.

The remedy after a run whose clock or `mvsink_run_time` was far ahead. It is a commit to the shard,
without Spark.
"""

from __future__ import annotations

import click

from dbt.adapters.mvsink.cli.commands.hold import pausable, who
from dbt.adapters.mvsink.cli.discovery import DiscoveredShard, words
from dbt.adapters.mvsink.cli.render import (
    Output,
    check_can_ask,
    takes_output,
    takes_yes,
    time_text,
    write_json,
)
from dbt.adapters.mvsink.cli.target import Target, takes_target
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.shard import Antichain, CommitNote, ShardClient, ShardError, WriteHandle
from dbt.adapters.mvsink.shard import rewind as rewind_shard
from dbt.adapters.mvsink.shard_sql.properties import WATCHED

PURPOSE = "rewind"


@click.command()
@takes_target
@takes_yes
@takes_output
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
def rewind(target: Target, models: tuple[str, ...], yes: bool, output: str) -> None:
    """Take the newest time of the MODELs back to now, if it is later: runs can write them again.

    For models that a run with a wrong clock, or a mistyped mvsink_run_time, left far ahead. What
    was written after now is at now from then on; the history before it and the contents stay. The
    shard begins a new generation: a task or subscriber that had read past now starts from its
    contents. All files are copied. The clock is that of the shards' storage.

    Exit code: 0; 1 if a shard cannot be read or written, or if the answer is no; 2 for wrong usage,
    such as an unknown model.
    """
    check_can_ask(output, yes)
    as_text = output != Output.JSON.value
    client = ShardClient(target.storage_options)
    shards = pausable(target, models)
    for shard in shards:
        _require_view(shard)
    now = _now(client, target)
    ahead = [shard for shard in shards if _is_ahead(shard, now)]
    for shard in shards if as_text else ():
        click.echo(masked(_line(shard, now)))
    if ahead and not yes:
        click.confirm(f"Take {len(ahead)} model(s) back to {time_text(now)}?", abort=True)
    versions = {shard.relation: _rewind(client, shard, now) for shard in ahead}
    if not as_text:
        write_json(
            {
                "to": now,
                "models": [
                    {"model": each.model, "relation": each.relation, "version": versions.get(each.relation)}
                    for each in shards
                ],
            }
        )
    for shard in ahead if as_text else ():
        click.echo(f"{shard.relation}: readable up to {time_text(now)}; the next run brings it up to date")


def _now(client: ShardClient, target: Target) -> int:
    """By the storage's clock, in ms."""
    try:
        return client.clock(target.shards)
    except (ShardError, OSError) as error:
        raise click.ClickException(f"cannot read the clock of {target.shards}: {words(error)}") from error


def _require_view(shard: DiscoveredShard) -> None:
    """Raises `click.ClickException` for a task: its times are those of its inputs."""
    _, state = shard.opened()
    if WATCHED in state.properties:
        raise click.ClickException(
            f"{shard.relation} is a task: its upper is how far it has processed its input, which cannot be taken back. Reset the task "
            "(--full-refresh with `mvsink_reset`)"
        )


def _is_ahead(shard: DiscoveredShard, now: int) -> bool:
    _, state = shard.opened()
    return state.readable and Antichain.of(now).step_forward().less_than(state.upper)


def _line(shard: DiscoveredShard, now: int) -> str:
    _, state = shard.opened()
    if not _is_ahead(shard, now):
        return f"{shard.relation}: is not ahead of the clock ({time_text(now)}); it stays as it is"
    upper = state.upper.as_option()
    end = "for ever" if upper is None else f"up to {time_text(upper)}"
    return f"{shard.relation}: is written {end}; what is later than {time_text(now)} will be at that time"


def _rewind(client: ShardClient, shard: DiscoveredShard, now: int) -> int | None:
    """The version that it made. The model's sums are computed again by the next run."""
    try:
        with WriteHandle.from_read(client.open_reader(shard.uri), PURPOSE) as handle:
            version = rewind_shard(handle, now, CommitNote(purpose=f"{PURPOSE} by {who()}"))
        for below in shard.sums:
            with WriteHandle.from_read(client.open_reader(below.uri), PURPOSE) as handle:
                handle.mark_dropped(now)
    except ShardError as error:
        raise click.ClickException(f"{shard.relation}: {words(error)}") from error
    return version
