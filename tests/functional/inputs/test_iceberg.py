"""Iceberg tables as inputs of views and tasks, copy-on-write and merge-on-read: what each kind of
commit does to them, and what is refused.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from itertools import pairwise

import pytest
from dbt.tests.util import run_dbt

from dbt.adapters.mvsink.inputs import IcebergInput, NoSuchTable, NotADescendant, SnapshotGone
from dbt.adapters.mvsink.inputs.protocol import EMPTY, Pinned, TableOptions
from dbt.adapters.mvsink.inputs.reference import Refresh, TableVersions
from dbt.adapters.mvsink.shard_sql.published_view import view_properties
from tests.functional.continual_task.test_dbt import task
from tests.functional.materialization.base import Base
from tests.support.session_engine import SessionEngine

pytestmark = [
    pytest.mark.usefixtures("small_data"),
    pytest.mark.skipif(
        "iceberg" not in os.environ.get("MVSINK_FORMATS", ""), reason="needs MVSINK_FORMATS=delta,iceberg"
    ),
]

EXPIRE = "expire all snapshots but the present ones"
MODES = {"copy_on_write": "copy-on-write", "merge_on_read": "merge-on-read"}
NAMES = {"copy_on_write": "copy_on_write", "merge_on_read": "merge-on-read"}  # one needs quotes
STEPS = {  # statements, and the rows that come and go with them
    "the first rows": (
        ["insert into {t} values (1, 'a'), (2, 'b'), (3, 'c'), (3, 'c')"],
        [(1, "a"), (2, "b"), (3, "c"), (3, "c")], [],
    ),
    "INSERT": (  # two snapshots
        ["insert into {t} values (4, 'd'), (3, null)", "insert into {t} values (6, 'f')"], [(4, "d"), (3, None), (6, "f")], [],
    ),
    "UPDATE": (["update {t} set val = 'C' where val = 'c'"], [(3, "C")] * 2, [(3, "c")] * 2),
    "DELETE": (["delete from {t} where id = 4"], [], [(4, "d")]),
    "MERGE": (
        ["merge into {t} t using (select * from values (1, 'A'), (2, null), (5, 'e') as s(id, val)) s on t.id = s.id "
         "when matched and s.val is null then delete when matched then update set * when not matched then insert *"],
        [(1, "A"), (5, "e")], [(1, "a"), (2, "b")],
    ),
    "compaction, and a commit to a branch": (
        ["call iceberg.system.rewrite_data_files(table => '{t}', options => map('rewrite-all', 'true'))",
         "alter table {t} create branch dev", "insert into {t}.branch_dev values (9, 'dev')"],
        [], [],
    ),
    "a column dropped and added again": (  # it is another one: a row that had it has NULL
        ["alter table {t} drop column val", "alter table {t} add column val string", "delete from {t} where id = 5",
         "insert into {t} values (7, 'g')"],
        [(1, None), (3, None), (3, None), (6, None), (7, "g")], [(1, "A"), (3, "C"), (3, "C"), (5, "e"), (6, "f")],
    ),
    "expiry of what was read, and INSERT OVERWRITE": (
        [EXPIRE, "insert overwrite {t} values (8, 'h'), (3, null)"],
        [(8, "h")], [(1, None), (3, None), (3, None), (6, None), (7, "g")],
    ),
}  # fmt: skip
LAST = list(STEPS)[-1]
BROKEN = {  # what breaks a task: statements, the task's error
    "copy_on_write": (
        ["insert into {t} values (10, 'x')", "insert into {t} values (11, 'y')",
         EXPIRE],
        r"table \S+copy_on_write\S*: its snapshot \d+ has expired, so what changed since then cannot be read\. Keep .*reset the task",
    ),
    "merge_on_read": (
        ["call iceberg.system.set_current_snapshot(table => '{t}', ref => 'dev')"],
        r"table \S+merge-on-read\S*: its snapshot \d+ does not descend from snapshot \d+, .* rolled back, .* reset the task",
    ),
}  # fmt: skip
NOT_INCREMENTAL = ("the first rows",)
VIEW = "{{{{ config(materialized='self_correcting_mv', verify='never', incremental=var('how', 'always')) }}}} select id, val from {{{{ source('raw', '{}') }}}}"
TASK = """on input {{{{ source('raw', '{0}') }}}} as (
  insert into {{{{ this }}}} select id, val, 'came' as what from {{{{ source('raw', '{0}') }}}};
  insert into {{{{ this }}}} select id, val, 'went' from {{{{ mv_deletes(source('raw', '{0}')) }}}})"""


def expire(spark, name):
    """What the procedure expire_snapshots does, without its jobs to find the files to delete."""
    table = spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
    table.expireSnapshots().expireOlderThan(2**42).retainLast(1).cleanExpiredFiles(False).commit()
    spark.sql(f"refresh table {name}")


class TestFollowing(Base):
    START = {}

    @pytest.fixture(scope="class")
    def models(self):
        tables = ", ".join(
            f"{{name: {mode}, identifier: {name}, quoting: {{identifier: true}}}}"
            for mode, name in NAMES.items()
        )
        return {
            "raw.yml": f'sources: [{{name: raw, schema: "iceberg.{{{{ target.schema }}}}", tables: [{tables}]}}]',
            **{f"view_{mode}.sql": VIEW.format(mode) for mode in MODES},
            **{f"task_{mode}.sql": task(TASK.format(mode)) for mode in MODES},
        }

    @pytest.fixture(scope="class")
    def after(self, spark, project):
        """The rows and the responses of each model after each step, and what was written."""
        project.run_sql(f"create namespace iceberg.{project.test_schema}")
        for mode, written in MODES.items():
            modes = ", ".join(f"'write.{each}.mode' = '{written}'" for each in ("delete", "update", "merge"))
            project.run_sql(
                f"create table iceberg.{project.test_schema}.`{NAMES[mode]}` (id bigint, val string) using iceberg tblproperties ({modes})"
            )
        observed = {
            step: self.step(spark, project, step, statements) for step, (statements, _, _) in STEPS.items()
        }
        yield observed
        for mode in MODES:
            project.run_sql(f"drop table iceberg.{project.test_schema}.`{NAMES[mode]}` purge")
        project.run_sql(f"drop schema iceberg.{project.test_schema}")

    def step(self, spark, project, step, statements):
        for mode in MODES:
            self.write(spark, project, mode, statements)
        how = "auto" if step in NOT_INCREMENTAL else "always"
        run_dbt(["run", "--threads", "2", "--vars", f"{{how: {how}}}"])
        names = [f"{kind}_{mode}" for kind in ("view", "task") for mode in MODES]
        return {name: (Counter(self.rows(project, name)), self.last(project, name)) for name in names}

    def write(self, spark, project, mode, statements):
        table = f"iceberg.{project.test_schema}.`{NAMES[mode]}`"
        for statement in statements:
            if statement == EXPIRE:
                expire(spark, table)
            else:
                project.run_sql(statement.format(t=table))

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("step", STEPS)
    def test_a_view_follows(self, after, step, mode):
        contents, came, went = Counter(), 0, 0
        for each, (_, added, removed) in STEPS.items():
            contents = contents + Counter(added) - Counter(removed)
            came, went = len(added), len(removed)
            if each == step:
                break
        rows, response = after[step][f"view_{mode}"]
        assert rows == contents
        assert (response["rows_inserted"], response["rows_deleted"]) == (came, went), response

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("step", STEPS)
    def test_a_task_follows(self, after, step, mode):
        expected = Counter()
        for each, (_, added, removed) in STEPS.items():
            expected += Counter((*row, "came") for row in added) + Counter((*row, "went") for row in removed)
            if each == step:
                break
        assert after[step][f"task_{mode}"][0] == expected

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("step", STEPS)
    def test_how_a_view_is_computed(self, after, step, mode):
        response = after[step][f"view_{mode}"][1]
        _, added, removed = STEPS[step]
        wanted = "incremental" if added or removed else "unchanged"  # files were only written again
        assert response["mode"] == ("evaluated" if step in NOT_INCREMENTAL else wanted), response

    def test_what_a_task_cannot_follow_and_a_view_can(self, after, spark, project):
        for mode, (statements, _) in BROKEN.items():
            self.write(spark, project, mode, statements)
        results = {
            result.node.name: result
            for result in run_dbt(["run", "--vars", "{how: auto}"], expect_pass=False)
        }
        assert Counter(self.rows(project, "view_copy_on_write")) == Counter(
            [(8, "h"), (3, None), (10, "x"), (11, "y")]
        )
        # the branch's snapshot, with the columns that it was written with
        branch = [(1, "A"), (3, None), (3, "C"), (3, "C"), (5, "e"), (6, "f"), (9, "dev")]
        assert Counter(self.rows(project, "view_merge_on_read")) == Counter(branch)
        for mode, (_, error) in BROKEN.items():
            message = results[f"task_{mode}"].message
            assert re.search(error, message) and len(message.splitlines()) < 5, message
            assert Counter(self.rows(project, f"task_{mode}")) == after[LAST][f"task_{mode}"][0]
        run_dbt(
            [
                "run",
                "--full-refresh",
                "--select",
                "task_merge_on_read",
                "--vars",
                "{mvsink_reset: [task_merge_on_read]}",
            ]
        )
        assert len(self.rows(project, "task_merge_on_read")) == len(branch)


HISTORY = [  # one snapshot each
    "insert into {t} select id, concat('n', id % 7), cast(id % 3 as int), map('k', id) from range(50)",
    "insert into {t} values (1, 'n1', 1, map('k', 1L)), (1, 'n1', 1, map('k', 1L)), (100, null, null, null)",
    "update {t} set n = 'updated' where id in (3, 4, 100)",
    "delete from {t} where id % 10 = 1",
    "call iceberg.system.rewrite_data_files(table => '{t}', options => map('rewrite-all', 'true'))",
    "insert overwrite {t} select 7, 'over', 1, map('k', 7L) union all select id, 'n', 1, null from range(2)",
    "alter table {t} alter column p type bigint",
    "alter table {t} rename column n to named",
    "insert into {t} values (8, 'over', 2, null)",
]


class Table:
    """An Iceberg table of one test."""

    def __init__(self, spark, name, columns="id bigint, n string", properties="'format-version' = '2'"):
        self.spark, self.name = spark, f"iceberg.tables.{name}"
        self.create(columns, properties)

    def create(self, columns="id bigint, n string", properties="'format-version' = '2'"):
        self.spark.sql("create namespace if not exists iceberg.tables")
        self.spark.sql(f"create table {self.name} ({columns}) using iceberg tblproperties ({properties})")

    def write(self, *statements):
        for statement in statements:
            if statement == EXPIRE:
                expire(self.spark, self.name)
            else:
                self.spark.sql(statement.format(t=self.name))

    @property
    def snapshots(self):
        rows = self.spark.sql(
            f"select snapshot_id from {self.name}.snapshots order by committed_at"
        ).collect()
        return [row[0] for row in rows]

    def input(self):
        return IcebergInput(self.name, SessionEngine(self.spark))


@pytest.fixture
def table(spark, request):
    made = Table(spark, request.node.originalname)
    yield made
    spark.sql(f"drop table if exists {made.name} purge")


@pytest.mark.parametrize("written", ["copy-on-write", "merge-on-read"])
def test_every_change_is_the_difference_of_its_snapshots(spark, written):
    modes = ", ".join(f"'write.{each}.mode' = '{written}'" for each in ("delete", "update", "merge"))
    columns = "id bigint, n string, p int, m map<string, bigint>"
    name = f"history_{written.replace('-', '_')}"
    table = Table(
        spark, name, columns, f"'format-version' = '{2 if written == 'copy-on-write' else 3}', {modes}"
    )
    table.write(*HISTORY)
    source, ids = table.input(), table.snapshots
    newest = source.newest().version
    assert ids[-1] == newest and list(source.between(ids[0], newest)) == ids[1:]
    columns = source.columns(newest)
    assert [column.name for column in columns] == ["id", "named", "p", "m"]
    pairs = [*pairwise(ids), (ids[0], newest), (ids[1], ids[4]), (None, ids[2]), (ids[4], ids[1])]
    contents, queries = {}, []
    for number, each in enumerate(ids):
        queries.append(f"select 'at' kind, {number} r, *, 1L d from (\n{source.contents(each, columns)}\n)")
        contents[each] = number
    for number, (before, after) in enumerate(pairs):
        query = source.changes(before, after, columns)
        assert (query is None) == ((before, after) == (ids[3], ids[4])), "compaction alone changes nothing"
        if query is not None:
            queries.append(f"select 'change', {number}, * from (\n{query}\n)")
    sums = Counter()
    for kind, number, *row, diff in spark.sql("\nunion all\n".join(queries)).collect():
        sums[kind, number, repr(row)] += diff
    at = {
        each: {row: n for (kind, r, row), n in sums.items() if (kind, r) == ("at", number)}
        for each, number in contents.items()
    }
    for number, (before, after) in enumerate(pairs):
        old, new = at.get(before, {}), at[after]
        wanted = {row: n for row in old.keys() | new.keys() if (n := new.get(row, 0) - old.get(row, 0))}
        assert {row: n for (kind, r, row), n in sums.items() if (kind, r) == ("change", number)} == wanted, (
            before,
            after,
        )
    plain = written == "copy-on-write"
    assert (".changes with" in str(source.changes(ids[0], ids[3], columns))) is False, (
        "the columns changed since"
    )
    table.write("insert into {t} select /*+ coalesce(1) */ id, 'x', 2, null from range(9, 20)")
    source.newest()
    assert (".changes with" in str(source.changes(newest, table.snapshots[-1], columns))) is True
    table.write("delete from {t} where id = 9", "alter table {t} create tag kept")
    source.newest()
    assert (".changes with" in str(source.changes(newest, table.snapshots[-1], columns))) is plain
    spark.sql(f"drop table {table.name} purge")


def test_signs_of_commits_need_no_query_where_rows_only_came(table):
    table.write(
        "insert into {t} values (1, 'a')", "insert into {t} values (2, 'b')", "delete from {t} where id = 1"
    )
    source, (first, second, third) = table.input(), table.snapshots
    assert source.signs(None, first) == (True, False) == source.signs(first, second)
    assert source.signs(second, third) == (True, True), "only the rows can say"
    assert (source.rows(first), source.rows(second)) == (1, 2)


def test_a_table_without_a_snapshot_is_empty(table):
    source = table.input()
    empty = source.newest().version
    assert table.spark.sql(source.contents(empty, source.columns(empty))).collect() == []
    table.write("insert into {t} values (1, 'a')")
    newest = source.newest().version
    assert list(source.between(empty, newest)) == [newest] and source.signs(empty, newest) == (True, False)
    rows = table.spark.sql(source.changes(empty, newest, source.columns(newest))).collect()
    assert [tuple(row) for row in rows] == [(1, "a", 1)]


def test_a_table_that_was_created_again_has_another_identity(table):
    table.write("insert into {t} values (1, 'a')")
    before = table.input().newest()
    table.write("drop table {t} purge")
    with pytest.raises(NoSuchTable, match="there is no Iceberg table at iceberg"):
        table.input().newest()
    table.create()
    after = table.input().newest()
    assert before.table_id and after.table_id and before.table_id != after.table_id


def test_the_order_of_snapshots_is_that_of_their_parents(table):
    table.write(
        *[f"insert into {{t}} values ({n}, 'a')" for n in range(3)], "alter table {t} create branch dev"
    )
    table.write("insert into {t}.branch_dev values (9, 'dev')")
    source, (first, second, third, dev) = table.input(), table.snapshots
    assert source.newest().version == third
    assert list(source.between(first, third)) == [second, third]
    with pytest.raises(NotADescendant):
        source.between(dev, third)
    table.write("call iceberg.system.fast_forward('{t}', 'main', 'dev')")
    assert source.newest().version == dev and list(source.between(third, dev)) == [dev]
    table.write(f"call iceberg.system.rollback_to_snapshot('{{t}}', {second})")
    assert source.newest().version == second
    with pytest.raises(NotADescendant, match=f"snapshot {second} does not descend from snapshot {dev}"):
        source.between(dev, second)
    table.write(
        "insert into {t} values (5, 'x')",
        EXPIRE,
    )
    newest = source.newest().version
    for expired in (first, second):
        with pytest.raises(SnapshotGone, match=f"its snapshot {expired} has expired"):
            source.between(expired, newest)


def test_row_k_the_snapshot_of_a_refresh(table):
    engine = SessionEngine(table.spark)
    table.write("insert into {t} values (1, 'a')", "insert into {t} values (2, 'b')")
    first, second = table.snapshots
    table.write(f"call iceberg.system.set_current_snapshot('{table.name}', {first})")
    history = f"select unix_millis(made_current_at) from {table.name}.history"
    made = [row[0] for row in table.spark.sql(history).collect()]

    def at(time):
        versions = TableVersions(TableOptions(engine), f"iceberg {time}", Refresh(time))
        return versions.of(table.name, view_properties(engine, table.name), source=True)

    assert [at(time) for time in made] == [Pinned(first), Pinned(second), Pinned(first)]
    assert at(made[0] - 1) == Pinned(EMPTY), "it had been created"
    assert at(made[0] - 86_400_000).newer.startswith("its oldest snapshot is of ")
