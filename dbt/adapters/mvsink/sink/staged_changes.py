"""The staged changes of inputs, and the inputs read only where they can matter to these.

What changed in an input is staged in net, only the columns that the query uses. Few rows need no
Spark job. An input whose staged change is empty did not change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from dbt.adapters.mvsink.engine import Column, arrow_schema, sql
from dbt.adapters.mvsink.engine.net import net
from dbt.adapters.mvsink.incremental import Keys, Sides, restrictions
from dbt.adapters.mvsink.physical import DIFF
from dbt.adapters.mvsink.shard import StagedDirectory
from dbt.adapters.mvsink.shard_sql.layout import MAX_BROADCAST
from dbt.adapters.mvsink.sink.increment import Full, Increment, InputSides, Rows
from dbt.adapters.mvsink.sink.ranges import MAX_KEYS, Among, among
from dbt.adapters.mvsink.sink.write import Write

MAX_SHARE = 0.1  # of an input's rows that changed: beyond, evaluating the query costs less


@dataclass(frozen=True)
class StagedChange:
    """The staged net change of an input: the columns that the query uses, and `_mv_diff`."""

    input: InputSides
    used: tuple[Column, ...]
    staged: StagedDirectory
    rows: int

    def query(self) -> str:
        """All columns of the input; those that are not used are NULL."""
        names = {column.name for column in self.used}
        items = [
            sql.identifier(column.name)
            if column.name in names
            else f"cast(null as {column.type.spelled}) {sql.identifier(column.name)}"
            for column in self.input.columns
        ]
        return f"select {', '.join(items)}, {DIFF} from {sql.parquet_in(self.staged.uri)}"


@dataclass(frozen=True)
class StagedChanges:
    """The changes that are not empty, by the input's name."""

    write: Write
    increment: Increment
    by_name: Mapping[str, StagedChange]

    @classmethod
    def stage(
        cls, write: Write, increment: Increment, resources: ExitStack, *, forced: bool
    ) -> StagedChanges | Full:
        """Stage them; ``resources`` deletes them. ``forced``: however many rows changed."""
        changes = {}
        for each in increment.inputs:
            if each.change is None:
                continue
            names = increment.analysed.relations[each.name]
            used = tuple(column for column in each.columns if column.name.lower() in names)
            staged = _staged(write, each, used)
            resources.callback(staged.delete)
            count = staged.rows()
            if not forced and each.rows is not None and count > MAX_SHARE * each.rows:
                return Full(f"{each.name} changed by {count / max(each.rows, 1):.0%}")
            if count:
                changes[each.name] = StagedChange(each, used, staged, count)
        return cls(write, increment, changes)

    def sides(
        self, clock: tuple[int, int] | None, files: sql.Shared, *, added: bool = False
    ) -> dict[str, Sides]:
        """What `incremental.delta` needs. Rows are missing where none of them can matter: more of
        them if only `Plan.adding` is used, if it is ``added``.
        """
        needed = restrictions(self.increment.analysed, self.by_name, clock, nulls=True, added=added)
        sides = {}
        for each in self.increment.inputs:
            new, old = (self._rows(each, rows, needed[each.name]) for rows in (each.new, each.old))
            change = self.by_name[each.name].query() if each.name in self.by_name else None
            sides[each.name] = Sides(
                files.of(new), files.of(old), None if change is None else files.of(change)
            )
        return sides

    def _rows(self, each: InputSides, rows: Rows, keys: Sequence[Keys] | None) -> str:
        """Those of ``rows`` that have one of the keys of the changes, if there are keys."""
        if not keys:
            return rows.all()
        condition = self._condition(keys, {column.name.lower(): column for column in each.columns})
        names = self.increment.analysed.relations[each.name]
        return rows.where(names, condition) if condition else rows.all()

    def _condition(self, keys: Sequence[Keys], columns: Mapping[str, Column]) -> str:
        """A condition that a row with one of the ``keys`` fulfils, and few others do. Empty: there
        are too many keys.
        """
        sources: dict[str, list[tuple[StagedChange, str]]] = {}
        for key in keys:
            sources.setdefault(key.column, []).append((self.by_name[key.changed], key.changed_column))
        if sum(change.rows for listed in sources.values() for change, _ in listed) > MAX_BROADCAST:
            return ""
        nulls = {key.column for key in keys if key.nulls}
        conditions = [
            self._keyed(columns[column], listed, nulls=column in nulls) for column, listed in sources.items()
        ]
        bounds = " or ".join(bound.condition for bound, _ in conditions)
        looked_for = " or ".join(rows for _, rows in conditions)
        if not all(bound.condition for bound, _ in conditions):
            return looked_for
        if all(bound.exact for bound, _ in conditions):
            return bounds
        # Spark does not give Parquet what is beside a subquery below an OR; if the two had a
        # condition in common, it would make them one
        return f"({bounds}) and ({looked_for})"

    def _keyed(
        self, column: Column, sources: Sequence[tuple[StagedChange, str]], *, nulls: bool
    ) -> tuple[Among, str]:
        """That the column has one of the values that ``sources`` have in a column each, or is NULL:
        a condition of constants, and one with a subquery.
        """
        name, values, bounds = sql.identifier(column.name), [], []
        for change, of in sources:
            key = next(each for each in change.used if each.name.lower() == of)
            values.append(f"select {sql.identifier(key.name)} _mv_v from {sql.parquet_in(change.staged.uri)}")
            if change.rows <= MAX_KEYS:
                read = self.write.handle.read_staged(change.staged, arrow_schema((key,)))
                bounds.append(among(name, key, read.column(0)))
        every = len(bounds) == len(sources) and all(each.condition for each in bounds)
        if nulls:
            values.append(f"select cast(null as {column.type.spelled})")
            bounds.append(Among(f"{name} is null", exact=True))
        among_them = f"({' or '.join(each.condition for each in bounds)})" if every else ""
        bound = Among(among_them, every and all(each.exact for each in bounds))
        listed = f"(\n{sql.union_all(values)}\n)"
        if not nulls:
            return bound, f"{name} in {listed}"
        return bound, f"exists (select 1 from {listed} _mv_n where _mv_n._mv_v <=> {name})"


def _staged(write: Write, each: InputSides, used: tuple[Column, ...]) -> StagedDirectory:
    with write.watch("changes"):
        table = None if each.few is None else each.few(arrow_schema(used))
        if table is not None:
            return write.handle.write_staged(table)
    rows = f"select {sql.columns([*(c.name for c in used), DIFF])} from (\n{each.change}\n)"
    return write.stager.stage(net(used, [], rows, "<> 0") if used else _total(rows), "changes")


def _total(rows: str) -> str:
    """The net number of rows, of which no column matters; no row if it is zero."""
    return f"select {DIFF} from (select sum({DIFF}) {DIFF} from (\n{rows}\n)) where {DIFF} <> 0"
