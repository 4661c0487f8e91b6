"""Two shards at two times compared: by `mvsink diff`, and by `mvsink plan --against`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click

from dbt.adapters.mvsink.cli.key_columns import ModelKey, known_key, named_columns
from dbt.adapters.mvsink.cli.past import ShardHistory, point_values, refused
from dbt.adapters.mvsink.cli.render import Option, Output, count_option, output_option
from dbt.adapters.mvsink.history.points import Point
from dbt.adapters.mvsink.history.shard_diff import (
    Columns,
    Diff,
    DiffSide,
    Query,
    ShardComparison,
    compare,
    replaced,
)
from dbt.adapters.mvsink.masking import masked

SAMPLE = 5  # rows
DIFFERS = 2  # exit code
takes_comparison_output = output_option(Output.TABLE, Output.JSON, Output.MARKDOWN)


def takes_sample(help: str) -> Option:
    """``--sample``: how many rows to show."""
    return count_option("--sample", SAMPLE, help, least=0)


def takes_detailed_exitcode(condition: str) -> Option:
    """``--detailed-exitcode``: `DIFFERS` on that condition."""
    return click.option("--detailed-exitcode", is_flag=True, help=f"Exit code {DIFFERS} if {condition}.")


@dataclass(frozen=True)
class TargetsCompared:
    """Two sides, their points, and what the comparison says."""

    past_a: ShardHistory
    past_b: ShardHistory
    a: Point
    b: Point
    columns: Columns
    key: ModelKey | None
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


def _side(past: ShardHistory, point: Point, rows: int) -> dict[str, Any]:
    place = {
        "target": past.target.name,
        "relation": past.shard.relation,
        "uri": masked(past.shard.uri),
    }
    return {**place, **point_values(point), "rows": rows}


def compared_sides(
    pasts: tuple[ShardHistory, ShardHistory],
    points: tuple[Point, Point],
    names: Sequence[str],
    manifest: Any,
    query: Query,
    sample: int,
    *,
    disjoint: bool = False,
) -> TargetsCompared:
    """Two shards at two times. ``names``: of the key's columns; if empty, they are taken from
    ``manifest``, unless None. ``disjoint``: sides without a column in common are no error.
    """
    layouts = [pasts[0].layout()]
    layouts.append(layouts[0] if pasts[1] is pasts[0] else pasts[1].layout())
    a, b = (DiffSide(layout, point.time) for layout, point in zip(layouts, points, strict=True))
    owner = pasts[1].shard.owner
    with refused():
        columns = Columns.matched(a.layout.columns, b.layout.columns)
        if disjoint and not columns.compared:
            return TargetsCompared(*pasts, *points, columns, None, replaced(query, a, b))
        columns = Columns.of(a.layout.columns, b.layout.columns)
        compared = [each.b for each in columns.compared]
        key = ModelKey(columns.key(named_columns(names, compared)), "--key") if names else None
        if key is None and manifest is not None and owner is not None:
            usable = [each.b for each in columns.compared if "map<" not in each.type.text]
            key = known_key(manifest, owner.unique_id, usable)
        if key is not None:
            key = ModelKey(columns.key(key.columns), key.source)
        comparison = ShardComparison(a, b, columns, key.columns if key else ())
        return TargetsCompared(*pasts, *points, columns, key, compare(query, comparison, sample))
