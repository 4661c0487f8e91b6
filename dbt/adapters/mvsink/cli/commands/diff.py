"""`mvsink diff MODEL [A] [B]`: two times of a shard, or a model's shards in two targets.

The logs give the points in time; dbt's connection compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click

from dbt.adapters.mvsink.cli.dbt_runner import Dbt
from dbt.adapters.mvsink.cli.diff_text import markdown_lines, text_lines
from dbt.adapters.mvsink.cli.discovery import progress
from dbt.adapters.mvsink.cli.keys import Key, known_key
from dbt.adapters.mvsink.cli.past import (
    POINTS_ARE_ARGUMENTS,
    Past,
    check_arguments,
    open_past,
    point_values,
    refused,
    through_dbt,
)
from dbt.adapters.mvsink.cli.render import write_json
from dbt.adapters.mvsink.cli.target import Target, load_target, takes_dbt
from dbt.adapters.mvsink.history.diff import Columns, Comparison, Diff, Query, Side, compare
from dbt.adapters.mvsink.history.points import LATEST, Point
from dbt.adapters.mvsink.masking import masked

SAMPLE = 5  # rows of each kind
BEFORE_NEWEST = "-1"
DIFFERS = 2  # exit code
FORMATS = ("table", "json", "markdown")


@dataclass(frozen=True)
class Compared:
    """Two sides, their points, and what the comparison says."""

    past_a: Past
    past_b: Past
    a: Point
    b: Point
    columns: Columns
    key: Key | None
    diff: Diff

    def values(self) -> dict[str, Any]:
        """As JSON."""
        diff, columns = self.diff, self.columns
        return {
            "model": self.past_b.name,
            "a": _side(self.past_a, self.a, diff.rows_a),
            "b": _side(self.past_b, self.b, diff.rows_b),
            "key": list(self.key.columns) if self.key else None,
            "key_source": self.key.source if self.key else None,
            "differs": diff.differs,
            "only_in_a": diff.only_in_a,
            "only_in_b": diff.only_in_b,
            "changed": diff.changed,
            "repeated_keys": diff.repeated_keys,
            "errors": diff.errors,
            "changed_values": dict(diff.values),
            "columns": {
                "compared": [each.b for each in columns.compared],
                "only_in_a": list(columns.only_in_a),
                "only_in_b": list(columns.only_in_b),
                "retyped": {name: list(types) for name, types in columns.retyped.items()},
            },
            "sample": [asdict(change) for change in diff.sample],
        }


def _side(past: Past, point: Point, rows: int) -> dict[str, Any]:
    place = {
        "target": past.target.name,
        "relation": past.shard.relation,
        "uri": masked(past.shard.uri),
    }
    return {**place, **point_values(point), "rows": rows}


@click.command(context_settings=POINTS_ARE_ARGUMENTS)
@takes_dbt
@click.option("--against", metavar="TARGET", help="Compare with the model's shard in this target, as A.")
@click.option("--key", "keys", multiple=True, help="A column of the key by which rows are paired. Repeat it.")
@click.option("--no-key", is_flag=True, help="Pair no rows, whatever key the model has.")
@click.option(
    "--sample",
    type=click.IntRange(min=0),
    default=SAMPLE,
    show_default=True,
    help="How many rows of each kind to show.",
)
@click.option("--detailed-exitcode", is_flag=True, help="Exit code 2 if the contents differ.")
@click.option("--output", type=click.Choice(FORMATS), default=FORMATS[0], show_default=True)
@click.argument("model")
@click.argument("a", required=False)
@click.argument("b", required=False)
@click.pass_context
def diff(
    context: click.Context,
    target: Target,
    dbt: Dbt,
    model: str,
    a: str | None,
    b: str | None,
    against: str | None,
    keys: tuple[str, ...],
    no_key: bool,
    sample: int,
    detailed_exitcode: bool,
    output: str,
) -> None:
    """What differs between MODEL's contents at A and at B.

    A and B are points in time: `latest`, `-1` (before the newest run that changed contents), `-2`,
    ISO 8601, milliseconds, or the id of a dbt invocation or a unique beginning of one. Without
    them, A is -1 and B is latest. With --against, A is a point of that target's shard, and both are
    latest by default.

    Rows are paired by the model's key (--key, or from its contract or its tests) where it is unique
    on both sides.

    Exit code: 0; 1 if the contents could not be compared; 2 for wrong usage, such as a point that
    cannot be read, and with --detailed-exitcode if they differ.
    """
    check_arguments(context, (model, a, b))
    if keys and no_key:
        raise click.UsageError("--key and --no-key exclude each other")
    past_b = open_past(target, model)
    past_a = past_b if against is None else _other(dbt, against, past_b, model)
    default = BEFORE_NEWEST if against is None else LATEST
    points = past_a.point(a or default), past_b.point(b or LATEST)
    with progress("comparing"):
        manifest = dbt.parsed()
        query = through_dbt(dbt, manifest)
        compared = compared_sides((past_a, past_b), points, keys, None if no_key else manifest, query, sample)
    _write(compared, output)
    context.exit(DIFFERS if detailed_exitcode and compared.diff.differs else 0)


def _other(dbt: Dbt, against: str, past: Past, model: str) -> Past:
    """The same model's shard in the target ``against``."""
    target = load_target(dbt.project_dir, dbt.profiles_dir, dbt.profile, against, dbt.vars)
    owner = past.shard.owner
    return open_past(target, owner.unique_id if owner else model)


def compared_sides(
    pasts: tuple[Past, Past],
    points: tuple[Point, Point],
    names: Sequence[str],
    manifest: Any,
    query: Query,
    sample: int,
) -> Compared:
    """Two shards at two times. ``names``: of the key's columns; if empty, they are taken from
    ``manifest``, unless None.
    """
    layouts = [pasts[0].layout()]
    layouts.append(layouts[0] if pasts[1] is pasts[0] else pasts[1].layout())
    a, b = (Side(layout, point.time) for layout, point in zip(layouts, points, strict=True))
    owner = pasts[1].shard.owner
    with refused():
        columns = Columns.of(a.layout.columns, b.layout.columns)
        key = Key(columns.key(_split(names, columns)), "--key") if names else None
        if key is None and manifest is not None and owner is not None:
            usable = [each.b for each in columns.compared if "map<" not in each.type.text]
            key = known_key(manifest, owner.unique_id, usable)
        if key is not None:
            key = Key(columns.key(key.columns), key.source)
        comparison = Comparison(a, b, columns, key.columns if key else ())
        return Compared(*pasts, *points, columns, key, compare(query, comparison, sample))


def _split(names: Sequence[str], columns: Columns) -> list[str]:
    """``a,b`` is two columns unless it is the name of one."""
    whole = {each.b.lower() for each in columns.compared}
    return [part.strip() for name in names for part in ([name] if name.lower() in whole else name.split(","))]


def _write(compared: Compared, output: str) -> None:
    values = compared.values()
    if output == "json":
        write_json(values)
    else:
        lines = text_lines(values) if output == "table" else markdown_lines(values)
        click.echo("\n".join(lines))
