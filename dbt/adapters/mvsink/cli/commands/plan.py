"""`mvsink plan`: what the next `dbt run` would do to each maintained model. Nothing is written.

dbt runs the selected models in read-only mode, in its usual order. Each model is computed from its
inputs as they are now, so a downstream model's plan does not include what an upstream model would
write. With `--against`, it does: there the models really run, in temporary schemas (`rehearsal`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import click
from dbt.cli import params

from dbt.adapters.mvsink.cli.comparison import (
    DIFFERS,
    sample_of,
    takes_comparison_output,
    takes_detailed_exitcode,
    takes_sample,
)
from dbt.adapters.mvsink.cli.dbt_runner import TASK, Dbt, RunResult, flat, terminated_as_interrupted
from dbt.adapters.mvsink.cli.discovery import progress
from dbt.adapters.mvsink.cli.rehearsal import Rehearsed, rehearsal
from dbt.adapters.mvsink.cli.render import Printer, TableColumn, bytes_text, comment, count_text, time_text
from dbt.adapters.mvsink.cli.target import Target, takes_dbt

FAILED = 1  # exit code
AS_RESPONSE = (  # fields that have the same name in the adapter's response
    "generation", "columns_added", "next_refresh", "mode", "not_incremental", "overtaken", "paused",
)  # fmt: skip
NONE_SELECTED = "no maintained models are selected"
GATE_FAILED = "fail their audit"  # part of the error of a run that an audit of the gate refused
TASKS_NOT_RUN = (
    "its statements run over each change of its input at that change's own time, and the temporary run has no such changes. "
    "Models that read it read the other target's"
)


@dataclass(frozen=True)
class ModelPlan:
    """What a run would do to one model. The fields have the JSON's names. Times are ms.

    ``inserted`` and ``deleted`` count rows, ``errors`` error updates added or retracted. ``gate``
    says whether the publish gate would let the change through (None without a gate or a change) and
    ``gate_message`` why not. ``mode`` says how the plan was computed, as in `run_results.json`, and
    ``not_incremental`` why it was not computed from the changes of the inputs. ``compacted`` counts
    the live files and updates that a compaction would rewrite afterwards.

    ``columns_added`` has the types, by name, of new columns; without a ``generation`` they are
    added in place. ``columns_removed`` and ``columns_retyped`` (the old and new types) come with a
    generation. ``overtaken`` are the shards that a later run has already written, so that this run
    would leave the model as it is. ``paused`` says who paused the model, when and why; then a run
    would leave it as it is, too. ``difference`` compares with another target that has the model.
    """

    model: str
    unique_id: str
    relation: str
    inserted: int = 0
    deleted: int = 0
    errors: int = 0
    generation: str = ""
    columns_added: Mapping[str, str] = field(default_factory=dict)
    columns_removed: tuple[str, ...] = ()
    columns_retyped: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    next_refresh: int | None = None
    gate: bool | None = None
    gate_message: str = ""
    mode: str = ""
    not_incremental: str = ""
    compacted: Mapping[str, int] | None = None
    overtaken: str = ""
    sample: tuple[Mapping[str, Any], ...] = ()
    seconds: float | None = None
    bytes_written: int | None = None
    difference: Mapping[str, Any] | None = None
    message: str = ""
    error: str = ""
    paused: str = ""

    @property
    def changes(self) -> bool:
        """Whether a run would write something that a reader can see."""
        rows = self.inserted or self.deleted or self.errors
        return bool(rows or self.generation or self.columns_added)

    @property
    def fails(self) -> bool:
        return bool(self.error) or self.gate is False


def planned(ran: RunResult) -> ModelPlan:
    """A model's plan, from the result of its read-only run."""
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
        gate=None if gate is None else not gate,
        gate_message=gate or "",
        compacted=preview.get("compacted"),
        sample=tuple(preview.get("sample", ())),
        **{name: response[name] for name in AS_RESPONSE if name in response},
    )


