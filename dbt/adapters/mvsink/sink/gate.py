"""The publish gate: new contents are checked after they are staged and before they are appended.

There are two checks. *max_change* fails if the correction changes more rows than allowed. *Audits*,
queries for bad rows that run over the new contents, fail if they find some. Then nothing is
committed: the staged batch is deleted, and no reader has seen a row of it.

`max_change: auto` allows 4 times the largest of the last 20 changes, and always 100 rows: after
changes of 80, 250 and 120 rows a run may change 1,000. Runs that changed nothing, first loads and
new generations do not count, and neither does a run that fills columns that were just added.

The first load and a full refresh are exempt from `max_change`; audits always run. A correction that
changes nothing is not checked. A new generation for another reason (changed columns, a changed
definition) replaces all rows without counting which are new: its change is the difference in the
number of rows. So it is for the run that fills columns that were added or widened in place: of most
rows, only those columns change.

An audit with an `AuditScope` checks only the rows that a run adds, if the previous contents passed
it without a failure. The note of the commit that wrote them records this: the digests of the
audits, and the version that the correction was compared with. The record is valid as long as every
commit since that version is our own and left all rows as they were.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.durations import iso
from dbt.adapters.mvsink.engine import Engine, EngineError
from dbt.adapters.mvsink.engine.timing import Stopwatch
from dbt.adapters.mvsink.shard import Batch, Commit, WriteHandle
from dbt.adapters.mvsink.shard_sql import Counts, Layout, row_count
from dbt.adapters.mvsink.shard_sql.current_view import plain_rows
from dbt.adapters.mvsink.shard_sql.layout import with_batch
from dbt.adapters.mvsink.sink.errors import AuditFailed, GateFailed, MaxChangeExceeded
from dbt.adapters.mvsink.sink.round import DROPPED, FULL_REFRESH, Round, Written
from dbt.adapters.mvsink.sink.run_history import EVALUATED, INCREMENTAL, SUMMED

FAILING_ROWS = 5  # that an error shows
LONGEST_VALUE = 80  # characters of a value that an error shows
EVOLVE = "evolve"  # the kind of a commit that adds or widens columns
SAME_ROWS = ("advance", "schema", "compact")  # kinds of commits


class Limit(Protocol):
    """How much a correction may change."""

    def broken_by(self, inserted: int, deleted: int, current: int) -> str:
        """Why a change of ``current`` rows exceeds the limit, or ""."""
        ...


@dataclass(frozen=True)
class MaxChange:
    """How much a correction may change: ``rows``, or ``percent`` of the current rows. None is no
    limit.

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
        """Why a change exceeds the limit, or "". ``percent`` does not limit changes of an empty
        collection.
        """
        changed = max(inserted, deleted)
        if self.rows is not None and changed > self.rows:
            return f"{changed} rows, max_change allows {self.rows}"
        if self.percent is not None and current and changed * 100 > self.percent * current:
            return f"{changed} of {current} rows ({changed * 100 / current:.1f} %), max_change allows {self.percent:g} %"
        return ""


History = Callable[[int], Sequence[Commit]]  # that many of the newest commits, oldest first


class Learned(enum.Enum):
    """The one value of `max_change` that is not a number."""

    AUTO = "auto"


@dataclass(frozen=True)
class LearnedChange:
    """The limit that follows from the shard's ``history``; see the module."""

    history: History

    def broken_by(self, inserted: int, deleted: int, current: int) -> str:
        """Why a change exceeds the limit, or "". The log is read only for a change over the
        floor.
        """
        changed = max(inserted, deleted)
        past = changes_before(self.history(limits.CHANGES_READ)) if changed > limits.CHANGE_FLOOR else []
        if len(past) < limits.CHANGES_ENOUGH:
            return ""
        remembered = past[-limits.CHANGES_REMEMBERED :]
        largest, time = max(remembered)
        allowed = max(limits.CHANGE_FLOOR, limits.CHANGE_FACTOR * largest)
        if changed <= allowed:
            return ""
        return (
            f"{changed} rows, max_change auto allows {allowed}: {limits.CHANGE_FACTOR} times the largest of the last "
            f"{len(remembered)} changes, {largest} rows at {iso(time)}"
        )


def change_limit(configured: MaxChange | Learned | None, history: History) -> Limit | None:
    """The limit of a model with the option ``configured``."""
    return LearnedChange(history) if isinstance(configured, Learned) else configured


