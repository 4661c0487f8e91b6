"""The inputs, read only where they can matter to the staged changes of other inputs.

If Spark runs on this machine's cores, this process reads the rows that have one of a few keys:
Arrow finds some thousands among millions in a tenth of the time, and the query of the change then
reads small files only. The rows' other columns are in turn the keys of further inputs. Where that
is not possible, or there are many rows, Spark reads the rows under a condition.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.engine import Column, arrow_schema, sql
from dbt.adapters.mvsink.engine.predicates import OneOf, combined
from dbt.adapters.mvsink.incremental import Keys, Sides
from dbt.adapters.mvsink.inputs.position import InputSides, Rows
from dbt.adapters.mvsink.local.rows import left_to_spark
from dbt.adapters.mvsink.shard import StagedDirectory
from dbt.adapters.mvsink.shard_sql.layout import MAX_BROADCAST
from dbt.adapters.mvsink.sink.decide import Increment
from dbt.adapters.mvsink.sink.staged import StagedChange, padded
from dbt.adapters.mvsink.sink.write import Write


@dataclass(frozen=True)
class Values:
    """The values of a staged column, used as keys. There are at most ``rows`` of them."""

    staged: StagedDirectory
    column: Column
    rows: int

    def query(self) -> str:
        """The query of the values, as ``_mv_v``."""
        return f"select {sql.identifier(self.column.name)} _mv_v from {sql.parquet_in(self.staged.uri)}"


@dataclass(frozen=True)
class Read:
    """Rows of an input that this process has read and staged, as they are now and as they were,
    with the columns ``used``.
    """

    used: tuple[Column, ...]
    new: StagedDirectory
    old: StagedDirectory
    rows: int

    def values(self, name: str) -> list[Values]:
        """The values of a column, by its name in lower case."""
        column = next(each for each in self.used if each.name.lower() == name)
        return [Values(staged, column, self.rows) for staged in (self.new, self.old)]


@dataclass
class RestrictedInputs:
    """`incremental.Basis` explains ``needed``; ``resources`` deletes what is staged."""

    write: Write
    increment: Increment
    changes: Mapping[str, StagedChange]
    needed: Mapping[str, Sequence[Keys] | None]
    resources: ExitStack
    reached: dict[str, Read | None] = field(default_factory=dict)  # by the keys of changes alone

    def sides(self, files: sql.Shared) -> dict[str, Sides]:
        """The sides of the inputs for the query of the change, without rows that cannot matter."""
        sides = {}
        for each in self.increment.inputs:
            new, old = self._both(each, files)
            change = self.changes.get(each.name)
            sides[each.name] = Sides(new, old, None if change is None else change.query(files))
        return sides

    def _both(self, each: InputSides, files: sql.Shared) -> tuple[str, str]:
        """The input's rows now and before; if there are keys, only the rows that have one."""
        keys = self.needed[each.name]
        sources = self._sources(keys) if keys else None
        if not sources:
            return files.of(each.new.all()), files.of(each.old.all())
        columns = {column.name.lower(): column for column in each.columns}
        nulls = {key.column for key in keys or () if key.nulls}
        direct = not any(key.reached for key in keys or ())
        read = self._directly(each) if direct else self._read(each, sources, nulls)
        if read is not None:
            new, old = (padded(each.columns, read.used, staged) for staged in (read.new, read.old))
            return files.of(new, few=True), files.of(old, few=True)
        condition = self._condition(sources, nulls, columns)
        names = self.increment.analysed.relations[each.name]
        wanted = self.increment.filters.get(each.name)
        if condition and wanted is not None:
            condition = f"{wanted.sql(each.columns)} and ({condition})"

        def rows(side: Rows) -> str:
            return files.of(side.where(names, condition) if condition else side.all())

        return rows(each.new), rows(each.old)

    def _sources(self, keys: Sequence[Keys]) -> dict[str, list[Values]] | None:
        """The values to look for in each column; None if those of one column are unknown."""
        sources: dict[str, list[Values]] = {}
        for key in keys:
            if key.reached:
                between = next((each for each in self.increment.inputs if each.name == key.changed), None)
                by = None if between is None else self._directly(between)
                if by is None:
                    return None
                values = by.values(key.changed_column)
            else:
                change = self.changes[key.changed]
                values = [Values(change.staged, change.column(key.changed_column), change.rows)]
            sources.setdefault(key.column, []).extend(values)
        return sources

    def _directly(self, each: InputSides) -> Read | None:
        """The input's rows that have a key of the changes, read by this process."""
        if each.name not in self.reached:
            keys = [key for key in self.needed[each.name] or () if not key.reached]
            sources, nulls = self._sources(keys), {key.column for key in keys if key.nulls}
            self.reached[each.name] = None if not sources else self._read(each, sources, nulls)
        return self.reached[each.name]

    def _read(
        self, each: InputSides, sources: Mapping[str, Sequence[Values]], nulls: set[str]
    ) -> Read | None:
        """The input's rows with one of the values, read by this process; None if Spark has to read
        them.
        """
        if each.read_rows is None or not self.write.engine.cores_here():
            return None
        if sum(values.rows for listed in sources.values() for values in listed) > limits.LISTED_VALUES:
            return None
        names = self.increment.analysed.relations[each.name]
        used = tuple(column for column in each.columns if column.name.lower() in names)
        conditions = [
            self._matching(next(c for c in used if c.name.lower() == name), listed, nulls=name in nulls)
            for name, listed in sources.items()
        ]
        where = combined(operator.or_, conditions)
        if where is None:
            return None
        wanted = self.increment.filters.get(each.name)
        kept = None if wanted is None else wanted.arrow(used)
        with self.write.watch("changes"), left_to_spark(each.name):
            tables = each.read_rows(arrow_schema(used), where if kept is None else where & kept)
            if tables is not None:
                new, old = (self._staged(table) for table in tables)
                return Read(used, new, old, max(map(len, tables)))
        return None

    def _matching(self, column: Column, listed: Sequence[Values], *, nulls: bool) -> pc.Expression | None:
        read = [self._values(values) for values in listed]
        if any(values.type != column.type.arrow() for values in read):
            return None
        every = pa.chunked_array([chunk for each in read for chunk in each.chunks], read[0].type)
        return OneOf(column, every, nulls).arrow()

    def _values(self, values: Values) -> pa.ChunkedArray:
        return self.write.handle.read_staged(values.staged, arrow_schema((values.column,))).column(0)

    def _staged(self, table: pa.Table) -> StagedDirectory:
        staged = self.write.handle.write_staged(table)
        self.resources.callback(staged.delete)
        return staged

    def _condition(
        self, sources: Mapping[str, Sequence[Values]], nulls: set[str], columns: Mapping[str, Column]
    ) -> str:
        """A condition that rows with one of the values satisfy, and few others. Empty if there are
        too many values.
        """
        if sum(values.rows for listed in sources.values() for values in listed) > MAX_BROADCAST:
            return ""
        keyed = [(columns[column], listed, column in nulls) for column, listed in sources.items()]
        looked_for = " or ".join(_semi_joined(*each) for each in keyed)
        if any(values.rows > limits.LISTED_KEYS for _, listed, _ in keyed for values in listed):
            return looked_for
        constant = [
            OneOf(Column(column.name, values.column.type), self._values(values), null)
            for column, listed, null in keyed
            for values in listed
        ]
        texts = [text for each in constant if (text := each.sql()) is not None]
        if len(texts) < len(constant):
            return looked_for
        bounds = " or ".join(texts)
        if all(each.exact for each in constant):
            return bounds
        # Spark does not give Parquet what is beside a subquery below an OR; if the two had a
        # condition in common, it would make them one
        return f"({bounds}) and ({looked_for})"


def _semi_joined(column: Column, listed: Sequence[Values], nulls: bool) -> str:
    """The condition, with a subquery, that the column has one of the values or, if ``nulls``, is
    NULL.
    """
    name, queries = sql.identifier(column.name), [values.query() for values in listed]
    if not nulls:
        return f"{name} in (\n{sql.union_all(queries)}\n)"
    queries.append(f"select cast(null as {column.type.spelled})")
    return f"exists (select 1 from (\n{sql.union_all(queries)}\n) _mv_n where _mv_n._mv_v <=> {name})"
