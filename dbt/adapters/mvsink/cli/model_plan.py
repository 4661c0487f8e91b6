"""What a run would do to one model: from a read-only run, or from a run in temporary schemas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dbt.adapters.mvsink.cli.dbt_runner import RunResult
from dbt.adapters.mvsink.cli.rehearsal import Rehearsed

GATE_FAILED = "fail their audit"  # of a gate's message


@dataclass(frozen=True)
class ModelPlan:
    """What a run would do to one model; the names are those of the JSON. Times are ms.

    ``inserted``, ``deleted``: rows. ``errors``: error updates added or retracted. ``gate``: whether
    the publish gate would let the change through, and ``gate_message`` why not; None without a gate
    or without a change. ``mode``: how the plan was computed, as in `run_results.json`, and
    ``not_incremental`` why not from the changes of the inputs. ``compacted``: live files and
    updates that would be rewritten.
    ``columns_added``: the types, by name, of columns that the model would have in addition; without
    ``generation`` they are added in place. ``columns_removed`` and ``columns_retyped`` (the types
    before and then) come with a generation. ``overtaken``: the shards that a later run has written
    already, so that this run would leave the model as it is; ``paused``: who paused the model, when
    and why, with the same effect. ``difference``: against another target that has the model.
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
        mode=response.get("mode", ""),
        not_incremental=response.get("not_incremental", ""),
        compacted=preview.get("compacted"),
        overtaken=response.get("overtaken", ""),
        paused=response.get("paused", ""),
        sample=tuple(preview.get("sample", ())),
    )


def planned_against(rehearsed: Rehearsed) -> ModelPlan:
    """The plan from a run in temporary schemas."""
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
