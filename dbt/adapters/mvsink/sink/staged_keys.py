"""The staged keys of the rows that may differ, and the shard's rows that have one of them."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from dbt.adapters.mvsink.engine import Column, sql
from dbt.adapters.mvsink.engine.predicates import OneOf, combined
from dbt.adapters.mvsink.local.difference import Stored
from dbt.adapters.mvsink.local.rows import (
    ONE_TASK_ROWS,
    fits_locally,
    found_in,
    has_key,
    left_to_spark,
    local_row_limit,
)
from dbt.adapters.mvsink.shard import DataFile, Footer, StagedDirectory, physical_schema
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.sink.correction import persisted
from dbt.adapters.mvsink.sink.lookup import MAX_KEYS, MAX_SEARCHED_HERE
from dbt.adapters.mvsink.sink.write import Write


@dataclass(frozen=True)
class StagedKeys:
    """Rows that ``staged`` holds, one for each key."""

    write: Write
    staged: StagedDirectory

    @classmethod
    def of(cls, write: Write, values: pa.ChunkedArray, *, nulls: bool) -> StagedKeys:
        """``values``, and NULL if ``nulls``, as `_mv_k0`."""
        more = pa.nulls(1 if nulls else 0, values.type)
        keys = pc.unique(pa.chunked_array([*values.chunks, more]))
        return cls(write, write.handle.write_staged(pa.table({"_mv_k0": keys})))

    @cached_property
    def footers(self) -> list[Footer]:
        """Of their files."""
        return self.staged.footers()

    @property
    def rows(self) -> int:
        """How many they are."""
        return sum(footer.file.rows or 0 for footer in self.footers)

    def query(self, files: sql.Shared) -> str:
        """All of their columns."""
        query = f"select * from {sql.parquet_in(self.staged.uri)}"
        return files.of(query, few=self.rows <= ONE_TASK_ROWS)

    def in_scope(self, shard: Layout, columns: Mapping[str, str], files: sql.Shared) -> str | None:
        """The rows of ``shard`` that have one of the keys; None if it has none. ``columns``: those
        of the shard by those of the keys, all in lower case; without any, all rows are in scope.
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
        """The same rows, read into this process. None if they are many, or it is left to Spark."""
        most, keys = local_row_limit(shard.columns), None
        with left_to_spark(self.write.model):
            if columns and most and not shard.loose and self._searched_here(shard, most):
                keys = self._keys(shard, columns)
            with self.write.watch("keys"):
                return None if keys is None else self._stored(shard, keys, most)
        return None

    def _searched_here(self, shard: Layout, most: int) -> bool:
        here = self.write.engine.cores_here() > 0
        return here and shard.rows <= MAX_SEARCHED_HERE and self.rows <= most

    def _keys(self, shard: Layout, columns: Mapping[str, str]) -> pa.Table | None:
        """The keys under the names of the shard's ``columns``, if these are as many, and have their
        types.
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
        """For each column, if there is one, a condition that rows with one of the keys fulfil."""
        if self.rows > MAX_KEYS:
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
        """The column, in each of the files."""
        return [f for footer in self.footers for f in footer.schema if f.name.lower() == key]
