"""The publish gate: new contents are checked after they are staged and before they are appended.

Two checks can fail. *max_change*: the correction changes more rows than allowed. *Audits*: queries
for bad rows, run over the new contents, find some. Then nothing is committed: the staged batch is
deleted, and no reader has seen a row of it.

The first load and a full refresh are exempt from `max_change`; audits always run. A correction that
changes nothing is not checked. A new generation for another reason (changed columns, a changed
definition) replaces all rows without counting which are new: its change is the difference in the
number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

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
    """How much a correction may change: ``rows``, ``percent`` of the current ones. None: no limit.

    An updated row is one deletion and one insertion but counts once: the change is the larger of
    the two sums.

    >>> MaxChange(rows=10).broken_by(inserted=11, deleted=3, current=100)
    '11 rows, max_change allows 10'
    >>> MaxChange(percent=5).broken_by(inserted=0, deleted=6, current=100)
    '6 of 100 rows (6.0 %), max_change allows 5 %'
    >>> MaxChange(percent=5).broken_by(inserted=7, deleted=0, current=0)
    ''
    """

    rows: int | None = None
    percent: float | None = None

    def broken_by(self, inserted: int, deleted: int, current: int) -> str:
        """Why a change exceeds the limit, or "". ``percent`` does not limit an empty collection."""
        changed = max(inserted, deleted)
        if self.rows is not None and changed > self.rows:
            return f"{changed} rows, max_change allows {self.rows}"
        if self.percent is not None and current and changed * 100 > self.percent * current:
            return f"{changed} of {current} rows ({changed * 100 / current:.1f} %), max_change allows {self.percent:g} %"
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
    """The checks of new contents. ``accepted``: this run may change any number of rows."""

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
    gate: Gate,
    engine: Engine,
    model: str,
    counts: Counts,
    current: Layout | None,
    replaces: bool,
    contents: str,
) -> list[str]:
    """Warnings for new contents that pass; raises `GateFailed` if they do not.

    ``counts`` is the change of ``current``, which is None if the size of the change does not
    matter. ``replaces``: all rows are new. ``contents`` is the query of the new contents.
    """
    if gate.max_change is not None and gate.counts_changes and current is not None:
        [[rows]] = engine.query(row_count(current), "gate")
        _check_change(gate.max_change, model, counts, int(str(rows)), replaces)
    return _check_contents(gate.audits, engine, contents)


def _check_change(allowed: MaxChange, model: str, counts: Counts, current: int, replaces: bool) -> None:
    inserted, deleted = counts.inserted, counts.deleted
    if replaces:
        inserted, deleted = max(0, inserted - current), max(0, current - inserted)
    broken = allowed.broken_by(inserted, deleted, current)
    if broken:
        raise MaxChangeExceeded(model, f"+{inserted} -{deleted}", broken)


def _check_contents(audits: Sequence[Audit], engine: Engine, contents: str) -> list[str]:
    """Every audit runs, so that the error shows all that fail."""
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


def would_be(shard: Layout, batch: Batch | None, *, negated: bool = False) -> str:
    """The query of the contents with a staged correction as one more directory, without errors; of
    that directory alone if the rest is ``negated``.
    """
    if negated:
        shard = replace(shard, base=None, recent=(), unhashed=())
    return plain_rows(shard if batch is None else with_batch(shard, batch))


def _verdict(engine: Engine, audit: Audit, contents: str) -> tuple[int, bool, bool]:
    [row] = engine.query(audit.verdict(contents), f"audit {audit.name}")
    count, warns, fails = row
    return int(str(count or 0)), _true(warns), _true(fails)


def _failures(count: int) -> str:
    return f"{count} failure" if count == 1 else f"{count} failures"


def _true(value: object) -> bool:
    """Also for text or a number, which a test's own macro may return."""
    return str(value).lower() in ("true", "1", "t", "yes")


def _shown(engine: Engine, audit: Audit, contents: str) -> str:
    """A few of the bad rows, one per line."""
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
