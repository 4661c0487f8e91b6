"""The staged keys of the rows that may differ, and the shard's rows that have one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from dbt.adapters.mvsink.engine import Column, sql
from dbt.adapters.mvsink.shard import StagedDirectory
from dbt.adapters.mvsink.shard_sql import Layout
from dbt.adapters.mvsink.sink.correction import persisted
from dbt.adapters.mvsink.sink.ranges import MAX_KEYS, among
from dbt.adapters.mvsink.sink.write import Write


@dataclass(frozen=True)
class StagedKeys:
    """Rows that ``staged`` holds, one for each key."""

    write: Write
    staged: StagedDirectory

    def rows(self) -> int:
        """How many they are; reads footers."""
        return self.staged.rows()

    def query(self) -> str:
        """All of their columns."""
        return f"select * from {sql.parquet_in(self.staged.uri)}"

    def in_scope(self, shard: Layout, columns: Mapping[str, str], files: sql.Shared) -> str | None:
        """The rows of ``shard`` that have one of the keys; None if it has none. ``columns``: those
        of the shard by those of the keys, all in lower case; without any, all rows are in scope.
        """
        stored = persisted(shard)
        if stored is None:
            return None
        if not columns:
            return files.of(stored)
        spelled = {column.name.lower(): column for column in shard.columns}
        pairs = {key: spelled[name] for key, name in columns.items()}
        # a semi-join does not say to Parquet which rows it looks for
        bounds = " and ".join(self._bounds(pairs))
        rows = files.of(stored)
        if bounds:
            rows = f"select * from (\n{rows}\n) where {bounds}"
        equal = " and ".join(
            f"_mv_k.{sql.identifier(key)} <=> _mv_s.{sql.identifier(column.name)}"
            for key, column in pairs.items()
        )
        keys = files.of(self.query())
        return f"select _mv_s.* from (\n{rows}\n) _mv_s left semi join (\n{keys}\n) _mv_k on {equal}"

    def _bounds(self, columns: Mapping[str, Column]) -> Iterator[str]:
        """For each column, if there is one, a condition that rows with one of the keys fulfil."""
        footers = self.staged.footers()
        if sum(footer.file.rows or 0 for footer in footers) > MAX_KEYS:
            return
        for key, column in columns.items():
            kind, name = column.type.arrow(), sql.identifier(column.name)
            fields = [f for footer in footers for f in footer.schema if f.name.lower() == key]
            # a value of another type may be equal to one that it is not between
            if all(field.type == kind for field in fields):
                wanted = pa.schema([(fields[0].name, kind)])
                values = self.write.handle.read_staged(self.staged, wanted).column(0)
                condition = among(name, column, values).condition
                if condition:
                    yield f"({condition} or {name} is null)" if values.null_count else condition
