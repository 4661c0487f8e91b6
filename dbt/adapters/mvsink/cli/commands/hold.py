"""`mvsink hold`, `release` and `rewind`, which commit to models' shards without Spark.

`hold` pauses a model and `release` ends the pause. It is stored in the shard's log, so it applies
on every machine. `rewind` is the remedy after a run whose clock or `mvsink_run_time` was far ahead:
it takes the model's newest time back to the present.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from dbt.adapters.mvsink.authors import user
from dbt.adapters.mvsink.cli.commands import status
from dbt.adapters.mvsink.cli.discovery import DiscoveredShard, choose, failing, find_shards, writing
from dbt.adapters.mvsink.cli.errors import NotForTasks, WasDropped
from dbt.adapters.mvsink.cli.render import Printer, takes_output, takes_yes, time_text
from dbt.adapters.mvsink.cli.selection import takes_models
from dbt.adapters.mvsink.cli.target import Target
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.shard import Antichain, CommitNote, ShardClient, ShardError
from dbt.adapters.mvsink.shard import rewind as rewind_shard
from dbt.adapters.mvsink.shard_sql.properties import WATCHED, Pause, pause, pause_of, release_pause

HOLD, REWIND = "hold", "rewind"  # purposes of commits


def writable(target: Target, models: Sequence[str]) -> list[DiscoveredShard]:
    """The models' shards. Raises `click.ClickException` if one cannot be read or was dropped."""
    shards = choose(find_shards(target), target, models)
    for shard in shards:
        _, state = shard.opened()
        if state.dropped is not None:
            raise WasDropped(
                f"{shard.relation} was dropped; if its model is still in the project, "
                "`dbt run` builds it again"
            )
    return shards


def _answer(shard: DiscoveredShard, paused: Pause | None, *, changed: bool) -> dict[str, Any]:
    """The answer as JSON. ``paused`` is the state afterwards; ``changed`` says whether this command
    changed it.
    """
    return {"model": shard.model, "relation": shard.relation, "paused": paused, "changed": changed}


def _paused(shard: DiscoveredShard) -> Pause | None:
    return pause_of(shard.state) if shard.state else None


def _line(shard: DiscoveredShard, otherwise: str) -> str:
    current = _paused(shard)
    return f"{shard.relation}: {f'is {current.words}' if current else otherwise}"


@click.command()
@takes_models(required=True)
@click.option("--reason", default="", help="The reason, shown by every run and in the history.")
@takes_yes
@takes_output
def hold(target: Target, models: tuple[str, ...], reason: str, yes: bool, output: Printer) -> None:
    """Pause MODELS: every run leaves them as they are, with a warning, until their release.

    That includes --full-refresh. Readers are not affected, nor are models that read them.

    Exit code: 0; 1 if a shard cannot be read or written, or if the answer is no; 2 for wrong usage,
    such as an unknown model.

    \b
    Examples:
      mvsink hold revenue --reason "the rates of March are wrong"
      mvsink hold --select orders+ --yes
    """
    output.check_can_ask(yes)
    wanted = Pause(user(), status.clock(), " ".join(reason.split()))
    shards = writable(target, models)
    output.text(*(_line(shard, "runs will leave it alone") for shard in shards))
    if not yes:
        click.confirm(f"Pause {len(shards)} model(s)?", abort=True)
    for shard in shards:
        with writing(target, shard, HOLD) as handle:
            pause(handle, wanted)
    output.json({"models": [_answer(shard, wanted, changed=True) for shard in shards]})
    for shard in shards:
        output.text(
            masked(f"{shard.relation}: {wanted.words}; `mvsink release {shard.model}` ends the pause")
        )


