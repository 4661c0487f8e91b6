"""A `continual_task` through dbt: over a Delta table, beside late references, and what dbt does to
it other than running it.

Each class is one project, run in the order that its test shows.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from copy import deepcopy
from pathlib import Path

import pytest
from dbt.tests.util import rm_file, run_dbt, run_dbt_and_capture

from tests.functional.continual_task.test_dbt import FIRST, READ_ONLY, Tasks, task

pytestmark = pytest.mark.usefixtures("small_data")

STEPS = [  # a statement of Spark's Delta, and the rows that came and went with it
    ("insert into {t} values (1, 'a'), (2, 'b'), (3, 'c'), (3, 'c')", [(1, "a"), (2, "b"), (3, "c"), (3, "c")], []),
    ("insert into {t} values (4, 'd')", [(4, "d")], []),
    (
        "merge into {t} t using (select * from values (1, 'A'), (2, null), (5, 'e') as s(id, val)) s on t.id = s.id "
        "when matched and s.val is null then delete when matched then update set * when not matched then insert *",
        [(1, "A"), (5, "e")], [(1, "a"), (2, "b")],
    ),
    ("update {t} set val = 'C' where id = 3", [(3, "C"), (3, "C")], [(3, "c"), (3, "c")]),
    ("delete from {t} where id = 4", [], [(4, "d")]),
    (  # row s: as dbt's own tables are written
        "create or replace table {t} using delta tblproperties ('delta.enableDeletionVectors' = 'false') as "
        "select * from values (1L, 'A'), (3L, 'C'), (3L, 'C'), (6L, 'r') as s(id, val)", [(6, "r")], [(5, "e")],
    ),
    ("alter table {t} set tblproperties ('delta.columnMapping.mode' = 'name')", [], []),
    ("update {t} set val = 'M' where id = 6", [(6, "M")], [(6, "r")]),
]  # fmt: skip
SETTINGS = {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}


@pytest.mark.seldom
@pytest.mark.not_over_thrift("statements of a Thrift server do not load the classes of Delta's jar")
class TestDelta(Tasks):
    """Beside it a task over a table of files, for what read-only leaves alone."""

    START = {
        "raw.yml": "sources: [{name: raw, schema: \"{{ target.schema }}\", tables: [{name: orders}]}]",
        "plain.sql": "{{ config(materialized='table') }} select id from range(3)",
        "names.sql": "{{ config(materialized='table') }} select 1L as id, 'one' as name",
        "of_plain.sql": task("from transform {{ ref('plain') }} using (select id from {{ ref('plain') }})"),
        "of_delta.sql": task(
            "on input {{ source('raw', 'orders') }} as ("
            "insert into {{ this }} select id, val, 'came' as what, name from {{ source('raw', 'orders') }} left join {{ ref('names') }} using (id);"
            "insert into {{ this }} select id, val, 'went', null from {{ ct_deletes(source('raw', 'orders')) }};"
            "insert into {{ this }} select count(*), null, 'all', null from {{ mv_contents(source('raw', 'orders')) }})"
        ),
        "of_temporary.sql": task(
            "on input passing_by as (insert into {{ this }} select * from passing_by)",
            pre_hook="create or replace temporary view passing_by as select 1 as one",
        ),
    }  # fmt: skip

    @pytest.fixture(autouse=True)
    def settings(self, project):
        """Tiny data, and a vacuum of what was written a moment ago."""
        for key, value in SETTINGS.items():
            project.run_sql(f"set {key} = {value}")
        yield
        for key in SETTINGS:
            project.run_sql(f"reset {key}")

    def test_in_order(self, project):
        table = f"{project.test_schema}.orders"
        project.run_sql(
            f"create table {table} (id bigint, val string) using delta tblproperties ('delta.enableDeletionVectors' = 'false')"
        )
        expected, present = Counter(), Counter()
        for number, (statement, came, went) in enumerate(STEPS):
            project.run_sql(statement.format(t=table))
            if number == 0:
                results = {result.node.name: result for result in run_dbt(["run"], expect_pass=False)}
                assert (
                    "passing_by: a continual task cannot use a view as its input"
                    in results["of_temporary"].message
                )
            else:
                run_dbt(["run", "--select", "of_delta"])
            expected += Counter((*row, "came", "one" if row[0] == 1 else None) for row in came)
            expected += Counter((*row, "went", None) for row in went)
            present = present + Counter(came) - Counter(went)
            if came or went:
                expected[present.total(), None, "all", None] += 1
            assert Counter(self.rows(project, "of_delta")) == expected, statement
            response = self.last(project, "of_delta")
            assert (response["rows_inserted"], response["rows_deleted"]) == (
                len(came) + len(went) + bool(came or went),
                0,
            ), statement

        project.run_sql(f"insert into {table} values (6, 'f')")
        project.run_sql(f"insert into {project.test_schema}.plain values (7)")
        before = self.files(project)
        run_dbt(["run", "--select", "of_delta", "of_plain", "--vars", READ_ONLY])
        assert self.last(project, "of_delta")["_message"] == "read-only: would process its input"
        assert self.last(project, "of_plain")["_message"] == "read-only: would process its input"
        assert self.files(project) == before, "neither the output nor a companion is written"
        assert any("/of_delta/_inputs/" in path for path in before) and any(
            "/of_plain/_inputs/" in path for path in before
        )

        project.run_sql(f"update {table} set val = lower(val)")
        project.run_sql(f"vacuum {table} retain 0 hours")
        gone = r"data file\(s\) that versions \[\d+, \d+\] need are gone \(.*\), probably by a VACUUM\. Keep removed files longer .*reset the task"
        for _ in range(2):  # it is an error until it is reset, and nothing is skipped
            [result] = run_dbt(["run", "--select", "of_delta"], expect_pass=False)
            assert re.search(gone, result.message), result.message
            assert f"{project.test_schema}.of_delta: " in result.message
        assert Counter(self.rows(project, "of_delta")) == expected
        run_dbt(["run", "--select", "of_delta", "--full-refresh", "--vars", "{mvsink_reset: [of_delta]}"])
        whole = {(5, None, "all", None): 1}
        recomputed = [(1, "a"), (3, "c"), (3, "c"), (6, "m"), (6, "f")]
        assert Counter(self.rows(project, "of_delta")) == Counter(
            (*row, "came", "one" if row[0] == 1 else None) for row in recomputed
        ) + Counter(whole)

    def files(self, project):
        """Every file of the tasks' shards and their companions, and when it was written."""
        root = Path(project.adapter.config.credentials.shards) / project.test_schema
        return {str(path): path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}


