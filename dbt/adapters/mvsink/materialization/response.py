"""What a run reports in dbt's log line and in `run_results.json`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from dbt.adapters.contracts.connection import AdapterResponse

from dbt.adapters.mvsink.continual_task.task_request import TaskOutcome
from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.engine import columns_evolved
from dbt.adapters.mvsink.engine.types import plain
from dbt.adapters.mvsink.masking import masked
from dbt.adapters.mvsink.materialization.explanation import Explanation
from dbt.adapters.mvsink.reasons import Why
from dbt.adapters.mvsink.shard import Antichain, ReadPoints
from dbt.adapters.mvsink.shard_sql import Counts, Kind
from dbt.adapters.mvsink.sink import Drift, Outcome, Preview, Superseded
from dbt.adapters.mvsink.user_sql.words import last_part


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
    columns_added: dict[str, str] = field(default_factory=dict)  # added in place: types by name
    columns_widened: dict[str, str] = field(default_factory=dict)  # likewise, with their types now
    references: dict[str, int] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)  # that tables were read at, by name
    newer: dict[str, str] = field(default_factory=dict)  # why a table was not read as of the refresh
    # the shards that a later run wrote: why this model is left to the next run
    overtaken: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    preview: dict[str, Any] | None = None  # of a read-only run: see `preview_values`
    explanation: dict[str, Any] | None = None  # for `mvsink explain`
    evaluated: bool = True  # False: the inputs were unchanged
    verified: bool = False
    rewritten: str = ""  # why a verification did not evaluate the text as its author wrote it
    incremental: bool = False
    # how the contents were computed: `evaluated`, `verified`, `incremental`, `unchanged` or `none`
    mode: str = ""
    not_incremental: str = ""  # why the query was evaluated in full, if there is something to say
    drifted: dict[str, Any] | None = None  # see `drift_values`
    next_refresh: int | None = None  # with a schedule
    paused: str = ""  # who, when and why, if the run left a paused model alone
    input: str = ""  # a query for what a task watches
    pending: int | None = None  # times that it would process, of a read-only run; None if unknown
    waits_for: list[str] = field(default_factory=list)  # the models that a task's times wait for
    warnings: list[str] = field(default_factory=list)

    def attributes(self) -> dict[str, str | int | bool]:
        """The attributes of the run's span that follow from what it did."""
        names = ("kind", "mode", "rows_inserted", "rows_deleted", "rows_staged", "bytes_staged", "drift")
        values = {name: getattr(self, name) for name in (*names, "generation", "version", "lower", "upper")}
        return {f"mvsink.{name}": value for name, value in values.items() if value not in (None, "")}


def response(outcome: Outcome, notes: Sequence[str] = (), warnings: Sequence[str] = ()) -> MvsinkResponse:
    """The response of a view's run. Its line ends in ``notes`` and the number of ``warnings``."""
    written, read = outcome.written, outcome.read or ReadPoints()
    return replace(
        _response(outcome, (log_line(outcome), *notes), warnings),
        rows_staged=sum(batch.rows for batch in written.batches),
        bytes_staged=sum(batch.bytes for batch in written.batches),
        candidate_buckets=written.candidate_buckets,
        generation=outcome.generation,
        columns_added={column.name: column.type.text for column in outcome.columns_added},
        columns_widened={column.name: column.type.text for column in outcome.columns_widened},
        references=dict(read.times),
        versions=dict(read.versions),
        newer=dict(read.newer),
        overtaken=", ".join(_names(outcome.superseded)),
        preview=preview_values(outcome),
        evaluated=written.evaluated,
        verified=outcome.verified,
        rewritten=written.rewritten,
        incremental=written.incremental,
        mode=_mode(outcome),
        not_incremental=written.full.text,
        drifted=drift_values(written.drift),
        next_refresh=outcome.upper.as_option() if outcome.scheduled else None,
    )


def _mode(outcome: Outcome) -> str:
    if outcome.up_to_date:
        return "none"
    if not outcome.written.evaluated:
        return "unchanged"
    return "incremental" if outcome.written.incremental else "verified" if outcome.verified else "evaluated"


def explained_response(
    explanation: Explanation, notes: Sequence[str], warnings: Sequence[str]
) -> MvsinkResponse:
    """The response of a run that only explains."""
    would = "fail" if explanation.fails else "evaluate"
    message = f"would {would}: {explanation.evaluates}" if explanation.full else explanation.rests
    if explanation.evaluates and not explanation.full:
        message = f"would be incremental: {explanation.evaluates}"
    return MvsinkResponse(_message=message, code="none", explanation=asdict(explanation))


def empty_response(notes: Sequence[str], warnings: Sequence[str]) -> MvsinkResponse:
    """The response for `--empty`."""
    return MvsinkResponse(_message="; ".join(("empty: checked, nothing written", *notes)), code="none")


