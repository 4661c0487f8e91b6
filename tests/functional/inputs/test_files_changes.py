"""Tables of files bound to times: each change is exactly the difference of what the table held at
its runs.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from dbt.adapters.mvsink.inputs import (
    ColumnsChanged,
    FilesInput,
    FileVanished,
    ModeChanged,
    PendingTime,
    ZoneChanged,
    bind_files,
    file_binding,
)
from dbt.adapters.mvsink.inputs.protocol import TableOptions
from dbt.adapters.mvsink.materialization.task_inputs import Sources
from dbt.adapters.mvsink.shard import Antichain, ShardClient
from tests.support.seldom import often
from tests.support.session_engine import SessionEngine

pytestmark = pytest.mark.usefixtures("small_data")

TABLES = {"parquet": "partitioned by (p)", "orc": "", "csv": "", "json": ""}


class Table:
    """A catalog table below ``root``, bound as a task would."""

    def __init__(self, spark, root, using, partitioned="", append_only=False):
        self.spark, self.root, self.client = spark, root, ShardClient()
        self.name = f"default.files_{using}_{root.name.replace('-', '_')}"
        self.location = root / "a b+ü, c#" / "t"
        options = "options (header 'true', sep ';')" if using == "csv" else ""
        spark.sql(f"drop table if exists {self.name}")
        spark.sql(
            f"create table {self.name} (id int, n string, p string) using {using} {options} {partitioned} location '{self.location}'"
        )
        self.append_only = append_only

    def source(self, **changes):
        options = {"append_only": self.append_only, "refresh": f"refresh table {self.name}", **changes}
        return FilesInput("raw.t", self.name, str(self.location), **options)

    def bind(self, time, **changes):
        return bind_files(
            self.source(**changes), time, self.client, str(self.root / "companion"), SessionEngine(self.spark)
        )

    def sql(self, text):
        self.spark.sql(text.format(t=self.name))

    def contents(self):
        return counted(self.spark.sql(f"select *, 1L _mv_diff from {self.name}"))


def counted(frame):
    result = Counter()
    for row in frame.collect():
        result[row["id"], row["n"], row["p"]] += row["_mv_diff"]
    return result


@pytest.fixture
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


STEPS = [
    "insert into {t} select id, concat('n;', id % 3), if(id % 4 = 0, null, concat('p/', id % 2)) from range(20)",
    "insert into {t} values (1, 'n;1', 'p/1'), (1, 'n;1', 'p/1'), (99, null, 'ü %')",
    None,
    "insert overwrite {t} select id, concat('n;', id % 3), 'p/0' from range(2, 24)",
    "insert into {t} values (5, 'five', 'p/0')",
]


@pytest.mark.parametrize("using", often(TABLES, "parquet", "csv"))
def test_changes_are_the_differences(spark, root, using):
    table = Table(spark, root, using, TABLES[using])
    contents = {0: Counter()}
    for step, statement in enumerate(STEPS, 1):
        if statement:
            table.sql(statement)
        bound = table.bind(step * 100)
        assert bound.frontier() == Antichain.of(step * 100 + 1)
        contents[step] = table.contents()
    assert counted(spark.sql(bound.snapshot(100))) == contents[1]
    result = {}
    for row in spark.sql(bound.changes(101, 501)).collect():
        result.setdefault(row["_mv_time"], {})[row["id"], row["n"], row["p"]] = row["_mv_diff"]
    wanted = {}
    for step in range(2, len(STEPS) + 1):
        change = {
            row: n
            for row in contents[step] | contents[step - 1]
            if (n := contents[step][row] - contents[step - 1][row])
        }
        if change:
            wanted[step * 100] = change
    assert result == wanted
    assert bound.pending(101, 501) == [
        PendingTime(200, True, False),
        PendingTime(400, True, True),
        PendingTime(500, True, False),
    ]
    assert [column.name for column in bound.columns] == ["id", "n", "p"]
    assert counted(spark.sql(f"select *, 1L _mv_diff from (\n{bound.contents(350)}\n)")) == contents[3]


def test_row_r_partitions_that_are_elsewhere_and_partitions_that_are_dropped(spark, root):
    """As a task binds a partitioned table that the catalog describes, from its first run on."""
    name, options = f"default.elsewhere_{root.name.replace('-', '_')}", TableOptions(SessionEngine(spark))
    spark.sql(
        f"create table {name} (id int, p string) using parquet partitioned by (p) location '{root / 't'}'"
    )
    for place, ids in (("x", "1, 1, 2"), ("y", "3")):
        spark.sql(
            f"insert overwrite directory '{root / place}' using parquet select explode(array({ids})) id"
        )
    steps = {
        "alter table {t} add partition (p='x') location '{r}/x'": {(1, "x"): 2, (2, "x"): 1},
        "insert into {t} values (4, 'in')": {(4, "in"): 1},
        "alter table {t} add partition (p='y,') location '{r}/y'": {(3, "y,"): 1},
        "alter table {t} drop partition (p='in')": {(4, "in"): -1},
        "alter table {t} drop partition (p='x')": {(1, "x"): -2, (2, "x"): -1},
    }
    contents = Counter()
    for time, (statement, wanted) in enumerate(steps.items(), 1):
        spark.sql(statement.format(t=name, r=root))
        source = Sources(None, options.engine, None).find("task", name)
        bound = source.bound(time * 100, ShardClient(), str(root / "task"), 0, options.engine)
        if time > 1:
            rows = spark.sql(bound.changes(time * 100 - 99, time * 100 + 1)).collect()
            assert {(row["id"], row["p"]): row["_mv_diff"] for row in rows} == wanted, statement
        contents.update(wanted)
        rows = spark.sql(bound.contents(time * 100)).collect()
        assert Counter((row["id"], row["p"]) for row in rows) == +contents, statement
    spark.sql(f"drop table {name}")


def test_row_40_1_a_partition_that_is_renamed_keeps_its_files_and_its_rows_change(spark, root):
    name, options = f"default.renamed_{root.name.replace('-', '_')}", TableOptions(SessionEngine(spark))
    spark.sql(
        f"create table {name} (id int, p string) using parquet partitioned by (p) location '{root / 't'}'"
    )
    spark.sql(f"insert overwrite directory '{root / 'x'}' using parquet select 3 as id")
    steps = {
        "insert into {t} values (1, 'a,'), (1, 'a,'), (2, null)": {(1, "a,"): 2, (2, None): 1},
        "alter table {t} add partition (p='x') location '{r}/x'": {(3, "x"): 1},
        "alter table {t} partition (p='a,') rename to partition (p='b')": {(1, "a,"): -2, (1, "b"): 2},
        "alter table {t} partition (p='x') rename to partition (p='a,')": {(3, "x"): -1, (3, "a,"): 1},
        "alter table {t} partition (p='b') rename to partition (p='c')": {(1, "b"): -2, (1, "c"): 2},
        "insert into {t} values (4, 'c')": {(4, "c"): 1},
    }
    for time, (statement, wanted) in enumerate(steps.items(), 1):
        spark.sql(statement.format(t=name, r=root))
        source = Sources(None, options.engine, None).find("task", name)
        bound = source.bound(time * 100, ShardClient(), str(root / "task"), 0, options.engine)
        updates = bound.changes(time * 100 - 99, time * 100 + 1) if time > 1 else bound.snapshot(100)
        changed = Counter()
        for row in spark.sql(updates).collect():
            changed[row["id"], row["p"]] += row["_mv_diff"]
        assert changed == wanted, statement
    spark.sql(f"drop table {name}")


def test_row_40_1_moments_in_texts_are_read_in_one_zone(spark, root):
    """Of a table whose files, or whose partitions' names, have moments as texts."""
    zone, engine = spark.conf.get("spark.sql.session.timeZone"), SessionEngine(spark)
    tables = {
        "text": ("(id int, at timestamp) using csv", True),
        "by_text": ("(id int, at timestamp) using parquet partitioned by (at)", True),
        "by_day": ("(id int, at timestamp, d date) using parquet partitioned by (d)", False),
        "binary": ("(id int, at timestamp) using parquet", False),
    }
    try:
        for kind, (definition, refused) in tables.items():
            name = f"default.{kind}_{root.name.replace('-', '_')}"
            spark.sql(f"create table {name} {definition} location '{root / kind}'")
            more = ", date'2020-01-01'" if kind == "by_day" else ""
            spark.sql(f"insert into {name} values (1, timestamp'2020-01-01 10:00:00'{more})")
            for time, chosen in ((100, "UTC"), (200, "Asia/Kathmandu")):
                spark.conf.set("spark.sql.session.timeZone", chosen)
                source = Sources(None, engine, None).find("task", name)
                arguments = (time, ShardClient(), str(root / f"task_{kind}"), 0, engine)
                if refused and time == 200:
                    with pytest.raises(ZoneChanged, match=r"read in 'UTC' so far, and .* 'Asia/Kathmandu'"):
                        source.bound(*arguments)
                else:
                    source.bound(*arguments)
            spark.sql(f"drop table {name}")
            spark.conf.set("spark.sql.session.timeZone", zone)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_a_table_of_lines(spark, root):
    """Text tables have one column; its name is the table's own."""
    name = f"default.lines_{root.name.replace('-', '_')}"
    spark.sql(f"create table {name} (line string) using text location '{root / 't'}'")

    def bind(time):
        table = FilesInput("raw.t", name, str(root / "t"), append_only=False, refresh=f"refresh table {name}")
        return bind_files(table, time, ShardClient(), str(root / "companion"), SessionEngine(spark))

    spark.sql(f"insert into {name} values ('a'), ('a'), ('b;c')")
    bind(100)
    spark.sql(f"insert overwrite {name} values ('a'), ('')")
    bound = bind(200)
    assert [column.name for column in bound.columns] == ["line"]
    changes = {(row["line"], row["_mv_diff"]) for row in spark.sql(bound.changes(101, 201)).collect()}
    assert changes == {("a", -1), ("b;c", -1), ("", 1)}


