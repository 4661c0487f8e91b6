"""Refresh schedules through dbt: configs as YAML and as text, log lines, `on_configuration_change`,
the view before the first refresh.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file

from dbt.adapters.mvsink.shard import ShardClient
from tests.functional.materialization.base import MV, SOURCE, Base, configured

MINUTE = 60_000
DAY = "2026-11-20"
T = 1_795_168_800_000  # 10:00 of that day
MORE = SOURCE.replace("(1, 'a')", "(1, 'a'), (4, 'd')")


def run(minute, *more, read_only=False, **kwargs):
    """`dbt run` so many minutes after 10:00; what it printed."""
    variables = {"mvsink_run_time": T + minute * MINUTE, "mvsink_read_only": read_only}
    return run_dbt_and_capture(["run", "--vars", json.dumps(variables), *more], **kwargs)[1]


class TestSchedules(Base):
    def stored(self, project):
        return json.loads(self.state(project).properties["definition"])

    def test_from_the_first_refresh_to_the_last(self, project):
        """One view's life: times in YAML without quotes, as people write them."""
        schema = "models: [{name: mv, config: {refresh: [{every: 1 hour, aligned_to: 2026-01-01 00:30:00}, {at: 2026-11-20T10:45:00Z}]}}]"
        write_file(schema, project.project_root, "models", "schema.yml")
        self.set_model(
            project, MV.replace("name from", "name, date_format({{ mv_now() }}, 'HH:mm') as at from")
        )
        try:
            assert f"not refreshed yet; first refresh at {DAY}T10:30:00Z" in run(20)
            with pytest.raises(Exception, match=f"not refreshed yet; first refresh at {DAY}T10:30:00Z"):
                self.rows(project)
            assert f"+3 -0 at {DAY}T10:30:00Z" in run(40)
            assert {row[2] for row in self.rows(project)} == {"10:30"}
            assert (
                f"timestamp_millis({T + 30 * MINUTE}L)"
                in Path(project.project_root, "target/run/test/models/mv.sql").read_text()
            )
            self.set_source(project, MORE)
            assert f"up to date until {DAY}T10:45:00Z" in run(44) and len(self.rows(project)) == 3
            assert f"+4 -3 at {DAY}T10:45:00Z" in run(50)
            response = self.last(project)
            assert (response["kind"], response["lower"], response["upper"]) == (
                "append",
                T + 45 * MINUTE,
                T + 90 * MINUTE,
            )
            assert "read-only: would write +4 -4" in run(95, "--select", "mv", read_only=True)
        finally:
            Path(project.project_root, "models", "schema.yml").unlink()

    def test_a_changed_query_applies_as_of_the_run_or_waits_or_fails(self, project):
        hourly = configured(refresh="every 1 hour")
        self.set_model(project, hourly)
        assert f"+3 -0 at {DAY}T10:00:00Z" in run(0, "--full-refresh")
        generation = self.state(project).generation
        upper = hourly.replace("id, name", "id, upper(name) as name")
        self.set_model(project, upper.replace(")", ", on_configuration_change='continue')", 1))
        for minute in (10, 20):
            out = run(minute)
            assert (
                f"query changed; takes effect at {DAY}T11:00:00Z" in out
                and f"up to date until {DAY}T11:00:00Z" in out
            )
        assert self.rows(project)[0] == (1, "a") and "upper(" not in self.stored(project)["sql"]
        self.set_model(project, upper)
        assert f"+3 -0 at {DAY}T10:30:00Z; rebuilt: definition changed" in run(30)
        assert self.rows(project)[0] == (1, "A") and self.state(project).generation == generation + 1
        assert self.last(project)["upper"] == T + 90 * MINUTE
        assert f"up to date until {DAY}T11:30:00Z" in run(40)
        self.set_model(
            project,
            configured(refresh="every 10 minutes", on_configuration_change="fail").replace(
                "id, name", "id, upper(name) as name"
            ),
        )
        assert "its refresh differs from what the shard records" in run(
            45, "--select", "mv", expect_pass=False
        )
        self.set_model(
            project,
            configured(refresh=[{"every": "10 minutes"}]).replace("id, name", "id, upper(name) as name"),
        )
        assert (
            f"up to date until {DAY}T11:30:00Z" in run(50)
            and self.state(project).generation == generation + 1
        )
        assert self.stored(project)["refresh"] == {
            "every": [[10 * MINUTE, None]],
            "at": [],
            "at_creation": False,
        }

    @pytest.mark.seldom
    def test_the_last_refresh_and_the_one_that_never_comes(self, project):
        self.set_model(project, configured(refresh=[{"at": f"{DAY} 10:30"}, {"at_creation": True}]))
        run(0, "--full-refresh")
        assert f"+0 -0 at {DAY}T10:30:00Z (inputs unchanged); final" in run(40)
        assert (
            "final; --full-refresh starts from scratch" in run(50) and self.last(project)["kind"] == "final"
        )
        assert len(self.rows(project)) == 3
        write_file(
            configured(refresh=f"at {DAY} 10:30", pre_hook="this is not SQL"),
            project.project_root,
            "models",
            "late.sql",
        )
        try:
            out = run(60, "--select", "late", expect_pass=False)
            assert "late: the specified refreshes would never happen" in out
            assert f"the last refresh is at {DAY}T10:30:00Z, now is {DAY}T11:00:00Z" in out
        finally:
            Path(project.project_root, "models", "late.sql").unlink()

    def test_a_bad_schedule_is_refused_before_any_sql_runs(self, project):
        self.set_model(project, configured(refresh=[{"every": "1 month"}], pre_hook="this is not SQL"))
        [result] = run_dbt(["run", "--select", "mv"], expect_pass=False)
        assert (
            ".mv: invalid config `refresh`" in result.message
            and "months and years have no fixed length" in result.message
        )
        assert "{'every': '1 month'}" in result.message


