"""`mvsink import MODEL`: makes a table a `self_correcting_mv`, and says what was wrong in it.

dbt runs the model; its first contents are the table's rows (`materialization.importing`), so what
the run changes is what was wrong. `--dry-run` does the same in a temporary schema and directory.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import click

from dbt.adapters.mvsink.authors import user
from dbt.adapters.mvsink.cli.comparison import (
    DATED,
    check_month,
    compared_sides,
    months_of,
    named_columns,
    notes_of,
    sample_of,
    takes_all_columns,
    takes_sample,
)
from dbt.adapters.mvsink.cli.dbt_runner import (
    VIEW,
    Dbt,
    DbtFailed,
    Model,
    RunResult,
    named_model,
    result_of,
    terminated_as_interrupted,
    through_dbt,
)
from dbt.adapters.mvsink.cli.discovery import ShardHistory, open_past, progress, writing
from dbt.adapters.mvsink.cli.errors import ImportRefused, WrongUsage
from dbt.adapters.mvsink.cli.rehearsal import rehearsal
from dbt.adapters.mvsink.cli.render import (
    Printer,
    TableColumn,
    Values,
    bytes_text,
    count_text,
    takes_output,
    takes_yes,
)
from dbt.adapters.mvsink.cli.target import Target, takes_dbt
from dbt.adapters.mvsink.history.points import LATEST
from dbt.adapters.mvsink.history.shard_diff import Month
from dbt.adapters.mvsink.shard import CommitNote
from dbt.adapters.mvsink.shard_sql.properties import Imported, imported_from

BEFORE, AFTER = "in the table", "in the query"
MONTHS: list[TableColumn[Month]] = [
    TableColumn("month", lambda each: each.month or "NULL"),
    TableColumn("missing", lambda each: count_text(each.only_in_b or None), right=True),
    TableColumn("too many", lambda each: count_text(each.only_in_a or None), right=True),
    TableColumn("stale", lambda each: count_text(each.changed or None), right=True, optional=True),
]


@dataclass(frozen=True)
class Asked:
    """What to show: ``keys`` to pair rows by, the column ``by`` whose months are
    counted, how many rows to show.
    """

    keys: Sequence[str]
    by: str | None
    sample: int


@click.command("import")
@takes_dbt
@click.option("--dry-run", is_flag=True, help="Say what it would find, and leave everything as it is.")
@click.option("--drop-old", is_flag=True, help="Only drop the table that was imported.")
@click.option(
    "--key",
    "keys",
    multiple=True,
    help="A column of the key by which rows are paired. Repeat it for several.",
)
@click.option(
    "--by",
    metavar="COLUMN",
    help="Count by the months of this column; by default the first date or timestamp.",
)
@takes_sample("How many wrong rows of each kind to show.")
@takes_all_columns
@takes_yes
@takes_output
@click.argument("model")
def import_(
    target: Target,
    dbt: Dbt,
    model: str,
    dry_run: bool,
    drop_old: bool,
    keys: tuple[str, ...],
    by: str | None,
    sample: int,
    all_columns: bool,
    yes: bool,
    output: Printer,
) -> None:
    """Make the table of MODEL, which is a self_correcting_mv now, its first contents, and say what
    was wrong in it: rows that were missing, too many or stale, by column and by month.

    The table's rows are read once, and the first run writes only the difference. The table stays
    under the name MODEL_before_import, until --drop-old drops it. If it is refused or stopped
    before, the table is as it was.

    Exit code: 0; 1 if it cannot be done, or the answer is no; 2 for wrong usage.

    \b
    Examples:
      mvsink import orders --dry-run
      mvsink import orders --key order_id --by ordered_at
      mvsink import orders --drop-old
    """
    if drop_old:
        if dry_run:
            raise WrongUsage("--dry-run and --drop-old exclude each other")
        output.check_can_ask(yes, "--yes")
        _drop_old(dbt, open_past(target, model), yes, output)
        return
    asked = Asked(keys, by, sample)
    with terminated_as_interrupted():
        with progress("reading the project"):
            manifest = dbt.parsed()
            chosen = _model(dbt, model, manifest)
            _check(dbt, chosen, manifest, asked, dry_run=dry_run)
        values = (_rehearsed if dry_run else _imported)(dbt, target, chosen, manifest, asked)
    output.json(values)
    if output.is_text:
        _print(values, output, all_columns)


def _check(dbt: Dbt, model: Model, manifest: Any, asked: Asked, *, dry_run: bool) -> None:
    """Raises click's errors, before anything runs, for columns that the table does not have, and
    for a dry run of what has no rows of its own. (A run finds out the latter itself, also where an
    import that was killed has renamed the table.)
    """
    relation = str(manifest.nodes[model.unique_id].relation_name)
    if not (dry_run or asked.keys or asked.by is not None):
        return
    try:
        described = through_dbt(dbt, manifest)(f"describe table extended {relation}", "columns")
    except DbtFailed as error:
        if dry_run:
            lines = [line.strip() for line in error.message.strip().splitlines()]
            reason = next((line for line in lines if line.startswith("[")), lines[-1])
            raise ImportRefused(f"{model.name}: there is no table {relation}: {reason}") from error
        return
    if dry_run and ["Type", "VIEW"] in [[str(cell) for cell in row[:2]] for row in described]:
        raise ImportRefused(
            f"{model.name}: cannot be imported: {relation} is a view, so it is maintained already, or has no rows of its own"
        )
    listed = itertools.takewhile(lambda row: row[0] and not str(row[0]).startswith("#"), described)
    types = {str(name).lower(): str(kind) for name, kind, *_ in listed}
    for name in named_columns(asked.keys, types):
        if name.lower() not in types:
            raise WrongUsage(f"--key: got {name!r}, expected any of {', '.join(types)}")
    check_month(asked.by, [name for name, kind in types.items() if kind in DATED])


def _model(dbt: Dbt, name: str, manifest: Any) -> Model:
    """The model. Raises click's errors if it is none, or not a view of ours."""
    model = named_model(dbt, name, manifest)
    if model.materialized != VIEW:
        raise ImportRefused(
            f"{name}: cannot be imported: it is materialized as {model.materialized}. Set `materialized='{VIEW}'`; "
            "its table stays as it is until the import (but not with `dbt run`, which replaces it)"
        )
    return model


