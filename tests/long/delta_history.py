"""Histories of Delta tables: by Spark with its settings and features, by `deltalake`, converted."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from tests.long.history import History, NothingDone, partitioned
from tests.long.input_values import ATOMIC, NESTED, PADDED, Field, fields

WRITERS = (
    "spark",
    "spark",
    "spark",
    "spark",
    "ctas",
    "deltalake",
    "deltalake",
    "converted",
    "converted by another",
)
PROPERTIES = {  # how often a table has each
    "delta.enableDeletionVectors": ("true", 0.5),
    "delta.enableChangeDataFeed": ("true", 0.2),
    "delta.columnMapping.mode": ("name", 0.08),
    "delta.checkpointInterval": ("2", 0.4),
    "delta.checkpointPolicy": ("v2", 0.1),
    "delta.checkpoint.writeStatsAsStruct": ("true", 0.1),
    "delta.checkpoint.writeStatsAsJson": ("false", 0.1),
    "delta.enableInCommitTimestamps": ("true", 0.1),
    "delta.enableRowTracking": ("true", 0.1),
    "delta.enableTypeWidening": ("true", 0.15),
    "delta.randomizeFilePrefixes": ("true", 0.15),
    "delta.dataSkippingNumIndexedCols": ("0", 0.1),
    "delta.parquet.compression.codec": ("gzip", 0.1),
}  # fmt: skip
# of a converted table: directories that are written by hand have the texts of these as they are
BY_HAND = ("string", "int", "date", "boolean", "decimal(6,2)", "timestamp")


class DeltaHistory(History):
    """A Delta table."""

    by_path = False
    extra = 0  # columns that were added

    @property
    def location(self) -> Path:
        return self.place / "a b" / "t" if self.place.name[-1] in "135" else self.place / "t"

    @property
    def task_relation(self) -> str:
        return f"delta.`{self.location}`" if self.by_path else self.relation

    def create(self) -> None:
        random, writer = self.random, self.random.choice(WRITERS)
        kinds = tuple(kind for kind in ATOMIC if kind != "binary" or writer == "deltalake")
        kinds = BY_HAND if writer == "converted by another" else kinds
        self.columns, self.partitions = fields(random, kinds, (*ATOMIC, *NESTED, *PADDED))
        self.by_path = random.random() < 0.15
        with self.writing():
            self.done.append(f"-- {writer}")
            getattr(self, f"_{writer.split()[0]}")()
        if writer in ("spark", "ctas"):
            with self.writing():
                self._insert()

    def _spark(self) -> None:
        chosen = {key: value for key, (value, share) in PROPERTIES.items() if self.random.random() < share}
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in chosen.items())
        properties = f"tblproperties ({listed})" if listed else ""
        clustered = not self.partitions and self.random.random() < 0.3
        layout = "cluster by (id)" if clustered else partitioned(self.partitions)
        columns = ", ".join(each.declared for each in self.columns)
        self.sql(
            f"create table {self.relation} ({columns}) using delta {layout} location '{self.location}' {properties}"
        )

    def _ctas(self) -> None:
        layout = partitioned(self.partitions)
        self.sql(
            f"create table {self.relation} using delta {layout} location '{self.location}' as {self.rows()}"
        )

    def _deltalake(self) -> None:
        write_deltalake(str(self.location), self.arrow(self.rows()), partition_by=self.partitions or None)
        self.sql(f"create table {self.relation} using delta location '{self.location}'")

    def _converted(self) -> None:
        by = ", ".join(f"{each.quoted} {each.kind}" for each in self.columns if each.name in self.partitions)
        if "by another" in self.done[-1]:
            self._by_hand()
        else:
            self.sql(
                f"create table {self.relation}_files using parquet {partitioned(self.partitions)} location '{self.location}' as {self.rows(8)}"
            )
            self.sql(f"drop table {self.relation}_files")
        place = f"parquet.`{self.location}`"
        self.done.append(f"-- convert {place} partitioned by {by}")
        convert = self.writer._jvm.io.delta.tables.DeltaTable.convertToDelta  # its SQL knows no TIMESTAMP
        convert(self.writer._jsparkSession, place, *([by] if by else []))
        self.sql(f"create table {self.relation} using delta location '{self.location}'")

    def _by_hand(self) -> None:
        """Directories of values, each with a file of one name."""
        table, by = self.arrow(self.rows(8)), [each for each in self.columns if each.name in self.partitions]
        texts = [
            [None if value is None else str(value) for value in table.column(each.name).to_pylist()]
            for each in by
        ]
        for number in range(table.num_rows):
            path = self.location
            for each, values in zip(by, texts, strict=True):
                value = values[number]
                path /= f"{_escaped(each.name)}={_escaped(value) if value else '__HIVE_DEFAULT_PARTITION__'}"
            path.mkdir(parents=True, exist_ok=True)
            row = table.slice(number, 1).drop_columns([each.name for each in by])
            file = path / "part-0.parquet"
            if file.exists():
                row = pa.concat_tables([pq.read_table(file, partitioning=None), row])
            pq.write_table(row, file)

    def steps(self) -> Mapping[str, Callable[[], None]]:
        return {
            "insert": self._insert,
            "insert from itself": self._insert_itself,
            "delete": lambda: self._do(f"delete from {self.relation} where {self.some()}"),
            "delete again": lambda: self._do(f"delete from {self.relation} where {self.some()}"),
            "delete all": lambda: self._do(f"delete from {self.relation}"),
            "update": lambda: self._update(self.column(partition=False)),
            "update of a partition column": lambda: self._update(self.column(partition=True)),
            "merge": self._merge,
            "overwrite": lambda: self._do(
                f"insert overwrite {self.relation} ({self.selected}) {self.rows(8)}"
            ),
            "replace where": self._replace_where,
            "optimize": self._optimize,
            "vacuum": lambda: self._do(f"vacuum {self.relation} retain 0 hours"),
            "restore": self._restore,
            "add column": self._add_column,
            "rename column": lambda: self._rename("rename column {x} to `{x} renamed`"),
            "drop column": lambda: self._rename("drop column {x}"),
            "move column": lambda: self._do(
                f"alter table {self.relation} alter column {self.column().quoted} first"
            ),
            "widen type": self._widen,
            "map columns": self._map,
            "switch deletion vectors": self._switch,
            "purge": lambda: self._do(f"reorg table {self.relation} apply (purge)"),
            "deltalake appends": self._append,
            "deltalake overwrites": lambda: write_deltalake(
                str(self.location), self.arrow(self.rows()), mode="overwrite"
            ),
            "deltalake deletes": lambda: self._other("delete", f"id % 3 = {self.random.randrange(3)}"),
            "deltalake compacts": lambda: self._other("compact"),
            "checkpoint": lambda: self._other("checkpoint"),
            "metadata cleaned up": lambda: self._other("cleanup"),
            "replace table": self._replace,
            "create again": self._again,
            "comment": lambda: self._do(f"comment on table {self.relation} is 'c{self.random.random()}'"),
            "nothing": lambda: None,
        }

    def _do(self, statement: str) -> None:
        self.sql(statement)

    def _insert(self) -> None:
        self.sql(f"insert into {self.relation} ({self.selected}) {self.rows(6)}")

    def _insert_itself(self) -> None:
        self.sql(
            f"insert into {self.relation} ({self.selected}) select {self.selected} from {self.relation} where id % 2 = 0 limit 20"
        )

    def _update(self, column: Field) -> None:
        self.sql(
            f"update {self.relation} set {column.quoted} = {column.value(self.random)} where {self.some()}"
        )

    def _merge(self) -> None:
        assigned = ", ".join(f"{each.quoted} = s.{each.quoted}" for each in self.columns if each.name != "id")
        values = ", ".join(f"s.{each.quoted}" for each in self.columns)
        gone = "when not matched by source and t.id % 5 = 0 then delete" if self.random.random() < 0.4 else ""
        self.sql(
            f"merge into {self.relation} t using ({self.rows(8, distinct=True)}) s on t.id = s.id when matched and s.id % 3 = 0 then delete "
            f"when matched then update set {assigned} when not matched then insert ({self.selected}) values ({values}) {gone}"
        )

    def _replace_where(self) -> None:
        column = self.column(partition=bool(self.partitions))
        if "<" in column.kind:
            raise NothingDone
        condition = f"{column.quoted} <=> {column.value(self.random)}"
        shown = ", ".join(each.quoted for each in self.columns)
        self.sql(
            f"insert into {self.relation} replace where {condition} select {shown} from ({self.rows(9)}) where {condition}"
        )

    def _optimize(self) -> None:
        self.sql(f"optimize {self.relation}" + (" zorder by (id)" if self.random.random() < 0.3 else ""))

    def _restore(self) -> None:
        newest = DeltaTable(str(self.location)).version()
        if newest == 0:
            raise NothingDone
        self.sql(
            f"restore table {self.relation} to version as of {self.random.randrange(max(0, newest - 5), newest)}"
        )

    def _add_column(self) -> None:
        self.extra += 1
        kind = self.random.choice(("int", "string", "struct<a:int>"))
        self.sql(f"alter table {self.relation} add columns (x{self.extra} {kind})")

    def _rename(self, what: str) -> None:
        if not self.extra:
            raise NothingDone
        self.sql(f"alter table {self.relation} {what.format(x=f'x{self.extra}')}")

    def _widen(self) -> None:
        column = self.column(partition=None)
        wider = {
            "tinyint": "int",
            "smallint": "bigint",
            "int": "bigint",
            "float": "double",
            "decimal(6,2)": "decimal(10,2)",
            "date": "timestamp_ntz",
        }
        if column.kind not in wider:
            raise NothingDone
        self.sql(f"alter table {self.relation} alter column {column.quoted} type {wider[column.kind]}")

    def _map(self) -> None:
        self.sql(
            f"alter table {self.relation} set tblproperties ('delta.columnMapping.mode' = '{self.random.choice(('name', 'none'))}')"
        )

    def _switch(self) -> None:
        now = self.random.choice(("true", "false"))
        self.sql(f"alter table {self.relation} set tblproperties ('delta.enableDeletionVectors' = '{now}')")

    def _append(self) -> None:
        write_deltalake(str(self.location), self.arrow(self.rows()), mode="append")

    def _other(self, what: str, condition: str = "") -> None:
        self.done.append(f"-- deltalake: {what} {condition}")
        table = DeltaTable(str(self.location))
        if what == "delete":
            table.delete(condition)
        elif what == "compact":
            table.optimize.compact()
        elif what == "checkpoint":
            table.create_checkpoint()
        else:
            table.cleanup_metadata()

    def _replace(self) -> None:
        self.sql(
            f"create or replace table {self.relation} using delta {partitioned(self.partitions)} location '{self.location}' as {self.rows()}"
        )

    def _again(self) -> None:
        if self.random.random() < 0.6:
            raise NothingDone
        self.sql(f"drop table {self.relation}")
        shutil.rmtree(self.location)
        self._spark()
        self._insert()


def _escaped(text: str) -> str:
    """As Hive escapes a directory's name."""
    special = set("\"#%'*/:=?\\{[]^\x7f") | {chr(code) for code in range(1, 32)}
    return "".join(f"%{ord(each):02X}" if each in special else each for each in text)
