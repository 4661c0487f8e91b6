"""`mvsink plan`: what the next `dbt run` would do to each maintained model. Nothing is written.

dbt runs the selected models in read-only mode, in its usual order. Each model is computed from its
inputs as they are now. For models behind one that would change, that says nothing of the run: they
are run in temporary schemas (`behind`), as all models are with `--against` (`rehearsal`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import click

from dbt.adapters.mvsink.cli import dbt_options
from dbt.adapters.mvsink.cli.behind import Behind, behind
from dbt.adapters.mvsink.cli.comparison import (
    DIFFERS,
    notes_of,
    sample_of,
    takes_all_columns,
    takes_comparison_output,
    takes_detailed_exitcode,
    takes_sample,
)
from dbt.adapters.mvsink.cli.dbt_runner import TASK, Dbt, in_project_order, terminated_as_interrupted
from dbt.adapters.mvsink.cli.discovery import progress
from dbt.adapters.mvsink.cli.errors import WrongUsage
from dbt.adapters.mvsink.cli.model_plan import ModelPlan, planned, planned_against
from dbt.adapters.mvsink.cli.rehearsal import rehearsal
from dbt.adapters.mvsink.cli.render import Printer, TableColumn, bytes_text, comment, count_text, time_text
from dbt.adapters.mvsink.cli.row_table import ShownRow, row_lines, shown_value
from dbt.adapters.mvsink.cli.selection import takes_selection
from dbt.adapters.mvsink.cli.target import Target, takes_dbt

FAILED = 1  # exit code
NONE_SELECTED = "no maintained models are selected"
TASKS_NOT_RUN = (
    "its statements run over each change of its input at that change's own time, and the temporary run has no such changes. "
    "Models that read it read the other target's"
)


@dataclass(frozen=True)
class Selection:
    """dbt's `--select` and `--exclude`, and how many rows to show per model."""

    select: Sequence[str]
    exclude: Sequence[str]
    sample: int


def exit_code(plans: Iterable[ModelPlan], detailed: bool) -> int:
    """1 if a run would fail; else 2 if ``detailed`` and it would change something; else 0."""
    plans = list(plans)
    if any(plan.fails for plan in plans):
        return FAILED
    return DIFFERS if detailed and any(plan.changes for plan in plans) else 0


def _change(plan: ModelPlan) -> str:
    if plan.error:
        return "fails"
    if plan.inserted is None or plan.deleted is None:
        return "?"
    errors = f" (errors {plan.errors:,})" if plan.errors else ""
    if plan.generation and plan.difference is None:
        return f"{plan.inserted:,} rows, rebuilt{errors}"
    compared = plan.difference is None or not (plan.columns_removed or plan.columns_retyped)
    return f"{'' if compared else 'at least '}+{plan.inserted:,} -{plan.deleted:,}{errors}"


def _columns(types: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in types.items())


def _gate(plan: ModelPlan) -> str:
    return {None: "", True: "passes", False: f"would fail: {plan.gate_message}"}[plan.gate]


def _compacted(plan: ModelPlan) -> str:
    files = (plan.compacted or {}).get("files", 0)
    return (
        f"{count_text(files)} files, {count_text((plan.compacted or {})['updates'])} updates" if files else ""
    )


def _computed(plan: ModelPlan) -> str:
    if plan.unknown:
        return plan.unknown
    if plan.behind:
        return f"from what {', '.join(plan.behind)} would hold"
    if plan.mode == "evaluated" and plan.not_incremental:
        return f"in full: {plan.not_incremental}"
    return {"evaluated": "in full", "unchanged": "inputs unchanged", "none": ""}.get(plan.mode, plan.mode)