@click.command()
@takes_models(required=True)
@takes_yes
@takes_output
def release(target: Target, models: tuple[str, ...], yes: bool, output: Printer) -> None:
    """End what `mvsink hold` began: the next run brings MODELS up to date.

    Exit code: 0; 1 if a shard cannot be read or written, or if the answer is no; 2 for wrong usage,
    such as an unknown model.

    \b
    Examples:
      mvsink release revenue
      mvsink release --select orders+ --yes
    """
    output.check_can_ask(yes)
    shards = writable(target, models)
    paused = [shard for shard in shards if _paused(shard)]
    output.text(*(_line(shard, "is not paused") for shard in shards))
    if paused and not yes:
        click.confirm(f"Release {len(paused)} model(s)?", abort=True)
    for shard in paused:
        with writing(target, shard, HOLD) as handle:
            release_pause(handle, user())
    output.json({"models": [_answer(shard, None, changed=shard in paused) for shard in shards]})
    output.text(*(f"{shard.relation}: released; the next run brings it up to date" for shard in paused))


@click.command()
@takes_models(required=True)
@takes_yes
@takes_output
def rewind(target: Target, models: tuple[str, ...], yes: bool, output: Printer) -> None:
    """Take the newest time of MODELS back to now, so that runs can write them again.

    This is for models that a run with a wrong clock, or a mistyped mvsink_run_time, left far ahead.
    Updates at later times are moved to now; the history before now and the contents stay. The shard
    begins a new generation: a task or subscriber that has read past now starts again from the
    contents. All files are copied. The clock is that of the shards' storage.

    Exit code: 0; 1 if a shard cannot be read or written, or if the answer is no; 2 for wrong usage,
    such as an unknown model.

    \b
    Examples:
      mvsink rewind revenue
    """
    output.check_can_ask(yes)
    shards = writable(target, models)
    for shard in shards:
        _require_view(shard)
    with failing(f"cannot read the clock of {target.shards}", (ShardError, OSError)):
        now = ShardClient(target.storage_options).clock(target.shards)
    ahead = [shard for shard in shards if _is_ahead(shard, now)]
    output.text(*(masked(_time_line(shard, now)) for shard in shards))
    if ahead and not yes:
        click.confirm(f"Take {len(ahead)} model(s) back to {time_text(now)}?", abort=True)
    versions = {shard.relation: _rewind(target, shard, now) for shard in ahead}
    answers = [
        {"model": shard.model, "relation": shard.relation, "version": versions.get(shard.relation)}
        for shard in shards
    ]
    output.json({"to": now, "models": answers})
    for shard in ahead:
        output.text(f"{shard.relation}: readable up to {time_text(now)}; the next run brings it up to date")


def _require_view(shard: DiscoveredShard) -> None:
    """Raises `click.ClickException` for a task, whose times are those of its input."""
    _, state = shard.opened()
    if WATCHED in state.properties:
        raise NotForTasks(
            f"{shard.relation} is a task: its upper is how far it has processed its input, which cannot be taken back. Reset the task "
            "(--full-refresh with `mvsink_reset`)"
        )


def _is_ahead(shard: DiscoveredShard, now: int) -> bool:
    _, state = shard.opened()
    return state.readable and Antichain.of(now).step_forward().less_than(state.upper)


def _time_line(shard: DiscoveredShard, now: int) -> str:
    _, state = shard.opened()
    if not _is_ahead(shard, now):
        return f"{shard.relation}: is not ahead of the clock ({time_text(now)}); it stays as it is"
    upper = state.upper.as_option()
    end = "for ever" if upper is None else f"up to {time_text(upper)}"
    return f"{shard.relation}: is written {end}; what is later than {time_text(now)} will be at that time"


def _rewind(target: Target, shard: DiscoveredShard, now: int) -> int | None:
    """Rewind the shard; returns the version that this made. The next run computes the model's sums
    again.
    """
    with writing(target, shard, REWIND) as handle:
        version = rewind_shard(handle, now, CommitNote(purpose=f"{REWIND} by {user()}"))
    for below in shard.sums:
        with writing(target, below, REWIND, shard.relation) as handle:
            handle.mark_dropped(now)
    return version