DUE = """on input {{ ref('events') }} as (
  insert into {{ this }} select e.key, e.val * r.rate as due from {{ ref('events') }} e join {{ ref('rates') }} r on r.key = e.key
)"""
RATES = (
    "{{{{ config(materialized='self_correcting_mv') }}}} select * from values (1, 2), (2, {}) as t(key, rate)"
)


@pytest.mark.usefixtures("manifest_json")
class TestLife(Tasks):
    """A reference that is late, waited for by `waits` and read as it is by `newest`; then orphaned,
    dropped, made again, cloned.
    """

    START = {
        "rates.sql": RATES.format(3),
        "waits.sql": task(DUE),  # as every task does for models of the project
        "newest.sql": task(DUE, on_late_reference="newest"),
    }

    @pytest.fixture(scope="class")
    def other_schema(self, unique_schema):
        return f"{unique_schema}_other"

    @pytest.fixture(scope="class")
    def profiles_config_update(self, dbt_profile_target, unique_schema, other_schema):
        outputs = {name: deepcopy(dbt_profile_target) for name in ("default", "other")}
        outputs["default"]["schema"], outputs["other"]["schema"] = unique_schema, other_schema
        return {"test": {"outputs": outputs, "target": "default"}}

    def test_in_order(self, project, other_schema):
        self.wait(project)
        self.orphan_and_drop(project)
        project.create_test_schema(other_schema)
        try:
            self.clone(project, other_schema)
        finally:
            project.run_sql(f"drop schema if exists {other_schema} cascade")

    def wait(self, project):
        first = [(1, 20), (1, 22), (2, 60)]
        run_dbt(["run"])
        assert self.rows(project, "waits") == first == self.rows(project, "newest")

        self.set_events(project, f"{FIRST}, (2, 21)")
        self.set(project, "rates", RATES.format(5))
        _, out = run_dbt_and_capture(["run", "--select", "events", "waits", "newest"])
        waits, newest = (self.last(project, name)["_message"] for name in ("waits", "newest"))
        assert re.search(
            r"^\+0 -0, done up to 20\S+; 1 pending time waits for \S+\.rates`? \(at 20\S+\) to pass 20\S+ \(`on_late_reference: newest` goes on\); 1 warning$",
            waits,
        ), waits
        assert self.last(project, "waits")["waits_for"] == ["model.test.rates"]
        assert "waits: 1 times stay pending, because a reference has not passed them" in " ".join(out.split())
        assert re.search(r"^\+1 -0 at 20\S+; \S+\.rates`? as of 20\S+$", newest), newest
        assert (self.rows(project, "waits"), self.rows(project, "newest")) == (first, [*first, (2, 63)])

        run_dbt(["run"])  # rates are others now, and were not when the change came
        assert self.rows(project, "waits") == [*first, (2, 63)]
        assert self.last(project, "waits")["_message"].startswith("+1 -0 at 20")

    def orphan_and_drop(self, project):
        waits, newest = (str(self.shard(project, name).shard_id) for name in ("waits", "newest"))
        uri = self.uri(project, "newest")
        rm_file(project.project_root, "models", "newest.sql")
        _, out = run_dbt_and_capture(["run-operation", "mvsink_orphans"])
        assert "newest (model.test.newest is gone; shard " in out and "1 orphaned shards" in out
        assert len(self.rows(project, "newest")) == 4
        for name in ("events", "rates"):
            assert set(self.shard(project, name).holds) == {waits, newest}, "an orphan may come back"

        with project.adapter.connection_named("drop"):
            project.adapter.drop_relation(project.adapter.get_relation(None, project.test_schema, "newest"))
        for name in ("events", "rates"):
            assert set(self.shard(project, name).holds) == {waits}, "what is dropped holds nothing"
        self.set(project, "newest", self.START["newest.sql"])
        run_dbt(["run", "--select", "newest"])
        assert (self.uri(project, "newest"), self.shard(project, "newest").generation) == (uri, 1)
        assert self.rows(project, "newest") == [(1, 20), (1, 22), (2, 100), (2, 105)], (
            "it starts again with the whole input"
        )
        assert set(self.shard(project, "events").holds) == {waits, newest}

    def clone(self, project, other_schema):
        state = Path(project.project_root) / "state"
        state.mkdir()
        shutil.copy(Path(project.project_root) / "target" / "manifest.json", state)
        version, holds = self.shard(project, "waits").version, self.shard(project, "events").holds

        def cloned():
            return sorted(map(tuple, project.run_sql(f"select * from {other_schema}.waits", fetch="all")))

        run_dbt(["clone", "--select", "waits", "--state", "state", "--target", "other"])
        assert cloned() == [(1, 20), (1, 22), (2, 60), (2, 63)], "what the other one shows"
        run_dbt(["run", "--target", "other"])
        assert cloned() == [(1, 20), (1, 22), (2, 100), (2, 105)], "its own, from the whole of its own input"
        after = self.shard(project, "waits")
        assert (after.version, after.dropped, self.shard(project, "events").holds) == (version, None, holds)
