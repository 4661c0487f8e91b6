"""What the next run would do to one model (`mvsink plan`), from the result of a run that writes
nothing to the model's target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dbt.adapters.mvsink.cli.dbt_runner import RunResult
from dbt.adapters.mvsink.cli.rehearsal import Rehearsed

AS_RESPONSE = (  # fields that have the same name in the adapter's response
    "generation", "columns_added", "columns_widened", "next_refresh", "mode", "not_incremental", "overtaken", "paused",
)  # fmt: skip
GATE_FAILED = "fail their audit"  # part of the error of a run that an audit of the gate refused


@dataclass(frozen=True)
class ModelPlan:
    """What a run would do to one model. The fields have the JSON's names. Times are ms.

    ``inserted`` and ``deleted`` count rows, ``errors`` error updates added or retracted. ``gate``
    says whether the publish gate would let the change through (None without a gate or a change) and
    ``gate_message`` why not. ``mode`` says how the plan was computed, as in `run_results.json`, and
    ``not_incremental`` why it was not computed from the changes of the inputs. ``compacted`` counts
    the live files and updates that a compaction would rewrite afterwards.

    ``columns_added`` has the types, by name, of new columns; without a ``generation`` they are
    added in place, and the types of ``columns_widened`` become wider in place. ``columns_removed``
    and ``columns_retyped`` (the old and new types) come with a generation. ``overtaken`` are the
    shards that a later run has already written, so that this run would leave the model as it is.
    ``paused`` says who paused the model, when and why; then a run would leave it as it is, too.
    ``difference`` compares with another target that has the model.
    """

    model: str
    unique_id: str
    relation: str
    inserted: int | None = 0  # None if it is not known, like ``deleted``
    deleted: int | None = 0
    errors: int = 0
    pending: bool = False  # a task's input has changes to process, as far as that is known
    behind: tuple[str, ...] = ()  # models that it reads and that the run would change
    unknown: str = ""  # why its rows are not known
    generation: str = ""
    columns_added: Mapping[str, str] = field(default_factory=dict)
    columns_widened: Mapping[str, str] = field(default_factory=dict)
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
        return bool(rows or self.unknown or self.generation or self.columns_added or self.columns_widened)

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
        pending=bool(response.get("input")) and response.get("pending") != 0,
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