def changes_before(commits: Sequence[Commit]) -> list[tuple[int, int]]:
    """For each run that changed existing contents: the rows that it inserted or deleted, whichever
    are more, and its time (ms).
    """
    changes, fills = [], False
    for commit in commits:
        note = commit.note
        rows = max(note.rows_inserted, note.rows_deleted)
        if rows and note.mode in (EVALUATED, INCREMENTAL, SUMMED) and note.computed_through is not None:
            changes += [] if fills else [(rows, note.computed_through)]
        fills = commit.kind == EVOLVE or (fills and not commit.is_run)
    return changes


def columns_unfilled(commits: Sequence[Commit]) -> bool:
    """Whether no run has computed contents since columns were added or widened; ``commits`` are the
    newest, oldest first. A run that has nothing to fill, because types only became wider, ends
    that, too: a later change is not what fills them.
    """
    decisive = [commit.kind for commit in commits if commit.kind == EVOLVE or commit.is_run]
    return decisive[-1:] == [EVOLVE]


@dataclass(frozen=True)
class AuditScope:
    """The scope of an audit that need not look at all rows once it has passed without a failure.

    It then judges only the added rows or, with a ``key`` (an expression over columns), the rows
    that have the key of an added row. ``digest`` covers everything that decides its result except
    the rows.
    """

    digest: str
    key: str = ""

    def narrowed(self, contents: str, added: str) -> str:
        """The query of the rows to judge, among those of the query ``contents``."""
        if not self.key:
            return added
        return f"select * from (\n{contents}\n) where ({self.key}) in (select {self.key} from (\n{added}\n))"


@dataclass(frozen=True)
class Audit:
    """A test of the model's contents. ``contents`` is a query of the model's rows.
    ``failing(contents)`` is then the query of the bad rows, and ``verdict(contents)`` gives one
    row: how many failures, whether to warn, whether to fail. ``scope`` is None if the audit always
    looks at all rows.
    """

    name: str
    failing: Callable[[str], str]
    verdict: Callable[[str], str]
    severe: bool = True  # False: it only ever warns
    scope: AuditScope | None = None
    whole: str = ""  # why it has no scope, if one was asked for


NOT_CHECKED = (
    "audit {} was not checked: it reads a relation that does not exist yet ({}). This is the first load; "
    "later ones fail. `dbt build` runs the test itself afterwards"
)


@dataclass(frozen=True)
class Contents:
    """The query of the new contents, and the query ``added`` of the rows that they add to contents
    that passed the audits with the digests ``passed``. ``added`` is None if all rows are to be
    judged. ``first`` means that the shard has no contents yet.
    """

    rows: str
    added: str | None = None
    passed: frozenset[str] = frozenset()
    first: bool = False

    def of(self, audit: Audit) -> str:
        """The query of the rows that ``audit`` has to judge."""
        scope = audit.scope
        if scope is None or self.added is None or scope.digest not in self.passed:
            return self.rows
        return scope.narrowed(self.rows, self.added)


@dataclass(frozen=True)
class GatePassed:
    """The warnings, and the digests of the audits that passed without a failure."""

    warnings: list[str]
    passed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Gate:
    """The checks of new contents. If ``accepted``, this run may change any number of rows."""

    max_change: Limit | None = None
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
    contents: Contents,
) -> GatePassed:
    """The result for new contents that pass; raises `GateFailed` if they do not.

    ``counts`` is the change of the ``current`` number of rows, which is None if the size of the
    change does not matter. With ``replaces``, all rows are new.
    """
    if gate.max_change is not None and gate.counts_changes and current is not None:
        [[rows]] = engine.query(row_count(current), "gate")
        check_change(gate.max_change, model, counts, int(str(rows)), replaces)
    return _check_contents(gate.audits, engine, contents)


def check_change(allowed: Limit, model: str, counts: Counts, current: int, replaces: bool) -> None:
    """Raises `MaxChangeExceeded` for ``counts`` that exceed it, of ``current`` rows. With
    ``replaces``, ``counts`` count all rows.
    """
    inserted, deleted = counts.inserted, counts.deleted
    if replaces:
        inserted, deleted = max(0, inserted - current), max(0, current - inserted)
    broken = allowed.broken_by(inserted, deleted, current)
    if broken:
        raise MaxChangeExceeded(model, f"+{inserted} -{deleted}", broken)


