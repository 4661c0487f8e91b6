"""The effects of a task's statements at one time, staged as updates of the output.

A delta is staged before the next statement that reads the output runs; for later statements it is
one more batch of the output. The sum of the deltas, consolidated, is appended. If the statements
only insert there is nothing to consolidate: their rows are written as they are, with hashes. A
batch that removes rows has no hashes, because a removed row may be in the base more than once (see
docs/design/sink.md); readers compare its rows as a whole until compaction.

Statements that do not depend on each other run as one (`bind.groups`) and read only the part of the
output that they can change (`row_deltas.within_reach`). If that fails because of the data, they run
again one by one, over the output without deleted rows. If one then fails, the failure is its own.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.continual_task import bind
from dbt.adapters.mvsink.continual_task.errors import StatementFailed
from dbt.adapters.mvsink.continual_task.statements import AnyStatement, Delete, Insert, Program, Update
from dbt.adapters.mvsink.engine import Column, Engine, EngineError, sql
from dbt.adapters.mvsink.engine.whole_rows import net, row_hash
from dbt.adapters.mvsink.inputs import Input
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, TIME
from dbt.adapters.mvsink.shard import Batch
from dbt.adapters.mvsink.shard_sql import BatchDescription, Counts, Layout
from dbt.adapters.mvsink.shard_sql.as_of import nulls, times_of
from dbt.adapters.mvsink.shard_sql.current_view import plain_rows, updates_apart
from dbt.adapters.mvsink.shard_sql.layout import live_errors, with_batch
from dbt.adapters.mvsink.shard_sql.stager import Stager
from dbt.adapters.mvsink.user_sql.splice import with_ctes

log = logging.getLogger("mvsink.task")
INSERTED, DELETED, WHOLE = "_mv_inserted", "_mv_deleted", "_mv_whole"


@dataclass(frozen=True)
class TaskChange:
    """A change of the input, as SQL: plain rows inserted and deleted, and error updates (or None).

    ``runs`` is False if there are no rows that the task reads: then only the errors are passed on.
    ``contents`` are the input's rows after the change, None for a task that does not read them.
    """

    inserted: str
    deleted: str
    errors: str | None = None
    runs: bool = True
    contents: str | None = None


def change_of(source: Input, updates: str, *, errors: bool, runs: bool) -> TaskChange:
    """All ``updates`` as one change."""
    return TaskChange(
        repeated(source.columns, updates, f"{ERROR} is null and {DIFF} > 0", DIFF),
        repeated(source.columns, updates, f"{ERROR} is null and {DIFF} < 0", f"-{DIFF}"),
        updates if errors else None,
        runs,
    )


def snapshot_of(source: Input, engine: Engine, time: int, *, rows: bool) -> TaskChange:
    """The whole input as of ``time``, as one change; without ``rows``, only the errors that are
    live then. If the input has no rows, no statement runs.

    If no error is live, the rows are read without their updates.
    """
    updates = source.snapshot(time)

    def exists(condition: str) -> bool:
        query = f"select 1 from (\n{updates}\n) where {condition} limit 1"
        return engine.query(query, "look at the input") != []

    errors = exists(f"{ERROR} is not null")
    change = change_of(source, updates, errors=errors, runs=rows and exists(f"{ERROR} is null"))
    return change if errors else replace(change, inserted=source.contents(time))


def recreation_of(source: Input, engine: Engine, updates: str, *, deletes: bool) -> TaskChange:
    """``updates`` of an input that was created again, as one change. With ``deletes``, lost rows
    alone are a change too.
    """
    flags = engine.query(times_of(updates), "look at the input")
    inserts, removed, errors = (any(bool(row[n]) for row in flags) for n in (1, 2, 3))
    return change_of(source, updates, errors=errors, runs=inserts or (deletes and removed))


def repeated(columns: Sequence[Column], updates: str, where: str, count: str, *more: str) -> str:
    """Plain rows of updates that match ``where``, ``count`` times each, with ``more`` columns."""
    items = sql.columns([*(column.name for column in columns), *more])
    copies = f"lateral view explode(sequence(1, cast({count} as int))) copies as _mv_copy"
    return f"select {items} from (\nselect * from (\n{updates}\n) where {where}\n) {copies}"


@dataclass(frozen=True)
class Moment:
    """One pending ``time`` (ms): the input's change, the references' contents, the batch to stage.

    If ``careful``, the output is read so that no condition sees a deleted row.
    """

    change: TaskChange
    references: Mapping[str, str]
    time: int
    description: BatchDescription
    careful: bool = False


@dataclass
class Effects:
    """Computes the effects for one run. ``columns`` are the output's, in the order of the
    statements; ``stored`` are the same in the shard's order, in which rows are hashed.
    """

    program: Program
    columns: Sequence[Column]
    stager: Stager
    salt: int
    stored: Sequence[Column]
    staged: list[Batch] = field(default_factory=list)

    def of(
        self,
        change: TaskChange,
        output: Layout,
        references: Mapping[str, str],
        time: int,
        description: BatchDescription,
    ) -> tuple[Batch | None, Counts]:
        """The batch of ``description`` with the statements' effects at ``time``, and its counts.

        Raises `StatementFailed` with the engine's error as its cause; then nothing stays staged. An
        error caused by the data is attributed to a statement only if the statement also fails by
        itself; otherwise the engine's error is raised.
        """
        if not change.runs:
            return self.only_errors(change, time, description)
        moment = Moment(change, references, time, description)
        try:
            return self._of(moment, bind.groups(self.program), output)
        except StatementFailed as failure:
            if not failure.error.caused_by_data:
                raise
            log.debug("%s: again, one by one: %s", self.program.model, failure)
            self._clean()
            singly = [[statement] for statement in self.program.statements]
            return self._of(replace(moment, careful=True), singly, output)
        finally:
            self._clean()

    def _clean(self) -> None:
        for batch in self.staged:
            batch.delete()
        self.staged.clear()

    def _of(
        self, moment: Moment, groups: Sequence[Sequence[AnyStatement]], output: Layout
    ) -> tuple[Batch | None, Counts]:
        change, time = moment.change, moment.time
        deltas: list[str] = []
        removes = change.errors is not None
        *earlier, last = groups
        for statements in earlier:
            group = _effective(statements, output)
            batch = self._stage_group(moment, group, output) if group else None
            if batch is None:
                continue
            removes = removes or not _only_insert(group)
            output = with_batch(output, batch)
            deltas.append(f"select {self._items}, {DIFF} from {sql.parquet_in(batch.uri)}")
        last = _effective(last, output)
        own = self._deltas(moment, last, output)
        deltas += own
        if not deltas:
            return self.only_errors(change, time, moment.description)
        rows = self._updates(sql.union_all(deltas), time, summed=removes or not _only_insert(last))
        ctes = _ctes(change, self.program.deletes_used)
        query = ctes + rows
        if change.errors is not None:
            query = sql.union_all([query, self._errors(change.errors, time)])
        with self._attributing(ctes + sql.union_all(own) if moment.careful and own else None):
            return self._counted(self._stage(last, query, moment.description))

    def _stage_group(self, moment: Moment, group: Sequence[AnyStatement], output: Layout) -> Batch | None:
        """Stages the effects of a group that later groups may read; None if there are none."""
        ctes = _ctes(moment.change, self.program.deletes_used)
        delta = sql.union_all(self._deltas(moment, group, output))
        updates = self._updates(delta, moment.time, summed=not _only_insert(group))
        with self._attributing(ctes + delta if moment.careful else None):
            batch = self._stage(group, ctes + updates, moment.description)
        failpoints.reach("statement staged")
        return batch

    def together(self, queries: Sequence[str], description: BatchDescription) -> tuple[Batch | None, Counts]:
        """The batch with the rows of ``queries``, at times of their own (`bind.carried_delta`)."""
        meta = f"{TIME}, {DIFF}, cast(null as string) {ERROR}, {row_hash(self.stored, self.salt)} {HASH}"
        query = f"select {self._items}, {meta} from (\n{sql.union_all(queries)}\n)"
        return self._counted(self._stage(self.program.statements, query, description))

    def failed(
        self, message: str, change: TaskChange, time: int, description: BatchDescription
    ) -> tuple[Batch | None, Counts]:
        """The batch of ``message`` as an error at ``time``, with the input's error updates and no
        rows.
        """
        at = f"{sql.bigint(time)} {TIME}"
        own = f"select {nulls(self.columns)}, {at}, 1L {DIFF}, {sql.text(message)} {ERROR}, cast(null as bigint) {HASH}"
        inherited = [] if change.errors is None else [self._errors(change.errors, time)]
        return self._counted(
            self._stage(self.program.statements, sql.union_all([own, *inherited]), description)
        )

    def only_errors(
        self, change: TaskChange, time: int, description: BatchDescription
    ) -> tuple[Batch | None, Counts]:
        """The batch of the input's error updates at ``time``; the statements have no effect."""
        if change.errors is None:
            return None, Counts()
        return self._counted(
            self._stage(self.program.statements, self._errors(change.errors, time), description)
        )

    @property
    def _items(self) -> str:
        return sql.columns(column.name for column in self.columns)

    def _deltas(self, moment: Moment, group: Sequence[AnyStatement], output: Layout) -> list[str]:
        """Each statement's delta, for a union: in parentheses, because it may begin with WITH."""
        rows = plain_rows(output)
        # the optimizer pushes no condition below a nondeterministic one, down to deleted rows
        if moment.careful:
            rows = f"select * from (\n{rows}\n) where spark_partition_id() >= 0"
        contents = f"select {self._items}, 1L {DIFF} from (\n{rows}\n)"
        apart = None if moment.careful else updates_apart(output)
        deletes = f"select * from {DELETED}" if self.program.deletes_used else None
        whole = None if moment.change.contents is None else f"select * from {WHOLE}"
        bindings = bind.StatementBindings(
            f"select * from {INSERTED}", rows, deletes, moment.references, moment.time, whole
        )
        deltas = (
            bind.delta(self.program, statement, self.columns, contents, bindings, apart)
            for statement in group
        )
        return [f"select {self._items}, {DIFF} from (\n{delta}\n)" for delta in deltas]

    def _updates(self, delta: str, time: int, *, summed: bool) -> str:
        """A batch's columns at ``time``. ``summed``: consolidated, without hashes."""
        meta = f"{sql.bigint(time)} {TIME}, {DIFF}, cast(null as string) {ERROR}"
        if not summed:
            return (
                f"select {self._items}, {meta}, {row_hash(self.stored, self.salt)} {HASH} from (\n{delta}\n)"
            )
        rows = net(self.columns, [], delta, "<> 0")
        return f"select {self._items}, {meta}, cast(null as bigint) {HASH} from (\n{rows}\n)"

    def _errors(self, updates: str, time: int) -> str:
        kept = f"select {ERROR} e, {DIFF} d from (\n{updates}\n) where {ERROR} is not null"
        return f"select {nulls(self.columns)}, {sql.bigint(time)} {TIME}, d {DIFF}, e {ERROR}, cast(null as bigint) {HASH} from (\n{kept}\n)"

    def _stage(
        self, group: Sequence[AnyStatement], query: str, description: BatchDescription
    ) -> Batch | None:
        """Raises `StatementFailed` for the ``group``."""
        numbers = ", ".join(str(statement.number) for statement in group)
        try:
            staged = self.stager.stage(query, f"statement {numbers}")
        except EngineError as error:
            raise StatementFailed(self.program.model, numbers, error) from error
        batch = self.stager.adopt(staged, description)
        if batch is not None:
            self.staged.append(batch)
        return batch

    @contextmanager
    def _attributing(self, alone: str | None) -> Iterator[None]:
        """Attributes a `StatementFailed` caused by the data to the user's statements or to ours.

        ``alone``, the user's statements without our processing of their rows, must fail too. If it
        does not, the error is ours and is raised as the engine's. Without ``alone`` there is no
        such check.
        """
        try:
            yield
        except StatementFailed as failure:
            if alone is None or not failure.error.caused_by_data:
                raise
            try:
                self.stager.stage(alone, "confirm").delete()
            except EngineError as error:
                if error.caused_by_data:
                    raise StatementFailed(self.program.model, failure.statement, error) from error
            raise failure.error from None

    def _counted(self, batch: Batch | None) -> tuple[Batch | None, Counts]:
        if batch is None:
            return None, Counts()
        try:
            counts = self.stager.counts(batch)
        except BaseException:
            batch.delete()
            raise
        finally:
            self.staged.remove(batch)
        failpoints.reach("staged")
        return batch, counts


