"""What an incremental run stages for its own use, and how it is compared with the shard.

- The *changes* of inputs: the net changes, limited to the columns that the query uses and the rows
  that its conditions keep. Few rows need no Spark job. An input whose staged change is empty did
  not change.
- The *keys* of the rows that may differ, and the shard's rows that have one of them.
- The *look-up*: whether a staged correction fits the shard, that is, whether the rows that it
  deletes are there, and which of its hashes can stand for one row. It compares hashes, not rows.
  For a shard with too many rows for this process, Spark does it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink import limits
from dbt.adapters.mvsink.engine import Column, arrow_schema, shared_files, sql
from dbt.adapters.mvsink.engine.predicates import Filter, OneOf, combined
from dbt.adapters.mvsink.engine.whole_rows import net
from dbt.adapters.mvsink.incremental import Keys
from dbt.adapters.mvsink.inputs.position import InputSides
from dbt.adapters.mvsink.local import difference
from dbt.adapters.mvsink.local.difference import Fit, Stored, fit_of
from dbt.adapters.mvsink.local.rows import fits_locally, found_in, has_key, left_to_spark, local_row_limit
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, TIME
from dbt.adapters.mvsink.reasons import EvaluateFully
from dbt.adapters.mvsink.shard import DataFile, Footer, StagedDirectory, physical_schema
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.shard_sql.layout import MAX_BROADCAST
from dbt.adapters.mvsink.sink.correction import BASE, persisted
from dbt.adapters.mvsink.sink.decide import Bounds, Increment
from dbt.adapters.mvsink.sink.write import Write


@dataclass(frozen=True)
class StagedChange:
    """The staged net change of an input: the columns that the query uses and `_mv_diff`, without
    rows that the query's filter drops.
    """

    input: InputSides
    used: tuple[Column, ...]
    staged: StagedDirectory
    rows: int

    def column(self, name: str) -> Column:
        """A column that the query uses, by its name in lower case."""
        return next(each for each in self.used if each.name.lower() == name)

    def values(self, write: Write, name: str) -> pa.ChunkedArray:
        """The values of that column, unsorted and with repetitions."""
        return write.handle.read_staged(self.staged, arrow_schema((self.column(name),))).column(0)

    def query(self, files: sql.Shared) -> str:
        """The query of the change, with all columns of the input and `_mv_diff`."""
        return files.of(
            padded(self.input.columns, self.used, self.staged, DIFF), few=self.rows <= limits.ONE_TASK_ROWS
        )


@dataclass(frozen=True)
class StagedChanges:
    """The changes that are not empty, by the input's name."""

    write: Write
    increment: Increment
    by_name: Mapping[str, StagedChange]

    @property
    def rows(self) -> int:
        """How many they are."""
        return sum(change.rows for change in self.by_name.values())

    @property
    def share(self) -> float | None:
        """The largest share of an input's rows that changed, among inputs whose rows are
        counted.
        """
        counted = [each.rows / max(each.input.rows, 1) for each in self.by_name.values() if each.input.rows]
        return round(max(counted), 6) if counted else None

    def values(self, keys: Sequence[Keys]) -> pa.ChunkedArray | None:
        """The values of key columns of the changes. None if there are many, if they have several
        types, or if equal values may differ in form, as zeros do.
        """
        if sum(self.by_name[key.changed].rows for key in keys) > limits.ONE_TASK_ROWS:
            return None
        listed = [self.by_name[key.changed].values(self.write, key.changed_column) for key in keys]
        types = {values.type for values in listed}
        if len(types) != 1 or pa.types.is_floating(*types) or pa.types.is_nested(*types):
            return None
        return pa.chunked_array([chunk for values in listed for chunk in values.chunks], *types)

    @classmethod
    def stage(
        cls, write: Write, increment: Increment, resources: ExitStack, bounds: Bounds
    ) -> StagedChanges | EvaluateFully:
        """Stage the changes within ``bounds``; ``resources`` deletes them."""
        changes, linear = {}, increment.analysed.linear
        changed = [each for each in increment.inputs if each.change is not None]
        for each in changed:
            if refused := bounds.may_change(each, linear=linear):
                return refused
        # if a small one exceeds the share, the others need not be staged
        smallest_first = sorted(changed, key=lambda each: math.inf if each.updates is None else each.updates)
        for each in smallest_first:
            names = increment.analysed.relations[each.name]
            used = tuple(column for column in each.columns if column.name.lower() in names)
            wanted = increment.filters.get(each.name)
            staged = _staged(write, each, used, wanted)
            resources.callback(staged.delete)
            count = staged.rows()
            if refused := bounds.changed(each, count, linear=linear):
                return refused
            if count:
                changes[each.name] = StagedChange(each, used, staged, count)
        by_name = {each.name: changes[each.name] for each in changed if each.name in changes}
        return cls(write, increment, by_name)


