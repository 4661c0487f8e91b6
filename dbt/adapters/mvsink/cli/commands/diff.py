"""`mvsink diff MODEL [A] [B]`: compares a shard at two times, or a model's shards in two targets.

The points in time are found in the shards' logs. Queries through dbt's connection compare the
contents.
"""

from __future__ import annotations

import click

from dbt.adapters.mvsink.cli.comparison import (
    DIFFERS,
    compared_sides,
    markdown_lines,
    takes_all_columns,
    takes_comparison_output,
    takes_detailed_exitcode,
    takes_sample,
    text_lines,
)
from dbt.adapters.mvsink.cli.dbt_runner import Dbt, through_dbt
from dbt.adapters.mvsink.cli.discovery import (
    POINTS_ARE_ARGUMENTS,
    ShardHistory,
    check_arguments,
    open_past,
    progress,
)
from dbt.adapters.mvsink.cli.errors import WrongUsage
from dbt.adapters.mvsink.cli.render import Printer
from dbt.adapters.mvsink.cli.target import Target, load_target, takes_dbt
from dbt.adapters.mvsink.history.points import LATEST

BEFORE_NEWEST = "-1"


@click.command(context_settings=POINTS_ARE_ARGUMENTS)
@takes_dbt
@click.option("--against", metavar="TARGET", help="Compare with the model's shard in this target, as A.")
@click.option(
    "--key",
    "keys",
    multiple=True,
    help="A column of the key by which rows are paired. Repeat it for several.",
)
@click.option("--no-key", is_flag=True, help="Pair no rows, whatever key the model has.")
@takes_sample("How many rows of each kind to show.")
@takes_all_columns
@takes_detailed_exitcode("the contents differ")
@takes_comparison_output
@click.argument("model")
@click.argument("a", required=False)
@click.argument("b", required=False)
def diff(
    target: Target,
    dbt: Dbt,
    model: str,
    a: str | None,
    b: str | None,
    against: str | None,
    keys: tuple[str, ...],
    no_key: bool,
    sample: int,
    all_columns: bool,
    detailed_exitcode: bool,
    output: Printer,
) -> None:
    """What differs between MODEL's contents at A and at B.

    A and B are points in time: `latest`, `-1` (before the newest run that changed contents), `-2`,
    ISO 8601, milliseconds, or the id of a dbt invocation or a unique beginning of one. Without
    them, A is -1 and B is latest. With --against, A is a point of that target's shard, and both are
    latest by default.

    Rows are paired by the model's key (--key, or from its contract, its tests, or its GROUP BY)
    where it is unique on both sides.

    Exit code: 0; 1 if the contents could not be compared; 2 for wrong usage, such as a point that
    cannot be read, and with --detailed-exitcode if they differ.

    \b
    Examples:
      mvsink diff orders
      mvsink diff orders 2026-11-20 latest --key order_id
      mvsink diff orders --against prod -x
    """
    check_arguments((model, a, b))
    if keys and no_key:
        raise WrongUsage("--key and --no-key exclude each other")
    past_b = open_past(target, model)
    past_a = past_b if against is None else _other(dbt, against, past_b, model)
    default = BEFORE_NEWEST if against is None else LATEST
    points = past_a.point(default if a is None else a), past_b.point(LATEST if b is None else b)
    with progress("comparing"):
        manifest = dbt.parsed()
        query = through_dbt(dbt, manifest)
        values = compared_sides((past_a, past_b), points, keys, None if no_key else manifest, query, sample)
    output.json(values)
    output.text(*text_lines(values, all_columns))
    output.markdown(markdown_lines(values, all_columns))
    click.get_current_context().exit(DIFFERS if detailed_exitcode and values["differs"] else 0)


def _other(dbt: Dbt, against: str, past: ShardHistory, model: str) -> ShardHistory:
    """The same model's shard in the target ``against``."""
    target = load_target(dbt.project_dir, dbt.profiles_dir, dbt.profile, against, dbt.vars)
    owner = past.shard.owner
    return open_past(target, owner.unique_id if owner else model)