def _effective(group: Sequence[AnyStatement], output: Layout) -> Sequence[AnyStatement]:
    """The group without statements that cannot change an empty output: nothing to consolidate."""
    return group[1:] if output.empty and isinstance(group[0], (Delete, Update)) else group


def _ctes(change: TaskChange, deletes: bool) -> str:
    """The change's rows as a WITH clause, so that the engine resolves their relations only once."""
    queries = {INSERTED: change.inserted} | ({DELETED: change.deleted} if deletes else {})
    if change.contents is not None:
        queries[WHOLE] = change.contents
    return "with " + ", ".join(f"{name} as (\n{query}\n)" for name, query in queries.items()) + "\n"


def _only_insert(group: Sequence[AnyStatement]) -> bool:
    return all(isinstance(statement, Insert) for statement in group)


def retractions(output: Layout, columns: Sequence[Column], inputs: str, time: int) -> str:
    """Updates at ``time`` (ms) that take the task's own errors back; empty if there can be none.

    Errors of the input are in the output too, and are retracted when the input's are. So only the
    errors that the output has beyond the input's are taken back.

    ``inputs`` is the input as updates, as of the last time that the task has processed, with
    `_mv_error` and `_mv_diff`.
    """
    live = live_errors(output)
    if not live:
        return ""
    inherited = f"select {ERROR} m, -{DIFF} n from (\n{inputs}\n) where {ERROR} is not null"
    both = sql.union_all([f"select m, n from (\n{live}\n)", inherited])
    own = f"select m, sum(n) n from (\n{both}\n) group by m having sum(n) > 0"
    return f"select {nulls(columns)}, {sql.bigint(time)} {TIME}, -n {DIFF}, m {ERROR}, cast(null as bigint) {HASH} from (\n{own}\n)"


