"""The changes of a shard since contents were computed from it: its rows then, its rows now, and the
difference.

Both are read from the shard's own history. If another tool has rewritten it, the result is only the
reason why the changes are not known.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.calendars import ambiguous
from dbt.adapters.mvsink.engine import Column, DataflowError, sql
from dbt.adapters.mvsink.inputs.position import InputSides, ReadChange, ReadRows
from dbt.adapters.mvsink.inputs.reference import Reference
from dbt.adapters.mvsink.local.rows import TooMany, found_in
from dbt.adapters.mvsink.physical import DIFF, TIME
from dbt.adapters.mvsink.reasons import EvaluateFully, Why
from dbt.adapters.mvsink.shard import DataFile, ShardError, consolidate
from dbt.adapters.mvsink.shard_sql import as_of

CONTENTS = ("append", "advance", "compact", "schema")  # commits that keep what was read before
COLUMNS = "evolve"  # a commit that adds columns
PASSED_COMMITS = 10_000  # commits since the last run, which are all checked: more take seconds
REPLAYED_COMMITS = 50  # commits whose states are read, some 5 ms each
# Updates of an input that are read into this process, where Spark takes a job of 30 to 50 ms.
READ_UPDATES = 100_000
NESTED_UPDATES = 2_000  # of these, with nested columns, which are compared one by one in Python
FILTERED_UPDATES = 10 * READ_UPDATES  # updates of which the query's conditions may keep so many
SEARCHED_ROWS = 100_000_000  # rows of an input among which those with a key are looked for


@dataclass(frozen=True)
class ShardRows:
    """See `Rows`: a shard as of ``time`` (ms)."""

    reference: Reference
    time: int

    def all(self) -> str:
        """See `Rows`."""
        return self.reference.collection(self.time)

    def where(self, names: Collection[str], condition: str) -> str:
        """See `Rows`."""
        columns = columns_of(self.reference)
        used = [column for column in columns if column.name.lower() in names]
        few = as_of.few_rows_as_of(self.reference.layout, self.time, used, condition)
        items = ", ".join(
            sql.identifier(c.name)
            if c in used
            else f"cast(null as {c.type.spelled}) {sql.identifier(c.name)}"
            for c in columns
        )
        return f"select {items} from (\n{few}\n)"


def sides_of_shard(
    name: str, reference: Reference, before: int, now: int, version: int | None
) -> InputSides | EvaluateFully:
    """The shard as of ``before`` and ``now`` (ms). ``version`` is that of its log when it was read
    before.
    """
    if now < before:
        return EvaluateFully(Why.EARLIER_TIME, name)
    rewritten = _rewritten(name, reference, version)
    if rewritten is not None:
        return rewritten
    try:
        as_of.check_readable(reference.state, now)
        earliest = _as_before(reference, before, version or 0)
        if earliest is None:
            return EvaluateFully(Why.HISTORY_GONE, name)
        before = earliest
        as_of.check_readable(reference.state, before)
        change = reference.updates(before + 1, now + 1)
    except (DataflowError, ShardError) as error:
        return EvaluateFully(Why.UNREADABLE, str(error))
    files = _between(reference, before + 1, now + 1)
    return InputSides(
        name,
        columns_of(reference),
        ShardRows(reference, now),
        ShardRows(reference, before),
        change,
        _read_change(reference, before + 1, now + 1),
        _read_rows(reference, before, now),
        reference.layout.live_rows,
        _rows(files),
        all((file.min_diff or 0) > 0 for file in files),
    )


def unchanged_shard(name: str, reference: Reference, time: int) -> InputSides:
    """The shard as of ``time`` (ms), in which nothing changed."""
    rows = ShardRows(reference, time)
    return InputSides(
        name,
        columns_of(reference),
        rows,
        rows,
        read_rows=_read_rows(reference, time, time),
        rows=reference.layout.live_rows,
    )


def columns_of(reference: Reference) -> tuple[Column, ...]:
    """A shard's columns in the order of its view."""
    by_name = {column.name: column for column in reference.layout.columns}
    return tuple(by_name[name] for name in reference.columns)


def _between(reference: Reference, lower: int, upper: int) -> list[DataFile]:
    """The files that may hold updates with ``lower <= time < upper`` (ms)."""
    return [
        file
        for file in reference.state.files
        if file.min_time is None
        or file.max_time is None
        or (file.min_time < upper and file.max_time >= lower)
    ]


def _rows(files: Sequence[DataFile]) -> int | None:
    """How many rows they have; None if that is unknown for one of them."""
    return None if any(file.rows is None for file in files) else sum(file.rows or 0 for file in files)


def _read_change(reference: Reference, lower: int, upper: int) -> ReadChange | None:
    """See `ReadChange`, for the updates with ``lower <= time < upper`` (ms)."""
    read, find, files = reference.read, reference.find, _between(reference, lower, upper)
    rows = _rows(files)
    if read is None or rows is None or rows > FILTERED_UPDATES:
        return None
    # a decision asks, and then the run
    answers: list[tuple[pa.Schema, pc.Expression | None, pa.Table | None]] = []

    def tables(schema: pa.Schema, where: pc.Expression | None) -> list[pa.Table] | None:
        if rows <= READ_UPDATES:
            return [read(file, schema) for file in files]
        if where is None or find is None:
            return None
        try:
            return [*found_in(files, lambda file, most: find(file, schema, where, most), READ_UPDATES)]
        except TooMany:
            return None

    def net(columns: pa.Schema, where: pc.Expression | None = None) -> pa.Table | None:
        for schema, condition, change in answers:
            alike = where is condition or (
                where is not None and condition is not None and bool(where.equals(condition))
            )
            if alike and schema.equals(columns):
                return change
        answers.append((columns, where, read_net(columns, where)))
        return answers[-1][2]

    def read_net(columns: pa.Schema, where: pc.Expression | None) -> pa.Table | None:
        schema = pa.schema([*columns, (TIME, pa.int64()), (DIFF, pa.int64())])
        parts = tables(schema, where)
        if parts is None:
            return None
        table = pa.concat_tables([schema.empty_table(), *parts])
        times = table.column(TIME)
        table = table.filter(pc.and_(pc.greater_equal(times, lower), pc.less(times, upper)))
        if len(columns) == 0:
            total = pc.sum(table.column(DIFF)).as_py() or 0
            return pa.table({DIFF: pa.array([total] if total else [], pa.int64())})
        change = consolidate((table if where is None else table.filter(where)).drop_columns([TIME]))
        # of files that Spark did not write, it may read old dates in another calendar
        return None if ambiguous(change) else change

    return net