def padded(columns: Sequence[Column], used: Sequence[Column], staged: StagedDirectory, *more: str) -> str:
    """The staged rows with all ``columns``, NULL in those that are not ``used``, and with the
    staged columns ``more``.
    """
    names = {column.name for column in used}
    items = [
        sql.identifier(column.name)
        if column.name in names
        else f"cast(null as {column.type.spelled}) {sql.identifier(column.name)}"
        for column in columns
    ]
    return f"select {', '.join([*items, *more])} from {sql.parquet_in(staged.uri)}"


def _staged(
    write: Write, each: InputSides, used: tuple[Column, ...], wanted: Filter | None
) -> StagedDirectory:
    with write.watch("changes"):
        exact = None if wanted is None else wanted.arrow(used)
        table = None if each.read_change is None else each.read_change(arrow_schema(used), exact)
        if table is not None:
            return write.handle.write_staged(table)
    rows = f"select {sql.columns([*(c.name for c in used), DIFF])} from (\n{each.change}\n)"
    if wanted is not None:
        rows += f" where {wanted.sql(used)}"
    return write.stager.stage(net(used, [], rows, "<> 0") if used else _total(rows), "changes")


def _total(rows: str) -> str:
    """The net number of rows, where no column matters; no row if it is zero."""
    return f"select {DIFF} from (select sum({DIFF}) {DIFF} from (\n{rows}\n)) where {DIFF} <> 0"


# keys


