"""A table and what happens to it: the part that the formats' histories have in common."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from dbt.adapters.mvsink.engine import sql
from tests.long.input_values import Field, rows

ZONES = ("UTC", "Europe/Berlin", "America/Los_Angeles", "Asia/Kathmandu", "Australia/Lord_Howe", "+05:30")
# of the session that writes
WRITING: Mapping[str, Sequence[str]] = {
    "spark.sql.session.timeZone": ZONES,
    "spark.sql.parquet.outputTimestampType": ("INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"),
    "spark.sql.parquet.datetimeRebaseModeInWrite": ("CORRECTED", "LEGACY"),
    "spark.sql.parquet.int96RebaseModeInWrite": ("CORRECTED", "LEGACY"),
    "spark.sql.parquet.writeLegacyFormat": ("false", "true"),
    "spark.sql.files.maxRecordsPerFile": ("0", "1", "3"),
    "spark.databricks.delta.write.utcTimestampPartitionValues": ("true", "false"),
    "spark.sql.sources.partitionOverwriteMode": ("static", "dynamic"),
}


def shortened(text: str) -> str:
    """A reason without what differs from history to history."""
    text = re.sub(r"/tmp/[^:,;]*", "_", text)
    text = re.sub(r"\bh_\w+(\.\w+)?", "_", text)
    text = re.sub(r"`[^`]*`(\.`[^`]*`)*|'[^']*'|\"[^\"]*\"", "_", text)
    return re.sub(r"\d+", "N", text)[:160]


class NothingDone(Exception):
    """A step that this table cannot take."""


@dataclass
class History(ABC):
    """``writer``: a session that writes; ``witness``: one in the zone of the session that reads."""

    writer: Any
    witness: Any
    random: Random
    schema: str
    name: str
    place: Path
    columns: list[Field] = field(default_factory=list)
    partitions: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    listed = False  # its files are listed by a session once

    @property
    def relation(self) -> str:
        """As models name it."""
        return f"{self.schema}.{self.name}"

    @property
    def task_relation(self) -> str:
        """As the task names it."""
        return self.relation

    @property
    def selected(self) -> str:
        return ", ".join(each.quoted for each in self.columns)

    @abstractmethod
    def create(self) -> None:
        """The table, with its first rows."""

    @abstractmethod
    def steps(self) -> Mapping[str, Callable[[], None]]:
        """By name; each does it, or raises."""

    def step(self) -> list[str]:
        """The names of what was done: mostly one step, at times two."""
        steps, taken = self.steps(), []
        for _ in range(self.random.choice((1, 1, 1, 2))):
            for _ in range(4):  # some are not possible
                name = self.random.choice(list(steps))
                with self.writing():
                    try:
                        steps[name]()
                    except NothingDone:
                        continue
                    except Exception as error:
                        if not self.refused(error):
                            raise
                        message = (str(error).strip() or type(error).__name__).splitlines()[0]
                        self.done.append(f"-- refused: {message[:200]}")
                        self.refusals.append(f"{name}: {shortened(message)}")
                        continue
                taken.append(name)
                break
        return taken

    @staticmethod
    def refused(error: Exception) -> bool:
        """Whether a writer says that it cannot do that."""
        module = type(error).__module__
        return module.startswith(("pyspark.errors", "deltalake", "_internal", "py4j", "pyarrow", "builtins"))

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A writer's settings."""
        for name, values in WRITING.items():
            value = self.random.choice(values)
            self.writer.conf.set(name, value)
            self.settings[name] = value
        chosen = {n.rsplit(".", 1)[-1]: v for n, v in self.settings.items() if v != WRITING[n][0]}
        self.done.append(f"-- {chosen}")
        yield

    def sql(self, statement: str) -> Any:
        """By the writer."""
        self.done.append(statement)
        return self.writer.sql(statement)

    def rows(self, most: int = 5, distinct: bool = False) -> str:
        """A query of some rows."""
        return rows(self.random, self.columns, self.random.randint(1, most), distinct)

    def arrow(self, query: str) -> pa.Table:
        """The query's rows as other writers take them: times in UTC."""
        self.done.append(f"-- rows of another writer: {query}")
        table = self.writer.sql(query).toArrow()
        fields = [
            pa.field(each.name, pa.timestamp("us", "UTC") if _zoned(each.type) else each.type)
            for each in table.schema
        ]
        return table.cast(pa.schema(fields))

    def some(self) -> str:
        """A condition."""
        by = [each for each in self.columns if each.name in self.partitions]
        if by and self.random.random() < 0.5:
            chosen = self.random.choice(by)
            return f"{chosen.quoted} <=> {chosen.value(self.random)}"
        return f"id % {self.random.choice((2, 3, 4))} = {self.random.randrange(2)}"

    def column(self, *, partition: bool | None = None) -> Field:
        """One of the columns but `id`."""
        chosen = [
            each
            for each in self.columns
            if each.name != "id" and (partition is None or (each.name in self.partitions) == partition)
        ]
        if not chosen:
            raise NothingDone
        return self.random.choice(chosen)

    def drop(self) -> None:
        self.writer.sql(f"drop table if exists {self.relation}")


def _zoned(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is not None


def partitioned(names: Sequence[str]) -> str:
    return f"partitioned by ({', '.join(map(sql.identifier, names))})" if names else ""
