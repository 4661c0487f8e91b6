"""A paused model: every run leaves it alone and says so; tasks too."""

from __future__ import annotations

import pytest
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file

from dbt.adapters.mvsink.shard import ShardClient, WriteHandle
from dbt.adapters.mvsink.shard_sql.properties import Pause, pause, release_pause
from tests.functional.materialization.base import MV, SOURCE, Base

TASK = """{{ config(materialized='continual_task', post_hook="select raise_error('a hook ran')") }}
on input {{ ref('mv') }} as (insert into {{ this }} select id from {{ ref('mv') }})"""
PAUSED = Pause("alice", 1_795_168_800_000, "wrong rates")


class TestHold(Base):
    @pytest.fixture(scope="class")
    def models(self):
        return {"source_rows.sql": SOURCE, "mv.sql": MV, "task.sql": TASK.replace("raise_error", "upper")}

    def write(self, project, name, change):
        with WriteHandle.from_read(ShardClient().open_reader(self.uri(project, name))) as handle:
            change(handle)

    def version(self, project, name):
        with ShardClient().open_reader(self.uri(project, name)) as reader:
            return reader.state().version

    def test_runs_leave_it_as_it_is_until_its_release(self, project):
        run_dbt(["run"])
        for name in ("mv", "task"):
            self.write(project, name, lambda handle: pause(handle, PAUSED))
        write_file(TASK, project.project_root, "models", "task.sql")
        before = {name: self.version(project, name) for name in ("mv", "task")}
        rows = self.rows(project)
        self.set_source(project, SOURCE.replace("(2, 'b')", "(2, 'x')"))
        for more in ([], ["--full-refresh"], ["--vars", "{mvsink_read_only: true}", "-s", "mv", "task"]):
            _, text = run_dbt_and_capture(["run", *more])
            for name in ("mv", "task"):
                assert f".{name}: paused by alice at 2026-11-20T10:00:00Z: wrong rates" in text
            assert text.count("left as it is: paused by alice") == 2
            assert self.last(project)["paused"].startswith("paused by alice")
        assert before == {name: self.version(project, name) for name in ("mv", "task")}
        assert self.rows(project) == rows
        run_dbt(["--warn-error", "run", "-s", "mv"], expect_pass=False)
        self.write(project, "mv", lambda handle: release_pause(handle, "bob"))
        run_dbt(["run", "-s", "mv"])
        assert (2, "x") in self.rows(project) and self.last(project)["paused"] == ""

    @pytest.mark.seldom
    def test_what_replaces_a_dropped_model_is_not_paused(self, project):
        run_dbt(["run", "-s", "source_rows", "mv"])
        self.write(project, "mv", lambda handle: pause(handle, PAUSED))
        with project.adapter.connection_named("drop"):
            project.adapter.mv_mark_shard_dropped("mv", self.uri(project))
        for _ in range(2):
            run_dbt(["run", "-s", "mv"])
            assert self.last(project)["paused"] == ""
