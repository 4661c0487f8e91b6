"""Compares two shards, or one shard at two times, for `mvsink diff` and `mvsink plan --against`.

The two sides are called A and B. The result is the JSON of `mvsink diff`, from which the texts for
people are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click

from dbt.adapters.mvsink.cli.discovery import ShardHistory, point_values, refused
from dbt.adapters.mvsink.cli.errors import WrongUsage
from dbt.adapters.mvsink.cli.render import (
    Option,
    Output,
    Values,
    count_option,
    escaped,
    fenced,
    output_option,
)
from dbt.adapters.mvsink.cli.row_table import ShownRow, row_lines, shown_value
from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.history.points import Point
from dbt.adapters.mvsink.history.shard_diff import (
    Columns,
    Diff,
    DiffSide,
    Month,
    Query,
    ShardComparison,
    by_month,
    compare,
    replaced,
)
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.shard import ShardState
from dbt.adapters.mvsink.shard_sql.properties import stored_definition
from dbt.adapters.mvsink.user_sql.group_key import group_key

SAMPLE = 5  # rows
DATED = ("date", "timestamp", "timestamp_ltz", "timestamp_ntz")
DIFFERS = 2  # exit code
UNIQUE_TESTS = {"unique": "column_name", "unique_combination_of_columns": "combination_of_columns"}
takes_comparison_output = output_option(Output.TABLE, Output.JSON, Output.MARKDOWN)


def takes_sample(help: str) -> Option:
    """``--sample``: how many rows to show."""
    return count_option("--sample", SAMPLE, help, least=0)


takes_all_columns = click.option(
    "-x",
    "--all-columns",
    is_flag=True,
    help="Show all columns of the rows, not only those of the key and those that changed.",
)


def takes_detailed_exitcode(condition: str) -> Option:
    """``--detailed-exitcode``: exit with `DIFFERS` if that condition holds."""
    return click.option("--detailed-exitcode", is_flag=True, help=f"Exit code {DIFFERS} if {condition}.")


def compared_sides(
    pasts: tuple[ShardHistory, ShardHistory],
    points: tuple[Point, Point],
    names: Sequence[str],
    manifest: Any,
    query: Query,
    sample: int,
    *,
    disjoint: bool = False,
) -> Values:
    """Compare two shards, each at a point in time; returns the JSON of `mvsink diff`.

    Rows are paired by a key: the columns in ``names``, or if there are none, a key that the model
    has in ``manifest``. Without names and with None for the manifest, no rows are paired. It is an
    error if the sides have no column in common, unless ``disjoint`` is true.
    """
    a, b = _sides(pasts, points)
    owner, key = pasts[1].shard.owner, None
    with refused():
        columns = Columns.matched(a.layout.columns, b.layout.columns)
        if disjoint and not columns.compared:
            diff = replaced(query, a, b)
        else:
            columns = Columns.of(a.layout.columns, b.layout.columns)
            compared = [each.b for each in columns.compared]
            key = ModelKey(columns.key(named_columns(names, compared)), "--key") if names else None
            if key is None and manifest is not None and owner is not None:
                usable = [each.b for each in columns.compared if "map<" not in each.type.text]
                key = known_key(manifest, owner.unique_id, usable) or grouped_key(pasts[1].state, usable)
            if key is not None:
                key = ModelKey(columns.key(key.columns), key.source)
            diff = compare(query, ShardComparison(a, b, columns, key.columns if key else ()), sample)
    sides = zip("ab", pasts, points, (diff.rows_a, diff.rows_b), strict=True)
    return {
        "model": pasts[1].name,
        **{side: _side(past, point, rows) for side, past, point, rows in sides},
        "key": list(key.columns) if key else None,
        "key_source": key.source if key else None,
        **_diff_values(diff, columns),
    }


def months_of(
    past: ShardHistory, points: tuple[Point, Point], values: Values, by: str | None, query: Query
) -> tuple[str | None, list[Month]]:
    """The difference ``values`` of one shard at two points by the months of its column ``by``, by
    default the first date or timestamp. Returns the column, None if there is no such one, and the
    counts. Raises `click.UsageError`.
    """
    layout = past.layout(points[1])
    columns = Columns.of(layout.columns, layout.columns)
    dated = {each.b.lower(): each.b for each in columns.compared if each.type.name in DATED}
    check_month(by, list(dated.values()))
    if not dated:
        return None, []
    column = next(iter(dated.values())) if by is None else dated[by.lower()]
    a, b = _sides((past, past), points)
    comparison = ShardComparison(a, b, columns, tuple(values["key"] or ()))
    return column, by_month(query, comparison, column)


def _sides(
    pasts: tuple[ShardHistory, ShardHistory], points: tuple[Point, Point]
) -> tuple[DiffSide, DiffSide]:
    """Both sides, with one layout if they are one generation of one shard."""
    first = pasts[0].layout(points[0])
    same = pasts[1] is pasts[0] and points[1].earlier is points[0].earlier
    second = first if same else pasts[1].layout(points[1])
    return DiffSide(first, points[0].time), DiffSide(second, points[1].time)


def check_month(by: str | None, columns: Sequence[str]) -> None:
    """Raises `click.UsageError` if ``by`` is none of these dates and timestamps."""
    if by is not None and by.lower() not in [name.lower() for name in columns]:
        allowed = f"one of {', '.join(columns)}" if columns else "none: there is no date and no timestamp"
        raise WrongUsage(f"--by: got {by!r}, expected {allowed}")


def _side(past: ShardHistory, point: Point, rows: int) -> Values:
    uri = masked(past.shard.uri)
    place = {"target": past.target.name, "relation": past.shard.relation, "uri": uri}
    return {**place, **point_values(point), "rows": rows}


def _diff_values(diff: Diff, columns: Columns) -> Values:
    return {
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


@dataclass(frozen=True)
class ModelKey:
    """The columns of a model's key, and where it is from (``source``), as people read it."""

    columns: tuple[str, ...]
    source: str


