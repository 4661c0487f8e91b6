"""The publish gate: would-be contents are looked at after they are staged and before they are
appended.

Two things can close it. *max_change*: a correction that changes more rows than allowed. *Audits*:
queries for bad rows, run over the would-be contents. What fails commits nothing: the staged batch
is deleted, and readers have never seen a row of it.

The first load and a full refresh are exempt from `max_change`; audits always run. A correction that
changes nothing is not looked at, since nothing would be published by it. A new generation for
another reason (changed columns, a changed definition) replaces all rows, and nobody has counted
which are new: it counts by how many rows more or fewer it has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dbt.adapters.mvsink.engine import Engine, EngineError
from dbt.adapters.mvsink.shard import Batch
from dbt.adapters.mvsink.shard_sql import Counts, Layout, row_count
from dbt.adapters.mvsink.shard_sql.current_view import plain_rows
from dbt.adapters.mvsink.shard_sql.layout import with_batch
from dbt.adapters.mvsink.sink.errors import AuditFailed, MaxChangeExceeded

FAILING_ROWS = 5  # that an error shows
LONGEST_VALUE = 80  # characters of a value that an error shows


@dataclass(frozen=True)
class MaxChange:
    """How much a correction may change: so many ``rows``, so many ``percent`` of those that are
    there. None: no limit.

    An updated row is one deletion and one insertion; it counts once, so what counts is the larger
    of the two sums.

    >>> MaxChange(rows=10).broken_by(inserted=11, deleted=3, held=100)
    '11 rows, max_change allows 10'
    >>> MaxChange(percent=5).broken_by(inserted=0, deleted=6, held=100)
    '6 of 100 rows (6.0 %), max_change allows 5 %'
    >>> MaxChange(percent=5).broken_by(inserted=7, deleted=0, held=0)
    ''
    """

    rows: int | None = None
    percent: float | None = None

    def broken_by(self, inserted: int, deleted: int, held: int) -> str:
        """In words; empty if it is not. Of no rows there is no share, so ``percent`` says nothing
        about an empty collection.
        """
        changed = max(inserted, deleted)
        if self.rows is not None and changed > self.rows:
            return f"{changed} rows, max_change allows {self.rows}"
        if self.percent is not None and held and changed * 100 > self.percent * held:
            return f"{changed} of {held} rows ({changed * 100 / held:.1f} %), max_change allows {self.percent:g} %"
        return ""


@dataclass(frozen=True)
class Audit:
    """A test of the model's contents. ``failing(contents)`` is the query of its bad rows where
    ``contents`` is the query of the model's rows; ``verdict(contents)`` gives one row: how many
    failures, whether to warn, whether to fail."""

    name: str
    failing: Callable[[str], str]
    verdict: Callable[[str], str]
    severe: bool = True  # False: it only ever warns


@dataclass(frozen=True)
class Gate:
    """What a model's would-be contents have to pass. ``accepted``: a change of any size is let
    through, this once.
    """

    max_change: MaxChange | None = None
    audits: tuple[Audit, ...] = ()
    accepted: bool = False

    @property
    def is_active(self) -> bool:
        """Whether there is anything to pass."""
        return self.counts_changes or bool(self.audits)

    @property
    def counts_changes(self) -> bool:
        return self.max_change is not None and not self.accepted


def check(
    gate: Gate, engine: Engine, model: str, counts: Counts, held: Layout | None, replaces: bool, contents: str
) -> list[str]:
    """Warnings for would-be contents that pass; raises `GateFailed` for others.

    ``counts`` is what changes against ``held``, None if the change's size does not matter.
    ``replaces``: all rows are new. ``contents`` is the query of the would-be contents.
    """
    if gate.max_change is not None and gate.counts_changes and held is not None:
        [[rows]] = engine.query(row_count(held), "gate")
        _check_change(gate.max_change, model, counts, int(str(rows)), replaces)
    return _check_contents(gate.audits, engine, contents)


def _check_change(allowed: MaxChange, model: str, counts: Counts, held: int, replaces: bool) -> None:
    inserted, deleted = counts.inserted, counts.deleted
    if replaces:
        inserted, deleted = max(0, inserted - held), max(0, held - inserted)
    broken = allowed.broken_by(inserted, deleted, held)
    if broken:
        raise MaxChangeExceeded(model, f"+{inserted} -{deleted}", broken)


def _check_contents(audits: Sequence[Audit], engine: Engine, contents: str) -> list[str]:
    """Every audit runs, so that the error tells of all that fail."""
    failures, warnings = [], []
    for audit in audits:
        try:
            count, warns, fails = _verdict(engine, audit, contents)
            if fails and audit.severe:
                failures.append(f"{audit.name}: {_failures(count)}{_shown(engine, audit, contents)}")
            elif fails or warns:
                warnings.append(f"audit {audit.name}: {_failures(count)}")
        except EngineError as error:
            failures.append(f"{audit.name} cannot run: {error.message}")
    if failures:
        raise AuditFailed(failures)
    return warnings


def would_be(shard: Layout, batch: Batch | None) -> str:
    """The query of the contents with a staged correction: the shard's parts and the batch as one
    more directory. Errors are left out.
    """
    return plain_rows(shard if batch is None else with_batch(shard, batch))


def _verdict(engine: Engine, audit: Audit, contents: str) -> tuple[int, bool, bool]:
    [row] = engine.query(audit.verdict(contents), f"audit {audit.name}")
    count, warns, fails = row
    return int(str(count or 0)), _true(warns), _true(fails)


def _failures(count: int) -> str:
    return f"{count} failure" if count == 1 else f"{count} failures"


def _true(value: object) -> bool:
    """Also as text or a number, as a test's own macro may give it."""
    return str(value).lower() in ("true", "1", "t", "yes")


def _shown(engine: Engine, audit: Audit, contents: str) -> str:
    """A few of the bad rows, in lines of their own."""
    failing = audit.failing(contents)
    names = [name for name, _ in engine.columns(failing)]
    rows = engine.query(f"select * from (\n{failing}\n) limit {FAILING_ROWS}", f"audit {audit.name}")
    lines = [
        ", ".join(f"{name}={_short(value)}" for name, value in zip(names, row, strict=True)) for row in rows
    ]
    return "".join(f"\n    {line}" for line in lines)


def _short(value: object) -> str:
    text = "NULL" if value is None else str(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + "..."
