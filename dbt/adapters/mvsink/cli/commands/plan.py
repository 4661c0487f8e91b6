"""`mvsink plan`: what the next `dbt run` would do to each maintained model. Nothing is written.

dbt runs the selected models in read-only mode, in its usual order. Each is compared with its inputs
as they are now, so that downstream models do not include what an upstream model would write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import click
from dbt.cli import params

from dbt.adapters.mvsink.cli.dbt_runner import Dbt, RunResult, flat
from dbt.adapters.mvsink.cli.discovery import progress
from dbt.adapters.mvsink.cli.render import (
    Column,
    Output,
    count_text,
    takes_output,
    time_text,
    write_json,
    write_table,
)
from dbt.adapters.mvsink.cli.target import Target, takes_dbt

SAMPLE = 5  # rows
FAILED, CHANGES = 1, 2  # exit codes


@dataclass(frozen=True)
class ModelPlan:
    """What a run would do to one model; the names are those of the JSON. Times are ms.

    ``inserted``, ``deleted``: rows. ``errors``: error updates added or retracted. ``gate``: whether
    the publish gate would let the change through, and ``gate_message`` why not; None without a gate
    or without a change. ``compacted``: live files and updates that would be rewritten.
    ``columns_added``: the types, by name, of columns that would be added in place. ``overtaken``:
    the shards that a later run has written already, so that this run would leave the model as it
    is.
    """

    model: str
    unique_id: str
    relation: str
    inserted: int = 0
    deleted: int = 0
    errors: int = 0
    generation: str = ""
    columns_added: Mapping[str, str] = field(default_factory=dict)
    next_refresh: int | None = None
    gate: bool | None = None
    gate_message: str = ""
    compacted: Mapping[str, int] | None = None
    overtaken: str = ""
    sample: tuple[Mapping[str, Any], ...] = ()
    message: str = ""
    error: str = ""

    @property
    def changes(self) -> bool:
        """Whether a run would write something that a reader can see."""
        return bool(self.inserted or self.deleted or self.errors or self.generation or self.columns_added)

    @property
    def fails(self) -> bool:
        return bool(self.error) or self.gate is False


def planned(ran: RunResult) -> ModelPlan:
    """The plan from the result of a read-only run."""
    plan = ModelPlan(ran.name, ran.unique_id, ran.relation, message=ran.message)
    if not ran.ok:
        return replace(plan, error=ran.message or ran.status)
    response, preview = ran.response, ran.response.get("preview") or {}
    gate = preview.get("gate")
    return replace(
        plan,
        inserted=response.get("rows_inserted", 0),
        deleted=response.get("rows_deleted", 0),
        errors=preview.get("errors", 0),
        generation=response.get("generation", ""),
        columns_added=response.get("columns_added", {}),
        next_refresh=response.get("next_refresh"),
        gate=None if gate is None else not gate,
        gate_message=gate or "",
        compacted=preview.get("compacted"),
        overtaken=response.get("overtaken", ""),
        sample=tuple(preview.get("sample", ())),
    )


def exit_code(plans: Iterable[ModelPlan], detailed: bool) -> int:
    """1 if a run would fail; else 2 if ``detailed`` and it would change something; else 0."""
    plans = list(plans)
    if any(plan.fails for plan in plans):
        return FAILED
    return CHANGES if detailed and any(plan.changes for plan in plans) else 0


def _change(plan: ModelPlan) -> str:
    errors = f" (errors {plan.errors:,})" if plan.errors else ""
    return "" if plan.error else f"+{plan.inserted:,} -{plan.deleted:,}{errors}"


def _gate(plan: ModelPlan) -> str:
    return {None: "", True: "passes", False: f"would fail: {plan.gate_message}"}[plan.gate]


def _compacted(plan: ModelPlan) -> str:
    files = (plan.compacted or {}).get("files", 0)
    return (
        f"{count_text(files)} files, {count_text((plan.compacted or {})['updates'])} updates" if files else ""
    )


COLUMNS: list[Column[ModelPlan]] = [
    Column("model", lambda p: p.model),
    Column("change", _change),
    Column("new generation", lambda p: p.generation, optional=True),
    Column(
        "columns added",
        lambda p: ", ".join(f"{name} {kind}" for name, kind in p.columns_added.items()),
        optional=True,
    ),
    Column("next refresh", lambda p: "" if p.error else time_text(p.next_refresh) or "every run"),
    Column("compaction", _compacted, optional=True),
    Column("gate", _gate, optional=True),
    Column("overtaken", lambda p: p.overtaken, optional=True),
    Column("error", lambda p: p.error, optional=True),
]


def sample_lines(plan: ModelPlan) -> list[str]:
    """The rows of the sample, with the number of copies that would be added or removed."""
    lines = []
    for update in plan.sample:
        row = update.get("row")
        shown = (
            f"error: {update['error']}"
            if row is None
            else ", ".join(f"{name}={_text(value)}" for name, value in row.items())
        )
        lines.append(f"  {update['diff']:+d}  {shown}")
    return lines


def _text(value: Any) -> str:
    return "NULL" if value is None else str(value)


@click.command()
@takes_dbt
@params.select
@params.exclude
@takes_output
@click.option(
    "--sample",
    type=click.IntRange(min=0),
    default=SAMPLE,
    show_default=True,
    help="How many changed rows to show per model.",
)
@click.option("--detailed-exitcode", is_flag=True, help="Exit code 2 if something would change.")
@click.pass_context
def plan(
    context: click.Context,
    target: Target,
    dbt: Dbt,
    select: Any,
    exclude: Any,
    output: str,
    sample: int,
    detailed_exitcode: bool,
) -> None:
    """What the next `dbt run` would do to each selected model. Nothing is written.

    Each model is compared with its inputs as they are now: +N -M rows, a sample of them, the next
    refresh, what would be compacted afterwards, and whether the publish gate would let it through.

    Exit code: 0; 1 if a run would fail; 2 for wrong usage, and with --detailed-exitcode if
    something would change.
    """
    dbt = replace(dbt, vars={**dbt.vars, "mvsink_read_only": True, "mvsink_sample": sample})
    with progress("comparing stored contents with queries"):
        manifest = dbt.parsed()
        models = [model for model in dbt.models(flat(select), flat(exclude), manifest) if model.maintained]
        plans = [planned(ran) for ran in dbt.run(models, manifest)] if models else []
    plans.sort(key=lambda each: each.model)
    if output == Output.JSON.value:
        head = {"project": target.project, "target": target.name}
        changes = any(each.changes for each in plans)
        write_json({**head, "changes": changes, "models": [asdict(each) for each in plans]})
    elif plans:
        write_table(COLUMNS, plans)
        for each in plans:
            if each.sample:
                click.echo("\n".join([each.model, *sample_lines(each), ""]))
    else:
        click.echo("no maintained models are selected")
    context.exit(exit_code(plans, detailed_exitcode))