@pytest.mark.not_over_thrift("statements of a Thrift server do not load the classes of Delta's jar")
class TestRowK(Base):
    """A Delta table is read at the version that was its newest at the refresh."""

    OF_RAW = "{{ config(materialized='self_correcting_mv'%s) }} select id from {{ source('s', 'raw') }}"
    START = {
        "mv.sql": OF_RAW % ", refresh='every 1 hour', incremental='always', verify='never'",
        "plain.sql": OF_RAW % "",
    }

    @pytest.fixture(scope="class")
    def models(self):
        tables = 'sources: [{name: s, schema: "{{ target.schema }}", tables: [{name: raw}]}]'
        return {**self.START, "sources.yml": tables}

    def committed(self, project, minute, statement=""):
        """Run a statement, whose commit is of so many minutes after 10:00."""
        table = f"{project.test_schema}.raw"
        kept = ("logRetentionDuration", "deletedFileRetentionDuration")
        days = ", ".join(f"'delta.{each}' = 'interval 100000 days'" for each in kept)
        create = f"create table {table} using delta tblproperties ({days}) as select 1 id"
        project.run_sql(statement.format(table) or create)
        log = self.place(project) / "_delta_log"
        os.utime(max(log.glob("*.json")), ((T + minute * MINUTE) / 1000,) * 2)

    def place(self, project):
        location = project.run_sql(f"describe detail {project.test_schema}.raw", fetch="one")[4]
        return Path(location.removeprefix("file:"))

    def ids(self, project, name="mv"):
        return [row[0] for row in self.rows(project, name)]

    def read(self, project, name="mv"):
        with ShardClient().open_reader(self.uri(project, name)) as reader:
            note = [each.note for each in reader.history() if each.kind == "append"][-1]
        return list(note.read.versions.values())

    def test_row_k_a_delta_table_is_read_as_of_the_refresh(self, project):
        self.committed(project, -10)
        run(0)
        for minute, number in ((40, 2), (50, 3), (70, 4)):
            self.committed(project, minute, f"insert into {{}} values ({number})")
        out = run(80)
        assert f"+2 -0 at {DAY}T11:00:00Z (incremental)" in out and f"+3 -0 at {DAY}T11:20:00Z" in out
        assert "as it is now" not in out
        assert (self.ids(project), self.ids(project, "plain")) == ([1, 2, 3], [1, 2, 3, 4])
        assert (self.read(project), self.read(project, "plain")) == ([2], [3])
        # the refreshes of 12:00 to 14:00 were missed
        for minute, number in ((150, 5), (285, 6), (310, 7)):
            self.committed(project, minute, f"insert into {{}} values ({number})")
        assert f"+3 -0 at {DAY}T15:00:00Z (incremental)" in run(320, "--select", "mv")
        assert self.ids(project) == [1, 2, 3, 4, 5, 6] and self.read(project) == [5]

        # what the refresh needs is gone
        old = set(self.place(project).glob("*.parquet"))
        self.committed(project, 370, "insert overwrite {} values (8), (9)")
        for file in old:
            file.unlink()
        self.set_model(project, self.START["mv.sql"].replace("always", "auto"))
        out = run(380, "--select", "mv")
        assert f"+2 -6 at {DAY}T16:00:00Z" in out
        assert "; raw as it is now: files of its version 6 are gone" in out
        assert self.ids(project) == [8, 9] and self.read(project) == [7]
        response = self.last(project)
        assert list(response["newer"].values()) == ["files of its version 6 are gone"]
        assert list(response["versions"].values()) == [7]
        project.run_sql(f"drop table {project.test_schema}.raw")
        self.committed(project, 430)
        assert f"; raw as it is now: its oldest version is of {DAY}T17:10:00Z" in run(440, "--select", "mv")
        assert self.ids(project) == [1] and self.read(project) == [0]