@dataclass(frozen=True)
class StagedKeys:
    """Rows that ``staged`` holds, one for each key."""

    write: Write
    staged: StagedDirectory

    @classmethod
    def of(cls, write: Write, values: pa.ChunkedArray, *, nulls: bool) -> StagedKeys:
        """The distinct ``values``, and NULL if ``nulls``, staged as the column `_mv_k0`."""
        more = pa.nulls(1 if nulls else 0, values.type)
        keys = pc.unique(pa.chunked_array([*values.chunks, more]))
        return cls(write, write.handle.write_staged(pa.table({"_mv_k0": keys})))

    @cached_property
    def footers(self) -> list[Footer]:
        """The footers of their files."""
        return self.staged.footers()

    @property
    def rows(self) -> int:
        """How many they are."""
        return sum(footer.file.rows or 0 for footer in self.footers)

    def query(self, files: sql.Shared) -> str:
        """The query of the keys with all their columns."""
        query = f"select * from {sql.parquet_in(self.staged.uri)}"
        return files.of(query, few=self.rows <= limits.ONE_TASK_ROWS)

    def in_scope(self, shard: Layout, columns: Mapping[str, str], files: sql.Shared) -> str | None:
        """The query of the rows of ``shard`` that have one of the keys; None if the shard is empty.
        ``columns`` maps the keys' columns to the shard's, all in lower case; if it is empty, all
        rows are in scope.
        """
        stored = persisted(shard)
        if stored is None:
            return None
        small = fits_locally(shard.files, shard.columns)
        if not columns:
            return files.of(stored, few=small)
        spelled = {column.name.lower(): column for column in shard.columns}
        pairs = {key: spelled[name] for key, name in columns.items()}
        # a semi-join does not say to Parquet which rows it looks for
        bounds = " and ".join(self._bounds(pairs))
        rows = files.of(stored, few=small)
        if bounds:
            rows = f"select * from (\n{rows}\n) where {bounds}"
        equal = " and ".join(
            f"_mv_k.{sql.identifier(key)} <=> _mv_s.{sql.identifier(column.name)}"
            for key, column in pairs.items()
        )
        keys = self.query(files)
        return f"select _mv_s.* from (\n{rows}\n) _mv_s left semi join (\n{keys}\n) _mv_k on {equal}"

    def rows_in_scope(self, shard: Layout, columns: Mapping[str, str]) -> Stored | None:
        """The same rows, read into this process. None if there are many, or if that is left to
        Spark.
        """
        most, keys = local_row_limit(shard.columns), None
        with left_to_spark(self.write.model):
            if columns and most and not shard.loose and self._searched_here(shard, most):
                keys = self._keys(shard, columns)
            with self.write.watch("keys"):
                return None if keys is None else self._stored(shard, keys, most)
        return None

    def _searched_here(self, shard: Layout, most: int) -> bool:
        here = self.write.engine.cores_here() > 0
        return here and shard.rows <= limits.SEARCHED_ROWS_HERE and self.rows <= most

    def _keys(self, shard: Layout, columns: Mapping[str, str]) -> pa.Table | None:
        """The keys under the names of the shard's ``columns``; None if the types or the number of
        columns differ.
        """
        spelled = {column.name.lower(): column for column in shard.columns}
        keys = {}
        for key, name in columns.items():
            fields = self._fields(key)
            kind = spelled[name].type.arrow()
            if not all(field.type == kind for field in fields):
                return None
            wanted = pa.schema([(fields[0].name, kind)])
            keys[spelled[name].name] = self.write.handle.read_staged(self.staged, wanted).column(0)
        return pa.table(keys) if len(keys) == len(columns) else None

    def _stored(self, shard: Layout, keys: pa.Table, most: int) -> Stored | None:
        by_name = {column.name: column for column in shard.columns}
        by_column = zip(keys.column_names, keys.columns, strict=True)
        looked_for = (OneOf(by_name[name], values, values.null_count > 0) for name, values in by_column)
        where = combined(operator.and_, (each.arrow() for each in looked_for))
        if where is None:
            return None
        schema = physical_schema(self.write.handle.schema)

        def find(file: DataFile, rows: int) -> pa.Table:
            return self.write.handle.find(file, schema, where, rows)

        def read(files: list[DataFile]) -> pa.Table:
            table = pa.concat_tables([schema.empty_table(), *found_in(files, find, most)])
            return table.filter(has_key(table, keys))

        stored = Stored(*map(read, shard.by_base()))
        return stored if stored.rows <= most else None

    def _bounds(self, columns: Mapping[str, Column]) -> Iterator[str]:
        """For each column a condition that rows with one of the keys satisfy, where there is
        one.
        """
        if self.rows > limits.LISTED_KEYS:
            return
        for key, column in columns.items():
            kind = column.type.arrow()
            fields = self._fields(key)
            # a value of another type may be equal to one that it is not between
            if all(field.type == kind for field in fields):
                wanted = pa.schema([(fields[0].name, kind)])
                values = self.write.handle.read_staged(self.staged, wanted).column(0)
                condition = OneOf(column, values, values.null_count > 0).sql()
                if condition:
                    yield condition

    def _fields(self, key: str) -> list[pa.Field]:
        """The column's field in each of the files."""
        return [f for footer in self.footers for f in footer.schema if f.name.lower() == key]


# the look-up of a staged correction


