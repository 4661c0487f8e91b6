"""What a task's statements do at one time: staged, statement by statement, as updates of the output.

Each statement's delta is staged before the next one runs, so every statement is evaluated once, and what it did is one more batch of
the output for those behind it. The sum of the deltas, consolidated, is what is appended. Where the statements only insert there is nothing
to consolidate: their rows are written as they come, with hashes. A batch that takes rows away carries no hashes, because
a row that it takes away may stand in the base more than once (`sink`); readers compare its rows whole until compaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dbt.adapters.mvsink.continual_task import plan
from dbt.adapters.mvsink.continual_task.errors import StatementFailed
from dbt.adapters.mvsink.continual_task.statements import AnyStatement, Insert, Program
from dbt.adapters.mvsink.inputs import Input
from dbt.adapters.mvsink.shard import Batch
from dbt.adapters.mvsink.sink import Column, Description, Engine, EngineError, Layout, faults, sql
from dbt.adapters.mvsink.sink.as_of import times_of
from dbt.adapters.mvsink.sink.grouping import net
from dbt.adapters.mvsink.sink.hashing import row_hash
from dbt.adapters.mvsink.sink.layout import DIFF, ERROR, HASH, TIME, Directory, escape_glob
from dbt.adapters.mvsink.sink.view import plain_rows
from dbt.adapters.mvsink.sink.write import Counts, Write


@dataclass(frozen=True)
class Change:
    """What of the input is looked at, as SQL: plain rows inserted and deleted, and error updates (None: there are none).

    ``runs`` is False where no row came (or went, for a task that looks at those): then only the errors pass.
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
    """The whole input as of ``time``; without ``rows``, only the errors that are live then. An input without rows runs nothing.

    Where no error is live its rows are read as they stand.
    """
    updates = source.snapshot(time)

    def there(condition: str) -> bool:
        return engine.query(f"select 1 from (\n{updates}\n) where {condition} limit 1", "look at the input") != []

    errors = there(f"{ERROR} is not null")
    change = change_of(source, updates, errors=errors, runs=rows and there(f"{ERROR} is null"))
    return change if errors else replace(change, inserted=source.contents(time))


def remade_of(source: Input, engine: Engine, updates: str, *, deletes: bool) -> Change:
    """What is different in an input that was made anew. ``deletes``: lost rows alone are a change, too."""
    flags = engine.query(times_of(updates), "look at the input")
    inserts, lost, errors = (any(bool(row[n]) for row in flags) for n in (1, 2, 3))
    return change_of(source, updates, errors=errors, runs=inserts or (deletes and lost))


def repeated(columns: Sequence[Column], updates: str, where: str, count: str, *more: str) -> str:
    """Plain rows of those updates, each as often as ``count`` says; ``more`` are further columns."""
    items = sql.columns([*(column.name for column in columns), *more])
    copies = f"lateral view explode(sequence(1, cast({count} as int))) copies as _mv_copy"
    return f"select {items} from (\nselect * from (\n{updates}\n) where {where}\n) {copies}"


