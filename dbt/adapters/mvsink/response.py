"""What a run reports: dbt's log line and `run_results.json`."""

from __future__ import annotations

from dataclasses import dataclass, field

from dbt.adapters.contracts.connection import AdapterResponse

from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.shard import Antichain
from dbt.adapters.mvsink.sink import Kind, Outcome


@dataclass
class MvsinkResponse(AdapterResponse):
    """`adapter_response` of a maintained model. Bounds are ms, None for the empty antichain."""

    rows_inserted: int = 0
    rows_deleted: int = 0
    lower: int | None = None
    upper: int | None = None
    version: int | None = None
    kind: str = Kind.NONE.value
    drift: int = 0
    rows_staged: int = 0
    bytes_staged: int = 0
    candidate_buckets: int | None = None
    mismatches: int = 0
    generation: str = ""
    seconds: dict[str, float] = field(default_factory=dict)


def response(outcome: Outcome, notes: tuple[str, ...] = ()) -> MvsinkResponse:
    """The response for what a run did; ``notes`` are appended to its line."""
    counts = outcome.counts
    return MvsinkResponse(
        _message="; ".join((log_line(outcome), *notes)),
        code=outcome.kind.value,
        rows_affected=counts.inserted + counts.deleted,
        rows_inserted=counts.inserted,
        rows_deleted=counts.deleted,
        lower=outcome.lower.as_option(),
        upper=outcome.upper.as_option(),
        version=outcome.state.version,
        kind=outcome.kind.value,
        drift=outcome.drift,
        rows_staged=outcome.rows_staged,
        bytes_staged=outcome.bytes_staged,
        candidate_buckets=outcome.candidate_buckets,
        mismatches=outcome.mismatches,
        generation=outcome.generation,
        seconds={step: round(seconds, 3) for step, seconds in outcome.seconds.items()},
    )


def log_line(outcome: Outcome) -> str:
    """``+412 -400 at 2026-11-20T15:00:00Z``, or why nothing was written. dbt appends the duration itself."""
    counts = outcome.counts
    changed = f"+{counts.inserted} -{counts.deleted}"
    if counts.errors_inserted or counts.errors_deleted:
        changed += f" (errors +{counts.errors_inserted} -{counts.errors_deleted})"
    if outcome.kind is Kind.READ_ONLY:
        return f"read-only: would write {changed}"
    if outcome.kind is Kind.FINAL:
        return "final; --full-refresh starts anew"
    if outcome.up_to_date:
        return f"+0 -0, up to date until {_bound(outcome.upper)}: a later run has written it"
    line = f"{changed} at {iso(outcome.time)}"
    if outcome.drift:
        line += f", {outcome.drift} foreign rows dropped"
    if outcome.generation:
        line += f"; new generation: {outcome.generation}"
    return line


def _bound(frontier: Antichain) -> str:
    time = frontier.as_option()
    return "the end" if time is None else iso(time)