def output_after(
    program: Program, columns: Sequence[Column], inputs: Sequence[Column], change: str, before: str | None
) -> str:
    """The rows of the output, as SQL, after the change of the input at one time, without writing.

    ``_mv_0`` is the output so far, ``_mv_1`` is the output with the delta of statement 0, and so
    on. Each delta reads a CTE, so the text grows only with the number of statements.

    ``columns`` are the output's and ``inputs`` the input's. ``change`` has the latter and
    `_mv_diff`; a row whose `_mv_diff` is 0 is in the input before and after. ``before`` has the
    rows of the output so far, None for no rows. Both may name the task's CTEs.
    """
    items = sql.columns(column.name for column in columns)
    net_change = net(inputs, [], change, "<> 0")
    inserted = repeated(inputs, net_change, f"{DIFF} > 0", DIFF)
    deleted = repeated(inputs, net_change, f"{DIFF} < 0", f"-{DIFF}")
    unchanged = f"select {sql.columns(c.name for c in inputs)} from (\n{change}\n) where {DIFF} = 0"
    whole = sql.union_all([unchanged, inserted])
    rows = f"select {nulls(columns)} where false" if before is None else before
    so_far = f"select {items}, 1L {DIFF} from {sql.subquery(rows, '_mv_before')}"
    named = [f"_mv_0 as (\n{with_ctes(program.ctes, so_far)}\n)"]
    for number, statement in enumerate(program.statements):
        contents = f"select {items}, {DIFF} from _mv_{number}"
        this = repeated(columns, contents, "true", DIFF)
        bindings = bind.StatementBindings(inserted, this, deleted, contents=whole)
        delta = bind.delta(program, statement, columns, contents, bindings)
        both = sql.union_all([contents, f"select {items}, {DIFF} from {sql.subquery(delta, '_mv_delta')}"])
        named.append(f"_mv_{number + 1} as (\n{net(columns, [], both, '> 0')}\n)")
    after = repeated(columns, f"select {items}, {DIFF} from _mv_{len(program.statements)}", "true", DIFF)
    return f"with {', '.join(named)}\n{after}"