def _read_rows(reference: Reference, before: int, now: int) -> ReadRows | None:
    """See `ReadRows`, for the shard as of ``before`` and ``now`` (ms)."""
    find, layout = reference.find, reference.layout
    times = (now, before)
    files = dict.fromkeys(file for time in times for file in as_of.files_as_of(layout, time))
    known = all(file.rows is not None and file.errors == 0 for file in files)
    if find is None or layout.loose or not known or sum(file.rows or 0 for file in files) > SEARCHED_ROWS:
        return None

    def rows(columns: pa.Schema, where: pc.Expression) -> tuple[pa.Table, pa.Table] | None:
        schema = pa.schema([*columns, (TIME, pa.int64()), (DIFF, pa.int64())])
        try:
            tables = found_in([*files], lambda file, rows: find(file, schema, where, rows), READ_UPDATES)
        except TooMany:
            return None
        updates = pa.concat_tables([schema.empty_table(), *tables])
        if ambiguous(updates):
            return None
        new, old = (_rows_at(updates, time) for time in times)
        return None if new is None or old is None else (new, old)

    return rows


def _rows_at(updates: pa.Table, time: int) -> pa.Table | None:
    """The rows at ``time`` (ms), each as often as it occurs; None if adding them up would be
    slow.
    """
    table = updates.filter(pc.less_equal(updates.column(TIME), time)).drop_columns([TIME])
    if pc.any(pc.not_equal(table.column(DIFF), 1)).as_py():
        nested = any(pa.types.is_nested(field.type) for field in table.schema)
        if nested and len(table) > NESTED_UPDATES:
            return None
        table = consolidate(table)
        copies = table.column(DIFF)
        if pc.any(pc.less(copies, 1)).as_py() or (pc.sum(copies).as_py() or 0) > READ_UPDATES:
            return None
        ends = pc.cumulative_sum(copies).combine_chunks().cast(pa.int32())
        lists = pa.ListArray.from_arrays(
            pa.concat_arrays([pa.array([0], pa.int32()), ends]), pa.nulls(pc.sum(copies).as_py() or 0)
        )
        table = table.take(pc.list_parent_indices(lists))
    return table.drop_columns([DIFF])


def _as_before(reference: Reference, before: int, version: int) -> int | None:
    """A readable time at which the shard is as it was when it was read as of ``before`` (ms) at
    ``version``: that time or, if nothing happened in between, `since`. None if there is no such
    time.

    In a shard that keeps a day of history and is written once a day, `since` is at, or a little
    past, the time of the last run.
    """
    since = reference.state.since.stored()
    if before >= since:
        return before
    files = _written(reference, version)
    if files is None or any(file.min_time is None or file.max_time is None for file in files):
        return None
    between = ((file.max_time or 0) > before and (file.min_time or 0) <= since for file in files)
    return None if any(between) else since


def _written(reference: Reference, version: int) -> Sequence[DataFile] | None:
    """The files that the shard had at ``version`` and those of every later append, with the times
    at which their updates were written (compactions may have moved these up to `since`). None if
    that is not known or would take long.
    """
    numbers = range(version, reference.state.version + 1)
    if len(numbers) > REPLAYED_COMMITS:
        return None
    kinds = {commit.version: commit.kind for commit in reference.history(len(numbers))}
    written: list[DataFile] = []
    earlier: set[str] = set()
    for number in numbers:
        state = reference.state if number == numbers[-1] else reference.state_at(number)
        if state is None:
            return None
        if number == version or kinds.get(number) == "append":
            written += [file for file in state.files if file.path not in earlier]
        earlier = {file.path for file in state.files}
    return written


def _rewritten(name: str, reference: Reference, version: int | None) -> EvaluateFully | None:
    """Why the shard's past may differ from what was read at ``version``; None if it cannot."""
    state = reference.state
    if version is None:
        return EvaluateFully(Why.NO_VERSION, name)
    if any(file.errors != 0 for file in state.files):
        return EvaluateFully(Why.INPUT_ERRORS, name)
    if reference.layout.loose:
        return EvaluateFully(Why.INPUT_REWRITTEN, name)
    since = state.version - version
    if since > PASSED_COMMITS:
        return EvaluateFully(Why.MANY_COMMITS, name, str(since))
    commits = {commit.version: commit for commit in reference.history(since + 1) if commit.version > version}
    wanted = range(version + 1, state.version + 1)
    if any(number not in commits for number in wanted):
        return EvaluateFully(Why.LOG_GONE, name)
    passed = [commits[number] for number in wanted]
    if not all(commit.writer_id and commit.kind in (*CONTENTS, COLUMNS) for commit in passed):
        return EvaluateFully(Why.INPUT_REWRITTEN, name)
    if any(commit.kind == COLUMNS for commit in passed):  # which is the user's doing, and not undone
        return EvaluateFully(Why.COLUMNS, name)
    return None