COLUMNS: list[TableColumn[ModelPlan]] = [
    TableColumn("model", lambda p: p.model),
    TableColumn("change", _change),
    TableColumn("computed", _computed, optional=True, shrinks=True),
    TableColumn("rebuilt", lambda p: p.generation, optional=True),
    TableColumn(
        "columns added",
        lambda p: _columns(p.columns_added),
        optional=True,
    ),
    TableColumn("columns widened", lambda p: _columns(p.columns_widened), optional=True),
    TableColumn("next refresh", lambda p: "" if p.error else time_text(p.next_refresh) or "every run"),
    TableColumn("compaction", _compacted, optional=True),
    TableColumn("gate", _gate, optional=True),
    TableColumn("overtaken", lambda p: p.overtaken, optional=True),
    TableColumn("left as it is", lambda p: p.paused, optional=True),
]


AGAINST: list[TableColumn[ModelPlan]] = [
    TableColumn("model", lambda p: p.model),
    TableColumn("added", lambda p: "fails" if p.error else _rows(p, "only_in_b", p.inserted), right=True),
    TableColumn("removed", lambda p: _rows(p, "only_in_a", 0), right=True),
    TableColumn("changed", lambda p: _rows(p, "changed", 0), right=True),
    TableColumn("errors", lambda p: count_text(p.errors or None), optional=True, right=True),
    TableColumn("columns", lambda p: _altered(p), optional=True),
    TableColumn("first run", lambda p: "" if p.seconds is None else f"{p.seconds:.1f} s"),
    TableColumn("size", lambda p: bytes_text(p.bytes_written), right=True),
    TableColumn("next refresh", lambda p: time_text(p.next_refresh), optional=True),
    TableColumn("gate", _gate, optional=True),
    TableColumn("left as it is", lambda p: p.paused, optional=True),
]


def _rows(plan: ModelPlan, key: str, new: int | None) -> str:
    """A count of the difference; ``new`` if the other target does not have the model."""
    if plan.error or plan.paused:
        return ""
    return count_text(new if plan.difference is None else plan.difference[key])


def _altered(plan: ModelPlan) -> str:
    """Changes of columns, such as ``+new, -gone, n: int -> bigint``, or that the model is new."""
    if plan.difference is None:
        return "" if plan.error or plan.paused else "a new model"
    parts = [f"+{name}" for name in plan.columns_added] + [f"-{name}" for name in plan.columns_removed]
    return ", ".join([*parts, *(f"{name}: {a} -> {b}" for name, (a, b) in plan.columns_retyped.items())])


def sample_lines(plan: ModelPlan) -> Iterator[str]:
    """The rows of the sample as a table, with how many copies would be added or removed."""
    rows = [
        ShownRow(
            "+" if update["diff"] > 0 else "-",
            {name: shown_value(value) for name, value in (update.get("row") or {}).items()},
            abs(update["diff"]),
            str(update.get("error") or ""),
        )
        for update in plan.sample
    ]
    yield from row_lines(rows, list(dict.fromkeys(name for row in rows for name in row.cells)))
    if rows and (plan.inserted or 0) + (plan.deleted or 0) + plan.errors > sum(row.copies for row in rows):
        yield "... --sample shows more"


@click.command()
@takes_dbt
@takes_selection
@dbt_options.defer
@dbt_options.favor_state
@click.option(
    "--against",
    metavar="TARGET",
    help="Run in temporary schemas, and compare with the shards of this target.",
)
@click.option(
    "--quick",
    is_flag=True,
    help="Do not compute models behind one that would change: show `?` for them. Not with --against.",
)
@takes_comparison_output
@takes_sample("How many changed rows to show per model.")
@takes_all_columns
@takes_detailed_exitcode("something would change")
def plan(
    target: Target,
    dbt: Dbt,
    select: list[str],
    exclude: list[str],
    defer: bool,
    favor_state: bool,
    against: str | None,
    quick: bool,
    output: Printer,
    sample: int,
    all_columns: bool,
    detailed_exitcode: bool,
) -> None:
    """What the next `dbt run` would do to each selected model. Nothing is written.

    Each model is compared with its inputs as they are now: +N -M rows, a sample of them, the next
    refresh, what would be compacted afterwards, and whether the publish gate would let it through.
    Models behind one that would change are run in temporary schemas, on what that one would hold;
    `?` means that this is not possible, or not wanted (--quick).

    With --against, the whole selection is run in temporary schemas and a temporary directory, each
    model on what the one before would hold, and compared with the shards of TARGET.

    Exit code: 0; 1 if a run would fail; 2 for wrong usage, and with --detailed-exitcode if
    something would change.

    \b
    Examples:
      mvsink plan
      mvsink plan --select orders+ --sample 20
      mvsink plan --against prod --select state:modified+ --state prod-artifacts --output markdown
    """
    dbt = replace(dbt, defer=bool(defer), favor_state=bool(favor_state))
    selection = Selection(select, exclude, sample)
    if against is None:
        plans = _read_only(dbt, target, selection, quick)
    elif quick:
        raise WrongUsage("--quick has no meaning with --against, which runs every selected model")
    else:
        plans = _against(dbt, target, against, selection)
    _print(plans, target, against, output, all_columns)
    click.get_current_context().exit(exit_code(plans, detailed_exitcode))


