"""What a task's statements do at one time: staged, statement by statement, as updates of the
output.

A delta is staged before the next statement that reads the output runs, and what it did is one more
batch of the output for those behind it. The sum of the deltas, consolidated, is what is appended.
Where the statements only insert there is nothing to consolidate: their rows are written as they
come, with hashes. A batch that takes rows away carries no hashes, because a row that it takes away
may stand in the base more than once (`sink`); readers compare its rows whole until compaction.

Statements that do not wait for each other run as one (`plan.groups`), and of the output they read
what they can change (`changes.within_reach`). Should the data make that fail they run again, each
alone, over an output in which no condition sees a row that is gone: that failure is theirs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from dbt.adapters.mvsink import failpoints
from dbt.adapters.mvsink.continual_task import bind as plan
from dbt.adapters.mvsink.continual_task.errors import StatementFailed
from dbt.adapters.mvsink.continual_task.statements import AnyStatement, Delete, Insert, Program, Update
from dbt.adapters.mvsink.engine import Column, Engine, EngineError, sql
from dbt.adapters.mvsink.engine.net import net
from dbt.adapters.mvsink.engine.row_hash import row_hash
from dbt.adapters.mvsink.inputs import Input
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, TIME
from dbt.adapters.mvsink.shard import Batch
from dbt.adapters.mvsink.shard_sql import BatchDescription, Counts, Layout
from dbt.adapters.mvsink.shard_sql.as_of import times_of
from dbt.adapters.mvsink.shard_sql.current_view import plain_rows, updates_apart
from dbt.adapters.mvsink.shard_sql.layout import with_batch
from dbt.adapters.mvsink.shard_sql.stager import Stager

log = logging.getLogger("mvsink.task")
INSERTED, DELETED = "_mv_inserted", "_mv_deleted"


@dataclass(frozen=True)
class Change:
    """What of the input is looked at, as SQL: plain rows inserted and deleted, and error updates
    (None: there are none).

    ``runs`` is False where no row came (or went, for a task that looks at those): then only the
    errors pass.
    """

    inserted: str
    deleted: str
    errors: str | None = None
    runs: bool = True


def change_of(source: Input, updates: str, *, errors: bool, runs: bool) -> Change:
    """All of ``updates``, as one change."""
    return Change(
        repeated(source.columns, updates, f"{ERROR} is null and {DIFF} > 0", DIFF),
        repeated(source.columns, updates, f"{ERROR} is null and {DIFF} < 0", f"-{DIFF}"),
        updates if errors else None,
        runs,
    )


def snapshot_of(source: Input, engine: Engine, time: int, *, rows: bool) -> Change:
    """The whole input as of ``time``; without ``rows``, only the errors that are live then. An
    input without rows runs nothing.

    Where no error is live its rows are read as they stand.
    """
    updates = source.snapshot(time)

    def there(condition: str) -> bool:
        return (
            engine.query(f"select 1 from (\n{updates}\n) where {condition} limit 1", "look at the input")
            != []
        )

    errors = there(f"{ERROR} is not null")
    change = change_of(source, updates, errors=errors, runs=rows and there(f"{ERROR} is null"))
    return change if errors else replace(change, inserted=source.contents(time))


def remade_of(source: Input, engine: Engine, updates: str, *, deletes: bool) -> Change:
    """What is different in an input that was made anew. ``deletes``: lost rows alone are a change,
    too.
    """
    flags = engine.query(times_of(updates), "look at the input")
    inserts, lost, errors = (any(bool(row[n]) for row in flags) for n in (1, 2, 3))
    return change_of(source, updates, errors=errors, runs=inserts or (deletes and lost))


def repeated(columns: Sequence[Column], updates: str, where: str, count: str, *more: str) -> str:
    """Plain rows of those updates, each as often as ``count`` says; ``more`` are further columns."""
    items = sql.columns([*(column.name for column in columns), *more])
    copies = f"lateral view explode(sequence(1, cast({count} as int))) copies as _mv_copy"
    return f"select {items} from (\nselect * from (\n{updates}\n) where {where}\n) {copies}"


@dataclass(frozen=True)
class Moment:
    """One pending ``time`` (ms): the change of the input, the contents of references as of then,
    and the batch that is to come of it.

    ``careful``: the output is read so that no condition sees a row that is gone.
    """

    change: Change
    references: Mapping[str, str]
    time: int
    description: BatchDescription
    careful: bool = False


@dataclass
class Effects:
    """Computes them for one run. ``columns`` are the output's."""

    program: Program
    columns: Sequence[Column]
    stager: Stager
    salt: int
    staged: list[Batch] = field(default_factory=list)

    def of(
        self,
        change: Change,
        output: Layout,
        references: Mapping[str, str],
        time: int,
        description: BatchDescription,
    ) -> tuple[Batch | None, Counts]:
        """The batch of ``description`` with what the statements do at ``time``, and its counts.

        Raises `StatementFailed` with the engine's error as its cause; then nothing is left staged.
        An error that the data cause is a statement's only if that fails by itself as well, else it
        leaves as it is.
        """
        if not change.runs:
            return self._only_errors(change, time, description)
        moment = Moment(change, references, time, description)
        try:
            return self._of(moment, plan.groups(self.program), output)
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
        change, time, description = moment.change, moment.time, moment.description
        deltas: list[str] = []
        takes_away = change.errors is not None
        named = _named(change, self.program.deletes_used)
        *earlier, last = groups
        for statements in earlier:
            group = _effective(statements, output)
            if not group:
                continue
            inserts = _only_insert(group)
            delta = sql.union_all(self._deltas(moment, group, output))
            with self._failing(named + delta if moment.careful else None):
                batch = self._stage(
                    group, named + self._updates(delta, time, summed=not inserts), description
                )
            failpoints.reach("statement staged")
            if batch is None:
                continue
            takes_away = takes_away or not inserts
            output = with_batch(output, batch)
            deltas.append(f"select {self._items}, {DIFF} from {sql.parquet_in(batch.uri)}")
        last = _effective(last, output)
        own = self._deltas(moment, last, output)
        deltas += own
        if not deltas:
            return self._only_errors(change, time, description)
        query = named + self._updates(
            sql.union_all(deltas), time, summed=takes_away or not _only_insert(last)
        )
        if change.errors is not None:
            query = sql.union_all([query, self._errors(change.errors, time)])
        with self._failing(named + sql.union_all(own) if moment.careful and own else None):
            return self._adopted(last, query, description)

    def together(self, queries: Sequence[str], description: BatchDescription) -> tuple[Batch | None, Counts]:
        """The batch with the rows of ``queries``: inserts with their own times
        (`plan.carried_delta`).
        """
        meta = f"{TIME}, {DIFF}, cast(null as string) {ERROR}, {row_hash(self.columns, self.salt)} {HASH}"
        query = f"select {self._items}, {meta} from (\n{sql.union_all(queries)}\n)"
        return self._adopted(self.program.statements, query, description)

    def failed(
        self, message: str, change: Change, time: int, description: BatchDescription
    ) -> tuple[Batch | None, Counts]:
        """The batch that has ``message`` as an error update at ``time``, besides those of the
        input, and no row.
        """
        items = ", ".join(f"cast(null as {c.type.text}) {sql.identifier(c.name)}" for c in self.columns)
        meta = (
            f"{sql.bigint(time)} {TIME}, 1L {DIFF}, {sql.text(message)} {ERROR}, cast(null as bigint) {HASH}"
        )
        passed = [] if change.errors is None else [self._errors(change.errors, time)]
        return self._adopted(
            self.program.statements, sql.union_all([f"select {items}, {meta}", *passed]), description
        )

    def _only_errors(
        self, change: Change, time: int, description: BatchDescription
    ) -> tuple[Batch | None, Counts]:
        if change.errors is None:
            return None, Counts()
        return self._adopted(self.program.statements, self._errors(change.errors, time), description)

    @property
    def _items(self) -> str:
        return sql.columns(column.name for column in self.columns)

    def _deltas(self, moment: Moment, group: Sequence[AnyStatement], output: Layout) -> list[str]:
        """Each statement's, as a query that may stand in a union: it may begin with a WITH itself."""
        rows = plain_rows(output)
        # the optimizer moves no condition past one that is not deterministic, down to rows that are
        # gone
        if moment.careful:
            rows = f"select * from (\n{rows}\n) where spark_partition_id() >= 0"
        contents = f"select {self._items}, 1L {DIFF} from (\n{rows}\n)"
        apart = None if moment.careful else updates_apart(output)
        deletes = f"select * from {DELETED}" if self.program.deletes_used else None
        bindings = plan.Bindings(f"select * from {INSERTED}", rows, deletes, moment.references, moment.time)
        found = (
            plan.delta(self.program, statement, self.columns, contents, bindings, apart)
            for statement in group
        )
        return [f"select {self._items}, {DIFF} from (\n{delta}\n)" for delta in found]

    def _updates(self, delta: str, time: int, *, summed: bool) -> str:
        """A batch's columns at ``time``. ``summed``: consolidated, without hashes."""
        meta = f"{sql.bigint(time)} {TIME}, {DIFF}, cast(null as string) {ERROR}"
        if not summed:
            return (
                f"select {self._items}, {meta}, {row_hash(self.columns, self.salt)} {HASH} from (\n{delta}\n)"
            )
        rows = net(self.columns, [], delta, "<> 0")
        return f"select {self._items}, {meta}, cast(null as bigint) {HASH} from (\n{rows}\n)"

    def _errors(self, updates: str, time: int) -> str:
        items = ", ".join(f"cast(null as {c.type.text}) {sql.identifier(c.name)}" for c in self.columns)
        kept = f"select {ERROR} e, {DIFF} d from (\n{updates}\n) where {ERROR} is not null"
        return f"select {items}, {sql.bigint(time)} {TIME}, d {DIFF}, e {ERROR}, cast(null as bigint) {HASH} from (\n{kept}\n)"

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
    def _failing(self, alone: str | None) -> Iterator[None]:
        """Where a `StatementFailed` that the data cause is raised, ``alone``, the statements
        without what we do with their rows, has to fail too.

        If it does not, the error was that of a statement of ours. None: nothing is asked.
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

    def _adopted(
        self, group: Sequence[AnyStatement], query: str, description: BatchDescription
    ) -> tuple[Batch | None, Counts]:
        batch = self._stage(group, query, description)
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
    """The group without what has nothing to change where the output is empty; a first run need not
    add up what only comes.
    """
    return group[1:] if output.empty and isinstance(group[0], (Delete, Update)) else group


def _named(change: Change, deletes: bool) -> str:
    """The change's rows under names of their own, as a WITH for what follows: the engine looks up
    each relation by itself, however often statements read it.
    """
    found = {INSERTED: change.inserted} | ({DELETED: change.deleted} if deletes else {})
    return "with " + ", ".join(f"{name} as (\n{query}\n)" for name, query in found.items()) + "\n"


def _only_insert(group: Sequence[AnyStatement]) -> bool:
    return all(isinstance(statement, Insert) for statement in group)