def paused_response(words: str, warning: str) -> MvsinkResponse:
    """The response of a run that leaves a paused model alone. ``words`` says who paused it, when
    and why.
    """
    line = f"left as it is: {words}; 1 warning"
    return MvsinkResponse(
        _message=masked(line), code="none", paused=masked(words), warnings=[masked(warning)]
    )


def _response(
    outcome: Outcome | TaskOutcome, line: tuple[str, ...], warnings: Sequence[str]
) -> MvsinkResponse:
    """The part that runs of views and tasks share. dbt has no status for warnings, so its line
    counts them.
    """
    counts = outcome.counts
    counted = [f"{len(warnings)} warning{'s' if len(warnings) > 1 else ''}"] if warnings else []
    return MvsinkResponse(
        _message="; ".join([*line, *counted]),
        warnings=[masked(warning) for warning in warnings],
        code=outcome.kind.value,
        rows_affected=counts.inserted + counts.deleted,
        rows_inserted=counts.inserted,
        rows_deleted=counts.deleted,
        lower=outcome.lower.as_option(),
        upper=outcome.upper.as_option(),
        version=outcome.state.version,
        kind=outcome.kind.value,
        drift=outcome.drift,
        mismatches=outcome.mismatches,
        seconds={step: round(seconds, 3) for step, seconds in outcome.seconds.items()},
    )


def log_line(outcome: Outcome) -> str:
    """``+412 -400 at 2026-11-20T15:00:00Z``, or why nothing was written; dbt adds the duration."""
    if outcome.superseded is not None:
        before = "read-only: " if outcome.kind is Kind.READ_ONLY else ""
        return f"{before}{'' if outcome.state.readable else 'not refreshed yet; '}{_superseded(outcome.superseded)}"
    if outcome.kind is Kind.READ_ONLY:
        counts = f"{_changed(outcome.counts)}{_how(outcome)}"
        return f"read-only: would write {counts}{_previewed(outcome)}{_late_references(outcome)}"
    if outcome.kind is Kind.FINAL:
        return "final; --full-refresh starts from scratch"
    if not outcome.state.readable:
        line = "not refreshed yet" + (
            f"; first refresh at {_bound(outcome.upper)}" if outcome.scheduled else ""
        )
    elif outcome.up_to_date:
        line = f"up to date until {_bound(outcome.upper)}"
        line = line if outcome.scheduled else f"+0 -0, {line}: a later run has written it"
    else:
        line = f"{_changed(outcome.counts)} at {iso(outcome.time)}{_how(outcome)}" + (
            "; final" if outcome.upper.is_empty() else ""
        )
    if outcome.drift:
        line += f", {outcome.drift} foreign rows dropped"
    if outcome.generation:
        line += f"; rebuilt: {outcome.generation}"
    return line + _evolved(outcome) + _late_references(outcome)


def _names(superseded: Superseded | None) -> tuple[str, ...]:
    return () if superseded is None else tuple(last_part(name) for name in superseded.names)


def _superseded(superseded: Superseded) -> str:
    """``superseded: total was written by a later run (as of 2026-11-20T15:00:00Z), which ...``"""
    names = _names(superseded)
    was = f"{', '.join(names)} {'was' if len(names) == 1 else 'were'} written by a later run (as of {iso(superseded.by)})"
    return f"superseded: {was}, which passed over this run's time; left to the next run"


def _late_references(outcome: Outcome) -> str:
    """``; orders as of 2026-11-20T14:00:00Z`` for each shard not read as of the write time, and
    ``; raw as it is now: ...`` for each table with versions.
    """
    read = outcome.read or ReadPoints()
    late = {name: time for name, time in read.times.items() if time != outcome.time}
    shards = "".join(f"; {last_part(name)} as of {iso(time)}" for name, time in late.items())
    return shards + "".join(f"; {last_part(name)} as it is now: {why}" for name, why in read.newer.items())


def _previewed(outcome: Outcome) -> str:
    """What else a run would do."""
    line = f"; rebuilt: {outcome.generation}" if outcome.generation else _evolved(outcome)
    if outcome.preview is not None and outcome.preview.gate:
        line += f"; gate: would fail: {outcome.preview.gate}"
    return line


def _evolved(outcome: Outcome) -> str:
    evolved = columns_evolved(outcome.columns_added, outcome.columns_widened)
    return f"; {evolved}" if evolved else ""


def _changed(counts: Counts) -> str:
    changed = f"+{counts.inserted} -{counts.deleted}"
    if counts.errors_inserted or counts.errors_deleted:
        changed += f" (errors +{counts.errors_inserted} -{counts.errors_deleted})"
    return changed