def fit(write: Write, staged: StagedDirectory, shard: Layout) -> Fit:
    """Whether and how the updates in ``staged`` fit ``shard``."""
    with write.watch("look up"):
        most = limits.SEARCHED_ROWS_HERE if write.engine.cores_here() else limits.SEARCHED_ROWS
        if not shard.loose and shard.rows <= most and staged.rows() <= limits.LISTED_KEYS:
            hashed = replace(shard, unhashed=())
            computed = _computed_hashes(write, shard) if shard.unhashed else None
            if computed is not None or not shard.unhashed:
                updates = write.handle.read_staged(staged, _HASHES)
                read, cores = write.handle.columns_of, write.engine.cores_here()
                return fit_of(updates, *hashed.by_base(), computed, read, cores)
        counts = "count_if(_mv_missing), count_if(_mv_h is null), count_if(_mv_ambiguous)"
        [row] = write.engine.query(f"select {counts} from (\n{_judged(staged, shard)}\n)", "look up")
        return Fit(*(int(str(count)) for count in row))


_HASHES = pa.schema([(HASH, pa.int64()), (DIFF, pa.int64())])


def _computed_hashes(write: Write, shard: Layout) -> pa.Table | None:
    """The hashes and diffs of the part in which some rows have none. None if these are many, or if
    the connection does not return Arrow.
    """
    counts = [file.rows for directory in shard.unhashed for file in directory.files]
    if None in counts or sum(count or 0 for count in counts) > limits.LOCAL_ROWS:
        return None
    with shared_files(write.engine) as files:
        rows = shard.select(shard.unhashed, f"{shard.believed_hash()} {HASH}, {DIFF}")
        return write.engine.arrow(files.around(files.of(rows)), "look up")


def without_hashes(
    write: Write, staged: StagedDirectory, columns: tuple[Column, ...], shard: Layout, fits: Fit
) -> StagedDirectory:
    """The same updates, without a hash where it is ambiguous."""
    with write.watch("write"), left_to_spark(write.model):
        if fits.shared is not None and staged.rows() <= local_row_limit(columns):
            schema = physical_schema(write.handle.schema)
            kept = difference.without_hashes(write.handle.read_staged(staged, schema), fits.shared)
            if kept is not None:
                return write.handle.write_staged(kept)
    names = sql.columns([*(column.name for column in columns), TIME, DIFF, ERROR])
    unsure = f"select _mv_h from (\n{_judged(staged, shard)}\n) where _mv_ambiguous"
    kept = f"if({HASH} in (\n{unsure}\n), cast(null as bigint), {HASH}) {HASH}"
    return write.stager.stage(f"select {names}, {kept} from {sql.parquet_in(staged.uri)}", "write")


def _judged(staged: StagedDirectory, shard: Layout) -> str:
    """The query of each staged hash, ``_mv_h``: is its row ``_mv_missing``, and is the hash
    ``_mv_ambiguous``?
    """
    batch = f"select {HASH} _mv_h, {DIFF} _mv_d from {sql.parquet_in(staged.uri)}"
    few = staged.rows() <= MAX_BROADCAST
    hints = ("/*+ BROADCAST(_mv_w) */ ", "/*+ BROADCAST(_mv_s) */ ") if few else ("", "")
    current = persisted(shard)
    stored = (
        f"select {HASH} _mv_h, {DIFF} _mv_n, {BASE} _mv_b from (\n{current}\n)"
        if current
        else "select 0L _mv_h, 0L _mv_n, 0L _mv_b where false"
    )
    among = f"select {hints[0]}_mv_p.* from (\n{stored}\n) _mv_p left semi join (\n{batch}\n) _mv_w on _mv_w._mv_h = _mv_p._mv_h"
    sums = f"select _mv_h, sum(_mv_n) _mv_n, sum(_mv_b) _mv_b from (\n{among}\n) group by _mv_h"
    missing = "_mv_c._mv_h is not null and _mv_d < 0 and coalesce(_mv_n, 0) < -_mv_d"
    ambiguous = "_mv_n > 0 and (_mv_d > 0 or _mv_n > -_mv_d or _mv_b > 1)"
    return (
        f"select {hints[1]}_mv_c._mv_h, {missing} _mv_missing, coalesce({ambiguous}, false) _mv_ambiguous "
        f"from (\n{batch}\n) _mv_c left join (\n{sums}\n) _mv_s on _mv_s._mv_h = _mv_c._mv_h"
    )
