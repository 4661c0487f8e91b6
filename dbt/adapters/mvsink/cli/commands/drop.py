"""`mvsink drop`: drops a model's view, marks its shard dropped and releases its holds on others.

The shard's files stay for the grace period. After it, the same command deletes them. Which shards
can be dropped is read from their logs; dbt and Spark drop the view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from dbt.adapters.mvsink.cli.commands import status
from dbt.adapters.mvsink.cli.dbt_runner import Dbt
from dbt.adapters.mvsink.cli.discovery import DiscoveredShard, choose, find_shards, progress, writing
from dbt.adapters.mvsink.cli.errors import FilesStay
from dbt.adapters.mvsink.cli.render import Printer, bytes_text, takes_output, takes_yes, time_text
from dbt.adapters.mvsink.cli.selection import takes_models
from dbt.adapters.mvsink.cli.target import Target
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.published import retire
from dbt.adapters.mvsink.shard import REMOVED_GRACE_MS, delete_dropped
from dbt.adapters.mvsink.shard_sql.properties import held_shards

FAILED = 1  # exit code
DROP, DELETE, NOTHING = "drop", "delete files", "nothing"  # what is done to a shard


def consequences(
    shard: DiscoveredShard, everything: Sequence[DiscoveredShard], nodes: Mapping[str, Any]
) -> list[str]:
    """The consequences of dropping ``shard``, one per line. ``everything`` is all shards, which
    name the holders of holds; ``nodes`` are the enabled models of the project.
    """
    owner = f" ({shard.owner.unique_id})" if shard.owner else ""
    lines = [
        f"{shard.relation}{owner}",
        "  drops its view or table, if that shows this shard",
        f"  marks the shard dropped: {masked(shard.uri)}",
    ]
    if shard.state is None:
        lines.append(f"  the shard cannot be read, so it may not be possible to mark it: {shard.error}")
    else:
        by_uri = {other.uri: other.relation for other in everything}
        by_id = {str(other.state.shard_id): other.relation for other in everything if other.state is not None}
        released = sorted(by_uri.get(uri, masked(uri)) for uri in held_shards(shard.state))
        readers = sorted(by_id.get(holder, f"shard {holder}") for holder in shard.state.holds)
        lines += [f"  releases its holds on {', '.join(released)}"] if released else []
        lines += [f"  is still read by {', '.join(readers)}"] if readers else []
    if shard.owner is not None and shard.owner.unique_id in nodes:
        lines.append("  its model is still in the project: the next `dbt run` creates it again")
    return lines


def dropped_at(shard: DiscoveredShard) -> int | None:
    """When it was dropped (ms); None if it was not, or if it cannot be read."""
    return shard.state.dropped if shard.state else None


def remainder(shard: DiscoveredShard, dropped: int, now: int) -> str:
    """What happens to the files of a shard that was dropped at ``dropped`` (ms)."""
    line = f"{shard.relation}: was dropped at {time_text(dropped)}; "
    files = shard.state.files if shard.state else ()
    if not files:
        return line + "nothing to do"
    size = f"{len(files)} files, {bytes_text(sum(file.size for file in files))}"
    if due(shard, now):
        return f"{line}deletes its files ({size}): {masked(shard.uri)}"
    return f"{line}its files ({size}) can be deleted from {time_text(dropped + REMOVED_GRACE_MS)} on"


def due(shard: DiscoveredShard, now: int) -> bool:
    """Whether it has files that can be deleted, because the grace period for readers is over."""
    dropped, files = dropped_at(shard), shard.state.files if shard.state else ()
    return dropped is not None and bool(files) and dropped < now - REMOVED_GRACE_MS


def delete(target: Target, shard: DiscoveredShard) -> None:
    """Delete the files of a shard that is `due`, with its published table, and the files of its
    inputs' companion shards and of its sums. Raises `click.ClickException` if that is not possible.
    """
    with writing(target, shard, "drop") as handle:
        for problem in retire(handle, target.iceberg_catalog)[1]:
            click.echo(f"{shard.relation}: {problem}", err=True)
        delete_dropped(handle)
        left = bool(handle.state().files)
    if left:
        raise FilesStay(
            f"{shard.relation}: its files stay: it is in use again, another shard still reads it, or by the storage's clock it was dropped "
            "less than 7 days ago"
        )
    for below in (*shard.inputs, *shard.sums):
        with writing(target, below, "drop", shard.relation) as handle:
            handle.mark_dropped(dropped_at(shard))
            delete_dropped(handle)


@click.command()
@takes_models(required=True, with_dbt=True)
@click.option("--dry-run", is_flag=True, help="Show what would be dropped, and change nothing.")
@takes_yes
@takes_output
def drop(
    target: Target,
    dbt: Dbt,
    models: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    output: Printer,
) -> None:
    """Drop the views of MODELS and mark their shards dropped.

    A MODEL is named as in ref(), by its unique id, or as schema.identifier, which also works for a
    model that was removed from the project. Its holds on other shards are released. The shard's
    files stay for 7 days, because running readers need them; after that, the same command deletes
    them.

    A model that is still in the project is created again by the next `dbt run`: a new generation.

    Exit code: 0; 1 if something could not be dropped, or if the answer is no; 2 for wrong usage,
    such as an unknown model.

    \b
    Examples:
      mvsink drop old_orders --dry-run
      mvsink drop shop.old_orders --yes
    """
    output.check_can_ask(yes or dry_run, "--yes or --dry-run")
    now, everything = status.clock(), find_shards(target)
    chosen = choose(everything, target, models)
    fresh = [shard for shard in chosen if dropped_at(shard) is None]
    old = [shard for shard in chosen if due(shard, now)]
    warnings: list[str] = []
    answers = [_remaining(shard, now, output) for shard in chosen if dropped_at(shard) is not None]
    if fresh:
        with progress("reading the project"):
            manifest = dbt.parsed()
        answers += [
            _answer(shard, DROP, consequences(shard, everything, manifest.nodes), output) for shard in fresh
        ]
    if dry_run:
        output.text("dry run: nothing was changed")
    elif fresh or old:
        if not yes:
            click.confirm(_question(len(fresh), len(old)), abort=True)
        for shard in old:
            delete(target, shard)
            output.text(f"deleted the files of {shard.relation}")
        warnings = _drop(dbt, fresh, manifest, output) if fresh else []
    output.json({"dry_run": dry_run, "shards": answers, "warnings": warnings})
    click.get_current_context().exit(FAILED if warnings else 0)


def _remaining(shard: DiscoveredShard, now: int, output: Printer) -> dict[str, Any]:
    """The answer for a shard that was dropped before: what happens to its files."""
    dropped = dropped_at(shard) or 0
    return _answer(shard, DELETE if due(shard, now) else NOTHING, [remainder(shard, dropped, now)], output)


def _answer(shard: DiscoveredShard, action: str, lines: Sequence[str], output: Printer) -> dict[str, Any]:
    """Print ``lines``; returns what is done to the shard as JSON. ``action`` is `DROP`, `DELETE` or
    `NOTHING`.
    """
    output.text(*lines)
    details = [line.strip() for line in lines]
    return {**shard.place, "action": action, "dropped": dropped_at(shard), "details": details}


def _question(fresh: int, old: int) -> str:
    """The question before dropping ``fresh`` shards and deleting the files of ``old`` ones."""
    parts = [f"drop {fresh} shard(s)"] * bool(fresh) + [f"delete the files of {old} shard(s)"] * bool(old)
    return " and ".join(parts).capitalize() + "?"


def _drop(dbt: Dbt, shards: Sequence[DiscoveredShard], manifest: Any, output: Printer) -> list[str]:
    """Drop the shards' views through dbt. Returns warnings about what could not be dropped or
    marked.
    """
    ids = [str(shard.state.shard_id) if shard.state else "" for shard in shards]
    listed = [{**shard.argument, "shard_id": id} for shard, id in zip(shards, ids, strict=True)]
    done = dbt.operation("mvsink_drop", {"shards": listed}, manifest)
    output.text(*done.lines)
    warnings = [masked(warning) for warning in done.warnings]
    for warning in warnings:
        click.echo(f"Warning: {warning}", err=True)
    if not warnings:
        output.text(
            f"{len(shards)} shard(s) dropped. Their files stay for 7 days; then the same command deletes them"
        )
    return warnings
