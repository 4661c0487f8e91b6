"""Histories of Iceberg tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.long.history import History, NothingDone
from tests.long.input_values import ATOMIC, NESTED, Field, fields

KINDS = tuple(kind for kind in ATOMIC if kind not in ("tinyint", "smallint"))
TRANSFORMS = {
    "string": ("{}", "truncate(1, {})", "bucket(3, {})"),
    "date": ("{}", "months({})", "years({})"),
    "timestamp": ("{}", "days({})", "hours({})"),
    "timestamp_ntz": ("{}", "days({})"),
}


class IcebergHistory(History):
    """An Iceberg table of the catalog `iceberg`."""

    @property
    def relation(self) -> str:
        return f"iceberg.{self.schema}.{self.name}"

    def create(self) -> None:
        self.writer.sql(f"create namespace if not exists iceberg.{self.schema}")
        self.columns, self.partitions = fields(self.random, KINDS, (*KINDS, *NESTED))
        with self.writing():
            self._create()
            self._insert()

    def _create(self) -> None:
        random = self.random
        by = [random.choice(TRANSFORMS.get(each.kind, ("{}",))).format(each.quoted) for each in self._by()]
        by += ["bucket(2, id)"] if random.random() < 0.2 else []
        modes = [
            f"'write.{each}.mode' = '{random.choice(('copy-on-write', 'merge-on-read'))}'"
            for each in ("delete", "update", "merge")
        ]
        version = f"'format-version' = '{random.choice((1, 2, 2, 3))}'"
        columns = ", ".join(each.declared for each in self.columns)
        layout = f"partitioned by ({', '.join(by)})" if by else ""
        self.sql(
            f"create table {self.relation} ({columns}) using iceberg {layout} tblproperties ({', '.join([*modes, version])})"
        )

    def _by(self) -> list[Field]:
        return [each for each in self.columns if each.name in self.partitions]

    def steps(self) -> Mapping[str, Callable[[], None]]:
        table, alter = self.relation, f"alter table {self.relation}"
        return {
            "insert": self._insert,
            "insert again": self._insert,
            "delete": lambda: self._do(f"delete from {table} where {self.some()}"),
            "update": lambda: self._update(self.column(partition=False)),
            "update of a partition column": lambda: self._update(self.column(partition=True)),
            "merge": self._merge,
            "overwrite": lambda: self._do(f"insert overwrite {table} {self.rows(8)}"),
            "compaction": lambda: self._call("rewrite_data_files", "options => map('rewrite-all', 'true')"),
            "expiry": lambda: self._call(
                "expire_snapshots", "older_than => timestamp'2100-01-01', retain_last => 1"
            ),
            "rollback": self._rollback,
            "add column": lambda: self._do(f"{alter} add column x{len(self.done)} int"),
            "drop column": lambda: self._extra("drop column {}"),
            "rename column": lambda: self._extra("rename column {} to `{}_`"),
            "move column": lambda: self._do(f"{alter} alter column {self.column().quoted} first"),
            "widen type": self._widen,
            "partition field": lambda: self._do(f"{alter} add partition field bucket(4, id)"),
            "no partition field": lambda: self._do(f"{alter} drop partition field bucket(4, id)"),
            "sort order": lambda: self._do(f"{alter} write ordered by id"),
            "branch": self._branch,
            "tag": lambda: self._do(f"{alter} create or replace tag t{len(self.done)}"),
            "fast forward": lambda: self._call("fast_forward", "branch => 'main', to => 'dev'"),
            "format version": lambda: self._do(f"{alter} set tblproperties ('format-version' = '3')"),
            "create again": self._again,
            "replace table": lambda: self._do(
                f"create or replace table {table} using iceberg as {self.rows()}"
            ),
            "nothing": lambda: None,
        }

    def _do(self, statement: str) -> None:
        self.sql(statement)

    def _call(self, procedure: str, arguments: str) -> None:
        self.sql(f"call iceberg.system.{procedure}(table => '{self.relation}', {arguments})")

    def _insert(self) -> None:
        self.sql(f"insert into {self.relation} ({self.selected}) {self.rows(6)}")

    def _update(self, column: Field) -> None:
        self.sql(
            f"update {self.relation} set {column.quoted} = {column.value(self.random)} where {self.some()}"
        )

    def _merge(self) -> None:
        assigned = ", ".join(f"{each.quoted} = s.{each.quoted}" for each in self.columns if each.name != "id")
        values = ", ".join(f"s.{each.quoted}" for each in self.columns)
        self.sql(
            f"merge into {self.relation} t using ({self.rows(8, distinct=True)}) s on t.id = s.id when matched and s.id % 3 = 0 then delete "
            f"when matched then update set {assigned} when not matched then insert ({self.selected}) values ({values})"
        )

    def _rollback(self) -> None:
        listed = self.writer.sql(
            f"select snapshot_id from {self.relation}.snapshots order by committed_at"
        ).collect()
        if len(listed) < 2:
            raise NothingDone
        self._call("set_current_snapshot", f"snapshot_id => {self.random.choice(listed[:-1])[0]}")

    def _extra(self, what: str) -> None:
        own = {each.name for each in self.columns}
        extra = [name for name in self.writer.table(self.relation).columns if name not in own]
        if not extra:
            raise NothingDone
        self.sql(f"alter table {self.relation} {what.replace('{}', extra[0])}")

    def _widen(self) -> None:
        column = self.column()
        wider = {"int": "bigint", "float": "double", "decimal(6,2)": "decimal(10,2)"}
        if column.kind not in wider:
            raise NothingDone
        self.sql(f"alter table {self.relation} alter column {column.quoted} type {wider[column.kind]}")

    def _branch(self) -> None:
        self.sql(f"alter table {self.relation} create or replace branch dev")
        self.sql(f"insert into {self.relation}.branch_dev ({self.selected}) {self.rows(3)}")

    def _again(self) -> None:
        if self.random.random() < 0.6:
            raise NothingDone
        self.sql(f"drop table {self.relation} purge")
        self._create()
        self._insert()