@dataclass
class Effects:
    """Computes them for one run. ``columns`` are the output's."""

    program: Program
    columns: Sequence[Column]
    write: Write
    salt: int
    staged: list[Batch] = field(default_factory=list)

    def of(
        self, change: Change, output: Layout, references: Mapping[str, str], time: int, description: Description
    ) -> tuple[Batch | None, Counts]:
        """The batch of ``description`` with what the statements do at ``time``, and its counts.

        Raises `StatementFailed` with the engine's error as its cause; then nothing is left staged.
        """
        if not change.runs:
            return self._only_errors(change, time, description)
        try:
            return self._of(change, output, references, time, description)
        finally:
            for batch in self.staged:
                batch.delete()
            self.staged.clear()

    def _of(
        self, change: Change, output: Layout, references: Mapping[str, str], time: int, description: Description
    ) -> tuple[Batch | None, Counts]:
        deltas: list[str] = []
        takes_away = False
        *earlier, last = self.program.statements
        for statement in earlier:
            inserts = isinstance(statement, Insert)
            delta = self._delta(statement, change, output, references, time)
            batch = self._stage(statement, self._updates(delta, time, summed=not inserts), description)
            faults.reach("statement staged")
            if batch is None:
                continue
            takes_away = takes_away or not inserts
            directory = Directory(batch_id(batch), batch.files)
            if directory.trusted:
                output = replace(output, recent=(*output.recent, directory))
            else:
                output = replace(output, unhashed=(*output.unhashed, directory))
            deltas.append(f"select {self._items}, {DIFF} from {self._read(batch)}")
        final = self._delta(last, change, output, references, time)  # it may begin with a WITH, which no branch of a union may
        deltas.append(f"select {self._items}, {DIFF} from (\n{final}\n)")
        summed = takes_away or not isinstance(last, Insert) or change.errors is not None
        query = self._updates(sql.union_all(deltas), time, summed=summed)
        if change.errors is not None:
            query = sql.union_all([query, self._errors(change.errors, time)])
        return self._adopted(last, query, description)

    def together(self, queries: Sequence[str], description: Description) -> tuple[Batch | None, Counts]:
        """The batch with the rows of ``queries``: inserts with their own times (`plan.carried_delta`)."""
        meta = f"{TIME}, {DIFF}, cast(null as string) {ERROR}, {row_hash(self.columns, self.salt)} {HASH}"
        query = f"select {self._items}, {meta} from (\n{sql.union_all(queries)}\n)"
        return self._adopted(self.program.statements[-1], query, description)

    def failed(self, message: str, change: Change, time: int, description: Description) -> tuple[Batch | None, Counts]:
        """The batch that has ``message`` as an error update at ``time``, besides those of the input, and no row."""
        items = ", ".join(f"cast(null as {c.type.text}) {sql.identifier(c.name)}" for c in self.columns)
        meta = f"{sql.bigint(time)} {TIME}, 1L {DIFF}, {sql.text(message)} {ERROR}, cast(null as bigint) {HASH}"
        passed = [] if change.errors is None else [self._errors(change.errors, time)]
        return self._adopted(self.program.statements[-1], sql.union_all([f"select {items}, {meta}", *passed]), description)

    def _only_errors(self, change: Change, time: int, description: Description) -> tuple[Batch | None, Counts]:
        if change.errors is None:
            return None, Counts()
        return self._adopted(self.program.statements[-1], self._errors(change.errors, time), description)

    @property
    def _items(self) -> str:
        return sql.columns(column.name for column in self.columns)

    def _delta(self, statement: AnyStatement, change: Change, output: Layout, references: Mapping[str, str], time: int) -> str:
        rows = plain_rows(output)
        contents = f"select {self._items}, 1L {DIFF} from (\n{rows}\n)"
        deletes = change.deleted if self.program.deletes_used else None
        bindings = plan.Bindings(change.inserted, rows, deletes, references, time)
        return plan.delta(self.program, statement, self.columns, contents, bindings)

    def _updates(self, delta: str, time: int, *, summed: bool) -> str:
        """A batch's columns at ``time``. ``summed``: consolidated, without hashes."""
        meta = f"{sql.bigint(time)} {TIME}, {DIFF}, cast(null as string) {ERROR}"
        if not summed:
            return f"select {self._items}, {meta}, {row_hash(self.columns, self.salt)} {HASH} from (\n{delta}\n)"
        rows = net(self.columns, [], delta, "<> 0")
        return f"select {self._items}, {meta}, cast(null as bigint) {HASH} from (\n{rows}\n)"

    def _errors(self, updates: str, time: int) -> str:
        items = ", ".join(f"cast(null as {c.type.text}) {sql.identifier(c.name)}" for c in self.columns)
        kept = f"select {ERROR} e, {DIFF} d from (\n{updates}\n) where {ERROR} is not null"
        return f"select {items}, {sql.bigint(time)} {TIME}, d {DIFF}, e {ERROR}, cast(null as bigint) {HASH} from (\n{kept}\n)"

    def _stage(self, statement: AnyStatement, query: str, description: Description) -> Batch | None:
        try:
            staged = self.write.stage_query(query, f"statement {statement.number}")
        except EngineError as error:
            raise StatementFailed(self.program.model, statement.number, error) from error
        batch = self.write.adopt(staged, description)
        if batch is not None:
            self.staged.append(batch)
        return batch

    def _adopted(self, statement: AnyStatement, query: str, description: Description) -> tuple[Batch | None, Counts]:
        batch = self._stage(statement, query, description)
        if batch is None:
            return None, Counts()
        try:
            counts = self.write.counted(f"select * from {self._read(batch)}")
        except BaseException:
            batch.delete()
            raise
        finally:
            self.staged.remove(batch)
        faults.reach("staged")
        return batch, counts

    def _read(self, batch: Batch) -> str:
        return sql.parquet(f"{escape_glob(self.write.handle.uri)}/batches/{batch_id(batch)}")


def batch_id(batch: Batch) -> str:
    """The directory that a batch which an engine staged is in."""
    return str(batch.files[0].batch_id)