def planned_against(rehearsed: Rehearsed) -> ModelPlan:
    """A model's plan, from the result of its run in temporary schemas."""
    ran, difference, forecast = rehearsed.ran, rehearsed.difference, rehearsed.forecast
    relation = difference["a"]["relation"] if difference else ran.relation.split(".", 1)[-1]
    plan = ModelPlan(
        ran.name, ran.unique_id, relation, message=ran.message, difference=difference, paused=rehearsed.paused
    )
    if plan.paused:
        return plan
    if not ran.ok:
        gate = False if GATE_FAILED in ran.message else None
        message = ran.message if gate is False else ""
        return replace(plan, gate=gate, gate_message=message, error=ran.message or ran.status)
    plan = replace(
        plan,
        inserted=ran.response.get("rows_inserted", 0),
        next_refresh=ran.response.get("next_refresh"),
        seconds=round(sum(ran.response.get("seconds", {}).values()), 3),
        bytes_written=ran.response.get("bytes_staged", 0),
    )
    return plan if difference is None else _with_difference(plan, difference, forecast)


def _with_difference(
    plan: ModelPlan, difference: Mapping[str, Any], forecast: Mapping[str, Any]
) -> ModelPlan:
    changed = difference["changed"]
    return replace(
        plan,
        inserted=difference["only_in_b"] + changed,
        deleted=difference["only_in_a"] + changed,
        errors=difference["errors"],
        generation=forecast["generation"],
        columns_added=forecast["added"],
        columns_removed=tuple(forecast["removed"]),
        columns_retyped={name: (a, b) for name, (a, b) in forecast["retyped"].items()},
        gate=forecast["gate"],
        gate_message=forecast["gate_message"],
        error=forecast["error"],
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
    errors = f" (errors {plan.errors:,})" if plan.errors else ""
    return "" if plan.error else f"+{plan.inserted:,} -{plan.deleted:,}{errors}"


def _gate(plan: ModelPlan) -> str:
    return {None: "", True: "passes", False: f"would fail: {plan.gate_message}"}[plan.gate]


def _compacted(plan: ModelPlan) -> str:
    files = (plan.compacted or {}).get("files", 0)
    return (
        f"{count_text(files)} files, {count_text((plan.compacted or {})['updates'])} updates" if files else ""
    )


def _computed(plan: ModelPlan) -> str:
    if plan.mode == "evaluated" and plan.not_incremental:
        return f"in full: {plan.not_incremental}"
    return {"evaluated": "in full", "unchanged": "inputs unchanged", "none": ""}.get(plan.mode, plan.mode)


COLUMNS: list[TableColumn[ModelPlan]] = [
    TableColumn("model", lambda p: p.model),
    TableColumn("change", _change),
    TableColumn("computed", _computed, optional=True, shrinks=True),
    TableColumn("new generation", lambda p: p.generation, optional=True),
    TableColumn(
        "columns added",
        lambda p: ", ".join(f"{name} {kind}" for name, kind in p.columns_added.items()),
        optional=True,
    ),
    TableColumn("next refresh", lambda p: "" if p.error else time_text(p.next_refresh) or "every run"),
    TableColumn("compaction", _compacted, optional=True),
    TableColumn("gate", _gate, optional=True),
    TableColumn("overtaken", lambda p: p.overtaken, optional=True),
    TableColumn("left as it is", lambda p: p.paused, optional=True),
    TableColumn("error", lambda p: p.error, optional=True),
]


AGAINST: list[TableColumn[ModelPlan]] = [
    TableColumn("model", lambda p: p.model),
    TableColumn("added", lambda p: _rows(p, "only_in_b", p.inserted), right=True),
    TableColumn("removed", lambda p: _rows(p, "only_in_a", 0), right=True),
    TableColumn("changed", lambda p: _rows(p, "changed", 0), right=True),
    TableColumn("errors", lambda p: count_text(p.errors or None), optional=True, right=True),
    TableColumn("columns", lambda p: _altered(p), optional=True),
    TableColumn("first run", lambda p: "" if p.seconds is None else f"{p.seconds:.1f} s"),
    TableColumn("size", lambda p: bytes_text(p.bytes_written), right=True),
    TableColumn("next refresh", lambda p: time_text(p.next_refresh), optional=True),
    TableColumn("gate", _gate, optional=True),
    TableColumn("left as it is", lambda p: p.paused, optional=True),
    TableColumn("error", lambda p: p.error, optional=True),
]


def _rows(plan: ModelPlan, key: str, new: int) -> str:
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
    """The rows of the sample, with the number of copies that would be added or removed."""
    for update in plan.sample:
        row = update.get("row")
        cells = (f"{name}={'NULL' if value is None else value}" for name, value in (row or {}).items())
        shown = f"error: {update['error']}" if row is None else ", ".join(cells)
        yield f"  {update['diff']:+d}  {shown}"


@click.command()
@takes_dbt
@params.select
@params.exclude
@params.state
@params.defer
@params.favor_state
@click.option(
    "--against",
    metavar="TARGET",
    help="Run in temporary schemas, and compare with the shards of this target.",
)
@takes_comparison_output
@takes_sample("How many changed rows to show per model.")
@takes_detailed_exitcode("something would change")
def plan(
    target: Target,
    dbt: Dbt,
    select: Any,
    exclude: Any,
    state: Any,
    defer: bool,
    favor_state: bool,
    against: str | None,
    output: Printer,
    sample: int,
    detailed_exitcode: bool,
) -> None:
    """What the next `dbt run` would do to each selected model. Nothing is written.

    Each model is compared with its inputs as they are now: +N -M rows, a sample of them, the next
    refresh, what would be compacted afterwards, and whether the publish gate would let it through.

    With --against, the whole selection is run in temporary schemas and a temporary directory, each
    model on what the one before would hold, and compared with the shards of TARGET.

    Exit code: 0; 1 if a run would fail; 2 for wrong usage, and with --detailed-exitcode if
    something would change.
    """
    dbt = replace(dbt, state=str(state) if state else None, defer=bool(defer), favor_state=bool(favor_state))
    selection = Selection(flat(select), flat(exclude), sample)
    plans = _read_only(dbt, selection) if against is None else _against(dbt, target, against, selection)
    plans.sort(key=lambda each: each.model)
    _print(plans, target, against, output)
    click.get_current_context().exit(exit_code(plans, detailed_exitcode))


def _read_only(dbt: Dbt, selection: Selection) -> list[ModelPlan]:
    """Each model compared with its inputs as they are."""
    dbt = replace(dbt, vars={**dbt.vars, "mvsink_read_only": True, "mvsink_sample": selection.sample})
    with terminated_as_interrupted(), progress("comparing stored contents with queries"):
        manifest = dbt.parsed()
        models = dbt.models(selection.select, selection.exclude, manifest)
        maintained = [model for model in models if model.maintained]
        return [planned(ran) for ran in dbt.run(maintained, manifest)] if maintained else []


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
        return [planned_against(each) for each in place.run(models, manifest, selection.sample)]


def _print(plans: Sequence[ModelPlan], target: Target, against: str | None, output: Printer) -> None:
    columns = COLUMNS if against is None else AGAINST
    head = {"project": target.project, "target": target.name, "against": against}
    output.json({**head, "changes": any(each.changes for each in plans), "models": plans})
    if not plans:
        output.text(NONE_SELECTED)
        output.markdown([NONE_SELECTED])
        return
    details = {each.model: _details(each) for each in plans}
    with_target = f", compared with {against}" if against else ""
    title = f"mvsink plan: {target.project}, target {target.name}{with_target}"
    output.markdown(comment(title, columns, plans, details))
    output.table(columns, plans)
    for model, lines in details.items():
        output.text(*([model, *lines, ""] if lines else ()))


def _details(plan: ModelPlan) -> list[str]:
    """The sample and other details of a model."""
    return list(sample_lines(plan) if plan.difference is None else sample_of(plan.difference))