def _read_only(dbt: Dbt, target: Target, selection: Selection, quick: bool) -> list[ModelPlan]:
    """Each model compared with its inputs as a run would find them."""
    reading = dbt.with_vars(mvsink_read_only=True, mvsink_sample=selection.sample)
    with terminated_as_interrupted(), progress("comparing stored contents with queries"):
        manifest = dbt.parsed()
        models = dbt.models(selection.select, selection.exclude, manifest)
        maintained = [model for model in models if model.maintained]
        results = reading.run(maintained, manifest) if maintained else []
    plans = {ran.unique_id: planned(ran) for ran in results}
    changing = [name for name, each in plans.items() if each.changes or each.fails or each.pending]
    tasks = {model.unique_id for model in models if model.materialized == TASK}
    later = behind(models, changing, manifest)
    later = behind(models, [*changing, *(tasks & later.keys())], manifest)
    again = Behind(dbt, target, selection.sample, plans, later, tasks, quick)
    plans |= again.plans(models, manifest)
    return [plans[name] for name in in_project_order(manifest, plans)]


def _against(dbt: Dbt, target: Target, against: str, selection: Selection) -> list[ModelPlan]:
    """Each model as it would be, compared with what ``against`` has."""
    with (
        terminated_as_interrupted(),
        progress("running the models in temporary schemas"),
        rehearsal(dbt, target, against) as place,
    ):
        manifest = place.dbt.parsed()
        models = place.dbt.models(selection.select, selection.exclude, manifest)
        for model in models:
            if model.materialized == TASK:
                click.echo(f"{model.name} is a continual task and is not planned: {TASKS_NOT_RUN}", err=True)
        plans = {
            each.ran.unique_id: planned_against(each)
            for each in place.run(models, manifest, selection.sample)
        }
        return [plans[name] for name in in_project_order(manifest, plans)]


def _print(
    plans: Sequence[ModelPlan], target: Target, against: str | None, output: Printer, all_columns: bool
) -> None:
    columns = COLUMNS if against is None else AGAINST
    head = {"project": target.project, "target": target.name, "against": against}
    output.json({**head, "changes": any(each.changes for each in plans), "models": plans})
    if not plans:
        output.text(NONE_SELECTED)
        output.markdown([NONE_SELECTED])
        return
    details = {each.model: _details(each, all_columns) for each in plans}
    with_target = f", compared with {against}" if against else ""
    title = f"mvsink plan: {target.project}, target {target.name}{with_target}"
    output.markdown(comment(title, columns, plans, details))
    output.table(columns, plans)
    for model, lines in details.items():
        output.text(*([model, *(f"  {line}" for line in lines), ""] if lines else ()))


def _details(plan: ModelPlan, all_columns: bool) -> list[str]:
    """The sample of a model's rows and how they were paired, or why the run would fail."""
    if plan.error:
        return plan.error.strip().splitlines()
    if plan.difference is None:
        return list(sample_lines(plan))
    notes = notes_of(plan.difference, "now", "after the run")
    return [*notes, *sample_of(plan.difference, all_columns)]