def named_columns(options: Iterable[str], columns: Iterable[str]) -> list[str]:
    """The columns that ``--key`` options name. ``a,b`` means two columns, unless it is the name of
    one.
    """
    whole = {column.lower() for column in columns}
    split = ([option] if option.lower() in whole else option.split(",") for option in options)
    return [name.strip() for names in split for name in names]


def known_key(manifest: Any, unique_id: str, columns: Iterable[str]) -> ModelKey | None:
    """The first key whose columns are all among ``columns``. A primary key is tried first, then
    other unique constraints, then unique tests of one column, then those of several.
    """
    node = manifest.nodes.get(unique_id)
    allowed = {column.lower() for column in columns}
    candidates = [] if node is None else [*_constraints(node), *_tests(manifest, unique_id)]
    fitting = (key for key in candidates if key.columns and {name.lower() for name in key.columns} <= allowed)
    return next(fitting, None)


def grouped_key(state: ShardState, columns: Iterable[str]) -> ModelKey | None:
    """What the model's query groups by, if all of it is among ``columns``."""
    names = group_key(str(stored_definition(state).get("sql", "")))
    allowed = {column.lower() for column in columns}
    return ModelKey(names, "group by") if names and {name.lower() for name in names} <= allowed else None


def _constraints(node: Any) -> Sequence[ModelKey]:
    listed = [(each, tuple(each.columns)) for each in getattr(node, "constraints", None) or ()]
    for name, column in (getattr(node, "columns", None) or {}).items():
        listed += [(each, (name,)) for each in getattr(column, "constraints", None) or ()]
    kinds = {"primary_key": "primary key", "unique": "unique constraint"}
    keys = [
        ModelKey(columns, kinds[kind])
        for each, columns in listed
        if (kind := str(getattr(each.type, "value", each.type))) in kinds
    ]
    return sorted(keys, key=lambda key: key.source != kinds["primary_key"])


def _tests(manifest: Any, unique_id: str) -> Sequence[ModelKey]:
    return sorted(_unique_tests(manifest, unique_id), key=lambda key: (len(key.columns), key.source))


def _unique_tests(manifest: Any, unique_id: str) -> Iterator[ModelKey]:
    """The keys that the model's unique tests imply. A test of only some rows (`where`) implies
    none.
    """
    for node in manifest.nodes.values():
        metadata = getattr(node, "test_metadata", None)
        if metadata is None or getattr(node, "attached_node", None) != unique_id or node.config.where:
            continue
        columns = metadata.kwargs.get(UNIQUE_TESTS.get(metadata.name))
        if columns:
            listed = (columns,) if isinstance(columns, str) else tuple(columns)
            yield ModelKey(tuple(name.strip("`") for name in listed), f"test {node.name}")


def text_lines(values: Values, all_columns: bool = False) -> list[str]:
    """The comparison as lines for a terminal."""
    lines = [f"{values['model']}{_paired_by(values)}"]
    lines += [f"  {side.upper()}  {_side_text(values, side)}" for side in "ab"]
    lines += ["", *(f"  {line}" for line in _findings(values))]
    if values["sample"]:
        lines += ["", *(f"  {line}" for line in sample_of(values, all_columns))]
    return lines