def _check_contents(audits: Sequence[Audit], engine: Engine, contents: Contents) -> GatePassed:
    """Runs every audit, so that the error shows all that fail."""
    failures, warnings, passed = [], [], []
    for audit in audits:
        rows = contents.of(audit)
        try:
            count, warns, fails = _verdict(engine, audit, rows)
            if fails and audit.severe:
                failures.append(f"{audit.name}: {_failures(count)}{_shown(engine, audit, rows)}")
            elif fails or warns:
                warnings.append(f"audit {audit.name}: {_failures(count)}")
            if count == 0 and audit.scope is not None:
                passed.append(audit.scope.digest)
        except EngineError as error:
            # in the first `dbt build`, what else a test reads may be built after the model
            if contents.first and error.missing_relation:
                warnings.append(NOT_CHECKED.format(audit.name, error.message.strip().splitlines()[0]))
            else:
                failures.append(f"{audit.name} cannot run: {error.message}")
    if failures:
        raise AuditFailed(failures)
    return GatePassed(warnings, tuple(passed))


def would_be(shard: Layout, batch: Batch | None, *, negated: bool = False) -> str:
    """The query of the contents as they would be with a staged correction as one more directory,
    without errors. If the rest is ``negated``, it reads that directory alone.
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
    """Whether ``value`` is true; it may be text or a number, which a test's own macro may
    return.
    """
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


# the gate of one run


def passed_before(commits: Sequence[Commit]) -> frozenset[str]:
    """The digests of the audits that the contents after ``commits``, oldest first, have passed."""
    later = list(commits)
    while later and _keeps_rows(later[-1]):
        later.pop()
    if not later or later[-1].kind != "append" or not later[-1].token:
        return frozenset()
    newest, audited = later[-1], later[-1].note.audited
    if audited is None:
        return frozenset()
    between = [commit for commit in later[:-1] if commit.version > audited]
    whole = len(between) == newest.version - audited - 1
    return frozenset(newest.note.audits) if whole and all(map(_keeps_rows, between)) else frozenset()


def _keeps_rows(commit: Commit) -> bool:
    return bool(commit.token) and commit.kind in SAME_ROWS


@dataclass
class Gating:
    """The gate of one run of ``model``; it adds to ``warnings``."""

    gate: Gate
    model: str
    handle: WriteHandle
    engine: Engine
    watch: Stopwatch
    warnings: list[str]

    def audited(self, at: Round, written: Written) -> Written:
        """``written`` with the audits that it passed. If the shard with it must not be published,
        deletes the batch and raises `GateFailed`.
        """
        if not self.gate.is_active:
            return written
        try:
            with self.watch("gate"):
                passed = self._check(at, written.counts, self._contents(at, written)).passed
        except BaseException:
            written.delete()
            raise
        return replace(written, audits=passed, audited=at.state.version)

    def require(self, at: Round, counts: Counts) -> None:
        """Raises `GateFailed` if the desired contents must not be published. Nothing is staged."""
        with self.watch("gate"):
            self._check(at, counts, Contents(at.desired.plain_rows(), first=not at.state.readable))

    def previewed(self, at: Round, counts: Counts) -> str:
        """Why the gate would reject the desired contents, or ""."""
        try:
            self._check(at, counts, Contents(at.desired.plain_rows(), first=not at.state.readable))
        except GateFailed as error:
            return str(error)
        return ""

    def _contents(self, at: Round, written: Written) -> Contents:
        shard, negated = at.shard, written.negation is not None
        rows = would_be(shard, written.batch, negated=negated)
        scoped = any(audit.scope is not None for audit in self.gate.audits)
        if not scoped or negated or at.plan.generation or shard.empty or shard.loose:
            return Contents(rows, first=not at.state.readable)
        # the correction by itself: the rows of which it adds copies
        added = would_be(shard, written.batch, negated=True)
        return Contents(rows, added, passed_before(self.handle.history(limits.AUDITED_COMMITS)))

    def _check(self, at: Round, counts: Counts, contents: Contents) -> GatePassed:
        generation = at.plan.generation
        comparable = at.state.readable and generation not in (FULL_REFRESH, DROPPED)
        current = Layout.of(self.handle, at.state) if comparable else None
        if at.plan.evolved or columns_unfilled(self.handle.history(limits.AUDITED_COMMITS)):
            more = counts.inserted - counts.deleted
            counts = replace(counts, inserted=max(0, more), deleted=max(0, -more))
        checked = check(self.gate, self.engine, self.model, counts, current, bool(generation), contents)
        self.warnings.extend(warning for warning in checked.warnings if warning not in self.warnings)
        return checked
