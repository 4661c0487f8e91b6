"""`mvsink hold MODEL` and `mvsink release MODEL`: pause models, so that runs leave them alone.

It is kept in the shard's log, so it holds for every machine. No Spark is started.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Sequence

import click

from dbt.adapters.mvsink.cli.commands import status
from dbt.adapters.mvsink.cli.discovery import DiscoveredShard, choose, find_shards, words
from dbt.adapters.mvsink.cli.target import Target, takes_target
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.shard import ShardClient, ShardError, WriteHandle
from dbt.adapters.mvsink.shard_sql.pause import Pause, pause, pause_of, release_pause

USER = "MVSINK_USER"


def who() -> str:
    """The person or job that asks, for the history: `MVSINK_USER`, else the operating system's."""
    try:
        return os.environ.get(USER) or getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return "unknown"


def pausable(target: Target, models: Sequence[str]) -> list[DiscoveredShard]:
    """The shards of ``models``. `click.ClickException` if one cannot be read or was dropped."""
    shards = choose(find_shards(target), target, models)
    for shard in shards:
        if shard.state is None:
            raise click.ClickException(f"{shard.relation}: {shard.error}")
        if shard.state.dropped is not None:
            raise click.ClickException(f"{shard.relation}: was dropped; runs write nothing to it")
    return shards


def commit(target: Target, shards: Sequence[DiscoveredShard], write: Callable[[WriteHandle], None]) -> None:
    """``write`` to each shard; `click.ClickException` with the first that fails."""
    client = ShardClient(target.storage_options)
    for shard in shards:
        try:
            with WriteHandle.from_read(client.open_reader(shard.uri), "hold") as handle:
                write(handle)
        except ShardError as error:
            raise click.ClickException(f"{shard.relation}: {words(error)}") from error


@click.command()
@takes_target
@click.option("--reason", default="", help="Why; every run and the history show it.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
def hold(target: Target, models: tuple[str, ...], reason: str, yes: bool) -> None:
    """Pause the MODELs: every run leaves them as they are, with a warning, until their release.

    That includes --full-refresh. Readers are not affected, nor are models that read them.

    Exit code: 0; 1 if a shard cannot be read or written, or if the answer is no; 2 for wrong usage,
    such as an unknown model.
    """
    wanted = Pause(who(), status.clock(), " ".join(reason.split()))
    shards = pausable(target, models)
    for shard in shards:
        current = pause_of(shard.state) if shard.state else None
        click.echo(f"{shard.relation}: " + (f"is {current.words}" if current else "runs will leave it alone"))
    if not yes:
        click.confirm(f"Pause {len(shards)} model(s)?", abort=True)
    commit(target, shards, lambda handle: pause(handle, wanted))
    for shard in shards:
        click.echo(masked(f"{shard.relation}: {wanted.words}; `mvsink release {shard.model}` ends it"))


@click.command()
@takes_target
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
def release(target: Target, models: tuple[str, ...], yes: bool) -> None:
    """End what `mvsink hold` began: the next run brings the MODELs up to date.

    Exit code: 0; 1 if a shard cannot be read or written, or if the answer is no; 2 for wrong usage,
    such as an unknown model.
    """
    paused = []
    for shard in pausable(target, models):
        current = pause_of(shard.state) if shard.state else None
        paused += [shard] if current else []
        click.echo(f"{shard.relation}: " + (f"is {current.words}" if current else "is not paused"))
    if not paused:
        return
    if not yes:
        click.confirm(f"Release {len(paused)} model(s)?", abort=True)
    commit(target, paused, lambda handle: release_pause(handle, who()))
    for shard in paused:
        click.echo(f"{shard.relation}: released; the next run brings it up to date")
