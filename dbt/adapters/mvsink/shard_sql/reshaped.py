"""A shard's parts as they read with other columns, or under other names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dbt.adapters.mvsink.engine import Column, sql
from dbt.adapters.mvsink.physical import DIFF, ERROR, HASH, META, TIME
from dbt.adapters.mvsink.shard import Directory
from dbt.adapters.mvsink.shard_sql.layout import Layout


@dataclass(frozen=True)
class Widened(Layout):
    """A shard's parts with new columns, NULL in every row; hashes are of all columns, not NULL."""

    stored: tuple[Column, ...] = ()

    def select(self, directories: Sequence[Directory], items: str, where: str = "") -> str:
        names = sql.columns(self.names)
        columns = [sql.identifier(column.name) for column in self.stored]
        columns += [
            f"cast(null as {c.type.spelled}) {sql.identifier(c.name)}"
            for c in self.columns[len(self.stored) :]
        ]
        rows = super().select(directories, ", ".join([*columns, TIME, DIFF, ERROR]))
        # The partition's number keeps the optimizer from seeing through the hash: see
        # `correction.Desired.hashed`.
        hashed = f"({self.hash_of()} | (spark_partition_id() & 0)) {HASH}"
        wide = f"select {names}, {TIME}, {DIFF}, {ERROR}, {hashed} from (\n{rows}\n)"
        return f"select {items} from (\n{wide}\n)" + (f" where {where}" if where else "")


@dataclass(frozen=True)
class Renamed(Layout):
    """A shard's parts with short names for its columns.

    Each scan spells the ``stored`` names once, so a query's text stays short.
    """

    stored: tuple[str, ...] = ()

    def select(self, directories: Sequence[Directory], items: str, where: str = "") -> str:
        if "`" not in items and "*" not in items:  # no column of the model
            return super().select(directories, items, where)
        pairs = zip(self.stored, self.names, strict=True)
        columns = ", ".join(f"{sql.identifier(stored)} {sql.identifier(name)}" for stored, name in pairs)
        rows = super().select(directories, f"{columns}, {', '.join(META)}")
        return f"select {items} from (\n{rows}\n)" + (f" where {where}" if where else "")

    def _in_files(self) -> tuple[str, ...]:
        return self.stored


def renamed(shard: Layout) -> Renamed:
    """``shard`` with its columns named `c0`, `c1`, ..."""
    columns = tuple(Column(f"c{number}", column.type) for number, column in enumerate(shard.columns))
    return Renamed(**{**vars(shard), "columns": columns}, stored=shard.names)


def widened(shard: Layout, added: Sequence[Column]) -> Layout:
    """``shard`` as it reads once the columns ``added`` have been added."""
    return Widened(**{**vars(shard), "columns": (*shard.columns, *added)}, stored=shard.columns)