def _imported(dbt: Dbt, target: Target, model: Model, manifest: Any, asked: Asked) -> Values:
    """Import it; what was wrong."""
    with progress(f"importing {model.name}"):
        ran = result_of(dbt.with_vars(mvsink_import=[model.unique_id]).run([model], manifest), model)
    past = open_past(target, model.unique_id)
    return {"dry_run": False, **_wrong(dbt, past, ran, manifest, asked)}


def _rehearsed(dbt: Dbt, target: Target, model: Model, manifest: Any, asked: Asked) -> Values:
    """What an import would find."""
    relation = str(manifest.nodes[model.unique_id].relation_name)
    with (
        progress(f"importing {model.name} in a temporary schema"),
        rehearsal(dbt, target, target.name, manifest) as place,
    ):
        temporary = place.dbt.parsed()
        with place.imported(model, temporary, relation) as (ran, past):
            return {"dry_run": True, **_wrong(place.dbt, past, ran, temporary, asked)}


def _wrong(dbt: Dbt, past: ShardHistory, ran: RunResult, manifest: Any, asked: Asked) -> Values:
    """What was wrong in the table: its rows, compared with those after the run."""
    imported = imported_from(past.state)
    assert imported is not None  # the run has just recorded it
    points, query = (past.point(str(imported.time)), past.point(LATEST)), through_dbt(dbt, manifest)
    values = compared_sides((past, past), points, asked.keys, manifest, query, asked.sample)
    column, months = months_of(past, points, values, asked.by, query)
    schema = past.shard.argument["schema"]
    return {
        "model": values["model"],
        "table": imported.name,
        "kept_as": f"{schema}.{imported.kept}" if imported.kept else None,
        "rows": values["a"]["rows"],
        "missing": values["only_in_b"],
        "too_many": values["only_in_a"],
        "stale": values["changed"],
        "changed_values": values["changed_values"],
        "repeated_keys": values["repeated_keys"],
        "key": values["key"],
        "key_source": values["key_source"],
        "by": column,
        "months": [asdict(month) for month in months],
        "seconds": round(sum(ran.response.get("seconds", {}).values()), 1),
        "bytes": sum(file.size for file in past.state.files),
        "difference": values,
    }


def _print(values: Values, output: Printer, all_columns: bool) -> None:
    wrong = any(values[kind] for kind in ("missing", "too_many", "stale"))
    output.text(*_lines(values, wrong))
    if wrong and values["months"]:
        output.text("", f"by month of {values['by']}")
        output.table(MONTHS, [Month(**month) for month in values["months"]])
    if values["difference"]["sample"]:
        output.text("", *sample_of(values["difference"], all_columns))
    output.text("", *_next(values))


def _lines(values: Values, wrong: bool) -> Iterator[str]:
    yield f"{values['model']}: {values['rows']:,} rows of {values['table']}"
    if not wrong:
        yield "  nothing is wrong in it"
        return
    columns = ", ".join(f"{name} in {count:,}" for name, count in values["changed_values"].items())
    stale = f", {values['stale']:,} stale ({columns})" if values["stale"] else ""
    yield f"  {values['missing']:,} rows are missing in it, {values['too_many']:,} too many{stale}"
    yield from (f"  {note}" for note in notes_of(values["difference"], BEFORE, AFTER))


def _next(values: Values) -> Iterator[str]:
    if values["dry_run"]:
        yield f"nothing was changed; an import takes about {values['seconds']:,.1f} s and {bytes_text(values['bytes'])} of storage"
        return
    yield f"it is maintained now; the table is {values['kept_as']}: `mvsink import {values['model']} --drop-old` drops it"


def _drop_old(dbt: Dbt, past: ShardHistory, yes: bool, output: Printer) -> None:
    imported = imported_from(past.state)
    if imported is None or not imported.kept:
        gone = "it was not imported" if imported is None else "the table that was imported has been dropped"
        raise ImportRefused(f"{past.name}: {gone}")
    schema = past.shard.argument["schema"]
    if not yes:
        click.confirm(f"Drop the table {schema}.{imported.kept}?", abort=True)
    with progress(f"dropping {schema}.{imported.kept}"):
        request = {"schema": schema, "identifier": imported.kept}
        dropped = dbt.operation("mvsink_drop_imported", request, dbt.parsed())
    with writing(past.target, past.shard, "import") as handle:
        _forget(handle, imported)
    output.json({"model": past.name, "dropped": f"{schema}.{imported.kept}"})
    output.text(*dropped.lines)


def _forget(handle: Any, imported: Imported) -> None:
    """Record that the table is gone."""
    note = CommitNote(purpose=f"the imported table {imported.kept} was dropped by {user()}")
    handle.set_properties(replace(imported, kept="").properties(), note)
