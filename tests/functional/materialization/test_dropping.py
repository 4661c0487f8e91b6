"""Ways in which a shard stops being shown: its model becomes a view, is dropped, or is gone from
the project.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from dbt.tests.util import run_dbt, run_dbt_and_capture, write_file

from dbt.adapters.mvsink.cli.main import cli
from dbt.adapters.mvsink.shard import ShardClient
from tests.functional.materialization.base import MV, SOURCE, Base, configured
from tests.functional.materialization.test_lost_shards import OLD

ALL = "{{ config(materialized='self_correcting_mv', file_format='view') }} select * from values (1, 'a') as t(id, name)"
READER = configured(refresh="every 1 hour", file_format="view").replace("source_rows", "held")
VIEW = MV.replace("self_correcting_mv", "view").replace("select id", "select id + 1 as id")
TASK = "{{ config(materialized='continual_task', file_format='view') }} on input {{ ref('mv') }} as (insert into {{ this }} select id, name from {{ ref('mv') }})"


class Dropping(Base):
    def place(self, shard_root, project, name="mv"):
        return f"{shard_root}/{project.test_schema}/{name}"

    def at(self, shard_root, project, name="mv"):
        with ShardClient().open_reader(self.place(shard_root, project, name)) as reader:
            return reader.state()

    def relations(self, project):
        return {row[1] for row in project.run_sql(f"show tables in {project.test_schema}", fetch="all")}


class TestToViewAndBack(Dropping):
    @pytest.mark.parametrize("shown", ["view", "delta"])
    def test_its_shard_is_marked_dropped_and_a_new_generation_comes_back(self, project, shard_root, shown):
        self.set_model(project, configured(file_format=shown))
        run_dbt(["run", "--full-refresh"])
        before = self.at(shard_root, project)
        self.set_model(project, VIEW.replace("select id", "select nowhere, id"))
        run_dbt(["run", "--select", "mv"], expect_pass=False)
        assert self.at(shard_root, project).dropped is None and len(self.rows(project)) == 3
        self.set_model(project, VIEW)
        run_dbt(["run", "--select", "mv", "--vars", "{mvsink_read_only: true}"], expect_pass=False)
        assert self.at(shard_root, project).dropped is None
        for _ in range(2):
            run_dbt(["run", "--select", "mv"])
            assert self.rows(project) == [(2, "a"), (3, "b"), (4, "c")]
            assert self.at(shard_root, project).dropped is not None
        self.set_model(project, configured(file_format=shown))
        run_dbt(["run", "--select", "mv"])
        after = self.at(shard_root, project)
        assert (after.dropped, after.generation) == (None, before.generation + 1)
        assert self.rows(project) == [(1, "a"), (2, "b"), (3, "c")]


class TestMovedTask(Dropping):
    START = {"mv.sql": MV, "task.sql": TASK}

    @pytest.fixture(scope="class")
    def models(self):
        return {"source_rows.sql": SOURCE, "mv.sql": MV, "task.sql": TASK}

    def test_a_task_says_that_its_shard_was_moved(self, project, shard_root):
        run_dbt(["run"])
        shard_id = self.at(shard_root, project, "task").shard_id
        project.run_sql(
            OLD.format(view=f"{project.test_schema}.task", uri=f"{shard_root}/elsewhere/task", id=shard_id)
        )
        _, out = run_dbt_and_capture(["run", "--select", "task"])
        assert f"its shard was moved from {shard_root}/elsewhere/task" in out
        shutil.rmtree(self.place(shard_root, project, "task"))
        _, out = run_dbt_and_capture(
            ["run", "--select", "task", "--full-refresh", "--vars", "{mvsink_reset: [task]}"]
        )
        assert "its history is lost" in out


class TestDropped(Dropping):
    START = {
        "mv.sql": MV,
        "held.sql": ALL,
        "reader.sql": READER,
        "gone.sql": ALL,
        "off.sql": ALL,
        "old.sql": ALL,
    }

    @pytest.fixture(scope="class")
    def models(self):
        return {"source_rows.sql": SOURCE, **self.START}

    def drop(self, project, *arguments, **options):
        place = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        return CliRunner().invoke(cli, ["drop", *place, *arguments], **options)

    def test_by_name(self, project, shard_root):
        schema = project.test_schema
        run_dbt(["run"])
        holder = str(self.at(shard_root, project, "reader").shard_id)
        assert set(self.at(shard_root, project, "held").holds) == {holder}
        for arguments, options in ((["--dry-run"], {}), ([], {"input": "n\n"}), ([], {})):
            result = self.drop(project, "reader", *arguments, **options)
            assert (
                f"releases its holds on {schema}.held" in result.output
                and "the next `dbt run` creates it again" in result.output
            )
            assert result.exit_code == (0 if arguments else 1)
        assert self.at(shard_root, project, "reader").dropped is None and "reader" in self.relations(project)

        result = self.drop(project, "reader", "--yes")
        assert (result.exit_code, f"dropped the view {schema}.reader" in result.output) == (0, True), (
            result.output
        )
        assert self.at(shard_root, project, "reader").dropped is not None and "reader" not in self.relations(
            project
        )
        assert not self.at(shard_root, project, "held").holds
        assert "was dropped at" in self.drop(project, "reader", "--yes").output
        assert self.drop(project, "unknown", "--yes").exit_code == 2

        Path(project.project_root, "models", "gone.sql").unlink()
        project.run_sql(f"drop view {schema}.gone")
        project.run_sql(f"create view {schema}.gone as select 7 as mine")
        result = self.drop(project, f"{schema}.gone", "--yes")
        assert (
            "does not show the shard, and stays" in result.output and "creates it again" not in result.output
        )
        assert self.at(shard_root, project, "gone").dropped is not None and self.rows(project, "gone") == [
            (7,)
        ]
        project.run_sql(f"drop view {schema}.gone")

    def test_orphans_are_counted_once_a_run_and_dropped_when_asked(self, project, shard_root):
        run_dbt(["run"])
        _, out = run_dbt_and_capture(["run"])
        assert "mvsink_orphans" not in out
        Path(project.project_root, "models", "gone.sql").unlink()
        self.set_config(project, "off", "enabled=false")
        self.set_config(project, "old", "alias='new'")
        project.run_sql(OLD.format(view=f"{project.test_schema}.foreign", uri=f"{shard_root}/x/y", id="1"))
        _, out = run_dbt_and_capture(["run"])
        assert (
            out.count(
                "3 published shards belong to models that are gone or renamed. To list: dbt run-operation mvsink_orphans"
            )
            == 1
        )
        _, out = run_dbt_and_capture(["run-operation", "mvsink_orphans"])
        assert (
            "off (model.test.off is gone" in out
            and f"old (model.test.old is now {project.test_schema}.new" in out
            and "3 orphaned shards" in out
            and "gone" in self.relations(project)
        )
        _, out = run_dbt_and_capture(["run-operation", "mvsink_orphans", "--args", "{drop: true}"])
        assert out.count("dropped: ") == 3 and "3 orphaned shards dropped" in out
        assert {"gone", "off", "old"}.isdisjoint(self.relations(project)) and {
            "mv",
            "held",
            "foreign",
            "new",
        } <= self.relations(project)
        assert all(self.at(shard_root, project, name).dropped for name in ("gone", "off", "old"))
        assert self.at(shard_root, project, "new").dropped is None
        _, out = run_dbt_and_capture(["run", "--select", "held"])
        assert "are gone" not in out and "is gone" not in out
        run_dbt(["run-operation", "mvsink_orphans", "--args", "{drop: perhaps}"], expect_pass=False)

    def set_config(self, project, model, config):
        text = ALL.replace("self_correcting_mv'", f"self_correcting_mv', {config}")
        write_file(text, project.project_root, "models", f"{model}.sql")