def _how(outcome: Outcome) -> str:
    """One short code: ``(incremental)``, ``(full: much changed)``. `long_reason` has the rest."""
    written = outcome.written
    why = "" if written.full.usual or written.incremental else written.full.why.short
    if written.full.why is Why.NEW_FILES and not written.incremental:
        why = written.full.about[1].partition(":")[0]  # though every run of such a model has some
    first = written.loaded and not outcome.generation  # there was nothing to verify
    if outcome.verified and not first:
        right = written.drift is not None and written.drift.counts.nothing
        codes = ("verified, no drift" if right else "verified", "rewritten" if written.rewritten else "", why)
        return f" ({'; '.join(filter(None, codes))})"
    if not outcome.written.evaluated:
        return " (inputs unchanged)"
    if written.incremental:
        return " (incremental)"
    return f" (full: {why})" if why else ""


def long_reason(outcome: Outcome) -> str:
    """Why the query was evaluated, for the log and `mvsink history`; empty if there is nothing to
    say.
    """
    written = outcome.written
    own = f"verified, but not by the text as written: {written.rewritten}" if written.rewritten else ""
    return "; ".join(filter(None, (own, "" if written.incremental else written.full.text)))


def _bound(frontier: Antichain) -> str:
    time = frontier.as_option()
    return "the end" if time is None else iso(time)


def task_response(
    outcome: TaskOutcome, input_query: str, notes: Sequence[str] = (), warnings: Sequence[str] = ()
) -> MvsinkResponse:
    """The response of a task's run."""
    answer = _response(outcome, (task_line(outcome), *notes), warnings)
    waits = [late.model for late in outcome.late if late.waits and late.model]
    return replace(answer, input=input_query, pending=outcome.pending, waits_for=waits)


def task_line(outcome: TaskOutcome) -> str:
    """``+4 -2 at 2026-11-20T15:00:00Z (3 times)``, or why nothing was written; late references."""
    counts = outcome.counts
    if outcome.kind is Kind.READ_ONLY:
        pending = "" if outcome.pending is None else f" {outcome.pending} pending times of"
        return f"read-only: would process{pending} its input"
    if outcome.waiting:
        return _waiting(outcome)
    line = f"{_changed(counts)} at {iso(outcome.time)}"
    if len(outcome.times) > 1:
        line += f" ({len(outcome.times)} times)"
    if outcome.upper.is_empty():
        line += "; final: the input has finished"
    return line + "".join(f"; {late.name} as of {iso(late.time)}" for late in outcome.late if not late.waits)


def _waiting(outcome: TaskOutcome) -> str:
    """``+2 -0, done up to 2026-11-20T10:40:00Z; 3 pending times wait for db.r (at ...) to pass T``

    It shows the upper, because the task has not reached the run's own time.
    """
    counts = outcome.counts
    waits = [late for late in outcome.late if late.waits]
    names = ", ".join(
        f"{late.name} (at {_bound(Antichain.of(late.upper))}{late.why and f'; {late.why}'})" for late in waits
    )
    times = f"{outcome.waiting} pending time{' waits' if outcome.waiting == 1 else 's wait'}"
    line = f"{_changed(counts)}, done up to {_bound(outcome.upper)}"
    return f"{line}; {times} for {names} to pass {iso(min(late.time for late in waits))} (`on_late_reference: newest` goes on)"


def preview_values(outcome: Outcome) -> dict[str, Any] | None:
    """None for a run that was not read-only, or had nothing to compare.

    ``errors`` counts error updates added or retracted. ``gate`` says why the gate would fail; it is
    empty if it would pass, None without a gate or a change. ``compacted`` counts live files that
    would be rewritten, and the updates in them. ``sample`` has rows with the ``diff`` with which
    they would be appended; an error update has an ``error`` and no ``row``.
    """
    preview = outcome.preview
    if preview is None:
        return None
    return {
        "gate": preview.gate,
        "errors": outcome.counts.errors_inserted + outcome.counts.errors_deleted,
        "compacted": {
            "files": len(preview.compacted),
            "updates": sum(file.rows or 0 for file in preview.compacted),
        },
        "sample": [_update(preview, row) for row in preview.sample],
    }


def _update(preview: Preview, row: tuple[object, ...]) -> dict[str, Any]:
    _, diff, error, *_ = row[len(preview.columns) :]
    if error is not None:
        return {"diff": plain(diff), "error": str(error)}
    return {
        "diff": plain(diff),
        "row": {name: plain(value) for name, value in zip(preview.columns, row, strict=False)},
    }


def drift_values(drift: Drift | None) -> dict[str, Any] | None:
    """``drift`` as `run_results.json` has it: ``inserted`` counts rows that were missing,
    ``deleted`` rows that were too many, and `Drift` explains ``noise``. None if the run cannot
    separate drift from the changes of the inputs.
    """
    if drift is None:
        return None
    return {"inserted": drift.counts.inserted, "deleted": drift.counts.deleted, "noise": drift.noise}
