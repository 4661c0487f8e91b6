"""Histories of tables of files: written by Spark and by others, partitions here and elsewhere."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet as pq

from dbt.adapters.mvsink.engine import sql
from tests.long.history import History, NothingDone, partitioned
from tests.long.input_values import ATOMIC, NESTED, PADDED, VALUES, Field, fields

PROVIDERS = ("parquet", "parquet", "parquet", "orc", "csv", "json", "text")
TEXTUAL = tuple(kind for kind in ATOMIC if kind != "binary")
KINDS = {
    "parquet": (*ATOMIC, *NESTED, *PADDED),
    "orc": (*ATOMIC, *NESTED, *PADDED),
    "csv": TEXTUAL,
    "json": (*TEXTUAL, "array<int>", "struct<a:int,b:string>"),
    "text": ("string",),
}
OPTIONS = {
    "csv": ("", "header 'true'", "header 'true', sep ';', nullValue '-'"),
    "json": ("", "timeZone 'UTC'"),
}


class FilesHistory(History):
    """A table of files in the catalog."""

    provider, by_path, listed = "parquet", False, True

    @property
    def location(self) -> Path:
        return self.place / ("a b+ü, c#" if self.place.name[-1] in "135" else "files") / "t"

    @property
    def task_relation(self) -> str:
        return f"{self.provider}.`{self.location}`" if self.by_path else self.relation

    def create(self) -> None:
        random = self.random
        self.provider = random.choice(PROVIDERS)
        self.columns, self.partitions = fields(random, ATOMIC, KINDS[self.provider])
        if self.provider == "text":
            by = [each for each in self.columns if each.name in self.partitions]
            self.columns = [Field("id", "string", VALUES["string"][:20]), *by]
        self.by_path = self.provider in ("parquet", "orc") and random.random() < 0.15
        options = random.choice(OPTIONS.get(self.provider, ("",)))
        columns = ", ".join(each.declared for each in self.columns)
        with self.writing():
            self.sql(
                f"create table {self.relation} ({columns}) using {self.provider} {f'options ({options})' if options else ''} "
                f"{partitioned(self.partitions)} location '{self.location}'"
            )
            self._insert()

    def some(self) -> str:
        return super().some().replace("id %", "length(string(id)) %")

    def steps(self) -> Mapping[str, Callable[[], None]]:
        table, alter = self.relation, f"alter table {self.relation}"
        return {
            "insert": self._insert,
            "insert again": self._insert,
            "overwrite": lambda: self._insert("overwrite"),
            "overwrite of a partition": self._overwrite_partition,
            "a file of another writer": self._file,
            "a file of another writer again": self._file,
            "a file goes": lambda: self._any_file().unlink(),
            "a file is written again": self._again,
            "a file is renamed": self._rename,
            "a file is touched": lambda: os.utime(self._any_file()),
            "files that readers ignore": self._ignored,
            "a partition elsewhere": self._elsewhere,
            "a partition is dropped": lambda: self._do(f"{alter} drop partition ({self._partition()})"),
            "a partition is renamed": self._rename_partition,
            "a partition gets another place": self._move_partition,
            "repair": lambda: self._do(f"msck repair table {table}"),
            "truncate": lambda: self._do(f"truncate table {table}"),
            "truncate a partition": lambda: self._do(
                f"truncate table {table} partition ({self._partition()})"
            ),
            "add column": lambda: self._do(f"{alter} add columns (x{len(self.done)} int)"),
            "the table gets another place": self._move,
            "create again": self._recreate,
            "analyze": lambda: self._do(f"analyze table {table} compute statistics"),
            "nothing": lambda: None,
        }

    def _do(self, statement: str) -> None:
        self.sql(statement)

    def _insert(self, how: str = "into") -> None:
        """By position: partition columns are the last."""
        last = [each for each in self.columns if each.name not in self.partitions]
        by_name = {each.name: each for each in self.columns}
        added = len(self.writer.sql(f"select * from {self.relation} limit 0").columns) - len(self.columns)
        more = "".join(f", null as n{n}" for n in range(added))
        head = ", ".join(each.quoted for each in last) + more
        tail = "".join(f", {by_name[name].quoted}" for name in self.partitions)
        self.sql(f"insert {how} {self.relation} select {head}{tail} from ({self.rows(6)})")

    def _partitions(self) -> list[str]:
        if not self.partitions:
            raise NothingDone
        listed = self.writer.sql(f"show partitions {self.relation}").collect()
        if not listed:
            raise NothingDone
        return [row[0] for row in listed]

    def _partition(self, chosen: str = "") -> str:
        """One as SQL names it."""
        parts = (part.split("=", 1) for part in (chosen or self.random.choice(self._partitions())).split("/"))
        return ", ".join(
            f"{sql.identifier(unquote(name))} = {'null' if value in ('__HIVE_DEFAULT_PARTITION__', 'null') else sql.text(unquote(value))}"
            for name, value in parts
        )

    def _values(self) -> str:
        """A partition that may be new."""
        if not self.partitions:
            raise NothingDone
        by = [each for each in self.columns if each.name in self.partitions]
        by.sort(key=lambda each: self.partitions.index(each.name))
        row = self.writer.sql(
            "select " + ", ".join(f"string({each.value(self.random)})" for each in by)
        ).collect()[0]
        return ", ".join(
            f"{each.quoted} = {'null' if value is None else sql.text(value)}"
            for each, value in zip(by, row, strict=True)
        )

    def _overwrite_partition(self) -> None:
        last = [each for each in self.columns if each.name not in self.partitions]
        added = len(self.writer.sql(f"select * from {self.relation} limit 0").columns) - len(self.columns)
        head = ", ".join([*(each.quoted for each in last), *(f"null as n{n}" for n in range(added))])
        self.sql(
            f"insert overwrite {self.relation} partition ({self._partition()}) select {head} from ({self.rows(4)})"
        )

    def _files(self) -> list[Path]:
        if not self.location.exists():
            raise NothingDone
        listed = [
            each
            for each in sorted(self.location.rglob("*"))
            if each.is_file() and not each.name.startswith((".", "_"))
        ]
        if not listed:
            raise NothingDone
        return listed

    def _any_file(self) -> Path:
        chosen = self.random.choice(self._files())
        self.done.append(f"-- file {chosen}")
        return chosen

    def _file(self) -> None:
        """Beside the files that are there, or in the table's directory."""
        directory = self._any_file().parent if self.partitions else self.location
        directory.mkdir(parents=True, exist_ok=True)
        shown = ", ".join(each.quoted for each in self.columns if each.name not in self.partitions)
        table = self.arrow(f"select {shown} from ({self.rows(4)})")
        path = directory / f"other-{len(self.done)}.{self.provider}"
        if self.provider == "parquet":
            pq.write_table(table, path, use_deprecated_int96_timestamps=self.random.random() < 0.3)
        elif self.provider == "orc":
            pa.orc.write_table(table, path)
        else:
            shutil.copy(self._any_file(), path)

    def _again(self) -> None:
        path = self._any_file()
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content)

    def _rename(self) -> None:
        path = self._any_file()
        path.rename(path.with_name(f"renamed {len(self.done)}{path.suffix}"))

    def _ignored(self) -> None:
        self.location.mkdir(parents=True, exist_ok=True)
        for name in ("_ignored", ".ignored", "_x/part.parquet"):
            path = self.location / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"not a file of rows")
        (self.location / "_x").joinpath("part.parquet").unlink()

    def _elsewhere(self) -> None:
        place, named = self.place / f"elsewhere {len(self.done)}", self._values()
        self._directory(place)
        self.sql(f"alter table {self.relation} add if not exists partition ({named}) location '{place}'")

    def _directory(self, place: Path) -> None:
        shown = ", ".join(each.quoted for each in self.columns if each.name not in self.partitions)
        self.sql(
            f"insert overwrite directory '{place}' using {self.provider} select {shown} from ({self.rows(3)})"
        )

    def _rename_partition(self) -> None:
        self.sql(
            f"alter table {self.relation} partition ({self._partition()}) rename to partition ({self._values()})"
        )

    def _move_partition(self) -> None:
        place, named = self.place / f"moved {len(self.done)}", self._partition()
        self._directory(place)
        self.sql(f"alter table {self.relation} partition ({named}) set location '{place}'")

    def _move(self) -> None:
        if self.partitions or self.by_path:
            raise NothingDone
        place = self.place / f"place {len(self.done)}"
        self._directory(place)
        self.sql(f"alter table {self.relation} set location '{place}'")

    def _recreate(self) -> None:
        if self.random.random() < 0.5:
            raise NothingDone
        columns = ", ".join(each.declared for each in self.columns)
        self.sql(f"drop table {self.relation}")
        self.sql(
            f"create table {self.relation} ({columns}) using {self.provider} {partitioned(self.partitions)} location '{self.location}'"
        )
        if self.partitions:
            self.sql(f"msck repair table {self.relation}")