def markdown_lines(values: Values, all_columns: bool = False) -> list[str]:
    """The comparison in Markdown. The sample is a block of code, so its values need no escaping."""
    lines = [f"### {escaped(values['model'])}", ""]
    lines += [f"- {side.upper()}: {escaped(_side_text(values, side))}" for side in "ab"]
    if values["key"]:
        lines.append(f"- rows are {escaped(_paired_by(values).removeprefix(','))}")
    lines += ["", "| | rows |", "|---|---:|"]
    counts = (("only in A", "only_in_a"), ("only in B", "only_in_b"), ("changed", "changed"))
    lines += [f"| {title} | {values[key]:,} |" for title, key in counts if key != "changed" or values["key"]]
    if values["changed_values"]:
        lines += ["", "| column | values changed |", "|---|---:|"]
        lines += [f"| {escaped(name)} | {count:,} |" for name, count in values["changed_values"].items()]
    notes = [escaped(note) for note in notes_of(values)]
    lines += ["", *(f"- {note}" for note in notes)] if notes else []
    if values["sample"]:
        lines += ["", *fenced(list(sample_of(values, all_columns)))]
    return lines


def _paired_by(values: Values) -> str:
    return f", paired by {', '.join(values['key'])} ({values['key_source']})" if values["key"] else ""


def _side_text(values: Values, side: str) -> str:
    """``prod latest: 4 rows as of 2026-11-20T15:00:00Z, run 4f3c... of 2026-11-20T15:00:00Z``"""
    each = values[side]
    target = f"{each['target']} " if values["a"]["target"] != values["b"]["target"] else ""
    run = each["invocation_id"]
    by = f", left by run {run} of {iso(each['computed_through'])}" if run else ""
    return f"{target}{each['point']}: {_rows(each['rows'])} as of {iso(each['time'])}{by}"


def _rows(count: int) -> str:
    return f"{count:,} row" + ("" if count == 1 else "s")


def _findings(values: Values) -> Iterator[str]:
    if not values["differs"]:
        yield "no differences"
    for key, side in (("only_in_a", "only in A"), ("only_in_b", "only in B"), ("changed", "changed")):
        if values[key]:
            yield f"{_rows(values[key])} {side}" + (
                f": {_by_column(values)}" if key == "changed" and values["changed_values"] else ""
            )
    yield from notes_of(values)


def _by_column(values: Values) -> str:
    return ", ".join(f"{name} in {count:,}" for name, count in values["changed_values"].items())


def notes_of(values: Values, a: str = "in A", b: str = "in B") -> Iterator[str]:
    """What is to know about the counts: rows that could not be paired, columns that were not
    compared. ``a`` and ``b`` are the sides, for people.
    """
    if not values["key"] and values["only_in_a"] and values["only_in_b"]:
        yield f"no key is known (a unique test, or a constraint): a changed row is one only {a} and one only {b}"
    repeated, errors, columns = values["repeated_keys"], values["errors"], values["columns"]
    if repeated:
        subject = "1 key occurs" if repeated == 1 else f"{repeated:,} keys occur"
        yield f"{subject} more than once on a side: the rows are not paired"
    if errors:
        yield f"{errors:,} recorded error{'' if errors == 1 else 's'} on one side only"
    for side, name in (("a", a), ("b", b)):
        if columns[f"only_in_{side}"]:
            yield f"columns only {name}, not compared: {', '.join(columns[f'only_in_{side}'])}"
    for column, (before, after) in columns["retyped"].items():
        yield f"not compared: {column}, which is {before} {a} and {after} {b}"


def sample_of(values: Values, all_columns: bool = False) -> Iterator[str]:
    """The rows of the sample as a table: `-` for a row that is only in A, `+` for one that is only
    in B, `!` for one that changed. Its columns are those of the key and those in which rows
    changed, or all if no row was paired.
    """
    changes, key = values["sample"], values["key"] or ()
    names = list(values["columns"]["compared"])
    if key and values["changed_values"] and not all_columns:
        names = [*key, *(name for name in names if name in values["changed_values"] and name not in key)]
    yield from row_lines([_row(change, key) for change in changes], names)
    larger = [
        name for name in ("only_in_a", "only_in_b", "changed") if values[name] > _shown_of(values, name)
    ]
    if larger:
        yield "... --sample shows more"


def _row(change: Values, key: Sequence[str]) -> ShownRow:
    a, b = change["a"], change["b"]
    if a is None or b is None:
        cells = {name: shown_value(value) for name, value in (b if a is None else a).items()}
        return ShownRow("+" if a is None else "-", cells, change["copies"])
    return ShownRow("!", {name: _cell(key, name, a[name], b[name]) for name in b})


def _shown_of(values: Values, key: str) -> int:
    kinds = {"changed": (True, True), "only_in_a": (True, False), "only_in_b": (False, True)}
    return sum(
        change["copies"]
        for change in values["sample"]
        if (change["a"] is not None, change["b"] is not None) == kinds[key]
    )


def _cell(key: Sequence[str], name: str, a: object, b: object) -> str:
    changed = name not in key and a != b
    return f"{shown_value(a)} -> {shown_value(b)}" if changed else shown_value(b)
