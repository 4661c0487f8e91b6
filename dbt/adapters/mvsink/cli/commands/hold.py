"""`mvsink hold MODEL` and `mvsink release MODEL`: pause models, so that runs leave them alone.

The pause is stored in the shard's log, so it applies on every machine. No Spark is started.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import click

from dbt.adapters.mvsink.cli.commands import status
from dbt.adapters.mvsink.cli.discovery import DiscoveredShard, choose, find_shards, words
from dbt.adapters.mvsink.cli.render import Output, check_can_ask, takes_output, takes_yes, write_json
from dbt.adapters.mvsink.cli.target import Target, takes_target
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.shard import ShardClient, ShardError, WriteHandle
from dbt.adapters.mvsink.shard_sql.properties import Pause, pause, pause_of, release_pause

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
        _, state = shard.opened()
        if state.dropped is not None:
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


@dataclass(frozen=True)
class HoldAnswer:
    """One model; the names are those of the JSON. ``paused``: as it is afterwards, None if runs may
    write it; ``changed``: whether this command changed that.
    """

    model: str
    relation: str
    paused: Pause | None
    changed: bool


def write_answers(answers: Sequence[HoldAnswer]) -> None:
    """As JSON."""
    write_json({"models": [asdict(each) for each in answers]})


@click.command()
@takes_target
@click.option("--reason", default="", help="The reason, shown by every run and in the history.")
@takes_yes
@takes_output
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
def hold(target: Target, models: tuple[str, ...], reason: str, yes: bool, output: str) -> None:
    """Pause the MODELs: every run leaves them as they are, with a warning, until their release.

    That includes --full-refresh. Readers are not affected, nor are models that read them.

    Exit code: 0; 1 if a shard cannot be read or written, or if the answer is no; 2 for wrong usage,
    such as an unknown model.
    """
    check_can_ask(output, yes)
    wanted = Pause(who(), status.clock(), " ".join(reason.split()))
    shards, as_text = pausable(target, models), output != Output.JSON.value
    for shard in shards if as_text else ():
        current = _current(shard)
        click.echo(f"{shard.relation}: " + (f"is {current.words}" if current else "runs will leave it alone"))
    if not yes:
        click.confirm(f"Pause {len(shards)} model(s)?", abort=True)
    commit(target, shards, lambda handle: pause(handle, wanted))
    if not as_text:
        write_answers([HoldAnswer(shard.model, shard.relation, wanted, True) for shard in shards])
    for shard in shards if as_text else ():
        click.echo(masked(f"{shard.relation}: {wanted.words}; `mvsink release {shard.model}` ends the pause"))


def _current(shard: DiscoveredShard) -> Pause | None:
    return pause_of(shard.state) if shard.state else None


@click.command()
@takes_target
@takes_yes
@takes_output
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
def release(target: Target, models: tuple[str, ...], yes: bool, output: str) -> None:
    """End what `mvsink hold` began: the next run brings the MODELs up to date.

    Exit code: 0; 1 if a shard cannot be read or written, or if the answer is no; 2 for wrong usage,
    such as an unknown model.
    """
    check_can_ask(output, yes)
    shards, as_text = pausable(target, models), output != Output.JSON.value
    paused = [shard for shard in shards if _current(shard)]
    for shard in shards if as_text else ():
        current = _current(shard)
        click.echo(f"{shard.relation}: " + (f"is {current.words}" if current else "is not paused"))
    if paused and not yes:
        click.confirm(f"Release {len(paused)} model(s)?", abort=True)
    commit(target, paused, lambda handle: release_pause(handle, who()))
    if not as_text:
        write_answers([HoldAnswer(each.model, each.relation, None, each in paused) for each in shards])
    for shard in paused if as_text else ():
        click.echo(f"{shard.relation}: released; the next run brings it up to date")