def test_files_written_again_with_the_same_rows_are_no_change(spark, root):
    table = Table(spark, root, "parquet")
    table.sql("insert into {t} values (1, 'a', 'x'), (2, 'b', 'y')")
    table.bind(100)
    table.sql("insert overwrite {t} select * from values (2, 'b', 'y'), (1, 'a', 'x')")
    assert table.bind(200).pending(101, 201) == []


def test_files_that_are_not_new_are_not_opened(spark, root):
    table = Table(spark, root, "parquet")
    table.sql("insert into {t} values (1, 'a', 'x')")
    table.bind(100)
    [old] = [path for path in Path(table.location).iterdir() if path.suffix == ".parquet"]
    table.sql("insert into {t} values (2, 'b', 'y')")
    kept = old.stat()
    old.write_bytes(b"x" * kept.st_size)  # opened, it would fail
    os.utime(old, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    bound = table.bind(200)
    assert counted(spark.sql(bound.changes(101, 201))) == {(2, "b", "y"): 1}


def test_append_only_keeps_no_copy_and_refuses_a_removed_file_by_name(spark, root):
    table = Table(spark, root, "parquet", append_only=True)
    table.sql("insert into {t} values (1, 'a', 'x'), (1, 'a', 'x')")
    table.bind(100)
    table.sql("insert into {t} values (2, 'b', 'y'), (2, 'b', 'y')")
    table.sql("insert into {t} values (3, 'b', 'y')")
    bound = table.bind(200)
    assert bound.pending(101, 201) == [PendingTime(200, True, False)]
    assert counted(spark.sql(bound.changes(101, 201))) == {(2, "b", "y"): 2, (3, "b", "y"): 1}
    assert counted(spark.sql(bound.snapshot(100))) == {(1, "a", "x"): 2}
    assert spark.sql(bound.contents(200)).count() == 5
    files = [path for path in Path(table.location).iterdir() if path.suffix == ".parquet"]
    assert sum(file.rows for file in bound.handle.state().files) == len(files)  # the manifest
    with pytest.raises(ModeChanged, match="input raw.t: input_files is 'unset', but it was 'append_only'"):
        table.bind(300, append_only=False)
    gone = files[0]
    gone.unlink()
    with pytest.raises(
        FileVanished, match=f"input raw.t is append-only.*1 of its data files were removed.*{gone.name}"
    ):
        table.bind(300)
    with pytest.raises(FileVanished, match=gone.name):
        bound.contents(200)


def test_two_runs_bind_once_and_a_lost_column_is_refused(spark, root, monkeypatch):
    table = Table(spark, root, "parquet")
    table.sql("insert into {t} values (1, 'a', 'x')")
    table.bind(100)
    table.sql("insert into {t} values (2, 'b', 'y')")
    stage, raced = file_binding._FileBinder.stage, []

    def staged_while_another_binds(binder, state):
        batches = stage(binder, state)
        if not raced:
            raced.append(True)
            table.bind(200)
        return batches

    monkeypatch.setattr(file_binding._FileBinder, "stage", staged_while_another_binds)
    bound = table.bind(300)
    assert bound.pending(101, 301) == [PendingTime(200, True, False)]
    assert counted(spark.sql(bound.changes(101, 301))) == {(2, "b", "y"): 1}
    storage = bound.handle.storage
    staged = {file.path for file in storage.list_files("table") if file.path.endswith(".parquet")}
    assert staged == {file.path for file in bound.handle.state().files} | set(storage.removals().times)
    table.sql("drop table {t}")
    table.sql(f"create table {{t}} (id string, p string) using parquet location '{table.location}'")
    with pytest.raises(ColumnsChanged, match="`id` was int, is string; `n` was string, is gone"):
        table.bind(400)


def test_a_tables_own_columns_may_have_any_names_and_its_companion_is_compacted(spark, root):
    table = Table(spark, root, "parquet")
    table.sql("alter table {t} add columns (mv_file string, MV_PATH int)")
    for step in range(1, 5):
        table.sql(f"insert into {{t}} values ({step}, 'a', 'x', 'own', {step})")
        bound = table.bind(step * 100)
        bound.hold("task", step * 100)
    assert [column.name for column in bound.columns] == ["id", "n", "p", "mv_file", "MV_PATH"]
    assert [field.name for field in bound.handle.schema][:2] == ["mv_file_", "mv_path_"]
    assert len({file.batch_id for file in bound.handle.state().files}) < 8
    rows = spark.sql(bound.contents(400)).collect()
    assert sorted((row["id"], row["mv_file"], row["MV_PATH"]) for row in rows) == [
        (n, "own", n) for n in range(1, 5)
    ]
    table.sql("insert overwrite {t} values (1, 'a', 'x', 'own', 1)")
    bound = table.bind(900)
    assert [row["id"] for row in spark.sql(bound.contents(900)).collect()] == [1]
